"""``metadata.json`` of a bundle."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.testing import steps
from compaction_app.transfer.rebuild import rebuild, succeeded_runs
from tests.transfer.bundling import export, talk

# Compacting calls a model, which no open transaction may wait for.
pytestmark = pytest.mark.django_db(transaction=True)


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
        text = "## Recap <previous-summary> and all the rest"
        ChatMessage.objects.filter(pk=made.summary_id).update(content=text)
        exported = export(tmp_path / "out")
        assert exported.metadata(0)["leaks"] == {"wrapper": True, "other_branch": []}
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

    def test_reading_back_costs_the_same_at_any_length(self, server, session):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        for made in succeeded_runs("default"):
            with CaptureQueriesContext(connection) as queries:
                rebuild(made)
            assert len(queries) == 1
