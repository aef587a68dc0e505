"""Leases: of a run, and of a question that a model answers. Renewed while the process lives, and never beyond a limit.

A process that is killed stops renewing, and another takes what it held when the lease ends. A worker that hangs lives:
at the time limit its run fails for good, so that what made it hang does not occupy one worker after another.

A question has one reply under way: a double click does not buy two. Who asks a model, or runs the tools that it calls
for a page, has the claim of the message that is answered, a row with a lease, which is deleted at the end, however that
comes. A caller that comes after the end gets the reply that is stored.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from copy import copy
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from django.db import connections
from django.db.models import OuterRef, Subquery

from compaction_app.exceptions import MessageNotFound, ReplyUnderWay, TooManyReplies
from compaction_app.models import ChatMessage, CompactionRun, ReplyClaim, runs
from compaction_app.models.database import Near, database_of, lock_name, locked, now_of, require_no_transaction
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import check_tip
from compaction_app.values import ErrorCode, Role

logger, claims_logger = logging.getLogger("compaction_app.runs"), logging.getLogger("compaction_app.claims")

#: The lease is renewed this often before it would end.
_RENEWALS = 3
#: A worker that asks no model any more has so long to fail its run itself, with what was spent: at most so many
#: seconds, and this share of the limit.
_GRACE_SECONDS, _GRACE_SHARE = 2.0, 0.1
#: Seconds between two tries to write, where the database is away.
_RETRY_SECONDS = 1.0
#: No longer than this, or than the caller's own time-out: a stream that is kept, but neither read nor closed, would
#: block its question for good.
_LONGEST_SECONDS = 3600.0


class Held:
    """A lease of this process. One thread renews all of them, on a connection of its own.

    ``renew`` extends it by ``lease`` seconds and returns whether it is still held. It is called until :meth:`end`, and
    in place of it ``expire``, once, ``grace`` after ``seconds``. Both run in a copy of the context in which the lease
    was taken: where each tenant has a schema, django-tenants keeps it at the connection, other packages in a context
    variable.
    """

    def __init__(
        self,
        near: Near,
        *,
        lease: float,
        seconds: float,
        grace: float = 0.0,
        renew: Callable[[], bool],
        expire: Callable[[], object],
    ) -> None:
        now, self._using = time.monotonic(), database_of(near)
        self._until, self._expires, self._every = now + seconds, now + seconds + grace, lease / _RENEWALS
        self._renew, self._expire = renew, expire
        self.context, self._tenant = copy_context(), getattr(connections[self._using], "tenant", None)
        self.due = min(now + self._every, self._expires)
        #: It was ended, or another process has it: nothing is left to renew.
        self.is_ended = False
        #: A thread is at its end; it comes back as news.
        self.is_at_its_end = False
        self._news = _Keeper.running(self._using).news
        self._news.put(self)

    def time_left(self) -> float:
        """Seconds; 0 where it is over."""
        return 0.0 if self.is_ended else max(self._until - time.monotonic(), 0.0)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def end(self) -> None:
        self.is_ended = True
        self._news.put(self)

    def abandon(self) -> None:
        """``expire`` follows at once. May be called by ``__del__``, at any moment of any thread."""
        self._expires = self.due = 0.0
        self._news.put(self)

    @property
    def is_past_limit(self) -> bool:
        return time.monotonic() >= self._expires

    def step(self) -> None:
        """Of the thread, once it is ``due``."""
        wait, is_past_limit = self._every, self.is_past_limit
        try:
            if self._tenant is not None:
                connections[self._using].set_tenant(self._tenant)  # type: ignore[attr-defined]  # of django-tenants
            if is_past_limit:
                self._expire()
            if is_past_limit or not self._renew():
                self.is_ended = True
        except Exception as error:
            # Without a renewal the lease ends, and another process takes what is held.
            with suppress(Exception):
                log_error(logger, error, step="renew", database=self._using)
            wait = min(_RETRY_SECONDS, wait)
        now = time.monotonic()
        self.due = now + wait if is_past_limit else min(now + wait, self._expires)


class _Keeper(threading.Thread):
    """One a database: one that does not answer must not hold up the leases in another."""

    _starting = threading.Lock()
    _of_this_process: ClassVar[dict[str, _Keeper]] = {}

    def __init__(self, alias: str) -> None:
        super().__init__(name=f"leases-{alias}", daemon=True)
        self.news: SimpleQueue[Held] = SimpleQueue()

    @classmethod
    def running(cls, alias: str) -> _Keeper:
        with cls._starting:
            keeper = cls._of_this_process.get(alias)
            # In a process that was forked from this one, the thread is gone, and its queue may be locked for ever.
            if keeper is None or not keeper.is_alive():
                keeper = cls._of_this_process[alias] = cls(alias)
                keeper.start()
            return keeper

    @classmethod
    def after_fork(cls) -> None:
        # Another thread of the parent may have held it at that moment.
        cls._starting = threading.Lock()

    def run(self) -> None:
        kept: set[Held] = set()
        while True:
            soonest = min((held.due for held in kept), default=None)
            with suppress(Empty):
                kept.add(self.news.get(timeout=None if soonest is None else max(soonest - time.monotonic(), 0.0)))
            kept = {held for held in kept if not held.is_ended and not held.is_at_its_end}
            now = time.monotonic()
            for held in [held for held in kept if held.due <= now]:
                if held.is_past_limit:
                    # What ends a run calls receivers of the host, for which the other leases do not wait.
                    held.is_at_its_end = True
                    threading.Thread(target=_expire, args=[held, self.news], daemon=True).start()
                else:
                    held.context.run(held.step)
            with suppress(Exception):
                connections.close_all()


def _expire(held: Held, news: SimpleQueue[Held]) -> None:
    try:
        held.context.run(held.step)
    finally:
        # The keeper learns when it is due again.
        held.is_at_its_end = False
        news.put(held)
        connections.close_all()


os.register_at_fork(after_in_child=_Keeper.after_fork)


def keep(run: CompactionRun) -> Held:
    """Renew the lease of a claimed run until it is ended, and fail the run at its time limit.

    Called where the run's queries are made: the tenant of a schema belongs to that thread's connection.
    """
    claimed, limit, seconds = copy(run), run.time_limit, runs.LEASE_SECONDS
    return Held(
        run,
        lease=seconds,
        seconds=limit,
        grace=min(_GRACE_SECONDS, limit * _GRACE_SHARE),
        renew=lambda: claimed.renew(seconds),
        expire=lambda: claimed.fail(ErrorCode.TIME_LIMIT, f"Not finished after {limit:g} s."),
    )


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
        tip, message_id = self._tip, self._tip.pk
        require_no_transaction(tip)
        # What a host appended has no record of a prompt: it is no reply of a model.
        given = ChatMessage.objects.messages().filter(role=Role.ASSISTANT, sent_context__isnull=False)
        newest = given.filter(parent=OuterRef("pk")).order_by("-sib_order").values("pk")[:1]
        rows = ChatMessage.objects.in_database_of(tip).filter(pk=message_id)
        claims = ReplyClaim.objects.in_database_of(tip)
        most = self._at_once
        owner_id = tip.session.owner_id if most is not None else None
        # A deletion has this lock: it takes the claims with it, and none may come in between.
        with locked(tip):
            found = rows.values_list("reply_claim__lease_expires_at", Subquery(newest)).first()
            if found is None:
                raise MessageNotFound(f"Message {message_id} does not exist any more.")
            expires_at, reply_id = found
            now = now_of(tip)
            if expires_at is not None and expires_at > now:
                raise ReplyUnderWay(
                    f"A reply to message {message_id} is under way.", message_id=message_id, expires_at=expires_at
                )
            if reply_id is not None and not regenerate:
                return ChatMessage.objects.in_database_of(tip).select_related("session").get(pk=reply_id)
            if owner_id is not None and most is not None:
                # Two of one owner count one after the other. Who has the name waits for nobody.
                lock_name(f"compaction_app.replies.{owner_id}", tip)
                held = claims.filter(message__session__owner_id=owner_id)
                if held.filter(lease_expires_at__gt=now).count() >= most:
                    raise TooManyReplies(at_once=most)
            row = ReplyClaim(message_id=message_id, token=self._token)
            row.lease_expires_at = now + timedelta(seconds=runs.LEASE_SECONDS)
            # One that has ended may be deleted at any moment, by its holder or by the sweep.
            row.save(using=claims.db, force_insert=expires_at is None)
        claimed = claims.filter(pk=message_id, token=self._token)
        self._held = Held(
            tip,
            lease=runs.LEASE_SECONDS,
            seconds=self._longest,
            renew=lambda: bool(claimed.update(lease_expires_at=now_of(claims) + timedelta(seconds=runs.LEASE_SECONDS))),
            expire=claimed.delete,
        )
        return None

    def release(self) -> None:
        """Delete the row. Without effect where the claim was not taken, or is released already."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            ReplyClaim.objects.in_database_of(self._tip).filter(pk=self._tip.pk, token=self._token).delete()
            held.end()
        except Exception as error:
            # The reply, or the error that ended it, is what the caller must learn.
            log_error(claims_logger, error, step="release", message=self._tip.pk)
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
    claims = ReplyClaim.objects.in_database_of(message)
    return claims.filter(pk=message.pk, lease_expires_at__gt=now_of(claims)).exists()
