"""A reply put together from the chunks of a stream."""

from __future__ import annotations

from typing import Any

from compaction_app.conversation.chat_model import (
    Reply,
    first_choice,
    reasoning_of,
    reported_by,
    require_something,
    usage_of,
)


class ReplyDraft:
    """What has come of a reply so far. Chunks of any shape are taken: what is not understood adds nothing."""

    def __init__(self) -> None:
        #: Of the first choice; "" until the provider says how the reply ended.
        self.finish_reason = ""
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[Any] = []
        self._calls: list[_CallDraft] = []
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._context_management: Any = None

    @property
    def text(self) -> str:
        """The content so far; the refusal where there is one instead."""
        return "".join(self._content) or "".join(self._refusal)

    def add(self, chunk: Any) -> None:
        self._usage = usage_of(chunk) or self._usage
        self._model = self._model or _text(getattr(chunk, "model", None))
        choice = first_choice(chunk)
        self._context_management = reported_by(chunk, getattr(choice, "delta", None)) or self._context_management
        if choice is None:
            return
        self._add_delta(getattr(choice, "delta", None))
        self.finish_reason = _text(getattr(choice, "finish_reason", None)) or self.finish_reason

    def _add_delta(self, delta: Any) -> None:
        self._content.append(_text(getattr(delta, "content", None)))
        self._refusal.append(_text(getattr(delta, "refusal", None)))
        if reasoning := reasoning_of(delta):
            self._reasoning.append(reasoning)
        for call in getattr(delta, "tool_calls", None) or ():
            self._add_call(call)

    def _add_call(self, delta: Any) -> None:
        index, call_id = getattr(delta, "index", None), _text(getattr(delta, "id", None))
        started = next((call for call in reversed(self._calls) if index is None or call.index == index), None)
        # Some servers send every call whole under index 0, or without one: another id is another call.
        if started is None or (call_id and started.id and call_id != started.id):
            started = _CallDraft(index)
            self._calls.append(started)
        started.add(call_id, getattr(delta, "function", None))

    def reply(self) -> Reply:
        """The whole reply; :class:`EmptyReply` if there is nothing in it."""
        reply = Reply(
            content=self.text,
            tool_calls=[call.whole() for call in self._calls],
            reasoning=_joined(self._reasoning),
            usage=self._usage,
            model=self._model,
            context_management=self._context_management,
        )
        return require_something(reply, self.finish_reason)


class _CallDraft:
    """A tool call whose arguments come in pieces."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []

    def add(self, call_id: str, function: Any) -> None:
        self.id = self.id or call_id
        # The name comes whole, with the first piece; a few servers repeat it with each one.
        self._name = self._name or _text(getattr(function, "name", None))
        self._arguments.append(_text(getattr(function, "arguments", None)))

    def whole(self) -> dict[str, Any]:
        function = {"name": self._name, "arguments": "".join(self._arguments)}
        return {"id": self.id, "type": "function", "function": function}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _joined(parts: list[Any]) -> Any:
    """Reasoning as it would have come in one piece: text joined, lists of blocks one after the other."""
    if not parts:
        return None
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return [block for part in parts for block in (part if isinstance(part, list) else [part])]
