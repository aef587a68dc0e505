"""The result of a session as values: its branches, its runs, its tree. Read with the functions that a turn uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from compaction_app import chat
from compaction_app.context.reading import ResolvedRequest, is_over_threshold, resolve_request
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.tree import branches
from compaction_app.values import ChatContext, EventKind, Kind, RunStatus, Suppression


class State(StrEnum):
    """Whether a branch fits."""

    FITS = "fits"
    IRREDUCIBLE = "irreducible"
    OVER = "over"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tip:
    """One branch."""

    message: ChatMessage
    #: Tokens of the whole branch.
    before: int
    #: Tokens of its history as it is sent now: summary, pin and the messages after the cutoff.
    after: int
    threshold: int
    summary_id: int | None
    state: State


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the tree, for the map."""

    id: int
    parent_id: int | None
    is_summary: bool
    tokens: int
    cutoff_id: int | None
    is_retired: bool


class SessionView:
    """A session at the time of reading; each value is read once."""

    def __init__(self, session: ChatSession) -> None:
        self.session = session

    @cached_property
    def resolved(self) -> ResolvedRequest:
        return resolve_request(self.session)

    @cached_property
    def tips(self) -> list[Tip]:
        irreducible = set(
            CompactionEvent.objects.filter(
                session=self.session, kind=EventKind.SUPPRESSED, payload__reason=Suppression.IRREDUCIBLE
            ).values_list("message_id", flat=True)
        )
        return [self._tip(message, message.pk in irreducible) for message in chat.tips(self.session)]

    def _tip(self, message: ChatMessage, irreducible: bool) -> Tip:
        history = branches.history_at(message)
        threshold = self.resolved.budget.threshold
        over = history.tokens > threshold and is_over_threshold(message, self.resolved)
        state = State.FITS if not over else State.IRREDUCIBLE if irreducible else State.OVER
        return Tip(
            message=message,
            before=message.path_tokens,
            after=history.tokens,
            threshold=threshold,
            summary_id=history.summary_id,
            state=state,
        )

    @cached_property
    def runs(self) -> list[CompactionRun]:
        """Finished runs in order, failed ones too."""
        return list(CompactionRun.objects.filter(session=self.session).finished().order_by("id"))

    @cached_property
    def generations(self) -> dict[int, CompactionRun]:
        """The run of each summary."""
        return {run.summary_id: run for run in self.runs if run.summary_id is not None}

    @cached_property
    def nodes(self) -> list[Node]:
        fields = ("id", "parent_message_id", "kind", "token_count", "last_summarized_message_id", "retired_at")
        rows = ChatMessage.objects.filter(session=self.session).order_by("id").values_list(*fields)
        return [
            Node(pk, parent, kind == Kind.SUMMARY, tokens, cutoff, retired is not None)
            for pk, parent, kind, tokens, cutoff, retired in rows
        ]

    @cached_property
    def _summaries(self) -> dict[int, str]:
        return dict(ChatMessage.objects.filter(session=self.session).summaries().values_list("pk", "content"))

    def summary_text(self, summary_id: int) -> str:
        return self._summaries.get(summary_id, "")

    def context(self, tip: Tip) -> ChatContext:
        return chat.get_context(tip.message)


def has_open_runs(sessions: Sequence[ChatSession]) -> bool:
    return CompactionRun.objects.filter(session__in=sessions).open().exists()


def tips_over(tips: Sequence[ChatMessage], threshold: int) -> list[ChatMessage]:
    """The tips whose history is over the threshold, by the trigger's numbers alone: cheap enough to poll."""
    return [tip for tip in tips if branches.history_at(tip).tokens > threshold]


def newer_runs(sessions: Sequence[ChatSession], after: Any, known: set[int]) -> list[CompactionRun]:
    """Runs that finished since ``after`` and are not known yet, oldest first."""
    finished = CompactionRun.objects.filter(session__in=sessions, finished_at__gte=after).finished()
    return [run for run in finished.order_by("finished_at", "id") if run.pk not in known]


def delayed_runs(sessions: Sequence[ChatSession]) -> list[CompactionRun]:
    """Runs that wait to be retried after a transient failure."""
    waiting = CompactionRun.objects.filter(session__in=sessions, status=RunStatus.READY, attempts__gt=0)
    return list(waiting.exclude(error_code="").order_by("id"))
