"""Searching conversations, for people: all branches of an owner's sessions, or of one session, by words in any order.

What is summarized stands in the index of :mod:`recall`. The newest messages besides are read, as many as can be read in
a moment; with the setting ``RECALL`` "all" they are put into the index, by the search itself.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from django.db import router
from django.db.models import QuerySet

from compaction_app.compaction.search_index import searched_text, terms_of, words_of, write_entries
from compaction_app.compaction.search_words import words_of_query
from compaction_app.conf import RECALL_ALL, get_settings, site_setting
from compaction_app.conversation.recall import MOST_WORDS, check_query, excerpt_of
from compaction_app.exceptions import ConfigurationError, InvalidMessage
from compaction_app.messages.validation import check_whole_number
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.database import connection_of, fetch
from compaction_app.models.managers import ChatMessageQuerySet
from compaction_app.redaction import apply_redactor, redactor_of
from compaction_app.tree.branches import check_instance, message_value
from compaction_app.tree.lanes import newest_tips
from compaction_app.values import Found, Kind

_MOST_FOUND = 100
#: Messages of a word, of which the sessions are looked up.
_MOST_HITS = 10_000
#: Lines of messages without a fork, the newest first: more of an owner's are not searched.
_MOST_LANES = 2_000
#: Sessions, and messages and characters in them, of which what is not in the index is read.
_NEWEST_SESSIONS, _MOST_READ, _MOST_CHARACTERS = 200, 2_000, 5_000_000
#: Sessions that one search puts into the index, whatever their lengths.
_MOST_WRITTEN = 20


def search(query: str, *, owner: Any = None, session: ChatSession | None = None, limit: int = 20) -> list[Found]:
    """The messages with all words of ``query`` in the sessions of an ``owner``, or in one ``session``, newest first.

    Words are compared as :func:`recall` does. Each find names the tip to open: the newest message at or below it.
    Besides what is summarized, the newest 2,000 messages of the 200 sessions that were used last are searched; with the
    setting ``RECALL`` "all" everything there is. ``limit``: at most 100. Raises :class:`InvalidMessage` for a query of
    fewer than two characters and for no or both of ``owner`` and ``session``, and :class:`ConfigurationError` where
    ``RECALL`` is off. Whoever asks must be one who may read these sessions.
    """
    check_query(query)
    check_whole_number(limit, "limit", low=1)
    if (owner is None) == (session is None):
        raise InvalidMessage("Pass an owner or a session, and not both.", field="owner")
    recall = site_setting("RECALL")
    if not recall:
        raise ConfigurationError("The setting RECALL is off, so nothing can be searched.")
    wanted = sorted(words_of_query(query), key=len, reverse=True)[:MOST_WORDS]
    if session is not None:
        check_instance(session, ChatSession, "session")
        sessions = ChatSession.objects.in_database_of(session).filter(pk=session.pk)
    else:
        sessions = ChatSession.objects.using(router.db_for_write(ChatSession))
        try:
            sessions = sessions.filter(owner=owner)
        except (TypeError, ValueError) as error:
            raise InvalidMessage("owner must be a user, or a user's key.", field="owner") from error
    if not wanted:
        return []
    newest = list(sessions.order_by("-updated_at", "-pk").values_list("pk", flat=True)[:_NEWEST_SESSIONS])
    limit = min(limit, _MOST_FOUND)
    if recall == RECALL_ALL:
        _write_missing(sessions, newest[:_MOST_WRITTEN])
    read = (row.pk for row, words in _unindexed(sessions, newest) if words.issuperset(wanted))
    ids = {*_indexed(sessions, wanted, limit), *islice(read, limit)}
    rows = ChatMessage.objects.using(sessions.db).filter(pk__in=ids).select_related("session").order_by("-pk")
    shown = [(row, excerpt) for row in rows[:limit] if (excerpt := _shown(row, wanted))]
    tips = newest_tips([row for row, _ in shown])
    return [
        Found(row.pk, row.session_id, tips[row.pk], row.role, row.name, row.created_at, excerpt)
        for row, excerpt in shown
        # Deleted meanwhile.
        if row.pk in tips
    ]


def sessions_with(terms: Sequence[str]) -> list[set[Any]]:
    """For each of some words the ids of the sessions, whoever owns them, with a message that has it.

    For staff who may read all of them. As :func:`search`, but of the last 2,000 lines without a fork, whosesoever.
    """
    sessions = ChatSession.objects.using(router.db_for_write(ChatSession))
    wanted, rows = [words_of_query(term) for term in terms], _messages(sessions)
    if not site_setting("RECALL"):
        return [set() for _ in terms]
    hits = [_indexed(sessions, list(words), _MOST_HITS) if words else [] for words in wanted]
    found = [set(rows.filter(pk__in=ids).values_list("session", flat=True)) for ids in hits]
    newest = list(sessions.order_by("-updated_at", "-pk").values_list("pk", flat=True)[:_NEWEST_SESSIONS])
    for row, words in _unindexed(sessions, newest):
        for own, sought in zip(found, wanted, strict=True):
            if sought and sought <= words:
                own.add(row.session_id)
    return found


def _messages(sessions: QuerySet[ChatSession]) -> ChatMessageQuerySet:
    found: ChatMessageQuerySet = ChatMessage.objects.using(sessions.db).messages()
    return found


def _indexed(sessions: QuerySet[ChatSession], words: list[str], limit: int) -> list[int]:
    lanes = _messages(sessions).filter(session__in=sessions, lane__isnull=True).order_by("-pk")
    starts = list(lanes.values_list("pk", flat=True)[:_MOST_LANES])
    if not starts:
        return []
    statement, query = sql.search_lanes(starts, terms_of(words), connection_of(sessions).vendor)
    return [pk for (pk,) in fetch(statement, {"query": query, "limit": limit}, sessions)]


def _unindexed(sessions: QuerySet[ChatSession], newest: list[Any]) -> Iterator[tuple[ChatMessage, set[str]]]:
    """The newest, as far as they are not in the index, with their words."""
    here = _messages(sessions).filter(session__in=newest).order_by("-pk").values("pk")[:_MOST_READ]
    rows = _messages(sessions).filter(pk__in=here, search_entry=None).order_by("-pk")
    read = 0
    for row in rows.iterator(chunk_size=50):
        yield row, words_of(row)
        read += len(searched_text(row))
        if read > _MOST_CHARACTERS:
            return


def _write_missing(sessions: QuerySet[ChatSession], newest: list[Any]) -> None:
    for tip in _messages(sessions).tips().filter(session__in=newest, search_entry=None).select_related("session"):
        write_entries(tip, tip.pk)


def _shown(row: ChatMessage, words: list[str]) -> str:
    """What may be shown of it: "" where the redactor took the words, and of what says only that others come before."""
    if row.kind == Kind.SUMMARY or row.session.stands_for_others(row):
        return ""
    settings = get_settings(row.session.settings)
    message = message_value(row, settings.time_zone)
    shown = apply_redactor(message, redactor_of(settings))
    return excerpt_of(searched_text(shown), words) or (shown.content[:120] if shown == message else "")
