"""``MANUAL_THROTTLE``: how often a user may ask for what causes a compaction.

That is asking for one, and taking away what makes one unnecessary: retiring a summary, redacting or deleting a message.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from django.core.cache import cache

from compaction_app.api.errors import Code, Problem
from compaction_app.conf import site_setting
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")

_PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def count_against_throttle(user: Any) -> None:
    """Count a request of this user against ``MANUAL_THROTTLE``; raise ``throttled`` if it is one too many.

    It is counted in Django's default cache, in windows of fixed length, with ``add`` and ``incr``. These are atomic in
    Redis, Memcached and within one process, so a burst of simultaneous requests gets no more than the rate allows.
    django-ninja's own throttles read a list, change it and write it back, so such requests may all read the same list.
    Counting runs in the database would need a query over all the user's sessions, and refused requests leave no run.
    """
    rate = site_setting("MANUAL_THROTTLE")
    if rate is None:
        return
    allowed, _, unit = rate.partition("/")
    now, seconds = time.time(), _PERIODS[unit]
    window = int(now // seconds)
    # The rate is part of the key, so a changed setting starts a new count.
    key = f"compaction_app.manual.{user.pk}.{rate}.{window}"
    try:
        cache.add(key, 0, timeout=2 * seconds)
        count = int(cache.incr(key))
    except Exception as error:
        # Without a cache the throttle does not limit; SPENDING_LIMITS does.
        log_error(logger, error, step="throttle")
        return
    if count > int(allowed):
        wait = max(1, math.ceil((window + 1) * seconds - now))
        detail = f"{rate} requests that compact, retire, redact or delete are allowed; try again in {wait} seconds."
        raise Problem(Code.THROTTLED, detail, headers={"Retry-After": str(wait)})
