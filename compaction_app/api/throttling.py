"""How often a user may ask for a compaction, which costs the host a model's call: ``MANUAL_THROTTLE``.

Counted in Django's default cache, in windows of fixed length, by ``add`` and ``incr``: on Redis, Memcached and in one
process these are atomic, so a burst of requests at once gets no more than the setting says. django-ninja's own
throttles read a list, change it and write it back, and of requests at once several may read the same. Counting runs in
the database instead would cost a look at every run of the user's sessions, and requests that were refused leave none.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from django.core.cache import cache

from compaction_app.api.problems import Code, Problem
from compaction_app.conf import site_setting
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def count_manual_compaction(user: Any) -> None:
    """Count one; raises ``throttled`` with ``Retry-After`` where it is one too many."""
    rate = site_setting("MANUAL_THROTTLE")
    if rate is None:
        return
    allowed, _, unit = rate.partition("/")
    now, seconds = time.time(), _SECONDS[unit]
    window = int(now // seconds)
    # The rate is part of the key, so that a changed setting counts anew.
    if _count(f"compaction_app.manual.{user.pk}.{rate}.{window}", seconds) > int(allowed):
        wait = max(1, math.ceil((window + 1) * seconds - now))
        detail = f"{rate} manual compactions are allowed; try again in {wait} seconds."
        raise Problem(Code.THROTTLED, detail, headers={"Retry-After": str(wait)})


def _count(key: str, seconds: int) -> int:
    """How many there are with this one; 0 where the cache does not answer, for it only guards against waste."""
    try:
        cache.add(key, 0, timeout=2 * seconds)
        return int(cache.incr(key))
    except Exception as error:
        log_error(logger, error, step="throttle")
        return 0
