"""Compacting from the admin: what people request, and the messages that say what became of it.

No model is waited for: a run is opened and enqueued, and its page shows the rest. For whole sessions a task does it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
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
from compaction_app.context.reading import ContextRequest, resolve_request_at
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
#: What became of a request → the level of the message and its sentence.
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


def _tell(model_admin: ModelAdmin[Any], links: Links, outcome: str, named: str) -> None:
    level, sentence = _OUTCOMES[outcome]
    model_admin.message_user(links.request, format_html(sentence, named), level)


def compact_branch(
    model_admin: ModelAdmin[Any], links: Links, tip: ChatMessage, instructions: str = ""
) -> CompactionRun | None:
    """Request the compaction of one branch and tell the user; returns the run that was opened for it."""
    named = links.message(tip.pk)
    try:
        check_tip(tip)
        resolved = resolve_request_at(tip, ContextRequest())
        request = CompactionRequest(tip=tip, trigger=Trigger.MANUAL, resolved=resolved, instructions=instructions)
        decision = open_and_enqueue(request)
    except CompactionError as error:
        model_admin.message_user(links.request, format_html("{}: {}", named, error), messages.ERROR)
        return None
    run, outcome = decision.run, decision.reason
    if run is not None:
        is_skipped = run.status == RunStatus.SKIPPED
        outcome = SkipReason.NOTHING_TO_COMPACT if is_skipped else "started"
        named = named if is_skipped else links.record(run)
    elif decision.open_run_id:
        named = format_html(_("{} (blocks {})"), links.run(decision.open_run_id), named)
    _tell(model_admin, links, outcome, named)
    return run if outcome == "started" else None


def compact_session(model_admin: ModelAdmin[Any], links: Links, session: ChatSession) -> None:
    """Enqueue the compaction of every branch of a session and tell the user."""
    named, outcome = links.session(session), "sessions"
    try:
        if find_overspending(session):
            outcome = Suppression.SPEND
        elif not tasks.enqueue_session(session):
            outcome = "unanswered"
        else:
            model_admin.log_change(links.request, session, _("Compaction of every branch requested."))
    except CompactionError as error:
        model_admin.message_user(links.request, format_html("{}: {}", named, error), messages.ERROR)
    else:
        _tell(model_admin, links, outcome, named)


def being_compacted(links: Links, session: ChatSession) -> str:
    """Like "Open runs: Run 162 (running)."; "" where no run is open, or the user may not view runs. One query."""
    if not links.may_view("compactionrun"):
        return ""
    runs = CompactionRun.objects.using(database_of(session)).filter(session=session).open()
    found = joined(map(links.record, runs.only("status").order_by("pk")[:_MOST_NAMED]), ", ")
    return format_html(_("Open runs: {}."), found) if found != EMPTY else ""


def requested_after(links: Links, session: ChatSession) -> str:
    """What follows an erasure: no run need be open before a worker has looked at the session."""
    runs = links.to_list("compactionrun", _("see the runs"), session=session.pk)
    return format_html(_("If a branch is over its threshold now, it is compacted in the background: {}."), runs)
