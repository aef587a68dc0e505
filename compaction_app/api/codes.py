"""What an HTTP client is answered to an error: the same at every door, the JSON API, the stream and the gateway.

:class:`Code` is the table. An exception of ours has the code of its class; ``_CODES`` has that of others, and of those
whose class says more than a client needs. :func:`problem_of` is the answer, with its words and whether to try again,
and each door writes it in its own form. django-ninja is not imported: the gateway works without.
"""

import logging
from enum import StrEnum
from math import ceil
from typing import Any, Self

import openai
from django.conf import settings as django_settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.db.models import ProtectedError, RestrictedError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError

from compaction_app.compaction.execute import CLAIMED
from compaction_app.exceptions import CompactionError, CompactionFailed, CompactionRefused, InvalidReply, ReplyNotStored
from compaction_app.spending import describe_overspending
from compaction_app.summarizers.openai import failure_of_error
from compaction_app.telemetry import log_error
from compaction_app.values import ErrorCode


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
    PROTECTED = "protected", 409, "A row of another app refers to it, and forbids that it is deleted."
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
    MODEL = "model", 502, "The chat model gave no answer; retry, after `Retry-After` seconds if it is there."
    COMPACTION_FAILED = "compaction_failed", 502, "No model returned a usable summary; `detail` says what is stored."
    UNAVAILABLE = "unavailable", 503, "The database is busy or unreachable; try again after `Retry-After` seconds."
    REDACTION_FAILED = "redaction_failed", 503, "The site's redactor failed, so no text was returned."


class Problem(Exception):
    """An error to return. Without a ``detail`` it has the code's meaning.

    ``ids``: ``run_id`` names the run that is open, ``question_id`` what is stored and got no reply.
    """

    def __init__(
        self, code: Code, detail: str = "", *, retry_after: int = 0, allow: str = "", **ids: int | None
    ) -> None:
        self.code = code
        # It may quote a key of the request, however long.
        self.detail = (detail or code.meaning)[:1000]
        self.ids = {name: key for name, key in ids.items() if key}
        headers = {"Retry-After": retry_after, "Allow": allow}
        self.headers = {name: str(value) for name, value in headers.items() if value}
        super().__init__(f"{code}: {self.detail}")

    def response(self) -> HttpResponse:
        # The detail may quote the request. As JSON it is nothing that a browser would run.
        return JsonResponse(
            {"code": self.code, "detail": self.detail, **self.ids}, status=self.code.status, headers=self.headers
        )


#: An exception has the code of the first of these that it is, unless its class names one.
_CODES: dict[type[Exception], Code] = {
    RequestDataTooBig: Code.TOO_LARGE,
    SuspiciousOperation: Code.MALFORMED,
    UnreadablePostError: Code.MALFORMED,
    PermissionDenied: Code.FORBIDDEN,
    Http404: Code.NOT_FOUND,
    ReplyNotStored: Code.UNAVAILABLE,
    InvalidReply: Code.MODEL,
    openai.OpenAIError: Code.MODEL,
    ProtectedError: Code.PROTECTED,
    RestrictedError: Code.PROTECTED,
    OperationalError: Code.UNAVAILABLE,
    InterfaceError: Code.UNAVAILABLE,
}
#: Of a chat model that gave no answer, where more can be said than the code's meaning.
SENTENCES = {
    ErrorCode.TIMEOUT: "The model did not answer in time.",
    ErrorCode.QUOTA: "The quota of the model is used up.",
    ErrorCode.AUTHENTICATION: "The model of this site is not set up rightly. Tell the site's administrator.",
    ErrorCode.INPUT_TOO_LARGE: "The conversation is too long for the model.",
}
#: For whoever wrote it, in place of the numbers.
TOO_LONG = "This message is too long for the model. Shorten it, or attach less."


def problem_of(error: Any) -> Problem:
    """The answer to any exception. The words of an unexpected one are not shown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, CompactionRefused):
        numbers = error.numbers or {}
        if error.reason != Code.SPEND:
            return Problem(Code(error.reason), run_id=error.run_id)
        return Problem(Code.SPEND, describe_overspending(numbers), retry_after=numbers["seconds"])
    if isinstance(error, CompactionFailed):
        if error.error_code == CLAIMED:
            return Problem(Code.OPEN_RUN, run_id=error.run_id)
        return Problem(Code.COMPACTION_FAILED, f"{error} Run {error.run_id} has the details.")
    is_ours = isinstance(error, CompactionError)
    if is_ours and error.code in list(Code):
        code = Code(error.code)
    else:
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), Code.INTERNAL)
    if code == Code.INTERNAL:
        return Problem(code)
    detail = str(error) if is_ours else ""
    wait = 1 if code == Code.UNAVAILABLE else getattr(error, "retry_after", 0)
    if code == Code.TOO_LARGE:
        detail = f"The body is larger than {django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes."
    elif isinstance(error, openai.OpenAIError):
        failure = failure_of_error(error, model="", prompt="")
        detail, wait = SENTENCES.get(ErrorCode(failure.error_code), ""), ceil(failure.retry_after or 0)
    return Problem(code, detail, retry_after=wait)


def report(
    error: Exception, answer: Problem, logger: logging.Logger, request: HttpRequest | None, **about: Any
) -> None:
    """Log what is the site's or the provider's to mend: its type and place. Its text may quote values of a row."""
    if answer.code == Code.INTERNAL or (answer.code.status > 500 and not isinstance(error, CompactionError)):
        log_error(logger, error, **about)
    if answer.code == Code.INTERNAL:
        # As Django does for a view that raises: error trackers and test clients listen to it.
        got_request_exception.send(sender=None, request=request)
