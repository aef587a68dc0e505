"""Checks of messages, sessions and arguments. Each raises :class:`InvalidMessage` naming the field, before any write.

SQLite accepts much that PostgreSQL refuses (NUL in text, lone surrogates, NUL inside JSON). Both are refused here, so
that the same input has the same outcome on both databases. Pure.
"""

import base64
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from compaction_app.exceptions import InvalidMessage
from compaction_app.values import Role

#: Of ``original``: OpenAI's chat format is ``openai``.
FORMATS = ("openai", "openai-responses", "anthropic", "pydantic-ai", "langchain")
#: The largest value of the database's id column.
MAX_ID = 2**63 - 1
#: JSON nested deeper than this is refused: parsers recurse.
MAX_JSON_DEPTH = 100
#: Characters of a key that the place of a value shows, and of an id.
_SHOWN_KEY, _SHOWN_ID = 40, 255
#: Far more tokens than any model reads at once: a larger number is wrong, and a column would overflow.
MAX_REPORTED = 10**8
#: Not every JSON parser reads larger whole numbers; the largest float has 309 digits.
_MAX_BITS = 1024
#: One year less than ``datetime`` allows at either end, so that any time zone can show it.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
#: A NUL or half a character, or an escape for one.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]|\\\\u(?:0000|[dD][89a-fA-F])")


class Columns(NamedTuple):
    """What is checked of a table's rows, by the names of its columns: see ``models.columns.checks_of``."""

    #: The most characters of each text; None: any number.
    texts: Mapping[str, int | None]
    json: Sequence[str]
    #: Those that count for MAX_MESSAGE_BYTES.
    large: Sequence[str]


def validate_message(message: Mapping[str, Any], columns: Columns, *, max_bytes: int) -> None:
    """Check one message (field name → value) by itself, regardless of its place in the tree."""
    role = message.get("role")
    if not isinstance(role, str) or role not in set(Role):
        raise InvalidMessage(f"Unknown role {repr(role)[:40]}; use one of {', '.join(Role)}.", field="role")
    for name, longest in columns.texts.items():
        check_text(message.get(name, ""), name, longest=longest)
    _check_calls(role, message.get("tool_calls"))
    if role == Role.TOOL and not message.get("tool_call_id"):
        raise InvalidMessage("A tool message needs the tool_call_id of the call it answers.", field="tool_call_id")
    if role != Role.TOOL and message.get("tool_call_id"):
        raise InvalidMessage("Only a tool message has a tool_call_id.", field="tool_call_id")
    if (attachments := message.get("attachments")) is not None:
        check_list_of_dicts(attachments, "attachments", "dicts")
        if not all(one.get("tokens") is None or _is_whole_number(one["tokens"]) for one in attachments):
            raise InvalidMessage("tokens of an attachment must be a whole number, 0 or more.", field="attachments")
    if not isinstance(message.get("metadata", {}), dict):
        raise InvalidMessage("metadata must be a dict.", field="metadata")
    for name in columns.json:
        check_json(message.get(name), name)
    check_original(message.get("original"))
    sizes = sizes_of({name: message.get(name) for name in columns.large})
    if (size := sum(sizes.values())) > max_bytes:
        words = f"The message has {size:,} bytes; MAX_MESSAGE_BYTES allows {max_bytes:,}."
        raise InvalidMessage(words, field=max(sizes, key=sizes.__getitem__))


@contextmanager
def named(*place: int, external_id: Any = "") -> Iterator[None]:
    """Of several messages: errors say which one they mean, by the host's own id, or from 0."""
    try:
        yield
    except InvalidMessage as error:
        error.external_id = error.external_id or (external_id if isinstance(external_id, str) else "")
        shown = [f"message {error.external_id[:_SHOWN_ID]!r}: "] * len(place) if error.external_id else []
        error.args = ("".join(shown or [f"messages[{number}]: " for number in place]) + str(error),)
        raise


def validate_session(session: Mapping[str, Any], columns: Columns) -> None:
    """Check the texts and JSON of a session (field name → value); missing fields are not checked."""
    for name, longest in columns.texts.items():
        check_text(str(session.get(name, "")), name, longest=longest)
    for name in columns.json:
        check_json(session.get(name), name)


def check_json(value: Any, field: str) -> None:
    """Refuse what not every database accepts as JSON, naming the place: ``metadata['a'][0]``."""
    if wrong := _wrong_json(value, field, MAX_JSON_DEPTH):
        raise InvalidMessage(f"{wrong}.", field=field)


def _wrong_json(value: Any, place: str, levels: int) -> str:
    """The place of the first wrong value, and what is wrong with it; "" if none is."""
    if levels < 0:
        return f"{place} is nested deeper than {MAX_JSON_DEPTH} levels"
    if isinstance(value, dict | list | tuple):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(step, str):
                return f"{place} has the key {step!r}; JSON keys are strings"
            if isinstance(step, str) and (wrong := _wrong_text(step)):
                return f"{place} has a key that {wrong}"
            if wrong := _wrong_json(item, f"{place}[{repr(step)[:_SHOWN_KEY]}]", levels - 1):
                return wrong
        return ""
    wrong = ""
    if isinstance(value, str):
        wrong = _wrong_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        wrong = f"contains {value}, which is not JSON"
    elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
        wrong = f"contains a number of more than {_MAX_BITS} bits"
    elif not isinstance(value, int | float | None):
        wrong = f"contains a value of type {type(value).__name__}, which is not JSON"
    return f"{place} {wrong}" if wrong else ""


def canonical(value: Any) -> Any:
    """JSON with sorted keys: PostgreSQL reorders them, and the same history must give the same bytes."""
    if isinstance(value, Mapping):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


def check_text(text: Any, field: str, *, longest: int | None = None) -> None:
    """Refuse what not every database accepts as text."""
    _check_type(isinstance(text, str), text, field, "a string")
    if longest is not None and len(text) > longest:
        raise InvalidMessage(f"{field} is longer than {longest} characters.", field=field)
    if wrong := _wrong_text(text):
        raise InvalidMessage(f"{field} {wrong}.", field=field)


def _wrong_text(text: str) -> str:
    if "\x00" in text:
        return f"contains a NUL character at position {text.index(chr(0))}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"contains a lone surrogate at position {error.start}"
    return ""


def check_datetime(value: Any) -> None:
    """A ``created_at`` that both databases can store and every time zone can show; None is allowed."""
    _check_type(value is None or isinstance(value, datetime), value, "created_at", "a datetime")
    # A naive value is read in TIME_ZONE, which is less than a day from UTC.
    if value is not None and not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        words = f"created_at must be between the years {_FIRST_YEAR} and {_LAST_YEAR}."
        raise InvalidMessage(words, field="created_at")


def is_storable(text: str) -> bool:
    """Whether every database accepts this text: no NUL, no lone surrogates."""
    return not _wrong_text(text)


def visible(text: str) -> str:
    """The text, stripped, without format characters such as those of no width."""
    return "".join(character for character in text if unicodedata.category(character) != "Cf").strip()


def make_storable(text: str) -> str:
    """The text with what no database accepts replaced, for what a provider or a host's code returned.

    Two halves of a character that stand together are the character; a half alone is U+FFFD.
    """
    if is_storable(text):
        return text
    halves = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-16", "surrogatepass")
    return halves.decode("utf-16", "replace")


def storable(value: Any, depth: int = 0) -> Any:
    """The JSON of any value that both databases take, as near to it as can be: also of JSON that was read from a text,
    whose escapes may stand for what they do not take.

    Of a client's own objects it has what came: the keys that the client does not know, and none that it made up.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return make_storable(value)
    if isinstance(value, int | float):
        small = math.isfinite(value) if isinstance(value, float) else value.bit_length() <= 64
        return value if small else str(value)[:80] if isinstance(value, float) else hex(value)[:80]
    # Inside ``original`` there are levels above it.
    if depth > MAX_JSON_DEPTH - 5:
        return None
    if isinstance(value, list | tuple):
        return [storable(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(came := getattr(value, "model_fields_set", None), set):
        known = {name: getattr(value, name) for name in type(value).model_fields if name in came}
        value = {**known, **(value.model_extra or {})}
    elif not isinstance(value, Mapping):
        value = getattr(value, "__dict__", None) or {"text": str(value)}
    return {make_storable(str(key)): storable(item, depth + 1) for key, item in value.items()}


def read_json(text: str) -> Any:
    """The object or list that a text is in JSON, its texts storable; None where it is none."""
    written = text.strip()
    try:
        found = json.loads(written) if written[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    return storable(found) if _UNSTORABLE.search(text) else found


def as_id(text: str) -> int | None:
    """The id of a row that a text is in digits; None for any other text."""
    # The length first: Python refuses to read thousands of digits.
    is_id = len(text) < 20 and text.isascii() and text.isdecimal() and int(text) <= MAX_ID
    return int(text) if is_id else None


def token_count(value: Any) -> int | None:
    """A number of tokens that a provider or a host's code reports; None if it is not one."""
    return value if _is_whole_number(value) and value <= MAX_REPORTED else None


def _check_calls(role: Any, calls: Any) -> None:
    def refuse(words: str) -> NoReturn:
        raise InvalidMessage(words, field="tool_calls")

    check_list_of_dicts(calls or [], "tool_calls", "dicts")
    if calls and role != Role.ASSISTANT:
        refuse("Only an assistant message has tool_calls.")
    seen: set[str] = set()
    for call in calls or ():
        if not isinstance(call.get("id"), str) or not call["id"]:
            refuse("Each tool call needs an id.")
        function, which = call.get("function"), repr(call["id"])
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
            refuse(f"Tool call {which} needs a function with a name.")
        if not isinstance(function.get("arguments", ""), str):
            refuse(f"Arguments of tool call {which} must be a string.")
        if call["id"] in seen:
            refuse(f"Two tool calls have the id {which}.")
        seen.add(call["id"])


def check_original(original: Any) -> None:
    if original is None:
        return
    keys = set(original) if isinstance(original, Mapping) else set()
    texts = all(isinstance(original[key], str) for key in keys - {"data"})
    if keys - {"model"} != {"format", "endpoint", "data"} or not texts or original["format"] not in FORMATS:
        words = "original must be {'format': …, 'endpoint': a text, 'model': a text (may be absent), 'data': what came}"
        raise InvalidMessage(f"{words}, with a format of {', '.join(FORMATS)}.", field="original")


def sizes_of(message: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of each part: of a text as it is, else of its JSON."""
    return {
        name: len((item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)).encode())
        for name, item in message.items()
        if item
    }


# -- arguments of public functions ---------------------------------------------------------------------------


def _check_type(is_right: bool, value: Any, name: str, what: str, hint: str = "") -> None:
    """``what`` the value must be, and a ``hint``, for the error."""
    if not is_right:
        raise InvalidMessage(f"{name} must be {what}, not {_type_of(value)}. {hint}".rstrip(), field=name)


def check_list_of_dicts(value: Any, name: str, items: str) -> None:
    """``items`` says what the list contains, for the error."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    _check_type(is_list, value, name, f"a list of {items}")
    for position, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise InvalidMessage(f"{name} must be a list of {items}; item {position} is {_type_of(item)}.", field=name)


def check_dict(value: Any, name: str, hint: str = "") -> None:
    _check_type(value is None or isinstance(value, Mapping), value, name, "a dict", hint)


def check_whole_number(value: Any, name: str, low: int = 0) -> None:
    if not _is_whole_number(value, low):
        shown = value if isinstance(value, int | float) else _type_of(value)
        raise InvalidMessage(f"{name} must be a whole number, {low} or more, not {shown}.", field=name)


def check_reasoning(value: Any) -> None:
    """What providers call reasoning: a string, a list of blocks, or one block."""
    is_right = value is None or isinstance(value, str | Mapping | list | tuple)
    _check_type(is_right, value, "reasoning", "a string, a dict or a list of blocks")


def check_budget_arguments(model: Any, tools: Any, reserved_tokens: Any) -> None:
    """The arguments that a budget depends on; None means not given."""
    _check_type(model is None or isinstance(model, str), model, "model", "the name of a model")
    if tools is not None:
        check_list_of_dicts(tools, "tools", "tool schemas (dicts)")
    if reserved_tokens is not None:
        check_whole_number(reserved_tokens, "reserved_tokens")


def _is_whole_number(value: Any, low: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _type_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__
