"""Retire a summary, redact or delete a message, redact whatever quotes a text, delete a session.

A summary's anchor is at or below everything its summarizer was shown, so the summaries that may contain a message's
text are exactly those below it, and those of a person who may have known it. Each erasure raises the session's counter:
a run that read the text before it cannot commit.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import router, transaction
from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from compaction_app import signals, tasks
from compaction_app.conf import Mode, get_settings, get_token_counter
from compaction_app.conversation.compact import request_compaction
from compaction_app.conversation.copy import copies_of
from compaction_app.conversation.text_search import OF_SESSIONS, READ_AT_ONCE, SHORTEST, TextSearch, folded
from compaction_app.conversation.titles import clear_erased_title
from compaction_app.exceptions import InvalidMessage, MessageNotFound, NotASummary
from compaction_app.messages.originals import RESULT_AS_TEXT, text_without, without_compactions
from compaction_app.messages.transcript import RECALLED, RECALLED_POSITION
from compaction_app.messages.validation import check_text
from compaction_app.models import (
    ChatMessage,
    ChatSession,
    CompactionEvent,
    CompactionRun,
    MessagePin,
    SearchEntry,
    sql,
)
from compaction_app.models.columns import REDACTED, blank, blanked, erased, lean, names
from compaction_app.models.database import (
    after_commit,
    atomic,
    connection_of,
    database_of,
    fetch,
    lock_session,
    locked,
    locked_message,
    send_after_commit,
)
from compaction_app.models.lineage import stretches
from compaction_app.models.managers import ALIKE, ChatMessageQuerySet, calls_unanswered_before
from compaction_app.models.runs import record_event
from compaction_app.spending import keep_used
from compaction_app.telemetry import log
from compaction_app.tokens import TOKENS_PER_MISSING_RESULT, count_messages
from compaction_app.tree.branches import check_instance, unread_message
from compaction_app.tree.lanes import newest_tip_below, tips_at_or_below
from compaction_app.values import PERSON, EventKind, Kind, Role, TextFound, Trigger

logger = logging.getLogger("compaction_app.erasure")

_BATCH = 500


def retire_summary(summary: ChatMessage, *, reason: str = "") -> list[int]:
    """Take a summary, and every live one built on it, out of use; returns their ids.

    The record stays. The next context has the newest summary that still applies, or the messages themselves where none
    does. ``reason``: your words, of which 255 characters are kept. Branches that are over their threshold without it
    are compacted again. A message that is no summary raises :class:`NotASummary`.
    """
    check_instance(summary, ChatMessage, "summary")
    if summary.kind != Kind.SUMMARY:
        raise NotASummary(f"Message {summary.pk} is not a summary; only summaries are retired.")
    check_text(reason, "reason")
    with locked(summary):
        live = live_built_on(summary)
        ids = sorted(live.values_list("pk", flat=True))
        live.update(retired_at=timezone.now(), retired_reason=reason[:255])
        if ids:
            payload = {"summaries": len(ids), "summary": summary.pk}
            record_event(summary, EventKind.RETIRED, message_id=summary.parent_message_id, payload=payload)
            _announce_retired(summary, ids, reason[:255])
            after_commit(summary, _compact_below, summary, summary.parent_message_id)
    log(logger, logging.INFO, "retired", session=summary.session_id, summaries=ids)
    return ids


def live_built_on(summary: ChatMessage) -> QuerySet[ChatMessage]:
    """The live ones among this summary and all built on it, which are retired together."""
    return _built_on(summary).live()


def _built_on(summary: ChatMessage) -> ChatMessageQuerySet:
    """A summary and all built on it, retired ones too."""
    built = [pk for (pk,) in fetch(sql.BUILT_ON, {"summary": summary.pk}, summary)]
    return ChatMessage.objects.in_database_of(summary).filter(pk__in=built)


def redact_message(
    message: ChatMessage,
    *,
    replacement: str = REDACTED,
    copies: Iterable[ChatMessage] | Callable[[ChatMessage], bool] = (),
) -> ChatMessage:
    """Replace the text of a message permanently; returns it as it is stored now.

    Content, reasoning, attachments, metadata and the arguments of tool calls go; ids of calls stay, so that the branch
    stays valid. Every summary that may contain the text is emptied and retired, and a title of the session that was
    taken from the message is cleared. Files behind attachments are not touched. Summaries cannot be redacted.

    ``copies``: those of :func:`chat.copies_of` that are redacted with it, all or none; other people's conversations may
    be among them. A message that is no copy of it raises :class:`InvalidMessage`. A function is asked about each copy,
    and about those that are made meanwhile of the ones that it chose.
    """
    check_text(replacement, "content")
    _require_message(message, "redacted")
    redacted: dict[int, ChatMessage] = {}
    named = set() if callable(copies) else {copy.pk for copy in copies}
    is_named = cache(copies) if callable(copies) else lambda copy: copy.pk in named
    # Before any lock: who redacts one of the copies with its own takes the same locks, in the same order.
    chosen = [one for one in (copies_of(message) if named or callable(copies) else ()) if is_named(one)]
    with atomic(message):
        with suppress(MessageNotFound):
            _lock_in_order([message, *chosen])
        # None is made of a session that is locked, so they are looked for until there is no other one.
        while new := [
            one
            for one in (message, *(copies_of(message) if named or callable(copies) else ()))
            if one.pk not in redacted and (one is message or is_named(one))
        ]:
            # In the order in which everybody locks sessions.
            for one in sorted(new, key=lambda one: str(one.session_id)):
                # Who chose it by a function did not ask for one that has been deleted meanwhile.
                with suppress(MessageNotFound) if one is not message else nullcontext():
                    redacted[one.pk] = _redact(one, replacement)
        if left := named - redacted.keys():
            problem = f"Message {min(left)} is not a copy of message {message.pk}, or does not exist any more."
            raise InvalidMessage(problem, field="copies")
    return redacted[message.pk]


def _redact(message: ChatMessage, replacement: str) -> ChatMessage:
    row = locked_message(message)
    blank_messages(row, [row.pk], replacement=replacement)
    told = _told_by_people(row, [row.pk])
    empty_summaries(row, ids_below(row) | told.keys(), [row.pk, *told.values()], blanked_at=[row.pk])
    _erase_continued(row, [row.pk, *told], replacement=replacement)
    row.refresh_from_db(using=row._state.db)
    return row


def _erase_continued(near: Any, erased: Collection[int], *, replacement: str = REDACTED) -> None:
    """Erase what the conversations that continue the one of ``near`` have of messages and summaries of it.

    Copies become the ``replacement``. What was not copied is told by the first summary, so that is emptied, with all
    below it. Searches may have quoted any of them.
    """
    rows, sessions = ChatMessage.objects.in_database_of(near), ChatSession.objects.in_database_of(near)
    # With the numbers of what is erased further above.
    left: list[tuple[Any, Collection[int], frozenset[int]]] = [(near.session_id, set(erased), frozenset())]
    while left:
        above_id, gone, numbers = left.pop()
        continuing = sessions.filter(continues_session=above_id).select_related("continues__session").order_by("pk")
        for session in lean(continuing, continues=ChatMessage, continues__session=ChatSession):
            lock_session(session)
            quoted = set(numbers)
            if last := session.continues:
                stretch = next(stretches(last.session, last))
                path = fetch(sql.PATH_IDS, {"node": last.pk, "min_depth": 1}, near)
                quoted.update(depth + stretch.shift for pk, depth in path if pk in gone and depth > stretch.head)
                quoted |= _numbers_above(last.session, gone)
                is_above = bool(numbers) or any(pk in gone for pk, _ in path)
            else:
                is_above = bool(numbers)
            own = rows.in_session(session.pk)
            copies = _copies_of(gone, above_id, own.filter(copy_of__isnull=False))
            messages = [one.pk for one in copies if one.kind == Kind.MESSAGE]
            first = own.filter(parent=None, sib_order=1)
            tops = [one.pk for one in first] if is_above else messages[:1]
            told = _told_by_people(session, messages) if messages else {}
            for one in copies:
                if one.kind == Kind.SUMMARY:
                    told |= dict(_built_on(one).values_list("pk", "parent_message_id"))
            quotations = quotations_of(session, messages, quoted) if messages or quoted else set()
            if not (tops or told or quotations):
                continue
            clear_erased_title(session, tops)
            blank_messages(session, messages, replacement=replacement, quotations=quotations)
            below = set(told).union(*(ids_below(unread_message(session, top)) for top in tops))
            # On a branch that begins with something else: what is above has the smaller id.
            for pk in sorted(quotations):
                if pk not in below:
                    below |= ids_below(unread_message(session, pk))
                    tops.append(pk)
            empty_summaries(session, below, [*tops, *told.values()], blanked_at=tops)
            left.append((session.pk, {*messages, *tops, *told}, frozenset(quoted)))


def _copies_of(erased: Collection[int], session_id: Any, own: ChatMessageQuerySet) -> list[ChatMessage]:
    """Those of a conversation's own copies that are of messages which are erased in another one, from the root down.
    As for ``same_as``, an id may have been used again; where they stand is another place."""
    first = own.values("copy_of")
    source = ChatMessage.objects.using(own.db).in_session(session_id)
    copied = source.filter(Q(pk__in=first) | Q(copy_of__in=first))
    # What carries a summary over names that as its first, too.
    alike = copied.values_list("pk", "copy_of", "created_at", "role", "kind")
    gone = {(copy_of or pk, *others) for pk, copy_of, *others in alike if pk in erased}
    copies = [one for one in lean(own) if (one.copy_of, one.created_at, one.role, one.kind) in gone]
    return sorted(copies, key=lambda one: one.depth)


def blank_messages(
    near: Any, ids: Collection[int], *, replacement: str = REDACTED, quotations: Collection[int] | None = None
) -> None:
    """Replace the texts of messages of a locked session, ``near`` a row of it, and what quotes them by "[redacted]".

    ``quotations``: where they are known. The summaries that may repeat them, and the sums below, are left to
    :func:`empty_summaries`.
    """
    clear_erased_title(near, ids)
    quotations = quotations_of(near, ids) if quotations is None else quotations
    for batch in _batches(sorted({*ids, *quotations}), READ_AT_ONCE):
        rows = list(ChatMessage.objects.in_database_of(near).filter(pk__in=batch))
        # They stay. The count before does not tell how many they are: it may be another counter's.
        missing_results = calls_unanswered_before(rows)
        for row in rows:
            blank(row, replacement if row.pk in ids else REDACTED)
        _save_counted(rows, missing_results)
        SearchEntry.objects.in_database_of(near).filter(pk__in=batch).update(**blanked(SearchEntry))
        MessagePin.objects.in_database_of(near).filter(pk__in=batch).delete()


def _save_counted(rows: Sequence[ChatMessage], missing_results: Sequence[int]) -> None:
    counts = count_messages([vars(row) for row in rows], get_token_counter())
    for row, missing, tokens in zip(rows, missing_results, counts, strict=True):
        row.token_count = tokens + missing * TOKENS_PER_MISSING_RESULT
        row.save_base(update_fields=[*erased(ChatMessage), "redacted_at", "token_count"])


def _sum_paths(near: Any, tops: Sequence[int]) -> None:
    """Compute the token sums again, from each top down. None may be below another: the sum above it is not new yet."""
    with connection_of(near).cursor() as cursor:
        for batch in _batches(tops, _BATCH):
            cursor.execute(sql.SUM_PATH_TOKENS.format(tops=sql.places(batch)), batch)


def _drop_compactions(near: Any, ids: Collection[int]) -> None:
    """Remove providers' own summaries, which are below what they were made of."""
    stored = ChatMessage.objects.in_database_of(near).messages().in_session(near.session_id)
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("original", "metadata")}
    named = Q(original_text__contains="compaction") | Q(metadata_text__contains="compaction")
    changed: list[int] = []
    found = [pk for pk in stored.annotate(**texts).filter(named).values_list("pk", flat=True) if pk in ids]
    for batch in _batches(found, READ_AT_ONCE):
        rows = []
        for row in stored.filter(pk__in=batch):
            cut: list[Any] = []
            left = without_compactions({"original": row.original, "metadata": row.metadata}, cut)
            if not cut:
                continue
            row.content = text_without(row.content, cut)
            row.original, row.metadata = left.get("original"), left.get("metadata", {})
            if not (row.content or row.tool_calls or row.attachments):
                row.content, row.original = REDACTED, None
            rows.append(row)
        _save_counted(rows, calls_unanswered_before(rows))
        counts = stored.filter(pk=OuterRef("pk")).values("token_count")
        MessagePin.objects.in_database_of(near).filter(message__in=rows).update(tokens=Subquery(counts))
        changed += [row.pk for row in rows]
    # They are written again, of what is left.
    SearchEntry.objects.in_database_of(near).filter(pk__in=changed).delete()


def quotations_of(near: Any, ids: Collection[int], numbers: Collection[int] = ()) -> set[int]:
    """The results below some that have one of them, or such a result, as found by a search: they are erased, too.

    What a person writes between the same tags is their own. ``numbers``: of messages of what is continued, also erased.
    """
    rows, gone = ChatMessage.objects.in_database_of(near).messages().in_session(near.session_id), set(ids)
    is_result = Q(role=Role.TOOL) | Q(content__startswith=RESULT_AS_TEXT, original__isnull=False)
    oldest = 0 if numbers else min(ids, default=0)
    quoting = rows.filter(is_result, pk__gt=oldest, content__contains=RECALLED).values_list("pk", "content")
    texts = quoting.iterator(READ_AT_ONCE)
    quoted = {pk: {int(number) for number in RECALLED_POSITION.findall(text)} for pk, text in texts}
    if not quoted:
        return set()
    children: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for parent, *child in rows.values_list("parent_message_id", "pk", "depth"):
        children[parent].append(child)
    session = ChatSession.objects.in_database_of(near).get(pk=near.session_id)
    shift, numbers = session.numbered_from or 0, {*numbers, *_numbers_above(session, gone)}
    # Depth first: what is at or above a message is the last that was met at each depth.
    left, path = children[None], dict[int, int]()
    while left:
        pk, depth = left.pop()
        path[depth + shift] = pk
        quotes = quoted.get(pk, ())
        if any(one in numbers or (one < depth + shift and path.get(one) in gone) for one in quotes):
            gone.add(pk)
        left += children[pk]
    return gone.difference(ids)


def _numbers_above(session: ChatSession, ids: Collection[int]) -> set[int]:
    """The numbers of the messages above that some at a session's beginning stand for."""
    if not (session.is_handed_over and ids):
        return set()
    rows = ChatMessage.objects.in_database_of(session)
    copies = rows.filter(session=session.pk, pk__in=ids, depth__lte=session.head, copy_of__isnull=False)
    firsts = list(copies.values_list("copy_of", flat=True))
    found = set[int]()
    if firsts:
        first = Q(pk__in=firsts) | Q(copy_of__in=firsts)
        for row in rows.filter(first, session__in=_above(session)).select_related("session"):
            found.add(row.session.number_of(row) or 0)
    return found


def _above(session: ChatSession) -> list[Any]:
    """The ids of the sessions that one continues."""
    found: list[Any] = []
    rows = ChatSession.objects.in_database_of(session)
    above = session.continues_session
    while above is not None and above not in found:
        found.append(above)
        above = rows.filter(pk=above).values_list("continues_session", flat=True).first()
    return found


def _told_by_people(near: Any, ids: Collection[int]) -> dict[int, int]:
    """Summaries that are anchored above some messages and were corrected after these were written, with all built on
    them, and their anchors: whoever corrected one may have known what follows it."""
    rows = ChatMessage.objects.in_database_of(near).in_session(near.session_id).summaries().filter(model=PERSON)
    found = dict[int, int]()
    for summary in rows.filter(pk__gt=min(ids)).only("id", "session_id", "parent", "kind"):
        if tips_at_or_below(summary.parent_message_id or 0, [pk for pk in ids if pk < summary.pk], summary):
            found |= dict(_built_on(summary).values_list("pk", "parent_message_id"))
    return found


def _announce_retired(near: Any, ids: Sequence[int], reason: str) -> None:
    retired = {"session_id": near.session_id, "summary_ids": list(ids), "reason": reason}
    send_after_commit(near, signals.summary_retired, ChatMessage, **retired)


def _compact_below(near: Any, message_id: int | None) -> None:
    """Compact the branches that contain a message in the background, where they are over their threshold."""
    session = ChatSession.objects.in_database_of(near).filter(pk=near.session_id).first()
    mode = get_settings(session.settings).mode if session else Mode.OFF
    if session is None or message_id is None or mode in (Mode.OFF, Mode.MANUAL):
        return
    if mode == Mode.DETERMINISTIC or not tasks.enqueue_session(session, message_id):
        # Without a broker the run is the record of what is needed, which the sweep finds.
        message = ChatMessage.objects.in_database_of(near).filter(pk=message_id).first()
        tip = newest_tip_below(message) if message else None
        if tip is not None:
            request_compaction(tip)


def _batches(ids: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def ids_below(message: ChatMessage) -> set[int]:
    """Ids of a message and of every message and summary below it."""
    return {pk for (pk,) in fetch(sql.SUBTREE_IDS, {"node": message.pk}, message)}


def empty_summaries(near: Any, ids: Collection[int], tops: Sequence[int], *, blanked_at: Sequence[int]) -> None:
    """Retire and empty the summaries among ``ids``, earlier retired ones too, and what of runs may quote them.

    Providers' own summaries in messages among them are removed. ``tops``: messages at or above all of them, whose
    branches may have to be compacted again. ``blanked_at``: messages at or above all whose texts were replaced
    and all messages among ``ids``; none of them is below another. It takes the session's lock as long as it takes to
    write what is changed: of ids there may be any number.
    """
    emptied, retired, now, session_id = 0, [], timezone.now(), near.session_id
    signals.text_erased.send(ChatMessage, session_id=session_id, message_ids=list(ids), using=database_of(near))
    nodes = ChatMessage.objects.in_database_of(near).in_session(session_id)
    below = [pk for pk in nodes.summaries().values_list("pk", flat=True) if pk in ids]
    _erase_carried(near, below)
    for batch in _batches(below, _BATCH):
        summaries = ChatMessage.objects.in_database_of(near).filter(pk__in=batch)
        live = summaries.filter(retired_at__isnull=True)
        retired += sorted(live.values_list("pk", flat=True))
        live.update(retired_at=now)
        # The reason that a person gave for an earlier retirement may quote the summary.
        emptied += summaries.update(**blanked(ChatMessage) | {"redacted_at": now, "retired_reason": "redaction"})
    _blank_runs(near, ids)
    # Of every branch: whoever has the key could test guesses at the erased text, or at a system prompt.
    without = RawSQL(sql.WITHOUT_PROMPT[connection_of(near).vendor], [])  # noqa: S611  # names of columns, never a value
    nodes.filter(sent_context__has_key="prompt").update(sent_context=without)
    _drop_compactions(near, ids)
    _sum_paths(near, blanked_at)
    ChatSession.objects.in_database_of(near).filter(pk=session_id).update(erasures=F("erasures") + 1)
    payload = {"summaries": emptied, "erasure": "redaction"}
    message_id = tops[0] if len(tops) == 1 else None
    record_event(near, EventKind.INVALIDATED, message_id=message_id, payload=payload)
    if retired:
        _announce_retired(near, retired, "redaction")
        for top in tops:
            after_commit(near, _compact_below, near, top)
    log(logger, logging.INFO, "erased", session=session_id, message=message_id, by="redaction", summaries=emptied)


def _erase_carried(near: Any, summaries: Collection[int], deleted: Collection[int] = ()) -> None:
    """Redact the messages that carry over some summaries of a session, and their copies wherever they are, but for
    what is ``deleted`` with these."""
    made, nodes = _for_other_branches(near, [near.session_id]), ChatMessage.objects.in_database_of(near).messages()
    since = {pk: at for pk, at in made.values_list("pk", "created_at") if pk in summaries}
    left = nodes.filter(redacted_at__isnull=True)
    # An id may have been used again: a copy of what had it before is older.
    copies = left.filter(copy_of__in=since).order_by("pk").values_list("pk", "copy_of", "created_at") if since else ()
    for pk in [pk for pk, first, at in copies if pk not in deleted and at >= since[first]]:
        # Unless the one before it has been handed over to its session.
        for one in left.filter(pk=pk):
            _redact(one, REDACTED)


def carried_from(nodes: QuerySet[ChatMessage]) -> ChatMessageQuerySet:
    """The messages, wherever they are, that carry over a summary among some nodes."""
    made = nodes.filter(retired_reason=Trigger.CARRY_OVER, redacted_at=None).order_by().values("pk")
    return ChatMessage.objects.using(nodes.db).messages().filter(copy_of__in=made, redacted_at=None)


def _for_other_branches(near: Any, session_ids: Collection[Any]) -> ChatMessageQuerySet:
    """The summaries of some sessions that were made to be carried over, and were not erased since."""
    found = ChatMessage.objects.in_database_of(near).filter(session__in=session_ids)
    return found.filter(last_summarized_message__isnull=False, retired_reason=Trigger.CARRY_OVER).order_by()


def _blank_runs(near: Any, ids: Collection[int]) -> None:
    runs = CompactionRun.objects.in_database_of(near)
    places = list(runs.filter(session=near.session_id).values_list("pk", "tip", "anchor"))
    for batch in _batches([pk for pk, tip, anchor in places if tip in ids or anchor in ids], _BATCH):
        runs.filter(pk__in=batch).update(**blanked(CompactionRun, said=True))
    # Of earlier versions it has the prompt's digest: who knows the rest could test guesses at a short erased text.
    for batch in _batches([pk for pk, _tip, anchor in places if anchor in ids], _BATCH):
        runs.filter(pk__in=batch).update(**blanked(CompactionRun))


def delete_message(message: ChatMessage) -> int:
    """Delete a message and everything below it, summaries included; returns the number of deleted rows."""
    _require_message(message, "deleted")
    below = RawSQL(sql.NODE_AND_BELOW, [message.pk])  # noqa: S611  # names of tables, never a value
    with atomic(message):
        is_continued = _lock_in_order([message], ChatMessage.objects.in_database_of(message).filter(pk__in=below))
        ids = ids_below(message)
        if not ids:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        told = {pk: anchor for pk, anchor in _told_by_people(message, [message.pk]).items() if pk not in ids}
        if told:
            empty_summaries(message, told.keys(), [*told.values()], blanked_at=[])
        _erase_carried(message, ids, deleted=ids)
        if is_continued:
            _erase_continued(message, ids | told.keys())
            _continue_above(message, below, message.parent_message_id)
        _blank_runs(message, ids)
        clear_erased_title(message, ids)
        deleted = ChatMessage.objects.delete_subtree(message)
        sessions = ChatSession.objects.in_database_of(message).filter(pk=message.session_id)
        sessions.update(erasures=F("erasures") + 1)
        record_event(message, EventKind.INVALIDATED, payload={"messages": deleted, "erasure": "deletion"})
        after_commit(message, _compact_above, message)
    log(logger, logging.INFO, "erased", session=message.session_id, message=message.pk, by="deletion", rows=deleted)
    return deleted


def _compact_above(deleted: ChatMessage) -> None:
    """The parent of what was deleted may now be a tip, of a branch that was compacted only below it."""
    parent = ChatMessage.objects.in_database_of(deleted).tips().filter(pk=deleted.parent_message_id)
    tip = parent.select_related("session").first()
    if tip is not None:
        request_compaction(tip)


def delete_session(session: ChatSession) -> None:
    """Delete a conversation with its messages, summaries, runs and events."""
    check_instance(session, ChatSession, "session")
    if session.pk is None:
        raise MessageNotFound("The session has not been stored yet, or was deleted by this very object.")
    with atomic(session):
        _lock_in_order([session], ChatMessage.objects.in_database_of(session).filter(session=session.pk))
        session.delete(using=database_of(session))


def lock_contents(instance: ChatSession, using: str, **kwargs: Any) -> None:
    """Before a session is deleted by any way: with its user, say, or in a queryset. Sessions come in their order."""
    # Not of a copy, in a restored backup for example: the conversation itself, which the router names, stays.
    if using == database_of(instance):
        contents = ChatMessage.objects.using(using).filter(session=instance.pk)
        with suppress(MessageNotFound):
            if _lock_in_order([instance], contents):
                ids = set(contents.values_list("pk", flat=True))
                _erase_carried(instance, ids, deleted=ids)
                _erase_continued(instance, ids)
                _continue_above(instance, contents, None)
        keep_used(instance)


def delete_contents(instance: ChatSession, using: str, **kwargs: Any) -> None:
    """After that, when what refers to them is gone: it was collected with the session."""
    for model in (MessagePin, CompactionEvent, CompactionRun, ChatMessage):
        model._base_manager.using(using).filter(session=instance.pk)._raw_delete(using)  # noqa: SLF001  # no row is read


def _continue_above(near: Any, gone: Any, parent_id: int | None) -> None:
    """What continues deleted messages goes on after the one before them, which may be of what their session continues:
    erasures further above still have to find it."""
    sessions = ChatSession.objects.in_database_of(near)
    after: dict[str, Any] = {"continues": parent_id}
    if parent_id is None:
        above = sessions.filter(pk=near.session_id).values("continues", "continues_session").get()
        after = {"continues": above["continues"], "continues_session": above["continues_session"]}
    sessions.filter(continues_session=near.session_id, continues__in=gone).update(**after)


def _lock_in_order(own: Sequence[Any], gone: ChatMessageQuerySet | None = None) -> bool:
    """Lock the sessions of these, and those that an erasure of them writes to, in the order of their ids: those that
    continue them or have a copy of what was carried over there, and where they are deleted those that were copied from
    what is ``gone``. Nothing that refers to one of these is stored any more, by who does not lock it either. Returns
    whether any continues them, or has a copy."""
    near = gone if gone is not None else own[0]
    sessions, wanted = ChatSession.objects.in_database_of(near), {one.session_id for one in own}
    continuing = _reached_from(near, wanted)
    wanted.update(continuing)
    if gone is not None:
        wanted.update(sessions.filter(copied_from__in=gone).values_list("pk", flat=True))
    # The lock below is enough for one.
    for batch in _batches(sorted(wanted) if gone is not None or len(wanted) > len(own) else [], _BATCH):
        chosen = sessions.filter(pk__in=batch).order_by("pk").select_for_update(no_key=gone is None)
        list(chosen.values_list("pk"))
    for one in sorted(own, key=lambda one: str(one.session_id)):
        lock_session(one)
    # One may have been handed over until now.
    return bool(continuing or continued_in(near, {one.session_id for one in own}))


def _reached_from(near: Any, session_ids: Collection[Any]) -> set[Any]:
    """The ids of the other sessions that an erasure in some may write to."""
    found, new = set[Any](), {*session_ids}
    while new:
        carried = _for_other_branches(near, new).values("pk")
        having = ChatMessage.objects.in_database_of(near).messages().filter(copy_of__in=carried).order_by()
        new = {*having.values_list("session_id", flat=True)}.union(continued_in(near, new)) - found - new
        found |= new
    return found - {*session_ids}


def continued_with(message: ChatMessage) -> set[Any]:
    """The ids of the sessions that have a message, or a summary of it, since they continue a branch with it."""
    sessions = ChatSession.objects.in_database_of(message).filter(continues_session=message.session_id)
    copies = Q(messages__copy_of=message.copy_of or message.pk, messages__created_at=message.created_at)
    ends = dict(sessions.values_list("pk", "continues"))
    above = tips_at_or_below(message.pk, list(filter(None, ends.values())), message) if ends else set()
    found = {pk for pk, last in ends.items() if last in above}
    found.update(sessions.filter(copies).values_list("pk", flat=True) if ends else ())
    return found | continued_in(message, found)


def continued_in(near: Any, session_ids: Collection[Any]) -> set[Any]:
    """The ids of the sessions that continue some, directly or not."""
    sessions, found, new = ChatSession.objects.in_database_of(near), set[Any](), [*session_ids]
    while new:
        below = (
            sessions.filter(continues_session__in=some).values_list("pk", flat=True) for some in _batches(new, _BATCH)
        )
        new = [*{pk for some in below for pk in some} - found]
        found.update(new)
    return found


def delete_owner(user: Any) -> list[ChatSession]:
    """Delete a user with all their conversations; returns what others have copied from these.

    Everything or nothing, and beside whatever is under way: a run or a reply finds its session gone. What the user had
    copied from others, as far as it is still there, is not theirs: copies of that are not returned.
    """
    users = get_user_model()
    if not isinstance(user, users) or user.pk is None:
        raise InvalidMessage("user must be a stored user.", field="user")
    using = router.db_for_write(users, instance=user)
    sessions, messages = ChatSession.objects.using(using), ChatMessage.objects.using(using)
    with transaction.atomic(using=using):
        # Twice: until the user is locked, another request may begin a conversation.
        for _ in range(2):
            own = list(sessions.filter(owner=user).order_by("pk"))
            # Before anything is deleted: who has one of them may wait for another.
            with suppress(MessageNotFound):
                _lock_in_order(own, messages.filter(session__in=own))
            list(users._base_manager.using(using).filter(pk=user.pk).select_for_update())
        alike = {name: OuterRef(name) for name in ALIKE}
        of_others = messages.filter(pk=OuterRef("copy_of"), **alike).exclude(session__in=own)
        first = messages.filter(~Exists(of_others), session__in=own).values(
            first=Coalesce("copy_of", Cast("pk", BigIntegerField()))
        )
        same = Q(pk=OuterRef("copy_of")) | Q(copy_of=OuterRef("copy_of"))
        theirs = messages.filter(same, session__in=own, **alike)
        copies = messages.filter(Exists(theirs), copy_of__in=first).exclude(session__in=own)
        # What was handed over is erased with these.
        copies = copies.exclude(session__in=continued_in(messages, [one.pk for one in own]))
        copied = list(sessions.filter(pk__in=copies.values("session")).order_by("pk"))
        user.delete(using=using)
    return copied


def _require_message(message: ChatMessage, verb: str) -> None:
    check_instance(message, ChatMessage, "message")
    if message.kind == Kind.SUMMARY:
        raise InvalidMessage(f"A summary cannot be {verb}: retire it with chat.retire_summary.", field="message")


def redact_text(session: ChatSession, text: str, *, dry_run: bool = False) -> TextFound:
    """Redact whatever quotes ``text`` in a conversation; returns what it was, as ids and places.

    Messages are redacted as :func:`redact_message` does, with the summaries below them. Summaries that quote it
    otherwise are emptied and retired, title and system prompt are cleared, keys of the session's metadata are
    removed, and instructions, policy lines and error details of runs are emptied. Case, white space, kinds of
    dashes, characters that nobody sees, marks of quoted lines, markup, escapes and the way in which letters are
    composed make no difference, nor does "+" for a space. ``dry_run`` changes nothing. What a redaction keeps is
    not searched: names of functions, ids, names of models, numbers of usage. A text of fewer than four characters
    raises :class:`InvalidMessage`.
    """
    check_instance(session, ChatSession, "session")
    check_text(text, "text")
    wanted = folded(text)
    if len(wanted) < SHORTEST:
        raise InvalidMessage(f"text must have at least {SHORTEST} characters.", field="text")
    search = TextSearch(session, wanted)
    search.read_messages()
    if dry_run:
        return search.found()
    with atomic(session):
        _lock_in_order([session])
        # Only what was appended since: the lock is not held for long.
        search.read_messages()
        found = search.found()
        _erase(session, found, search)
    return found


def _erase(session: ChatSession, found: TextFound, search: TextSearch) -> None:
    # Title and prompt go along when it is handed over.
    of_session = tuple(name for name in names(ChatSession, copied=True) if name in OF_SESSIONS)
    sessions = ChatSession.objects.in_database_of(session)
    for one in sessions.filter(pk__in=continued_in(session, [session.pk])).only(*of_session):
        if places := search.places(one, of_session):
            sessions.filter(pk=one.pk).update(**dict.fromkeys(places, ""))
    if found.messages:
        blank_messages(session, {one.id for one in found.messages})
    runs = CompactionRun.objects.in_database_of(session).filter(pk__in=[run.id for run in found.runs])
    runs.update(**blanked(CompactionRun))
    if found.session:
        stored = ChatSession.objects.in_database_of(session).filter(pk=session.pk)
        changed = {name: search.left_of(value) for name, value in stored.values(*found.session).get().items()}
        stored.update(**changed)
        for name, value in changed.items():
            setattr(session, name, value)
    if found.messages or found.summaries or found.runs or found.session:
        told = _told_by_people(session, search.tops) if search.tops else {}
        quoting = {one.id for one in found.summaries} | told.keys()
        roots = {search.roots[pk] for pk in {*search.tops, *quoting} & search.roots.keys()}
        # Counted in any case: a run that has read any of it cannot commit.
        empty_summaries(session, search.below | quoting, sorted(roots), blanked_at=search.tops)
        _erase_continued(session, quoting.union(one.id for one in found.messages))
