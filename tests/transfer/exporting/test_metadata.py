"""``metadata.json`` of a bundle."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.models import ChatMessage
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
        assert exported.metadata(0)["leaks"] is True
        assert exported.index["leaks"] == 1
        assert "proved, leaks" in exported.out

    def test_reading_back_costs_the_same_at_any_length(self, server, session):
        tip = None
        for _ in range(3):
            tip = talk(session, tip, 6)[-1]
            chat.compact(tip)
        for made in succeeded_runs("default"):
            with CaptureQueriesContext(connection) as queries:
                rebuild(made)
            assert len(queries) == 1
