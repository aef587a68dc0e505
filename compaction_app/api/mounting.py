"""The URL patterns of the API, for a host to include at any path and with any authentication."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from typing import Any, NoReturn

from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET
from ninja import NinjaAPI, Router, Swagger
from ninja.parser import Parser
from ninja.responses import Response

import compaction_app
from compaction_app.api import compactions, contexts, messages, search, sessions
from compaction_app.api.authentication import SessionUser
from compaction_app.api.codes import Code, Problem
from compaction_app.api.errors import add_error_handlers
from compaction_app.messages.validation import check_json, check_text

View = Callable[..., HttpResponse]
#: Takes the request and returns the user, or None. The classes of ``ninja.security`` are such callables.
Authentication = Callable[[HttpRequest], Any]

_OPENAPI = "openapi.json"


def api_urls(
    *,
    auth: Authentication | Sequence[Authentication] | None = None,
    docs_decorator: Callable[[View], View] | None = None,
    extra: Sequence[Router] = (),
) -> list[URLPattern]:
    """Return the patterns to include: ``path("api/v1/", include((api_urls(auth=…), "compaction_api")))``.

    ``auth``: one authentication or several, tried in order; by default Django's session. ``docs_decorator`` wraps the
    OpenAPI document and the docs page. Without it they are public: they contain no data. ``extra``: more operations,
    such as those of ``contrib.stream``.
    """
    api = NinjaAPI(
        title="Chat compaction",
        version=compaction_app.__version__,
        description="Conversations as trees of messages, the context that a model is sent at each of them, and their "
        "compactions. Every error is `{code, detail}`. See docs/api.md for more.",
        openapi_url=None,
        docs_url=None,
        docs=_Docs(),
        auth=auth if auth is not None else SessionUser(),
        parser=JsonBody(),
        urls_namespace="compaction_api",
    )
    for router in (*(one.router for one in (sessions, search, messages, contexts, compactions)), *extra):
        api.add_router("", router)
    add_error_handlers(api)
    paths = api.get_openapi_schema(path_prefix="/")["paths"]
    decorate = docs_decorator or (lambda view: view)
    return [
        path(_OPENAPI, _guarded(api, require_GET(decorate(partial(_openapi, api=api)))), name="openapi"),
        path("docs", _guarded(api, require_GET(decorate(partial(_docs, api=api)))), name="docs"),
        *(
            URLPattern(
                found.pattern,
                _guarded(api, found.callback, _query_parameters(paths, found)),
                found.default_args,
                found.name,
            )
            for found in api.urls[0]
            # django-ninja's own page, from which its docs page finds out where the API is mounted.
            if isinstance(found, URLPattern) and found.name != "api-root"
        ),
        re_path(r"", _guarded(api, _unknown_path), name="unknown"),
    ]


def _guarded(api: NinjaAPI, view: View, parameters: Mapping[str, Collection[str]] | None = None) -> View:
    """``parameters``: of each method those in the query; django-ninja ignores any other."""

    @wraps(view, assigned=())
    def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            # Django refuses here what is over DATA_UPLOAD_MAX_MEMORY_SIZE; later django-ninja would call it malformed.
            len(request.body)
            known = (parameters or {}).get(request.method or "", request.GET)
            if unknown := next((name for name in request.GET if name not in known), None):
                response = Problem(Code.INVALID, f"query.{unknown}: There is no such parameter here.").response()
            else:
                response = view(request, *args, **kwargs)
        except Exception as error:
            response = api.on_exception(request, error)
        if isinstance(response, HttpResponseNotAllowed):
            allowed = ", ".join(sorted(response["Allow"].split(", ")))
            response = Problem(Code.METHOD_NOT_ALLOWED, allow=allowed).response()
        response.setdefault("Cache-Control", "no-store")
        response.setdefault("X-Content-Type-Options", "nosniff")
        return response

    # With ATOMIC_REQUESTS a transaction would be open while a model is called, and would hide what is already stored.
    for alias in settings.DATABASES:
        guard = transaction.non_atomic_requests(using=alias)(guard)
    # Only authentication by cookie needs the CSRF token, and SessionUser checks it.
    return csrf_exempt(guard)


def _query_parameters(paths: Mapping[str, Any], operation: URLPattern) -> dict[str, list[str]]:
    """Map each method of an operation's path to its query parameters, from ``paths`` of the OpenAPI document."""
    documented = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(operation.pattern))
    return {
        method.upper(): [found["name"] for found in described["parameters"] if found["in"] == "query"]
        for method, described in paths[documented].items()
    }


class JsonBody(Parser):
    """Refuses NUL, lone surrogates, NaN and deep nesting anywhere in a body: they fail later, or on PostgreSQL only."""

    def parse_body(self, request: HttpRequest) -> Any:
        body = json.loads(request.body.decode())
        # Each field on its own, as the Python API does, so that the error names the field and the place in it.
        for name, value in body.items() if isinstance(body, dict) else ():
            check_text(name, "a field's name")
            check_json(value, name[:255])
        return body


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
