"""Answers a post to the chat page that is larger than Django reads with a page that says so.

Without it the answer is a bare 400: the CSRF check reads the form before any view does. Only the announced length is
compared, so nothing of the body is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.decorators import sync_and_async_middleware

from project.chat.forms import MAX_CHARACTERS
from project.chat.views import render_page

TOO_LARGE = 413


@sync_and_async_middleware
def refuse_large_posts(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware, after the one that knows the user."""
    if not iscoroutinefunction(get_response):

        def refuse(request: HttpRequest) -> Any:
            return _page(request) if _is_too_large(request) else get_response(request)

        return refuse

    async def arefuse(request: HttpRequest) -> Any:
        answer: Awaitable[Any] = sync_to_async(_page)(request) if _is_too_large(request) else get_response(request)
        return await answer

    return arefuse


def _is_too_large(request: HttpRequest) -> bool:
    limit: int | None = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    length = str(request.META.get("CONTENT_LENGTH") or "")
    if limit is None or not length.isdecimal():
        return False
    # The digits are counted first: Python refuses to parse thousands of them.
    is_larger = len(length) > len(str(limit)) or int(length) > limit
    return is_larger and _is_chat(request)


def _is_chat(request: HttpRequest) -> bool:
    """The JSON API answers for itself."""
    try:
        return resolve(request.path_info).app_name == "chat"
    except Resolver404:
        return False


def _page(request: HttpRequest) -> HttpResponse:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    context = {"megabytes": f"{(limit or 0) / 1_000_000:.1f}", "characters": f"{MAX_CHARACTERS:,}"}
    return render_page(request, "chat/too_large.html", context, status=TOO_LARGE)
