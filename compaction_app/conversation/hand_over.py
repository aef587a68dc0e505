"""Handing a branch over: a new session that begins with the summary of an old one and what follows its cutoff.

No summarized message is copied. In their place stands one message that says so; below it are the pinned ones and the
turn's request, which are shown beside the summary, and the tail. ``ChatSession.continues`` names the cutoff, by which
erasures find the new session, and a search the old one.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.translation import gettext

from compaction_app.conf import MAX_INTEGER, Mode, get_settings
from compaction_app.context.budget import ContextRequest
from compaction_app.context.reading import context_at, resolve_request_at
from compaction_app.conversation.append import OwnKey, check_key
from compaction_app.conversation.compact import MODE_IS_OFF, acompact, check_user, compact
from compaction_app.conversation.titles import messages_named
from compaction_app.exceptions import CompactionRefused, ContextOverflow
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, MessagePin
from compaction_app.models.columns import names
from compaction_app.models.database import connection_of, locked
from compaction_app.models.managers import calls_unanswered_before
from compaction_app.summarizers.waiting import takes_the_arguments_of
from compaction_app.tokens import TOKENS_PER_MISSING_RESULT
from compaction_app.tree.branches import check_tip, find_summary_for_branch, load_whole_tail
from compaction_app.tree.lanes import tips_at_or_below
from compaction_app.values import Kind, Role, SkipReason, pins_beside

#: Beside what every copy has: with these the tail is sent as it was.
_COPIED = (*names(ChatMessage, copied=True), "original", "reasoning")


def hand_over(tip: ChatMessage, *, owner: Any = None, idempotency_key: str = "") -> ChatSession:
    """Store a new session that goes on at ``tip`` with the summary and what follows its cutoff alone; returns it.

    Its first prompt is what the next one at ``tip`` would be. It has the model, system prompt, settings and title of
    the first session, and its owner where no ``owner`` is given. Where no summary applies one is made first, so that
    it raises as :func:`compact` does; with nothing to summarize it raises :class:`CompactionRefused`.

    What is redacted or deleted in the first session is erased here too, in copies and in the summary. Searches look
    back into it as long as both have one owner. ``idempotency_key``: with the same one it returns the same session.
    """
    if (made := _made_before(tip, owner, idempotency_key)) is None and needs_summary(tip):
        _check_made(compact(tip))
    return made or _stored(tip, owner, idempotency_key)


@takes_the_arguments_of(hand_over)
async def ahand_over(tip: ChatMessage, *, owner: Any = None, idempotency_key: str = "") -> ChatSession:
    """:func:`hand_over` with the model awaited, where one is asked."""
    made = await sync_to_async(_made_before)(tip, owner, idempotency_key)
    if made is None and await sync_to_async(needs_summary)(tip):
        _check_made(await acompact(tip))
    return made or await sync_to_async(_stored)(tip, owner, idempotency_key)


def _own_key(tip: ChatMessage, key: str) -> OwnKey:
    return OwnKey(f"hand-over-{tip.pk}-{hashlib.sha256(key.encode()).hexdigest()[:40]}")


def _made_before(tip: ChatMessage, owner: Any, key: str) -> ChatSession | None:
    check_tip(tip)
    check_user(owner, "owner")
    check_key(key)
    if not key:
        return None
    known = ChatSession.objects.in_database_of(tip).filter(continues_session=tip.session_id)
    known = known.filter(messages__idempotency_key=_own_key(tip, key), messages__parent=None)
    return known.filter(owner=tip.session.owner_id if owner is None else owner.pk).first()


def needs_summary(tip: ChatMessage) -> bool:
    """Whether a summary has to be made before the branch is handed over: a model is asked then.

    It has where the next prompt does not begin with the newest summary that applies, which is the one that is copied.
    There may be none, or it has become too large and the prompt has an older one, or an extract that another branch
    shares. Raises :class:`CompactionRefused` in the mode ``off``.
    """
    if get_settings(tip.session.settings).mode == Mode.OFF:
        raise CompactionRefused(MODE_IS_OFF, reason=SkipReason.MODE_OFF)
    summary = find_summary_for_branch(tip)
    try:
        shown = context_at(tip, resolve_request_at(tip, ContextRequest()), uses_own=False)
        return summary is None or shown.summary_id != summary.pk
    except ContextOverflow:
        return True


def _check_made(run: CompactionRun) -> None:
    if run.summary_id is None:
        reason = run.skip_reason or SkipReason.NOTHING_TO_COMPACT
        raise CompactionRefused(
            f"There is nothing to hand over but a copy, which chat.copy_branch makes: {reason}.", reason=reason
        )


def _stored(tip: ChatMessage, owner: Any, key: str) -> ChatSession:
    rows, sessions = ChatMessage.objects.in_database_of(tip), ChatSession.objects.in_database_of(tip)
    # An erasure waits, and then finds the new session.
    with locked(tip):
        if made := _made_before(tip, owner, key):
            return made
        source = sessions.select_related("owner").get(pk=tip.session_id)
        new = ChatSession(**{name: getattr(source, name) for name in names(ChatSession, copied=True)})
        new.owner = source.owner if owner is None else owner
        branch = load_whole_tail(tip, with_content=False)
        if branch.base is None:
            raise CompactionRefused("The summary has just been retired.", reason=SkipReason.BASE_CHANGED)
        base, request = branch.base, branch.base.turn_request
        # As they stand in the prompt.
        beside = [one.id for one in (*pins_beside(branch.pins, request, branch.tail), request) if one]
        tail = [one.id for one in branch.tail]
        found = rows.in_bulk([base.id, base.cutoff_id, *beside, *tail])
        summary, cutoff = found[base.id], found[base.cutoff_id]
        new.continues_id, new.continues_session, new.head = cutoff.pk, source.pk, len(beside) + 1
        new.numbered_from = (source.numbered_from or 0) + cutoff.depth - new.head
        new.save(using=connection_of(tip).alias)
        first = ChatMessage(
            session_id=new.pk,
            role=Role.USER,
            content=gettext("The conversation before this message was in another chat."),
            created_at=cutoff.created_at,
            idempotency_key=_own_key(tip, key) if key else "",
        )
        chain = [first, *_copies([found[pk] for pk in (*beside, *tail)], new)]
        # They were stored: a limit that has been lowered since is none for them.
        ChatMessage.objects.append_chain(None, chain, most_bytes=MAX_INTEGER)
        # The cutoff is the last that stands beside the summary: none of these is of the tail.
        head, copied = chain[len(beside)], dict(zip((*beside, *tail), chain[1:], strict=True))
        [told] = _copies([summary], new)
        told.last_summarized_message_id = head.pk
        told.pinned_message_id = copied[request.id].pk if request else None
        # Else it is the cutoff, which may stand beside the summary too, above the last that does.
        anchor = copied[base.anchor_id] if base.anchor_id in tail else head
        ChatMessage.objects.append_chain(anchor, [told], most_bytes=MAX_INTEGER)
        kept = MessagePin.objects.in_database_of(tip).filter(message__in=[*copied])
        MessagePin.objects.using(new._state.db).bulk_create(
            MessagePin(
                message=copied[pin.pk],
                session_id=new.pk,
                lane=first.pk,
                depth=copied[pin.pk].depth,
                tokens=copied[pin.pk].token_count,
                created_at=pin.created_at,
            )
            for pin in kept
        )
        named = {source.title_of_id} if source.title_of_id else messages_named(source.title, rows.in_session(source.pk))
        here = [pk for pk in named if pk and tips_at_or_below(pk, [tip.pk], tip)]
        new.title_of = next((copied[pk] for pk in here if pk in copied), first if here else None)
        if named and not here:
            new.title = ""
        # It is new, whenever its messages were written.
        new.created_at = new.updated_at = timezone.now()
        new.save(using=new._state.db, update_fields=["title", "title_of", "created_at", "updated_at"])
    return new


def _copies(rows: Sequence[ChatMessage], new: ChatSession) -> list[ChatMessage]:
    """What is appended adds what it leaves unanswered: of the stored count that is taken away."""
    copies = []
    for row, unanswered in zip(rows, calls_unanswered_before(rows), strict=True):
        copy = ChatMessage(session_id=new.pk, **{name: getattr(row, name) for name in _COPIED})
        copy.copy_of = row.copy_of or row.pk
        missing = 0 if row.kind == Kind.SUMMARY else unanswered
        copy.token_count = row.token_count - missing * TOKENS_PER_MISSING_RESULT
        copies.append(copy)
    return copies
