"""One shape for every error, ``{"code": …, "detail": …}``: the codes, their status, and which exception is which.

An ``open_run`` has the ``run_id`` too, where it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, JsonResponse, UnreadablePostError
from ninja.errors import AuthenticationError, HttpError, ValidationError

from compaction_app.compaction.execute import CLAIMED
from compaction_app.exceptions import CompactionError, CompactionFailed, CompactionRefused, ConfigurationError

#: Characters of a detail: it may name a key that the caller made up, however long.
MAX_DETAIL = 1000
_MOST_ERRORS_SHOWN = 5


class Code(StrEnum):
    """What a client may branch on; the words beside it are for people."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    CSRF_FAILED = "csrf_failed"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    OPEN_RUN = "open_run"
    BRANCH_GONE = "branch_gone"
    BASE_CHANGED = "base_changed"
    DUPLICATE = "duplicate"
    TOO_LARGE = "too_large"
    INVALID = "invalid"
    INVALID_MESSAGE = "invalid_message"
    INVALID_PARENT = "invalid_parent"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    CONFIGURATION = "configuration"
    CONTEXT_OVERFLOW = "context_overflow"
    NOTHING_TO_COMPACT = "nothing_to_compact"
    MODE_OFF = "mode_off"
    THROTTLED = "throttled"
    INTERNAL = "internal"
    COMPACTION_FAILED = "compaction_failed"
    UNAVAILABLE = "unavailable"
    REDACTION_FAILED = "redaction_failed"

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        described: dict[str, Any] = handler(schema)
        return {**described, "examples": [cls.NOT_FOUND]}


STATUS: dict[Code, int] = {
    Code.MALFORMED: 400,
    Code.UNAUTHENTICATED: 401,
    Code.CSRF_FAILED: 403,
    Code.FORBIDDEN: 403,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.OPEN_RUN: 409,
    Code.BRANCH_GONE: 409,
    Code.BASE_CHANGED: 409,
    Code.DUPLICATE: 409,
    Code.TOO_LARGE: 413,
    Code.INVALID: 422,
    Code.INVALID_MESSAGE: 422,
    Code.INVALID_PARENT: 422,
    Code.IDEMPOTENCY_CONFLICT: 422,
    Code.CONFIGURATION: 422,
    Code.CONTEXT_OVERFLOW: 422,
    Code.NOTHING_TO_COMPACT: 422,
    Code.MODE_OFF: 422,
    Code.THROTTLED: 429,
    Code.INTERNAL: 500,
    Code.COMPACTION_FAILED: 502,
    Code.UNAVAILABLE: 503,
    Code.REDACTION_FAILED: 503,
}

#: For the OpenAPI document and docs/api.md.
MEANINGS: dict[Code, str] = {
    Code.MALFORMED: "The body is no JSON in UTF-8, the query no UTF-8, or the request broke off.",
    Code.UNAUTHENTICATED: "Nobody is signed in, or the token is not known.",
    Code.CSRF_FAILED: "Signed in by cookie, and the header `X-CSRFToken` is missing or wrong.",
    Code.FORBIDDEN: "The host does not allow this user to do it; what they may not see is 404.",
    Code.NOT_FOUND: "There is no such thing, or it is not this user's.",
    Code.METHOD_NOT_ALLOWED: "The path takes other methods; `Allow` names them.",
    Code.OPEN_RUN: "A compaction of this branch is open already; `run_id` is the one to poll.",
    Code.BRANCH_GONE: "The branch was deleted while it was being compacted.",
    Code.BASE_CHANGED: "Another summary came first, or the one built on was retired; ask again.",
    Code.DUPLICATE: "Another one has this `external_id`.",
    Code.TOO_LARGE: "The body is larger than this API takes.",
    Code.INVALID: "A field is missing, unknown, of the wrong type or out of range; the detail names it.",
    Code.INVALID_MESSAGE: "This can not be stored, or not be done to a summary; the detail names the field.",
    Code.INVALID_PARENT: "The message is of another session, or a summary.",
    Code.IDEMPOTENCY_CONFLICT: "This `Idempotency-Key` was used in this session with another message.",
    Code.CONFIGURATION: "A setting is unknown, of the wrong type or out of range, or leaves no room for messages.",
    Code.CONTEXT_OVERFLOW: "The newest user message and the last group alone are larger than the window.",
    Code.NOTHING_TO_COMPACT: "Nothing stands before the cut, or nothing was said since the last compaction.",
    Code.MODE_OFF: "Compaction is switched off in this session.",
    Code.THROTTLED: "Too many manual compactions; `Retry-After` says in how many seconds to try again.",
    Code.INTERNAL: "A fault of the server, which its log names.",
    Code.COMPACTION_FAILED: "No model gave a summary that can be used; nothing was changed.",
    Code.UNAVAILABLE: "The database is busy or away; `Retry-After` says when to try again.",
    Code.REDACTION_FAILED: "The host's redactor failed, so no text was given out.",
}

#: Seconds that a client waits before it asks a busy database again.
_BUSY_SECONDS = 1


class Problem(Exception):
    """An answer that is an error; ``detail`` is shown to the caller, and ``run_id`` where a run is in the way."""

    def __init__(
        self, code: Code, detail: str = "", *, headers: Mapping[str, str] | None = None, run_id: int | None = None
    ) -> None:
        self.code = code
        self.detail = (detail or MEANINGS[code])[:MAX_DETAIL]
        self.run_id = run_id
        self.headers = dict(headers or {})
        super().__init__(f"{code}: {self.detail}")

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def response(self) -> JsonResponse:
        # What the caller wrote may be quoted in it: as JSON it is nothing that a browser would run.
        said = {"code": self.code, "detail": self.detail} | ({"run_id": self.run_id} if self.run_id else {})
        return JsonResponse(said, status=self.status, headers=self.headers)


def problem_of(error: BaseException) -> Problem:
    """What a caller is told of an exception. ``internal`` for what nobody expected: its words stay here."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationError):
        # A number in the path that can be no id is one that nobody has.
        in_path = any(found["loc"][0] == "path" for found in error.errors)
        return Problem(Code.NOT_FOUND) if in_path else Problem(Code.INVALID, _told(error.errors))
    if isinstance(error, CompactionError):
        return _of_compaction(error)
    if isinstance(error, HttpError) and isinstance(error.__cause__, CompactionError):
        # Found while the body was parsed: django-ninja calls all of that a bad request.
        return _of_compaction(error.__cause__)
    if isinstance(error, HttpError) and isinstance(error.__cause__, RecursionError):
        return Problem(Code.INVALID, "The body is nested too deeply.")
    if isinstance(error, OperationalError | InterfaceError):
        return Problem(Code.UNAVAILABLE, headers={"Retry-After": str(_BUSY_SECONDS)})
    return Problem(next((code for kinds, code in _OF_ERRORS if isinstance(error, kinds)), Code.INTERNAL))


_OF_ERRORS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Code], ...] = (
    (AuthenticationError, Code.UNAUTHENTICATED),
    (HttpError, Code.MALFORMED),
    (Http404, Code.NOT_FOUND),
    (PermissionDenied, Code.FORBIDDEN),
    (RequestDataTooBig, Code.TOO_LARGE),
    ((SuspiciousOperation, UnreadablePostError), Code.MALFORMED),
    (RecursionError, Code.INVALID),
)


def _of_compaction(error: CompactionError) -> Problem:
    detail = str(error)
    if isinstance(error, CompactionRefused):
        return Problem(Code(error.reason), run_id=error.run_id)
    if isinstance(error, CompactionFailed):
        if error.error_code == CLAIMED:
            return Problem(Code.OPEN_RUN, run_id=error.run_id)
        return Problem(Code.COMPACTION_FAILED, f"{detail} Run {error.run_id} is the record of it.")
    if isinstance(error, ConfigurationError):
        detail = detail[:1].upper() + detail[1:]
    known = error.code in list(Code)
    return Problem(Code(error.code), detail) if known else Problem(Code.INTERNAL)


def _told(errors: Iterable[Mapping[str, Any]]) -> str:
    """Where and what, without the values: ``body.content: Input should be a valid string``."""
    found = list(errors)
    shown = [f"{_place(error['loc'])}: {error['msg']}" for error in found[:_MOST_ERRORS_SHOWN]]
    if left := len(found) - len(shown):
        shown.append(f"and {left} more")
    return "; ".join(shown)


def _place(location: Iterable[Any]) -> str:
    source, *names = [str(part) for part in location]
    # The first name below the body is that of a function's argument, which callers do not know.
    return ".".join([source, *(names[1:] if source == "body" else names)])
