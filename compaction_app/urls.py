"""The URLs of the JSON API: ``path("api/v1/", include("compaction_app.urls"))`` (docs/api.md)."""

from django.core.exceptions import ImproperlyConfigured

try:
    import ninja  # noqa: F401  # only to raise the error below where it is not installed
except ImportError as error:
    raise ImproperlyConfigured(
        "The JSON API of compaction_app needs django-ninja: pip install 'django-chat-compaction[api]'. "
        "The rest of the app does not need it."
    ) from error

from compaction_app.api.mounting import api_urls

app_name = "compaction_api"
urlpatterns = api_urls()
