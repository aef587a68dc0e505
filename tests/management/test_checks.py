"""System checks: the id that hosts silence, and the name of what is wrong in the message or its hint."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.checks.registry import registry
from django.db import connections
from django.test import override_settings

from compaction_app.management import checks

pytestmark = pytest.mark.pure


def found() -> dict[str, str]:
    """Id → message and hint of all that ``manage.py check`` says of this app.

    Without databases: from Django 6.1 on its own checks of JSON fields connect to those it is given.
    """
    messages = [message for message in run_checks(databases=[]) if str(message.id).startswith("compaction_app.")]
    told = {str(message.id).partition(".")[2]: f"{message.msg} {message.hint}" for message in messages}
    assert len(told) == len(messages)
    assert all(("E" if message.is_serious() else "W") in str(message.id) for message in messages)
    return dict(sorted(told.items()))


def test_a_project_that_is_in_order_hears_nothing() -> None:
    assert found() == {}


def test_all_checks_are_registered_once() -> None:
    every = registry.get_checks(include_deployment_checks=True)
    registered = [check for check in every if check.__module__ == "compaction_app.management.checks"]
    assert sorted(map(id, registered)) == sorted(map(id, [*checks.ALL, checks.check_earlier_tables]))


@pytest.mark.django_db
def test_a_hosts_app_whose_name_begins_like_this_one_is_not_taken_for_a_part_of_it(monkeypatch) -> None:
    """``migrate`` ended with ModuleNotFoundError, for want of its migrations."""
    hosts = SimpleNamespace(name="compaction_app_tickets", label="tickets", models_module=object())
    monkeypatch.setattr(checks.apps, "get_app_configs", lambda: [hosts])
    assert checks.check_earlier_tables([], ["default"]) == []


@pytest.mark.parametrize(
    ("configured", "ids"),
    [
        ({"COMPACTION": {"TRIGGER_RATIO": 0.4}}, ["W001"]),
        ({"COMPACTION": None}, ["E001"]),
        ({"COMPACTION": {"RECENT_MESSAGES_RATIO": 0.8}}, ["E010"]),
        ({"COMPACTION": {"SUMMARIZERS": {"default": {"BACKEND": "nowhere.Summarizer"}}}}, ["E145"]),
        ({"COMPACTION": {"PRUNE": 1, "POLICY": "x", "MODELS": []}}, ["E114", "E134", "E151"]),
        # This app's record is the one that counts, and the provider's would make it wrong.
        ({"COMPACTION": {"PROVIDER_CONTEXT_MANAGEMENT": True}}, ["W003"]),
        ({"COMPACTION": {"PROVIDER_CONTEXT_MANAGEMENT": True, "MODE": "off"}}, []),
        # The admin's dates raise: "localtime() cannot be applied to a naive datetime".
        ({"USE_TZ": False}, ["E023"]),
    ],
)
def test_a_problem_of_the_settings_is_a_check_message(configured: dict[str, Any], ids: list[str]) -> None:
    with override_settings(**configured):
        assert list(told := found()) == ids
        assert ("Turn off one of them" in str(told)) == (ids == ["W003"])


def elsewhere(db: str, app_label: str, **hints: Any) -> bool | None:
    """A host that keeps this app's tables in the database called "chats"."""
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


@pytest.mark.parametrize("vendor", ["mysql", "cockroachdb"])
def test_a_database_without_conditional_constraints_is_an_error(databases: dict[str, Any], vendor: str) -> None:
    """Rule 10 stands on them: without, two workers could compact one branch at once."""
    add_database(databases, "legacy", vendor)
    [told] = found().items()
    assert told[0] == "E020"
    assert f"'legacy' stores chat messages in {vendor}" in told[1]


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_the_two_supported_databases_pass(databases: dict[str, Any], vendor: str) -> None:
    add_database(databases, "chats", vendor)
    assert found() == {}


def test_only_databases_that_hold_messages_are_judged(databases: dict[str, Any]) -> None:
    """The router says where this app's tables are; another app's database is none of its business."""
    add_database(databases, "legacy", "mysql")
    add_database(databases, "chats", "oracle", ATOMIC_REQUESTS=True)
    databases["legacy"]["ATOMIC_REQUESTS"] = True
    with override_settings(DATABASE_ROUTERS=[SimpleNamespace(allow_migrate=elsewhere)]):
        told = found()
    assert list(told) == ["E020", "W002"]
    assert all("'chats'" in text and "legacy" not in text for text in told.values())


def chats_elsewhere(model: Any, **hints: Any) -> str | None:
    """A host that routes this app to "chats" and its users nowhere."""
    return "chats" if model._meta.app_label == "compaction_app" else None


def no_users(db: str, app_label: str, **hints: Any) -> bool | None:
    """Both are routed to "default", and the tables of users are not made there."""
    return False if app_label == "auth" else None


def shared_schema(db: str, app_label: str, **hints: Any) -> bool | None:
    """As django-tenants outside of a tenant: the schema that the checks see has neither users nor chats."""
    return app_label not in ("auth", "compaction_app")


@pytest.mark.parametrize(
    ("router", "where"),
    [
        ({"db_for_write": chats_elsewhere}, "in 'chats', and users in 'default'"),
        ({"allow_migrate": no_users}, "in 'default', which has no users"),
        ({"allow_migrate": shared_schema}, None),
    ],
)
def test_sessions_in_another_database_than_their_owners_are_an_error(
    databases: dict[str, Any], router: dict[str, Any], where: str | None
) -> None:
    """Storing a session with an owner raised a bare IntegrityError."""
    add_database(databases, "chats")
    with override_settings(DATABASE_ROUTERS=[SimpleNamespace(**router)]):
        told = found()
    assert list(told) == (["E021"] if where else [])
    assert all(f"keeps chat sessions {where}:" in text for text in told.values())


@pytest.mark.parametrize(
    ("options", "ident", "advice"),
    [
        ({"ATOMIC_REQUESTS": True}, "W002", "non_atomic_requests(using='chats')"),
        # Deferred, two writers at once fail instead of waiting for each other.
        ({"OPTIONS": {}}, "W004", "DATABASES['chats']['OPTIONS'] = {'transaction_mode': 'IMMEDIATE'"),
    ],
)
def test_options_that_make_turns_fail_are_warnings(databases: Any, options: Any, ident: str, advice: str) -> None:
    add_database(databases, "chats", **options)
    [told] = found().items()
    assert told[0] == ident
    assert advice in told[1]
