"""Compacting from the admin: what people request, and the messages that say what became of it.

No model is waited for: a run is opened and enqueued, and its page shows the rest. For whole sessions a task does the
same, and reports nothing back; so a session that has nothing to compact is not enqueued but reported at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app import tasks
from compaction_app.admin.display import joined, plural
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
from compaction_app.tree.lanes import Lane, histories_at, read_lanes
from compaction_app.values import RunStatus, SkipReason, Suppression, Trigger

#: Branches that are checked; whether a session with more has nothing to do is left to the task.
MOST_LOOKED_AT = 200


TOLD_OF_COMPACTING: Told = {
    KEPT: ["Every message, and earlier summaries as a record."],
    UNSEEN: ["The messages that the summary covers, on branches that contain its anchor: it is sent instead of them."],
}


class CompactForm(forms.Form):
    instructions = forms.CharField(
        required=False,
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto", "maxlength": MAX_INSTRUCTIONS}
        ),
        help_text=f"Optional, at most {MAX_INSTRUCTIONS:,} characters: what the summary should focus on.",
    )

    def clean_instructions(self) -> str:
        """Not longer than allowed. A browser counts a line break as one character and sends it as two."""
        text = str(self.cleaned_data["instructions"]).replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > MAX_INSTRUCTIONS:
            # Django's own validator writes its numbers without commas.
            problem = f"Instructions have at most {MAX_INSTRUCTIONS:,} characters; these have {len(text):,}."
            raise ValidationError(problem)
        return text


def is_off(session: ChatSession) -> bool:
    """Whether compaction is off there. Invalid settings are reported where they are needed."""
    try:
        return get_settings(session.settings).mode == Mode.OFF
    except CompactionError:
        return False


class Outcome(Enum):
    """What became of a request: the level of the message and its sentence, in the order in which they are shown."""

    STARTED = messages.SUCCESS, "Started in the background: {links}."
    WAITING = (
        messages.WARNING,
        "The message broker did not answer. Opened: {links}. Nothing is lost: the next sweep enqueues what is waiting.",
    )
    ENDED = messages.INFO, "Carried out at once: {links}."
    BLOCKED = messages.WARNING, "A compaction of the branch is already open: {links}."
    NOTHING = messages.INFO, "Nothing to compact: {links}."
    OFF = messages.WARNING, "Compaction is off in this session: {links}."
    SPENT = messages.WARNING, "A limit of SPENDING_LIMITS is reached, so nothing was started for {links}."
    SESSIONS_STARTED = (
        messages.SUCCESS,
        "Compacting every branch over its threshold in the background, in {sessions}: {links}.",
    )
    SESSIONS_BELOW = messages.INFO, "Nothing to compact: no branch is over its threshold in {sessions}: {links}."
    SESSIONS_EMPTY = messages.INFO, "Nothing to compact: there are no messages in {sessions}: {links}."
    SESSIONS_OFF = messages.WARNING, "Compaction is off (MODE) in {sessions}: {links}."
    SESSIONS_SPENT = (
        messages.WARNING,
        "A limit of SPENDING_LIMITS is reached, so nothing was started in {sessions}: {links}.",
    )
    SESSIONS_UNANSWERED = (
        messages.ERROR,
        "The message broker did not answer, so nothing was started in {sessions}: {links}. Try again later.",
    )


#: A manual request is refused for one of these reasons only.
_REFUSED: dict[str, Outcome] = {
    SkipReason.MODE_OFF: Outcome.OFF,
    Suppression.OPEN_RUN: Outcome.BLOCKED,
    Suppression.SPEND: Outcome.SPENT,
}


class Report:
    """Requests compactions, and shows the user what became of them."""

    def __init__(self, admin: RecordAdmin, request: HttpRequest) -> None:
        self.admin, self.request = admin, request
        self.found: dict[Outcome, list[str]] = defaultdict(list)
        #: What was requested, and why it could not be done.
        self.problems: list[tuple[str, str]] = []

    def send(self) -> None:
        for outcome in Outcome:
            if links := self.found.get(outcome):
                level, sentence = outcome.value
                sessions = plural(len(links), "session")
                text = format_html(sentence, links=joined(links, ", "), sessions=sessions)
                self.admin.message_user(self.request, text, level)
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
            self.found[_REFUSED[decision.reason]].append(link)
        elif run.status == RunStatus.SKIPPED:
            self.found[Outcome.NOTHING].append(link)
        else:
            self.found[_outcome_of(run)].append(self.admin.link_to_run(run.pk))
            return run
        return None

    def compact_sessions(self, sessions: Sequence[ChatSession]) -> None:
        """Enqueue the compaction of every branch of these sessions, up to the first that no broker takes."""
        for session in sessions:
            if self.refuses(session, below_threshold=True):
                continue
            # Each attempt waits for the broker's timeout, so a hundred of them would outlast the request.
            if self.found[Outcome.SESSIONS_UNANSWERED] or not tasks.enqueue_session(session):
                self._add(Outcome.SESSIONS_UNANSWERED, session)
            else:
                self.admin.log_change(self.request, session, "Compaction of every branch requested.")
                self._add(Outcome.SESSIONS_STARTED, session)

    def refuses(self, session: ChatSession, *, below_threshold: bool = False) -> bool:
        """Whether nothing can be compacted there; with ``below_threshold`` also if no branch is over its threshold.

        One query, two for thresholds, none where the settings decide.
        """
        try:
            resolved = resolve_request(session)
        except CompactionError as error:
            problem = f"nothing is compacted, its settings are invalid. {error}"
            self.problems.append((self.admin.link_to_session(session), problem))
            return True
        if resolved.settings.mode == Mode.OFF:
            outcome = Outcome.SESSIONS_OFF
        elif not (lanes := read_lanes(session, limit=MOST_LOOKED_AT + 1 if below_threshold else 1)):
            outcome = Outcome.SESSIONS_EMPTY
        elif find_overspending(session):
            outcome = Outcome.SESSIONS_SPENT
        elif below_threshold and _are_all_below(lanes, resolved.budget.threshold, database_of(session)):
            outcome = Outcome.SESSIONS_BELOW
        else:
            return False
        self._add(outcome, session)
        return True

    def _add(self, outcome: Outcome, session: ChatSession) -> None:
        self.found[outcome].append(self.admin.link_to_session(session))


def _are_all_below(lanes: Sequence[Lane], threshold: int, using: str) -> bool:
    """Whether no branch is over the threshold; False where there are too many to check."""
    if len(lanes) > MOST_LOOKED_AT:
        return False
    tips = histories_at([lane.end_id for lane in lanes if lane.is_tip], using)
    return all(tip.tokens <= threshold for tip in tips.values())


def _outcome_of(run: CompactionRun) -> Outcome:
    """One query: whether a broker took the run."""
    if not run.is_open:
        # In the mode "deterministic" it is carried out where it is requested.
        return Outcome.ENDED
    using = database_of(run)
    if transaction.get_connection(using).in_atomic_block:
        # It is enqueued after the commit, which is after this response: nothing is known yet.
        return Outcome.STARTED
    untaken = CompactionRun.objects.using(using).filter(pk=run.pk, status=RunStatus.READY, enqueued_at__isnull=True)
    return Outcome.WAITING if untaken.exists() else Outcome.STARTED
