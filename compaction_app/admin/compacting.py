"""Compacting from the admin: what people request, and the messages that say what became of it.

No model is waited for: a run is opened and enqueued, and its page shows the rest. For whole sessions a task does it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app import tasks
from compaction_app.admin.display import EMPTY, joined, lazy_number, moment, number
from compaction_app.admin.links import Links
from compaction_app.admin.records import KEPT, UNSEEN, Told
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.conf import Mode, get_settings
from compaction_app.context.reading import ContextRequest, resolve_request, resolve_request_at
from compaction_app.conversation.compact import open_and_enqueue
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.words import words
from compaction_app.spending import find_overspending
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import RunStatus, SkipReason, Suppression, Trigger


class CompactForm(forms.Form):
    instructions = forms.CharField(
        label=gettext_lazy("Instructions"),
        required=False,
        max_length=MAX_INSTRUCTIONS,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto"}),
        help_text=format_lazy(
            gettext_lazy("Optional, at most {} characters: what the summary should focus on."),
            lazy_number(MAX_INSTRUCTIONS),
        ),
    )


def told_of_compacting() -> Told:
    unseen = _("The messages that the summary covers, on branches that contain its anchor: it is sent instead of them.")
    return {KEPT: [_("Every message, and earlier summaries as a record.")], UNSEEN: [unseen]}


def is_off(session: ChatSession) -> bool:
    """Whether compaction is off there. Invalid settings are reported where they are needed."""
    try:
        return get_settings(session.settings).mode == Mode.OFF
    except CompactionError:
        return False


def held_back(session: ChatSession) -> str:
    """Which limit of ``SPENDING_LIMITS`` delays compactions, and until when; "" if none does."""
    numbers = find_overspending(session)
    if numbers is None:
        return ""
    used = _("SPENDING_LIMITS: {limit} ({unit} per {period}, of this {of}); used: {used}.")
    said = {name: words(numbers[name]) for name in ("period", "of", "unit")}
    until = moment(timezone.now() + timedelta(seconds=numbers["seconds"]))
    used = used.format(used=number(numbers["used"]), limit=number(numbers["limit"]), **said)
    return format_html(_("{} Until {} nothing is compacted."), used, until)


#: Open runs that a page names.
_MOST_NAMED = 5
#: What became of a request → the level of the message and its sentence, in the order in which they are shown.
_OUTCOMES: dict[str, tuple[int, Any]] = {
    "started": (messages.SUCCESS, gettext_lazy("Opened: {}. Its page tells how it goes on.")),
    "sessions": (
        messages.SUCCESS,
        gettext_lazy("Every branch over its threshold is compacted in the background: {}."),
    ),
    Suppression.OPEN_RUN: (messages.WARNING, gettext_lazy("A compaction of the branch is already open: {}.")),
    SkipReason.NOTHING_TO_COMPACT: (messages.INFO, gettext_lazy("Nothing to compact: {}.")),
    SkipReason.MODE_OFF: (messages.WARNING, gettext_lazy("Compaction is off (MODE): {}.")),
    Suppression.SPEND: (
        messages.WARNING,
        gettext_lazy("A limit of SPENDING_LIMITS is reached, so nothing was started: {}."),
    ),
    "unanswered": (
        messages.ERROR,
        gettext_lazy("The message broker did not answer, so nothing was started: {}. Try again later."),
    ),
}


class Report:
    """Requests compactions, and shows the user what became of them."""

    def __init__(self, model_admin: admin.ModelAdmin[Any], links: Links) -> None:
        self.admin, self.links = model_admin, links
        self.found: dict[str, list[str]] = defaultdict(list)
        #: What was requested, and why it could not be done.
        self.problems: list[tuple[str, str]] = []

    def send(self) -> None:
        for outcome, (level, sentence) in _OUTCOMES.items():
            if found := self.found.get(outcome):
                self.admin.message_user(self.links.request, format_html(sentence, joined(found, ", ")), level)
        for name, problem in self.problems:
            self.admin.message_user(self.links.request, format_html("{}: {}", name, problem), messages.ERROR)

    def compact(self, tip: ChatMessage, instructions: str = "") -> CompactionRun | None:
        """Request the compaction of one branch; returns the run that was opened for it."""
        link = self.links.message(tip.pk)
        try:
            check_tip(tip)
            resolved = resolve_request_at(tip, ContextRequest())
            request = CompactionRequest(tip=tip, trigger=Trigger.MANUAL, resolved=resolved, instructions=instructions)
            decision = open_and_enqueue(request)
        except CompactionError as error:
            self.problems.append((link, str(error)))
            return None
        run = decision.run
        if run is None:
            if decision.open_run_id:
                link = format_html(_("{} (blocks {})"), self.links.run(decision.open_run_id), link)
            self.found[decision.reason].append(link)
        elif run.status == RunStatus.SKIPPED:
            self.found[SkipReason.NOTHING_TO_COMPACT].append(link)
        else:
            self.found["started"].append(self.links.record(run))
            return run
        return None

    def compact_session(self, session: ChatSession) -> None:
        """Enqueue the compaction of every branch of a session."""
        link = self.links.session(session)
        try:
            resolved = resolve_request(session)
        except CompactionError as error:
            self.problems.append((link, _("nothing is compacted, its settings are invalid. {}").format(error)))
            return
        if resolved.settings.mode == Mode.OFF:
            outcome: str = SkipReason.MODE_OFF
        elif not session.messages.exists():
            outcome = SkipReason.NOTHING_TO_COMPACT
        elif find_overspending(session):
            outcome = Suppression.SPEND
        elif not tasks.enqueue_session(session):
            outcome = "unanswered"
        else:
            self.admin.log_change(self.links.request, session, "Compaction of every branch requested.")
            outcome = "sessions"
        self.found[outcome].append(link)


def being_compacted(links: Links, session: ChatSession) -> str:
    """Like "Open runs: Run 162 (running)."; "" where no run is open, or the user may not view runs. One query."""
    if not links.may_view("compactionrun"):
        return ""
    runs = CompactionRun.objects.using(database_of(session)).filter(session=session).open()
    found = joined(map(links.record, runs.only("status").order_by("pk")[:_MOST_NAMED]), ", ")
    return format_html(_("Open runs: {}."), found) if found != EMPTY else ""


def requested_after(links: Links, session: ChatSession) -> str:
    """The same after an erasure. Where a broker took the request, no run is open before a worker has looked at it."""
    if (found := being_compacted(links, session)) or is_off(session):
        return found
    runs = links.to_list("compactionrun", _("see the runs"), session=session.pk)
    return format_html(_("If a branch is over its threshold now, it is compacted in the background: {}."), runs)
