"""What the database itself keeps, whatever code writes to it; and what the models say of themselves."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from compaction_app import chat
from compaction_app.exceptions import ConfigurationError, ImmutableTree, InvalidMessage
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import Kind, Role, RunStatus, Trigger
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db

TABLES: tuple[type[models.Model], ...] = (ChatSession, ChatMessage, CompactionRun)


def insert(**fields: Any) -> None:
    """A message written past the manager and the model, as another program would."""
    ChatMessage.objects.bulk_create([ChatMessage(**{"role": Role.USER, "sib_order": 90} | fields)])


def insert_run(session: ChatSession, **fields: Any) -> None:
    CompactionRun.objects.bulk_create([CompactionRun(session=session, **{"trigger": Trigger.MANUAL} | fields)])


def adopt(**fields: Any) -> None:
    ChatSession.objects.bulk_create([ChatSession(external_id="adopted", **fields)])


def change(message: ChatMessage, **fields: Any) -> None:
    ChatMessage.objects.filter(pk=message.pk).update(**fields)


class Given:
    """Two messages, a live summary, an open run: the rows that the forbidden writes collide with."""

    def __init__(self) -> None:
        self.session = start_session(external_id="adopted", owner=get_user_model().objects.create(username="owner"))
        start_session(external_id="adopted")
        self.root, self.child = chain(self.session, 2)
        change(self.child, external_id="x1", idempotency_key="k1")
        self.summary = summarize(self.child, self.root)
        self.summary_fields = {
            "session": self.session,
            "parent": self.child,
            "kind": Kind.SUMMARY,
            "last_summarized_message": self.root,
        }
        insert_run(self.session, anchor=self.child, generation=1, status=RunStatus.RUNNING)


#: Constraint → what it refuses.
FORBIDDEN: dict[str, dict[str, Callable[[Given], None]]] = {
    "compaction_summary_has_cutoff": {
        "a summary without a cutoff": lambda g: change(g.summary, last_summarized_message=None),
        "a message with a cutoff": lambda g: change(g.child, last_summarized_message=g.root),
        "a kind that does not exist": lambda g: change(g.child, kind="note"),
    },
    "compaction_summary_is_plain_text": {
        "reasoning that is JSON null": lambda g: change(g.summary, reasoning=models.Value(None, models.JSONField())),
        "a summary with tool calls": lambda g: change(g.summary, tool_calls=[{}]),
        "a summary with the system's voice": lambda g: change(g.summary, role=Role.SYSTEM),
        "a summary without an anchor": lambda g: change(g.summary, parent=None),
    },
    "compaction_known_role": {"a role that does not exist": lambda g: change(g.child, role="robot")},
    "compaction_depth_from_one": {"a depth of 0": lambda g: change(g.child, depth=0)},
    "compaction_sibling_order": {
        "two children in one place": lambda g: insert(session=g.session, parent=g.root, sib_order=1)
    },
    "compaction_root_order": {"two roots in one place": lambda g: insert(session=g.session, sib_order=1)},
    "compaction_one_live_summary": {"a second live summary": lambda g: insert(**g.summary_fields)},
    "compaction_message_external_id": {"adopted twice": lambda g: insert(session=g.session, external_id="x1")},
    "compaction_idempotency_key": {"sent twice": lambda g: insert(session=g.session, idempotency_key="k1")},
    "compaction_session_external_id": {"adopted twice by its owner": lambda g: adopt(owner=g.session.owner)},
    "compaction_ownerless_external_id": {"adopted twice without an owner": lambda g: adopt()},
    "compaction_one_open_run": {"a second open run": lambda g: insert_run(g.session, anchor=g.child)},
    "compaction_generation": {"a generation twice": lambda g: insert_run(g.session, generation=1, status="succeeded")},
    "compaction_known_status": {"a status that does not exist": lambda g: insert_run(g.session, status="zombie")},
    "compaction_success_has_generation": {"a success without one": lambda g: insert_run(g.session, status="succeeded")},
}


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, writes in FORBIDDEN.items() for what in writes])
def test_the_database_refuses(name: str, what: str) -> None:
    """The rules that two workers could break together are kept below the models, each by a constraint."""
    rows = Given()
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        FORBIDDEN[name][what](rows)
    if connection.vendor == "postgresql":
        assert caught.value.__cause__.diag.constraint_name == name  # type: ignore[union-attr]  # psycopg's own error
    else:
        # SQLite names a check that failed, of a unique constraint only its columns.
        assert str(caught.value).startswith((f"CHECK constraint failed: {name}", "UNIQUE constraint failed: "))


def test_every_declared_constraint_is_in_the_database_and_proved_here() -> None:
    declared = {constraint.name for model in TABLES for constraint in model._meta.constraints}
    assert set(FORBIDDEN) == declared
    with connection.cursor() as cursor:
        present = {
            name for model in TABLES for name in connection.introspection.get_constraints(cursor, model._meta.db_table)
        }
    assert declared <= present


def test_the_migrations_are_up_to_date() -> None:
    call_command("makemigrations", "compaction_app", "stock_tree", check=True, dry_run=True, verbosity=0)


def test_the_parent_has_one_column_and_three_names() -> None:
    """``parent``, ``parent_message_id`` and treebeard's ``parent_id`` are one; queries take the first two."""
    root, child = chain(start_session(), 2)
    assert ChatMessage._meta.get_field("parent").column == "parent_message_id"
    assert child.parent_id == child.parent_message_id == child.parent.pk == root.pk
    child.parent_id = None
    assert child.parent_message_id is None
    found = ChatMessage.objects.filter(parent=root), ChatMessage.objects.filter(parent_message_id=root.pk)
    assert [query.get() for query in found] == [child, child]
    assert ChatMessage(parent_message_id=root.pk).parent == ChatMessage(parent_id=root.pk).parent == root


def test_names_of_rows_never_show_what_was_said() -> None:
    """``str()`` ends up in logs, error pages and breadcrumbs."""
    session = start_session(title="")
    root = ChatMessage.objects.add_root({"session": session, "role": "user", "content": "secret"})
    summary = summarize(root, root, content="secret recap")
    run = CompactionRun.objects.create(
        session=session, trigger=Trigger.MANUAL, instructions="secret", error_detail="secret"
    )
    event = CompactionEvent.objects.create(session=session, kind="started")
    assert [str(row) for row in (session, root, summary, run, event)] == [
        f"Session {session.pk}",
        f"Message {root.pk} (user)",
        f"Summary {summary.pk} up to message {root.pk}",
        f"Run {run.pk} (waiting)",
        f"Event {event.pk} (started)",
    ]
    assert "secret" not in repr([session, root, summary, run, event])


def test_runs_that_wait_are_found_by_their_own_index() -> None:
    """The sweep asks for them every half minute, and finished runs only become more."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # An empty table is read whole for good reasons.
            cursor.execute("SET LOCAL enable_seqscan = off")
    for runs in (CompactionRun.objects.open(), CompactionRun.objects.claimable(timezone.now())):
        # One of the two that hold open runs only.
        assert re.search("compaction_(one_open_run|open_runs)", runs.explain())


def test_overrides_are_validated_when_a_session_is_saved() -> None:
    """What may be wrong with them is in ``tests/test_conf.py``."""
    overrides = {"TRIGER_RATIO": 0.5}
    with pytest.raises(ConfigurationError) as caught:
        start_session(settings=overrides)
    assert caught.value.problem_id == "compaction_app.E002"
    session = start_session()
    session.settings = overrides
    with pytest.raises(ConfigurationError):
        session.save(update_fields=["settings"])
    assert ChatSession.objects.get().settings == {}
    with pytest.raises(ValidationError) as shown:
        ChatSession(settings=overrides).full_clean()
    assert list(shown.value.message_dict) == ["settings"], "a form shows it at its field"


def test_other_fields_are_saved_whatever_the_settings_have_become() -> None:
    """A key that a new release no longer knows must not stop a conversation's title from being written."""
    session = start_session()
    ChatSession.objects.filter(pk=session.pk).update(settings={"GONE": 1})
    session.refresh_from_db()
    session.title = "Plants"
    session.save(update_fields=["title"])
    assert ChatSession.objects.get().title == "Plants"


@pytest.mark.parametrize(
    ("field", "value"), [("system_prompt", "a\ud800"), ("title", "x" * 256), ("metadata", {"\x00": float("nan")})]
)
def test_what_one_database_refuses_no_session_is_saved_with(field: str, value: Any) -> None:
    """SQLite would take these and PostgreSQL would not; here neither gets them."""
    with pytest.raises(InvalidMessage) as caught:
        start_session(**{field: value})
    assert caught.value.field == field
    assert not ChatSession.objects.exists()


def test_a_message_is_stored_and_changed_by_the_doors_of_this_app_only():
    """A host's own save() left the budget without its tokens, or raised an IntegrityError."""
    session = start_session()
    for create in (
        lambda: session.messages.create(role=Role.USER, content="Hello."),
        lambda: ChatMessage.objects.create(session=session, role=Role.USER),
        ChatMessage(session=session, role=Role.USER).save,
    ):
        with pytest.raises(ImmutableTree, match=r"Use chat\.append_message"):
            create()
    message = chat.append_message(session, role="user", content="Hello.")
    message.content = "Goodbye."
    for change in (message.save, partial(message.save, update_fields=["content"])):
        with pytest.raises(ImmutableTree, match=r"never changed.*chat\.redact_message"):
            change()
    assert [row.content for row in session.messages.all()] == ["Hello."]


def test_fixtures_are_loaded_as_they_are(tmp_path):
    message = chat.append_message(start_session(), role="user", content="Hello.")
    fixture = tmp_path / "chats.json"
    call_command("dumpdata", "compaction_app.chatsession", "compaction_app.chatmessage", output=str(fixture))
    message.session.delete()
    call_command("loaddata", str(fixture), verbosity=0)
    assert ChatMessage.objects.get().content == "Hello."
