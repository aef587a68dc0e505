"""Who may do what: the actions of the API, and the rule that holds where a host sets no ``PERMISSION``.

Needs no django-ninja, so that a host's own rule can import :class:`Action` anywhere.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from compaction_app.conf import load, site_setting
from compaction_app.models import ChatSession


class Action(StrEnum):
    """What ``PERMISSION(user, session, action)`` is asked about."""

    #: Begin a session; it comes with the session None, and so does CONFIGURE where one is begun.
    CREATE = "create"
    #: See a session's title, model, system prompt and settings.
    VIEW = "view"
    CHANGE = "change"
    #: Override keys of ``COMPACTION`` for a session, :data:`FREE_SETTINGS` excepted; asked beside CREATE and CHANGE.
    CONFIGURE = "configure"
    DELETE = "delete"
    #: See messages: the tree, a branch, a context.
    READ = "read"
    APPEND = "append"
    REDACT = "redact"
    #: Delete a message and all below it.
    ERASE = "erase"
    #: Have a branch compacted, at the host's expense.
    COMPACT = "compact"
    #: See runs and generations, the summaries' text included.
    INSPECT = "inspect"
    RETIRE = "retire"


#: What everybody who may change a session may set in it: the rest decides what compactions cost and when they come.
FREE_SETTINGS = frozenset({"MODE"})

_INSPECT = ("compaction_app.view_compactionrun", "compaction_app.view_chatmessage")

#: What staff need to do it to a session of somebody else. Who acts on something gets it, or a part of it, as the
#: answer, so each acting permission works together with the one that shows it.
STAFF_PERMISSIONS: dict[Action, tuple[str, ...]] = {
    Action.VIEW: ("compaction_app.view_chatsession",),
    Action.CHANGE: ("compaction_app.change_chatsession", "compaction_app.view_chatsession"),
    # It comes with CHANGE, or with a session of one's own.
    Action.CONFIGURE: ("compaction_app.change_chatsession",),
    Action.DELETE: ("compaction_app.delete_chatsession", "compaction_app.view_chatsession"),
    Action.READ: ("compaction_app.view_chatmessage",),
    Action.APPEND: ("compaction_app.add_chatmessage", "compaction_app.view_chatmessage"),
    Action.REDACT: ("compaction_app.redact_chatmessage", "compaction_app.view_chatmessage"),
    Action.ERASE: ("compaction_app.delete_chatmessage", "compaction_app.view_chatmessage"),
    # The answer is a generation or a run.
    Action.COMPACT: ("compaction_app.compact_chatsession", *_INSPECT),
    # A generation is shown with its summary's text, which tells what the messages said.
    Action.INSPECT: _INSPECT,
    Action.RETIRE: ("compaction_app.retire_summary", "compaction_app.view_chatmessage"),
}

#: Action → what shows the thing to somebody whom the action is refused: they are told 403 and not 404.
SHOWN_BY: dict[Action, Action] = {
    **dict.fromkeys((Action.CHANGE, Action.CONFIGURE, Action.DELETE), Action.VIEW),
    **dict.fromkeys(
        (Action.APPEND, Action.REDACT, Action.ERASE, Action.COMPACT, Action.INSPECT, Action.RETIRE), Action.READ
    ),
}


def owner_or_staff(user: Any, session: ChatSession | None, action: str) -> bool:
    """The default rule: one's own sessions; those of others with Django's permissions, for staff only.

    CONFIGURE is for staff in one's own sessions too.
    """
    own = session is None or (session.owner_id is not None and session.owner_id == user.pk)
    if own and action != Action.CONFIGURE:
        return True
    return bool(user.is_staff and user.has_perms(STAFF_PERMISSIONS[Action(action)]))


def is_allowed(user: Any, session: ChatSession | None, action: Action) -> bool:
    """What the host's ``PERMISSION`` says, or else the default rule."""
    path = site_setting("PERMISSION")
    if path is None:
        return owner_or_staff(user, session, action)
    named = load(path)
    rule = named() if isinstance(named, type) else named
    return bool(rule(user, session, action))
