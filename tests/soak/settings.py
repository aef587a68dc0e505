"""Settings of the clients and workers of a soak run: the example project's, with a small window and short times."""

import os

from project.settings import *  # noqa: F403

_MODEL = {"base_url": os.environ.get("SOAK_MODEL_URL"), "api_key_env": "SOAK_MODEL_KEY"}

COMPACTION = {
    "CONTEXT_WINDOW": 3_000,
    "SUMMARIZERS": {
        "default": {
            "MODELS": [{"model": "summarizer-a", **_MODEL}, {"model": "summarizer-b", **_MODEL}],
            "TIMEOUT": 1.0,
        }
    },
    "COOLDOWN_SECONDS": 2,
}
INSTALLED_APPS = [*INSTALLED_APPS, "tests.soak.breaker.ShortBreaker"]  # noqa: F405

# Thousands of lines a minute would measure the disk.
LOGGING["loggers"]["compaction_app"]["level"] = os.environ.get("SOAK_LOG_LEVEL", "INFO")  # noqa: F405
