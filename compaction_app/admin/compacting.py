"""Asking for compactions from the admin, and saying in numbers what became of it.

Nothing waits for a model here: a run is opened and enqueued, and its page tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin.display import joined
from compaction_app.admin.records import MOST_AT_ONCE, RecordAdmin
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.conf import Mode, get_settings
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.branches import database_of, is_on_branch
from compaction_app.values import RunStatus, Trigger

#: Open runs of a session that are asked whether they are in the way.
_MOST_IN_THE_WAY = 20
_NO_BROKER = (
    "Opened, but the message broker did not answer: {}. Nothing is lost: the next sweep hands over what waits, once "
    "the broker answers."
)


class LinesField(forms.CharField):
    """Text of several lines. A browser counts a line's end as one character and sends it as two."""

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_length(text: str) -> None:
    # Django's own validator writes its numbers without commas.
    if len(text) > MAX_INSTRUCTIONS:
        raise ValidationError(f"Instructions have at most {MAX_INSTRUCTIONS:,} characters; these have {len(text):,}.")


class CompactForm(forms.Form):
    instructions = LinesField(
        required=False,
        validators=[_check_length],
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto", "maxlength": MAX_INSTRUCTIONS}
        ),
        help_text=f"Optional, at most {MAX_INSTRUCTIONS:,} characters: what the summary should pay attention to.",
    )


@dataclass
class Report:
    """What became of the compactions that a person asked for."""

    started: list[CompactionRun] = field(default_factory=list)
    #: Opened, and no broker took them.
    waiting: list[CompactionRun] = field(default_factory=list)
    nothing: list[ChatMessage] = field(default_factory=list)
    #: Tips with the open runs that are in their way.
    in_the_way: list[tuple[ChatMessage, list[int]]] = field(default_factory=list)
    off: list[ChatMessage] = field(default_factory=list)
    #: What was asked for and why it could not be done.
    problems: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, tip: ChatMessage, instructions: str = "") -> CompactionRun | None:
        """Ask for one compaction; returns the run that was opened for it."""
        try:
            run = chat.request_compaction(tip, trigger=Trigger.MANUAL, instructions=instructions)
            if run is None:
                # A manual request is refused for one of two reasons only.
                if is_off(tip.session):
                    self.off.append(tip)
                else:
                    self.in_the_way.append((tip, _runs_in_the_way(tip)))
                return None
        except CompactionError as error:
            self.problems.append((f"Message {tip.pk}", str(error)))
            return None
        if not run.is_open:
            self.nothing.append(tip)
            return None
        (self.started if _was_taken(run) else self.waiting).append(run)
        return run

    def tell(self, admin: RecordAdmin, request: HttpRequest) -> None:
        for level, line in self.lines(admin):
            admin.message_user(request, line, level)

    def lines(self, admin: RecordAdmin) -> Iterable[tuple[int, str]]:
        if self.started:
            runs = joined((admin.link_to_run(run.pk) for run in self.started), ", ")
            yield messages.SUCCESS, format_html("Started in the background: {}.", runs)
        if self.waiting:
            runs = joined((admin.link_to_run(run.pk) for run in self.waiting), ", ")
            yield messages.WARNING, format_html(_NO_BROKER, runs)
        for tip, ids in self.in_the_way:
            runs = joined((admin.link_to_run(pk) for pk in ids), ", ")
            line = "A compaction of this branch is open already: {}, in the way of {}."
            yield messages.WARNING, format_html(line, runs, admin.link_to_message(tip.pk))
        told = (
            (messages.INFO, "Nothing to compact: {}.", self.nothing),
            (messages.WARNING, "Compaction is switched off in this session: {}.", self.off),
        )
        for level, sentence, tips in told:
            if tips:
                links = joined((admin.link_to_message(tip.pk) for tip in tips), ", ")
                yield level, format_html(sentence, links)
        for asked, problem in self.problems:
            yield messages.ERROR, f"{asked}: {problem}"


def at_most(admin: RecordAdmin, request: HttpRequest, queryset: Any) -> list[Any]:
    """The selected records; none, and a word about it, where they are too many for one request."""
    selected = list(queryset[: MOST_AT_ONCE + 1])
    if len(selected) > MOST_AT_ONCE:
        admin.message_user(request, f"Select at most {MOST_AT_ONCE} at once. Nothing was changed.", messages.WARNING)
        return []
    return selected


def retry(admin: RecordAdmin, request: HttpRequest, runs: Sequence[CompactionRun]) -> Report:
    """Open a new run for the tip of each of these failed ones, with the same instructions."""
    report = Report()
    for run in runs:
        problem = why_no_retry(run)
        if problem or run.tip is None:
            report.problems.append((str(run), problem))
        elif started := report.ask(run.tip, run.instructions):
            admin.log_change(request, run, f"Retried as run {started.pk}.")
    return report


def why_no_retry(run: CompactionRun) -> str:
    """Why a run can not be tried again; "" where it can."""
    if run.status != RunStatus.FAILED:
        return "Only a failed run can be retried."
    return "" if run.tip_id else "Its tip has been deleted."


def is_off(session: ChatSession) -> bool:
    """Whether compaction is switched off there. Wrong settings are told by whoever needs them."""
    try:
        return get_settings(session.settings).mode == Mode.OFF
    except CompactionError:
        return False


def _was_taken(run: CompactionRun) -> bool:
    """Whether a broker took the run, or it is over already. One query."""
    using = run._state.db or "default"
    if transaction.get_connection(using).in_atomic_block:
        # It is handed over after the commit, which is after this answer: nothing is known yet.
        return True
    untaken = CompactionRun.objects.using(using).filter(pk=run.pk, status=RunStatus.READY, enqueued_at__isnull=True)
    return not untaken.exists()


def _runs_in_the_way(tip: ChatMessage) -> list[int]:
    """Open runs of the branch that ends here: those asked for at this tip or anchored above it, newest first."""
    open_runs = CompactionRun.objects.using(database_of(tip)).filter(session_id=tip.session_id).open()
    found = open_runs.order_by("-pk").values_list("pk", "tip_id", "anchor_id", "anchor__depth")
    rows = list(found[:_MOST_IN_THE_WAY])
    on_branch = [
        pk
        for pk, tip_id, anchor_id, depth in rows
        if tip_id == tip.pk or (anchor_id and is_on_branch(anchor_id, depth, tip.pk, database_of(tip)))
    ]
    # A run of a fork may be in the way too, whose anchor would stand on both branches.
    return on_branch or [pk for pk, *_ in rows]
