"""A database with rows of an earlier version is migrated, read and compacted; no landed migration is edited.

The rows were written by that version's own code: see ``record.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connections, transaction
from django.db.migrations.executor import MigrationExecutor

from compaction_app import chat, migrations, models
from compaction_app.conf import find_session_error, settings_from_snapshot
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tree.verify import verify_session
from tests.databases import second_database
from tests.upgrades.record import MODELS, SETTINGS, shown_at

named_summarizers = import_module("compaction_app.migrations.0004_named_summarizers")

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
            if name == "CompactionRun":
                expected["settings"] = named_summarizers.of_run(expected["settings"])
                read = settings_from_snapshot(kept.settings)
                assert read.summarizer_entry.backend == row["settings"]["SUMMARIZER"]
            assert {key: getattr(kept, key) for key in expected} == expected
        assert not stored
    for session in models.ChatSession.objects.using(old_database):
        assert not verify_session(session, using=old_database).problems
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
    migrate("0011_pairs_of_korean_signs", old_database)
    migrate(None, old_database)
    assert list(rows.all()) == before


OURS = {"model": "ours", "base_url": "http://10.0.0.7/v1", "api_key_env": "OUR_KEY"}
#: As version 0.1 stored it, without the keys that are the same now.
OLD_RUN: dict[str, Any] = {
    "MODE": "standard",
    "CONTEXT_WINDOW": 9_000,
    "CONTEXT_WINDOWS": {"house-": 32_000},
    "TRIGGER_RATIOS": {"house-": 0.6},
    "PRICES": {"ours": {"input": 0.2, "output": 1.25}},
    "SUMMARIZER": "compaction_app.summarizers.OpenAISummarizer",
    "SUMMARIZER_MODELS": [OURS, "second"],
    "SUMMARIZER_CHAT_MODELS": [{"model": "gpt-4o", "base_url": "http://10.0.0.8/v1"}],
    "SUMMARIZER_TIMEOUT": 45,
    "SUMMARIZER_MAX_OUTPUT_TOKENS": 900,
    "SUMMARY_PROMPT": "Write short.",
    "SUMMARIZERS": {"private": {"SUMMARIZER_MODELS": [OURS]}},
    "SUMMARIZER_NAME": "private",
    "COVERAGE_RATIO": 0.7,
}


@pytest.mark.pure
def test_a_waiting_run_asks_whom_it_would_have_asked() -> None:
    read = settings_from_snapshot(named_summarizers.of_run(OLD_RUN))
    entry = read.summarizer_entry
    assert read.summarizer.name == "private"
    assert [(one.model, one.base_url, one.api_key_env) for one in entry.models] == [
        ("ours", "http://10.0.0.7/v1", "OUR_KEY"),
        ("second", None, None),
    ]
    assert [(one.model, one.base_url) for one in entry.chat_models] == [("gpt-4o", "http://10.0.0.8/v1")]
    assert (entry.timeout, entry.max_output_tokens, entry.prompt) == (45, 900, "Write short.")
    assert (read.stated("window"), read.stated("trigger_ratio")) == ({"house-": 32_000}, {"house-": 0.6})
    assert str(read.stated("price")["ours"].output) == "1.25"


@pytest.mark.pure
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"SUMMARIZER_NAME": "private", "MODE": "aggressive"}, {"SUMMARIZER": "private", "MODE": "aggressive"}),
        (
            {"SUMMARIZER_NAME": "private", "SUMMARIZER_TIMEOUT": 9, "SUMMARY_PROMPT": "Auf Deutsch."},
            {"SUMMARIZER": {"NAME": "private", "TIMEOUT": 9, "PROMPT": "Auf Deutsch."}},
        ),
    ],
)
def test_a_session_keeps_what_it_chose(settings: Any, old: Any, new: Any) -> None:
    settings.COMPACTION = {"SUMMARIZERS": {"private": {"MODELS": [OURS]}}}
    assert named_summarizers.of_session(old) == new
    assert find_session_error(new) is None


#: File → SHA-256. A new migration is added here together with its file.
LANDED = {
    "0001_initial.py": "195973bd8c49dca5531f591420806f983d1877ee55555d862a4a801f8c8ddcc6",
    "0002_model_failed_event.py": "df822d506e90490ded7ea771f5ee1d95c3db5dd26db357c65d5fe48d879c3d8d",
    "0003_originals.py": "93e58839f92bfd8627d43455f14ab0753f282c25ab190efbf83ab745062af4db",
    "0004_named_summarizers.py": "f140fe735a16f88879f4f501eccaee2692360f350585548bbfcfe26591c6fa8b",
    "0005_names.py": "37bb36f6815bd1b74d7e6decfb2c1356a77b042212eb55b119bb095707d5761b",
    "0006_extracts.py": "591be8cd932f008b51e8e6c739c71dd2d65b6c90a01034c15e1c2f01271e4e7f",
    "0007_pins.py": "e78c8c6be74c410d62fe368abbfe279e1f79f2478e82033758be04780ba60406",
    "0008_search_entries.py": "03cac453c70a33f71b23b23c0a247b15b4dc1f2b6e7067b09ee039837af45aef",
    "0009_copies.py": "f5dff422dfca996e47af686e526b526b610076026a99764384669d05f128b189",
    "0010_other_search_words.py": "deec2a350261e3fd1e46bd22a213ed5d829561d5d9c78764c31e01fb4574403d",
    "0011_pairs_of_korean_signs.py": "aab1e0fe47d8df1f2824990ce4fa47a1db8cfa6a4fe8325fc1b0ef24fe140a93",
    "0012_copies_of_copies.py": "def4859984170ba5b625f16e1a77b9ec3ee08dcb084b2c9c02bbeea4bde10d77",
    "0013_contents_of_sessions.py": "7fd7eba4bafce3a50d05309d05c109ac2c108b2bfdf4b7b1c1811b401c2e94b8",
}


@pytest.mark.pure
def test_no_landed_migration_was_edited() -> None:
    """Databases that ran it would differ from new ones."""
    folder = Path(migrations.__file__).parent
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("[0-9]*.py"))}
    assert found == LANDED
