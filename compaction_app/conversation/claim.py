"""A question has one reply under way: a double click does not buy two.

Who asks a model has the claim of the message that is answered: a row with a lease. The row is deleted at the end,
however that comes. A process that is killed stops renewing, and the next caller takes the claim when its lease has
ended. A caller that comes after the end gets the reply that is stored.
"""

from __future__ import annotations

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import OuterRef, Subquery

from compaction_app.compaction.lease import Held
from compaction_app.compaction.runs import require_no_transaction
from compaction_app.exceptions import MessageNotFound, ReplyUnderWay, TooManyReplies
from compaction_app.models import ChatMessage, ReplyClaim
from compaction_app.models.managers import lock_name, lock_session, now_of
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import Role

logger = logging.getLogger("compaction_app.claims")

#: A killed process is replaced after this.
LEASE_SECONDS = 60.0
#: No longer than this, or than the caller's own time-out: a stream that is kept, but neither read nor closed, would
#: block its question for good.
_LONGEST_SECONDS = 3600.0


class Claim:
    """The claim of one caller, who releases it at the end."""

    def __init__(self, tip: ChatMessage, timeout: Any = None, at_once: int | None = None) -> None:
        """``timeout``: what the client is given; a number of seconds, or of another kind.

        ``at_once``: how many claims the owner of the session may have; None, or without an owner: any number.
        """
        self._tip, self._at_once = tip, at_once
        self._longest = max(_LONGEST_SECONDS, timeout if isinstance(timeout, int | float) else 0)
        self._token = uuid.uuid4()
        self._held: Held | None = None

    def take(self, *, regenerate: bool) -> ChatMessage | None:
        """Take the claim, or return the stored reply: the newest that a model gave at this tip.

        ``regenerate``: another one is wanted. Raises :class:`ReplyUnderWay` while another caller has the claim, and
        :class:`TooManyReplies` where their owner has too many.
        """
        check_tip(self._tip)
        using, message_id = database_of(self._tip), self._tip.pk
        require_no_transaction(using)
        # What a host appended has no record of a prompt: it is no reply of a model.
        given = ChatMessage.objects.messages().filter(role=Role.ASSISTANT, sent_context__isnull=False)
        newest = given.filter(parent=OuterRef("pk")).order_by("-sib_order").values("pk")[:1]
        rows = ChatMessage.objects.using(using).filter(pk=message_id)
        owner_id = self._tip.session.owner_id if self._at_once is not None else None
        with transaction.atomic(using=using):
            if owner_id is not None:
                # Before any row: two of one owner count one after the other.
                lock_name(f"compaction_app.replies.{owner_id}", using)
            # A deletion has this lock: it takes the claims with it, and none may come in between.
            lock_session(self._tip.session_id, using)
            found = rows.values_list("reply_claim__lease_expires_at", Subquery(newest)).first()
            if found is None:
                raise MessageNotFound(f"Message {message_id} does not exist any more.")
            expires_at, reply_id = found
            now = now_of(using)
            if expires_at is not None and expires_at > now:
                raise ReplyUnderWay(
                    f"A reply to message {message_id} is under way.", message_id=message_id, expires_at=expires_at
                )
            if reply_id is not None and not regenerate:
                return ChatMessage.objects.using(using).select_related("session").get(pk=reply_id)
            if owner_id is not None and self._at_once is not None:
                held = ReplyClaim.objects.using(using).filter(message__session__owner_id=owner_id)
                if held.filter(lease_expires_at__gt=now).count() >= self._at_once:
                    raise TooManyReplies(at_once=self._at_once)
            row = ReplyClaim(message_id=message_id, token=self._token)
            row.lease_expires_at = now + timedelta(seconds=LEASE_SECONDS)
            # One that has ended may be deleted at any moment, by its holder or by the sweep.
            row.save(using=using, force_insert=expires_at is None)
        claimed = ReplyClaim.objects.using(using).filter(pk=message_id, token=self._token)
        self._held = Held(
            using,
            lease=LEASE_SECONDS,
            seconds=self._longest,
            renew=lambda: bool(claimed.update(lease_expires_at=now_of(using) + timedelta(seconds=LEASE_SECONDS))),
            expire=claimed.delete,
        )
        return None

    def release(self) -> None:
        """Delete the row. Without effect where the claim was not taken, or is released already."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            ReplyClaim.objects.using(database_of(self._tip)).filter(pk=self._tip.pk, token=self._token).delete()
            held.end()
        except Exception as error:
            # The reply, or the error that ended it, is what the caller must learn.
            log_error(logger, error, step="release", message=self._tip.pk)
        finally:
            if not held.is_ended:
                # The row goes as soon as the database is back: nobody must wait for the end of the lease.
                held.abandon()

    def __del__(self) -> None:
        # Collected with a stream that nobody closed, in any thread and perhaps inside a query.
        if self._held is not None:
            self._held.abandon()


def is_under_way(message: ChatMessage) -> bool:
    """Whether a model is being asked for a reply to this message. One query."""
    claims = ReplyClaim.objects.using(database_of(message))
    return claims.filter(pk=message.pk, lease_expires_at__gt=now_of(claims.db)).exists()
