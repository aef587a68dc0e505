"""Conversations that continue others, and how their messages are numbered.

A conversation that was handed over begins with a summary of messages that stay where they are. Searches quote messages
by their numbers: one that is continued goes on counting from session to session, so that a quotation says which message
it is of wherever it is copied to. Only ``ChatSession.continues`` knows the session above: it is not known any more when
that is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from compaction_app.models import sql
from compaction_app.models.database import fetch

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage, ChatSession

_OF_SESSION = ("owner", "numbered_from", "continues")


def continued_by(session: ChatSession) -> Iterator[ChatMessage]:
    """The last message that is summarized of each conversation above, the nearest first, with its session.

    One query for each of them; none where nothing is continued.
    """
    messages: Any = session._meta.get_field("continues").related_model
    while session.continues_id is not None:
        rows = messages.objects.in_database_of(session).select_related("session")
        rows = rows.only("depth", "lane", "session", *(f"session__{name}" for name in _OF_SESSION))
        last = rows.filter(pk=session.continues_id).first()
        if last is None:
            return
        yield last
        session = last.session


def numbered_path(session: ChatSession, tip_id: int) -> dict[int, int]:
    """The ids of a branch's messages by their numbers, with those of what it continues."""
    found: dict[int, int] = {}
    for last_id, of in ((tip_id, session), *((last.pk, last.session) for last in continued_by(session))):
        path = fetch(sql.PATH_IDS, {"node": last_id, "min_depth": 1}, session)
        # Above, the numbers are those of the messages that are summarized, below of copies of them.
        found |= {depth + of.numbered_from: pk for pk, depth in path}
    return found
