"""What two requests have in common of one message, whatever a client does to it in between.

A list is known by a chain of digests: each is made of a message and the digest above it. A message is known by itself
by its *own* digest, which says less of it: clients join texts, replace pictures and leave text beside calls out. All
digests are made under a key of ``SECRET_KEY``, and of the owner. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import takewhile
from typing import Any

from django.utils.crypto import salted_hmac

from compaction_app.messages.originals import messages_of
from compaction_app.values import Role

Fields = dict[str, Any]

_SALT = "compaction_app.contrib.gateway"
_READ = ("role", "content", "refusal", "tool_calls", "tool_call_id", "name")
#: Numbers from here on are other ones in JavaScript.
_EXACT = 2**53
#: Open WebUI shows reasoning in such a block, or takes it out of the text that a model put it in.
_DETAILS, _END_OF_DETAILS = '<details type="reasoning"', "</details>"
_THOUGHT = re.compile(r"\A\s*<(think(?:ing)?|reason(?:ing)?|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
#: Letters that a client writes before a reply of ours: a name, a time.
_MOST_BEFORE = 40
#: An id of this many characters belongs to one call only, so it weighs as much as this many letters.
_LONG_ID, _UNIQUE = 9, 200


def fields_of(sent: Mapping[str, Any]) -> Fields:
    """A message of a client in the keywords of ``append_message``.

    Only what the chat format says is read; reasoning that the client sends back is that of a reply which we have.
    """
    [read] = messages_of({key: sent[key] for key in _READ if sent.get(key) is not None}, "client")
    calls = [{key: call[key] for key in ("id", "type", "function")} for call in read["tool_calls"]]
    return {**read, "tool_calls": calls}


def digests_of(messages: Sequence[Mapping[str, Any]], start: str) -> Iterator[str]:
    """``start``: the digest of the message above, or the owner's id above a first one."""
    for message in messages:
        start = _digest(start, _identity(message))
        yield start


def own_digest(message: Mapping[str, Any], owner_id: Any, *, is_reply: bool = False) -> str:
    """Of the message whatever is above it. ``is_reply``: a model gave it; what a client invents is another message."""
    calls = _calls(message)
    said = calls or _letters(message)
    return _digest(f"own {owner_id}", json.dumps([message["role"], is_reply, message.get("tool_call_id") or "", said]))


def _digest(start: str, identity: str) -> str:
    return salted_hmac(_SALT, start + identity, algorithm="sha256").hexdigest()


def _identity(message: Mapping[str, Any]) -> str:
    role, text = message["role"], message.get("content") or ""
    files = [{key: one.get(key) for key in ("url", "file_id")} for one in message.get("attachments") or ()]
    if role == Role.ASSISTANT:
        # Clients join its parts, and show a picture in a form of their own.
        text, files = _shown(text), []
    elif role == Role.TOOL:
        text = json.dumps(_value(text.strip()), sort_keys=True)
    return json.dumps([role, text.strip(), _calls(message), message.get("tool_call_id") or "", files], sort_keys=True)


def _calls(message: Mapping[str, Any]) -> list[Any]:
    calls = message.get("tool_calls") or ()
    # LangChain writes those first that it could read.
    return sorted(
        [call["id"], call["function"]["name"], json.dumps(_value(call["function"].get("arguments")), sort_keys=True)]
        for call in calls
    )


def _value(written: Any) -> Any:
    """The value that a client means, however it writes it: as JSON, or as JSON in a string."""
    try:
        for _ in range(2):
            written = json.loads(written) if isinstance(written, str) and written.strip() else written
    except (ValueError, RecursionError):
        pass
    try:
        return _plain(written) or {}
    except RecursionError:
        return repr(written)


def _plain(value: Any) -> Any:
    """With each number in the one form that JavaScript and Python agree about."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        return int(number) if abs(number) < _EXACT and number.is_integer() else repr(number)
    return value


def _shown(text: str) -> str:
    """What clients have in common of a reply's text: without reasoning, on one line."""
    *blocks, rest = text.split(_END_OF_DETAILS)
    kept = [block.partition(_DETAILS)[0] if _DETAILS in block else block + _END_OF_DETAILS for block in blocks]
    return " ".join(_THOUGHT.sub("", "".join([*kept, rest])).split())


def _letters(message: Mapping[str, Any]) -> str:
    text = message.get("content") or ""
    return "".join((_shown(text) if message["role"] == Role.ASSISTANT else text).split())


def is_same_reply(sent: Mapping[str, Any], stored: Mapping[str, Any], *, is_stopped: bool) -> bool:
    """Whether a client means a reply of ours that it did not write as it is.

    It mended arguments; it left out what comes before the answer, or wrote a name there; or it stopped the reply, and
    has not seen its end.
    """
    if calls := _calls(sent):
        return [call[:2] for call in calls] == [call[:2] for call in _calls(stored)]
    one, whole = _letters(sent), _letters(stored)
    if is_stopped and whole.startswith(one):
        return True
    has_name = bool(whole) and one.endswith(whole) and len(one) - len(whole) <= _MOST_BEFORE
    return has_name or bool(one and whole.endswith(one))


class Likeness(IntEnum):
    """How a message that a client changed is like the stored one."""

    OTHER = 0
    #: Half of the shorter one is in both: the same question, with another reminder before or behind it.
    ALIKE = 1
    #: It has more words: a reminder, a time.
    MORE = 2
    #: It has fewer: a client that added a reminder has dropped it.
    LESS = 3
    SAME = 4


def likeness(sent: Mapping[str, Any], stored: Mapping[str, Any]) -> Likeness:
    one, other = _letters(sent), _letters(stored)
    if one == other:
        return Likeness.SAME
    if not one or not other:
        return Likeness.OTHER
    if one in other:
        return Likeness.LESS
    if other in one:
        return Likeness.MORE
    pairs = (zip(one, other, strict=False), zip(reversed(one), reversed(other), strict=False))
    same = sum(1 for ends in pairs for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    return Likeness.ALIKE if 2 * same >= min(len(one), len(other)) else Likeness.OTHER


def weight_of(message: Mapping[str, Any]) -> int:
    """How much it says that few other messages say: its letters, and ids of calls that are too long to come twice."""
    ids = sum(_UNIQUE for call in message.get("tool_calls") or () if len(call["id"]) >= _LONG_ID)
    return ids + len(_letters(message))
