"""System checks: what is wrong with a host's configuration, said before the first message is written.

The ids are stable; a project silences one by naming it in ``SILENCED_SYSTEM_CHECKS``. All begin with
``compaction_app.``

Errors, which also raise ``ConfigurationError`` where the settings are read:

- E001 ``COMPACTION`` is no dict
- E002 ``COMPACTION`` has unknown keys
- E003 a session overrides what belongs to the whole site (never from a check: met when it is saved)
- E010 ``RECENT_MESSAGES_RATIO`` is not below ``TRIGGER_RATIO``
- E011 ``RECENT_TOKENS_CAP`` is not below ``TRIGGER_TOKENS_CAP``
- E012 summary target, recent and reserved tokens fill the window
- E020 a database that holds messages is neither SQLite nor PostgreSQL

One of its own for each key whose value is of the wrong type or out of range:

- E100 MODE, E101 TRIGGER_RATIO, E102 RECENT_MESSAGES_RATIO, E103 PRUNE_TOOL_RESULT_BYTES, E104 TARGET_RATIO,
  E105 CONTEXT_WINDOW, E106 CONTEXT_WINDOWS, E107 DEFAULT_CONTEXT_WINDOW, E108 RESERVED_TOKENS,
  E109 TRIGGER_TOKENS_CAP, E110 RECENT_TOKENS_CAP, E111 PRESERVE_RECENT_MESSAGES, E112 LOOKAHEAD,
  E113 LOOKAHEAD_TOKENS, E114 PRUNE, E115 PRUNE_KEEP_TURNS, E116 MICRO_COMPACT, E117 REASONING,
  E118 SUMMARY_TARGET_TOKENS, E119 LEDGER_TOKENS, E120 MIN_SUMMARY_CHARS, E121 MIN_SAVING_RATIO,
  E122 COOLDOWN_SECONDS, E123 COVERAGE_RATIO, E124 BREAKER_FAILURES, E125 BREAKER_SECONDS, E126 SUMMARIZER,
  E127 SUMMARIZER_MODELS, E128 SUMMARIZER_TIMEOUT, E129 SUMMARIZER_MAX_OUTPUT_TOKENS, E130 SUMMARY_PROMPT,
  E131 SUMMARY_ROLE, E132 TOKEN_COUNTER, E133 REDACTOR, E134 POLICY, E135 PERMISSION,
  E136 PROVIDER_CONTEXT_MANAGEMENT, E137 PRICES, E138 MAX_MESSAGE_BYTES, E139 MANUAL_THROTTLE, E140 TASK_QUEUE

Warnings:

- W001 ``TRIGGER_RATIO`` is outside 0.5 to 0.95
- W002 ``ATOMIC_REQUESTS`` wraps views in a transaction, which must not be open while a model is being called
- W003 the provider compacts as well
- W004 a SQLite database begins its transactions deferred: two writers at once fail instead of waiting
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  # Django's names for them
from django.db import connections, router

from compaction_app.conf import Mode, find_problems

_SUPPORTED_VENDORS = {"sqlite", "postgresql"}
#: The backend that stands for "no database configured"; nothing is stored there.
_NO_DATABASE = "django.db.backends.dummy"


def check_settings(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Everything that is wrong with ``COMPACTION``."""
    return [
        (Error if problem.error else Warning)(problem.message, hint=problem.hint, id=problem.id)
        for problem in find_problems(getattr(django_settings, "COMPACTION", {}))
    ]


def check_databases(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Databases that lack the conditional constraints which "one open compaction per branch" stands on.

    Not tagged as a database check: those run on request only, and this one opens no connection.
    """
    return [
        Error(
            f"Database {alias!r} holds chat messages and is {connections[alias].vendor}, "
            "which has no conditional unique constraints.",
            hint="Use SQLite or PostgreSQL, or keep compaction_app out of this database with a router.",
            id="compaction_app.E020",
        )
        for alias in _databases_with_messages()
        if connections[alias].vendor not in _SUPPORTED_VENDORS
    ]


def check_atomic_requests(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Databases whose requests run in one transaction, in which nothing that calls a model works."""
    return [
        Warning(
            f"Database {alias!r} has ATOMIC_REQUESTS: chat.compact, chat.complete and chat.stream raise in a view, "
            "since no transaction may be open while a model is being called.",
            hint="Decorate the views that call them with django.db.transaction.non_atomic_requests.",
            id="compaction_app.W002",
        )
        for alias in _databases_with_messages()
        if connections[alias].settings_dict.get("ATOMIC_REQUESTS")
    ]


def check_one_compaction(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Two compactions at once: this app's, and the provider's own."""
    configured = getattr(django_settings, "COMPACTION", {})
    if not isinstance(configured, Mapping) or configured.get("PROVIDER_CONTEXT_MANAGEMENT") is not True:
        return []
    if configured.get("MODE") == Mode.OFF:
        return []
    return [
        Warning(
            "PROVIDER_CONTEXT_MANAGEMENT is declared: the provider and compaction_app would both shorten "
            "the conversation.",
            hint="Turn one of them off: the provider's context management, or this app with MODE 'off'.",
            id="compaction_app.W003",
        )
    ]


def check_sqlite_transactions(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """A transaction that reads first and then writes fails at once if another process wrote in between."""
    return [
        Warning(
            f"Database {alias!r} is SQLite without transaction_mode IMMEDIATE: a chat turn and a worker that "
            "write at once fail with 'database is locked' instead of waiting.",
            hint=f"Set DATABASES[{alias!r}]['OPTIONS'] = {{'transaction_mode': 'IMMEDIATE', 'timeout': 30}}.",
            id="compaction_app.W004",
        )
        for alias in _databases_with_messages()
        if connections[alias].vendor == "sqlite"
        and str(connections[alias].settings_dict.get("OPTIONS", {}).get("transaction_mode", "")).upper()
        not in {"IMMEDIATE", "EXCLUSIVE"}
    ]


ALL: tuple[Callable[..., list[CheckMessage]], ...] = (
    check_settings,
    check_databases,
    check_atomic_requests,
    check_one_compaction,
    check_sqlite_transactions,
)


def _databases_with_messages() -> Iterator[str]:
    model = apps.get_model("compaction_app", "ChatMessage")
    for alias in connections:
        configured = connections.settings[alias]["ENGINE"] != _NO_DATABASE
        if configured and router.allow_migrate_model(alias, model):
            yield alias
