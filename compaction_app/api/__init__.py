"""The JSON API: conversations, what a model would be sent, compactions (docs/api.md).

``compaction_app.urls`` mounts it with Django's session authentication; :func:`compaction_app.api.mounting.api_urls`
does with another. It needs django-ninja, which the rest of the app does not. A request goes ``mounting`` (size,
headers, one shape for every error) → the operations (``sessions``, ``messages``, ``contexts``, ``compactions``) →
``finding`` (may this user?) → :mod:`compaction_app.chat`.
"""
