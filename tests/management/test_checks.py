"""System checks, whole: the id that hosts silence, the message they read and the hint they follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import CheckMessage, Error, Warning, run_checks  # noqa: A004  # Django's names for them
from django.core.checks.registry import registry
from django.db import connections
from django.test import override_settings

from compaction_app.management import checks

pytestmark = pytest.mark.pure


def found() -> list[CheckMessage]:
    """What ``manage.py check`` says of this app, by id: Django runs checks in no certain order.

    Without databases: from Django 6.1 on its own checks of JSON fields connect to those it is given.
    """
    messages = [message for message in run_checks(databases=[]) if str(message.id).startswith("compaction_app.")]
    return sorted(messages, key=lambda message: str(message.id))


def test_a_project_that_is_in_order_hears_nothing() -> None:
    assert found() == []


def test_all_checks_are_registered_once() -> None:
    every = registry.get_checks(include_deployment_checks=True)
    registered = [check for check in every if check.__module__ == "compaction_app.management.checks"]
    assert sorted(map(id, registered)) == sorted(map(id, checks.ALL))


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        (
            {"TRIGGER_RATIO": 0.4},
            Warning(
                "TRIGGER_RATIO 0.4 is outside 0.5 to 0.95: compaction will be frequent, or too late.",
                hint="Use a value from 0.5 to 0.95, unless this is a test.",
                id="compaction_app.W001",
            ),
        ),
        (
            None,
            Error(
                "settings.COMPACTION must be a dict, not NoneType.",
                hint="Use a dict of keys.",
                id="compaction_app.E001",
            ),
        ),
        (
            {"RECENT_MESSAGES_RATIO": 0.8},
            Error(
                "RECENT_MESSAGES_RATIO must be below TRIGGER_RATIO, or a compaction would cover nothing.",
                hint="Lower RECENT_MESSAGES_RATIO or raise TRIGGER_RATIO.",
                id="compaction_app.E010",
            ),
        ),
        (
            {"SUMMARIZERS": {"default": {"BACKEND": "nowhere.Summarizer"}}},
            Error(
                "COMPACTION['SUMMARIZERS']['default']['BACKEND'] names 'nowhere.Summarizer', which cannot be imported: "
                "No module named 'nowhere'.",
                hint="Correct or remove SUMMARIZERS.",
                id="compaction_app.E145",
            ),
        ),
    ],
)
def test_a_problem_of_the_settings_is_a_check_message(configured: Any, expected: CheckMessage) -> None:
    with override_settings(COMPACTION=configured):
        assert found() == [expected]


def test_every_wrong_key_is_reported_at_once() -> None:
    with override_settings(COMPACTION={"PRUNE": 1, "POLICY": "x", "MODELS": []}):
        assert [message.id for message in found()] == [f"compaction_app.{e}" for e in ("E114", "E134", "E151")]


# -- databases -------------------------------------------------------------------------------------------


class ElsewhereRouter:
    """A host that keeps this app's tables in the database called "chats"."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db == "chats" if app_label == "compaction_app" else None


@pytest.fixture
def databases() -> Iterator[dict[str, Any]]:
    """The aliases that are configured; those that a test adds are taken away again."""
    before = dict(connections.settings)
    yield connections.settings
    for alias in set(connections.settings) - set(before):
        del connections.settings[alias]
        if hasattr(connections._connections, alias):
            delattr(connections._connections, alias)


def add_database(databases: dict[str, Any], alias: str, vendor: str = "sqlite", **options: Any) -> None:
    """A database that is configured and never connected to, of a vendor whose driver need not be here."""
    databases[alias] = dict(connections.settings["default"]) | {"NAME": ":memory:"} | options
    connections[alias].vendor = vendor


def unsupported(alias: str, vendor: str) -> Error:
    return Error(
        f"Database '{alias}' stores chat messages in {vendor}. Only SQLite and PostgreSQL are supported.",
        hint="Use SQLite or PostgreSQL, or exclude compaction_app from this database with a router.",
        id="compaction_app.E020",
    )


@pytest.mark.parametrize("vendor", ["mysql", "cockroachdb"])
def test_a_database_without_conditional_constraints_is_an_error(databases: dict[str, Any], vendor: str) -> None:
    """Rule 10 stands on them: without, two workers could compact one branch at once."""
    add_database(databases, "legacy", vendor)
    assert found() == [unsupported("legacy", vendor)]


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_the_two_supported_databases_pass(databases: dict[str, Any], vendor: str) -> None:
    add_database(databases, "chats", vendor)
    assert found() == []


def test_only_databases_that_hold_messages_are_judged(databases: dict[str, Any]) -> None:
    """The router says where this app's tables are; another app's database is none of its business."""
    add_database(databases, "legacy", "mysql")
    add_database(databases, "chats", "oracle", ATOMIC_REQUESTS=True)
    databases["legacy"]["ATOMIC_REQUESTS"] = True
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.ElsewhereRouter"]):
        assert found() == [unsupported("chats", "oracle"), atomic_requests("chats")]


class ChatsElsewhereRouter:
    """A host that routes this app to "chats" and its users nowhere."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "chats" if model._meta.app_label == "compaction_app" else None


class NoUsersRouter:
    """Both are routed to "default", and the tables of users are not made there."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "auth" else None


class SharedSchemaRouter:
    """A host with a schema for each tenant: the one that the checks see has neither users nor chats."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return app_label not in ("auth", "compaction_app")


def test_tenants_with_users_and_chats_of_their_own_are_no_error() -> None:
    """As the router of django-tenants answers outside of a tenant."""
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.SharedSchemaRouter"]):
        assert found() == []


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("ChatsElsewhereRouter", "in 'chats', and users in 'default'"),
        ("NoUsersRouter", "in 'default', which has no users"),
    ],
)
def test_sessions_in_another_database_than_their_owners_are_an_error(
    databases: dict[str, Any], name: str, where: str
) -> None:
    """Storing a session with an owner raised a bare IntegrityError."""
    add_database(databases, "chats")
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.{name}"]):
        assert found() == [
            Error(
                f"The database router keeps chat sessions {where}: a session with an owner cannot be stored.",
                hint="Route compaction_app and auth.User to the same database.",
                id="compaction_app.E021",
            )
        ]


def atomic_requests(alias: str) -> Warning:
    return Warning(
        f"Database '{alias}' has ATOMIC_REQUESTS: chat.compact, chat.complete and chat.stream raise in a view, "
        "because no transaction may be open while a model is called.",
        hint=f"Decorate the views that call them with django.db.transaction.non_atomic_requests(using='{alias}').",
        id="compaction_app.W002",
    )


def test_atomic_requests_point_to_the_rule_of_durable_transactions(databases: dict[str, Any]) -> None:
    add_database(databases, "chats", ATOMIC_REQUESTS=True)
    assert found() == [atomic_requests("chats")]


def test_sqlite_without_immediate_transactions_is_a_warning(databases: dict[str, Any]) -> None:
    """Deferred, two writers at once fail instead of waiting for each other."""
    add_database(databases, "chats", OPTIONS={})
    assert found() == [
        Warning(
            "Database 'chats' is SQLite without transaction_mode IMMEDIATE: if a chat turn and a worker write at "
            "the same time, one fails with 'database is locked' instead of waiting.",
            hint="Set DATABASES['chats']['OPTIONS'] = {'transaction_mode': 'IMMEDIATE', 'timeout': 30}.",
            id="compaction_app.W004",
        )
    ]


def test_times_without_a_zone_are_an_error() -> None:
    """The admin's dates raise: "localtime() cannot be applied to a naive datetime"."""
    with override_settings(USE_TZ=False):
        assert found() == [
            Error(
                "compaction_app needs USE_TZ = True.",
                hint="Set USE_TZ = True. Without the admin's pages, silence this check where the clocks never change.",
                id="compaction_app.E023",
            )
        ]


# -- two compactions -------------------------------------------------------------------------------------


def test_a_provider_that_compacts_too_is_a_warning() -> None:
    """This app's record is the one that counts, and the provider's would make it wrong."""
    with override_settings(COMPACTION={"PROVIDER_CONTEXT_MANAGEMENT": True}):
        assert found() == [
            Warning(
                "PROVIDER_CONTEXT_MANAGEMENT is set: the provider and compaction_app would both shorten the "
                "conversation.",
                hint="Turn off one of them: the provider's context management, or this app with MODE 'off'.",
                id="compaction_app.W003",
            )
        ]
