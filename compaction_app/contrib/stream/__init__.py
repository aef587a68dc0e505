"""A stream for pages: what ``useChat`` of the AI SDK and assistant-ui ask, over the JSON API (docs/frameworks.md).

    from compaction_app.api.mounting import api_urls
    from compaction_app.contrib.stream import stream_router

    path("api/v1/", include((api_urls(extra=[stream_router(turn)]), "compaction_api")))

``turn(request, session, extra)`` returns the keywords of ``chat.stream`` for a request: ``model``, ``tools``.
``asked`` finds what a request asks in the tree, ``replies`` makes the reply, ``parts`` writes both in the SDK's form.
"""

from compaction_app.contrib.stream.router import Turn, stream_router

__all__ = ["Turn", "stream_router"]
