"""The URL patterns of the API, for whichever place and authentication a host wants.

Around every view stands :func:`guarded`: it refuses large bodies before anything reads them, turns what Django and
django-ninja answer by themselves (405, an unknown path) into the one shape of an error, and keeps answers out of
caches.
"""

from __future__ import annotations

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
from ninja.responses import Response

import compaction_app
from compaction_app.api import compactions, contexts, messages, sessions
from compaction_app.api.authentication import SessionUser, challenge_of
from compaction_app.api.bodies import JsonBody, check_size
from compaction_app.api.problems import STATUS, Code, Problem, problem_of
from compaction_app.telemetry import log_error

logger = logging.getLogger("compaction_app.api")

View = Callable[..., HttpResponse]
#: Called with the request; gives the user, or None for nobody. Those of ``ninja.security`` are.
Authentication = Callable[[HttpRequest], Any]

DESCRIPTION = (
    "Conversations as trees of messages, what a model would be sent at each of them, and their compactions. "
    "Every error is `{code, detail}`; docs/api.md tells more."
)
_OPENAPI = "openapi.json"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def api_urls(
    *,
    auth: Authentication | Sequence[Authentication] | None = None,
    docs_decorator: Callable[[View], View] | None = None,
) -> list[URLPattern]:
    """What a host includes: ``path("api/v1/", include((api_urls(auth=…), "compaction_api")))``.

    ``auth``: one or several, asked in order; none given: Django's session. ``docs_decorator`` wraps the OpenAPI
    document and the docs page, which are open to everybody without it: they hold nothing of anybody's.
    """
    api = build_api(auth)
    challenge = challenge_of(api.auth if isinstance(api.auth, Sequence) else ())
    # The last is a page of django-ninja's own, for finding out where it is mounted.
    operations: list[Any] = [pattern for pattern in api.urls[0] if getattr(pattern, "name", "") != "api-root"]
    paths = api.get_openapi_schema(path_prefix="/")["paths"]
    decorate = docs_decorator or (lambda view: view)
    return [
        path(_OPENAPI, guarded(require_GET(decorate(partial(_openapi, api=api)))), name="openapi"),
        path("docs", guarded(require_GET(decorate(partial(_docs, api=api)))), name="docs"),
        *(
            URLPattern(
                found.pattern,
                guarded(found.callback, _parameters(paths, found), challenge),
                found.default_args,
                found.name,
            )
            for found in operations
        ),
        re_path(r"", guarded(_unknown), name="unknown"),
    ]


def build_api(auth: Authentication | Sequence[Authentication] | None = None) -> NinjaAPI:
    """The operations with their errors; the document and the page about it are :func:`api_urls`' own."""
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
    # Those of django-ninja for its own errors would come before the one for all.
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _answer)
    return api


def guarded(view: View, parameters: Mapping[str, Collection[str]] | None = None, challenge: str = "") -> View:
    """A view of the API that never answers in another shape than the API's.

    ``parameters``: by method those that a query may have; django-ninja would read past any other. ``challenge``: what a
    401 asks for.
    """
    known = parameters or {}

    @wraps(view, assigned=())
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            check_size(request)
            _check_query(request, known.get(request.method or "", request.GET))
            response = view(request, *args, **kwargs)
        except Exception as error:
            response = _answer(request, error)
        if isinstance(response, HttpResponseNotAllowed):
            allowed = ", ".join(sorted(response["Allow"].split(", ")))
            response = Problem(Code.METHOD_NOT_ALLOWED, headers={"Allow": allowed}).response()
        if challenge and response.status_code == STATUS[Code.UNAUTHENTICATED]:
            response.setdefault("WWW-Authenticate", challenge)
        for name, value in _HEADERS.items():
            response.setdefault(name, value)
        return response

    # Under ATOMIC_REQUESTS a transaction would be open while a model is called, and would hide what was stored.
    for alias in settings.DATABASES:
        answer = transaction.non_atomic_requests(using=alias)(answer)
    # Authentication by cookie checks the token itself, and only that one has to.
    return csrf_exempt(answer)


def _parameters(paths: Mapping[str, Any], operation: URLPattern) -> dict[str, list[str]]:
    """Method → the query parameters of the operations at a path, of all ``paths`` of the OpenAPI document."""
    place = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(operation.pattern))
    return {
        method.upper(): [found["name"] for found in described["parameters"] if found["in"] == "query"]
        for method, described in paths[place].items()
    }


def _check_query(request: HttpRequest, known: Collection[str]) -> None:
    """Raise for what Django would read past: what is no UTF-8, no parameter here, or given more than once."""
    query = str(request.META.get("QUERY_STRING") or "")
    try:
        # WSGI gives bytes as the characters of Latin-1; ASGI has read them as UTF-8 already.
        unquote_to_bytes(query.encode("latin-1") if isinstance(request, WSGIRequest) else query).decode()
    except UnicodeError as error:
        raise Problem(Code.MALFORMED, "The query is not in UTF-8.") from error
    for name in sorted(request.GET):
        if name not in known:
            raise Problem(Code.INVALID, f"query.{name}: There is no such parameter here.")
        if len(request.GET.getlist(name)) > 1:
            raise Problem(Code.INVALID, f"query.{name}: It is given more than once.")


class _Docs(Swagger):
    """django-ninja's page; the document stands beside it, wherever a host has mounted both."""

    def get_openapi_url(self, api: NinjaAPI, path_params: dict[str, Any]) -> str:
        return _OPENAPI


def _openapi(request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
    # Where it is mounted is read from where it was asked for: a host may have a namespace around the API's own.
    return Response(api.get_openapi_schema(path_prefix=request.path.removesuffix(_OPENAPI)))


def _docs(request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
    if not apps.is_installed("ninja"):
        # django-ninja would send the browser to somebody else's server for the page's scripts.
        raise Problem(Code.NOT_FOUND, 'The docs page needs "ninja" in INSTALLED_APPS; openapi.json does not.')
    return api.docs.render_page(request, api, **kwargs)


def _unknown(request: HttpRequest, **kwargs: Any) -> NoReturn:
    raise Problem(Code.NOT_FOUND, "There is no such path in this API.")


def _answer(request: HttpRequest, error: Any) -> HttpResponse:
    problem = problem_of(error)
    if problem.code in (Code.INTERNAL, Code.UNAVAILABLE):
        # Its type and place, and not its words: a database quotes what it was given.
        log_error(logger, error, code=problem.code, path=request.path)
    if problem.code == Code.INTERNAL:
        # As Django says it of a view that raises: error reports and test clients listen.
        got_request_exception.send(sender=None, request=request)
    return problem.response()
