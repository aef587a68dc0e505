"""The error responses of the API: ``{"code": …, "detail": …}`` for every error.

Code that refuses a request raises :class:`Problem`. :func:`to_problem` turns any other exception into one.
:func:`responses` declares, in the OpenAPI document, which codes an operation may return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Self

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, JsonResponse, UnreadablePostError
from ninja import Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import Field

from compaction_app.api import examples
from compaction_app.compaction.execute import CLAIMED
from compaction_app.exceptions import CompactionError, CompactionFailed, CompactionRefused, ConfigurationError
from compaction_app.spending import describe_overspending

#: In characters. A detail may quote a key of the request, however long.
MAX_DETAIL = 1000
_MAX_ERRORS_SHOWN = 5
#: Seconds to wait before a busy database is asked again.
_BUSY_SECONDS = 1


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

    MALFORMED = "malformed", 400, "The body is not JSON in UTF-8, the query is not UTF-8, or the request was cut off."
    UNAUTHENTICATED = "unauthenticated", 401, "Nobody is signed in, or the token is unknown."
    CSRF_FAILED = "csrf_failed", 403, "Signed in by cookie, but the `X-CSRFToken` header is missing or wrong."
    FORBIDDEN = "forbidden", 403, "This user may not do this. What the user may not view is 404."
    NOT_FOUND = "not_found", 404, "It does not exist, or this user may not view it."
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "The path has no such method; `Allow` lists those it has."
    OPEN_RUN = "open_run", 409, "A compaction of this branch is already open; `run_id` is the run to poll."
    BRANCH_GONE = "branch_gone", 409, "The branch was deleted while it was being compacted."
    BASE_CHANGED = "base_changed", 409, "The branch's summary changed while it was being compacted; try again."
    DUPLICATE = "duplicate", 409, "This `external_id` is already in use."
    TOO_LARGE = "too_large", 413, "The body is larger than this API accepts."
    INVALID = "invalid", 422, "A field is missing, unknown, of the wrong type or out of range; the detail names it."
    INVALID_MESSAGE = "invalid_message", 422, "The message cannot be stored, or is a summary; the detail says why."
    INVALID_PARENT = "invalid_parent", 422, "The message belongs to another session, or is a summary."
    IDEMPOTENCY_CONFLICT = (
        "idempotency_conflict",
        422,
        "This `Idempotency-Key` was already used in this session with a different message.",
    )
    CONFIGURATION = (
        "configuration",
        422,
        "A setting is unknown, of the wrong type or out of range, or leaves no room for messages.",
    )
    CONTEXT_OVERFLOW = (
        "context_overflow",
        422,
        "The newest user message and the last group of messages alone exceed the context window.",
    )
    NOTHING_TO_COMPACT = "nothing_to_compact", 422, "Nothing to summarize, or nothing new since the last compaction."
    MODE_OFF = "mode_off", 422, "Compaction is turned off for this session."
    THROTTLED = (
        "throttled",
        429,
        "Too many requests that compact, or that make a compaction necessary; try again after `Retry-After` seconds.",
    )
    SPEND = "spend", 429, "A limit of `SPENDING_LIMITS` is reached: nothing is compacted before `Retry-After` seconds."
    INTERNAL = "internal", 500, "The server failed; its log has the error."
    COMPACTION_FAILED = "compaction_failed", 502, "No model returned a usable summary; nothing was changed."
    UNAVAILABLE = "unavailable", 503, "The database is busy or unreachable; try again after `Retry-After` seconds."
    REDACTION_FAILED = "redaction_failed", 503, "The site's redactor failed, so no text was returned."

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "examples": [cls.NOT_FOUND]}


class Problem(Exception):
    """An error to return. Without a ``detail`` it has the code's meaning; ``run_id`` names the run that is open."""

    def __init__(
        self, code: Code, detail: str = "", *, headers: Mapping[str, str] | None = None, run_id: int | None = None
    ) -> None:
        self.code = code
        self.detail = (detail or code.meaning)[:MAX_DETAIL]
        self.run_id = run_id
        self.headers = dict(headers or {})
        super().__init__(f"{code}: {self.detail}")

    def response(self) -> JsonResponse:
        # The detail may quote the request. As JSON it is nothing that a browser would run.
        content = {"code": self.code, "detail": self.detail} | ({"run_id": self.run_id} if self.run_id else {})
        return JsonResponse(content, status=self.code.status, headers=self.headers)


class ProblemOut(Schema):
    """Every error has this shape."""

    model_config = examples.shown(examples.NOT_FOUND, examples.OPEN_RUN)

    code: Code = Field(description="What went wrong, for programs.")
    detail: str = Field(description="What went wrong, for people.")
    run_id: int | None = Field(
        default=None, description="With `open_run`: the run that is open, for `GET runs/{id}`. Otherwise left out."
    )


# -- exceptions ------------------------------------------------------------------------------------------

_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Code], ...] = (
    (AuthenticationError, Code.UNAUTHENTICATED),
    (HttpError, Code.MALFORMED),
    (Http404, Code.NOT_FOUND),
    (PermissionDenied, Code.FORBIDDEN),
    (RequestDataTooBig, Code.TOO_LARGE),
    ((SuspiciousOperation, UnreadablePostError), Code.MALFORMED),
)


def to_problem(error: BaseException) -> Problem:
    """Return the error to answer an exception with. An unexpected one is ``internal``, and its text is not shown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationError):
        # A number in the path that cannot be an id is answered like an unknown id.
        in_path = any(found["loc"][0] == "path" for found in error.errors)
        return Problem(Code.NOT_FOUND) if in_path else Problem(Code.INVALID, _describe(error.errors))
    if isinstance(error, HttpError) and isinstance(error.__cause__, CompactionError | RecursionError):
        # Raised while the body was parsed: django-ninja turns every such exception into a bad request.
        error = error.__cause__
    if isinstance(error, CompactionError):
        return _from_compaction_error(error)
    if isinstance(error, RecursionError):
        return Problem(Code.INVALID, "The body is nested too deeply.")
    if isinstance(error, OperationalError | InterfaceError):
        return Problem(Code.UNAVAILABLE, headers={"Retry-After": str(_BUSY_SECONDS)})
    return Problem(next((code for kinds, code in _CODES if isinstance(error, kinds)), Code.INTERNAL))


def _from_compaction_error(error: CompactionError) -> Problem:
    detail = str(error)
    if isinstance(error, CompactionRefused):
        return refusal(error.reason, error.numbers or {}, error.run_id)
    if isinstance(error, CompactionFailed):
        if error.error_code == CLAIMED:
            return Problem(Code.OPEN_RUN, run_id=error.run_id)
        return Problem(Code.COMPACTION_FAILED, f"{detail} Run {error.run_id} has the details.")
    if isinstance(error, ConfigurationError):
        detail = detail[:1].upper() + detail[1:]
    known = error.code in list(Code)
    return Problem(Code(error.code), detail) if known else Problem(Code.INTERNAL)


def refusal(reason: str, numbers: Mapping[str, Any], run_id: int | None) -> Problem:
    """The error for a compaction that was not started, from the trigger's reason and numbers."""
    if reason == Code.SPEND:
        return Problem(Code.SPEND, describe_overspending(numbers), headers={"Retry-After": str(numbers["seconds"])})
    return Problem(Code(reason), run_id=run_id)


def _describe(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return places and reasons without the values: ``body.content: Input should be a valid string``."""
    found = list(errors)
    shown = [f"{_place(error['loc'])}: {error['msg']}" for error in found[:_MAX_ERRORS_SHOWN]]
    if left := len(found) - len(shown):
        shown.append(f"and {left} more")
    return "; ".join(shown)


def _place(location: Iterable[Any]) -> str:
    source, *names = [str(part) for part in location]
    # The first name below the body is that of a function's argument, which clients do not know.
    return ".".join([source, *(names[1:] if source == "body" else names)])


# -- the OpenAPI document --------------------------------------------------------------------------------

#: Every operation may return these.
_ALWAYS = {
    Code.MALFORMED,
    Code.UNAUTHENTICATED,
    Code.FORBIDDEN,
    Code.TOO_LARGE,
    Code.INVALID,
    Code.CONFIGURATION,
    Code.INTERNAL,
    Code.UNAVAILABLE,
}
_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "The accepted HTTP schemes, such as `Bearer`. Left out if only cookies or keys are accepted.",
        "schema": {"type": "string"},
    }
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def responses(
    success: Mapping[int, Any],
    *codes: Code,
    changes: bool = False,
    headers: Mapping[int, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Return ``response`` and ``openapi_extra`` for an operation that may return ``codes`` beside the common ones.

    ``changes``: the operation writes, so requests authenticated by cookie need the CSRF token. ``headers`` maps a
    status of ``success`` to the headers it has, each with its description.
    """
    possible = {*_ALWAYS, *codes, *([Code.CSRF_FAILED] if changes else [])}
    by_status: dict[int, list[Code]] = {}
    for code in Code:
        if code in possible:
            by_status.setdefault(code.status, []).append(code)
    described: dict[int, dict[str, Any]] = {
        status: {"description": " ".join(f"`{code}`: {code.meaning}" for code in those)}
        for status, those in by_status.items()
    }
    described[Code.UNAUTHENTICATED.status]["headers"] = _CHALLENGE
    for status in {Code.THROTTLED.status, Code.UNAVAILABLE.status} & set(described):
        described[status]["headers"] = _RETRY_AFTER
    for status, named in (headers or {}).items():
        described[status] = {
            "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in named.items()}
        }
    return {
        "response": {**success, **dict.fromkeys(by_status, ProblemOut)},
        "openapi_extra": {"responses": described},
    }
