"""The error responses of the API: ``{"code": …, "detail": …}`` for every error. Who refuses raises :class:`Problem`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from http.client import responses as reasons
from typing import Any, Self

from django.conf import settings as django_settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from ninja import NinjaAPI, Router, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.types import TCallable
from pydantic import Field

from compaction_app.compaction.execute import CLAIMED
from compaction_app.exceptions import CompactionError, CompactionFailed, CompactionRefused, TooManyReplies
from compaction_app.spending import describe_overspending
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")


class Code(StrEnum):
    """Identifies the error, for programs."""

    status: int
    #: The default detail, also in the OpenAPI document and docs/api.md.
    meaning: str

    # The defaults are for type checkers, to which a look-up by value is a call of this.
    def __new__(cls, value: str, status: int = 500, meaning: str = "") -> Self:
        code = str.__new__(cls, value)
        code._value_ = value
        code.status = status
        code.meaning = meaning
        return code

    MALFORMED = "malformed", 400, "The body is not JSON in UTF-8, or the request was cut off."
    UNAUTHENTICATED = "unauthenticated", 401, "Nobody is signed in, or the token is unknown."
    CSRF_FAILED = "csrf_failed", 403, "Signed in by cookie, but the `X-CSRFToken` header is missing or wrong."
    FORBIDDEN = "forbidden", 403, "This user may not do this. What the user may not view is 404."
    NOT_FOUND = "not_found", 404, "It does not exist, or this user may not view it."
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The path has no such method; `Allow` lists those it has."
    OPEN_RUN = "open_run", 409, "A compaction of this branch is already open; `run_id` is the run to poll."
    BRANCH_GONE = "branch_gone", 409, "The branch was deleted while it was being compacted."
    BASE_CHANGED = "base_changed", 409, "The branch's summary changed while it was being compacted; try again."
    DUPLICATE = "duplicate", 409, "This `external_id` is already in use."
    REPLY_UNDER_WAY = "reply_under_way", 409, "Another request has a model answer this message; wait for its reply."
    TOO_LARGE = "too_large", 413, "The body is larger than this API accepts."
    INVALID = "invalid", 422, "A field is missing, unknown, of the wrong type or out of range; the detail names it."
    INVALID_MESSAGE = "invalid_message", 422, "The message cannot be stored, or is a summary; the detail says why."
    INVALID_PARENT = "invalid_parent", 422, "The message belongs to another session, or is a summary."
    IDEMPOTENCY_CONFLICT = "idempotency_conflict", 422, "Another message of this session has this `Idempotency-Key`."
    CONFIGURATION = "configuration", 422, "A setting is unknown, has a wrong value, or leaves no room for messages."
    CONTEXT_OVERFLOW = "context_overflow", 422, "The newest user message and the last group exceed the context window."
    PINS_TOO_LARGE = "pins_too_large", 422, "All pins of a session may take a quarter of its window's available tokens."
    NOTHING_TO_COMPACT = "nothing_to_compact", 422, "Nothing to summarize, or nothing new since the last compaction."
    MODE_OFF = "mode_off", 422, "Compaction is turned off for this session."
    THROTTLED = "throttled", 429, "Too many compactions, copies or erasures; try again after `Retry-After` seconds."
    SPEND = "spend", 429, "A limit of `SPENDING_LIMITS` is reached: nothing is compacted before `Retry-After` seconds."
    TOO_MANY_REPLIES = "too_many_replies", 429, "Too many replies to this user are under way; wait for one to end."
    INTERNAL = "internal", 500, "The server failed; its log has the error."
    MODEL = "model", 502, "The chat model gave no answer; retry."
    COMPACTION_FAILED = "compaction_failed", 502, "No model returned a usable summary; `detail` says what is stored."
    UNAVAILABLE = "unavailable", 503, "The database is busy or unreachable; try again after `Retry-After` seconds."
    REDACTION_FAILED = "redaction_failed", 503, "The site's redactor failed, so no text was returned."


class Problem(Exception):
    """An error to return. Without a ``detail`` it has the code's meaning.

    ``ids``: ``run_id`` names the run that is open, ``question_id`` what is stored and got no reply.
    """

    def __init__(
        self, code: Code, detail: str = "", *, headers: Mapping[str, str] | None = None, **ids: int | None
    ) -> None:
        self.code = code
        # It may quote a key of the request, however long.
        self.detail = (detail or code.meaning)[:1000]
        self.ids = {name: key for name, key in ids.items() if key}
        self.headers = dict(headers or {})
        super().__init__(f"{code}: {self.detail}")

    def response(self) -> HttpResponse:
        # The detail may quote the request. As JSON it is nothing that a browser would run.
        return JsonResponse(
            {"code": self.code, "detail": self.detail, **self.ids}, status=self.code.status, headers=self.headers
        )


class ProblemOut(Schema):
    """Every error has this shape."""

    code: Code = Field(description="What went wrong, for programs.", examples=[Code.NOT_FOUND])
    detail: str = Field(description="What went wrong, for people.", examples=[Code.NOT_FOUND.meaning])
    run_id: int | None = Field(None, description="With `open_run`: the run to poll. Otherwise left out.")
    question_id: int | None = Field(None, description="The message that is stored and got no reply, if there is one.")


#: Exceptions that say no more than their code. A subclass with a code of its own has that.
_CODES: dict[type[Exception], Code] = {
    Exception: Code.INTERNAL,
    AuthenticationError: Code.UNAUTHENTICATED,
    Http404: Code.NOT_FOUND,
    PermissionDenied: Code.FORBIDDEN,
    SuspiciousOperation: Code.MALFORMED,
    UnreadablePostError: Code.MALFORMED,
    OperationalError: Code.UNAVAILABLE,
    InterfaceError: Code.UNAVAILABLE,
}


def add_error_handlers(api: NinjaAPI) -> None:
    """Have an API answer every exception of its operations as this one does, with ``{code, detail}``.

    For a ``NinjaAPI`` of the host's own too: its view may let the errors of ``chat.complete`` pass. An unexpected
    exception is ``internal``; its text is neither shown nor logged.
    """
    for kind, code in _CODES.items():
        api.add_exception_handler(kind, partial(_answer_with, code))
    api.add_exception_handler(CompactionError, _answer_compaction_error)

    @api.exception_handler(Problem)
    def answer_problem(request: HttpRequest, error: Problem) -> HttpResponse:
        return error.response()

    @api.exception_handler(RequestDataTooBig)
    def answer_too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        most = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return Problem(Code.TOO_LARGE, f"The body is larger than {most:,} bytes.").response()

    @api.exception_handler(HttpError)
    def answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
        cause = error.__cause__
        if cause is None or error.status_code != Code.MALFORMED.status:
            # The host's own.
            code = reasons.get(error.status_code, "error").lower().replace(" ", "_")
            return JsonResponse({"code": code, "detail": str(error)}, status=error.status_code)
        # django-ninja makes a bad request of whatever is raised while a body is parsed.
        if isinstance(cause, CompactionError):
            return _answer_compaction_error(request, cause)
        if isinstance(cause, RecursionError):
            return Problem(Code.INVALID, "The body is nested too deeply.").response()
        return Problem(Code.MALFORMED).response()

    @api.exception_handler(ValidationError)
    def answer_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
        # A number in the path that cannot be an id is answered like an unknown id.
        if any(found["loc"][0] == "path" for found in error.errors):
            return Problem(Code.NOT_FOUND).response()
        shown = []
        for found in error.errors[:5]:
            # Without the value. The first name below the body is that of an argument in Python.
            source, *names = map(str, found["loc"])
            shown.append(f"{'.'.join([source, *names[source == 'body' :]])}: {found['msg']}")
        if left := len(error.errors) - len(shown):
            shown.append(f"and {left} more")
        return Problem(Code.INVALID, "; ".join(shown)).response()


def _answer_with(code: Code, request: HttpRequest, error: Exception) -> HttpResponse:
    if code in (Code.INTERNAL, Code.UNAVAILABLE):
        # Its type and place without its text: a database quotes values.
        log_error(logger, error, code=code, path=request.path)
    if code == Code.INTERNAL:
        # As Django does for a view that raises: error trackers and test clients listen to it.
        got_request_exception.send(sender=None, request=request)
    return Problem(code, headers={"Retry-After": "1"} if code == Code.UNAVAILABLE else None).response()


def _answer_compaction_error(request: HttpRequest, error: Any) -> HttpResponse:
    if isinstance(error, CompactionRefused):
        numbers = error.numbers or {}
        if error.reason != Code.SPEND:
            return Problem(Code(error.reason), run_id=error.run_id).response()
        wait = {"Retry-After": str(numbers["seconds"])}
        return Problem(Code.SPEND, describe_overspending(numbers), headers=wait).response()
    if isinstance(error, CompactionFailed):
        if error.error_code == CLAIMED:
            return Problem(Code.OPEN_RUN, run_id=error.run_id).response()
        return Problem(Code.COMPACTION_FAILED, f"{error} Run {error.run_id} has the details.").response()
    if error.code not in list(Code):
        return _answer_with(Code.INTERNAL, request, error)
    return Problem(Code(error.code), str(error), headers=wait_of(error)).response()


def wait_of(error: Exception) -> dict[str, str]:
    return {"Retry-After": str(error.retry_after)} if isinstance(error, TooManyReplies) else {}


# -- the OpenAPI document --------------------------------------------------------------------------------

#: Every operation may return these.
_ALWAYS = {
    *(Code.MALFORMED, Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.TOO_LARGE),
    *(Code.INVALID, Code.CONFIGURATION, Code.INTERNAL, Code.UNAVAILABLE),
}
_RETRY = {"headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}}
_SCHEMES = "The accepted HTTP schemes, such as `Bearer`. Left out if only cookies or keys are accepted."
_CHALLENGE = {"headers": {"WWW-Authenticate": {"description": _SCHEMES, "schema": {"type": "string"}}}}
_HEADERS: dict[int, dict[str, Any]] = {401: _CHALLENGE, 429: _RETRY, 503: _RETRY}


def operation(
    router: Router, method: str, path: str, success: Mapping[int, Any], codes: str = "", *, header: Sequence[str] = ()
) -> Callable[[TCallable], TCallable]:
    """Add an operation that may return ``codes`` ("open_run spend") beside those that follow from its method and path.

    ``success`` maps each status to its schema. ``header``: the name and the description of a header of its last one.
    """
    possible = _ALWAYS | {Code(code) for code in codes.split()}
    possible |= {Code.NOT_FOUND} if "{" in path else set()
    possible |= {Code.CSRF_FAILED} if method != "GET" else set()
    described: dict[int, dict[str, Any]] = {}
    for code in Code:
        if code in possible:
            entry = described.setdefault(code.status, {"description": ""} | _HEADERS.get(code.status, {}))
            entry["description"] = f"{entry['description']} `{code}`: {code.meaning}".strip()
    response = {**success, **dict.fromkeys(described, ProblemOut)}
    if header:
        described[max(success)] = {"headers": {header[0]: {"description": header[1], "schema": {"type": "string"}}}}
    extra = {"responses": described}
    return router.api_operation([method], path, response=response, openapi_extra=extra)
