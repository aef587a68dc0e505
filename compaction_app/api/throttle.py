"""``MANUAL_THROTTLE``: how often a user may ask for what causes a compaction.

That is asking for one, and taking away what makes one unnecessary: retiring a summary, redacting or deleting a message.
"""

from __future__ import annotations

import math
import time

from django.core.cache import cache
from django.http import HttpRequest

from compaction_app.api.authentication import user_of
from compaction_app.api.errors import Code, Problem, logger
from compaction_app.conf import site_setting
from compaction_app.telemetry import log_error

_PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def count_against_throttle(request: HttpRequest) -> None:
    """Count a request of its user against ``MANUAL_THROTTLE``; raise ``throttled`` if it is one too many.

    ``add`` and ``incr`` of the default cache are atomic in Redis, Memcached and within one process, so a burst gets no
    more than the rate allows. django-ninja's own throttles read a list, change it and write it back.
    """
    rate = site_setting("MANUAL_THROTTLE")
    if rate is None:
        return
    allowed, _, unit = rate.partition("/")
    seconds = _PERIODS[unit]
    window, passed = divmod(time.time(), seconds)
    # The rate is part of the key, so a changed setting starts a new count.
    key = f"compaction_app.manual.{user_of(request).pk}.{rate}.{window:.0f}"
    try:
        cache.add(key, 0, timeout=2 * seconds)
        count = int(cache.incr(key))
    except Exception as error:
        # Without a cache the throttle does not limit; SPENDING_LIMITS does.
        log_error(logger, error, step="throttle")
        return
    if count > int(allowed):
        wait = max(1, math.ceil(seconds - passed))
        detail = f"{rate} requests that compact, retire, redact or delete are allowed; try again in {wait} seconds."
        raise Problem(Code.THROTTLED, detail, headers={"Retry-After": str(wait)})
