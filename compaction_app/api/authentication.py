"""Who asks: by default whoever is signed in to the host's site; a host plugs in tokens of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from ninja.errors import AuthenticationError, HttpError
from ninja.security import APIKeyCookie
from ninja.security.http import HttpAuthBase

from compaction_app.api.problems import Code, Problem


class SessionUser(APIKeyCookie):
    """Django's session, with its CSRF protection on: a request that changes something needs ``X-CSRFToken``.

    Unlike django-ninja's own it asks first who is there, so that nobody is told 401 and not 403.
    """

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Any:
        if not request.user.is_authenticated:
            return None
        try:
            return super().__call__(request)
        except HttpError as error:
            raise Problem(Code.CSRF_FAILED) from error

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        return request.user


#: What HTTP's own schemes are called in a challenge; Basic is none without a realm.
_CHALLENGES = {"bearer": "Bearer", "basic": 'Basic realm="api"'}


def challenge_of(authentications: Iterable[Any]) -> str:
    """What ``WWW-Authenticate`` of a 401 names; empty where only cookies or keys are taken, for HTTP has no name for
    these, and a browser would ask for a password at once if it were told ``Basic`` instead.
    """
    schemes = [str(getattr(one, "openapi_scheme", "")) for one in authentications if isinstance(one, HttpAuthBase)]
    return ", ".join(dict.fromkeys(_CHALLENGES.get(scheme, scheme) for scheme in schemes if scheme))


def user_of(request: HttpRequest) -> Any:
    """The user that the authentication found; 401 for one that is switched off."""
    user: Any = getattr(request, "auth", None)
    if not hasattr(user, "is_authenticated"):
        raise ImproperlyConfigured(
            f"An authentication of the JSON API gave a {type(user).__name__}; it has to return a user."
        )
    if not user.is_active:
        raise AuthenticationError
    return user
