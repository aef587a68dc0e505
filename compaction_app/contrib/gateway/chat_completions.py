"""``POST chat/completions``: a list of messages, and a completion or its chunks."""

import uuid
from collections.abc import Mapping
from typing import Any

from compaction_app.contrib import sse
from compaction_app.contrib.gateway.asked import USUAL, Find, Form, GatewayError, read_messages
from compaction_app.contrib.gateway.identity import Fields
from compaction_app.models import ChatMessage


class ChatCompletions(Form):
    read = frozenset(("messages", "model", "stream", "stream_options", "tools"))
    usual = {
        **USUAL,
        "n": (1,),
        "logprobs": (False,),
        "store": (False,),
        "modalities": (["text"], []),
        "functions": ([],),
        "function_call": ("auto", "none"),
    }

    def messages(self, find: Find) -> list[Fields]:
        return read_messages(self.body.get("messages"))

    def whole(self, reply: ChatMessage) -> dict[str, Any]:
        """As a provider gives one, with what came beside its text."""
        original = reply.original or {}
        message = {**(original.get("data") or {}), "role": reply.role, "content": reply.content or None}
        if reply.reasoning and not original:
            message["reasoning"] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = reply.tool_calls
        ending = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
        return {
            "id": f"chatcmpl-{reply.pk or uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(reply.created_at.timestamp()),
            "model": reply.model,
            "choices": [{"index": 0, "message": message, "finish_reason": ending, "logprobs": None}],
            "usage": reply.usage or None,
        }

    def chunk(self, chunk: Any) -> str:
        asked = self.body.get("stream_options")
        if not chunk.choices and not (isinstance(asked, Mapping) and asked.get("include_usage")):
            return ""
        return sse.event(chunk.model_dump_json(exclude_unset=True, warnings=False))

    def ended(self, reply: ChatMessage) -> str:
        return sse.DONE

    def failed(self, error: GatewayError) -> str:
        return sse.event(error.content)
