"""A page in the site's look for what does not exist, or is somebody else's; with ``DEBUG`` too, as the demo has it."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from project.chat.views import render_page


class MissingPage(MiddlewareMixin):
    """Middleware. The admin and the JSON API answer for themselves."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        found = request.resolver_match
        is_missing = isinstance(error, Http404) and found is not None and found.app_name == "chat"
        return render_page(request, "404.html", status=404) if is_missing else None
