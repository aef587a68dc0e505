"""``export_compactions``: every prompt is, byte for byte, what the model received when the compaction really ran."""

import json

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.testing import steps
from compaction_app.transfer.rebuild import rebuild, succeeded_runs
from tests.steps import fill_target
from tests.transfer.bundling import KEY, SUMMARY, export, export_checked, loop, prose, sent, site, talk, tell_key

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)


class TestFaithful:
    """Each way in which a prompt can come about: what is exported is what the server got."""

    def test_first_and_later_generations(self, server, session, tmp_path):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        talk(session, tip, 2)
        exported = export_checked(server, tmp_path / "out")
        assert [entry["generation"] for entry in exported.index["summaries"]] == [1, 2, 3]
        assert b"previous-summary" in (exported.bundles[2] / "user-message.md").read_bytes()

    @pytest.mark.long
    def test_a_cut_inside_a_turn_its_pin_and_the_summary_that_lets_it_go(self, server, session, tmp_path):
        tip = None
        first = loop(session, None, 20)
        chat.compact(first[-1])
        tip = chat.append_messages(session, first[-1], [{"role": "assistant", "content": "Half done."}])[-1]
        tip = chat.append_messages(session, tip, [{"role": "assistant", "content": prose(80)} for _ in range(12)])[-1]
        chat.compact(tip)
        tip = talk(session, tip, 8)[-1]
        chat.compact(tip)
        exported = export_checked(server, tmp_path / "out")
        pins = [exported.metadata(number)["ids"]["pinned"] for number in range(len(exported.bundles))]
        assert pins[:2] == [first[0].pk, first[0].pk]
        assert pins[-1] is None
        let_go = next(n for n, pin in enumerate(pins) if pin is None)
        assert exported.metadata(let_go)["ids"]["covered"][0] == first[0].pk

    def test_what_was_configured_then_whatever_is_now(self, server, session, tmp_path, settings):
        prompt = "Write short & plain.\r\nNo <b>bold</b>."
        policy = "tests.transfer.bundling.ask_for_prices"
        settings.COMPACTION = site(server, asked={"PROMPT": prompt}, POLICY=policy, REASONING="drop")
        opened = chat.request_compaction(talk(session, None, 8)[-1], instructions="keep <every> price & date")
        compact_chat_history(opened.pk)
        settings.COMPACTION = site(server, asked={"PROMPT": "Write in verse."}, LOOKAHEAD="none")
        exported = export_checked(server, tmp_path / "out")
        system = (exported.bundles[0] / "system-prompt.md").read_bytes()
        assert system.startswith(b"Write short & plain.\r\n")
        assert b"Prices stay in euros." in system
        assert b"<reasoning>" not in (exported.bundles[0] / "compact-history.xml").read_bytes()

    def test_messages_that_are_shown_head_and_tail(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, max_input_tokens=2_800)
        tip = chat.append_messages(
            session,
            None,
            [{"role": "user", "content": prose(2_000)}, {"role": "assistant", "content": prose(1_500)}],
        )[-1]
        chat.compact(talk(session, tip, 2)[-1])
        exported = export_checked(server, tmp_path / "out")
        assert exported.metadata(0)["ids"]["shortened"]
        assert b"...truncated" in (exported.bundles[0] / "user-message.md").read_bytes()

    def test_several_branches(self, server, session, tmp_path):
        """Two forks of one trunk, one above the first summary's anchor; each summary has its own path."""
        trunk = talk(session, None, 6)
        chat.compact(trunk[-1])
        for fork in (trunk[1], trunk[-1]):
            chat.compact(talk(session, fork, 7)[-1])
        exported = export_checked(server, tmp_path / "out")
        assert len(exported.bundles) == 3

    def test_the_tighter_retry_that_was_accepted(self, server, session, tmp_path):
        server.script([fill_target(3.0), steps.reply(SUMMARY)])
        chat.compact(talk(session, None, 6)[-1])
        exported = export_checked(server, tmp_path / "out")
        (system, first), (_, second) = sent(server, CompactionRun.objects.get().nonce)
        assert second != first
        assert (exported.bundles[0] / "system-prompt.md").read_bytes() == system
        assert (exported.bundles[0] / "user-message.md").read_bytes() == second
        figures = exported.metadata(0)
        assert figures["tightened"] is True
        assert figures["budget"]["asked_tokens"] < figures["budget"]["target_tokens"]

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
        exported = export_checked(server, tmp_path / "out")
        assert len(exported.bundles) == 2

    def test_a_retired_summary_whose_tip_was_deleted(self, server, session, tmp_path):
        messages = talk(session, None, 8)
        chat.retire_summary(chat.compact(messages[-1]).summary)
        chat.delete_message(messages[-2])
        assert CompactionRun.objects.get(generation=1).tip is None
        assert export_checked(server, tmp_path / "out").metadata(0)["retired_at"]

    def test_texts_that_went_through_a_redactor(self, server, session, tmp_path, settings):
        settings.COMPACTION = site(server, REDACTOR="tests.transfer.bundling.hide_keys")
        tell_key(session)
        exported = export_checked(server, tmp_path / "out")
        assert all(KEY not in path.read_text() for path in exported.folder.rglob("*.*"))

    @pytest.mark.parametrize("name", ["agent_from_source.json", "agent_function_calling.json"])
    def test_an_agents_real_history(self, server, tmp_path, settings, shared_data, name):
        """One request and a long loop of calls: every cut falls inside the turn, and every prompt fits. A model is
        asked however little room there is."""
        settings.COMPACTION = site(server, EXTRACT_FALLBACK=False)
        server.script(default=fill_target(0.8))
        messages = json.loads((shared_data / name).read_text())["messages"]
        session, tip = chat.start_session(title=name), None
        for message in messages[1:]:
            (tip,) = chat.append_messages(session, tip, [message])
            opened = chat.request_compaction(tip)
            if opened is not None and opened.is_open:
                compact_chat_history(opened.pk)
            context = chat.get_context(tip)
            assert context.history_tokens <= context.available_tokens
            # Only the tip may have calls that nothing answers yet.
            sent = context.to_openai()
            asked = [call["id"] for message in sent[:-1] for call in message.get("tool_calls", ())]
            assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == asked
        exported = export_checked(server, tmp_path / "out")
        assert len(exported.bundles) > 1
        request = session.messages.filter(kind="message").earliest("id")
        for summary in session.messages.filter(kind="summary"):
            assert summary.pinned_message == request
            assert session.messages.get(kind="message", parent=summary.last_summarized_message).role == "assistant"


# Compacting calls a model, which no open transaction may wait for.


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
        assert figures["run"]["input_tokens"] == made.input_tokens > 0
        own = ("scripted", made.prompt_version, 1)
        assert tuple(figures["run"][name] for name in ("summarizer_model", "prompt_version", "generation")) == own

    def test_a_summary_that_leaks(self, server, session, tmp_path):
        """What no draft could do, a row can: written before this app refused it, or by hand."""
        made = chat.compact(talk(session, None, 8)[-1])
        text = "## Recap <previous-summary> and all the rest"
        ChatMessage.objects.filter(pk=made.summary_id).update(content=text)
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["leaks"] is True
        assert exported.index["leaks"] == 1
        assert "compaction-001  leaks\n" in exported.out

    @pytest.mark.long
    def test_reading_back_costs_the_same_at_any_length(self, server, session):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        for made in succeeded_runs(CompactionRun.objects.all()):
            with CaptureQueriesContext(connection) as queries:
                rebuild(made)
            assert len(queries) == 1
