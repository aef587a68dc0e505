"""A column says on its field what it is. That it is erased, copied and exported follows; where a typed class must name
it too, a test here fails and says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest
from django.apps import apps
from django.db import models

from compaction_app import chat
from compaction_app.api import compactions, messages, sessions
from compaction_app.contrib.histories import document_of
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.validation import validate_message
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.columns import Column, checks_of, erased, names, said_of
from compaction_app.transfer.formats import Conversation
from compaction_app.values import Contents, MessageFields

pytestmark = pytest.mark.django_db

TEXTS = models.CharField, models.TextField, models.JSONField
TABLES = list(apps.get_app_config("compaction_app").get_models())
#: The schemas of each table in the API.
SCHEMAS: dict[type[models.Model], tuple[Any, ...]] = {
    ChatSession: (sessions.SessionOut,),
    ChatMessage: (messages.MessageOut, messages.NodeOut),
    CompactionRun: (compactions.RunOut, compactions.CompactionDetail),
}


def test_every_column_says_what_it_is() -> None:
    for field in (field for table in TABLES for field in table._meta.concrete_fields):
        said_of(field)


def test_a_column_that_says_nothing_is_told_what_to_say() -> None:
    """Of a message it stops Django itself, before any test runs: the error alone can say it."""
    with pytest.raises(TypeError, match=r"translation> does not say what it is\. Wrap it: .*models\.columns has more"):
        said_of(models.TextField(name="translation"))


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
    texts = {one.name for one in table._meta.concrete_fields if isinstance(one, TEXTS) and not one.choices}
    told = "say SAID or BESIDE of what a redaction erases; what is nobody's words goes to KEPT here"
    assert texts - {*erased(table)} == {*KEPT.get(table, "").split()}, told


def names_of(schemas: Iterable[Any]) -> set[str]:
    return {str(field.validation_alias or name) for one in schemas for name, field in one.model_fields.items()}


@pytest.mark.parametrize("table", SCHEMAS, ids=lambda table: table.__name__)
def test_the_api_has_what_clients_are_shown(table: type[models.Model]) -> None:
    """A schema has types, examples and descriptions, so it is written by hand."""
    shown, columns = names_of(SCHEMAS[table]), {field.attname for field in table._meta.concrete_fields}
    shown |= {"parent_message_id"} if "parent_id" in shown else set()
    shown |= {"content"} if "text" in shown else set()
    told = f"{[schema.__name__ for schema in SCHEMAS[table]]} in api/ have what is said to be the client's"
    assert shown & columns - {"id"} == {*names(table, client=True)} - {"id"}, told


def test_clients_write_what_is_exported() -> None:
    """But for what comes with a reply as its provider sent it, and for the time."""
    ours = {"created_at", "original", "finish_reason"}
    assert {*names(ChatMessage, exported=True)} - ours <= names_of([messages.MessageIn]), (
        "MessageIn has what POST takes"
    )


#: Words beside what a message says: with nothing else it is empty, and its ``original`` is read all the same.
NOT_CONTENTS = {"name", "metadata"}


def test_a_message_dict_has_the_keys_that_are_exported() -> None:
    """It is typed for hosts; what is read as said is what is said, but for what is kept beside it."""
    exported = {*names(ChatMessage, exported=True)}
    told = "MessageFields in values.py has the types of what is exported, and append_message's docstring tells of it"
    assert set(MessageFields.__annotations__) == exported, told
    said = {*names(ChatMessage, exported=True, said=True)} - NOT_CONTENTS
    told = "Contents in values.py has what an original may be read for; what is beside that goes to NOT_CONTENTS here"
    assert set(Contents.__annotations__) == said, told


def test_an_import_reads_all_that_is_exported_of_a_session() -> None:
    assert {*names(ChatSession, exported=True)} <= {one.name for one in fields(Conversation)}


MARK = "Rosa Keller"
WORDS = [one for one in ChatMessage._meta.concrete_fields if isinstance(one, TEXTS) and not one.choices]


def holding(field: models.Field[Any, Any], text: str) -> Any:
    """A value of the column with a text in it."""
    if not isinstance(field, models.JSONField):
        return text
    one = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}, "note": text}
    return [one] if field.name in ("tool_calls", "attachments") else one


def stored_with(field: models.Field[Any, Any], role: str = "user") -> ChatMessage:
    """A message that has the mark in a column, past all that would refuse it."""
    message = chat.append_message(chat.start_session(), None, role=role, content="Hello")
    ChatMessage.objects.filter(pk=message.pk).update(**{field.name: holding(field, MARK)})
    return message


@pytest.mark.few
@pytest.mark.parametrize("field", WORDS, ids=lambda field: field.name)
def test_a_text_is_found_and_erased_in_each_column_that_a_redaction_changes(field: models.Field[Any, Any]) -> None:
    message = stored_with(field)
    found = chat.redact_text(message.session, MARK)
    is_erased = field.name in erased(ChatMessage)
    assert [one.places for one in found.messages] == [(field.name,)] * is_erased
    message.refresh_from_db()
    assert (MARK in str(getattr(message, field.name))) is not is_erased


@pytest.mark.parametrize("field", WORDS, ids=lambda field: field.name)
def test_a_copy_has_what_is_copied_and_of_the_rest_nothing(field: models.Field[Any, Any]) -> None:
    copied = chat.copy_branch(stored_with(field)).messages.get()
    is_copied = field.name in names(ChatMessage, copied=True)
    assert getattr(copied, field.name) == (holding(field, MARK) if is_copied else field.get_default())


@pytest.mark.parametrize("field", WORDS, ids=lambda field: field.name)
def test_an_export_has_what_is_exported(field: models.Field[Any, Any]) -> None:
    exported = document_of(stored_with(field).session)["messages"][0]
    assert (MARK in str(exported)) == (field.name in names(ChatMessage, exported=True))


@pytest.mark.parametrize("field", WORDS, ids=lambda field: field.name)
def test_no_text_and_no_json_takes_a_nul(field: models.Field[Any, Any]) -> None:
    row = {"role": "assistant", "content": "", "tool_calls": None} | {field.name: holding(field, "\0")}
    row |= {"role": "tool"} if field.name == "tool_call_id" else {}
    with pytest.raises(InvalidMessage, match="NUL") as refused:
        validate_message(row, checks_of(ChatMessage), max_bytes=10_000)
    assert refused.value.field == field.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_lists_read_no_long_column(table: type[models.Model]) -> None:
    long = {one.name for one in table._meta.concrete_fields if isinstance(one, models.TextField | models.JSONField)}
    read = {"tool_call_id", "payload"}
    assert {*names(table, listed=False)} == long - read
