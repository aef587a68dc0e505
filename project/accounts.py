"""Signing in to the example project."""

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse

from project.chat.pages import guard


class LoginPage(LoginView):
    template_name = "chat/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return guard(super().dispatch(request, *args, **kwargs))
