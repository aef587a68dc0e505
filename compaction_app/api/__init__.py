"""The JSON API over :mod:`compaction_app.chat` (docs/api.md). Needs django-ninja; the rest of the app does not.

``compaction_app.urls`` mounts it with Django's session authentication; :func:`compaction_app.api.mounting.api_urls`
takes any other. A request passes through ``mounting`` (size, query, errors), an operation (``sessions``, ``messages``,
``contexts``, ``compactions``, each with its schemas) and ``lookup`` (permissions) to :mod:`compaction_app.chat`.
"""
