"""Conversations that continue others, and how their messages are numbered.

A conversation that was handed over begins with a summary of messages that stay where they are. Searches quote messages
by their numbers: one that is continued goes on counting from session to session, so that a quotation says which message
it is of wherever it is copied to. What stands for messages of another session at its beginning has no number there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from compaction_app.models import sql
from compaction_app.models.database import fetch

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage, ChatSession

#: So many conversations back a search looks.
_MOST = 20
_OF_SESSION = ("owner", "numbered_from", "head", "continues")


class Stretch(NamedTuple):
    """The messages of one session at or above one of them."""

    session: ChatSession
    last: ChatMessage
    #: So many at its beginning stand for messages of the stretch above.
    head: int

    @property
    def shift(self) -> int:
        """What a message's number has more than its depth."""
        return self.session.numbered_from or 0


def stretches(session: ChatSession, tip: ChatMessage) -> Iterator[Stretch]:
    """A branch, and what it continues, the nearest first: two queries for each, none where nothing is continued."""
    return islice(_stretches(session, tip), _MOST)


def _stretches(session: ChatSession, last: ChatMessage) -> Iterator[Stretch]:
    messages: Any = session._meta.get_field("continues").related_model
    while True:
        goes_back = session.is_handed_over and _goes_back(session, last, messages)
        yield Stretch(session, last, session.head if goes_back else 0)
        if not goes_back or session.continues_id is None:
            return
        rows = messages.objects.in_database_of(session).select_related("session")
        rows = rows.only("depth", "lane", "session", *(f"session__{name}" for name in _OF_SESSION))
        above = rows.filter(pk=session.continues_id).first()
        if above is None:
            return
        session, last = above.session, above


def _goes_back(session: ChatSession, last: ChatMessage, messages: Any) -> bool:
    """Whether a branch of a session that was handed over begins with its first root, the one that the hand-over made.
    A branch below a root that was added later continues nothing."""
    roots = messages.objects.in_database_of(session).filter(session=session.pk, parent=None, sib_order=1)
    first = roots.values_list("pk", flat=True).first()
    return bool(first and fetch(sql.TIPS_AT_OR_BELOW.format(tips="%s"), [last.pk, first], session))


def numbered_path(session: ChatSession, tip: ChatMessage) -> dict[int, int]:
    """The ids of a branch's messages by their numbers, with those of what it continues."""
    found: dict[int, int] = {}
    for one in stretches(session, tip):
        path = fetch(sql.PATH_IDS, {"node": one.last.pk, "min_depth": 1}, session)
        found |= {depth + one.shift: pk for pk, depth in path if depth > one.head}
    return found
