"""Builds branches for tests from a short notation.

``"u a(50) c t t u"`` is a user message, a reply of 50 tokens, a reply with one tool call for each ``t`` after it, the
results of these calls, and a user message. A message has 100 tokens unless a number in brackets says otherwise.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Any

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tokens import TOKENS_PER_MESSAGE
from compaction_app.values import Role

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


def words(tokens: int, word: str = "word") -> str:
    """Return content whose message has ``tokens`` with :class:`WordTokenCounter`, wrapper included."""
    return " ".join([word] * (tokens - TOKENS_PER_MESSAGE))


def grow(session: ChatSession, parent: ChatMessage | None, shorthand: str, *, word: str = "word") -> list[ChatMessage]:
    """Append messages below ``parent``. Their sizes are exact with :class:`WordTokenCounter`."""
    return chat.append_messages(session, parent, openai_messages(shorthand, word))


def openai_messages(shorthand: str, word: str = "word") -> list[dict[str, Any]]:
    """Return the messages in the OpenAI chat format. A ``c`` has a call for each ``t`` after it, at least one."""
    messages: list[dict[str, Any]] = []
    waiting: list[str] = []
    written = shorthand.split()
    for index, token in enumerate(written):
        match = _TOKEN.match(token)
        if match is None:
            raise ValueError(f"{token!r} is not one of u a c t s d, optionally with a number of tokens in brackets")
        message: dict[str, Any] = {"role": _ROLES[match[1]]}
        tokens = int(match[2] or 100)
        if match[1] == "c":
            results = len(list(itertools.takewhile(lambda item: item.startswith("t"), written[index + 1 :])))
            waiting = [f"call_{next(_call_numbers)}" for _ in range(max(1, results))]
            function = {"name": "look", "arguments": "{}"}
            message["tool_calls"] = [{"id": call, "type": "function", "function": function} for call in waiting]
            # A call's name and its arguments are one word each.
            tokens -= 2 * len(waiting)
        elif match[1] == "t":
            message["tool_call_id"] = waiting.pop(0)
        messages.append({**message, "content": words(tokens, word)})
    return messages
