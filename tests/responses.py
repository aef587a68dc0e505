"""The Responses API of the scripted server, for what frameworks ask there."""

from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from compaction_app.testing.exchange import Body, Exchange
from compaction_app.testing.server import ScriptedOpenAIServer


class ResponsesExchange(Exchange):
    """A request to ``/v1/responses``; its input counts as messages."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: Body, **options: Any) -> None:
        given = body["input"]
        messages = [{"content": given}] if isinstance(given, str) else given
        super().__init__(handler, {**body, "messages": messages}, **options)

    def send_message(
        self, message: Mapping[str, Any], *, finish_reason: str, usage: Mapping[str, Any] | None = None
    ) -> None:
        counted = self.count_usage(message) if usage is None else usage
        response = response_of(message, counted, number=self.number, model=self.model)
        if not self.body.get("stream"):
            self.send_json(200, response)
            return
        self.start_stream()
        for sequence, event in enumerate(events_of(response)):
            self.send_event({"sequence_number": sequence, **event})
        self.write(b"0\r\n\r\n")


class OpenAIServer(ScriptedOpenAIServer):
    paths = ScriptedOpenAIServer.paths | {"/v1/responses": ResponsesExchange}


def response_of(message: Mapping[str, Any], usage: Mapping[str, Any], *, number: int, model: str) -> Body:
    """A reply of the Responses API: the message's ``items`` as they are, its text and calls as items behind them."""
    items = [dict(item) for item in message.get("items") or ()]
    if text := message.get("content"):
        part = {"type": "output_text", "text": text, "annotations": []}
        items.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [part]})
    for call in message.get("tool_calls") or ():
        named = {"call_id": call["id"], **call["function"]}
        items.append({"id": f"fc_{number}_{len(items)}", "type": "function_call", **named})
    sent, written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "completed",
        "output": [{"status": "completed", **item} for item in items],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": sent,
            "output_tokens": written,
            "total_tokens": sent + written,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def events_of(response: Mapping[str, Any]) -> Iterator[Body]:
    """The events that clients wait for: each item, the text in one piece, and the whole at the end."""
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index}
        yield {"type": "response.output_item.added", **place, "item": item}
        for part in item.get("content") or () if item["type"] == "message" else ():
            of = {"item_id": item["id"], **place, "content_index": 0}
            yield {"type": "response.content_part.added", **of, "part": {**part, "text": ""}}
            yield {"type": "response.output_text.delta", **of, "delta": part["text"], "logprobs": []}
            yield {"type": "response.output_text.done", **of, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **of, "part": part}
        yield {"type": "response.output_item.done", **place, "item": item}
    yield {"type": "response.completed", "response": response}
