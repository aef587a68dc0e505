"""Answering with a page: the headers that every page of the chat has."""

from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers

Response = TypeVar("Response", bound=HttpResponseBase)

# Nothing but this site's own files, no inline script or style: a text that slipped through the escaping could
# still do nothing.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)


def render_page(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    return guard(render(request, template, context, status=status))


def guard(response: Response) -> Response:
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    # A conversation does not stay in the cache of a shared computer, and "back" does not show an old state.
    add_never_cache_headers(response)
    return response
