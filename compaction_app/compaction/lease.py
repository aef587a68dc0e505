"""Leases: of a run, and of a question that a model answers. Renewed while the process lives, and never beyond a limit.

A process that is killed stops renewing, and another takes what it held when the lease ends. A worker that hangs lives:
at the time limit its run fails for good, so that what made it hang does not occupy one worker after another.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from copy import copy
from queue import Empty, SimpleQueue
from typing import ClassVar

from django.db import connections

from compaction_app.compaction import runs
from compaction_app.models import CompactionRun
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import database_of
from compaction_app.values import ErrorCode

logger = logging.getLogger("compaction_app.runs")

#: The lease is renewed this often before it would end.
_RENEWALS = 3
#: A worker that asks no model any more has so long to fail its run itself, with what was spent: at most so many
#: seconds, and this share of the limit.
_GRACE_SECONDS, _GRACE_SHARE = 2.0, 0.1
#: Seconds between two tries to write, where the database is away.
_RETRY_SECONDS = 1.0


class Held:
    """A lease of this process. One thread renews all of them, on a connection of its own.

    ``renew`` extends it by ``lease`` seconds and returns whether it is still held. It is called until :meth:`end`, and
    in place of it ``expire``, once, ``grace`` after ``seconds``. Both run in a copy of the context in which the lease
    was taken: where each tenant has a schema, django-tenants keeps it at the connection, other packages in a context
    variable.
    """

    def __init__(
        self,
        using: str,
        *,
        lease: float,
        seconds: float,
        grace: float = 0.0,
        renew: Callable[[], bool],
        expire: Callable[[], object],
    ) -> None:
        now = time.monotonic()
        self._until, self._expires, self._every = now + seconds, now + seconds + grace, lease / _RENEWALS
        self._using, self._renew, self._expire = using, renew, expire
        self.context, self._tenant = copy_context(), getattr(connections[using], "tenant", None)
        self.due = min(now + self._every, self._expires)
        #: It was ended, or another process has it: nothing is left to renew.
        self.is_ended = False
        #: A thread is at its end; it comes back as news.
        self.is_at_its_end = False
        self._news = _Keeper.running(using).news
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

    def __init__(self, using: str) -> None:
        super().__init__(name=f"leases-{using}", daemon=True)
        self.news: SimpleQueue[Held] = SimpleQueue()

    @classmethod
    def running(cls, using: str) -> _Keeper:
        with cls._starting:
            keeper = cls._of_this_process.get(using)
            # In a process that was forked from this one, the thread is gone, and its queue may be locked for ever.
            if keeper is None or not keeper.is_alive():
                keeper = cls._of_this_process[using] = cls(using)
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
    claimed, limit, seconds = copy(run), runs.time_limit_of(run), runs.LEASE_SECONDS
    return Held(
        database_of(run),
        lease=seconds,
        seconds=limit,
        grace=min(_GRACE_SECONDS, limit * _GRACE_SHARE),
        renew=lambda: runs.renew(claimed, seconds),
        expire=lambda: runs.fail(claimed, ErrorCode.TIME_LIMIT, f"Not finished after {limit:g} s."),
    )
