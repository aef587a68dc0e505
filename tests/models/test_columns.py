"""Each column says what it is, on its field; what follows from that needs no other line, and what must be typed is told
here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest
from django.apps import apps
from django.db import models

from compaction_app import chat
from compaction_app.api import compactions, messages, sessions
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.columns import Column, erased, names, unlisted
from compaction_app.transfer.formats import Conversation
from compaction_app.values import Contents, MessageFields

pytestmark = pytest.mark.django_db

TABLES = list(apps.get_app_config("compaction_app").get_models())
#: The schemas of each table in the API.
SCHEMAS: dict[type[models.Model], tuple[Any, ...]] = {
    ChatSession: (sessions.SessionOut,),
    ChatMessage: (messages.MessageOut, messages.NodeOut),
    CompactionRun: (compactions.RunOut, compactions.CompactionDetail),
}


def what_to_say(field: Any) -> str:
    asked = ", ".join(f"{one.name}={one.default}" for one in fields(Column) if one.name != "leaves")
    return (
        f"{field} does not say what it is. Wrap it: SAID(models.TextField()), OURS(…), Column(…)(…), as the fields "
        f"beside it in models/tables.py do. models/columns.py has what to say: leaves=nothing or everything (what a "
        f"redaction leaves of it), {asked}."
    )


def test_every_column_says_what_it_is() -> None:
    columns = [field for table in TABLES for field in table._meta.concrete_fields if not field.auto_created]
    assert [what_to_say(field) for field in columns if "is_" not in vars(field)] == []


def test_a_column_that_says_nothing_is_told_what_to_say() -> None:
    field = models.TextField(name="translation")
    assert "Wrap it" in what_to_say(field)
    assert "copied=False" in what_to_say(field)


def test_migrations_do_not_see_what_a_column_is() -> None:
    assert Column(said=True)(models.TextField()).deconstruct() == models.TextField().deconstruct()


def test_what_somebody_said_is_erased() -> None:
    said = {(table, name) for table in TABLES for name in names(table, said=True)}
    assert said <= {(table, name) for table in TABLES for name in erased(table)}


#: Texts and JSON that a redaction keeps: ids, codes, names of models, figures, and what a host sets.
KEPT = {
    ChatSession: "model settings token_calibration external_id",
    ChatMessage: "tool_call_id model sent_context external_id idempotency_key",
    CompactionRun: "skip_reason error_code summarizer_model prompt_version nonce settings budget task_id "
    "shortened_inputs",
    CompactionEvent: "payload",
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_what_is_kept_of_a_text_is_none_of_a_conversation(table: type[models.Model]) -> None:
    words = models.CharField, models.TextField, models.JSONField
    texts = {one.name for one in table._meta.concrete_fields if isinstance(one, words) and not one.choices}
    assert texts - {*erased(table)} == {*KEPT.get(table, "").split()}


def names_of(schemas: Iterable[Any]) -> set[str]:
    return {str(field.validation_alias or name) for one in schemas for name, field in one.model_fields.items()}


@pytest.mark.parametrize("table", SCHEMAS, ids=lambda table: table.__name__)
def test_the_api_has_what_clients_are_shown(table: type[models.Model]) -> None:
    """A schema has types, examples and descriptions, so it is written by hand."""
    shown, columns = names_of(SCHEMAS[table]), {field.attname for field in table._meta.concrete_fields}
    shown |= {"parent_message_id"} if "parent_id" in shown else set()
    shown |= {"content"} if "text" in shown else set()
    assert shown & columns - {"id"} == {*names(table, client=True)} - {"id"}


def test_a_message_dict_has_the_keys_that_are_exported() -> None:
    """It is typed for hosts; what is read as said is what is said, but for what is kept beside it."""
    assert set(MessageFields.__annotations__) == {*names(ChatMessage, exported=True)}
    said = {*names(ChatMessage, exported=True, said=True)} - {"name", "metadata"}
    assert set(Contents.__annotations__) == said


def test_an_import_reads_all_that_is_exported_of_a_session() -> None:
    assert {*names(ChatSession, exported=True)} <= {one.name for one in fields(Conversation)}


@pytest.mark.parametrize("name", [name for name in names(ChatMessage, exported=True) if name != "created_at"])
def test_no_text_or_json_takes_a_nul(name: str) -> None:
    field = ChatMessage._meta.get_field(name)
    given: dict[str, Any] = {"role": "user", "content": "x"}
    given[name] = {"a": "\0"} if isinstance(field, models.JSONField) else "\0"
    given[name] = [given[name]] if name in ("tool_calls", "attachments") else given[name]
    with pytest.raises(InvalidMessage) as refused:
        chat.append_message(chat.start_session(), None, **given)
    assert refused.value.field in (name, "role")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_lists_read_no_long_column(table: type[models.Model]) -> None:
    long = {one.name for one in table._meta.concrete_fields if isinstance(one, models.TextField | models.JSONField)}
    assert long - {*unlisted(table)} == {*names(table, listed=True)}
