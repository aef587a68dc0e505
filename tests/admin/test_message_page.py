"""A message's page: texts of any size and kind, in a fixed number of queries."""

import json
import re
from itertools import pairwise

import pytest

from compaction_app import chat
from tests.admin.pages import ARABIC, MARKUP, log_in, page_of, queries_of, url
from tests.admin.records import calls, reply_to, summarized
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_a_message_takes_the_same_queries_at_20_and_at_1200_messages(viewer, settings):
    settings.COMPACTION |= {"CONTEXT_WINDOW": 6000}
    for of in (lambda nodes: nodes[-1], lambda nodes: reply_to(nodes[-1])):
        few, many, more = (
            queries_of(viewer, page_of(of(chain(start_session(), length)))) for length in (20, 600, 1200)
        )
        # Where messages are left out, one query looks for their ends, once for now and once for then, and one for why.
        assert len(many) <= len(few) + 4 <= 18, many
        assert len(more) == len(many)


def test_a_compacted_branch_takes_the_same_queries_at_any_length(viewer):
    counts = set()
    for length in (20, 600):
        nodes = chain(start_session(), length)
        summarize(nodes[-3], nodes[-4], token_count=8)
        counts.add(len(queries_of(viewer, page_of(reply_to(nodes[-1])))))
    assert len(counts) == 1


def test_a_message_of_four_megabytes_shows_its_beginning_and_leads_to_the_rest(viewer):
    text = "long " * (4 * 1024 * 1024 // 5)
    message = chat.append_message(start_session(), role="user", content=text)
    page = viewer.get(page_of(message)).text
    assert len(page) < 200_000
    assert f"{len(text) - 20_000:,} more characters are not shown" in page
    whole = viewer.get(url("chatmessage_text", message.pk, "content"))
    assert whole.text == text
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in whole.headers["Content-Security-Policy"]


def test_large_calls_and_json_are_cut_and_lead_to_the_rest(viewer):
    arguments = json.dumps({"text": "x" * 100_000})
    many = [{**call, "function": {"name": "write", "arguments": arguments}} for call in calls("c1", "c2", "c3")]
    message = chat.append_message(
        start_session(), role="assistant", tool_calls=many, reasoning=[{"text": "y" * 100_000}], usage={"n": 1}
    )
    page = viewer.get(page_of(message)).text
    assert len(page) < 200_000
    for part in ("tool_calls", "reasoning"):
        link = url("chatmessage_text", message.pk, part)
        assert f'href="{link}"' in page
        assert json.loads(viewer.get(link).text) == getattr(message, part)


def test_a_field_that_would_be_empty_is_left_out(viewer):
    session = start_session()
    message = chat.append_message(session, role="assistant", content="hi")
    called = chat.append_message(session, message, role="assistant", tool_calls=calls("c1"))
    assert "Tool calls</dt>" not in viewer.get(page_of(message)).text
    assert "Tool calls</dt>" in viewer.get(page_of(called)).text


def test_other_parts_of_a_row_are_not_to_be_had(viewer):
    message = chat.append_message(start_session(), role="user", content="hi")
    for part in ("session", "__class__", "objects"):
        assert viewer.get(url("chatmessage_text", message.pk, part)).status_code == 404
    assert viewer.get(url("chatmessage_text", 10**9, "content")).status_code == 404


def test_texts_for_themselves_are_for_those_who_may_see_messages(client):
    message = chat.append_message(start_session(), role="user", content="hi")
    pages = (url("chatmessage_text", message.pk, "content"), url("chatmessage_context", message.pk))
    assert [client.get(page).status_code for page in pages] == [302, 302]
    log_in(client, "view_chatsession", "compact_chatsession")
    assert [client.get(page).status_code for page in pages] == [403, 403]


@pytest.mark.parametrize(
    "text", [MARKUP, "", " ", "w" * 50_000, ARABIC, "\u202e\u2066evil", "a\r\n\r\nb", "\x07\x1b[31m"]
)
def test_any_text_has_a_page_and_stays_text(viewer, text):
    session = start_session(title=text[:255], system_prompt=text)
    question = chat.append_message(session, role="user", content=text, name=text.strip()[:60])
    call = {"id": "c", "type": "function", "function": {"name": text[:60] or "f", "arguments": json.dumps({"a": text})}}
    reply = chat.append_message(
        session, question, role="assistant", content=text, tool_calls=[call], metadata={"a": text}
    )
    result = chat.append_message(session, reply, role="tool", tool_call_id="c", content=text)
    summary = summarize(result, question, content=text)
    for message in (question, reply, result, summary):
        page = viewer.get(page_of(message))
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<b onclick" not in page.text
        assert viewer.get(url("chatmessage_text", message.pk, "content")).content.decode() == text


def test_headings_go_down_without_a_step_left_out(viewer):
    nodes, summary = summarized()
    for message in (reply_to(nodes[-1]), summary):
        page = viewer.get(page_of(message)).text
        assert "compaction_app/message.css" in page
        levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_table_of_the_context_has_a_caption_and_scopes(viewer):
    nodes, _ = summarized()
    page = viewer.get(page_of(reply_to(nodes[-1]))).text
    sections = page[page.index("compaction-sections") :]
    assert sections.count("<table") == sections.count("<caption") == 2
    assert sections.count("<th scope=") == sections.count("<th ")
