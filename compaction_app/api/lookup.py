"""Finds what a request names, and requires that the user may do the action with it.

An unknown id and one that the user may not view are both 404. A user who may view it but not do this gets 403.
"""

from uuid import UUID

from django.db import router
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from compaction_app.api.authentication import user_of
from compaction_app.api.codes import Code, Problem
from compaction_app.api.permissions import Action, is_allowed, shows
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.columns import lean


def database() -> str:
    """Return the alias that sessions are written to: a replica may not have a new one yet."""
    return router.db_for_write(ChatSession)


def find_session(request: HttpRequest, session_id: UUID, action: Action) -> ChatSession:
    session = get_object_or_404(ChatSession.objects.using(database()), pk=session_id)
    require(request, session, action)
    return session


def find_message(request: HttpRequest, message_id: int, action: Action, *, whole: bool = False) -> ChatMessage:
    """Return a message or summary with its session. Its long columns are deferred unless ``whole``: deciding whether
    the user may go on needs none of them."""
    rows = ChatMessage.objects.using(database()).select_related("session", "pin")
    message = get_object_or_404(rows if whole else lean(rows), pk=message_id)
    require(request, message.session, action)
    if message.is_summary and action in (Action.REDACT, Action.ERASE):
        detail = f"message_id: A summary does not change; retire it with DELETE summaries/{message.pk}."
        raise Problem(Code.INVALID_MESSAGE, detail)
    return message


def find_tip(request: HttpRequest, message_id: int) -> ChatMessage:
    """Return the message whose branch is to be read."""
    return require_tip(find_message(request, message_id, Action.READ), "message_id")


def require_tip(message: ChatMessage, field: str) -> ChatMessage:
    """Return the message that the request names in ``field``, unless it is a summary: no branch ends at one."""
    if message.is_summary:
        raise Problem(Code.INVALID_PARENT, f"{field}: This is a summary; use a message of the branch.")
    return message


def require(request: HttpRequest, session: ChatSession | None, action: Action, detail: str = "") -> None:
    """Raise unless the user may do the action; ``session`` is None for one that is to be created."""
    user = user_of(request)
    if is_allowed(user, session, action):
        return
    if session is not None and not is_allowed(user, session, shows(action)):
        raise Problem(Code.NOT_FOUND)
    raise Problem(Code.FORBIDDEN, detail or f"This user may not {action} here.")
