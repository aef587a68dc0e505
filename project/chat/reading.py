"""Reads one page of a branch in a constant number of queries.

A branch may have 50,000 messages. The page reads the text of one window of them, and only ids where it has to find a
place in the tree. Every figure about the context comes from ``chat.get_context``: it is what a model would be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet
from django.utils import timezone

from compaction_app import chat
from compaction_app.conf import Mode, get_settings
from compaction_app.context.meter import meter_of
from compaction_app.conversation.stream import STOPPED
from compaction_app.exceptions import CompactionError
from compaction_app.messages.openai_format import attachment_line
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.models.words import WHY_IT_FAILED
from compaction_app.values import ChatContext, Found, MeterState, Origin, Role, RunStatus, Trigger
from project import offline_assistant
from project.chat import markdown, uploads
from project.chat.shown import (
    OPEN_RUNS,
    PAGE_SIZE,
    BranchPage,
    Generation,
    Meter,
    ShownMessage,
    State,
    ToolCall,
    Variants,
)
from project.chat.turns import model_for
from project.chat.words import words_for

#: Longer texts are cut here, with a link to the full text.
SHOWN_CHARACTERS = 20_000
SESSIONS_PAGE_SIZE = 30
_LONGEST_SEARCH = 200
GENERATIONS_SHOWN = 50

# A window of the path, without the texts after its last message. substr, because forty tool results of 4 MiB would
# be a page of 160 MiB; so would be the bytes of pictures, whose names are in the metadata as well.
_WINDOW = (
    sql.PATH
    + f"""
SELECT m.id, m.session_id, m.parent_message_id, m.kind, m.role, m.depth, m.token_count, m.name, m.model,
       m.finish_reason, m.tool_calls, m.redacted_at, m.copy_of, m.created_at, m.metadata,
       CASE WHEN length(CAST(m.attachments AS text)) <= {SHOWN_CHARACTERS} THEN m.attachments END AS attachments,
       substr(m.content, 1, {SHOWN_CHARACTERS}) AS content, length(m.content) AS characters,
       EXISTS (SELECT 1 FROM {sql.PINS} n WHERE n.message_id = m.id) AS is_pinned
FROM path JOIN {sql.MESSAGES} m ON m.id = path.id WHERE path.depth <= %(max_depth)s
"""
)


# -- Sessions and tips ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in the list; where one was searched for, the newest message that has the words."""

    session: ChatSession
    found: Found | None = None


def list_sessions(user: Any, first: int = 0, search: str = "") -> list[Listed]:
    """The user's conversations, newest first; one more than a page, to know whether there is another. Of a search those
    whose title has its words, or a message all of them."""
    owned = ChatSession.objects.filter(owner=user).order_by("-updated_at", "-id")
    words = search[:_LONGEST_SEARCH].split()
    found: dict[Any, Found] = {}
    if words:
        # One letter, which no message is searched for, may be in a title.
        with suppress(CompactionError):
            # The newest of each conversation is kept.
            found = {one.session_id: one for one in reversed(chat.search(" ".join(words), owner=user, limit=100))}
        titled = reduce(and_, (Q(title__icontains=word) for word in words))
        owned = owned.filter(titled | Q(pk__in=list(found)))
    return [Listed(one, found.get(one.pk)) for one in owned[first : first + SESSIONS_PAGE_SIZE + 1]]


def newest_tip(session: ChatSession) -> ChatMessage | None:
    """The newest message: the tip of the branch that was used last."""
    tip: ChatMessage | None = ChatMessage.objects.messages().filter(session=session).order_by("-id").first()
    return tip


# -- The state --------------------------------------------------------------------------------------------


def read_state(session: ChatSession, tip: ChatMessage | None) -> State:
    if tip is None:
        return State()
    tip.session = session
    try:
        context = chat.get_context(tip, model=model_for(session))
    except CompactionError as error:
        return State(problem=words_for(error))
    measured = meter_of(context, tip)
    mode, run = get_settings(session.settings).mode, None
    if measured.state in (MeterState.RUNNING, MeterState.FAILED):
        run = CompactionRun.objects.filter(pk=measured.run_id or 0).first()
    return State(
        context=context,
        meter=Meter(measured, is_manual=mode == Mode.MANUAL),
        generation=_generation_in_use(context, session),
        session=session,
        is_off=mode == Mode.OFF,
        open_run=_progress(run) if run and run.is_open else "",
        failure=_why(run) if run and run.status == RunStatus.FAILED else "",
    )


_RELATED_FIELDS = (
    "summary__content",
    "summary__extract",
    "summary__retired_at",
    "summary__last_summarized_message__depth",
    "summary__pinned_message__depth",
    "anchor__depth",
)


def _runs_with_summary() -> QuerySet[CompactionRun]:
    """Runs that made a summary, with its text and the depths of its cutoff, pin and anchor."""
    figures = (
        "generation",
        "summarizer_model",
        "error_code",
        "tokens_before",
        "tokens_after",
        "messages_compacted",
        "finished_at",
    )
    related = ("summary__last_summarized_message", "summary__pinned_message", "anchor")
    runs: QuerySet[CompactionRun] = CompactionRun.objects.filter(summary__isnull=False)
    return runs.select_related(*related).only(*figures, *_RELATED_FIELDS)


def _generation_in_use(context: ChatContext, session: ChatSession) -> Generation | None:
    if context.summary_id is None:
        return None
    run = _runs_with_summary().filter(summary_id=context.summary_id).first()
    if run is None:
        # Its conversation is a copy; the run is in the first one.
        summaries = ChatMessage.objects.select_related("last_summarized_message", "pinned_message")
        run = CompactionRun(summary=summaries.filter(pk=context.summary_id).first())
    if run.summary is None:
        return None
    generation = _generation(run, is_handed_over=session.is_handed_over)
    is_shared = any(message.origin == Origin.SHARED_EXTRACT for message in context.messages)
    return replace(generation, text=run.summary.extract, is_on_branch=False) if is_shared else generation


def _generation(run: CompactionRun, **state: bool) -> Generation:
    summary = run.summary
    assert summary is not None, "only runs with a summary are read"
    cutoff, pinned = summary.last_summarized_message, summary.pinned_message
    assert cutoff is not None, "every summary has a cutoff, by a constraint"
    return Generation(
        number=run.generation,
        summary_id=summary.pk,
        text=summary.content,
        model=run.summarizer_model,
        why_no_model=_why(run) if run.error_code else "",
        tokens_before=run.tokens_before,
        tokens_after=run.tokens_after,
        messages_compacted=run.messages_compacted,
        cutoff_number=cutoff.depth,
        pinned_number=pinned.depth if pinned else None,
        finished_at=run.finished_at,
        is_retired=summary.retired_at is not None,
        **state,
    )


def _progress(run: CompactionRun) -> str:
    if run.error_code and run.status == RunStatus.READY:
        return f"Older messages could not be summarized because {_why(run)}. It is tried again soon."
    return OPEN_RUNS[RunStatus(run.status)]


def _why(run: CompactionRun) -> str:
    code: str = run.error_code
    return WHY_IT_FAILED.get(code, code)


# -- The page ---------------------------------------------------------------------------------------------


def read_page(session: ChatSession, tip: ChatMessage | None, end: int | None = None) -> BranchPage:
    """At most a page of messages of the branch, up to depth ``end``; the newest by default."""
    state = read_state(session, tip)
    if tip is None:
        return BranchPage(session=session, tip=None, state=state)
    end = min(max(end or tip.depth, 1), tip.depth)
    first = max(1, end - PAGE_SIZE + 1)
    rows = sorted(
        ChatMessage.objects.raw(_WINDOW, {"node": tip.pk, "min_depth": first, "max_depth": end}),
        key=lambda row: row.depth,
    )
    siblings = _siblings(session, rows)
    return BranchPage(
        session=session,
        tip=tip,
        state=state,
        messages=_shown_messages(rows, siblings, state),
        end=end,
        earlier=first - 1 if first > 1 else None,
        later=min(end + PAGE_SIZE, tip.depth) if end < tip.depth else None,
    )


def _siblings(session: ChatSession, rows: Sequence[ChatMessage]) -> dict[int | None, list[int]]:
    """Ids of the variants of each message of the page, by parent, in order: one query, no texts."""
    parents = [row.parent_message_id for row in rows if row.parent_message_id is not None]
    of_parents = Q(parent__in=parents) | Q(parent__isnull=True, session=session)
    found: dict[int | None, list[int]] = {}
    ids = ChatMessage.objects.messages().filter(of_parents).order_by("sib_order").values_list("pk", "parent_message_id")
    for message_id, parent_id in ids:
        found.setdefault(parent_id, []).append(message_id)
    return found


def _shown_messages(
    rows: Sequence[ChatMessage], siblings: dict[int | None, list[int]], state: State
) -> tuple[ShownMessage, ...]:
    shown = []
    day = None
    begins_turn = [row.role == Role.USER for row in rows[1:]] + [False]
    for row, is_cut in zip(rows, begins_turn, strict=True):
        written_on = timezone.localtime(row.created_at).date()
        around = siblings.get(row.parent_message_id, [])
        shown.append(_shown(row, around, state, starts_day=written_on != day, ends_turn=is_cut))
        day = written_on
    return tuple(shown)


def _shown(row: Any, siblings: Sequence[int], state: State, *, starts_day: bool, ends_turn: bool) -> ShownMessage:
    context, generation = state.context, state.generation
    cutoff = generation.cutoff_number if generation else 0
    dropped = bool(context and context.dropped)
    first_sent = (context.first_shown_depth if context else None) or 0
    is_request = bool(context and context.pinned_id == row.pk)
    is_beside = is_request or bool(context and row.pk in context.pin_ids)
    is_final_reply = row.role == Role.ASSISTANT and not row.tool_calls
    content, files = uploads.split_files(row.content) if row.role == Role.USER else (row.content, [])
    attachments = [one for one in row.attachments or () if not uploads.picture_in(one)]
    return ShownMessage(
        id=row.pk,
        number=row.depth,
        role=row.role,
        speaker=_speaker(row),
        content=content,
        html=markdown.render(content) if row.role == Role.ASSISTANT else "",
        files=tuple(files),
        pictures=tuple(map(str, (row.metadata or {}).get(uploads.PICTURES) or ())),
        hidden_characters=max(0, row.characters - SHOWN_CHARACTERS),
        tokens=row.token_count,
        created_at=row.created_at,
        starts_day=starts_day,
        tool_calls=tuple(_tool_call(call) for call in row.tool_calls or ()),
        attachments=tuple(map(attachment_line, attachments)),
        variants=_variants(row.pk, siblings),
        is_redacted=row.redacted_at is not None,
        is_stopped=row.finish_reason == STOPPED,
        is_request=is_request,
        is_pinned=bool(row.is_pinned),
        is_covered=row.depth <= cutoff and not is_beside,
        is_left_out=dropped and cutoff < row.depth < first_sent and not is_beside,
        is_cutoff=row.depth == cutoff,
        ends_gap=dropped and row.depth == first_sent,
        can_edit=row.role == Role.USER and row.redacted_at is None,
        can_cut=ends_turn and is_final_reply and row.depth > cutoff and not state.is_off,
        can_regenerate=is_final_reply and row.parent_message_id is not None,
        can_pin=row.role != Role.TOOL and not row.tool_calls and row.redacted_at is None,
        stands_for_others=state.session is not None and state.session.stands_for_others(row),
    )


def _speaker(row: ChatMessage) -> str:
    if row.role == Role.USER:
        return row.name or "You"
    if row.role == Role.TOOL:
        return f"Result of {row.name}" if row.name else "Tool result"
    if row.role == Role.ASSISTANT:
        return "Offline assistant" if row.model == offline_assistant.NAME else row.model or "Assistant"
    return row.role.capitalize()


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function") or {}
    return ToolCall(name=str(function.get("name", "")), arguments=str(function.get("arguments", "")))


def _variants(message_id: int, siblings: Sequence[int]) -> Variants | None:
    if len(siblings) < 2 or message_id not in siblings:
        return None
    place = siblings.index(message_id)
    return Variants(
        number=place + 1,
        count=len(siblings),
        previous_id=siblings[place - 1] if place else None,
        next_id=siblings[place + 1] if place + 1 < len(siblings) else None,
    )


# -- The list of generations ------------------------------------------------------------------------------


def read_generations(session: ChatSession, tip: ChatMessage | None, state: State) -> list[Generation]:
    """The newest summaries of the conversation, on any branch, newest first."""
    runs = list(
        _runs_with_summary()
        .filter(session=session, generation__isnull=False)
        .exclude(trigger=Trigger.CARRY_OVER)
        .order_by("-generation")[:GENERATIONS_SHOWN]
    )
    on_branch = _anchors_on_branch(tip, runs)
    in_use = state.context.summary_id if state.context else None
    came_along = [state.generation] if state.generation and state.generation.number is None else []
    return [
        *(
            _generation(run, is_in_use=run.summary_id == in_use, is_on_branch=run.anchor_id in on_branch)
            for run in runs
        ),
        *came_along,
    ]


def _anchors_on_branch(tip: ChatMessage | None, runs: Sequence[CompactionRun]) -> set[int]:
    """Ids of the branch from the shallowest anchor down. A summary applies if its anchor is one of them."""
    depths = [run.anchor.depth for run in runs if run.anchor]
    if tip is None or not depths:
        return set()
    with connections[tip._state.db or "default"].cursor() as cursor:
        cursor.execute(sql.PATH_IDS, {"node": tip.pk, "min_depth": min(depths)})
        return {row[0] for row in cursor.fetchall()}
