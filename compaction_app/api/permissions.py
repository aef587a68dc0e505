"""Who may do what, and how often: the actions of the API, and the default rule where a host sets no ``PERMISSION``.

It does not import django-ninja, so a host's own rule can import :class:`Action` anywhere.
"""

import logging
import math
import time
from enum import StrEnum
from typing import Any

from django.core.cache import cache

from compaction_app.api.codes import Code, Problem
from compaction_app.conf import load_function, site_setting
from compaction_app.models import ChatSession
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")

_PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Action(StrEnum):
    """The actions that ``PERMISSION(user, session, action)`` decides on."""

    #: Create a session. The session is None, also when CONFIGURE is asked for a new one.
    CREATE = "create"
    #: Read a session's title, model, system prompt and settings.
    VIEW = "view"
    CHANGE = "change"
    #: Override keys of ``COMPACTION``. Asked in addition to CREATE or CHANGE.
    CONFIGURE = "configure"
    DELETE = "delete"
    #: Read messages: the tree, a branch, a context.
    READ = "read"
    APPEND = "append"
    #: Pin a message, and unpin it.
    PIN = "pin"
    REDACT = "redact"
    #: Delete a message and everything below it.
    ERASE = "erase"
    #: Compact a branch, at the host's expense.
    COMPACT = "compact"
    #: Read runs and generations, with the summaries' texts.
    INSPECT = "inspect"
    RETIRE = "retire"
    #: Copy a branch of it into a session of the user's own. CREATE is asked in addition.
    COPY = "copy"


#: The permissions that staff need for sessions of other users. The response to an action shows what it acted on, or a
#: part of it, so each action needs the permission to view that too: of a generation its summary's text, which repeats
#: what the messages say. CONFIGURE is always asked with CHANGE, or for a session of the user's own.
STAFF_PERMISSIONS: dict[Action, tuple[str, ...]] = {
    action: tuple(f"compaction_app.{name}" for name in names.split())
    for action, names in {
        Action.VIEW: "view_chatsession",
        Action.CHANGE: "change_chatsession view_chatsession",
        Action.CONFIGURE: "change_chatsession",
        Action.DELETE: "delete_chatsession view_chatsession",
        Action.READ: "view_chatmessage",
        Action.APPEND: "add_chatmessage view_chatmessage",
        Action.PIN: "change_chatmessage view_chatmessage",
        Action.REDACT: "redact_chatmessage view_chatmessage",
        Action.ERASE: "delete_chatmessage view_chatmessage",
        Action.COMPACT: "compact_chatsession view_compactionrun view_chatmessage",
        Action.INSPECT: "view_compactionrun view_chatmessage",
        Action.RETIRE: "retire_summary view_chatmessage",
        Action.COPY: "view_chatsession view_chatmessage",
    }.items()
}


def shows(action: Action) -> Action:
    """The action that shows what ``action`` acts on: who is denied both is told that there is no such thing."""
    on_session = action in (Action.VIEW, Action.CHANGE, Action.CONFIGURE, Action.DELETE)
    return Action.VIEW if on_session else Action.READ


def owner_or_staff(user: Any, session: ChatSession | None, action: str) -> bool:
    """The default rule: owners may do everything but CONFIGURE; staff need Django's permissions, for CONFIGURE even in
    their own sessions.
    """
    own = session is None or (session.owner_id is not None and session.owner_id == user.pk)
    if own and action != Action.CONFIGURE:
        return True
    return bool(user.is_staff and user.has_perms(STAFF_PERMISSIONS[Action(action)]))


def is_allowed(user: Any, session: ChatSession | None, action: Action) -> bool:
    """Ask the host's ``PERMISSION``, or the default rule."""
    path = site_setting("PERMISSION")
    rule = owner_or_staff if path is None else load_function(path)
    return bool(rule(user, session, action))


def count_against_throttle(user: Any) -> None:
    """Count a request of a user against ``MANUAL_THROTTLE``; raise ``throttled`` if it is one too many.

    It limits what causes a compaction: asking for one, and taking away what makes one unnecessary; and copying, which
    writes more than is sent. ``add`` and ``incr`` of the default cache are atomic in Redis, Memcached and within one
    process, so a burst gets no more than the rate allows. django-ninja's own throttles read a list, change it and
    write it back.
    """
    rate = site_setting("MANUAL_THROTTLE")
    if rate is None:
        return
    allowed, _, unit = rate.partition("/")
    seconds = _PERIODS[unit]
    window, passed = divmod(time.time(), seconds)
    # The rate is part of the key, so a changed setting starts a new count.
    key = f"compaction_app.manual.{user.pk}.{rate}.{window:.0f}"
    try:
        cache.add(key, 0, timeout=2 * seconds)
        count = int(cache.incr(key))
    except Exception as error:
        # Without a cache the throttle does not limit; SPENDING_LIMITS does.
        log_error(logger, error, step="throttle")
        return
    if count > int(allowed):
        wait = max(1, math.ceil(seconds - passed))
        detail = f"{rate} requests that compact, copy or erase are allowed; try again in {wait} seconds."
        raise Problem(Code.THROTTLED, detail, retry_after=wait)
