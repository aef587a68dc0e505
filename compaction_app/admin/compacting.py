"""Asking for compactions from the admin, and saying in numbers what became of it.

Nothing waits for a model here: a run is opened and enqueued, and its page tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html

from compaction_app import chat, tasks
from compaction_app.admin.display import joined
from compaction_app.admin.records import MOST_AT_ONCE, RecordAdmin
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.conf import get_settings
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import Mode, RunStatus, Trigger


class LinesField(forms.CharField):
    """Text of several lines. A browser counts a line's end as one character and sends it as two."""

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        return text.replace("\r\n", "\n").replace("\r", "\n")


class CompactForm(forms.Form):
    instructions = LinesField(
        required=False,
        max_length=MAX_INSTRUCTIONS,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto"}),
        help_text=f"Optional, at most {MAX_INSTRUCTIONS:,} characters: what the summary should pay attention to.",
        error_messages={
            "max_length": "Instructions have at most %(limit_value)d characters; these have %(show_value)d.",
        },
    )


@dataclass
class Report:
    """What became of the compactions that a person asked for."""

    started: list[CompactionRun] = field(default_factory=list)
    nothing: list[ChatMessage] = field(default_factory=list)
    in_the_way: list[ChatMessage] = field(default_factory=list)
    off: list[ChatMessage] = field(default_factory=list)
    #: What was asked for and why it could not be done.
    problems: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, tip: ChatMessage, instructions: str = "") -> CompactionRun | None:
        """Ask for one compaction; returns the run that was started."""
        try:
            run = chat.request_compaction(tip, trigger=Trigger.MANUAL, instructions=instructions)
            if run is None:
                # A manual request is refused for one of two reasons only.
                off = get_settings(tip.session.settings).mode == Mode.OFF
                (self.off if off else self.in_the_way).append(tip)
                return None
        except CompactionError as error:
            self.problems.append((f"Message {tip.pk}", str(error)))
            return None
        if not run.is_open:
            self.nothing.append(tip)
            return None
        self.started.append(run)
        return run

    def tell(self, admin: RecordAdmin, request: HttpRequest) -> None:
        for level, line in self.lines(admin):
            admin.message_user(request, line, level)

    def lines(self, admin: RecordAdmin) -> Iterable[tuple[int, str]]:
        if self.started:
            runs = joined((admin.link_to_run(run.pk) for run in self.started), ", ")
            yield messages.SUCCESS, format_html("Started in the background: {}.", runs)
        told = (
            (messages.INFO, "Nothing to compact: {}.", self.nothing),
            (messages.WARNING, "A compaction of this branch is open already: {}.", self.in_the_way),
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


def enqueue_sessions(admin: RecordAdmin, request: HttpRequest, sessions: Sequence[ChatSession]) -> None:
    """Have every branch of these sessions compacted, up to the first that the broker does not take."""
    taken = []
    for session in sessions:
        # Each try waits for the broker's time-out, so a hundred of them would outlast the request.
        if not tasks.enqueue_session(session):
            break
        admin.log_change(request, session, "Compaction of every branch requested.")
        taken.append(session)
    if taken:
        names = joined((admin.link_to_session(session) for session in taken), ", ")
        done = format_html("Every branch is being compacted in the background in {}: {}.", _sessions(taken), names)
        admin.message_user(request, done, messages.SUCCESS)
    if left := len(sessions) - len(taken):
        told = f"The broker did not answer: {left} of {_sessions(sessions)} not enqueued. Try again later."
        admin.message_user(request, told, messages.ERROR)


def retry(admin: RecordAdmin, request: HttpRequest, runs: Sequence[CompactionRun]) -> Report:
    """Open a new run for the tip of each of these failed ones, with the same instructions."""
    report = Report()
    for run in runs:
        if run.status != RunStatus.FAILED:
            report.problems.append((str(run), "Only a failed run can be retried."))
        elif run.tip is None:
            report.problems.append((str(run), "Its tip has been deleted."))
        elif started := report.ask(run.tip, run.instructions):
            admin.log_change(request, run, f"Retried as run {started.pk}.")
    return report


def _sessions(sessions: Sequence[ChatSession]) -> str:
    return "1 session" if len(sessions) == 1 else f"{len(sessions)} sessions"
