"""The WSGI entry point of the example project."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_wsgi_application()

from compaction_app import chat  # noqa: E402  # models can be imported only now

chat.warm_up()
