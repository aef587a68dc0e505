"""What the readers share: values of any form, times, skipped messages, and replies that hold more than one message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.transfer.formats import moment

#: Later than any date in seconds since 1970: these are milliseconds.
_MILLISECONDS = 10**11


def an_object(value: Any, *, required: bool = False) -> Mapping[str, Any]:
    return value if _is(value, Mapping, required) else {}


def objects(value: Any, *, required: bool = False) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if _is(value, list, required) else []


def _is(value: Any, kind: type, required: bool) -> bool:
    """``required``: raises :class:`ImportFailed` where something else is there."""
    if required and value is not None and not isinstance(value, kind):
        raise ImportFailed("its messages are not in the form of its format.")
    return isinstance(value, kind)


def unused(value: Any, used: Mapping[str, Any]) -> str:
    """The id, or one like it where another message has it."""
    own = an_id(value) or f"message {len(used) + 1}"
    return f"{own} {len(used) + 1}" if own in used else own


def a_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def an_id(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def joined(texts: Iterable[Any], between: str = "\n\n") -> str:
    return between.join(text for text in texts if isinstance(text, str) and text.strip())


def text_in(value: Any) -> str:
    """The text of what tools gave back and of contents: a text, a list of parts with texts, or another value's JSON."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, list):
        return joined((item if isinstance(item, str) else an_object(item).get("text") for item in value), "\n")
    return json.dumps(value, ensure_ascii=False)


def time_of(*values: Any) -> str | None:
    """The first value that is a time: ISO 8601, seconds or milliseconds since 1970."""
    for value in values:
        is_number = isinstance(value, int | float) or a_text(value).replace(".", "", 1).isdecimal()
        seconds = float(value) if is_number else value
        try:
            if (read := moment(seconds / 1000 if is_number and seconds > _MILLISECONDS else seconds)) is not None:
                return read.isoformat()
        except InvalidMessage:
            continue
    return None


def bridged(parents: Mapping[str, str | None], skipped: Iterable[str] = ()) -> dict[str, str | None]:
    """Those that are not skipped, each with the next one above it that is not skipped either."""
    left_out = set(skipped)
    above: dict[str, str | None] = {}
    for own in parents:
        if own not in left_out:
            next_above, seen = parents[own], set()
            while next_above in left_out and next_above not in seen:
                seen.add(next_above)
                next_above = parents.get(next_above)
            above[own] = None if next_above in left_out else next_above
    return above


def file_of(kind: str, name: Any, mime: Any = None, url: Any = None) -> dict[str, Any]:
    """An attachment by its name, with its address only where anybody can reach it."""
    is_public = isinstance(url, str) and url.startswith(("data:", "http://", "https://"))
    given = {"mime_type": mime if "/" in a_text(mime) else "", "url": url if is_public else ""}
    return {"type": kind, "name": a_text(name) or kind, **{key: item for key, item in given.items() if item}}


def kind_of(mime: Any) -> str:
    return next((kind for kind in ("image", "audio") if a_text(mime).startswith(kind)), "file")


def a_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": an_id(call_id), "type": "function", "function": {"name": a_text(name) or "tool", "arguments": text}}


def messages_of_turn(
    own_id: str, parent: str | None, message: Mapping[str, Any], pieces: Iterable[tuple[str, Any]]
) -> list[dict[str, Any]]:
    """One message of theirs as ours: texts and calls, the results of these, what follows, and so on.

    ``pieces``, in order: ("text", a text), ("reasoning", a text), ("call", a call), ("result", keys of a tool's
    message), ("at", the time of what follows). The last message keeps the id, so what followed follows it; the last
    that is no result has the rest of ``message``.
    """
    made: list[dict[str, Any]] = []
    base = {key: message[key] for key in ("role", "created_at", "model") if key in message}
    for kind, piece in pieces:
        if kind == "at":
            base["created_at"] = piece
        if kind == "at" or (kind == "text" and not piece.strip()):
            continue
        if kind == "result":
            made.append({**piece, "role": "tool", "created_at": piece.get("created_at") or base.get("created_at")})
            continue
        if not made or made[-1]["role"] == "tool" or (made[-1]["tool_calls"] and kind != "call"):
            made.append({**base, "texts": [], "tool_calls": [], "reasoning": []})
        made[-1][{"text": "texts", "call": "tool_calls", "reasoning": "reasoning"}[kind]].append(piece)
    own = next((one for one in reversed(made) if one["role"] != "tool"), None)
    if own is None:
        own = {**base, "texts": [], "tool_calls": [], "reasoning": []}
        made.insert(0, own)
    own.update(message)
    for number, one in enumerate(made, start=1):
        if "texts" in one:
            one |= {"content": joined(one.pop("texts")), "reasoning": joined(one["reasoning"])}
            one["role"] = "assistant" if one["tool_calls"] else one["role"]
        one["id"] = own_id if one is made[-1] else f"{own_id}:{number}"
        one["parent"], parent = parent, one["id"]
    return made
