"""The URL patterns of the API, for a host to include at any path and with any authentication.

:func:`guarded` wraps every view. It refuses a body that is too large before the body is read, turns every exception and
every response of Django's or django-ninja's own (405, an unknown path) into an error of the API's shape, and keeps
responses out of caches.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from django.apps import apps
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.core.signals import got_request_exception
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET
from ninja import NinjaAPI, Swagger
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from ninja.responses import Response

import compaction_app
from compaction_app.api import compactions, contexts, messages, sessions
from compaction_app.api.authentication import SessionUser, challenge_for
from compaction_app.api.errors import Code, Problem, to_problem
from compaction_app.api.schemas import SHORT_TEXT
from compaction_app.conf import site_setting
from compaction_app.messages.validation import check_json, check_text
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")

View = Callable[..., HttpResponse]
#: Takes the request and returns the user, or None. The classes of ``ninja.security`` are such callables.
Authentication = Callable[[HttpRequest], Any]

DESCRIPTION = (
    "Conversations as trees of messages, the context that a model is sent at each of them, and their compactions. "
    "Every error is `{code, detail}`. See docs/api.md for more."
)
_OPENAPI = "openapi.json"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def api_urls(
    *,
    auth: Authentication | Sequence[Authentication] | None = None,
    docs_decorator: Callable[[View], View] | None = None,
) -> list[URLPattern]:
    """Return the patterns to include: ``path("api/v1/", include((api_urls(auth=…), "compaction_api")))``.

    ``auth``: one authentication or several, tried in order; by default Django's session. ``docs_decorator`` wraps the
    OpenAPI document and the docs page. Without it they are public: they contain no data.
    """
    api = build_api(auth)
    challenge = challenge_for(api.auth if isinstance(api.auth, Sequence) else ())
    # django-ninja adds a page of its own, from which its docs page finds out where the API is mounted.
    operations: list[Any] = [pattern for pattern in api.urls[0] if getattr(pattern, "name", "") != "api-root"]
    paths = api.get_openapi_schema(path_prefix="/")["paths"]
    decorate = docs_decorator or (lambda view: view)
    return [
        path(_OPENAPI, guarded(require_GET(decorate(partial(_openapi, api=api)))), name="openapi"),
        path("docs", guarded(require_GET(decorate(partial(_docs, api=api)))), name="docs"),
        *(
            URLPattern(
                operation.pattern,
                guarded(operation.callback, _query_parameters(paths, operation), challenge),
                operation.default_args,
                operation.name,
            )
            for operation in operations
        ),
        re_path(r"", guarded(_unknown_path), name="unknown"),
    ]


def build_api(auth: Authentication | Sequence[Authentication] | None = None) -> NinjaAPI:
    """Return the operations with their error handling. :func:`api_urls` adds the OpenAPI document and the docs page."""
    api = NinjaAPI(
        title="Chat compaction",
        version=compaction_app.__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        docs=_Docs(),
        auth=auth if auth is not None else SessionUser(),
        parser=JsonBody(),
        urls_namespace="compaction_api",
    )
    for operations in (sessions, messages, contexts, compactions):
        api.add_router("", operations.router)
    # Each by name: django-ninja's handlers for its own errors would take precedence over one for Exception.
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _error_response)
    return api


def guarded(view: View, parameters: Mapping[str, Collection[str]] | None = None, challenge: str = "") -> View:
    """Wrap a view of the API. ``parameters`` maps each method to its query parameters; django-ninja would ignore any
    other. ``challenge`` is the ``WWW-Authenticate`` header of a 401.
    """
    known = parameters or {}

    @wraps(view, assigned=())
    def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            _read_body(request)
            _check_query(request, known.get(request.method or "", request.GET))
            response = view(request, *args, **kwargs)
        except Exception as error:
            response = _error_response(request, error)
        if isinstance(response, HttpResponseNotAllowed):
            allowed = ", ".join(sorted(response["Allow"].split(", ")))
            response = Problem(Code.METHOD_NOT_ALLOWED, headers={"Allow": allowed}).response()
        if challenge and response.status_code == Code.UNAUTHENTICATED.status:
            response.setdefault("WWW-Authenticate", challenge)
        for name, value in _HEADERS.items():
            response.setdefault(name, value)
        return response

    # With ATOMIC_REQUESTS a transaction would be open while a model is called, and would hide what is already stored.
    for alias in settings.DATABASES:
        guard = transaction.non_atomic_requests(using=alias)(guard)
    # Only authentication by cookie needs the CSRF token, and SessionUser checks it.
    return csrf_exempt(guard)


def _error_response(request: HttpRequest, error: Any) -> HttpResponse:
    problem = to_problem(error)
    if problem.code in (Code.INTERNAL, Code.UNAVAILABLE):
        # Its type and place without its text: a database quotes values.
        log_error(logger, error, code=problem.code, path=request.path)
    if problem.code == Code.INTERNAL:
        # As Django does for a view that raises: error trackers and test clients listen to it.
        got_request_exception.send(sender=None, request=request)
    return problem.response()


# -- queries ---------------------------------------------------------------------------------------------


def _query_parameters(paths: Mapping[str, Any], operation: URLPattern) -> dict[str, list[str]]:
    """Map each method of an operation's path to its query parameters, from ``paths`` of the OpenAPI document."""
    documented = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(operation.pattern))
    return {
        method.upper(): [found["name"] for found in described["parameters"] if found["in"] == "query"]
        for method, described in paths[documented].items()
    }


def _check_query(request: HttpRequest, known: Collection[str]) -> None:
    """Raise for what Django would accept: text that is not UTF-8, unknown parameters, and repeated ones."""
    query = str(request.META.get("QUERY_STRING") or "")
    try:
        # WSGI gives bytes as Latin-1 characters; ASGI has decoded them as UTF-8.
        unquote_to_bytes(query.encode("latin-1") if isinstance(request, WSGIRequest) else query).decode()
    except UnicodeError as error:
        raise Problem(Code.MALFORMED, "The query is not in UTF-8.") from error
    for name in sorted(request.GET):
        if name not in known:
            raise Problem(Code.INVALID, f"query.{name}: There is no such parameter here.")
        if len(request.GET.getlist(name)) > 1:
            raise Problem(Code.INVALID, f"query.{name}: It is given more than once.")


# -- bodies ----------------------------------------------------------------------------------------------

#: A character written as ``\uXXXX`` takes at most three times as many bytes as in UTF-8.
_ESCAPED = 3
#: Room for everything in a body but the message's content.
_OTHER_BYTES = 64 * 1024
_MAX_LENGTH_DIGITS = 19
#: More digits than any number that is accepted. Python refuses to parse numbers of thousands of digits.
_MAX_PARSED_DIGITS = 400
_TOO_LARGE = 10**_MAX_PARSED_DIGITS


def max_body_bytes() -> int:
    """Return the room for one message of ``MAX_MESSAGE_BYTES``, fully escaped, within the site's own limit."""
    needed = _ESCAPED * int(site_setting("MAX_MESSAGE_BYTES")) + _OTHER_BYTES
    site: Any = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return needed if site is None else min(needed, int(site))


def _read_body(request: HttpRequest) -> None:
    """Read the body, or raise ``too_large``, if possible from its Content-Length alone."""
    limit = max_body_bytes()
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not (length.isascii() and length.isdecimal()):
        raise Problem(Code.MALFORMED, "Content-Length is not a number.")
    # The digits are counted first: Python refuses to parse thousands of them.
    if len(length) > _MAX_LENGTH_DIGITS or int(length) > limit or len(request.body) > limit:
        raise Problem(Code.TOO_LARGE, f"The body is larger than {limit:,} bytes.")


class JsonBody(Parser):
    """Refuses NUL, lone surrogates, NaN and deep nesting anywhere in a body: they fail later, or on PostgreSQL only."""

    def parse_body(self, request: HttpRequest) -> Any:
        body = json.loads(request.body.decode(), parse_int=_parse_int)
        if not isinstance(body, dict):
            check_json(body, "body")
            return body
        # Each field on its own, as the Python API does, so that the error names the field and the place in it.
        for name, value in body.items():
            check_text(name, "a field's name")
            check_json(value, name[:SHORT_TEXT])
        return body


def _parse_int(digits: str) -> int:
    """Parse a number of any length. A very long one becomes one that is refused where the error can name its place."""
    return int(digits) if len(digits) <= _MAX_PARSED_DIGITS else _TOO_LARGE


# -- the document, its page and unknown paths ------------------------------------------------------------


class _Docs(Swagger):
    """django-ninja's page. It finds the document beside it, wherever the API is mounted."""

    def get_openapi_url(self, api: NinjaAPI, path_params: dict[str, Any]) -> str:
        return _OPENAPI


def _openapi(request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
    # The prefix comes from the request: reversing would fail inside a host's own namespace.
    return Response(api.get_openapi_schema(path_prefix=request.path.removesuffix(_OPENAPI)))


def _docs(request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
    if not apps.is_installed("ninja"):
        # django-ninja would load the page's scripts from another server.
        raise Problem(Code.NOT_FOUND, 'The docs page needs "ninja" in INSTALLED_APPS; openapi.json does not.')
    return api.docs.render_page(request, api, **kwargs)


def _unknown_path(request: HttpRequest, **kwargs: Any) -> NoReturn:
    raise Problem(Code.NOT_FOUND, "There is no such path in this API.")
