"""Whether the broker answers, for a word about it on the admin's pages.

Asked at most twice a minute in a process, in a thread of its own: a page waits a moment for the answer and goes on
without it. A name server that hangs has no time-out that a socket knows of, so only a thread keeps it from a page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from celery import current_app
from django.utils import timezone

from compaction_app import tasks

#: An answer, or none, is believed for this long.
FRESH_SECONDS = 30.0
#: A page waits this long at worst. A broker nearby answers in a few thousandths of a second.
PAGE_WAITS_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Silence:
    """A broker that did not answer."""

    #: When this process first noticed.
    since: datetime
    #: The class of what was raised.
    error: str


def knock() -> None:
    """Connect to the broker as an enqueueing does; raises whatever it raises where nobody answers."""
    with tasks.impatient_connection() as connection:
        connection.ensure_connection(
            max_retries=1, interval_start=0, interval_step=0, timeout=tasks.ENQUEUE_TIMEOUT_SECONDS
        )


class Watch:
    """What this process knows of the broker."""

    def __init__(self, knock: Callable[[], None] = knock) -> None:
        self._knock = knock
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._silence: Silence | None = None

    def silence(self) -> Silence | None:
        """None where the broker answers, none is needed, or nothing is known of it yet."""
        if current_app.conf.task_always_eager:
            return None
        if self._is_due():
            looked = threading.Event()
            threading.Thread(target=self._look, args=(looked,), daemon=True, name="compaction-broker").start()
            looked.wait(PAGE_WAITS_SECONDS)
        return self._silence

    def _is_due(self) -> bool:
        # By the clock and not by "somebody is looking": a process forked meanwhile would wait for ever.
        with self._lock:
            now = time.monotonic()
            if now < self._next_look:
                return False
            self._next_look = now + FRESH_SECONDS
            return True

    def _look(self, looked: threading.Event) -> None:
        try:
            self._knock()
        except Exception as error:
            # Whatever a broker can throw; the page says it, and an enqueueing that fails logs it.
            since = self._silence.since if self._silence else timezone.now()
            self._silence = Silence(since, type(error).__name__)
        else:
            self._silence = None
        finally:
            looked.set()


#: The one of this process.
watch = Watch()
