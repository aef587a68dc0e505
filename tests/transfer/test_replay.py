"""``replay_compactions``: bundles asked once more, and what is said of the answers."""

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.core.management import CommandError

from compaction_app import chat
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.transfer.bundles import FILES, USER, read_bundle
from tests.fake_summarizer import FakeSummarizer
from tests.steps import fill_target, unauthorized
from tests.transfer.bundling import SUMMARY, Export, export, loop, prose, run, site, talk

pytestmark = pytest.mark.django_db(transaction=True)

OTHER = "## Recap\n\nThe user plans a garden & a <shed>; plant no. 1 stands behind the wall, and no. 2 costs 14 €."
FAKE = "tests.fake_summarizer.FakeSummarizer"
EXTRACT = "compaction_app.summarizers.ExtractiveSummarizer"


def hide_first_names(text: str) -> str:
    return "[removed]" if text.startswith("secret: ") else text.replace("Ilse", "[someone]")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what was exported once."""
    return tmp_path_factory.mktemp("bundles") / "out"


@pytest.fixture
def exported(server: ScriptedOpenAIServer, bundles: Path, tmp_path: Path) -> Export:
    """Two generations, and a server that has forgotten what it was asked for them."""
    if not bundles.exists():
        session = chat.start_session(title="A garden")
        tip = talk(session, None, 7)[-1]
        chat.compact(tip)
        chat.compact(talk(session, tip, 6)[-1])
        export(bundles)
        server.reset()
    folder = shutil.copytree(bundles, tmp_path / "out")
    return Export(folder, json.loads((folder / "index.json").read_text()), 0, "")


def replay(*arguments: Any) -> tuple[dict[str, Any], int]:
    out, code = run("replay_compactions", *arguments, "--json")
    return json.loads(out), code


def prompts(server: ScriptedOpenAIServer) -> list[list[bytes]]:
    return [[message["content"].encode() for message in body["messages"]] for body in server.requests]


def on_disk(exported: Export) -> list[list[bytes]]:
    return [[(b / name).read_bytes() for name in ("system-prompt.md", "user-message.md")] for b in exported.bundles]


class TestAsking:
    def test_another_model_is_sent_every_prompt_as_it_stands(self, server, exported):
        found, code = replay(exported.folder, "--model", "other")
        assert prompts(server) == on_disk(exported)
        assert {body["model"] for body in server.requests} == {"other"}
        assert code == 0
        assert [one["model"] for one in found["bundles"]] == ["other", "other"]
        assert [one["bundle"] for one in found["bundles"]] == [
            "001-A-garden/compaction-001",
            "001-A-garden/compaction-002",
        ]

    def test_another_wording_is_what_the_setting_would_send(self, server, exported, tmp_path, settings):
        """Replayed with a wording, or compacted with it as PROMPT: one and the same request."""
        (tmp_path / "verse.md").write_text("Write in verse.")
        replay(exported.bundles[0], "--prompt", tmp_path / "verse.md")
        settings.COMPACTION = site(server, asked={"PROMPT": "Write in verse."})
        chat.compact(talk(chat.start_session(), None, 7)[-1])
        (replayed, _), (compacted, _) = prompts(server)
        nonce = CompactionRun.objects.latest("id").nonce.encode()
        assert replayed.replace(exported.metadata(0)["acceptance"]["nonce"].encode(), nonce) == compacted

    def test_a_summarizer_that_reads_messages_gets_them(self, server, exported):
        """The same as it would have written when the compaction ran."""
        found, code = replay(exported.folder, "--summarizer", "extractive")
        assert server.requests == []
        assert code == 0
        assert all(one["after"]["tokens"] > 50 for one in found["bundles"])
        assert all(one["after"]["retention"] > one["before"]["retention"] for one in found["bundles"])

    def test_a_bundle_holds_the_request_that_was_made(self, server, tmp_path, settings):
        settings.COMPACTION = site(server, asked={"BACKEND": FAKE})
        chat.compact(loop(chat.start_session(), None, 20)[-1])
        (made,) = export(tmp_path / "out").bundles
        assert read_bundle(made).request == FakeSummarizer.requests[0]

    def test_one_bundle(self, server, exported):
        found, _ = replay(exported.bundles[1])
        assert [one["bundle"] for one in found["bundles"]] == ["compaction-002"]

    def test_a_model_is_asked_where_its_entry_is_with_its_key_which_is_never_printed(
        self, server, exported, monkeypatch, settings
    ):
        key = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"
        monkeypatch.setenv("ELSEWHERE_KEY", key)
        place = {"model": "house", "base_url": server.url, "api_key_env": "ELSEWHERE_KEY"}
        settings.COMPACTION = {"SUMMARIZERS": {"elsewhere": {"MODELS": [place]}}}
        server.script(default=unauthorized())
        for form in ((), ("--json",)):
            printed, code = run(
                "replay_compactions", exported.bundles[0], "--summarizer", "elsewhere", "--model", "m", *form
            )
            assert server.calls[-1].headers["authorization"] == f"Bearer {key}"
            assert "authentication" in printed
            assert key not in printed
            assert code == 1


class TestAnswers:
    def test_a_diff_and_scores(self, server, exported):
        server.script(default=steps.reply(OTHER))
        found, code = replay(exported.bundles[0])
        (one,) = found["bundles"]
        assert code == 0
        (old, new) = SUMMARY.splitlines()[-1], OTHER.splitlines()[-1]
        assert one["diff"][2:] == ["@@ -1,3 +1,3 @@", " ## Recap", " ", f"-{old}", f"+{new}"]
        figures = exported.metadata(0)
        assert one["target_tokens"] == figures["budget"]["target_tokens"]
        assert one["after"]["share_of_target"] == pytest.approx(
            one["after"]["tokens"] / one["target_tokens"], abs=0.001
        )
        assert 0 <= one["after"]["retention"] <= 1
        assert one["after"]["leaks"] is False
        assert one["input_tokens"] > 0

    def test_what_would_be_refused_says_so_and_is_not_asked_again(self, server, exported):
        """Without a name by the summarizer of the settings."""
        nonce = exported.metadata(0)["acceptance"]["nonce"]
        for step, code, *who in (
            (fill_target(3.0), "oversize", "--model", "scripted"),
            (fill_target(3.0), "oversize"),
            (steps.reply(f"{SUMMARY} The user said {nonce}."), "leaked_wrapper"),
            (steps.rate_limited(), "provider_error"),
        ):
            server.reset()
            server.script([step])
            found, ended = replay(exported.folder, *who)
            assert [one["code"] for one in found["bundles"]] == [code, ""]
            assert prompts(server) == on_disk(exported)
            assert (ended, found["accepted"]) == (1, 1)

    def test_leaks_are_named_and_what_steers_a_terminal_is_not_printed(self, server, exported):
        nonce = exported.metadata(0)["acceptance"]["nonce"]
        server.script([steps.reply(f"{SUMMARY} The user said {nonce}.\n\x1b[2JGone.\u202e")])
        out, _ = run("replay_compactions", exported.bundles[0])
        assert "of facts kept, leaks\n" in out
        assert "refused: leaked_wrapper" in out
        assert "�[2JGone.�" in out
        assert "\x1b[2J" not in out


class TestRetention:
    """A run's own figure, and what a replay finds of the same text: the same check of the same messages."""

    @pytest.fixture(autouse=True)
    def remember_some(self, server):
        server.script(default=steps.reply(f"{SUMMARY} {prose(40)}"))

    def assert_the_same(self, folder: Path) -> None:
        made = export(folder)
        found, _ = replay(made.folder)
        runs = CompactionRun.objects.order_by("id")
        told = [round(run.retention_before, 3) for run in runs if run.retention_before is not None]
        assert [one["before"]["retention"] for one in found["bundles"]] == told
        assert 0 < told[0] < 1

    @pytest.mark.long
    def test_over_generations_each_with_its_extract(self, server, tmp_path):
        session = chat.start_session()
        facts = "Never use the well of Ilse Marten. It holds 4,711 litres."
        tip = chat.append_message(session, None, role="user", content=facts)
        tip = chat.append_message(session, tip, role="assistant", content="Understood.")
        tip = talk(session, tip, 7)[-1]
        chat.compact(tip, instructions="go on")
        chat.compact(talk(session, tip, 6)[-1], instructions="go on")
        self.assert_the_same(tmp_path / "out")
        first, second = export(tmp_path / "again").bundles
        extracts = list(ChatMessage.objects.exclude(extract="").order_by("id").values_list("extract", flat=True))
        assert [(one / "extract.md").read_text() for one in (first, second)] == extracts
        assert read_bundle(second).request.previous_extract == extracts[0]
        assert "4,711 litres" in extracts[1]

    def test_what_the_redactor_takes_out_vouches_for_nothing(self, server, tmp_path, settings):
        """The number stands in the tail too, where the model will not see it: it is lost unless the ledger has it."""
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.test_replay.hide_first_names")
        session = chat.start_session()
        tip = chat.append_messages(session, None, [{"role": "user", "content": "Ilse Marten has 4711 apple trees."}])[0]
        tip = chat.append_message(session, tip, role="assistant", content="Good.")
        tip = talk(session, tip, 8)[-1]
        tip = chat.append_message(session, tip, role="user", content="secret: Ilse Marten has 4711 apple trees.")
        tip = chat.append_message(session, tip, role="assistant", content="Good.")
        chat.compact(tip, instructions="go on")
        run = CompactionRun.objects.get()
        assert "4711" in run.summary.text
        self.assert_the_same(tmp_path / "again")


class TestWrongCalls:
    WRONG: ClassVar = [
        (("--model", "m", "--summarizer", "extractive"), "need a model"),
        (("--summarizer", "nowhere"), "SUMMARIZERS has default, extractive, and no 'nowhere'"),
        (("--prompt", "no such file"), "cannot be read"),
        (("--prompt", __file__, "--summarizer", "extractive"), "uses no prompt"),
    ]

    def test_it_says_what_is_wrong(self, server, exported, tmp_path):
        for arguments, said in self.WRONG:
            with pytest.raises(CommandError, match=said):
                replay(exported.folder, *arguments)
        with pytest.raises(CommandError, match="no bundle") as caught:
            replay(tmp_path / "nowhere")
        assert caught.value.returncode == 2
        assert server.requests == []

    def test_a_bundle_that_is_not_whole_is_found_before_anything_is_sent(self, server, exported):
        (exported.bundles[1] / "request.json").write_text("{}")
        for name in ("request.json", *sorted(set(FILES) - {"compact-history.xml", "request.json"})):
            with pytest.raises(CommandError, match="compaction-002 is not a complete bundle"):
                replay(exported.folder)
            (exported.bundles[1] / name).unlink()
        path = exported.bundles[0] / "metadata.json"
        path.write_text(path.read_text().replace("compaction-bundle/1", "compaction-bundle/9"))
        with pytest.raises(CommandError, match="has the format compaction-bundle/9"):
            replay(exported.folder)
        assert server.requests == []

    @pytest.mark.parametrize("linked", ["file", "folder"])
    def test_a_link_is_refused_before_anything_is_sent(self, server, exported, tmp_path, linked):
        """A bundle from elsewhere could name any file of the machine, whose text would go to the model."""
        (tmp_path / "secret").write_text("a private key")
        first = exported.bundles[0]
        if linked == "folder":
            shutil.move(first, tmp_path / "elsewhere")
            first.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        else:
            (first / USER).unlink()
            (first / USER).symlink_to(tmp_path / "secret")
        with pytest.raises(CommandError, match="is a link"):
            replay(exported.folder)
        assert server.requests == []
