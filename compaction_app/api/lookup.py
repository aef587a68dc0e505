"""Finds what a request names and checks that the user may do the action with it.

An unknown id and one that the user may not view are both 404. A user who may view it but not do this gets 403.
"""

from __future__ import annotations

from uuid import UUID

from django.db import router
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from compaction_app.api.authentication import user_of
from compaction_app.api.errors import Code, Problem
from compaction_app.api.permissions import NEEDED_TO_SEE, Action, is_allowed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.branches import database_of

#: Columns that may be long. Deciding whether the user may go on needs none of them.
TEXTS = ("content", "ledger", "tool_calls", "reasoning", "original", "attachments", "usage", "metadata", "sent_context")
_RUN_TEXTS = ("settings", "budget", "request", "shortened_inputs", "error_detail", "policy_line")


def database() -> str:
    """Return the alias that sessions are written to: a replica may not have a new one yet."""
    return router.db_for_write(ChatSession)


def find_session(request: HttpRequest, session_id: UUID, action: Action) -> ChatSession:
    session = get_object_or_404(ChatSession.objects.using(database()), pk=session_id)
    _require(request, session, action)
    return session


def find_message(request: HttpRequest, message_id: int, action: Action, *, whole: bool = False) -> ChatMessage:
    """Return a message or summary with its session. Its long columns are deferred unless ``whole``."""
    rows = ChatMessage.objects.using(database()).select_related("session")
    message = get_object_or_404(rows if whole else rows.defer(*TEXTS), pk=message_id)
    _require(request, message.session, action)
    return message


def find_tip(request: HttpRequest, message_id: int) -> ChatMessage:
    """Return the message whose branch is to be read."""
    return require_tip(find_message(request, message_id, Action.READ), "message_id")


def require_tip(message: ChatMessage, field: str) -> ChatMessage:
    """Return the message that the request names in ``field``, unless it is a summary: no branch ends at one."""
    if message.is_summary:
        raise Problem(Code.INVALID_PARENT, f"{field}: This is a summary; use a message of the branch.")
    return message


def find_run(request: HttpRequest, run_id: int) -> CompactionRun:
    rows = CompactionRun.objects.using(database()).select_related("session").defer(*_RUN_TEXTS, "instructions")
    run = get_object_or_404(rows, pk=run_id)
    _require(request, run.session, Action.INSPECT)
    return run


def find_generations(request: HttpRequest, session_id: UUID) -> QuerySet[CompactionRun]:
    """Return the runs that made a summary, each with the time when that was retired."""
    session = find_session(request, session_id, Action.INSPECT)
    rows = CompactionRun.objects.using(database_of(session)).filter(session=session, generation__isnull=False)
    return rows.annotate(retired_at=F("summary__retired_at")).defer(*_RUN_TEXTS)


def _require(request: HttpRequest, session: ChatSession, action: Action) -> None:
    user = user_of(request)
    if is_allowed(user, session, action):
        return
    shown_by = NEEDED_TO_SEE.get(action)
    if shown_by is None or not is_allowed(user, session, shown_by):
        raise Problem(Code.NOT_FOUND)
    raise Problem(Code.FORBIDDEN, f"This user may not {action} here.")
