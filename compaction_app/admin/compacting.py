"""Compacting from the admin: what people request, and the messages that say what became of it.

No model is waited for: a run is opened and enqueued, and its page shows the rest. For whole sessions a task does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app import tasks
from compaction_app.admin.display import EMPTY, joined
from compaction_app.admin.records import KEPT, UNSEEN, RecordAdmin, Told
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.conf import Mode, get_settings
from compaction_app.context.reading import ContextRequest, resolve_request, resolve_request_at
from compaction_app.conversation.compact import open_and_enqueue
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.spending import find_overspending
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import RunStatus, SkipReason, Suppression, Trigger

TOLD_OF_COMPACTING: Told = {
    KEPT: ["Every message, and earlier summaries as a record."],
    UNSEEN: ["The messages that the summary covers, on branches that contain its anchor: it is sent instead of them."],
}


class CompactForm(forms.Form):
    instructions = forms.CharField(
        required=False,
        max_length=MAX_INSTRUCTIONS,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto"}),
        help_text=f"Optional, at most {MAX_INSTRUCTIONS:,} characters: what the summary should focus on.",
    )


def is_off(session: ChatSession) -> bool:
    """Whether compaction is off there. Invalid settings are reported where they are needed."""
    try:
        return get_settings(session.settings).mode == Mode.OFF
    except CompactionError:
        return False


#: Open runs that a page names.
_MOST_NAMED = 5
#: What became of a request → the level of the message and its sentence, in the order in which they are shown.
_OUTCOMES: dict[str, tuple[int, str]] = {
    "started": (messages.SUCCESS, "Started in the background: {}."),
    "sessions": (messages.SUCCESS, "Every branch over its threshold is compacted in the background: {}."),
    "waiting": (
        messages.WARNING,
        "The message broker did not answer. Opened: {}. Nothing is lost: the next sweep enqueues what is waiting.",
    ),
    "ended": (messages.INFO, "Carried out at once: {}."),
    Suppression.OPEN_RUN: (messages.WARNING, "A compaction of the branch is already open: {}."),
    SkipReason.NOTHING_TO_COMPACT: (messages.INFO, "Nothing to compact: {}."),
    SkipReason.MODE_OFF: (messages.WARNING, "Compaction is off (MODE): {}."),
    Suppression.SPEND: (messages.WARNING, "A limit of SPENDING_LIMITS is reached, so nothing was started: {}."),
    "unanswered": (
        messages.ERROR,
        "The message broker did not answer, so nothing was started: {}. Try again later.",
    ),
}


class Report:
    """Requests compactions, and shows the user what became of them."""

    def __init__(self, admin: RecordAdmin, request: HttpRequest) -> None:
        self.admin, self.request = admin, request
        self.found: dict[str, list[str]] = defaultdict(list)
        #: What was requested, and why it could not be done.
        self.problems: list[tuple[str, str]] = []

    def send(self) -> None:
        for outcome, (level, sentence) in _OUTCOMES.items():
            if links := self.found.get(outcome):
                self.admin.message_user(self.request, format_html(sentence, joined(links, ", ")), level)
        for name, problem in self.problems:
            self.admin.message_user(self.request, format_html("{}: {}", name, problem), messages.ERROR)

    def compact(self, tip: ChatMessage, instructions: str = "") -> CompactionRun | None:
        """Request the compaction of one branch; returns the run that was opened for it."""
        try:
            check_tip(tip)
            resolved = resolve_request_at(tip, ContextRequest())
            request = CompactionRequest(tip=tip, trigger=Trigger.MANUAL, resolved=resolved, instructions=instructions)
            decision = open_and_enqueue(request)
        except CompactionError as error:
            self.problems.append((f"Message {tip.pk}", str(error)))
            return None
        link, run = self.admin.link_to_message(tip.pk), decision.run
        if run is None:
            if decision.open_run_id:
                link = format_html("{} (blocks {})", self.admin.link_to_run(decision.open_run_id), link)
            self.found[decision.reason].append(link)
        elif run.status == RunStatus.SKIPPED:
            self.found[SkipReason.NOTHING_TO_COMPACT].append(link)
        else:
            self.found[_outcome_of(run)].append(self.admin.link_to_run(run.pk))
            return run
        return None

    def compact_sessions(self, sessions: Sequence[ChatSession]) -> None:
        """Enqueue the compaction of every branch of these sessions, up to the first that no broker takes."""
        for session in sessions:
            link = self.admin.link_to_session(session)
            try:
                resolved = resolve_request(session)
            except CompactionError as error:
                self.problems.append((link, f"nothing is compacted, its settings are invalid. {error}"))
                continue
            if resolved.settings.mode == Mode.OFF:
                outcome: str = SkipReason.MODE_OFF
            elif not session.messages.exists():
                outcome = SkipReason.NOTHING_TO_COMPACT
            elif find_overspending(session):
                outcome = Suppression.SPEND
            # Each attempt waits for the broker's timeout, so a hundred of them would outlast the request.
            elif self.found["unanswered"] or not tasks.enqueue_session(session):
                outcome = "unanswered"
            else:
                self.admin.log_change(self.request, session, "Compaction of every branch requested.")
                outcome = "sessions"
            self.found[outcome].append(link)


def _outcome_of(run: CompactionRun) -> str:
    """One query: whether a broker took the run."""
    if not run.is_open:
        # In the mode "deterministic" it is carried out where it is requested.
        return "ended"
    using = database_of(run)
    if transaction.get_connection(using).in_atomic_block:
        # It is enqueued after the commit, which is after this response: nothing is known yet.
        return "started"
    untaken = CompactionRun.objects.using(using).filter(pk=run.pk, status=RunStatus.READY, enqueued_at__isnull=True)
    return "waiting" if untaken.exists() else "started"


def being_compacted(admin: RecordAdmin, sessions: Collection[ChatSession]) -> str:
    """Like "Open runs: Run 162 (running)."; "" where no run is open, or the user may not view runs.

    One query. The sessions are of one database, and at least one.
    """
    if not admin.may_view("compactionrun"):
        return ""
    runs = CompactionRun.objects.using(database_of(next(iter(sessions)))).filter(session__in=sessions).open()
    found = joined(map(admin.link_to_run_with_status, runs.only("status").order_by("pk")[:_MOST_NAMED]), ", ")
    return format_html("Open runs: {}.", found) if found != EMPTY else ""


def requested_after(admin: RecordAdmin, sessions: Collection[ChatSession]) -> str:
    """The same after an erasure. Where a broker took the request, no run is open before a worker has looked at it."""
    if (found := being_compacted(admin, sessions)) or all(is_off(session) for session in sessions):
        return found
    runs = admin.link_to_list("compactionrun", "see the runs", session=next(iter(sessions)).pk)
    return format_html("If a branch is over its threshold now, it is compacted in the background: {}.", runs)
