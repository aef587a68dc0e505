"""The URLs of the example project."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from compaction_app.api.mounting import api_urls
from compaction_app.contrib.stream import stream_router
from project.chat.turns import turn_of_stream
from project.chat.views import LoginPage

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="chat:sessions")),
    path("accounts/login/", LoginPage.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("chat/", include("project.chat.urls")),
    path("api/v1/", include((api_urls(extra=[stream_router(turn_of_stream)]), "compaction_api"))),
    path("admin/", admin.site.urls),
]
