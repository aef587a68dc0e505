"""A record's page leads to all that belongs to it, of rows made by hand and of those that a compaction leaves."""

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import messages
from compaction_app.models import CompactionRun
from tests.admin.pages import page_of, url
from tests.admin.records import compacted, run_at
from tests.trees import start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_a_summary_leads_to_cutoff_anchor_base_run_session_and_events(viewer):
    session, nodes, summary, run, event = compacted()
    base = summarize(nodes[1], nodes[0])
    CompactionRun.objects.filter(pk=run.pk).update(base=base)
    page = viewer.get(page_of(summary)).text
    for record in (session, nodes[1], nodes[2], base, run, event):
        assert f'href="{page_of(record)}"' in page, record
    for shown in (
        "What was said.",
        "3,000 → 1,200",
        "quick-model",
        "Live",
        "Threshold",
    ):
        assert shown in page, shown


def test_a_retired_summary_says_when_and_why(viewer):
    _, _, summary, *_ = compacted(retired_at=timezone.now(), retired_reason="It was wrong.")
    page = viewer.get(page_of(summary)).text
    assert "Retired" in page
    assert "It was wrong." in page


def test_a_run_leads_to_tip_anchor_cutoff_base_summary_and_events(viewer):
    session, nodes, summary, run, event = compacted()
    later = run_at(nodes[-1], base=summary, previous_run=run)
    page = viewer.get(page_of(run)).text
    for record in (session, nodes[-1], nodes[2], nodes[1], summary, event):
        assert f'href="{page_of(record)}"' in page, record
    page = viewer.get(page_of(later)).text
    for record in (summary, run):
        assert f'href="{page_of(record)}"' in page, record


def test_a_message_leads_to_its_parent_variants_children_and_summaries(viewer, monkeypatch):
    session, nodes, summary, *_ = compacted()
    variant = chat.append_message(session, nodes[1], role="user", content="again")
    page = viewer.get(page_of(nodes[2])).text
    for record in (nodes[1], variant, nodes[3], summary):
        assert f'href="{page_of(record)}"' in page, record
    monkeypatch.setattr(messages, "_MOST_NAMED", 1)
    assert "and more</dd>" in viewer.get(page_of(nodes[2])).text


def test_tool_calls_are_set_out(viewer):
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a","deep":{"b":[1]}}'}}
    message = chat.append_message(start_session(), role="assistant", tool_calls=[call])
    page = viewer.get(page_of(message)).text
    assert "read({&quot;path&quot;:&quot;a&quot;" in page
    assert f'<a href="{url("chatmessage_text", message.pk, "tool_calls")}">tool calls</a>' in page
