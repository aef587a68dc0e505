"""The error responses of the API: ``{"code": …, "detail": …}`` for every error. Who refuses raises :class:`Problem`."""

import logging
from collections.abc import Callable, Mapping
from http.client import responses as reasons
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Router, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.types import TCallable
from pydantic import Field

from compaction_app.api.codes import Code, Problem, problem_of, report
from compaction_app.exceptions import CompactionError

logger = logging.getLogger("compaction_app.api")


class ProblemOut(Schema):
    """Every error has this shape."""

    code: Code = Field(description="What went wrong, for programs.", examples=[Code.NOT_FOUND])
    detail: str = Field(description="What went wrong, for people.", examples=[Code.NOT_FOUND.meaning])
    run_id: int | None = Field(None, description="With `open_run`: the run to poll. Otherwise left out.")
    question_id: int | None = Field(None, description="The message that is stored and got no reply, if there is one.")


def add_error_handlers(api: NinjaAPI) -> None:
    """Have an API answer every exception of its operations as this one does, with ``{code, detail}``.

    For a ``NinjaAPI`` of the host's own too: its view may let the errors of ``chat.complete`` pass. An unexpected
    exception is ``internal``; its text is neither shown nor logged.
    """
    # django-ninja has a handler of its own for the other two.
    for kind in (Exception, Http404):
        api.add_exception_handler(kind, _answer)
    api.add_exception_handler(AuthenticationError, lambda *_: Problem(Code.UNAUTHENTICATED).response())

    @api.exception_handler(HttpError)
    def answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
        cause = error.__cause__
        if cause is None or error.status_code != Code.MALFORMED.status:
            # The host's own.
            code = reasons.get(error.status_code, "error").lower().replace(" ", "_")
            return JsonResponse({"code": code, "detail": str(error)}, status=error.status_code)
        # django-ninja makes a bad request of whatever is raised while a body is parsed.
        if isinstance(cause, CompactionError):
            return _answer(request, cause)
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


def _answer(request: HttpRequest, error: Any) -> HttpResponse:
    problem = problem_of(error)
    report(error, problem, logger, request, code=problem.code, path=request.path)
    return problem.response()


# -- the OpenAPI document --------------------------------------------------------------------------------

#: Every operation may return these.
_ALWAYS = {
    *(Code.MALFORMED, Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.TOO_LARGE),
    *(Code.INVALID, Code.CONFIGURATION, Code.INTERNAL, Code.UNAVAILABLE),
}


def operation(
    router: Router, method: str, path: str, success: Mapping[int, Any], codes: str = ""
) -> Callable[[TCallable], TCallable]:
    """Add an operation that may return ``codes`` ("open_run spend") beside those that follow from its method and path.

    ``success`` maps each status to its schema.
    """
    possible = _ALWAYS | {Code(code) for code in codes.split()}
    possible |= {Code.NOT_FOUND} if "{" in path else set()
    possible |= {Code.CSRF_FAILED} if method != "GET" else set()
    described: dict[int, dict[str, Any]] = {}
    for code in Code:
        if code in possible:
            entry = described.setdefault(code.status, {"description": ""})
            entry["description"] = f"{entry['description']} `{code}`: {code.meaning}".strip()
    response = {**success, **dict.fromkeys(described, ProblemOut)}
    return router.api_operation([method], path, response=response, openapi_extra={"responses": described})
