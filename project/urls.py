"""The URLs of the example project."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

urlpatterns: list[URLPattern | URLResolver] = [
    # The chat page and the HTTP API go here.
    path("admin/", admin.site.urls),
]
