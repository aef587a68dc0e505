"""A database with rows of an earlier version is migrated, read and compacted; no landed migration is edited.

The rows were written by that version's own code: see ``record.py``.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.core.management.color import no_style
from django.db import connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from compaction_app import chat, migrations, models
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tree.verify import verify_session
from tests.databases import second_database
from tests.upgrades.record import MODELS, SETTINGS, shown_at

APP = "compaction_app"
RECORDED = sorted(Path(__file__).parent.glob("*.json"))


@pytest.fixture
def old_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    with second_database("old", django_db_blocker, migrated=False) as alias:
        yield alias


def migrate(target: str | None, database: str) -> None:
    call_command("migrate", APP, *[target] if target else [], database=database, verbosity=0)


def values_of(model: Any, row: dict[str, Any]) -> dict[str, Any]:
    """A recorded row as attributes of the model."""
    fields = {field.name: field for field in model._meta.concrete_fields} | {"pk": model._meta.pk}
    return {fields[name].attname: fields[name].to_python(value) for name, value in row.items()}


def insert(recorded: dict[str, Any], database: str) -> None:
    """Insert the rows with the models of their own migration, as an SQL dump would."""
    connection = connections[database]
    old = MigrationExecutor(connection).loader.project_state((APP, recorded["migration"])).apps
    inserted = [old.get_model(APP, name) for name in MODELS]
    # A message may refer to a later one; the constraints are checked at the commit.
    with transaction.atomic(using=database):
        for model in inserted:
            rows = recorded["rows"][model.__name__]
            model._base_manager.using(database).bulk_create(model(**values_of(model, row)) for row in rows)
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), inserted):
                cursor.execute(statement)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_database_of_an_earlier_version(file: Path, old_database: str, settings: Any) -> None:
    settings.COMPACTION = SETTINGS["COMPACTION"]
    recorded = json.loads(file.read_text())
    migrate(recorded["migration"], old_database)
    insert(recorded, old_database)

    migrate(None, old_database)

    for name in MODELS:
        model = getattr(models, name)
        stored = model._base_manager.using(old_database).in_bulk()
        for row in recorded["rows"][name]:
            expected = values_of(model, row)
            kept = stored.pop(expected["id"])
            assert {key: getattr(kept, key) for key in expected} == expected
        assert not stored
    for session in models.ChatSession.objects.using(old_database):
        assert not verify_session(session).problems
    tip = ChatMessage.objects.using(old_database).get(pk=recorded["tip"])
    assert shown_at(tip) == recorded["shown"]

    before = chat.find_summary(tip)
    for number in range(8):
        tip = chat.append_message(tip.session, tip, role="user", content=f"The pier has {number} new planks. " * 8)
        tip = chat.append_message(tip.session, tip, role="assistant", content=f"Planks counted: {number}. " * 8)
    assert chat.compact(tip).status == "succeeded"
    after = chat.find_summary(tip)
    assert before is not None
    assert after is not None
    assert after.pk != before.pk
    # An earlier summary's words are read on: the keeper's rule is older than all of them.
    assert "Never open the gallery door in a storm" in after.content
    assert not CompactionRun.objects.using(old_database).filter(status="failed").exists()


@pytest.mark.long
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_every_migration_can_be_undone(file: Path, old_database: str) -> None:
    recorded = json.loads(file.read_text())
    migrate(recorded["migration"], old_database)
    insert(recorded, old_database)
    migrate(None, old_database)
    migrate("zero", old_database)
    tables = connections[old_database].introspection.table_names()
    assert not [name for name in tables if name.startswith(APP)]


@pytest.mark.long
def test_copies_are_known_by_the_first_one_afterwards(old_database: str) -> None:
    migrate(None, old_database)
    first = chat.start_session(using=old_database)
    branch = chat.append_messages(first, None, [{"role": "user", "content": f"{n}"} for n in range(3)])
    fork = chat.append_message(first, branch[0], role="user", content="beside")
    copy = chat.copy_branch(branch[2])
    own = chat.append_message(copy, chat.get_branch(chat.tips(copy)[0])[1], role="user", content="own")
    chat.copy_branch(chat.tips(chat.copy_branch(own))[0])
    chat.copy_branch(fork)
    rows = ChatMessage.objects.using(old_database).order_by("pk").values_list("pk", "copy_of")
    before = list(rows)
    assert len({first for _, first in before}) == 6
    migrate("0001", old_database)
    migrate(None, old_database)
    assert list(rows.all()) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("app", "newest"),
    [
        (APP, "0007_pins"),
        *(pytest.param(app, "0001_initial", marks=pytest.mark.long) for app in (APP, "compaction_gateway")),
    ],
)
def test_an_early_state_of_the_main_branch_is_refused(app: str, newest: str, old_database: str) -> None:
    """Django would find nothing to migrate: it takes 0001 for what was applied under that name."""
    migrate("0001", old_database)
    call_command("migrate", app, "0001", database=old_database, verbosity=0, skip_checks=False)
    recorded = MigrationRecorder(connections[old_database]).migration_qs.filter(app=app)
    recorded.filter(name__gt=newest).delete()
    with pytest.raises(
        SystemCheckError, match=rf"E025.*{app} before.* without 000\d_\w+\.\n.*HINT: Install the last state"
    ):
        call_command("migrate", app, database=old_database, verbosity=0, skip_checks=False)
    assert recorded.count() == int(newest[:4])


#: File → SHA-256. A new migration is added here together with its file.
LANDED = {
    "0001_initial.py": "79ee1582e0b0cbad1f4b638c665245de69725737275a19de89c1b614b59c91f2",
    "0002_copies_of_copies.py": "30b9e4e113e5a2dc1d69b7fb1747c6c5a20d460c5ddb84be3f204e7c31b4a8b7",
    "0003_contents_of_sessions.py": "cf5e073de488bcc2f6c64245b41387eb1561085bfffc91295fa0b5d793fc0930",
    "0004_rows_of_hosts.py": "29a8df5a3cc5cf4f872a92683de1af2b0aba8915c88dab715db6bdec19e2b554",
    "0005_working_memory.py": "19525b77ef3aee373264aeb6b70a46c3fc3fb041c023d5a0106c27d696053933",
    "0006_written_by_people.py": "8c9178f690ddb827d97897e732e0611a3f64ccf8d3a8c78ccaeb311940e75596",
    "0007_handed_over.py": "89d9be783a7c8ff5869271e442519ae890088a793d931f5db150ece415642a33",
    "0008_carry_over.py": "86d09f0653c78aa4f9c33c669cabd5ebf08e96e6a56f9d514f6cf8dd8abfa6aa",
}


@pytest.mark.pure
def test_no_landed_migration_was_edited() -> None:
    """Databases that ran it would differ from new ones."""
    folder = Path(migrations.__file__).parent
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("[0-9]*.py"))}
    new = {name: digest for name, digest in found.items() if name not in LANDED}
    assert new == {}, "add what is new to LANDED; once it is on main, write another migration instead of changing it"
    assert found == LANDED, "these are on main: write another migration instead of changing them"
