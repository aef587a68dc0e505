"""The operations: ask, come back, stop, and load all messages."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any
from uuid import UUID

import openai
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router, Schema
from pydantic import Field

from compaction_app.api.errors import logger, operation
from compaction_app.api.lookup import find_session
from compaction_app.api.permissions import Action
from compaction_app.api.schemas import Body, Id, InQuery
from compaction_app.contrib.stream import parts, replies
from compaction_app.contrib.stream.asked import Asking, find_or_append
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatSession
from compaction_app.telemetry import log_error

#: Of a request, its session and the fields of its body that are not the protocol's: the keywords of ``chat.stream``.
#: ``run_tool``, beside them, calls a tool of the host: takes the model's call, returns the result's text.
#: ``page_tools``: names of the tools that the page runs, by default all where there is no ``run_tool``, else none.
Turn = Callable[[HttpRequest, ChatSession, Mapping[str, Any]], Mapping[str, Any]]


QuestionId = Annotated[Id | None, InQuery, Query(None, alias="questionId", description="Default: the newest.")]


class StopIn(Body):
    question_id: str | None = Field(None, alias="questionId", pattern=r"^\d{1,18}$", description="Default: the newest.")


class Stopping(Schema):
    stopping: bool = Field(description="Whether a reply is under way, as far as this process and the cache know.")


def stream_router(turn: Turn, *, at_once: int = 20) -> Router:
    """The router to pass to ``api_urls(extra=[…])``. ``turn``: which model answers, and how; it may cost money.

    ``at_once``: replies to one user that may be under way, counted in the database with those of all other doors.
    """
    router = Router(tags=["stream"])
    path = "/sessions/{uuid:session_id}/stream"
    codes = "invalid_message invalid_parent idempotency_conflict duplicate reply_under_way too_many_replies"
    codes += " context_overflow model"

    @operation(router, "POST", path, {200: None}, f"{codes} redaction_failed")
    def ask(request: HttpRequest, session_id: UUID, body: Asking) -> HttpResponseBase:
        """Stores the new message, asks the model and streams its reply, in the AI SDK's UI message stream protocol."""
        session = find_session(request, session_id, Action.APPEND)
        options = {"at_once": at_once, **turn(request, session, body.model_extra or {})}
        question = find_or_append(session, body, lambda call: replies.is_of_page(call, options))
        last = body.messages[-1] if body.messages else None
        # What the page's tools returned goes on with the message that called them.
        goes_on = last is not None and last.role == "assistant" and not body.is_again
        reply = replies.Reply(question, options, last.id if last and goes_on else "")
        try:
            reply.start(regenerate=body.is_again)
        except (openai.OpenAIError, CompactionError) as error:
            problem = replies.problem_for_people(error)
            log_error(logger, error, session=session.pk, message=question.pk, code=problem.code)
            problem.ids["question_id"] = question.pk
            raise problem from error
        return replies.response(request, reply)

    @operation(router, "GET", path, {200: None, 204: None})
    def come_back(request: HttpRequest, session_id: UUID, question_id: QuestionId) -> HttpResponseBase:
        """The reply that is under way, from its first event on; 204 where there is none."""
        session = find_session(request, session_id, Action.READ)
        reply = replies.find(session, question_id)
        return replies.response(request, reply) if reply else HttpResponse(status=204)

    @operation(router, "POST", f"{path}/stop", {200: Stopping})
    def stop(request: HttpRequest, session_id: UUID, body: StopIn | None = None) -> dict[str, Any]:
        """Ends the reply that is under way. What came of it is stored."""
        session = find_session(request, session_id, Action.APPEND)
        reply = replies.find(session, int(body.question_id) if body and body.question_id else None)
        if reply:
            reply.stop()
        return {"stopping": reply is not None}

    @operation(router, "GET", "/sessions/{uuid:session_id}/repository", {200: None})
    def load(request: HttpRequest, session_id: UUID) -> HttpResponse:
        """Every message with its parent, as assistant-ui's history adapters take them, and what is being answered."""
        session = find_session(request, session_id, Action.READ)
        return JsonResponse(parts.repository(session, replies.under_way(session)))

    return router
