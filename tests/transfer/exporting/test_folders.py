"""Where bundles are written, and from which database."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import connection

from compaction_app import chat
from compaction_app.exceptions import BundleError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.transfer.bundles import new_folder, read_bundle
from compaction_app.transfer.export import safe_name
from tests.transfer.bundling import Export, export, export_checked, run, site, talk, tell_key

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)


class TestFolders:
    def test_titles_become_folders_on_any_system(self):
        assert safe_name("Ein Garten: Übersicht / Planung") == "Ein-Garten-Übersicht-Planung"
        assert safe_name("../../etc/passwd\x00\n") == "etc-passwd"
        assert safe_name("庭園の計画 हिन्दी") == "庭園の計画-हिन्दी"
        assert safe_name("e\u0301te\u0301") == "été"
        assert safe_name(" . ") == safe_name("") == safe_name('/\\:*?"<>|') == "untitled"
        assert len(safe_name("long " * 100)) <= 50

    def test_equal_titles_are_numbered(self, server, tmp_path):
        for _ in range(2):
            chat.compact(talk(chat.start_session(title="a/b"), None, 7)[-1])
        exported = export(tmp_path / "out")
        assert sorted(path.name for path in exported.folder.iterdir()) == ["001-a-b", "002-a-b", "index.json"]

    @pytest.mark.long
    def test_one_session_and_only_long_ones(self, server, tmp_path):
        short, long = chat.start_session(title="short"), chat.start_session(title="long")
        chat.compact(talk(short, None, 7)[-1])
        chat.compact(talk(long, None, 9)[-1])
        assert [e["title"] for e in export(tmp_path / "a", "--min-messages", 15).index["summaries"]] == ["long"]
        both = export(tmp_path / "b", "--min-messages", 14, "--json")
        assert (json.loads(both.out), len(both.bundles)) == (both.index, 2)
        assert (both.index["bundles"], both.index["not_rebuilt"]) == (2, 0)
        assert [e["title"] for e in export(tmp_path / "c", "--session", short.pk).index["summaries"]] == ["short"]

    def test_nothing_is_replaced(self, server, session, tmp_path):
        chat.compact(talk(session, None, 7)[-1])
        out = tmp_path / "out"
        out.mkdir()
        export(out)
        before = tree(out)
        for taken, said in ((out, "is not empty"), (out / "index.json", "Not a directory")):
            with pytest.raises(CommandError, match=said) as caught:
                run("export_compactions", "--out", taken)
            assert caught.value.returncode == 2
        assert tree(out) == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_nothing_half_written_is_left(self, tmp_path):
        def fail() -> None:
            with new_folder(tmp_path / "out") as folder:
                (folder / "part").write_text("half")
                raise BundleError("no")

        with pytest.raises(BundleError):
            fail()
        assert list(tmp_path.iterdir()) == []

    def test_it_is_readable_by_its_owner_alone(self, session, tmp_path):
        folder = export(tmp_path / "out").folder
        assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.rglob("*.*")))

    def test_a_session_or_database_that_is_not_there(self, tmp_path):
        for arguments in (("--session", uuid4()), ("--database", "nowhere")):
            with pytest.raises(CommandError) as caught:
                run("export_compactions", "--out", tmp_path / "out", *arguments)
            assert caught.value.returncode == 2
        assert not (tmp_path / "out").exists()


@pytest.mark.pure  # a SQLite file is read alike beside any other database
class TestFile:
    @pytest.fixture
    def exported(self, server, session, tmp_path) -> Export:
        chat.compact(talk(session, None, 7)[-1])
        return export(tmp_path / "expected")

    def copy(self, folder: Path) -> Path:
        """As a copied file is that was written with a log beside it."""
        folder.mkdir()
        path = folder / "copy of it.sqlite3"
        with sqlite3.connect(connection.settings_dict["NAME"]) as source, sqlite3.connect(path) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode=wal")
        source.close()
        target.close()
        return path

    @pytest.fixture(autouse=True)
    def unknown_databases(self, django_db_blocker) -> Iterator[None]:
        """May be opened: Django's test case forbids those that it does not know."""
        with django_db_blocker.unblock():
            yield

    def test_a_copy_is_read_and_not_written(self, exported, tmp_path):
        path = self.copy(tmp_path / "copies")
        before = hashlib.sha256(path.read_bytes()).digest()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            again = export(tmp_path / "again", "--database", path)
        finally:
            path.parent.chmod(0o755)
        assert tree(again.folder) == tree(exported.folder)
        assert [found.name for found in path.parent.iterdir()] == [path.name]
        assert hashlib.sha256(path.read_bytes()).digest() == before

    def test_a_log_that_was_copied_along_is_read(self, exported, session, tmp_path):
        """The newest rows stand in the log only."""
        path = self.copy(tmp_path / "copies")
        writer = sqlite3.connect(path)
        writer.execute("UPDATE compaction_app_chatsession SET title = 'changed'")
        writer.commit()
        log = path.with_name(f"{path.name}-wal")
        before = log.read_bytes(), path.read_bytes()
        again = export(tmp_path / "again", "--database", path)
        assert (log.read_bytes(), path.read_bytes()) == before
        assert [entry["title"] for entry in again.index["summaries"]] == ["changed"]
        writer.close()

    def test_a_file_of_another_program(self, tmp_path):
        text, path = tmp_path / "text.sqlite3", tmp_path / "other.sqlite3"
        text.write_text("no database")
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE notes (text)")
        other.close()
        for file, said in ((text, "file is not a database"), (path, "no such table")):
            with pytest.raises(CommandError, match=said) as caught:
                run("export_compactions", "--out", tmp_path / "out", "--database", file)
            assert caught.value.returncode == 2
        assert not (tmp_path / "out").exists()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Compacting calls a model, which no open transaction may wait for.


class TestChanged:
    @pytest.fixture
    def redacted(self, server, session, settings) -> ChatMessage:
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.bundling.hide_keys")
        return tell_key(session)

    def test_another_redactor(self, server, redacted, tmp_path, settings):
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.bundling.hide_keys_otherwise")
        exported = export(tmp_path / "out")
        assert exported.code == 0
        assert "[a key]" in (exported.bundles[0] / "user-message.md").read_text()

    def test_without_the_redactor_nothing_is_shown(self, server, redacted, tmp_path, settings):
        settings.COMPACTION = site(server)
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.bundles, exported.code) == (["redactor_missing"], [], 1)

    def test_the_redactor_is_never_one_that_a_row_names(self, server, redacted, tmp_path, settings):
        """Rows may be a file from elsewhere, and what they name would be run."""
        settings.COMPACTION = site(server)
        made = CompactionRun.objects.get()
        made.settings["REDACTOR"] = "os.system"
        made.save()
        assert export(tmp_path / "out").reasons == ["redactor_missing"]

    @pytest.mark.long
    def test_a_copy_has_no_compaction_of_its_own(self, server, session, tmp_path):
        messages = talk(session, None, 8)
        chat.compact(messages[-1])
        chat.copy_branch(messages[-1])
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.code) == ([""], 0)

    def test_a_row_and_a_bundle_of_earlier_versions_have_more_keys(self, server, session, tmp_path):
        run = chat.compact(talk(session, None, 8)[-1])
        CompactionRun.objects.filter(pk=run.pk).update(request={**run.request, "digest": "0" * 64})
        exported = export_checked(server, tmp_path / "out")
        path = exported.bundles[0] / "metadata.json"
        path.write_text(json.dumps({**exported.metadata(0), "proof": "proved"}))
        assert read_bundle(exported.bundles[0]).written


class TestErased:
    def two_generations(self, session: ChatSession) -> list[ChatMessage]:
        first = talk(session, None, 6)
        chat.compact(first[-1])
        second = talk(session, first[-1], 6)
        chat.compact(second[-1])
        return [*first, *second]

    @pytest.mark.parametrize(("erase", "reason"), [(chat.redact_message, "redacted"), (chat.delete_message, "deleted")])
    def test_the_earlier_ones_are_left_and_of_the_others_the_record(self, server, session, tmp_path, erase, reason):
        messages = self.two_generations(session)
        erase(messages[12])
        # A redaction asks for the compaction that is needed then: a third run, without a generation.
        first, second = CompactionRun.objects.exclude(generation=None).order_by("generation")
        # Of earlier versions it has a digest, by which a short text could be guessed.
        assert (second.request, first.request["tightened"]) == ({}, False)
        exported = export(tmp_path / "out")
        assert exported.reasons == ["", reason]
        assert [path.name for path in exported.bundles] == ["compaction-001"]
        assert exported.code == 0, "as it should be"
        summary = exported.index["summaries"][1]["summary"]
        assert (summary is None) is (reason == "deleted")
        assert f"not rebuilt: compaction 2 of session {messages[0].session_id}: {reason}" in exported.out

    def test_nothing_of_it_is_written(self, server, session, tmp_path):
        messages = self.two_generations(session)
        chat.redact_message(messages[0])
        exported = export(tmp_path / "out")
        assert exported.reasons == ["redacted", "redacted"]
        assert [path.name for path in exported.folder.rglob("*")] == ["index.json"]

    def test_a_summary_that_was_written_of_an_erased_one_is_not_shown_as_if_of_none(self, server, session, tmp_path):
        """The text was in the first summary alone, of which the second one says nothing: that stays in use."""
        messages = self.two_generations(session)
        first, second = session.messages.summaries().order_by("pk")
        type(first).objects.filter(pk=first.pk).update(content="Anna lives in Husum.")
        chat.redact_text(messages[0].session, "Husum")
        second.refresh_from_db()
        assert second.redacted_at is None
        assert export(tmp_path / "out").reasons == ["redacted", "redacted"]
