"""Server-sent events, as the stream for pages and the gateway send them: the events, the end, and the response.

And what they are made of: the text and the reasoning in a provider's chunks.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal

from django.http import StreamingHttpResponse

from compaction_app.messages.originals import read_message
from compaction_app.messages.transcript import reasoning_text
from compaction_app.messages.validation import make_storable

#: A comment, where nothing else is sent: a proxy ends a connection that is silent for a minute or so.
KEEP_ALIVE = ": keep-alive\n\n"
DONE = "data: [DONE]\n\n"


def event(value: Any, name: str = "") -> str:
    """One event with the JSON of a value; a text is JSON already. Half a character, which UTF-8 has not, is U+FFFD."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {make_storable(written)}\n\n"


def pieces_of(chunk: Any) -> Iterator[tuple[Literal["reasoning", "text"], str]]:
    """The reasoning and the text that a chunk of a chat completion brings."""
    choice = next(iter(getattr(chunk, "choices", None) or ()), None)
    delta = getattr(choice, "delta", None)
    if thought := reasoning_text(getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)):
        yield "reasoning", thought
    content = getattr(delta, "content", None) or getattr(delta, "refusal", None)
    if text := content if isinstance(content, str) else read_message({"content": content}, writer="model").text():
        yield "text", text


def response(events: Iterator[str] | AsyncIterator[str], headers: Mapping[str, str]) -> StreamingHttpResponse:
    # Neither a proxy nor a CDN may keep events back until there are many.
    unkept = {"X-Accel-Buffering": "no", "Cache-Control": "no-store, no-transform"}
    return StreamingHttpResponse(events, content_type="text/event-stream", headers={**unkept, **headers})
