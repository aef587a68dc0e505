"""What two requests have in common of one message, whatever a client does to it in between.

A list is known by a chain of digests: each is made of a message and the digest above it. A message is known by itself
by its *own* digest, which says less of it: clients join texts, replace pictures and leave text beside calls out. All
digests are made under a key of ``SECRET_KEY``, and of the owner. Pure.
"""

import json
import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from itertools import takewhile
from typing import Any

from django.utils.crypto import salted_hmac

from compaction_app.messages.originals import messages_of
from compaction_app.values import Role

Fields = dict[str, Any]

INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)
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


class Said:
    """What a message says, however a client writes it. Made once for all that it is compared with."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message, self.role = message, message["role"]

    @cached_property
    def text(self) -> str:
        text = self.message.get("content") or ""
        # Clients join a reply's parts.
        return _shown(text) if self.role == Role.ASSISTANT else text.strip()

    @cached_property
    def letters(self) -> str:
        return "".join(self.text.split())

    @cached_property
    def calls(self) -> list[Any]:
        made = [(call["id"], call["function"]) for call in self.message.get("tool_calls") or ()]
        # LangChain writes those first that it could read.
        return sorted([call_id, one["name"], _json(_value(one.get("arguments")))] for call_id, one in made)

    @cached_property
    def weight(self) -> int:
        """How much that few other messages say: its letters, and ids of calls that are too long to come twice."""
        return len(self.letters) + sum(_UNIQUE for call_id, *_ in self.calls if len(call_id) >= _LONG_ID)

    def digest(self, above: str) -> str:
        """Of it and all above it. ``above``: the digest of the message there, or above a first one the owner's id."""
        text, files = self.text, self.message.get("attachments") or ()
        if self.role == Role.ASSISTANT:
            # Clients show a picture in a form of their own.
            files = ()
        elif self.role == Role.TOOL:
            text = _json(_value(text))
        named = [{key: one.get(key) for key in ("url", "file_id")} for one in files]
        return _digest(above, _json([self.role, text, self.calls, self._answered, named]))

    def own_digest(self, owner_id: Any, *, is_reply: bool = False) -> str:
        """Whatever is above it. ``is_reply``: a model gave it; what a client invents is another message."""
        return _digest(f"own {owner_id}", json.dumps([self.role, is_reply, self._answered, self.calls or self.letters]))

    @property
    def _answered(self) -> str:
        return self.message.get("tool_call_id") or ""


def _digest(start: str, identity: str) -> str:
    return salted_hmac(_SALT, start + identity, algorithm="sha256").hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


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


def is_same_reply(sent: Said, stored: Said, *, is_stopped: bool) -> bool:
    """Whether a client means a reply of ours that it did not write as it is.

    It mended arguments; it left out what comes before the answer, or wrote a name there; or it stopped the reply, and
    has not seen its end.
    """
    if sent.calls:
        return [call[:2] for call in sent.calls] == [call[:2] for call in stored.calls]
    one, whole = sent.letters, stored.letters
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


def likeness(sent: Said, stored: Said) -> Likeness:
    one, other = sent.letters, stored.letters
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
