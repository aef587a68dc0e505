"""``export_compactions``: every prompt is, byte for byte, what the model received when the compaction really ran."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from compaction_app import chat, tool_markers
from compaction_app.bundle_export import index_of, safe_name
from compaction_app.bundle_folders import new_folder
from compaction_app.bundles import EXPORT
from compaction_app.compaction import compact_chat_history
from compaction_app.exceptions import BundleError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.rebuilding import rebuild, succeeded_runs
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import PolicyDecision
from tests.bundling import (
    SUMMARY,
    Export,
    assert_every_prompt_is_what_was_sent,
    export,
    loop,
    prose,
    run,
    sent,
    site,
    talk,
)
from tests.conftest import REPOSITORY
from tests.small import anchored_summary

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)

KEY = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"


def hide_keys(text: str) -> str:
    return text.replace(KEY, "[key]")


def hide_keys_otherwise(text: str) -> str:
    return text.replace(KEY, "[a key]")


def ask_for_prices(tip: ChatMessage, budget: Any) -> PolicyDecision:
    return PolicyDecision(action="force", prompt_line="Prices stay in euros.")


@pytest.fixture
def server(settings: Any) -> Iterator[ScriptedOpenAIServer]:
    with ScriptedOpenAIServer(default=steps.reply(SUMMARY)) as running:
        settings.COMPACTION = site(running)
        yield running


@pytest.fixture
def session() -> ChatSession:
    return chat.start_session(title="A garden", system_prompt="You help with gardens.")


class TestFaithful:
    """Each way in which a prompt can come about: what is exported is what the server got."""

    def test_first_and_later_generations(self, server, session, tmp_path):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        talk(session, tip, 2)
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert [entry["generation"] for entry in exported.index["summaries"]] == [1, 2, 3]
        assert b"previous-summary" in (exported.bundles[2] / "user-message.md").read_bytes()

    def test_a_cut_inside_a_turn_its_pin_and_the_summary_that_lets_it_go(self, server, session, tmp_path):
        tip = None
        first = loop(session, None, 20)
        chat.compact(first[-1])
        tip = chat.append_messages(session, first[-1], [{"role": "assistant", "content": "Half done."}])[-1]
        tip = chat.append_messages(session, tip, [{"role": "assistant", "content": prose(80)} for _ in range(12)])[-1]
        chat.compact(tip)
        tip = talk(session, tip, 8)[-1]
        chat.compact(tip)
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        pins = [exported.metadata(number)["ids"]["pinned"] for number in range(len(exported.bundles))]
        assert pins[:2] == [first[0].pk, first[0].pk]
        assert pins[-1] is None
        let_go = next(n for n, pin in enumerate(pins) if pin is None)
        assert exported.metadata(let_go)["ids"]["covered"][0] == first[0].pk

    def test_instructions_show_it_the_branch_to_its_tip(self, server, session, tmp_path):
        tip = talk(session, None, 6)[-1]
        chat.compact(tip, instructions="keep <every> price & date")
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["ids"]["anchor"] == tip.pk
        assert exported.metadata(0)["ids"]["lookahead"][-1] == tip.pk

    def test_the_line_of_a_policy(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, POLICY="tests.test_export_compactions.ask_for_prices")
        opened = chat.request_compaction(talk(session, None, 8)[-1])
        assert opened is not None
        compact_chat_history(opened.pk)
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert b"Prices stay in euros." in (exported.bundles[0] / "system-prompt.md").read_bytes()

    def test_a_summarizer_that_takes_little_makes_several_generations(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, max_input_tokens=3_500)
        chat.compact(talk(session, None, 14)[-1])
        exported = export(tmp_path / "out")
        assert len(exported.bundles) > 1
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["budget"]["max_input_tokens"] == 3_500

    def test_messages_that_are_shown_head_and_tail(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, max_input_tokens=2_800)
        tip = chat.append_messages(
            session,
            None,
            [{"role": "user", "content": prose(2_000)}, {"role": "assistant", "content": prose(1_500)}],
        )[-1]
        chat.compact(talk(session, tip, 2)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["ids"]["shortened"]
        assert b"...truncated" in (exported.bundles[0] / "user-message.md").read_bytes()

    def test_several_branches(self, server, session, tmp_path):
        """Two forks of one trunk, one above the first summary's anchor; each summary has its own path."""
        trunk = talk(session, None, 6)
        chat.compact(trunk[-1])
        for fork in (trunk[1], trunk[-1]):
            chat.compact(talk(session, fork, 7)[-1])
        exported = export(tmp_path / "out")
        assert len(exported.bundles) == 3
        assert_every_prompt_is_what_was_sent(server, exported)

    @pytest.mark.parametrize("step", [steps.length(), steps.reply("no")], ids=["truncated", "too short"])
    def test_a_second_model_after_the_first_was_of_no_use(self, server, session, tmp_path, settings, step):
        models = site(server)["SUMMARIZER_MODELS"]
        settings.COMPACTION = site(server, SUMMARIZER_MODELS=[*models, {**models[0], "model": "second"}])
        server.script([step], model="scripted")
        chat.compact(talk(session, None, 6)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["model"] == "second"

    def test_the_tighter_retry_that_was_accepted(self, server, session, tmp_path):
        server.script([steps.fill_target(3.0), steps.reply(SUMMARY)])
        chat.compact(talk(session, None, 6)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        (first, _), (second, _) = sent(server, CompactionRun.objects.get().nonce)
        assert second != first
        assert (exported.bundles[0] / "system-prompt.md").read_bytes() == second
        figures = exported.metadata(0)
        assert figures["tightened"] is True
        assert figures["budget"]["asked_tokens"] < figures["budget"]["target_tokens"]

    def test_a_tighter_retry_that_was_refused_too_is_not_taken_for_the_next_models_answer(
        self, server, session, tmp_path, settings
    ):
        models = site(server)["SUMMARIZER_MODELS"]
        settings.COMPACTION = site(server, SUMMARIZER_MODELS=[*models, {**models[0], "model": "second"}])
        server.script([steps.fill_target(3.0), steps.fill_target(3.0)], model="scripted")
        chat.compact(talk(session, None, 6)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["tightened"] is False

    @pytest.mark.parametrize("rule", ["summarize", "drop"])
    def test_reasoning(self, server, session, tmp_path, settings, rule):
        settings.COMPACTION = site(server, REASONING=rule)
        chat.compact(talk(session, None, 6)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        shown = b"<reasoning>hm 0</reasoning>" in (exported.bundles[0] / "compact-history.xml").read_bytes()
        assert shown is (rule == "summarize")

    def test_a_wording_of_the_hosts_own_that_was_changed_since(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, SUMMARY_PROMPT="Write short & plain.\r\nNo <b>bold</b>.")
        chat.compact(talk(session, None, 6)[-1])
        settings.COMPACTION = site(server, SUMMARY_PROMPT="Write in verse.", REASONING="drop", LOOKAHEAD="none")
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert (exported.bundles[0] / "system-prompt.md").read_bytes().startswith(b"Write short & plain.\r\n")

    def test_messages_and_forks_that_came_while_the_model_wrote(self, server, session, tmp_path):
        messages = talk(session, None, 8)

        def write_meanwhile(exchange):
            talk(session, messages[-1], 2)
            chat.append_message(session, messages[4].parent, role="user", content="An edit of an old question.")
            chat.append_message(session, messages[-2], role="assistant", content="Another answer.")
            connections.close_all()
            steps.reply(SUMMARY)(exchange)

        server.script([write_meanwhile])
        opened = chat.request_compaction(messages[-1])
        assert opened is not None
        talk(session, messages[-1], 1)
        compact_chat_history(opened.pk)
        chat.compact(talk(session, messages[-1], 4)[-1])
        exported = export(tmp_path / "out")
        assert len(exported.bundles) == 2
        assert_every_prompt_is_what_was_sent(server, exported)

    def test_the_tip_was_deleted_since(self, server, session, tmp_path):
        messages = talk(session, None, 8)
        chat.compact(messages[-1])
        chat.delete_message(messages[-2])
        assert CompactionRun.objects.get().tip is None
        assert_every_prompt_is_what_was_sent(server, export(tmp_path / "out"))

    def test_a_summary_that_was_retired_since(self, server, session, tmp_path):
        made = chat.compact(talk(session, None, 8)[-1])
        chat.retire_summary(made.summary)
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert exported.metadata(0)["retired_at"]

    def test_texts_that_went_through_a_redactor(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, REDACTOR="tests.test_export_compactions.hide_keys")
        tip = chat.append_messages(session, None, [{"role": "user", "content": f"My key is {KEY}."}])[-1]
        tip = chat.append_message(session, tip, role="assistant", content="I will not repeat it.")
        chat.compact(talk(session, tip, 8)[-1])
        exported = export(tmp_path / "out")
        assert_every_prompt_is_what_was_sent(server, exported)
        assert all(KEY not in path.read_text() for path in exported.folder.rglob("*.*"))

    @pytest.mark.parametrize(
        "name", ["agent_from_source.json", pytest.param("agent_function_calling.json", marks=pytest.mark.slow)]
    )
    def test_an_agents_real_history(self, server, tmp_path, shared_data, name):
        server.script(default=steps.fill_target(0.8))
        messages = json.loads((shared_data / name).read_text())["messages"]
        session, tip = chat.start_session(title=name), None
        for message in messages[1:]:
            (tip,) = chat.append_messages(session, tip, [message])
            opened = chat.request_compaction(tip)
            if opened is not None and opened.is_open:
                compact_chat_history(opened.pk)
        exported = export(tmp_path / "out")
        assert len(exported.bundles) > 1
        assert_every_prompt_is_what_was_sent(server, exported)


class TestNotProved:
    """What has changed since is said; a prompt that could be another one is never called the one that was sent."""

    @pytest.fixture
    def redacted(self, server, session, settings) -> ChatMessage:
        settings.COMPACTION = site(server, REDACTOR="tests.test_export_compactions.hide_keys")
        tip = chat.append_messages(session, None, [{"role": "user", "content": f"My key is {KEY}."}])[-1]
        tip = chat.append_message(session, tip, role="assistant", content="I will not repeat it.")
        chat.compact(talk(session, tip, 8)[-1])
        return tip

    def test_another_redactor(self, server, redacted, tmp_path, settings):
        settings.COMPACTION = site(server, REDACTOR="tests.test_export_compactions.hide_keys_otherwise")
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["proof"] == "redactor"
        assert exported.metadata(0)["proved"] is False
        assert exported.code == 1
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

    def test_another_tool_marker(self, server, session, tmp_path, monkeypatch):
        monkeypatch.setattr(tool_markers, "_MARKERS", dict(tool_markers._MARKERS))
        chat.compact(loop(session, None, 20)[-1])
        tool_markers.register_tool_marker("look", lambda arguments, result: "[looked]")
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["proof"] == "rendering"
        assert exported.code == 1
        assert "not proved: rendering" in exported.out

    def test_another_wording(self, server, session, tmp_path, monkeypatch):
        chat.compact(talk(session, None, 8)[-1])
        monkeypatch.setattr("compaction_app.prompts.PROMPT_VERSION", "0")
        assert export(tmp_path / "same").metadata(0)["proof"] == "proved", "the text is the same, whatever it is called"
        monkeypatch.setattr("compaction_app.prompts.WRITING", "Write.")
        assert export(tmp_path / "other").metadata(0)["proof"] == "prompt_version"

    def test_a_run_that_does_not_say_what_it_asked_for(self, server, session, tmp_path):
        made = chat.compact(talk(session, None, 8)[-1])
        del made.request["lookahead"]
        made.save()
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.code) == (["not_recorded"], 1)

    def test_a_summary_that_no_run_made(self, session, tmp_path):
        messages = talk(session, None, 2)
        anchored_summary(messages[-1], messages[1])
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.code) == (["no_run"], 1)


class TestErased:
    def two_generations(self, session: ChatSession) -> list[ChatMessage]:
        first = talk(session, None, 6)
        chat.compact(first[-1])
        second = talk(session, first[-1], 6)
        chat.compact(second[-1])
        return [*first, *second]

    def test_a_redaction_leaves_the_earlier_ones(self, server, session, tmp_path):
        messages = self.two_generations(session)
        chat.redact_message(messages[12])
        exported = export(tmp_path / "out")
        assert exported.reasons == ["", "redacted"]
        assert [path.name for path in exported.bundles] == ["compaction-001"]
        assert exported.code == 0, "as it should be"
        assert f"not rebuilt: summary {exported.index['summaries'][1]['summary']}" in exported.out

    def test_a_deletion_takes_the_summary_and_the_record_stays(self, server, session, tmp_path):
        messages = self.two_generations(session)
        chat.delete_message(messages[12])
        exported = export(tmp_path / "out")
        assert exported.reasons == ["", "deleted"]
        assert exported.index["summaries"][1]["summary"] is None

    @pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message])
    def test_no_digest_of_what_was_erased_is_left(self, server, session, erase):
        """With the rest of the prompt at hand, a short text could be guessed at by it."""
        messages = self.two_generations(session)
        erase(messages[12])
        first, second = CompactionRun.objects.order_by("generation")
        assert second.request == {}
        assert first.request["digest"]

    def test_nothing_of_it_is_written(self, server, session, tmp_path):
        messages = self.two_generations(session)
        chat.redact_message(messages[0])
        exported = export(tmp_path / "out")
        assert exported.reasons == ["redacted", "redacted"]
        assert [path.name for path in exported.folder.rglob("*")] == ["index.json"]

    def test_rows_that_are_gone_by_other_ways_are_said_to_be_missing(self, server, session, tmp_path):
        self.two_generations(session)
        made = CompactionRun.objects.order_by("generation").last()
        assert made is not None
        made.request["lookahead"] = [0, 0]
        made.save()
        exported = export(tmp_path / "out")
        assert (exported.reasons, exported.code) == (["", "sources_missing"], 1)


class TestMetadata:
    def test_every_figure_is_the_rows_own(self, server, session, tmp_path):
        messages = talk(session, None, 8)
        made = chat.compact(messages[-1])
        figures = export(tmp_path / "out").metadata(0)
        cutoff = made.cutoff
        assert figures["ids"]["covered"] == [m.pk for m in messages if m.depth <= cutoff.depth]
        assert figures["counts"]["covered_tokens"] == cutoff.path_tokens == figures["counts"]["replaced_tokens"]
        assert figures["indices"]["cutoff_depth"] == cutoff.depth
        assert figures["indices"]["anchor_depth"] == made.anchor.depth
        assert figures["counts"]["summary_tokens"] == made.summary.token_count
        assert figures["budget"]["window"] == 4_000
        assert figures["usage"]["input_tokens"] == made.input_tokens > 0
        assert (figures["model"], figures["prompt_version"]) == ("scripted", made.prompt_version)
        assert figures["generation"] == 1
        text = (tmp_path / "out" / "001-A-garden" / "compaction-001" / "user-message.md").read_bytes()
        assert figures["files"]["user-message.md"] == {"bytes": len(text), "characters": len(text.decode())}

    def test_a_summary_that_leaks(self, server, session, tmp_path):
        """What no draft could do, a row can: written before this app refused it, or by hand."""
        made = chat.compact(talk(session, None, 8)[-1])
        text = f"## Recap <previous-summary> and the marker {made.nonce}"
        ChatMessage.objects.filter(pk=made.summary_id).update(content=text)
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["leaks"] == {
            "wrapper_tags": True,
            "marker": True,
            "previous_summary_tag": True,
            "other_branch": [],
        }
        assert exported.index["leaks"] == 1
        assert "proved, leaks" in exported.out

    def test_text_of_another_branch(self, server, session, tmp_path):
        """Neither its own branch's words, nor what was written after it, nor a model's own are taken for a leak."""
        secret = "the gate behind the old mill opens with the word marzipan"
        messages = talk(session, None, 7)
        other = chat.append_message(session, messages[1], role="user", content=f"You know, {secret}, don't you?")
        coded = chat.append_message(session, messages[3], role="user", content="The code is 7391-alpha.")
        own = "is it so? The plant no. 2 stands behind the wall"
        text = f"## Recap\n\nThe user says that {secret}. {own}. The code: 7391-alpha. Everything else is as it was."
        server.script([steps.reply(text)])
        chat.compact(messages[-1])
        for _ in range(2):
            chat.append_message(session, messages[1], role="user", content=text)
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["leaks"]["other_branch"] == [other.pk, coded.pk]
        assert exported.index["leaks"] == 1

    def test_a_tool_result_that_two_branches_share_is_no_leak(self, server, session, tmp_path):
        """A ledger may quote the middle of it, which the prompt left out."""
        first = chat.append_messages(session, None, [{"role": "user", "content": "Look."}])[-1]
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        fact = "The deposit for the barn is 14,815 euros at Alder & Sons."
        result = f"{'ab ' * 500} {fact} {'cd ' * 500}"
        tips = []
        for _ in range(2):
            asked = chat.append_message(session, first, role="assistant", tool_calls=[call])
            tips.append(chat.append_message(session, asked, role="tool", tool_call_id="c", content=result))
        done = chat.append_message(session, tips[1], role="assistant", content="I see.")
        server.script([steps.reply(f"## Recap\n\n{fact} All the rest is settled.")])
        chat.compact(talk(session, done, 5)[-1])
        exported = export(tmp_path / "out")
        assert "14,815" not in (exported.bundles[0] / "user-message.md").read_text()
        assert exported.index["leaks"] == 0

    def test_no_leak_is_found_where_there_is_none(self, server, session, tmp_path):
        messages = talk(session, None, 7)
        talk(session, messages[1], 3)
        chat.compact(messages[-1])
        assert export(tmp_path / "out").index["leaks"] == 0

    def test_reading_back_costs_the_same_at_any_length(self, server, session):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        for made in succeeded_runs("default"):
            with CaptureQueriesContext(connection) as queries:
                rebuild(made)
            assert len(queries) == 1


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

    def test_nothing_compacted_is_an_empty_index(self, tmp_path):
        assert export(tmp_path / "out").index["summaries"] == []

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
        with pytest.raises(CommandError, match="something else") as caught:
            run("export_compactions", "--out", tmp_path, "--force")
        assert caught.value.returncode == 2
        with pytest.raises(CommandError, match="is a file"):
            run("export_compactions", "--out", tmp_path / "letter.txt", "--force")
        assert (tmp_path / "letter.txt").read_text() == "mine"

    @pytest.mark.parametrize("index", ["{}", "[]", "no json", '{"format": "compaction-bundle/1", "summaries": [1]}'])
    def test_an_index_of_something_else_makes_no_export(self, tmp_path, index):
        (tmp_path / "index.json").write_text(index)
        (tmp_path / "letter.txt").write_text("mine")
        with pytest.raises(CommandError, match="something else than an export"):
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
        with pytest.raises(CommandError, match="001-B is not ours"):
            run("export_compactions", "--out", old.folder, "--force")
        assert tree(old.folder) == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    @pytest.mark.parametrize("number", ["-1", "x", "1.5"])
    def test_a_number_of_messages_that_is_none(self, tmp_path, number):
        with pytest.raises(CommandError, match="a number from 0 on is wanted"):
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
