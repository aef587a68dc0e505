"""Builds the prompt of a finished compaction again from stored rows.

Messages and summaries do not change, so the rows still show what a summarizer was sent. What they do not show (the
target size, where the look-ahead began, the byte limit of shortened messages, whether the tighter retry was accepted)
the commit stores in ``CompactionRun.request``. Both go through :func:`compaction.execute.prompt_of`, which made the
prompt: it is what was sent, unless the wording, the host's redactor or the host's tool markers have changed since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet

from compaction_app.compaction.execute import prompt_of
from compaction_app.compaction.planning import covered_messages, most_tokens_of
from compaction_app.conf import Settings, get_token_counter, settings_from_snapshot, site_setting
from compaction_app.memory.ledger import Remembered
from compaction_app.models import CompactionRun
from compaction_app.summarizers.prompts import tighter
from compaction_app.tree import branches
from compaction_app.values import PERSON, Budget, CompactionPlan, SummaryRequest


class NotRebuilt(StrEnum):
    """Why a prompt cannot be rebuilt."""

    #: A message that the summarizer may have seen was redacted, and the summary with it.
    REDACTED = "redacted"
    #: A message that the summarizer may have seen was deleted, and the summary with it.
    DELETED = "deleted"
    #: What the run asked for was erased.
    NOT_RECORDED = "not_recorded"
    #: A person wrote the summary, and no summarizer was asked.
    BY_PERSON = "by_person"
    #: The chat's own prompt was sent (``WARM``), of which nothing is kept.
    CHAT_PROMPT = "chat_prompt"
    #: Rows that it refers to are missing: ``verify_chats`` says more.
    SOURCES_MISSING = "sources_missing"
    #: The texts were redacted, and the settings name no ``REDACTOR``: what it removed would be shown.
    REDACTOR_MISSING = "redactor_missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebuilt:
    """The prompt that a summarizer was sent, as it is written now."""

    run: CompactionRun
    #: The run's settings, with the site's redactor if the run had one.
    settings: Settings
    plan: CompactionPlan
    #: The request whose answer was accepted: the tighter one if it was the retry.
    request: SummaryRequest
    #: Bytes that messages were shortened to, by their id.
    limits: Mapping[int, int]


def rebuild(run: CompactionRun) -> Rebuilt | NotRebuilt:
    """The prompt of one of :func:`succeeded_runs`, which have their relations loaded; two or three queries."""
    if run.summary is None:
        return NotRebuilt.DELETED
    if run.summary.redacted_at or (run.base and run.base.redacted_at):
        return NotRebuilt.REDACTED
    if run.summarizer_model == PERSON:
        return NotRebuilt.BY_PERSON
    if not run.request:
        return NotRebuilt.NOT_RECORDED
    if run.request.get("warm"):
        return NotRebuilt.CHAT_PROMPT
    settings = settings_from_snapshot(run.settings)
    if settings.redactor is not None:
        # Which code runs is up to this site's settings, never to a row: the rows may come from elsewhere.
        settings = settings.but(redactor=site_setting("REDACTOR"))
        if settings.redactor is None:
            return NotRebuilt.REDACTOR_MISSING
    plan = _plan(run, settings)
    if plan is None:
        return NotRebuilt.SOURCES_MISSING
    limits = dict.fromkeys(run.shortened_inputs, run.request["shown_bytes"]) if run.shortened_inputs else {}
    prompt = prompt_of(run, settings)
    request = prompt.request(plan, run.nonce, limits)
    if run.request.get("memory_tokens"):
        remembered = Remembered(request, plan, Budget(**run.budget), settings, get_token_counter())
        # What was chosen from it; other branches' messages were part of its size.
        remembered.extract = run.summary.extract
        request = prompt.beside(request, plan, *remembered.show())
    request = tighter(request, run.request["tightened"]) if run.request["tightened"] else request
    return Rebuilt(run=run, settings=settings, plan=plan, request=request, limits=limits)


def succeeded_runs(near: QuerySet[Any]) -> QuerySet[CompactionRun]:
    """Runs with the relations that :func:`rebuild` needs, ordered by session and generation."""
    return (
        CompactionRun.objects.in_database_of(near)
        .filter(generation__isnull=False)
        .select_related("session", "tip", "summary", "base", "base__last_summarized_message", "base__pinned_message")
        .order_by("session__created_at", "session_id", "generation")
    )


def _plan(run: CompactionRun, settings: Settings) -> CompactionPlan | None:
    """The run's plan, from the summary's pointers; None if rows are missing."""
    summary, previous, base, zone = run.summary, run.base, None, settings.time_zone
    assert summary is not None
    assert summary.parent_message_id is not None
    if previous is not None and previous.last_summarized_message is not None:
        turn_request = previous.pinned_message
        base = branches.summary_value(previous, previous.last_summarized_message, turn_request, zone)
    first_depth = base.cutoff_depth + 1 if base else 1
    if run.is_for_another_branch and base is None:
        if run.tip is None:
            return None
        first_depth = run.tip.depth - (run.messages_compacted or 0) + 1
    # Not where it is written: this may be a copy that the host has named.
    here = CompactionRun.objects.using(run._state.db)
    path = branches.load_path(summary.parent_message_id, here, first_depth, zone)
    # A request of an earlier generation is above the path that was read.
    inherited = [base.turn_request] if base and base.turn_request else []
    by_id = {message.id: message for message in (*inherited, *path)}
    cutoff, request = by_id.get(summary.last_summarized_message_id or 0), by_id.get(summary.pinned_message_id or 0)
    # The first and the last message of the look-ahead, or none.
    ends = run.request["lookahead"]
    shown = [index for index, message in enumerate(path) if message.id in ends]
    if cutoff is None or len(shown) != len(set(ends)) or (summary.pinned_message_id and request is None):
        return None
    covered = covered_messages([m for m in path if m.depth <= cutoff.depth], base, request)
    replaced = (base.tokens if base else 0) + sum(message.tokens for message in covered)
    return CompactionPlan(
        covered=covered,
        lookahead=tuple(path[shown[0] : shown[-1] + 1]) if shown else (),
        # Up to the anchor: later messages may be missing on a branch that shares the summary.
        kept=tuple(message for message in path if message.depth > cutoff.depth),
        base=base,
        turn_request=request,
        cutoff=cutoff,
        anchor_id=summary.parent_message_id,
        anchor_depth=summary.depth - 1,
        target_tokens=run.request["target_tokens"],
        replaced_tokens=replaced,
        most_tokens=most_tokens_of(replaced, settings, whole=run.is_for_another_branch),
    )
