"""Builds branches for tests from a short notation, as values or as rows in the database.

``"u a(50) c t t u"`` is a user message, a reply of 50 tokens, a reply with one tool call for each ``t`` after it, the
results of these calls, and a user message. A message has 100 tokens unless a number in brackets says otherwise.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tokens import TOKENS_PER_MESSAGE
from compaction_app.values import Branch, Message, Role, Summary

_TOKEN = re.compile(r"^([uatcsd])(?:\((\d+)\))?$")
_ROLES = {
    "u": Role.USER,
    "a": Role.ASSISTANT,
    "c": Role.ASSISTANT,
    "t": Role.TOOL,
    "s": Role.SYSTEM,
    "d": Role.DEVELOPER,
}
_call_numbers = itertools.count(1)


class WordTokenCounter:
    """A ``TOKEN_COUNTER`` for tests: one token per word, so sizes can be chosen exactly."""

    def __call__(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def _parse(shorthand: str) -> list[tuple[str, int]]:
    parsed = []
    for token in shorthand.split():
        match = _TOKEN.match(token)
        if match is None:
            raise ValueError(f"{token!r} is not one of u a c t s d, optionally with a number of tokens in brackets")
        parsed.append((match[1], int(match[2] or 100)))
    return parsed


def _with_calls(parsed: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return messages with role, tokens and call ids. A ``c`` has a call for each ``t`` after it, at least one."""
    messages: list[dict[str, Any]] = []
    waiting: list[str] = []
    for index, (letter, tokens) in enumerate(parsed):
        message: dict[str, Any] = {"role": _ROLES[letter], "tokens": tokens}
        if letter == "c":
            results = len(list(itertools.takewhile(lambda item: item[0] == "t", parsed[index + 1 :])))
            waiting = [f"call_{next(_call_numbers)}" for _ in range(max(1, results))]
            message["tool_calls"] = tuple(
                {"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in waiting
            )
        elif letter == "t":
            message["tool_call_id"] = waiting.pop(0)
        messages.append(message)
    return messages


def messages_of(shorthand: str, *, first_id: int = 1, first_depth: int = 1, before: int = 0) -> list[Message]:
    """Return a chain of message values with ascending ids and depths. ``before``: the path's tokens above them."""
    made, path_tokens = [], before
    for offset, message in enumerate(_with_calls(_parse(shorthand))):
        path_tokens += message["tokens"]
        made.append(
            Message(
                id=first_id + offset,
                parent_id=first_id + offset - 1 or None,
                depth=first_depth + offset,
                role=message["role"],
                tokens=message["tokens"],
                path_tokens=path_tokens,
                content=f"message {first_id + offset}",
                tool_calls=message.get("tool_calls", ()),
                tool_call_id=message.get("tool_call_id", ""),
            )
        )
    return made


def branch_of(tail: Sequence[Message], base: Summary | None = None, *, already_compacted: bool = False) -> Branch:
    """Return a branch value with this tail."""
    last = tail[-1] if tail else None
    return Branch(
        session_id="session",
        tip_id=last.id if last else 0,
        tip_depth=last.depth if last else 0,
        tip_path_tokens=last.path_tokens if last else 0,
        base=base,
        tail=tuple(tail),
        already_compacted=already_compacted,
    )


def words(tokens: int, word: str = "word") -> str:
    """Return content whose message has ``tokens`` with :class:`WordTokenCounter`, wrapper included."""
    return " ".join([word] * (tokens - TOKENS_PER_MESSAGE))


def grow(session: ChatSession, parent: ChatMessage | None, shorthand: str, *, word: str = "word") -> list[ChatMessage]:
    """Append messages below ``parent``. Their sizes are exact with :class:`WordTokenCounter`."""
    messages = []
    for message in _with_calls(_parse(shorthand)):
        tokens = message.pop("tokens")
        # A call's name and its arguments are one word each.
        calls = message.get("tool_calls", ())
        messages.append({**message, "content": words(tokens - 2 * len(calls), word)})
    return chat.append_messages(session, parent, messages)
