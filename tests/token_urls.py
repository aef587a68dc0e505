"""A host that mounts the API in a place of its own, under a namespace of its own, with tokens beside sessions."""

from django.contrib.auth import get_user_model
from django.urls import include, path
from ninja.security import HttpBearer

from compaction_app.api.authentication import SessionUser
from compaction_app.api.mounting import api_urls


class NameAsToken(HttpBearer):
    """For tests only: a token is its user's name, backwards."""

    def authenticate(self, request, token):
        return get_user_model().objects.filter(username=token[::-1]).first()


class NoUser(HttpBearer):
    """A mistake of a host's: what it gives is no user."""

    def authenticate(self, request, token):
        return token


tokens = (api_urls(auth=[NameAsToken(), SessionUser()]), "compaction_api")
mistaken = (api_urls(auth=NoUser()), "compaction_api")
urlpatterns = [
    path("of/<str:tenant>/chats/", include(([path("v1/", include(tokens))], "host"))),
    path("mistaken/", include(mistaken, namespace="mistaken")),
]
