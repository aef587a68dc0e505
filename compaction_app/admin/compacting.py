"""Compacting from the admin: what people request, and the messages that say what became of it.

No model is waited for: a run is opened and enqueued, and its page shows the rest.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app.admin.display import moment, number
from compaction_app.admin.links import Links
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.conf import Mode, get_settings
from compaction_app.context.budget import ContextRequest
from compaction_app.conversation.compact import asked_request, open_and_enqueue
from compaction_app.exceptions import CompactionError
from compaction_app.messages.validation import MAX_ID
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.words import words
from compaction_app.spending import find_overspending
from compaction_app.values import RunStatus, SkipReason

#: The permission to do so.
COMPACT = "compact_chatsession"


class CompactForm(forms.Form):
    instructions = forms.CharField(
        label=gettext_lazy("Instructions"),
        required=False,
        max_length=MAX_INSTRUCTIONS,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto"}),
        help_text=gettext_lazy("Optional: what the summary should focus on."),
    )
    until = forms.IntegerField(
        label=gettext_lazy("Up to message"),
        required=False,
        min_value=1,
        max_value=MAX_ID,
        help_text=gettext_lazy("Optional: the id of the last message to summarize. It ends a turn."),
    )
    text = forms.CharField(
        label=gettext_lazy("Summary"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto"}),
        help_text=gettext_lazy("Optional: write it yourself, and no model is asked."),
    )


class CarryOverForm(forms.Form):
    source = forms.IntegerField(
        label=gettext_lazy("From message"),
        min_value=1,
        max_value=MAX_ID,
        help_text=gettext_lazy(
            "The id of the last message of the other branch, as the session's page names it at each branch."
        ),
    )


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


def request_branch_compaction(
    model_admin: ModelAdmin[Any], links: Links, tip: ChatMessage, *, until: int | None = None, **given: Any
) -> CompactionRun | None:
    """Request the compaction of one branch and tell the user; returns the run that was opened for it."""
    tell, named = partial(_tell, model_admin, links), links.message(tip.pk)
    if until is not None:
        rows = ChatMessage.objects.in_database_of(tip).filter(session=tip.session_id)
        # An id that is of no message of the session is on no branch of it either.
        given["until"] = rows.filter(pk=until).first() or ChatMessage(pk=until)
    decision = open_and_enqueue(asked_request(tip, ContextRequest(), author=links.request.user, **given))
    run = decision.run
    if run is not None and run.status != RunStatus.SKIPPED:
        tell(messages.SUCCESS, _("Opened: {}. Its page tells how it goes on."), links.record(run))
        return run
    if decision.open_run_id:
        blocking = links.run(decision.open_run_id)
        tell(messages.WARNING, _("A compaction of the branch is already open: {} (blocks {})."), blocking, named)
    else:
        why = words(decision.reason or SkipReason.NOTHING_TO_COMPACT)
        tell(messages.WARNING, _("{}: nothing was started ({}). {}"), named, why, held_back(tip.session))
    return None


def _tell(model_admin: ModelAdmin[Any], links: Links, level: int, sentence: str, *values: Any) -> None:
    model_admin.message_user(links.request, format_html(sentence, *values), level)


def requested_after(links: Links, session: ChatSession) -> str:
    """What follows an erasure: no run need be open before a worker has looked at the session."""
    runs = links.to_list("compactionrun", _("see the runs"), session=session.pk)
    return format_html(_("If a branch is over its threshold now, it is compacted in the background: {}."), runs)
