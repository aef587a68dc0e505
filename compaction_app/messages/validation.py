"""What may be stored as a message. Pure; raises :class:`InvalidMessage` naming the field, before any write.

SQLite accepts much that PostgreSQL refuses (NUL in text, lone surrogates, NUL inside JSON): both are refused
here, so that the same input has the same fate on both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.values import Role

#: JSON nested deeper than this is refused: parsers recurse.
MAX_JSON_DEPTH = 100
_SHORT_TEXT = 255
_TEXTS = ("content", "tool_call_id", "name", "external_id", "idempotency_key", "model")
_JSON = ("tool_calls", "reasoning", "attachments", "usage", "metadata", "sent_context")
_SESSION_TEXTS = {
    "title": _SHORT_TEXT,
    "model": _SHORT_TEXT,
    "external_id": _SHORT_TEXT,
    "system_prompt": None,
}
_SESSION_JSON = ("settings", "token_calibration", "metadata")
#: Of the way to a place in JSON an error shows so many steps, and so many characters of a key.
_SHOWN_STEPS = 8
_SHOWN_KEY = 40
#: Whole numbers beyond this are no JSON that every reader takes; the largest float has 309 digits.
_MAX_BITS = 1024
#: One year less than a datetime takes at either end: no conversion to another time zone leaves what it takes.
_FIRST_YEAR, _LAST_YEAR = 2, 9998


def validate_message(message: Mapping[str, Any], *, max_bytes: int) -> None:
    """Check one message (field name → value) by itself, apart from its place in the tree."""
    role = message.get("role")
    if not isinstance(role, str) or role not in set(Role):
        raise InvalidMessage(f"Unknown role {role!r}; use one of {', '.join(Role)}.", field="role")
    content = message.get("content")
    if not isinstance(content, str):
        raise InvalidMessage(f"content must be a text, not {type(content).__name__}.", field="content")
    for name in _TEXTS:
        check_text(message.get(name, ""), name, longest=None if name == "content" else _SHORT_TEXT)
    _check_calls(role, message.get("tool_calls"))
    if role == Role.TOOL and not message.get("tool_call_id"):
        raise InvalidMessage("A tool message needs the tool_call_id of the call it answers.", field="tool_call_id")
    if role != Role.TOOL and message.get("tool_call_id"):
        raise InvalidMessage("Only a tool message has a tool_call_id.", field="tool_call_id")
    _check_attachments(message.get("attachments"))
    if not isinstance(message.get("metadata", {}), dict):
        raise InvalidMessage("metadata must be a dict.", field="metadata")
    for name in _JSON:
        check_json(message.get(name), name)
    _check_size(message, max_bytes)


def validate_session(session: Mapping[str, Any]) -> None:
    """Check the texts and JSON of a session (field name → value); fields that are not there are not checked."""
    for name, longest in _SESSION_TEXTS.items():
        check_text(str(session.get(name, "")), name, longest=longest)
    for name in _SESSION_JSON:
        check_json(session.get(name), name)


def open_calls_after(open_calls: Sequence[str], message: Mapping[str, Any]) -> list[str]:
    """The calls that wait for a result after ``message``, given those that waited before it.

    Raises where a tool message answers none of them: a call is closed for good once all its results stand or
    any message but a result follows it.
    """
    if message.get("role") != Role.TOOL:
        return [str(call.get("id")) for call in message.get("tool_calls") or ()]
    answered = str(message.get("tool_call_id"))
    if answered not in open_calls:
        waiting = ", ".join(open_calls) or "none"
        raise InvalidMessage(
            f"No open call {answered!r} here; open calls on this path: {waiting}.", field="tool_call_id"
        )
    return [call for call in open_calls if call != answered]


def check_json(value: Any, field: str) -> None:
    """Refuse what JSON columns take on one database and not on the other, naming the place: ``metadata.a[0]``."""
    if (found := _wrong_json(value, 0)) is not None:
        steps, wrong = found
        raise InvalidMessage(f"{_place(field, steps[::-1])} {wrong}.", field=field)


def _wrong_json(value: Any, depth: int) -> tuple[list[str | int], str] | None:
    """The keys and positions that lead to what is wrong, the innermost first, and what it is."""
    if depth > MAX_JSON_DEPTH:
        return [], f"is nested deeper than {MAX_JSON_DEPTH} levels"
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return [], f"has the key {key!r}; JSON keys are texts"
            if wrong := _wrong_text(key):
                return [], f"has a key that {wrong}"
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return None if (wrong := _wrong_scalar(value)) is None else ([], wrong)
    for step, item in items:
        if (found := _wrong_json(item, depth + 1)) is not None:
            found[0].append(step)
            return found
    return None


def _wrong_scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return _wrong_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"holds {value}, which is not JSON"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"holds a number of more than {_MAX_BITS} bits"
    if value is not None and not isinstance(value, bool | int | float):
        return f"holds a {type(value).__name__}, which is not JSON"
    return None


def _place(field: str, steps: Sequence[str | int]) -> str:
    """As people write it: ``metadata.a[0]``; a key that is no plain word in quotes; what is long is cut short."""
    return field + "".join(map(_step, steps[:_SHOWN_STEPS])) + "…" * (len(steps) > _SHOWN_STEPS)


def _step(step: str | int) -> str:
    if isinstance(step, str) and step.isidentifier() and len(step) <= _SHOWN_KEY:
        return f".{step}"
    cut = step[:_SHOWN_KEY] + "…" * (len(step) > _SHOWN_KEY) if isinstance(step, str) else step
    return f"[{json.dumps(cut, ensure_ascii=False)}]"


def canonical(value: Any) -> Any:
    """JSON with its keys in one order: jsonb reorders them, and the same history must give the same bytes."""
    if isinstance(value, Mapping):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


def check_text(text: Any, field: str, *, longest: int | None = None) -> None:
    """Refuse what text columns take on one database and not on the other."""
    if not isinstance(text, str):
        raise InvalidMessage(f"{field} must be a text, not {type(text).__name__}.", field=field)
    if longest is not None and len(text) > longest:
        raise InvalidMessage(f"{field} is longer than {longest} characters.", field=field)
    if wrong := _wrong_text(text):
        raise InvalidMessage(f"{field} {wrong}.", field=field)


def _wrong_text(text: str) -> str | None:
    if "\x00" in text:
        return f"holds a NUL character at position {text.index(chr(0))}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate at position {error.start}"
    return None


def check_moment(value: Any, field: str = "created_at") -> None:
    """A moment that both databases keep and that every time zone can show; None is none given."""
    if value is None:
        return
    if not isinstance(value, datetime):
        raise InvalidMessage(f"{field} must be a datetime, not {type(value).__name__}.", field=field)
    # A naive one is taken to be in the zone of TIME_ZONE; none is more than a day from UTC, and these years hold that.
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise InvalidMessage(f"{field} must lie in the years {_FIRST_YEAR} to {_LAST_YEAR}.", field=field)


def is_storable(text: str) -> bool:
    """Whether every database takes this text: it holds neither NUL nor lone surrogates."""
    return _wrong_text(text) is None


def make_storable(text: str) -> str:
    """What a provider or a host's code said, as far as it can be kept."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _check_calls(role: Any, calls: Any) -> None:
    if calls is None:
        return
    if not isinstance(calls, list | tuple):
        raise InvalidMessage("tool_calls must be a list.", field="tool_calls")
    if calls and role != Role.ASSISTANT:
        raise InvalidMessage("Only an assistant message has tool_calls.", field="tool_calls")
    seen: list[str] = []
    for call in calls:
        _check_call(call, seen)


def _check_call(call: Any, seen: list[str]) -> None:
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
        raise InvalidMessage("Each tool call needs an id.", field="tool_calls")
    if call["id"] in seen:
        raise InvalidMessage(f"Two tool calls have the id {call['id']!r}.", field="tool_calls")
    seen.append(call["id"])
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise InvalidMessage(f"Tool call {call['id']!r} needs a function with a name.", field="tool_calls")
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        raise InvalidMessage(f"Arguments of tool call {call['id']!r} must be a JSON text.", field="tool_calls")
    if arguments:
        _check_arguments(call["id"], arguments)


def _check_arguments(call_id: str, arguments: str) -> None:
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(
            f"Arguments of tool call {call_id!r} are not JSON: {error}.", field="tool_calls"
        ) from error
    check_json(parsed, "tool_calls")


def _check_attachments(attachments: Any) -> None:
    if attachments is None:
        return
    if not isinstance(attachments, list | tuple) or any(not isinstance(a, Mapping) for a in attachments):
        raise InvalidMessage("attachments must be a list of dicts.", field="attachments")
    for attachment in attachments:
        tokens = attachment.get("tokens")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0):
            raise InvalidMessage("tokens of an attachment must be a whole number, 0 or more.", field="attachments")


def _check_size(message: Mapping[str, Any], max_bytes: int) -> None:
    sizes = {"content": len(message["content"].encode())}
    for name in _JSON:
        if message.get(name):
            sizes[name] = len(json.dumps(message[name], ensure_ascii=False).encode())
    size = sum(sizes.values())
    if size > max_bytes:
        raise InvalidMessage(
            f"The message has {size:,} bytes; MAX_MESSAGE_BYTES allows {max_bytes:,}.",
            field=max(sizes, key=sizes.__getitem__),
        )
