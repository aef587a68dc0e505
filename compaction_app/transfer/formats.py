"""Reads conversations as trees of messages that can be stored. Pure: JSON in, values out.

The OpenAI chat format is an object with ``messages``, or the bare list; its messages are those that ``append_messages``
takes, and may have ``id`` and ``parent`` (or ``parentId``, ``parent_id`` …), which makes the list a tree. Any other
format is given as a :data:`FormatReader`, which makes this one of it.

What is wrong with a tree is mended, and noted: a ring of parents is cut, a message whose parent is not there becomes a
root.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any

from compaction_app.exceptions import ImportFailed, InvalidMessage
from compaction_app.messages.originals import PROVIDER_KEYS, bounded, messages_of
from compaction_app.messages.truncate import one_line
from compaction_app.messages.validation import check_datetime, sizes_of, storable
from compaction_app.values import Contents, MessageFields, Role

#: A conversation of another format as a document of the OpenAI chat format; None for what is not in this format.
#: Beside ``messages`` it may have ``id``, ``external_id`` (the session's), ``title``, ``model``, ``system_prompt``,
#: ``created_at``, ``metadata``, ``settings``, ``shown`` (the id of the last message of the branch shown last), and
#: ``notes``: what was left out, and how often.
FormatReader = Callable[[Mapping[str, Any]], dict[str, Any] | None]

#: Of imported sessions; the conversation's id follows, or a digest of its content.
EXTERNAL_ID_PREFIX = "import:"
LONGEST_TITLE = 255

SAID = frozenset(Contents.__annotations__)
#: Words in the names of keys, and values, that nobody said.
_TECHNICAL = frozenset(
    "id ids uuid type kind role author sender status state model slug name version time timestamp date at reason "
    "finish error endpoint lang language locale channel recipient icon avatar".split()
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NOT_SAID = re.compile(r"[\dA-Fa-f-]{8,}|\d[\d:.,TZ+ -]*|https?://\S*")

#: Read as ``append_messages`` reads them; every other key of a message goes to its metadata, so that nothing is lost.
_OPENAI_KEYS = PROVIDER_KEYS | MessageFields.__annotations__.keys() - {"external_id", "created_at", "metadata"}
#: As programs name them, the first that a message has counts.
_IDS = ("id", "message_id", "messageId")
_PARENTS = ("parent", "parent_id", "parentId", "parent_message_id", "parentMessageId")
_SYSTEM_PROMPTS = ("system_prompt", "systemPrompt", "system")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMessage:
    #: A message dict as ``chat.append_messages`` takes it.
    fields: Mapping[str, Any]
    #: Position of the parent in the conversation's messages, None for a root.
    parent: int | None
    #: For errors: "message 2".
    place: str
    redacted_at: datetime | None = None
    is_pinned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A session to store: its messages in the order of the file."""

    messages: tuple[ImportedMessage, ...]
    title: str = ""
    model: str = ""
    system_prompt: str = ""
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: The session's own.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: The conversation's in the file.
    id: str = ""
    external_id: str = ""
    #: In the file: "line 3".
    place: str = ""
    #: The last message of the branch that was shown last; None: not known.
    shown: int | None = None
    #: What was mended or left out, and how often.
    notes: Counter[str] = field(default_factory=Counter)


#: Of a document; what else it has goes to the session's metadata.
_OF_DOCUMENT = {one.name for one in fields(Conversation)} - {"place", "system_prompt"} | {"is_read"}


@contextmanager
def at(place: str) -> Iterator[None]:
    """Say which message: what reads or checks one does not know its place."""
    try:
        yield
    except InvalidMessage as error:
        raise ImportFailed(f"{place}: {error}") from error


def recognized(document: Any, readers: Iterable[FormatReader] = ()) -> Mapping[str, Any] | None:
    """The document in the OpenAI chat format; None where its format is not known. Its content tells, not a name."""
    if isinstance(document, list) and document and all(isinstance(item, dict) and "role" in item for item in document):
        return {"messages": document}
    if not isinstance(document, dict):
        return None
    for reader in readers:
        if (found := reader(document)) is not None:
            # Their database may have what ours refuse, such as a NUL.
            return {**storable(found), "is_read": True}
    return document if isinstance(document.get("messages"), list) else None


def conversation_of(document: Mapping[str, Any], *, place: str = "", max_bytes: int) -> Conversation:
    """A document of the OpenAI chat format, as :func:`recognized` has it, mended."""
    items, notes, is_read = list(document["messages"]), Counter(document.get("notes") or {}), "is_read" in document
    about = {key: document[key] for key in document if key not in _OF_DOCUMENT}
    if prompt := document.get(key := _key_in(document, _SYSTEM_PROMPTS)):
        # As the opening message, so that one rule covers both ways to write it.
        items.insert(0, {"role": Role.SYSTEM, "content": prompt})
        del about[key]
    began = read_moment(document.get("created_at"))
    found: list[tuple[dict[str, Any], dict[str, Any], str]] = []
    position: dict[str, int] = {}
    rows: list[tuple[str, bool, list[str]]] = []
    for number, item in enumerate(items, start=0 if prompt else 1):
        named = f"message {number}"
        with at(named):
            if not isinstance(item, dict):
                raise InvalidMessage(f"a message must be an object, not {json_type(item)}.")
            made = _openai_messages(item)
            others = {} if is_read else _others(item)
            keys = [key for key, one in others.items() if any(is_said for _, is_said in strings_of(one, key))]
            rows.append((str(item.get("role")), any(one.get(key) for one in made for key in SAID), keys))
            # Of several results of tools each is a message, behind the one before.
            for fields, source in zip(made, chain([item], repeat({})), strict=False):
                if (own_id := fields.get("external_id")) and position.setdefault(own_id, len(found)) < len(found):
                    notes["ids that were used before, left out"] += 1
                    fields["external_id"] = ""
                found.append((_fitted(fields, max_bytes, notes) if is_read else fields, source, named))
    require_read(rows)
    # A message without a date has the conversation's, and a conversation without one that of its first message.
    dates = (fields["created_at"] for fields, _, _ in found if fields.get("created_at"))
    began = began or next(dates, None)
    parents = [_parent(source, index, position, notes) for index, (_, source, _) in enumerate(found)]
    _cut_rings(parents, notes)
    messages = [
        ImportedMessage(
            fields={**fields, "created_at": fields.get("created_at") or began},
            parent=parent,
            place=named,
            redacted_at=read_moment(source.get("redacted_at")),
            is_pinned=source.get("pinned") is True,
        )
        for (fields, source, named), parent in zip(found, parents, strict=True)
    ]
    own_id, external_id = _text_id(document.get("id")), _text_id(document.get("external_id"))
    # Sets for training number their conversations: such an id tells none of another set's apart.
    external_id = external_id or (EXTERNAL_ID_PREFIX + own_id) * is_uuid(own_id)
    if own_id and not external_id:
        about["id"] = own_id
    metadata, settings = document.get("metadata"), document.get("settings")
    return Conversation(
        id=own_id,
        external_id=external_id,
        messages=tuple(messages),
        title=str(document.get("title") or ""),
        model=str(document.get("model") or "")[:LONGEST_TITLE],
        created_at=began,
        # Beside the messages there may be tools, and anything else that a program writes.
        metadata={**storable(about), **(metadata if isinstance(metadata, dict) else {})},
        settings=settings if isinstance(settings, dict) else {},
        place=place,
        shown=position.get(_text_id(document.get("shown"))),
        notes=notes,
    )


def require_read(rows: Iterable[tuple[str, bool, Sequence[str]]]) -> None:
    """Refuse another program's format that looks like this one: nothing that one side said was read.

    ``rows``: of each message its role, whether something was read, and the keys of texts that were not.
    """
    said: set[str] = set()
    unread: dict[str, dict[str, None]] = {}
    for role, is_said, keys in rows:
        said.update([role] if is_said else ())
        unread.setdefault(role, {}).update({} if is_said else dict.fromkeys(keys))
    for role in (Role.USER, Role.ASSISTANT):
        if role not in said and (keys := list(unread.get(role, ()))):
            named = one_line(", ".join(keys), 80)
            raise ImportFailed(
                f"nothing that the {role} said was read: this format has no texts under the keys {named}."
            )


def strings_of(value: Any, key: str = "") -> Iterator[tuple[str, bool]]:
    """Every string in the JSON value of a key, and whether somebody may have said it."""
    waiting = [(value, _is_technical(key))]
    while waiting:
        one, is_technical = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [(item, is_technical or _is_technical(name)) for name, item in one.items()]
        elif isinstance(one, list):
            waiting += [(item, is_technical) for item in one]
        elif isinstance(one, str) and one.strip():
            yield one, not is_technical and not _NOT_SAID.fullmatch(one)


def _is_technical(key: str) -> bool:
    return any(word.lower() in _TECHNICAL for word in _WORD.findall(key))


def _fitted(fields: dict[str, Any], max_bytes: int, notes: Counter[str]) -> dict[str, Any]:
    """The message in at most ``max_bytes`` if it can be had without its text: a picture is only named then."""
    for name in ("name", "model"):
        fields[name] = str(fields.get(name) or "")[:LONGEST_TITLE]
    at = fields.pop("created_at", None)
    if sum(sizes_of(fields).values()) > max_bytes:
        notes["messages that are too large with what is beside their text"] += 1
        fields = bounded({"original": None, "attachments": None, **fields, "metadata": {}}, max_bytes)
    return {**fields, "created_at": at}


def _parent(item: Mapping[str, Any], index: int, position: Mapping[str, int], notes: Counter[str]) -> int | None:
    """Return the position of the message's parent: the named one, else the message before."""
    if not any(key in item for key in _PARENTS):
        return index - 1 if index else None
    named = _text_id(item.get(_key_in(item, _PARENTS)))
    if named and named not in position:
        notes["messages without their parent, first ones now"] += 1
    return position.get(named) if named else None


def _cut_rings(parents: list[int | None], notes: Counter[str]) -> None:
    """Make the first message of each ring of parents a root. In place."""
    done: set[int] = set()
    for start in range(len(parents)):
        walked: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in done and at not in walked:
            walked[at] = None
            at = parents[at]
        if at in walked:
            ring = list(walked)
            parents[min(ring[ring.index(at) :])] = None
            notes["rings of parents, cut"] += 1
        done.update(walked)


def _key_in(item: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first key that has a value."""
    return next((key for key in keys if item.get(key) not in (None, "")), None)


def _others(item: Mapping[str, Any]) -> dict[str, Any]:
    """What of a message no field is for."""
    used = {*_OPENAI_KEYS, _key_in(item, _IDS), _key_in(item, _PARENTS), "created_at", "metadata", "redacted_at"}
    return {
        key: value
        for key, value in item.items()
        if key not in used and value is not None and not (key == "pinned" and value is True)
    }


def _openai_messages(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    metadata = item.get("metadata") or {}
    given = {key: item[key] for key in _OPENAI_KEYS if item.get(key) is not None}
    given |= {
        "external_id": _text_id(item.get(_key_in(item, _IDS))),
        "created_at": read_moment(item.get("created_at")),
        # What is of another type is refused with every other field.
        "metadata": {**_others(item), **metadata} if isinstance(metadata, dict) else metadata,
    }
    return messages_of(given, "host")


def _text_id(value: Any) -> str:
    return "" if value is None else str(value)


def json_type(value: Any) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def is_uuid(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def read_moment(value: Any) -> datetime | None:
    """A time from ISO 8601 or seconds since 1970; UTC if it has no zone. Raises :class:`InvalidMessage`."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            read = datetime.fromtimestamp(value, UTC)
        else:
            read = datetime.fromisoformat(value)
            read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        shown = repr(value)[:60]
        raise InvalidMessage(f"{shown} is not a time; write ISO 8601 or seconds since 1970.") from error
    check_datetime(read)
    return read


def children_of(messages: Iterable[ImportedMessage]) -> dict[int | None, list[int]]:
    """Return the positions of the children of each position; the roots are those of None."""
    below: dict[int | None, list[int]] = {}
    for index, message in enumerate(messages):
        below.setdefault(message.parent, []).append(index)
    return below
