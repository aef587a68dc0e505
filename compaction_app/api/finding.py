"""What a request names, if this user may have it; else 404, whether it exists or not.

Whoever may see it and not do this to it is told so by 403: to them it is no secret.
"""

from __future__ import annotations

from uuid import UUID

from django.db import router
from django.http import HttpRequest

from compaction_app.api.authentication import user_of
from compaction_app.api.permissions import SHOWN_BY, Action, is_allowed
from compaction_app.api.problems import Code, Problem
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import Kind

#: Columns that may be long; no operation needs them to decide whether it may go on.
_TEXTS = ("content", "tool_calls", "reasoning", "attachments", "usage", "metadata", "sent_context")
_RUN_TEXTS = ("settings", "budget", "request", "shortened_inputs", "error_detail", "policy_line")


def database() -> str:
    """Where sessions are written: one that was just made may not be on a replica yet."""
    return router.db_for_write(ChatSession)


def find_session(request: HttpRequest, session_id: UUID, action: Action) -> ChatSession:
    session = ChatSession.objects.using(database()).filter(pk=session_id).first()
    if session is None:
        raise Problem(Code.NOT_FOUND)
    require(request, session, action)
    return session


def find_message(request: HttpRequest, message_id: int, action: Action, *, whole: bool = False) -> ChatMessage:
    """A message or summary with its session; its texts are read only if it is wanted ``whole``."""
    rows = ChatMessage.objects.using(database()).filter(pk=message_id).select_related("session")
    found = (rows if whole else rows.defer(*_TEXTS)).first()
    if found is None:
        raise Problem(Code.NOT_FOUND)
    require(request, found.session, action)
    return found


def find_tip(request: HttpRequest, message_id: int) -> ChatMessage:
    """The message whose branch is to be read."""
    return no_summary(find_message(request, message_id, Action.READ), "message_id")


def no_summary(tip: ChatMessage, name: str) -> ChatMessage:
    """The tip that ``name`` of the request stands for; raises for a summary, on whose branch nothing was said."""
    if tip.kind == Kind.SUMMARY:
        raise Problem(Code.INVALID_PARENT, f"{name}: A summary is no tip; name a message of the branch.")
    return tip


def find_summary(request: HttpRequest, summary_id: int, action: Action) -> ChatMessage:
    message = find_message(request, summary_id, action)
    if message.kind != Kind.SUMMARY:
        raise Problem(Code.NOT_FOUND)
    return message


def find_run(request: HttpRequest, run_id: int) -> CompactionRun:
    rows = CompactionRun.objects.using(database()).filter(pk=run_id).select_related("session")
    found = rows.defer(*_RUN_TEXTS, "instructions").first()
    if found is None:
        raise Problem(Code.NOT_FOUND)
    require(request, found.session, Action.INSPECT)
    return found


def find_generation(session: ChatSession, generation: int) -> CompactionRun:
    """A run that made a summary, with its text."""
    rows = CompactionRun.objects.using(session._state.db).filter(session=session, generation=generation)
    run = rows.select_related("summary").defer(*_RUN_TEXTS).first()
    if run is None:
        raise Problem(Code.NOT_FOUND)
    return run


def require(request: HttpRequest, session: ChatSession, action: Action) -> None:
    """Raise ``not_found``, or ``forbidden`` for whoever may see what they may not do this to."""
    user = user_of(request)
    if is_allowed(user, session, action):
        return
    shown_by = SHOWN_BY.get(action)
    if shown_by is None or not is_allowed(user, session, shown_by):
        raise Problem(Code.NOT_FOUND)
    raise Problem(Code.FORBIDDEN, f"The host does not allow this user to {action} here.")
