"""Settings of the test run: the example project's, on the database that tests/plugin.py has prepared."""

import copy
import os

# Also for the processes that tests start with the project's own settings.
os.environ.setdefault("DEBUG", "true")

from project.settings import *  # noqa: F403
from project.settings import COMPACTION, DATABASES, INSTALLED_APPS, LOGGING

# A stock treebeard tree to compare with, and a host's rows that point at messages; and the gateway's table.
INSTALLED_APPS = [*INSTALLED_APPS, "tests.stock_tree", "compaction_app.contrib.gateway"]

if sqlite_file := os.environ.get("TEST_SQLITE_FILE"):
    DATABASES["default"]["TEST"] = {"NAME": sqlite_file}
    # Nobody needs the rows of a test after a power cut.
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"

# As docs/production.md says for PostgreSQL without a pooler in between.
if os.environ.get("TEST_POSTGRES_PREPARED"):
    DATABASES["default"]["OPTIONS"] = {"server_side_binding": True, "prepare_threshold": 0}

# Nothing listens there, so a task sent by accident fails within milliseconds instead of reaching a broker of
# this machine. A test that wants a broker asks for the fixture of that name.
CELERY_BROKER_URL = "redis://127.0.0.1:1/0"

COMPACTION = COMPACTION | {"SUMMARIZER": "extractive"}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# pytest's caplog listens at the root logger.
LOGGING = copy.deepcopy(LOGGING)
LOGGING["loggers"]["compaction_app"] |= {"handlers": [], "propagate": True}
