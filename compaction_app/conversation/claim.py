"""A question has one reply under way: a double click does not buy two.

Who asks a model has the claim of the message that is answered: a row with a lease. The row is deleted at the end,
however that comes. A process that is killed stops renewing, and the next caller takes the claim when its lease has
ended. A caller that comes after the end gets the reply that is stored.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, NamedTuple

from django.db import connections, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from compaction_app.compaction.runs import require_no_transaction
from compaction_app.exceptions import MessageNotFound, ReplyUnderWay
from compaction_app.models import ChatMessage, ReplyClaim
from compaction_app.models.managers import lock_session
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import check_tip, database_of
from compaction_app.values import Role

logger = logging.getLogger("compaction_app.claims")

#: A killed process is replaced after this; the lease is renewed so often before it would end.
LEASE_SECONDS, _RENEWALS = 60.0, 3
#: No longer than this: a stream that is kept, but neither read nor closed, would block its question for good.
_LONGEST_SECONDS = 3600.0


class _Held(NamedTuple):
    message_id: int
    using: str
    until: float
    #: Of django-tenants: the keeper's own connection needs it too.
    tenant: Any

    def enter(self) -> None:
        if self.tenant is not None:
            connections[self.using].set_tenant(self.tenant)  # type: ignore[attr-defined]


class _Keeper(threading.Thread):
    """Renews what this process has claimed: one statement for each database and tenant, on its own connection."""

    _starting = threading.Lock()
    _of_this_process: ClassVar[_Keeper | None] = None

    def __init__(self) -> None:
        super().__init__(name="reply-claims", daemon=True)
        #: A token, what it is for (None: released), and whether its row is still there though nobody wants it. This
        #: queue may be written to by ``__del__``, at any moment of any thread.
        self.news: SimpleQueue[tuple[uuid.UUID, _Held | None, bool]] = SimpleQueue()

    @classmethod
    def running(cls) -> _Keeper:
        with cls._starting:
            # In a process that was forked from this one, the thread is gone, and its queue may be locked for ever.
            if cls._of_this_process is None or not cls._of_this_process.is_alive():
                cls._of_this_process = cls()
                cls._of_this_process.start()
            return cls._of_this_process

    def run(self) -> None:
        held: dict[uuid.UUID, _Held] = {}
        due = 0.0
        while True:
            now = time.monotonic()
            held = {token: one for token, one in held.items() if one.until > now}
            if held and now >= due:
                _renew(held)
                due = now + LEASE_SECONDS / _RENEWALS
            try:
                token, claimed, is_abandoned = self.news.get(timeout=max(due - now, 0) if held else None)
            except Empty:
                continue
            due = due if held else time.monotonic() + LEASE_SECONDS / _RENEWALS
            known = held.pop(token, None)
            if claimed is not None:
                held[token] = claimed
            elif is_abandoned and known is not None:
                known.enter()
                _delete(token, known)
                connections[known.using].close()


def _renew(held: dict[uuid.UUID, _Held]) -> None:
    now = timezone.now()
    for one in {(one.using, one.tenant): one for one in held.values()}.values():
        alike = {token: each for token, each in held.items() if (each.using, each.tenant) == (one.using, one.tenant)}
        rows = ReplyClaim.objects.using(one.using)
        try:
            one.enter()
            rows.filter(pk__in=[each.message_id for each in alike.values()], token__in=alike).update(
                lease_expires_at=now + timedelta(seconds=LEASE_SECONDS)
            )
            # What killed processes left at questions that nobody asked again.
            rows.filter(lease_expires_at__lt=now - timedelta(seconds=LEASE_SECONDS)).delete()
            connections[one.using].close()
        except Exception as error:
            # Without a renewal the lease ends, and another caller may buy a second reply.
            log_error(logger, error, step="renew", claims=len(alike))


def _delete(token: uuid.UUID, held: _Held) -> None:
    try:
        ReplyClaim.objects.using(held.using).filter(pk=held.message_id, token=token).delete()
    except Exception as error:
        # The reply, or the error that ended it, is what the caller must learn. The lease ends by itself.
        log_error(logger, error, step="release", message=held.message_id)


class Claim:
    """The claim of one caller, who releases it at the end."""

    def __init__(self, tip: ChatMessage) -> None:
        self._tip = tip
        self._token = uuid.uuid4()
        self._held: _Held | None = None
        self._news: Any = None

    def take(self, *, regenerate: bool) -> ChatMessage | None:
        """Take the claim, or return the stored reply: the newest that a model gave at this tip.

        ``regenerate``: another one is wanted. Raises :class:`ReplyUnderWay` while another caller has the claim.
        """
        check_tip(self._tip)
        using, message_id = database_of(self._tip), self._tip.pk
        require_no_transaction(using)
        # What a host appended has no record of a prompt: it is no reply of a model.
        given = ChatMessage.objects.messages().filter(role=Role.ASSISTANT, sent_context__isnull=False)
        newest = given.filter(parent=OuterRef("pk")).order_by("-sib_order").values("pk")[:1]
        rows = ChatMessage.objects.using(using).filter(pk=message_id)
        with transaction.atomic(using=using):
            # A deletion has this lock: it takes the claims with it, and none may come in between.
            lock_session(self._tip.session_id, using)
            found = rows.values_list("reply_claim__lease_expires_at", Subquery(newest)).first()
            if found is None:
                raise MessageNotFound(f"Message {message_id} does not exist any more.")
            expires_at, reply_id = found
            now = timezone.now()
            if expires_at is not None and expires_at > now:
                raise ReplyUnderWay(
                    f"A reply to message {message_id} is under way.", message_id=message_id, expires_at=expires_at
                )
            if reply_id is not None and not regenerate:
                stored = ChatMessage.objects.using(using).select_related("session").get(pk=reply_id)
                # Nothing was changed, so the session was not used now.
                transaction.set_rollback(True, using=using)
                return stored
            row = ReplyClaim(message_id=message_id, token=self._token)
            row.lease_expires_at = now + timedelta(seconds=LEASE_SECONDS)
            row.save(using=using, force_insert=expires_at is None, force_update=expires_at is not None)
        tenant = getattr(connections[using], "tenant", None)
        self._held = _Held(message_id, using, time.monotonic() + _LONGEST_SECONDS, tenant)
        self._news = _Keeper.running().news
        self._news.put((self._token, self._held, False))
        return None

    def release(self) -> None:
        """Delete the row. Without effect where the claim was not taken, or is released already."""
        if self._held is not None:
            held, self._held = self._held, None
            self._news.put((self._token, None, False))
            _delete(self._token, held)

    def __del__(self) -> None:
        # Collected with a stream that nobody closed, in any thread and perhaps inside a query: the keeper deletes it.
        if self._held is not None:
            self._news.put((self._token, None, True))


def is_under_way(message: ChatMessage) -> bool:
    """Whether a model is being asked for a reply to this message. One query."""
    claims = ReplyClaim.objects.using(database_of(message))
    return claims.filter(pk=message.pk, lease_expires_at__gt=timezone.now()).exists()
