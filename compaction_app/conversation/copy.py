"""Copying a branch into a session of its own: to continue in a new chat, to share, as a template.

A copy has the branch down to one message and the summary that applies there, not its run. It is written by the
database, in the same number of queries whatever its length. Each message of it names the one that was copied first, so
all copies are known by that, whichever of them is deleted.
"""

import json
from itertools import islice
from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL

from compaction_app.conf import get_token_counter
from compaction_app.conversation.titles import copy_title
from compaction_app.exceptions import InvalidMessage, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.columns import lean, names, said_of
from compaction_app.models.database import connection_of, locked
from compaction_app.models.lineage import stretches
from compaction_app.tokens import count_messages
from compaction_app.tree.branches import check_instance, check_tip, history_at
from compaction_app.tree.lanes import is_on_branch

_EMPTY = {
    field.attname: "'{}'" if isinstance(field, models.JSONField) else "''"
    for field in ChatMessage._meta.concrete_fields
    if isinstance(field, models.CharField | models.TextField | models.JSONField)
    if not (field.null or said_of(field).copied)
}
_COPIED = names(ChatMessage, copied=True)
_COLUMNS = {
    "into": ", ".join([*_COPIED, *_EMPTY, "copy_of"]),
    "copied": ", ".join([*(f"m.{name}" for name in _COPIED), *_EMPTY.values(), "COALESCE(m.copy_of, m.id)"]),
}
_AT_ONCE = 200


def copy_branch(tip: ChatMessage, *, owner: Any = None, until: ChatMessage | None = None) -> ChatSession:
    """Store a new session with the branch of ``tip`` down to ``until``, by default all of it, and return the session.

    It has the model, system prompt, settings and title of the first one, and its owner where no ``owner`` is given.
    Texts, roles, names, calls, attachments, dates and pins go along, a reply's model and ``finish_reason``, and the
    summary that applies at ``until``. Ids of the host, usage, metadata, reasoning, originals and sent contexts do not.
    Later changes of one do not show in the other; ``copied_from`` is ``until`` as long as that exists.

    Raises :class:`InvalidMessage` if ``until`` is not on the branch.
    """
    check_tip(tip)
    until = until or tip
    check_instance(until, ChatMessage, "until")
    # A redaction waits, and then finds the copy.
    with locked(tip):
        if not is_on_branch(until, tip):
            if not ChatMessage.objects.in_database_of(tip).filter(pk=tip.pk).exists():
                raise MessageNotFound(f"Message {tip.pk} does not exist any more.")
            raise InvalidMessage(f"until must be a message of the branch that ends at message {tip.pk}.", field="until")
        source = ChatSession.objects.in_database_of(tip).get(pk=tip.session_id)
        kept = {name: getattr(source, name) for name in names(ChatSession, copied=True)}
        copy = ChatSession(copied_from_id=until.pk, **kept)
        if next(stretches(source, until)).head:
            for name in ("continues_id", "continues_session", "numbered_from", "head"):
                setattr(copy, name, getattr(source, name))
        if owner is None:
            copy.owner_id = source.owner_id
        else:
            copy.owner = owner
        connection = connection_of(tip)
        copy.save(using=connection.alias)
        key = ChatSession._meta.pk.get_db_prep_value(copy.pk, connection)
        path = {"session": key, "node": until.pk, "min_depth": 1, "lighter": json.dumps(_lighter(until))}
        with connection.cursor() as cursor:
            cursor.execute(sql.COPY_PATH.format(**sql.COPY_IDS[connection.vendor], **_COLUMNS), path)
            if summary_id := history_at(until).summary_id:
                cursor.execute(sql.COPY_SUMMARY.format(**_COLUMNS), {"session": key, "summary": summary_id})
            cursor.execute(sql.COPY_PINS, path)
        if source.title:
            copy_title(source, copy)
    return copy


def _lighter(until: ChatMessage) -> dict[int, int]:
    """What each message loses in tokens with its original, which may have counted more than its fields, by depth."""
    path = RawSQL(sql.PATH_TO, [until.pk])  # noqa: S611  # names of tables, never a value
    found = ChatMessage.objects.in_database_of(until).filter(pk__in=path, original__isnull=False)
    rows = found.values().iterator(chunk_size=_AT_ONCE)
    count, lighter = get_token_counter(), dict[int, int]()
    while batch := list(islice(rows, _AT_ONCE)):
        before, after = (
            count_messages([{**row, **without} for row in batch], count) for without in ({}, {"original": None})
        )
        for row, whole, fields in zip(batch, before, after, strict=True):
            # Another counter may have counted it: never less than nothing.
            if less := min(0, max(fields - whole, fields - row["token_count"])):
                lighter[row["depth"]] = less
    return lighter


def copies_of(message: ChatMessage) -> list[ChatMessage]:
    """The same message in other sessions, oldest first, each with its session: its copies and theirs, and of a copy
    the one that was copied. One query, which reads no texts.
    """
    check_instance(message, ChatMessage, "message")
    rows = ChatMessage.objects.in_database_of(message).same_as(message).exclude(pk=message.pk)
    return list(lean(rows.select_related("session").order_by("id")))
