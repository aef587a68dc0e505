"""Server-sent events, as the stream for pages and the gateway send them: the events, the end, and the response."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from django.http import StreamingHttpResponse

from compaction_app.messages.validation import make_storable

#: A comment, where nothing else is sent: a proxy ends a connection that is silent for a minute or so.
KEEP_ALIVE = ": keep-alive\n\n"
DONE = "data: [DONE]\n\n"


def event(value: Any) -> str:
    """One event with the JSON of a value; a text is JSON already. Half a character, which UTF-8 has not, is U+FFFD."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data: {make_storable(written)}\n\n"


def response(events: Iterator[str] | AsyncIterator[str], headers: Mapping[str, str]) -> StreamingHttpResponse:
    # Neither a proxy nor a CDN may keep events back until there are many.
    unkept = {"X-Accel-Buffering": "no", "Cache-Control": "no-store, no-transform"}
    return StreamingHttpResponse(events, content_type="text/event-stream", headers={**unkept, **headers})
