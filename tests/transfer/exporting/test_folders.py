"""Where bundles are written, and from which database."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import connection

from compaction_app import chat
from compaction_app.exceptions import BundleError
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.transfer.bundles import EXPORT, new_folder
from compaction_app.transfer.export import index_of, safe_name
from tests.conftest import REPOSITORY
from tests.transfer.bundling import Export, export, run, talk

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

    def test_one_session_and_only_long_ones(self, server, tmp_path):
        short, long = chat.start_session(title="short"), chat.start_session(title="long")
        chat.compact(talk(short, None, 7)[-1])
        chat.compact(talk(long, None, 9)[-1])
        assert [e["title"] for e in export(tmp_path / "a", "--min-messages", 15).index["summaries"]] == ["long"]
        assert len(export(tmp_path / "b", "--min-messages", 14).bundles) == 2
        assert [e["title"] for e in export(tmp_path / "c", "--session", short.pk).index["summaries"]] == ["short"]

    def test_json_is_the_index(self, server, session, tmp_path):
        chat.compact(talk(session, None, 7)[-1])
        exported = export(tmp_path / "out", "--json")
        assert json.loads(exported.out) == exported.index
        assert (exported.index["bundles"], exported.index["proved"], exported.index["not_rebuilt"]) == (1, 1, 0)

    def test_a_folder_that_is_not_empty_is_left_alone(self, server, session, tmp_path):
        chat.compact(talk(session, None, 7)[-1])
        out = tmp_path / "out"
        out.mkdir()
        export(out)
        with pytest.raises(CommandError, match="--force") as caught:
            run("export_compactions", "--out", out)
        assert caught.value.returncode == 2
        chat.compact(talk(session, ChatMessage.objects.messages().latest("id"), 7)[-1])
        assert len(export(out, "--force").bundles) == 2
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_what_came_into_the_folder_meanwhile_is_left_alone(self, tmp_path):
        def fill() -> None:
            with new_folder(tmp_path / "out", EXPORT):
                (tmp_path / "out").mkdir()
                (tmp_path / "out" / "letter.txt").write_text("mine")

        with pytest.raises(BundleError, match="could not be written"):
            fill()
        assert [path.name for path in tmp_path.rglob("*")] == ["out", "letter.txt"]

    def test_force_replaces_nothing_but_an_export(self, tmp_path):
        (tmp_path / "letter.txt").write_text("mine")
        with pytest.raises(CommandError, match="is not an export") as caught:
            run("export_compactions", "--out", tmp_path, "--force")
        assert caught.value.returncode == 2
        with pytest.raises(CommandError, match="is a file"):
            run("export_compactions", "--out", tmp_path / "letter.txt", "--force")
        assert (tmp_path / "letter.txt").read_text() == "mine"

    @pytest.mark.parametrize("index", ["{}", "[]", "no json", '{"format": "compaction-bundle/1", "summaries": [1]}'])
    def test_an_index_of_something_else_makes_no_export(self, tmp_path, index):
        (tmp_path / "index.json").write_text(index)
        (tmp_path / "letter.txt").write_text("mine")
        with pytest.raises(CommandError, match="is not an export"):
            run("export_compactions", "--out", tmp_path, "--force")
        assert tree(tmp_path) == {"index.json": index.encode(), "letter.txt": b"mine"}

    def test_force_leaves_what_stands_beside_the_bundles_and_says_so(self, server, session, tmp_path, capsys):
        chat.compact(talk(session, None, 7)[-1])
        old = export(tmp_path / "out")
        mine = {"notes.md": b"mine", "001-A-garden/compaction-001/notes.md": b"too", "photos/one.jpg": b"three"}
        for path, content in mine.items():
            (old.folder / path).parent.mkdir(exist_ok=True)
            (old.folder / path).write_bytes(content)
        (old.folder / "empty").mkdir()
        (old.folder / "link").symlink_to(tmp_path, target_is_directory=True)
        before = tree(old.folder)
        ChatSession.objects.update(title="Another garden")
        new = export(old.folder, "--force")
        said = capsys.readouterr().err.splitlines()
        assert [line.strip() for line in said[1:]] == sorted([*mine, "empty", "link"])
        assert sorted(path.name for path in new.folder.glob("00*")) == ["001-A-garden", "001-Another-garden"]
        assert {path: content for path, content in tree(new.folder).items() if path in mine} == mine
        assert not (new.folder / "001-A-garden" / "compaction-001" / "metadata.json").exists()
        assert (new.folder / "link").is_symlink()
        assert (new.folder / "empty").is_dir()
        assert len(tree(new.folder)) == len(before)
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_nothing_is_replaced_where_a_file_of_somebody_else_is_in_the_way(self, server, session, tmp_path):
        chat.compact(talk(session, None, 7)[-1])
        old = export(tmp_path / "out")
        (old.folder / "001-B").write_text("mine")
        before = tree(old.folder)
        ChatSession.objects.update(title="B")
        with pytest.raises(CommandError, match="001-B is another program's"):
            run("export_compactions", "--out", old.folder, "--force")
        assert tree(old.folder) == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    @pytest.mark.parametrize("number", ["-1", "x", "1.5"])
    def test_a_number_of_messages_that_is_none(self, tmp_path, number):
        with pytest.raises(CommandError, match="must be a whole number, at least 0"):
            run("export_compactions", "--out", tmp_path / "out", f"--min-messages={number}")

    def test_nothing_half_written_is_left(self, tmp_path):
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "index.json").write_text(json.dumps(index_of([])))

        def fail() -> None:
            with new_folder(tmp_path / "kept", EXPORT, force=True) as folder:
                (folder / "part").write_text("half")
                raise BundleError("no")

        with pytest.raises(BundleError):
            fail()
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["index.json", "kept"]

    def test_it_is_readable_by_its_owner_alone(self, session, tmp_path):
        assert export(tmp_path / "out").folder.stat().st_mode & 0o077 == 0

    def test_a_session_or_database_that_is_not_there(self, tmp_path):
        (tmp_path / "text.sqlite3").write_text("no database")
        for arguments in (("--session", uuid4()), ("--database", "nowhere"), ("--database", tmp_path / "text.sqlite3")):
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

    def copy(self, folder: Path, mode: str = "delete") -> Path:
        folder.mkdir()
        path = folder / "copy of it.sqlite3"
        with sqlite3.connect(connection.settings_dict["NAME"]) as source, sqlite3.connect(path) as target:
            source.backup(target)
            target.execute(f"PRAGMA journal_mode={mode}")
        source.close()
        target.close()
        return path

    def manage(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        """In a process of its own: Django's test case forbids connections that it does not know."""
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings"}
        command = [sys.executable, "manage.py", *map(str, arguments)]
        return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)

    def export_file(self, folder: Path, path: Path) -> Export:
        ended = self.manage("export_compactions", "--out", folder, "--database", path)
        assert ended.returncode == 0, ended.stderr
        return Export(folder, json.loads((folder / "index.json").read_text()), 0, ended.stdout)

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    def test_a_copy_is_read_and_not_written(self, exported, tmp_path, mode):
        path = self.copy(tmp_path / "copies", mode)
        before = hashlib.sha256(path.read_bytes()).digest()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            again = self.export_file(tmp_path / "again", path)
        finally:
            path.parent.chmod(0o755)
        assert tree(again.folder) == tree(exported.folder)
        assert [found.name for found in path.parent.iterdir()] == [path.name]
        assert hashlib.sha256(path.read_bytes()).digest() == before

    def test_a_log_that_was_copied_along_is_read(self, exported, session, tmp_path):
        """The newest rows stand in the log only."""
        path = self.copy(tmp_path / "copies", "wal")
        writer = sqlite3.connect(path)
        writer.execute("UPDATE compaction_app_chatsession SET title = 'changed'")
        writer.commit()
        log = path.with_name(f"{path.name}-wal")
        before = log.read_bytes(), path.read_bytes()
        again = self.export_file(tmp_path / "again", path)
        assert (log.read_bytes(), path.read_bytes()) == before
        assert [entry["title"] for entry in again.index["summaries"]] == ["changed"]
        writer.close()

    def test_a_file_of_another_program(self, tmp_path):
        path = tmp_path / "other.sqlite3"
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE notes (text)")
        other.close()
        ended = self.manage("export_compactions", "--out", tmp_path / "out", "--database", path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "no such table" in ended.stderr
        assert not (tmp_path / "out").exists()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
