"""System checks of the configuration.

The ids are stable and start with ``compaction_app.``; docs/troubleshooting.md lists them, ``conf.KEYS`` has those of
single keys. List an id in ``SILENCED_SYSTEM_CHECKS`` to silence it. Errors of settings also raise
``ConfigurationError`` when the settings are read.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import product
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  # Django's names for them
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.migrations.recorder import MigrationRecorder

from compaction_app.conf import find_problems, get_settings
from compaction_app.summarizers.base import find_backend_problem
from compaction_app.summarizers.waiting import NO_EVENTLET, USE_GEVENT, replaced_threads

_SUPPORTED_VENDORS = {"sqlite", "postgresql"}
#: Django's backend for "no database configured".
_NO_DATABASE = "django.db.backends.dummy"


def check_settings(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Report every problem with ``COMPACTION``."""
    found = find_problems(getattr(django_settings, "COMPACTION", {}))
    if not any(isinstance(one, Error) for one in found):
        hint = "Subclass it and write summarize(request)."
        wrong = (find_backend_problem(entry.backend) for entry in get_settings().summarizers.values())
        found += [Error(problem, hint=hint, id="compaction_app.E016") for problem in wrong if problem]
    return found


def check_databases(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Report databases that store messages and cannot do it safely.

    It is not tagged as a database check, because those run on request only and this one opens no connection.
    """
    model = apps.get_model("compaction_app", "ChatMessage")
    found: list[CheckMessage] = [*_users_elsewhere()]
    for alias in connections:
        configured = connections.settings[alias]["ENGINE"] != _NO_DATABASE
        if not (configured and router.allow_migrate_model(alias, model)):
            continue
        vendor, settings = connections[alias].vendor, connections[alias].settings_dict
        # "One open compaction per branch" depends on conditional unique constraints.
        if vendor not in _SUPPORTED_VENDORS:
            error = f"Database {alias!r} stores chat messages in {vendor}. Only SQLite and PostgreSQL are supported."
            hint = "Use SQLite or PostgreSQL, or exclude compaction_app from this database with a router."
            found.append(Error(error, hint=hint, id="compaction_app.E020"))
        if settings.get("ATOMIC_REQUESTS"):
            warning = (
                f"Database {alias!r} has ATOMIC_REQUESTS: chat.compact, chat.complete and chat.stream raise in a "
                "view, because no transaction may be open while a model is called."
            )
            which = "" if alias == DEFAULT_DB_ALIAS else f"(using={alias!r})"
            hint = f"Decorate the views that call them with django.db.transaction.non_atomic_requests{which}."
            found.append(Warning(warning, hint=hint, id="compaction_app.W002"))
        mode = str(settings.get("OPTIONS", {}).get("transaction_mode", "")).upper()
        # A deferred transaction that reads before it writes fails if another process wrote in between.
        if vendor == "sqlite" and mode not in {"IMMEDIATE", "EXCLUSIVE"}:
            warning = (
                f"Database {alias!r} is SQLite without transaction_mode IMMEDIATE: if a chat turn and a worker write "
                "at the same time, one fails with 'database is locked' instead of waiting."
            )
            hint = f"Set DATABASES[{alias!r}]['OPTIONS'] = {{'transaction_mode': 'IMMEDIATE', 'timeout': 30}}."
            found.append(Warning(warning, hint=hint, id="compaction_app.W004"))
    return found


def _users_elsewhere() -> Iterator[CheckMessage]:
    """A session refers to its owner, and no database has foreign keys into another one."""
    session, user = apps.get_model("compaction_app", "ChatSession"), get_user_model()
    chats, users = router.db_for_write(session), router.db_for_write(user)
    # A schema for each tenant: the one of the checks may have neither table.
    if chats != users or (router.allow_migrate_model(chats, session) and not router.allow_migrate_model(chats, user)):
        where = f"and users in {users!r}" if chats != users else "which has no users"
        yield Error(
            f"The database router keeps chat sessions in {chats!r}, {where}: a session with an owner cannot be stored.",
            hint=f"Route compaction_app and {user._meta.label} to the same database.",
            id="compaction_app.E021",
        )


def check_earlier_tables(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Report tables of an early state of the main branch, which ``migrate`` would take for those of 0.1.0.

    It is a database check: ``migrate`` runs it, and ``check`` with ``--database``.
    """
    ours = [app for app in apps.get_app_configs() if f"{app.name}.".startswith("compaction_app.") and app.models_module]
    found: list[CheckMessage] = []
    for alias, app in product(databases or (), ours):
        replaced = import_module(f"{app.name}.migrations.0001_initial").Migration.replaces
        applied = {key for key in MigrationRecorder(connections[alias]).applied_migrations() if key[0] == app.label}
        if applied and (missing := {*replaced} - applied):
            error = f"Database {alias!r} has tables of {app.label} before 0.1.0, without {min(missing)[1]}."
            hint = f"Install the last state of the main branch that has {max(replaced)[1]}, migrate with it, come back."
            found.append(Error(error, hint=hint, id="compaction_app.E025"))
    return found


def check_time_zones(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Report times without a zone: the admin's pages raise, and a run's lease is an hour off when clocks change."""
    if django_settings.USE_TZ:
        return []
    hint = "Set USE_TZ = True. Without the admin's pages, silence this check where the clocks never change."
    return [Error("compaction_app needs USE_TZ = True.", hint=hint, id="compaction_app.E023")]


def check_threads(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Report eventlet, with which no summary is made by a model; a run says so too, since Celery shows no checks."""
    return [Error(NO_EVENTLET, hint=USE_GEVENT, id="compaction_app.E024")] if replaced_threads() == "eventlet" else []


ALL: tuple[Callable[..., list[CheckMessage]], ...] = (
    check_settings,
    check_databases,
    check_time_zones,
    check_threads,
)
