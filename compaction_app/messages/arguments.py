"""What callers pass, checked where it enters: :class:`InvalidMessage` names the argument and says what belongs there.

Values that are stored are judged by ``validation``; here are the ones that only steer a call. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compaction_app.exceptions import InvalidMessage


def check_list_of_dicts(value: Any, name: str, belongs: str) -> None:
    """A list or tuple of dicts; a text is no list of them, though it can be iterated."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InvalidMessage(f"{name} must be a list of {belongs}, not {_kind(value)}.", field=name)
    for position, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise InvalidMessage(f"{name}[{position}] must be one of {belongs}, not {_kind(item)}.", field=name)


def check_dict(value: Any, name: str, hint: str = "") -> None:
    if value is not None and not isinstance(value, Mapping):
        ending = f" {hint}" if hint else ""
        raise InvalidMessage(f"{name} must be a dict, not {_kind(value)}.{ending}", field=name)


def check_whole_number(value: Any, name: str, low: int = 0) -> None:
    """A whole number, ``low`` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        shown = value if isinstance(value, int | float) else _kind(value)
        raise InvalidMessage(f"{name} must be {low} or more, a whole number, not {shown}.", field=name)


def check_reasoning(value: Any) -> None:
    """What providers call reasoning: a text, blocks of it, or one block."""
    if value is not None and not isinstance(value, str | Mapping | list | tuple):
        raise InvalidMessage(
            f"reasoning must be a text, a dict or a list of blocks, not {_kind(value)}.", field="reasoning"
        )


def check_asking(model: Any, tools: Any, reserved_tokens: Any) -> None:
    """What budgets depend on, as far as its type goes; None is nothing given."""
    if model is not None and not isinstance(model, str):
        raise InvalidMessage(f"model must be the name of a model, not {_kind(model)}.", field="model")
    if tools is not None:
        check_list_of_dicts(tools, "tools", "tool schemas (dicts)")
    if reserved_tokens is not None:
        check_whole_number(reserved_tokens, "reserved_tokens")


def check_summarize(summarize: Any) -> None:
    """A function, or an object with a method ``summarize``, that answers when it is called."""
    if summarize is None:
        return
    ask = getattr(summarize, "summarize", summarize)
    if isinstance(summarize, type) or not callable(ask):
        raise InvalidMessage(
            f"summarize must be a function or an object with a method summarize, not {_thing(summarize)}.",
            field="summarize",
        )


def checked_count(count: Any) -> Callable[[Sequence[str]], list[int]]:
    """A counter of texts, whose answers are looked at: one number for each text."""
    if isinstance(count, type) or not callable(count):
        raise InvalidMessage(f"count must be a function of a list of texts, not {_thing(count)}.", field="count")

    def counted(texts: Sequence[str]) -> list[int]:
        numbers = count(texts)
        right = isinstance(numbers, Sequence) and len(numbers) == len(texts)
        if not right or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in numbers):
            raise InvalidMessage(
                f"count must give back a whole number for each of the texts in its list, not {_kind(numbers)}.",
                field="count",
            )
        return list(numbers)

    return counted


def check_params(params: Mapping[str, Any]) -> None:
    """Parameters of a chat completion that this app sets itself, so that they would be overwritten without a word."""
    if params.get("stream"):
        raise InvalidMessage("complete() returns a whole reply; stream() is what streams one.", field="stream")
    if "messages" in params:
        raise InvalidMessage(
            "What is sent is the branch at the tip: store messages with append_message, pass others as contributions=.",
            field="messages",
        )


def check_client(client: Any, other: type, hint: str) -> None:
    """A client that can be called, and not of the ``other`` kind (awaited or not), which ``hint`` explains."""
    if client is None:
        return
    create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
    if isinstance(client, other) or not callable(create):
        raise InvalidMessage(f"client can not be {_kind(client)} here: {hint}", field="client")


def _thing(value: Any) -> str:
    return f"the class {value.__name__}: pass an instance" if isinstance(value, type) else _kind(value)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of the type {type(value).__name__}"
