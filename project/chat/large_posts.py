"""Answers a post to the chat page that is larger than Django reads with a page that says so.

Without it the answer is a bare 400. Of a form with files Django counts the texts alone, and as it reads them; of more
than any message may have, nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.decorators import sync_and_async_middleware

from project.chat import uploads
from project.chat.forms import MAX_CHARACTERS
from project.chat.views import render_page

TOO_LARGE = 413


@sync_and_async_middleware
def refuse_large_posts(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware, after the one that knows the user, and before the one that reads the form."""
    if not iscoroutinefunction(get_response):

        def refuse(request: HttpRequest) -> Any:
            return _refusal(request) or get_response(request)

        return refuse

    async def arefuse(request: HttpRequest) -> Any:
        return await sync_to_async(_refusal)(request) or await get_response(request)

    return arefuse


def _refusal(request: HttpRequest) -> HttpResponse | None:
    if request.method != "POST" or not _is_chat(request):
        return None
    length = str(request.META.get("CONTENT_LENGTH") or "")
    # Texts, files and what a form has around them. The digits are counted first: Python refuses to parse thousands.
    most = (settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0) + 2 * uploads.MAX_BYTES
    if length.isdecimal() and (len(length) > len(str(most)) or int(length) > most):
        return _page(request)
    try:
        _ = request.POST
    except (RequestDataTooBig, TooManyFilesSent):
        return _page(request)
    return None


def _is_chat(request: HttpRequest) -> bool:
    """The JSON API answers for itself."""
    try:
        return resolve(request.path_info).app_name == "chat"
    except Resolver404:
        return False


def _page(request: HttpRequest) -> HttpResponse:
    context = {"megabytes": uploads.megabytes(), "characters": uploads.number(MAX_CHARACTERS)}
    return render_page(request, "chat/too_large.html", context, status=TOO_LARGE)
