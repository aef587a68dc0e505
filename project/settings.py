"""Settings of the example project, driven by the environment.

``DEBUG`` is off unless the environment asks for it, as the demo and the tests do; without it a ``SECRET_KEY`` is
required. By default the database is a SQLite file. All settings of compaction are in ``COMPACTION`` at the end.

The project also reads ``ALLOWED_HOSTS``, ``DATABASE_URL``, ``CELERY_BROKER_URL``, ``OPENAI_API_KEY``,
``OPENAI_BASE_URL``, ``COMPACTION_CONTEXT_WINDOW``, ``COMPACTION_MODE``, ``COMPACTION_TRIGGER_RATIO``,
``COMPACTION_RECENT_MESSAGES_RATIO`` and, of the models that write summaries, ``COMPACTION_SUMMARIZER_MODELS``,
``COMPACTION_SUMMARIZER_TIMEOUT`` (seconds), ``COMPACTION_SUMMARIZER_WINDOW`` and
``COMPACTION_SUMMARIZER_MAX_OUTPUT_TOKENS``; its chat page ``CHAT_MODEL`` (one or more) and ``CHAT_TIMEOUT_SECONDS``;
its workers
``COMPACTION_SWEEP_SECONDS`` and ``COMPACTION_REDELIVERY_SECONDS`` (how soon a lost or killed task is found); the demo
``DEMO_FOLDER``, ``DEMO_PASSWORD`` and ``DEMO_BROKER_URL``.
"""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from project import environment

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

DEBUG = environment.flag("DEBUG", default=False)


def _secret_key() -> str:
    if key := environment.text("SECRET_KEY"):
        return key
    if DEBUG:
        return "only-for-development-everyone-can-read-it-in-the-source"
    raise ImproperlyConfigured(
        "The environment variable SECRET_KEY is not set. Set it to a long random text, such as the output of: "
        "python -c 'import secrets; print(secrets.token_urlsafe(50))'. To try the project on this machine only, set "
        "DEBUG=true instead, which uses a key that everyone can read. `make demo` does so."
    )


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = environment.names("ALLOWED_HOSTS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    # Serves the scripts of the API's documentation page from this site.
    "ninja",
    "compaction_app",
    "project",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # Before the check of the token, which reads the form.
    "project.chat.large_posts.refuse_large_posts",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "project.chat.missing.MissingPage",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
ASGI_APPLICATION = "project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{validator}"}
    for validator in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "chat:sessions"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-us"
# In others Django alone has words, beside English ones of the pages.
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"

# --- Database ---------------------------------------------------------------------------------------------

SQLITE_OPTIONS: dict[str, Any] = {
    # A deferred transaction that reads and then writes fails at once with "database is locked" if another process
    # wrote in between, whatever the time-out. With the lock taken at BEGIN it waits instead.
    "transaction_mode": "IMMEDIATE",
    "timeout": 30,
    # WAL: readers and the one writer do not block each other. NORMAL: a power cut may lose the last commits, but
    # never corrupts the database.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=67108864;",
}


def _database() -> dict[str, Any]:
    url = environment.text("DATABASE_URL", default="sqlite:///" + quote(str(VAR_DIR / "db.sqlite3")))
    try:
        database: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError as error:
        # The value is not in the message: it may contain a password.
        raise ImproperlyConfigured(
            f"The environment variable DATABASE_URL cannot be read: {error} "
            "Set it to sqlite:////absolute/path or postgresql://user:password@host:5432/name, "
            "or unset it for the default."
        ) from error
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["OPTIONS"] = SQLITE_OPTIONS | database.get("OPTIONS", {})
    return database


DATABASES = {"default": _database()}

# --- Celery -----------------------------------------------------------------------------------------------

SWEEP_SECONDS = environment.seconds("COMPACTION_SWEEP_SECONDS", default=30)
REDELIVERY_SECONDS = environment.seconds("COMPACTION_REDELIVERY_SECONDS", default=600)

CELERY_BROKER_URL = environment.text("CELERY_BROKER_URL", default="redis://127.0.0.1:6379/0")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Without these, publishing to a broker that accepts the connection and never answers waits for ever. With them,
    # and without retries, a chat turn loses two seconds at most; the sweep enqueues the run later.
    "socket_connect_timeout": 1,
    "socket_timeout": 2,
    # A message that a killed worker has not acknowledged is delivered again after this time. If it is too short, a
    # second delivery only finds the run claimed in the database.
    "visibility_timeout": REDELIVERY_SECONDS,
    # Look for such messages every ten seconds; kombu's defaults multiply to a hundred.
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 0}
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
# Acknowledged after the work, and requeued if the worker process is killed.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# A compaction may take minutes; with prefetching, a second one would wait in the same process beside idle workers.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TIMEZONE = TIME_ZONE
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "celerybeat-schedule")
CELERY_BEAT_SCHEDULE = {
    "recover-compactions": {
        "task": "compaction_app.tasks.recover_compactions",
        "schedule": SWEEP_SECONDS,
        # Without a worker, sweeps would pile up; the next one does the same work.
        "options": {"expires": SWEEP_SECONDS},
    },
}

# --- Logging ----------------------------------------------------------------------------------------------

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"compaction_app": {"handlers": ["console"], "level": "INFO", "propagate": False}},
}

# --- Compaction -------------------------------------------------------------------------------------------

COMPACTION_MODES = ("off", "manual", "standard", "conservative", "aggressive", "deterministic")

# The summarizer's OpenAI client reads both from the environment. Here they decide which summarizer is used, and
# whether the chat page uses a model.
OPENAI_API_KEY = environment.text("OPENAI_API_KEY")
OPENAI_BASE_URL = environment.text("OPENAI_BASE_URL")


def _compaction() -> dict[str, Any]:
    """Only the keys that are set, so that the others keep their default or the mode's preset."""
    given: dict[str, Any] = {
        "MODE": environment.choice("COMPACTION_MODE", COMPACTION_MODES),
        "CONTEXT_WINDOW": environment.whole_number("COMPACTION_CONTEXT_WINDOW", at_least=1),
        "TRIGGER_RATIO": environment.ratio("COMPACTION_TRIGGER_RATIO"),
        "RECENT_MESSAGES_RATIO": environment.ratio("COMPACTION_RECENT_MESSAGES_RATIO"),
    }
    models = environment.names("COMPACTION_SUMMARIZER_MODELS")
    timeout = environment.seconds("COMPACTION_SUMMARIZER_TIMEOUT", default=0)
    longest = environment.whole_number("COMPACTION_SUMMARIZER_MAX_OUTPUT_TOKENS", at_least=1)
    entry = {"MODELS": models, "TIMEOUT": timeout, "MAX_OUTPUT_TOKENS": longest}
    if entry := {key: value for key, value in entry.items() if value}:
        given["SUMMARIZERS"] = {"default": entry}
    if window := environment.whole_number("COMPACTION_SUMMARIZER_WINDOW", at_least=1):
        # Without a name, of any model: that of the chats is CONTEXT_WINDOW.
        given["MODELS"] = {model: {"window": window} for model in models or [""]}
    compaction = {key: value for key, value in given.items() if value is not None}
    if not (OPENAI_API_KEY or OPENAI_BASE_URL):
        compaction["SUMMARIZER"] = "extractive"
    return compaction


COMPACTION = _compaction()

# --- Chat page --------------------------------------------------------------------------------------------

# Models to choose from, separated by commas; the first answers where none is chosen. If unset: the model that a
# conversation names, else the default of project/chat.
CHAT_MODELS = environment.names("CHAT_MODEL")
CHAT_TIMEOUT_SECONDS = environment.seconds("CHAT_TIMEOUT_SECONDS", default=60)
