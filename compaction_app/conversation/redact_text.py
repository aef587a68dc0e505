"""Erasing by text: whatever quotes it in a conversation is found, in any case and with any white space, and redacted.

Strings are compared folded. JSON is compared string by string. In the arguments of a tool call, in addresses and in
pages letters are written as escapes, in JSON within JSON several times: what they stand for is compared too.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from django.db import transaction

from compaction_app.conversation.erase import blank_message, blanked_call, empty_summaries, ids_below, numbers_in
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.validation import check_text
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.managers import lock_session
from compaction_app.tree.branches import check_instance, database_of
from compaction_app.values import Kind, QuotedIn, Role, TextFound

#: Characters of a folded text: a shorter one would erase what only looks like it.
SHORTEST_TEXT = 4
#: Rows that are read at once: with the largest messages that are allowed, 200 MB.
_BATCH = 50
_REPLACEMENT = "[redacted]"
_OF_MESSAGES = ("content", "name", "tool_calls", "reasoning", "attachments", "usage", "metadata", "original")
_OF_SUMMARIES = ("content", "ledger", "retired_reason")
_OF_RUNS = ("instructions", "policy_line", "error_detail")
_OF_SESSIONS = ("title", "system_prompt", "metadata")
#: Characters without width, which a copy from a page may contain: joiners, directions, variants of a picture.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
#: Of Turkish: the dot that case folding leaves, and the letter that has none.
_TURKISH = {0x307: None, 0x131: "i"}
_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{4}|[\"\\/bfnrt]))+|&(?:#\w{1,8}|[a-zA-Z]{2,8});|(?:%[0-9a-fA-F]{2})+")
#: JSON is written in JSON no more often.
_MOST_LEVELS = 8
_DATA = re.compile(r"data:[^,\s]{0,200};base64,([A-Za-z0-9+/_-]+)=*")


def redact_text(session: ChatSession, text: str, *, dry_run: bool = False) -> TextFound:
    """Redact whatever quotes ``text`` in a conversation; returns what it was, as ids and places.

    Messages are redacted as :func:`redact_message` does, with the summaries below them. Summaries that quote it
    otherwise are emptied and retired, title and system prompt are cleared, keys of the session's metadata are removed,
    and instructions, policy lines and error details of runs are emptied. Case, white space, escapes and the way in
    which letters are composed make no difference. ``dry_run`` changes nothing. What a redaction keeps is not searched:
    names of functions, ids, names of models, numbers of usage. A text of fewer than four characters raises
    :class:`InvalidMessage`.
    """
    check_instance(session, ChatSession, "session")
    check_text(text, "text")
    wanted = _folded(text)
    if len(wanted) < SHORTEST_TEXT:
        raise InvalidMessage(f"text must have at least {SHORTEST_TEXT} characters.", field="text")
    search = _Search(session, wanted)
    search.read_messages()
    if dry_run:
        return search.found()
    with transaction.atomic(using=search.using):
        lock_session(session.pk, search.using)
        # Only what was appended since: the lock is not held for long.
        search.read_messages()
        found = search.found()
        _erase(session, found, search)
    return found


def _erase(session: ChatSession, found: TextFound, search: _Search) -> None:
    using = search.using
    rows = ChatMessage.objects.using(using)
    for message_id, _ in found.messages:
        if (row := rows.filter(pk=message_id).first()) is not None:
            blank_message(row, _REPLACEMENT, using)
    runs = CompactionRun.objects.using(using).filter(pk__in=[run.id for run in found.runs])
    runs.update(**dict.fromkeys(_OF_RUNS, ""), request={})
    changed: dict[str, Any] = {name: "" for name in found.session if name != "metadata"}
    stored = ChatSession.objects.using(using).filter(pk=session.pk)
    if "metadata" in found.session:
        metadata = stored.values_list("metadata", flat=True).get()
        changed["metadata"] = {key: value for key, value in metadata.items() if not search.quotes({key: value})}
    if changed:
        stored.update(**changed)
        for name, value in changed.items():
            setattr(session, name, value)
    if found.messages or found.summaries or found.runs or found.session:
        quoting = [one.id for one in found.summaries]
        manager = ChatMessage.objects.db_manager(using)
        roots = {manager.get_root(row).pk for row in rows.filter(pk__in=[*search.tops, *quoting])}
        # Counted in any case: a run that has read any of it cannot commit.
        empty_summaries(session.pk, sorted({*search.below, *quoting}), using, sorted(roots))


class _Search:
    """What of a conversation quotes a text, as far as its messages have been read."""

    def __init__(self, session: ChatSession, wanted: str) -> None:
        self.session = session
        self.using = database_of(session)
        self.wanted = wanted
        #: Messages that quote it below none that does, and all messages and summaries at or below them.
        self.tops: list[int] = []
        self.below: set[int] = set()
        self._last = 0
        self._messages: dict[int, tuple[str, ...]] = {}
        self._depths: dict[int, int] = {}
        #: All of the session, whether they quote it or not.
        self._summaries: dict[int, tuple[str, ...]] = {}

    def read_messages(self) -> None:
        """Those after the last one that was read."""
        rows = ChatMessage.objects.using(self.using).in_session(self.session.pk)
        rows = rows.only("kind", "role", "depth", *_OF_MESSAGES, *_OF_SUMMARIES)
        while batch := list(rows.filter(pk__gt=self._last)[:_BATCH]):
            for row in batch:
                if row.kind == Kind.SUMMARY:
                    self._summaries[row.pk] = self._places(row, _OF_SUMMARIES)
                elif places := self._places(row, _OF_MESSAGES):
                    self._messages[row.pk], self._depths[row.pk] = places, row.depth
            self._last = batch[-1].pk

    def found(self) -> TextFound:
        for message_id in sorted(self._messages, key=self._depths.__getitem__):
            if message_id not in self.below:
                self.tops.append(message_id)
                self.below.update(ids_below(message_id, self.using))
        summaries = {pk: places for pk, places in self._summaries.items() if places or pk in self.below}
        runs = CompactionRun.objects.using(self.using).filter(session=self.session.pk).only(*_OF_RUNS)
        of_runs = {run.pk: self._places(run, _OF_RUNS) for run in runs.iterator(chunk_size=_BATCH)}
        row = ChatSession.objects.using(self.using).only(*_OF_SESSIONS).get(pk=self.session.pk)
        return TextFound(
            session=self._places(row, _OF_SESSIONS),
            messages=_quoting(self._messages),
            summaries=_quoting(summaries),
            runs=_quoting({pk: places for pk, places in of_runs.items() if places}),
        )

    def quotes(self, value: Any) -> bool:
        return any(self.wanted in _folded(text) for text in _texts_in(value))

    def _places(self, row: Any, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if self.quotes(_erasable(row, name)))


def _quoting(places: Mapping[int, tuple[str, ...]]) -> tuple[QuotedIn, ...]:
    return tuple(QuotedIn(pk, places[pk]) for pk in sorted(places))


def _erasable(row: Any, name: str) -> Any:
    """A column as far as a redaction erases it."""
    value = getattr(row, name)
    if name == "tool_calls":
        return [_without(call, blanked_call(call)) for call in value or ()]
    if name == "usage":
        return _without(value, numbers_in(value))
    # The name of a function, which its call has too.
    return None if name == "name" and row.role == Role.TOOL else value


def _without(value: Any, kept: Any) -> list[str]:
    staying = set(_texts_in(kept))
    return [text for text in _texts_in(value) if text not in staying]


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).translate(_TURKISH).split())


def _texts_in(value: Any) -> Iterator[str]:
    """Every string of a JSON value, its keys and numbers too, as it is and without its escapes."""
    if isinstance(value, str):
        if data := _DATA.match(value):
            # In a picture's base64 any four letters stand somewhere.
            with suppress(ValueError):
                decoded = base64.b64decode(f"{data[1]}==", altchars=b"-_" if {*data[1]} & {*"-_"} else None)
                value = f"{decoded.decode(errors='replace')} {value[data.end() :]}"
        yield value
        for _ in range(_MOST_LEVELS):
            value, escapes = _ESCAPE.subn(_unescaped, value)
            if not escapes:
                return
            yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts_in(key)
            yield from _texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _unescaped(escape: re.Match[str]) -> str:
    written = escape[0]
    if written[0] == "&":
        return html.unescape(written)
    return unquote(written) if written[0] == "%" else str(json.loads(f'"{written}"'))
