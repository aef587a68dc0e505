"""Signing in to the example project."""

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from project.chat.pages import guard


class LoginPage(LoginView):
    template_name = "chat/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return guard(super().dispatch(request, *args, **kwargs))
