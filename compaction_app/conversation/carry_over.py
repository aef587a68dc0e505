"""Bringing to a branch what another one of the conversation has found, as a message that tells of it.

A run of the other branch summarizes what that has below the fork, and stores the summary there, out of use. The
message is a copy of it, and says so as every copy does (``copy_of``): so an erasure of what it tells finds the message
and all its copies. See ``_erase_carried`` in :mod:`erase`.
"""

import hashlib
from dataclasses import replace

from asgiref.sync import sync_to_async

from compaction_app.compaction.execute import wait_for_end
from compaction_app.compaction.leases import is_under_way
from compaction_app.compaction.trigger import CompactionRequest
from compaction_app.conf import Mode
from compaction_app.context.budget import ContextRequest
from compaction_app.conversation.append import OwnKey, check_key
from compaction_app.conversation.compact import MODE_IS_OFF, asked_request, open_and_enqueue, opened, opened_by
from compaction_app.exceptions import CompactionRefused, InvalidMessage, MessageNotFound, ReplyUnderWay
from compaction_app.messages.transcript import carried_message
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.database import locked, require_no_transaction
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, without_waiting
from compaction_app.tree.branches import check_tip, path_ids
from compaction_app.values import Role, SkipReason, Trigger


def carry_over(source: ChatMessage, tip: ChatMessage, *, idempotency_key: str = "") -> ChatMessage:
    """Store below ``tip`` a message that tells what the branch of ``source`` has below the fork of both; returns it.

    It has the role ``user``: a summary of these messages alone, as one is written for a compaction, between tags. It
    is made once for each ``source``. Erasures of what it tells replace its text, in copies too. ``idempotency_key``:
    with the same one it returns the same message.

    Raises :class:`InvalidMessage` unless both are of one session and ``source`` is on another branch than ``tip``;
    :class:`ReplyUnderWay` while ``tip`` is answered; what :func:`compact` raises where the summary is not made.
    """
    begun, run = _begun(source, tip, idempotency_key)
    if run is not None:
        _check_made(without_waiting(wait_for_end(run, BLOCKING)))
    return _stored(begun, tip, idempotency_key)


async def acarry_over(source: ChatMessage, tip: ChatMessage, *, idempotency_key: str = "") -> ChatMessage:
    """:func:`carry_over` with the model awaited, where one is asked."""
    begun, run = await sync_to_async(_begun)(source, tip, idempotency_key)
    if run is not None:
        _check_made(await wait_for_end(run, AWAITED))
    return await sync_to_async(_stored)(begun, tip, idempotency_key)


def request_carry_over(source: ChatMessage, tip: ChatMessage) -> CompactionRun | None:
    """Have the summary made in the background that :func:`carry_over` waits for: the run, or None where there is one.

    For pages, which do not wait for a model. It raises as :func:`carry_over` does.
    """
    asked = _request(source, tip)
    return None if _summary_of(asked, tip) else opened_by(open_and_enqueue(asked))


def _begun(
    source: ChatMessage, tip: ChatMessage, key: str
) -> tuple[ChatMessage | CompactionRequest, CompactionRun | None]:
    """The message that was stored with this key, or what is asked for, with the run that makes its summary, if that
    is not there."""
    if made := _made_before(source, tip, key):
        return made, None
    asked = _request(source, tip)
    if _summary_of(asked, tip):
        return asked, None
    require_no_transaction(tip)
    return asked, opened(asked)


def _own_key(source: ChatMessage, tip: ChatMessage, key: str) -> OwnKey:
    return OwnKey(f"carry-over-{source.pk}-{tip.pk}-{hashlib.sha256(key.encode()).hexdigest()[:40]}")


def _made_before(source: ChatMessage, tip: ChatMessage, key: str) -> ChatMessage | None:
    """The message that was stored with this key."""
    check_tip(tip)
    check_tip(source)
    check_key(key)
    rows = ChatMessage.objects.in_database_of(tip).filter(session_id=tip.session_id)
    return rows.filter(idempotency_key=_own_key(source, tip, key)).first() if key else None


def _request(source: ChatMessage, tip: ChatMessage) -> CompactionRequest:
    """To summarize what the branch of ``source`` has below the fork."""
    check_tip(tip)
    asked = asked_request(source, ContextRequest(), trigger=Trigger.CARRY_OVER)
    if source.session_id != tip.session_id:
        raise InvalidMessage("source must be of the session of tip.", field="source")
    own, other = path_ids(tip), path_ids(source)
    if not (own and other):
        raise MessageNotFound(f"Message {(source if own else tip).pk} does not exist any more.")
    if source.pk in own or tip.pk in other:
        raise InvalidMessage("source must be on another branch: one of the two goes on with the other.", field="source")
    return replace(asked, until=source.pk, carried=len({*other} - {*own}))


def _summary_of(asked: CompactionRequest, tip: ChatMessage) -> ChatMessage | None:
    """The summary that is asked for, where it was made before."""
    if asked.resolved.settings.mode == Mode.OFF:
        raise CompactionRefused(MODE_IS_OFF, reason=SkipReason.MODE_OFF)
    if is_under_way(tip):
        raise ReplyUnderWay(f"A reply to message {tip.pk} is under way.", message_id=tip.pk)
    runs = CompactionRun.objects.in_database_of(tip).filter(trigger=Trigger.CARRY_OVER, cutoff=asked.until)
    runs = runs.filter(tip=asked.until, messages_compacted=asked.carried, summary__redacted_at=None)
    run = runs.filter(summary__isnull=False).select_related("summary").order_by("-id").first()
    return run.summary if run else None


def _check_made(run: CompactionRun) -> None:
    if run.summary_id is None:
        reason = run.skip_reason or SkipReason.NOTHING_TO_COMPACT
        raise CompactionRefused(f"There is no summary to carry over: {reason}.", reason=reason)


def _stored(asked: ChatMessage | CompactionRequest, tip: ChatMessage, key: str) -> ChatMessage:
    if isinstance(asked, ChatMessage):
        return asked
    # An erasure waits, and then finds the message.
    with locked(tip):
        if made := _made_before(asked.tip, tip, key):
            return made
        summary = _summary_of(asked, tip)
        if summary is None:
            raise CompactionRefused("What it tells has just been erased.", reason=SkipReason.BASE_CHANGED)
        message = ChatMessage(
            session_id=tip.session_id,
            role=Role.USER,
            content=carried_message(summary.text),
            copy_of=summary.pk,
            idempotency_key=_own_key(asked.tip, tip, key) if key else "",
        )
        return ChatMessage.objects.append_chain(tip, [message])[0]
