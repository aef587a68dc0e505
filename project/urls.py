"""The URLs of the example project."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from project.chat.views import LoginPage

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="chat:sessions")),
    path("accounts/login/", LoginPage.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("chat/", include("project.chat.urls")),
    path("api/v1/", include("compaction_app.urls")),
    path("admin/", admin.site.urls),
]
