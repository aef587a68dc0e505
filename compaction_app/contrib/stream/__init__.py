"""A stream for pages: what ``useChat`` of the AI SDK and assistant-ui ask, over the JSON API (docs/frameworks.md).

``asked`` finds what a request asks in the tree, ``replies`` makes the reply, ``parts`` writes both in the SDK's form.
"""

from compaction_app.contrib.stream.router import Turn, stream_router

__all__ = ["Turn", "stream_router"]
