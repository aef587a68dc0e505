"""What the readers share: JSON of any form, skipped messages, and replies that hold more than one message."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.files import LARGEST, TOO_LARGE, LinesOfSession
from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.messages.originals import items_joined, messages_of
from compaction_app.transfer.formats import SAID, read_moment, require_read, strings_of

#: Later than any date in seconds since 1970: these are milliseconds.
_MILLISECONDS = 10**11
#: Characters of JSON that a session's metadata takes of one key: a file's text is counted instead.
_LARGE = 10_000
_SHOWN_KEY = 60
#: Of a question that becomes the title.
TITLE_CHARACTERS = 80


class Json:
    """An object of an export: a key of another type than is asked for is as absent, and so is all of another value.

    It knows which of its keys were read. The texts of the others are stored (``rest``), or counted (``unread``).
    """

    __slots__ = ("_inner", "_read", "given")

    def __init__(self, value: Any) -> None:
        self.given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        self._read: set[str] = set()
        self._inner: dict[str, list[Json]] = {}

    def __bool__(self) -> bool:
        return bool(self.given)

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def get(self, key: str) -> Any:
        self._read.add(key)
        return self.given.get(key)

    def whole(self) -> Mapping[str, Any]:
        self._read.update(self.given)
        return self.given

    def text(self, *keys: str) -> str:
        """Of the first key that has one."""
        found = next((key for key in keys if isinstance(one := self.given.get(key), str) and one), "")
        return self.get(found) if found else ""

    def id(self, key: str) -> str | None:
        value = self.given.get(key)
        return str(self.get(key)) if isinstance(value, str | int) and type(value) is not bool and value != "" else None

    def named(self, form: str, *keys: str) -> dict[str, str]:
        """What tells the conversation from every other one."""
        own = next(filter(None, map(self.id, keys)), "")
        return {"id": own, "external_id": f"{form}:{own}"} if own else {}

    def time(self, *keys: str) -> str | None:
        """The first that is a time: ISO 8601, seconds or milliseconds since 1970."""
        for key in keys:
            value: Any = self.given.get(key)
            try:
                if isinstance(value, str) and value.replace(".", "", 1).isdecimal():
                    value = float(value)
                is_late = isinstance(value, int | float) and value > _MILLISECONDS
                read = read_moment(value / 1000 if is_late else value)
            except (InvalidMessage, OverflowError):
                continue
            if read is not None:
                self._read.add(key)
                return read.isoformat()
        return None

    def inner(self, key: str) -> Json:
        value = self.given.get(key)
        return self._inner.setdefault(key, [Json(value)])[0] if isinstance(value, Mapping) else Json(None)

    def items(self, key: str) -> list[Any]:
        return self.get(key) if isinstance(self.given.get(key), list) else []

    def inners(self, key: str) -> list[Json]:
        value = self.given.get(key)
        if isinstance(value, list) and key not in self._inner:
            self._inner[key] = [Json(one) for one in value if isinstance(one, Mapping)]
        return self._inner[key] if isinstance(value, list) else []

    def rows(self, key: str) -> list[Json]:
        """The objects of a list, each of which is read by itself."""
        found, self._inner[key] = self.given.get(key), [Json(None)]
        return [Json(one) for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []

    def said(self, key: str, between: str = "\n") -> str:
        """The text of a content or of a tool's result: a text, parts that have texts, or another value's JSON."""
        for part in self.inners(key):
            part.text("text")
        return text_in(self.get(key), between)

    def kept(self, *keys: str) -> dict[str, Any]:
        """What there is of these, as it is."""
        given = {key: self.get(key) for key in keys}
        return {key: value for key, value in given.items() if value or (value == 0 and value is not False)}

    def rest(self) -> dict[str, Any]:
        """What nothing has read, for the metadata, but for what is large."""
        others = [key for key in self.given if key not in self._read and key not in self._inner]
        return self.kept(*(key for key in others if len(json.dumps(self.given[key])) <= _LARGE))

    def unread(self, *known: str) -> Iterator[tuple[str, bool]]:
        """The keys, at any depth, of strings that nothing has read, and whether somebody may have said them.

        ``known``: strings that are stored from elsewhere.
        """
        for key, value in self.given.items():
            inner = self._inner.get(key, [])
            for one in inner:
                yield from one.unread(*known)
            if key not in self._read:
                left = value if isinstance(value, list) else [value]
                found = list(strings_of([one for one in left if not (inner and isinstance(one, Mapping))], key))
                if any(text not in known for text, _ in found):
                    yield key, any(is_said for _, is_said in found)

    def require(self, key: str, kind: type) -> None:
        if not isinstance(self.given.get(key), kind | None):
            raise ImportFailed(f"its {key} is not in the form of its format.")


def joined(texts: Iterable[Any], between: str = "\n\n") -> str:
    return between.join(text for text in texts if isinstance(text, str) and text.strip())


def text_in(value: Any, between: str = "\n") -> str:
    """The text of what tools gave back and of contents: a text, a list of parts with texts, or another value's JSON."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, list):
        texts = (Json(one).text("text") if isinstance(one, Mapping) else text_in(one) for one in value)
        return joined(texts, between)
    return json.dumps(value, ensure_ascii=False)


class Rows:
    """Their messages as they are read: what of them is not stored is counted by its key."""

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        #: By their ids, in order.
        self.placed: dict[str, Json] = {}
        self.parents: dict[str, str | None] = {}
        self._found: list[tuple[str, bool, list[str]]] = []

    def place(self, row: Json, own: str | None, parent: str | None) -> str:
        """Its id, or one like it where it has none or another one has it."""
        own = own or f"message {len(self.placed) + 1}"
        while own in self.placed:
            own = f"{own} {len(self.placed) + 1}"
        self.placed[own], self.parents[own] = row, parent
        return own

    def add(self, row: Json, role: str, messages: Iterable[Mapping[str, Any]], *known: str, rest: Any = ()) -> None:
        """``messages``: what was made of it. ``known``: strings stored from elsewhere. ``rest``: what metadata has."""
        unread = list(row.unread(*known))
        self.notes.update(f"not stored: {key[:_SHOWN_KEY]}" for key, _ in unread)
        is_said = any(message.get(key) for message in messages for key in SAID)
        self._found.append((role, is_said, [key for key, is_text in (*unread, *Json(rest).unread()) if is_text]))

    def done(self, document: Json) -> Counter[str]:
        """What to note. Raises :class:`ImportFailed` where all that somebody said was under keys that are not read."""
        require_read(self._found)
        self.notes.update(f"not stored: {key[:_SHOWN_KEY]}" for key, _ in document.unread())
        return +self.notes


def lines_of(session: LinesOfSession, notes: Counter[str], kinds: Container[str]) -> Iterator[tuple[int, str, Json]]:
    """The number and the type of each line, and the line. Those of other ``kinds`` are counted."""
    size = 0
    for number, length, value in session["lines"]:
        row = Json(value)
        kind = row.text("type") if row else "?"
        if kind in kinds:
            size += length
            if size > LARGEST:
                raise ImportFailed(TOO_LARGE)
        else:
            left_out = f"of the type {kind[:_SHOWN_KEY] or '?'}" if row else "that cannot be read"
            notes[f"lines {left_out}, left out"] += 1
        yield number, kind, row


def as_they_came(nodes: Mapping[Any, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages of a provider's API as ours; what the fields cannot give back stays beside them.

    Of each node its ``id``, its ``parent`` (a key of ``nodes``), the ``items``, and what else is ``about`` it.
    """
    messages: list[dict[str, Any]] = []
    for node in nodes.values():
        items = items_joined(map(_as_text, node["items"]) if len(node["items"]) == 1 else node["items"])
        made = [one for _, joined in items for one in messages_of(joined, "model")]
        made[-1] |= node["about"]
        parent = nodes[node["parent"]]["id"] if node["parent"] in nodes else None
        for number, one in enumerate(made, start=1):
            own = node["id"] if one is made[-1] else f"{node['id']}:{number}"
            one |= {"id": own, "parent": parent, "created_at": node["about"]["created_at"]}
            parent = own
        messages += made
    return messages


def _as_text(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """One text alone as the fields give it back, so that it is not stored twice."""
    content = item.get("content")
    part: Any = content[0] if isinstance(content, list) and len(content) == 1 else None
    is_text = isinstance(part, Mapping) and part.keys() <= {"type", "text"} and isinstance(part.get("text"), str)
    is_alone = is_text and item.keys() <= {"type", "role", "content"}
    return {"role": item["role"], "content": part["text"]} if is_alone and "role" in item else item


class WaitingCalls:
    """Calls of one message that wait for a result, which names its call, or its tool, or neither."""

    def __init__(self) -> None:
        #: The tools of calls, in their order: under each tool, and under None all of them.
        self._waiting: defaultdict[str | None, OrderedDict[str, str]] = defaultdict(OrderedDict)

    def add(self, call_id: str, name: str = "") -> None:
        if call_id not in self._waiting[None]:
            for key in (name, None):
                self._waiting[key][call_id] = name

    def answered(self, call_id: str | None, name: str = "") -> str | None:
        """The call with this id, else the first of this tool, else the first."""
        waiting = self._waiting[None]
        found = call_id if call_id in waiting else next(iter(self._waiting[name] or waiting), None)
        if found is not None:
            del self._waiting[waiting.pop(found)][found]
        return found


def repeats(text: str, pieces: Iterable[tuple[str, Any]]) -> bool:
    """Whether a text says what the pieces say, but for blanks."""
    said = "".join(word for kind, piece in pieces if kind == "text" for word in piece.split())
    return "".join(text.split()) in said


def bridged(parents: Mapping[str, str | None], skipped: Iterable[str] = ()) -> Iterator[tuple[str, str | None]]:
    """Those that are not skipped, each with the next one above it that is not skipped either."""
    left_out = set(skipped)
    #: Of each that is skipped, what is above it: many may hang on one long chain.
    found: dict[str | None, str | None] = {}
    for own in parents:
        if own not in left_out:
            passed, above = [], parents[own]
            while above in left_out and above not in found:
                # In a ring nothing is above.
                found[above] = None
                passed.append(above)
                above = parents.get(above)
            above = found.get(above, above)
            found.update(dict.fromkeys(passed, above))
            yield own, above


def is_address(url: Any) -> bool:
    return isinstance(url, str) and url.startswith(("data:", "http://", "https://"))


def file_of(name: str, mime: str = "", url: str = "", kind: str = "", asset: str = "") -> dict[str, Any]:
    """An attachment by its name, with its address where anybody can reach it, else with what the product calls it."""
    kind = kind or next((one for one in ("image", "audio") if mime.startswith(one)), "file")
    given = {
        "mime_type": mime if "/" in mime else "",
        "url": url if is_address(url) else "",
        "asset_id": asset or ("" if is_address(url) else url),
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
    message). The last message keeps the id, so what followed follows it; the last that is no result has the rest of
    ``message``.
    """
    made: list[dict[str, Any]] = []
    base = {key: message[key] for key in ("role", "created_at", "model") if key in message}

    def begin() -> dict[str, Any]:
        made.append({**base, "text": [], "call": [], "reasoning": []})
        return made[-1]

    for kind, piece in pieces:
        if kind == "result":
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
