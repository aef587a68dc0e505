"""Who sends a request: by default the user who is signed in to the site. A host may use tokens of its own instead."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from ninja.errors import AuthenticationError, HttpError
from ninja.security import SessionAuth

from compaction_app.api.codes import Code, Problem


class SessionUser(SessionAuth):
    """Django's session with CSRF protection: a request that changes something needs the ``X-CSRFToken`` header.

    Unlike django-ninja's own class it looks for the user first: without one the response is 401, not 403.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if not request.user.is_authenticated:
            return None
        try:
            return super().__call__(request)
        except HttpError as error:
            raise Problem(Code.CSRF_FAILED) from error


def user_of(request: HttpRequest) -> Any:
    """Return the authenticated user; raise 401 for an inactive one."""
    user: Any = getattr(request, "auth", None)
    if not hasattr(user, "is_authenticated"):
        raise ImproperlyConfigured(
            f"An authentication of the JSON API returned a {type(user).__name__}; it must return a user."
        )
    if not user.is_active:
        raise AuthenticationError
    return user
