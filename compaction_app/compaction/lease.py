"""A run's lease: renewed while its worker lives, and never beyond the run's time limit.

A worker that is killed stops renewing, and another takes the run when the lease ends. A worker that hangs lives: at the
time limit the run fails for good, so that what made it hang does not occupy one worker after another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from typing import Any

from django.db import Error, connections

from compaction_app.compaction import runs
from compaction_app.conf import Settings
from compaction_app.models import CompactionRun
from compaction_app.summarizers import cascade
from compaction_app.telemetry import log_error
from compaction_app.tree.branches import database_of
from compaction_app.values import ErrorCode

logger = logging.getLogger("compaction_app.runs")

#: Seconds beyond the models' time-outs for reading the branch, the ledger and the commit, where RUN_TIME_LIMIT is None.
LOCAL_SECONDS = 600.0
#: The lease is renewed this often before it would end.
_RENEWALS = 3
#: A worker that asks no model any more has so long to fail its run itself, with what was spent: at most so many
#: seconds, and this share of the limit.
_GRACE_SECONDS, _GRACE_SHARE = 2.0, 0.1
#: Seconds between two tries to write, where the database is away.
_RETRY_SECONDS = 1.0


def time_limit(settings: Settings) -> float:
    """Seconds that one run may take."""
    if settings.run_time_limit is not None:
        return settings.run_time_limit
    return cascade.longest_seconds(settings) + LOCAL_SECONDS


class Held:
    """A claimed run's time: what is left of it, as its worker and the thread that renews its lease see it."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        #: The block has ended, or the claim is lost: nothing is left to renew.
        self.ended = threading.Event()

    def time_left(self) -> float:
        """Seconds; 0 where another worker has the run, or where it has ended."""
        return 0.0 if self.ended.is_set() else max(self.until - time.monotonic(), 0.0)


@contextmanager
def keep(run: CompactionRun) -> Iterator[Held]:
    """Renew the lease of a claimed run until the block ends, in a thread with a connection of its own.

    Where each tenant has a schema, that connection needs the tenant of this one: django-tenants keeps it there, other
    packages in a context variable.
    """
    settings = runs.times_of(run)
    limit = time_limit(settings)
    held = Held(limit)
    tenant = getattr(connections[database_of(run)], "tenant", None)
    arguments = (_renew, copy(run), held, runs.lease_seconds(settings), limit, tenant)
    threading.Thread(target=copy_context().run, args=arguments, name=f"lease-{run.pk}", daemon=True).start()
    try:
        yield held
    finally:
        held.ended.set()


def _renew(run: CompactionRun, held: Held, lease: float, limit: float, tenant: Any) -> None:
    """The thread: ends with the block, with the claim, or with the run at its time limit."""
    if tenant is not None:
        connections[database_of(run)].set_tenant(tenant)  # type: ignore[attr-defined]  # of django-tenants
    until = held.until + min(_GRACE_SECONDS, limit * _GRACE_SHARE)
    wait = min(lease / _RENEWALS, limit)
    while not held.ended.wait(wait):
        left = max(until - time.monotonic(), 0.0)
        wait = min(lease / _RENEWALS, left)
        try:
            if left <= 0:
                runs.fail(run, ErrorCode.TIME_LIMIT, f"Not finished after {limit:g} s.")
                return
            if not runs.renew(run, lease):
                held.ended.set()
                return
        except Error as error:
            # Without a renewal the lease ends, and another worker takes the run.
            log_error(logger, error, run=run.pk, session=run.session_id, step="renew")
            wait = max(wait, min(_RETRY_SECONDS, lease / _RENEWALS))
        finally:
            connections[database_of(run)].close()
