"""benchmarks/speed: its conversations are what the app would have stored, its figures name the machine they are of."""

import pytest
from django.core.management import call_command

from benchmarks.speed import pages, report, results, tables
from benchmarks.speed.measure import Timing
from compaction_app import chat
from compaction_app.models import ChatMessage


@pytest.mark.django_db
@pytest.mark.parametrize("branches", [1, 5])
def test_a_grown_conversation_is_one(branches):
    tip = tables.grow(200, branches)
    assert len(chat.get_branch(tip)) == 200
    assert len(chat.tips(tip.session)) == branches
    assert len(chat.get_context(tip).messages) == 64
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.append_message(tip.session, tip, role="user", content="Next.").depth == 201
    assert len(chat.get_context(tables.grow(200, has_summary=False)).messages) == 200


@pytest.mark.django_db
def test_a_conversation_of_the_pages_is_one():
    tip = pages.fill(2_400)
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.find_summary(tip) is not None
    assert ChatMessage.objects.filter(session=tip.session_id, kind="message").count() == 2_400
    stored = tables.stored_bytes()
    assert stored["messages"] == ChatMessage.objects.count()
    assert stored["table_bytes"] > stored["text_bytes"] > 100_000


@pytest.mark.pure
def test_each_timing_keeps_the_machine_that_measured_it(tmp_path):
    machine = {"cpu_count": 2, "python_version": "3.11.7"}
    measured = {"database": "SQLite", "size": 100, "branches": 1, "system": "this app", "counted": {"statements": 2}}

    def timing(call, day, values=(1.0, 2.0, 3.0)):
        return Timing(**measured, call=call, values=list(values), machine={**machine, "date": day})

    results.save([timing("read", "2026-11-01"), timing("turn", "2026-11-01")], tmp_path / "1.json")
    merged = results.merge(results.load(tmp_path / "1.json"), [timing("read", "2026-11-02", (4.0, 5.0, 6.0))])
    results.save(merged, tmp_path / "2.json")
    stored = results.load(tmp_path / "2.json")
    assert {one.call: (one.machine["date"], one.median) for one in stored} == {
        "turn": ("2026-11-01", 2.0),
        "read": ("2026-11-02", 5.0),
    }
    assert "Measured on 2026-11-01, 2026-11-02: 2 processors" in report.describe(stored)
    assert stored[0].counted == {"statements": 2}


@pytest.mark.pure
def test_the_settings_of_commits_are_the_same_for_all_systems_of_a_database():
    said = report.durability(results.load(report.FOLDER / "results.json"))
    assert said == (
        "SQLite with `journal_mode` wal, `synchronous` 1; "
        "PostgreSQL with `fsync` on, `synchronous_commit` off, `full_page_writes` off"
    )
    assert said in (report.FOLDER / "README.md").read_text()
