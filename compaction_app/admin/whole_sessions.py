"""Asking for whole sessions: every branch over its threshold, by a task that no person waits for.

The task says nothing to whoever asked, so what can be known beforehand is told at once: a session that is switched
off, one with wrong settings, an empty one, and one whose branches are all under their threshold are not handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app import tasks
from compaction_app.admin.display import joined
from compaction_app.admin.records import RecordAdmin
from compaction_app.conf import Mode
from compaction_app.context.request import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.tree.lanes import Lane, histories_at, read_lanes

#: Branches that are looked at; of a session with more nobody knows beforehand that there is nothing to do.
MOST_LOOKED_AT = 200


@dataclass
class SessionsReport:
    """What becomes of each of the sessions that somebody asked for."""

    started: list[ChatSession] = field(default_factory=list)
    unanswered: list[ChatSession] = field(default_factory=list)
    nothing: list[ChatSession] = field(default_factory=list)
    empty: list[ChatSession] = field(default_factory=list)
    off: list[ChatSession] = field(default_factory=list)
    invalid: list[tuple[ChatSession, str]] = field(default_factory=list)

    def refuses(self, session: ChatSession) -> bool:
        """Whether nothing can be compacted there, whatever is asked for. One query, none for its settings."""
        return self._look_at(session, lanes=1) is None

    def finds_nothing_to_do(self, session: ChatSession) -> bool:
        """Whether the task would find nothing to do there. Two queries."""
        found = self._look_at(session, lanes=MOST_LOOKED_AT + 1)
        if found is None:
            return True
        resolved, lanes = found
        if len(lanes) > MOST_LOOKED_AT:
            return False
        filled = histories_at([lane.end_id for lane in lanes if lane.is_tip], database_of(session)).values()
        if any(filling.history_tokens > resolved.budget.threshold for filling in filled):
            return False
        self.nothing.append(session)
        return True

    def _look_at(self, session: ChatSession, *, lanes: int) -> tuple[ResolvedRequest, tuple[Lane, ...]] | None:
        """What the session allows, and so many of its lanes at most; None where that refuses it, which is noted."""
        try:
            resolved = resolve_request(session)
        except CompactionError as error:
            self.invalid.append((session, str(error)))
            return None
        if resolved.settings.mode == Mode.OFF:
            self.off.append(session)
            return None
        found = read_lanes(session, limit=lanes)
        if not found:
            self.empty.append(session)
            return None
        return resolved, found

    def lines(self, admin: RecordAdmin) -> Iterable[tuple[int, str]]:
        told = (
            (messages.SUCCESS, "Every branch over its threshold is being compacted in the background in {}: {}.",
             self.started),
            (messages.INFO, "Nothing to compact, for no branch is over its threshold, in {}: {}.", self.nothing),
            (messages.INFO, "Nothing to compact, for there is no message yet, in {}: {}.", self.empty),
            (messages.WARNING, "Compaction is switched off (MODE) in {}: {}.", self.off),
            (messages.ERROR, "The message broker did not answer, so nothing was started in {}: {}. Try again later.",
             self.unanswered),
        )  # fmt: skip
        for level, sentence, sessions in told:
            if sessions:
                names = joined((admin.link_to_session(session) for session in sessions), ", ")
                yield level, format_html(sentence, counted_sessions(sessions), names)
        for session, problem in self.invalid:
            name = admin.link_to_session(session)
            yield messages.ERROR, format_html("Nothing is compacted in {}, whose settings are wrong: {}", name, problem)

    def tell(self, admin: RecordAdmin, request: HttpRequest) -> None:
        for level, line in self.lines(admin):
            admin.message_user(request, line, level)


def counted_sessions(sessions: Sequence[ChatSession]) -> str:
    return "1 session" if len(sessions) == 1 else f"{len(sessions):,} sessions"


def enqueue_sessions(admin: RecordAdmin, request: HttpRequest, sessions: Sequence[ChatSession]) -> None:
    """Have every branch of these sessions brought under its threshold, up to the first that no broker takes."""
    report = SessionsReport()
    for session in sessions:
        if report.finds_nothing_to_do(session):
            continue
        if report.unanswered or not tasks.enqueue_session(session):
            # Each try waits for the broker's time-out, so a hundred of them would outlast the request.
            report.unanswered.append(session)
        else:
            admin.log_change(request, session, "Compaction of every branch requested.")
            report.started.append(session)
    report.tell(admin, request)
