"""Who may do what: the actions of the API, and the default rule where a host sets no ``PERMISSION``.

It does not import django-ninja, so a host's own rule can import :class:`Action` anywhere.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from compaction_app.conf import load_function, site_setting
from compaction_app.models import ChatSession


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
    #: Set the feedback on a message.
    ANNOTATE = "annotate"
    REDACT = "redact"
    #: Delete a message and everything below it.
    ERASE = "erase"
    #: Compact a branch, at the host's expense.
    COMPACT = "compact"
    #: Read runs and generations, with the summaries' texts.
    INSPECT = "inspect"
    RETIRE = "retire"


_INSPECT = ("compaction_app.view_compactionrun", "compaction_app.view_chatmessage")

#: The permissions that staff need for sessions of other users. The response to an action shows what it acted on, or a
#: part of it, so each action needs the permission to view that too.
STAFF_PERMISSIONS: dict[Action, tuple[str, ...]] = {
    Action.VIEW: ("compaction_app.view_chatsession",),
    Action.CHANGE: ("compaction_app.change_chatsession", "compaction_app.view_chatsession"),
    # Always asked with CHANGE, or for a session of the user's own.
    Action.CONFIGURE: ("compaction_app.change_chatsession",),
    Action.DELETE: ("compaction_app.delete_chatsession", "compaction_app.view_chatsession"),
    Action.READ: ("compaction_app.view_chatmessage",),
    Action.APPEND: ("compaction_app.add_chatmessage", "compaction_app.view_chatmessage"),
    Action.ANNOTATE: ("compaction_app.change_chatmessage", "compaction_app.view_chatmessage"),
    Action.REDACT: ("compaction_app.redact_chatmessage", "compaction_app.view_chatmessage"),
    Action.ERASE: ("compaction_app.delete_chatmessage", "compaction_app.view_chatmessage"),
    # The response is a generation or a run.
    Action.COMPACT: ("compaction_app.compact_chatsession", *_INSPECT),
    # A generation includes its summary's text, which repeats what the messages say.
    Action.INSPECT: _INSPECT,
    Action.RETIRE: ("compaction_app.retire_summary", "compaction_app.view_chatmessage"),
}

#: Maps an action to the one that shows its object. A user who is denied the first gets 403 if allowed the second,
#: otherwise 404.
NEEDED_TO_SEE: dict[Action, Action] = {
    **dict.fromkeys((Action.CHANGE, Action.CONFIGURE, Action.DELETE), Action.VIEW),
    **dict.fromkeys(
        (
            Action.APPEND,
            Action.ANNOTATE,
            Action.REDACT,
            Action.ERASE,
            Action.COMPACT,
            Action.INSPECT,
            Action.RETIRE,
        ),
        Action.READ,
    ),
}


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
