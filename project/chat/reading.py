"""Reads one page of a branch in a constant number of queries.

A branch may have 50,000 messages. The page reads the text of one window of them, and only ids where it has to find a
place in the tree. Every figure about the context comes from ``chat.get_context``: it is what a model would be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet
from django.db.models.functions import Substr
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from compaction_app import chat
from compaction_app.compaction.search_words import words_of_query
from compaction_app.conf import get_settings
from compaction_app.context.meter import meter_of
from compaction_app.conversation.correct import CORRECTED
from compaction_app.conversation.recall import excerpt_of
from compaction_app.conversation.stream import STOPPED
from compaction_app.exceptions import CompactionError
from compaction_app.messages.transcript import carried_message
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.models.words import why_it_failed, words
from compaction_app.spending import find_overspending
from compaction_app.values import ChatContext, Found, MeterState, Origin, Role, RunStatus, Trigger
from project import offline_assistant
from project.chat import markdown, uploads
from project.chat.shown import (
    OPEN_RUNS,
    PAGE_SIZE,
    BranchPage,
    Generation,
    Linked,
    Meter,
    ShownMessage,
    State,
    ToolCall,
    Variants,
)
from project.chat.turns import LOOKED_UP, model_for
from project.chat.words import words_for

#: Longer texts are cut here, with a link to the full text.
SHOWN_CHARACTERS = 20_000
SESSIONS_PAGE_SIZE = 30
_LONGEST_SEARCH = 200
GENERATIONS_SHOWN = 50
#: Characters of a message in a list.
_BEGINNING = 160
#: Of a message that was looked up, in which the place with the question's words is shown.
_SEARCHED = 5_000

#: What stands before and behind what was brought from another branch.
_CARRIED = carried_message("\0").partition("\0")
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
    state = State(
        context=context,
        meter=Meter(measured, mode),
        generation=_generation_in_use(context, session),
        session=session,
        depth=tip.depth,
        open_run=_progress(run) if run and run.is_open else "",
        failure=_failed(run) if run and run.status == RunStatus.FAILED else "",
    )
    waits = state.needs_summary and not (state.open_run or state.is_off)
    return replace(state, is_paused=True, failure="") if waits and find_overspending(session) else state


_RELATED_FIELDS = (
    "summary__content",
    "summary__model",
    "summary__created_at",
    "summary__extract",
    "summary__retired_at",
    "summary__retired_reason",
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
        "base",
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
        run = CompactionRun(summary=_without_run(session).filter(pk=context.summary_id).first())
    if run.summary is None:
        return None
    told_elsewhere = session.is_handed_over
    generation = _generation(run, is_handed_over=told_elsewhere, can_undo=bool(run.base_id) or not told_elsewhere)
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
        model=run.summarizer_model or summary.model,
        why_no_model=_why(run) if run.error_code else "",
        tokens_before=run.tokens_before,
        tokens_after=run.tokens_after,
        messages_compacted=run.messages_compacted,
        cutoff_number=cutoff.depth,
        pinned_number=pinned.depth if pinned else None,
        finished_at=run.finished_at or summary.created_at,
        is_retired=summary.retired_at is not None,
        is_corrected=summary.retired_reason == CORRECTED,
        **state,
    )


def _progress(run: CompactionRun) -> str:
    if run.error_code and run.status == RunStatus.READY:
        return gettext("{failed}, and it is tried again soon").format(failed=_failed(run))
    return gettext(OPEN_RUNS[RunStatus(run.status)])


def _failed(run: CompactionRun) -> str:
    return gettext("Older messages could not be summarized: {why}").format(why=_why(run))


def _why(run: CompactionRun) -> str:
    return why_it_failed(run.error_code) or run.error_code


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
        messages=_shown_messages(rows, siblings, state, _looked_up(rows, tip)),
        pins=_pins(tip),
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
    rows: Sequence[ChatMessage],
    siblings: dict[int | None, list[int]],
    state: State,
    looked_up: dict[int, tuple[Linked, ...]],
) -> tuple[ShownMessage, ...]:
    shown = []
    day = None
    begins_turn = [row.role == Role.USER for row in rows[1:]] + [False]
    for row, is_cut in zip(rows, begins_turn, strict=True):
        written_on = timezone.localtime(row.created_at).date()
        around = siblings.get(row.parent_message_id, [])
        found = looked_up.get(row.parent_message_id or 0, ()) if row.role == Role.ASSISTANT else ()
        shown.append(_shown(row, around, state, found, starts_day=written_on != day, ends_turn=is_cut))
        day = written_on
    return tuple(shown)


def _shown(
    row: Any,
    siblings: Sequence[int],
    state: State,
    looked_up: tuple[Linked, ...],
    *,
    starts_day: bool,
    ends_turn: bool,
) -> ShownMessage:
    context, generation = state.context, state.generation
    cutoff = generation.cutoff_number if generation else 0
    dropped = bool(context and context.dropped)
    first_sent = (context.first_shown_depth if context else None) or 0
    is_request = bool(context and context.pinned_id == row.pk)
    is_beside = is_request or bool(context and row.pk in context.pin_ids)
    is_final_reply = row.role == Role.ASSISTANT and not row.tool_calls
    content, files = uploads.split_files(row.content) if row.role == Role.USER else (row.content, [])
    if is_carried := row.copy_of is not None and content.startswith(_CARRIED[0]):
        content = content.removeprefix(_CARRIED[0]).removesuffix(_CARRIED[2])
        html: str = markdown.render_summary(content)
    else:
        html = markdown.render(content) if row.role == Role.ASSISTANT else ""
    attachments = [one for one in row.attachments or () if not uploads.picture_in(one)]
    return ShownMessage(
        id=row.pk,
        number=row.depth,
        role=row.role,
        speaker=gettext("From another branch") if is_carried else _speaker(row),
        content=content,
        html=html,
        files=tuple(files),
        pictures=tuple(map(str, (row.metadata or {}).get(uploads.PICTURES) or ())),
        hidden_characters=max(0, row.characters - SHOWN_CHARACTERS),
        tokens=row.token_count,
        created_at=row.created_at,
        starts_day=starts_day,
        tool_calls=tuple(_tool_call(call) for call in row.tool_calls or ()),
        attachments=tuple(map(_attached, attachments)),
        looked_up=looked_up,
        variants=_variants(row.pk, siblings),
        is_redacted=row.redacted_at is not None,
        is_stopped=row.finish_reason == STOPPED,
        is_request=is_request,
        is_pinned=bool(row.is_pinned),
        is_covered=row.depth <= cutoff and not is_beside,
        is_left_out=dropped and cutoff < row.depth < first_sent and not is_beside,
        is_cutoff=row.depth == cutoff,
        ends_gap=dropped and row.depth == first_sent,
        can_edit=row.role == Role.USER and row.redacted_at is None and not is_carried,
        can_cut=ends_turn and is_final_reply and row.depth > cutoff and not state.is_off,
        can_regenerate=is_final_reply and row.parent_message_id is not None,
        can_pin=row.role != Role.TOOL and not row.tool_calls and row.redacted_at is None,
        stands_for_others=state.session is not None and state.session.stands_for_others(row),
        is_carried=is_carried,
    )


def _speaker(row: ChatMessage) -> str:
    if row.role == Role.USER:
        return row.name or gettext("You")
    if row.role == Role.TOOL:
        return gettext("Result of {name}").format(name=row.name) if row.name else gettext("Tool result")
    if row.role == Role.ASSISTANT:
        return (
            gettext("Offline assistant") if row.model == offline_assistant.NAME else row.model or gettext("Assistant")
        )
    return words(row.role).capitalize()


def _attached(attachment: Any) -> str:
    named = (str(attachment.get(name) or "") for name in ("name", "mime_type", "type"))
    return gettext("Attached: {name}").format(name=next(filter(None, named), "?"))


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


# -- Lists of messages ------------------------------------------------------------------------------------


def _looked_up(rows: Sequence[ChatMessage], tip: ChatMessage) -> dict[int, tuple[Linked, ...]]:
    """By the question what was looked up for its reply: those that are there still, and its owner's."""
    noted = {row.pk: found for row in rows if (found := (row.metadata or {}).get(LOOKED_UP))}
    ids = {pk for found in noted.values() for pk, _ in found}
    owned = ChatMessage.objects.messages().filter(session__owner=tip.session.owner_id)
    known = {row.pk: row for row in _beginnings(owned.filter(pk__in=ids), _SEARCHED)} if ids else {}
    words = {row.pk: words_of_query(row.content) for row in rows if row.pk in noted}
    return {
        question: tuple(_linked(known[pk], tip, number, words[question]) for pk, number in found if pk in known)
        for question, found in noted.items()
    }


def _pins(tip: ChatMessage) -> list[Linked]:
    pinned = list(_beginnings(ChatMessage.objects.filter(pin__session=tip.session_id)).order_by("depth"))
    on_branch = _ids_on_branch(tip, [row.depth for row in pinned])
    return [_linked(row, tip, row.depth) for row in pinned if row.pk in on_branch]


def _beginnings(rows: QuerySet[ChatMessage], characters: int = _BEGINNING) -> QuerySet[Any]:
    found: QuerySet[Any] = rows.only("session_id", "depth").annotate(beginning=Substr("content", 1, characters))
    return found


def _linked(row: Any, tip: ChatMessage, number: int, words: Collection[str] = ()) -> Linked:
    at = tip if row.session_id == tip.session_id else row
    end = f"?end={row.depth + PAGE_SIZE // 2}" if at is tip else ""
    address = f"{reverse('chat:branch', args=[at.session_id, at.pk])}{end}#m{row.pk}"
    text = excerpt_of(row.beginning, words) or row.beginning[:_BEGINNING]
    return Linked(id=row.pk, number=number, address=address, text=" ".join(text.split()))


# -- The list of generations ------------------------------------------------------------------------------


def read_generations(session: ChatSession, tip: ChatMessage | None, state: State) -> list[Generation]:
    """The newest summaries of the conversation, on any branch, newest first."""
    runs = list(
        _runs_with_summary()
        .filter(session=session, generation__isnull=False)
        .exclude(trigger=Trigger.CARRY_OVER)
        .order_by("-generation")[:GENERATIONS_SHOWN]
    )
    left = GENERATIONS_SHOWN - len(runs)
    runs += [CompactionRun(summary=one, anchor=one.parent) for one in _without_run(session)[:left]]
    on_branch = _ids_on_branch(tip, [run.anchor.depth for run in runs if run.anchor])
    in_use = state.context.summary_id if state.context else None
    return [
        _generation(run, is_in_use=run.summary_id == in_use, is_on_branch=run.anchor_id in on_branch) for run in runs
    ]


def _without_run(session: ChatSession) -> QuerySet[ChatMessage]:
    """Summaries that came along with a copy, or with what continues a conversation: their runs are in the first."""
    found = ChatMessage.objects.filter(session=session, made_by=None).summaries()
    return found.select_related("last_summarized_message", "pinned_message", "parent").order_by("-pk")


def _ids_on_branch(tip: ChatMessage | None, depths: Sequence[int]) -> set[int]:
    """Ids of the branch from the shallowest of some depths down. A summary applies if its anchor is one of them."""
    if tip is None or not depths:
        return set()
    with connections[tip._state.db or "default"].cursor() as cursor:
        cursor.execute(sql.PATH_IDS, {"node": tip.pk, "min_depth": min(depths)})
        return {row[0] for row in cursor.fetchall()}
