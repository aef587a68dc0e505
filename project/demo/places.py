"""The demo's paths and environment. Loaded before Django's settings.

The demo has its own database, so that trying it does not change a project in development. Variables that are set
already are kept.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import quote

REPOSITORY = Path(__file__).resolve().parents[2]
CONVERSATION = REPOSITORY / "project" / "demo_conversation.json"

#: Small enough that the conversation fills it many times over.
CONTEXT_WINDOW = 4_000
#: Runs that a killed demo left behind are found this soon.
SWEEP_SECONDS = 5


def folder(environ: MutableMapping[str, str] = os.environ) -> Path:
    return Path(environ.get("DEMO_FOLDER") or REPOSITORY / "var" / "demo").absolute()


def database_file(environ: MutableMapping[str, str] = os.environ) -> Path:
    return folder(environ) / "db.sqlite3"


def own_database_url(environ: MutableMapping[str, str] = os.environ) -> str:
    return "sqlite:///" + quote(str(database_file(environ)))


def prepare_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that are not set. An empty variable counts as not set."""
    defaults = {
        # For the key of the project's settings that everyone can read: the demo listens on this machine only.
        "DEBUG": "true",
        "DATABASE_URL": own_database_url(environ),
        "COMPACTION_CONTEXT_WINDOW": str(CONTEXT_WINDOW),
        "COMPACTION_SWEEP_SECONDS": str(SWEEP_SECONDS),
    }
    for name, value in defaults.items():
        if not environ.get(name, "").strip():
            environ[name] = value
