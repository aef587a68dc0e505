"""What the readers share: JSON of any form, skipped messages, and replies that hold more than one message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.transfer.formats import moment

#: Later than any date in seconds since 1970: these are milliseconds.
_MILLISECONDS = 10**11


class Json:
    """An object of an export: a key of another type than is asked for is as absent, and so is all of another value."""

    def __init__(self, value: Any) -> None:
        self.given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}

    def __bool__(self) -> bool:
        return bool(self.given)

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def get(self, key: str) -> Any:
        return self.given.get(key)

    def text(self, *keys: str) -> str:
        """Of the first key that has one."""
        return next((one for key in keys if isinstance(one := self.get(key), str) and one), "")

    def id(self, key: str) -> str | None:
        return str(self.get(key)) if isinstance(self.get(key), str | int) and self.get(key) != "" else None

    def named(self, form: str, *keys: str) -> dict[str, str]:
        """What tells the conversation from every other one."""
        own = next(filter(None, map(self.id, keys)), "")
        return {"id": own, "external_id": f"{form}:{own}"} if own else {}

    def time(self, *keys: str) -> str | None:
        """The first that is a time: ISO 8601, seconds or milliseconds since 1970."""
        for value in map(self.get, keys):
            is_number = isinstance(value, int | float) or str(value).replace(".", "", 1).isdecimal()
            seconds: Any = float(value) if is_number else value
            try:
                read = moment(seconds / 1000 if is_number and seconds > _MILLISECONDS else seconds)
            except InvalidMessage:
                continue
            if read is not None:
                return read.isoformat()
        return None

    def inner(self, key: str) -> Json:
        return Json(self.get(key))

    def items(self, key: str) -> list[Any]:
        return given if isinstance(given := self.get(key), list) else []

    def inners(self, key: str) -> list[Json]:
        return [Json(item) for item in self.items(key) if isinstance(item, Mapping)]

    def kept(self, *keys: str) -> dict[str, Any]:
        """What there is of these, as it is."""
        return {key: self.get(key) for key in keys if self.get(key) not in (None, "", [], {}, False)}

    def require(self, key: str, kind: type) -> None:
        if not isinstance(self.get(key), kind | None):
            raise ImportFailed(f"its {key} is not in the form of its format.")


def joined(texts: Iterable[Any], between: str = "\n\n") -> str:
    return between.join(text for text in texts if isinstance(text, str) and text.strip())


def text_in(value: Any) -> str:
    """The text of what tools gave back and of contents: a text, a list of parts with texts, or another value's JSON."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, list):
        return joined((item if isinstance(item, str) else Json(item).text("text") for item in value), "\n")
    return json.dumps(value, ensure_ascii=False)


def unused(own: str | None, used: Mapping[str, Any]) -> str:
    """The id, or one like it where there is none or another message has it."""
    own = own or f"message {len(used) + 1}"
    return f"{own} {len(used) + 1}" if own in used else own


def bridged(parents: Mapping[str, str | None], skipped: Iterable[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Those that are not skipped, each with the next one above it that is not skipped either."""
    left_out = set(skipped)
    for own in parents:
        if own not in left_out:
            above, seen = parents[own], set()
            while above in left_out and above not in seen:
                seen.add(above)
                above = parents.get(above)
            yield own, None if above in left_out else above


def file_of(name: str, mime: str = "", url: str = "", kind: str = "") -> dict[str, Any]:
    """An attachment by its name, with its address only where anybody can reach it."""
    kind = kind or next((one for one in ("image", "audio") if mime.startswith(one)), "file")
    given = {
        "mime_type": mime if "/" in mime else "",
        "url": url if url.startswith(("data:", "http://", "https://")) else "",
    }
    return {"type": kind, "name": name or kind, **{key: item for key, item in given.items() if item}}


def a_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name or "tool", "arguments": text}}


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

    def begin() -> dict[str, Any]:
        made.append({**base, "text": [], "call": [], "reasoning": []})
        return made[-1]

    for kind, piece in pieces:
        if kind == "at":
            base["created_at"] = piece
        elif kind == "result":
            made.append({**piece, "role": "tool", "created_at": piece.get("created_at") or base.get("created_at")})
        elif piece and (kind != "text" or piece.strip()):
            last: dict[str, Any] = made[-1] if made else {"role": "tool"}
            goes_on = last["role"] != "tool" and (kind == "call" or not last["call"])
            (last if goes_on else begin())[kind].append(piece)
    own = next((one for one in reversed(made) if one["role"] != "tool"), None) or begin()
    own.update(message)
    for number, one in enumerate(made, start=1):
        if one["role"] != "tool":
            calls = one.pop("call")
            one |= {"content": joined(one.pop("text")), "reasoning": joined(one["reasoning"]), "tool_calls": calls}
            one["role"] = "assistant" if calls else one["role"]
        one["id"] = own_id if one is made[-1] else f"{own_id}:{number}"
        one["parent"], parent = parent, one["id"]
    return made
