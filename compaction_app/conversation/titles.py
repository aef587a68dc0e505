"""Of which messages a title is: it is erased with them, and a copy without them does not have it.

``ChatSession.title_of`` names the message that a title was made of. Where it names none, a title is of the messages
that begin with it, as chat pages call a conversation after its first one, and of those whose files have these names.
"""

import re
from collections.abc import Collection
from typing import Any

from django.db.models import Q, QuerySet

from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import Kind

#: Rows that are read at once.
_AT_ONCE = 50


def clear_erased_title(near: Any, erased: Collection[int]) -> None:
    """Clear a title of messages that are about to be erased, unless another first message begins the same."""
    session = ChatSession.objects.in_database_of(near).only("title", "title_of").get(pk=near.session_id)
    rows = ChatMessage.objects.in_database_of(near).in_session(near.session_id)
    if session.title_of_id is None:
        # A redaction, which is of one message, does not read the others.
        among = rows.filter(pk__in=erased) if len(erased) <= _AT_ONCE else rows
        is_erased = not messages_named(session.title, among).isdisjoint(erased)
        is_erased = is_erased and messages_named(session.title, rows.filter(parent=None)).issubset(erased)
    else:
        is_erased = session.title_of_id in erased
    if is_erased:
        session.title, session.title_of = "", None
        session.save(update_fields=["title", "title_of"])


def copy_title(source: ChatSession, copy: ChatSession) -> None:
    """What a copy of a branch is called, once it has its messages."""
    rows = ChatMessage.objects.in_database_of(source).in_session
    if source.title_of is None:
        is_kept = bool(messages_named(source.title, rows(copy.pk)) or not messages_named(source.title, rows(source.pk)))
    else:
        copy.title_of = rows(copy.pk).same_as(source.title_of).first()
        is_kept = copy.title_of is not None
    copy.title = source.title if is_kept else ""
    copy.save(using=copy._state.db, update_fields=["title", "title_of"])


def messages_named(title: str, rows: QuerySet[ChatMessage]) -> set[int]:
    """The ids of the messages that a title may be made of, where it does not name one."""
    start = _uncut(title)
    if not start:
        return set()
    said = rows.filter(Q(content__contains=start.split()[0]) | Q(attachments__isnull=False), kind=Kind.MESSAGE)
    return {
        pk
        for pk, content, files in said.values_list("pk", "content", "attachments").iterator(chunk_size=_AT_ONCE)
        if _begins(content, start) or _begins(", ".join(str(one.get("name")) for one in files or ()), start)
    }


def _begins(text: str, start: str) -> bool:
    return _one_line(text).startswith(start)


def _uncut(title: str) -> str:
    """Without an ellipsis at the end, or the dots of a host, also in brackets."""
    line = _one_line(title)
    kept = line.rstrip(" []….")
    return kept if re.search(r"…|\.\.\.", line[len(kept) :]) else line


def _one_line(text: str) -> str:
    return " ".join(text.split())
