"""The example project: settings, Celery app and URLs around ``compaction_app``."""

# Loaded with Django, so that a task sent from a web process goes to this app's broker and not to Celery's default.
from project.celery import app as celery_app

__all__ = ["celery_app"]
