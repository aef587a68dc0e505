"""A message's page: what the model would be sent there and, on a reply, what it was sent."""

import json
import re
from itertools import pairwise

import pytest

from compaction_app import chat
from compaction_app.admin import bars, context_words, contexts
from compaction_app.exceptions import ContextOverflow
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.openai_format import NO_RESULT
from compaction_app.values import Origin
from tests.admin_pages import ARABIC, MARKUP, VIEW, log_in, page_of, queries_of, summarized, talk, url
from tests.trees import chain, deep_chain, start_session, summarize

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def small_window(settings):
    settings.COMPACTION = {
        "CONTEXT_WINDOW": 4000,
        "SUMMARIZER": "compaction_app.summarizers.ExtractiveSummarizer",
    }


@pytest.fixture
def viewer(client):
    return log_in(client, *VIEW)


def here(client, message):
    return client.get(page_of(message)).context["here"]


def then(client, reply):
    return client.get(page_of(reply)).context["then"]


def reply_to(tip, content="aye", **fields):
    """A reply with the record of what was sent for it."""
    context = chat.get_context(tip)
    return chat.append_message(tip.session, tip, role="assistant", content=content, context=context, **fields)


def kinds(rows):
    return [(row.origin, row.message_id) for row in rows]


def calls(*ids):
    return [{"id": pk, "type": "function", "function": {"name": "read", "arguments": "{}"}} for pk in ids]


def long_words(about, count=1500):
    return " ".join(f"{about}{n}" for n in range(count))


# -- context here -------------------------------------------------------------------------------------------


def test_every_word_for_an_origin_has_its_meaning():
    words = {*context_words.ORIGIN_WORDS, *context_words.OTHER_WORDS}
    assert set(context_words.MEANINGS) == words


def test_rows_are_what_is_sent_in_order_with_results_that_the_format_demands(viewer):
    """A call that never got its result is sent one; the page would lie if it did not list it."""
    session = start_session(system_prompt="Be kind.")
    question = chat.append_message(session, role="user", content="read both")
    asked = chat.append_message(session, question, role="assistant", tool_calls=calls("c1", "c2"))
    result = chat.append_message(session, asked, role="tool", tool_call_id="c1", content="one")
    tip = chat.append_message(session, result, role="user", content="and?")
    rows = here(viewer, tip).rows
    sent = chat.get_context(tip).to_openai()
    assert [row.role for row in rows] == [item["role"] for item in sent]
    assert [row.origin for row in rows] == ["system", "verbatim", "verbatim", "verbatim", "supplied", "verbatim"]
    assert rows[4].text == NO_RESULT
    assert "Supplied" in viewer.get(page_of(tip)).text


def test_attachments_and_names_are_listed_as_they_are_sent(viewer):
    image = {"type": "image", "url": "https://example.org/" + "a" * 500}
    files = [{"type": "file", "name": "plan.pdf"}, image]
    tip = chat.append_message(start_session(), role="user", content="look", name="Ada", attachments=files)
    [row] = here(viewer, tip).rows
    assert row.name == "Ada"
    assert "[attached: plan.pdf]" in row.whole
    assert "[image: https://example.org/aaa" in row.whole


def test_each_row_leads_to_its_original_and_the_prompt_to_its_session(viewer):
    nodes, summary = summarized()
    ChatSession.objects.update(system_prompt="Be kind.")
    page = viewer.get(page_of(nodes[-1]))
    rows = page.context["here"].rows
    assert [row.links for row in rows] == [
        ((page_of(nodes[0].session), "Session"),),
        ((page_of(summary), f"Summary {summary.pk}"),),
        *(((page_of(node), f"Message {node.pk}"),) for node in nodes[2:]),
    ]
    for row in rows:
        assert f'href="{row.links[0][0]}"' in page.text
    assert f"Stands for everything up to message {nodes[1].pk}" in page.text


def test_totals_by_origin_add_up_to_what_is_sent(viewer):
    nodes, _ = summarized()
    ChatSession.objects.update(system_prompt="Be kind.")
    found = here(viewer, nodes[-1])
    assert sum(total.tokens for total in found.totals) == found.context.tokens
    assert [total.origin for total in found.totals] == ["system", "summary", "verbatim"]
    assert sum(total.messages for total in found.totals) == len(found.context.messages)


def test_what_did_not_fit_is_a_row_with_its_messages_tokens_and_both_ends(viewer):
    session = start_session()
    nodes = talk(session, [long_words(f"w{n}x", 100) for n in range(20)])
    tip = nodes[-1]
    found = here(viewer, tip)
    context = found.context
    assert context.dropped > 2
    [row] = [row for row in found.rows if row.origin == context_words.DROPPED]
    gone = nodes[: context.dropped]
    assert row.tokens == sum(node.token_count for node in gone)
    assert row.note == f"{context.dropped} messages"
    assert row.links == tuple((page_of(node), f"Message {node.pk}") for node in (gone[0], gone[-1]))
    assert found.rows.index(row) == 0
    assert found.totals[-1].messages == context.dropped
    assert "Left out" in viewer.get(page_of(tip)).text


def test_what_was_left_out_of_the_newest_turn_stands_where_it_is_missing(viewer):
    """A turn too large alone keeps its user message and loses its oldest call groups."""
    session = start_session()
    messages = [{"role": "user", "content": "go on"}]
    for n in range(12):
        messages.append({"role": "assistant", "content": long_words(f"t{n}x", 200), "tool_calls": calls(f"c{n}")})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "ok"})
    nodes = chat.append_messages(session, None, messages)
    found = here(viewer, nodes[-1])
    assert found.context.dropped
    assert [row.origin for row in found.rows][:2] == ["verbatim", "dropped"]
    missing = nodes[1 : 1 + found.context.dropped]
    assert found.rows[1].tokens == sum(node.token_count for node in missing)
    assert [url for url, _ in found.rows[1].links] == [page_of(missing[0]), page_of(missing[-1])]


def test_after_a_summary_only_what_came_after_its_cutoff_is_told_as_left_out(viewer):
    session = start_session()
    nodes = talk(session, [long_words(f"w{n}x", 100) for n in range(20)])
    summary = summarize(nodes[3], nodes[1], token_count=8)
    found = here(viewer, nodes[-1])
    assert found.context.summary_id == summary.pk
    [row] = [row for row in found.rows if row.origin == context_words.DROPPED]
    assert row.links[0][0] == page_of(nodes[2])
    assert found.rows[0].origin == Origin.SUMMARY


def test_a_long_context_lists_its_first_and_last_messages_and_a_word_about_the_rest(viewer, settings):
    settings.COMPACTION |= {"CONTEXT_WINDOW": 100_000}
    nodes = chain(start_session(), 500)
    found = here(viewer, nodes[-1])
    listed = contexts.MOST_FIRST + contexts.MOST_LAST
    assert len(found.rows) == listed + 1
    [folded] = [row for row in found.rows if row.origin == context_words.FOLDED]
    assert folded.note == f"{500 - listed} messages"
    assert folded.tokens == 10 * (500 - listed)
    assert [link for link, _ in folded.links] == [
        page_of(nodes[contexts.MOST_FIRST]),
        page_of(nodes[-contexts.MOST_LAST - 1]),
    ]
    assert found.totals[0].messages == 500
    assert viewer.get(page_of(nodes[-1])).text.count("compaction-row-") == listed + 1


def test_the_list_can_be_had_exactly_as_it_would_be_sent(viewer):
    nodes, _ = summarized()
    answer = viewer.get(url("chatmessage_context", nodes[-1].pk))
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert json.loads(answer.text) == chat.get_context(nodes[-1]).to_openai()


def test_a_context_that_can_not_be_made_says_why_in_both_places(viewer):
    tip = chat.append_message(start_session(), role="user", content=long_words("w", 4000))
    assert "errornote" in viewer.get(page_of(tip)).text
    answer = viewer.get(url("chatmessage_context", tip.pk))
    assert answer.status_code == 409
    with pytest.raises(ContextOverflow) as overflow:
        chat.get_context(tip)
    assert answer.text == str(overflow.value)


def test_a_page_does_not_read_a_whole_branch_where_compaction_is_switched_off(viewer, settings, monkeypatch):
    """Without summaries a context is the branch, and no page loads all messages of a long one."""
    settings.COMPACTION |= {"MODE": "off"}
    nodes = deep_chain(start_session(), 30)
    assert len(here(viewer, nodes[-1]).rows) == 30
    monkeypatch.setattr(contexts, "MOST_SWITCHED_OFF", 29)
    page = viewer.get(page_of(nodes[-1]))
    assert "everything is sent: 30 messages, 300 tokens" in page.text
    assert page.context["here"].rows == ()
    assert not any("FROM path" in query for query in queries_of(viewer, page_of(nodes[-1])))


def test_the_bar_is_drawn_to_scale_and_told_in_words(viewer):
    nodes, _ = summarized()
    found = here(viewer, nodes[-1])
    context, drawn = found.context, found.bar
    assert [part.origin for part in drawn.parts] == ["summary", "verbatim"]
    assert drawn.parts[0].width == max(2, 8 * 1000 // context.available_tokens)
    at = [limit * 1000 // context.available_tokens for limit in (context.target, context.threshold)]
    assert [mark.at for mark in drawn.marks] == [*at, bars.WIDTH - bars.MARK], "and the end of what is available"
    assert f"threshold {context.threshold:,}" in drawn.told
    assert drawn.told in viewer.get(page_of(nodes[-1])).text


# -- context then -------------------------------------------------------------------------------------------


def test_a_reply_says_what_was_sent_for_it_even_after_the_branch_went_on(viewer):
    nodes, summary = summarized()
    reply = reply_to(nodes[-1])
    later = talk(reply.session, ["more", "and more"], reply)
    summarize(later[-1], reply, token_count=5)
    found = then(viewer, reply)
    assert kinds(found.rows) == [("summary", summary.pk), *(("verbatim", node.pk) for node in nodes[2:])]
    assert dict(found.figures)["Strategy"] == "A summary is in use, or needed"
    assert dict(found.figures)["Sent in all"] == str(8 + 40)
    assert "What is listed adds up to the 48 tokens that were recorded." in found.notes
    page = viewer.get(page_of(reply)).text
    assert page.index("Context then</h2>") < page.index("Context here</h2>")
    assert 'href="#compaction-then"' in page


def test_messages_without_a_record_have_one_context_only(viewer):
    nodes, _ = summarized()
    page = viewer.get(page_of(nodes[-1]))
    assert page.context["then"] is None
    assert "Context then" not in page.text


def test_a_summary_retired_since_is_shown_as_it_was_and_said_to_be_retired(viewer):
    nodes, summary = summarized()
    reply = reply_to(nodes[-1])
    chat.retire_summary(summary, reason="wrong")
    row = then(viewer, reply).rows[0]
    assert row.message_id == summary.pk
    assert "What was said." in row.whole
    assert row.note.endswith("in use then, retired since")


def test_what_was_redacted_since_is_said_to_be_gone(viewer):
    nodes, summary = summarized()
    reply = reply_to(nodes[-1])
    chat.redact_message(nodes[4])
    chat.redact_message(nodes[0])
    found = then(viewer, reply)
    assert f"Redacted since, so that what was sent is gone: message {nodes[4].pk}." in found.notes
    assert f"Summary {summary.pk} was sent and has been emptied since: what it held was erased." in found.notes
    assert found.rows[0].note.endswith("emptied since")
    assert not any("adds up" in note for note in found.notes)


def test_what_was_redacted_before_was_sent_redacted(viewer):
    nodes, _ = summarized()
    chat.redact_message(nodes[4])
    found = then(viewer, reply_to(nodes[-1]))
    assert not any("Redacted since" in note for note in found.notes)


def test_contributions_are_counted_and_said_to_be_missing(viewer):
    nodes, _ = summarized()
    contributions = [{"role": "developer", "content": long_words("c", 50)}]
    context = chat.get_context(nodes[-1], contributions=contributions)
    reply = chat.append_message(nodes[-1].session, nodes[-1], role="assistant", content="aye", context=context)
    found = then(viewer, reply)
    other = context.tokens - context.history_tokens
    assert any(note.startswith(f"Of the {context.tokens} tokens recorded, {other} belong") for note in found.notes)
    assert not any(row.origin == Origin.CONTRIBUTION for row in found.rows)


def test_what_did_not_fit_then_is_told_with_its_ends(viewer):
    nodes = talk(start_session(), [long_words(f"w{n}x", 100) for n in range(21)])
    context = chat.get_context(nodes[-1])
    reply = reply_to(nodes[-1])
    found = then(viewer, reply)
    assert found.rows[0].origin == context_words.DROPPED
    assert found.rows[0].note == f"{context.dropped} messages"
    assert found.rows[0].tokens == sum(node.token_count for node in nodes[: context.dropped])
    assert kinds(found.rows[1:]) == [("verbatim", node.pk) for node in nodes[context.dropped :]]
    assert any("adds up" in note for note in found.notes)


def test_messages_left_out_of_the_newest_turn_are_told_by_their_number(viewer):
    session = start_session()
    messages = [{"role": "user", "content": "go on"}]
    for n in range(12):
        messages.append({"role": "assistant", "content": long_words(f"t{n}x", 200), "tool_calls": calls(f"c{n}")})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "ok"})
    tip = chat.append_messages(session, None, messages)[-1]
    dropped = chat.get_context(tip).dropped
    found = then(viewer, reply_to(tip))
    assert f"{dropped} of the newest turn's messages were left out too; which is not recorded." in found.notes


def tool_talk(size=1200):
    messages = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "tool_calls": calls("c1")},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * size},
        {"role": "user", "content": "and?"},
        {"role": "user", "content": "well?"},
    ]
    return chat.append_messages(start_session(), None, messages)


def test_pruned_results_are_found_again_by_the_rules_of_then(viewer, settings):
    settings.COMPACTION |= {"PRUNE": "always", "PRUNE_KEEP_TURNS": 1, "PRUNE_TOOL_RESULT_BYTES": 200}
    nodes = tool_talk()
    found = then(viewer, reply_to(nodes[-1]))
    [row] = [row for row in found.rows if row.origin == Origin.PRUNED]
    assert row.message_id == nodes[2].pk
    assert row.left_out_bytes > 900
    assert "truncated" in row.whole
    assert any("adds up" in note for note in found.notes)


def test_pruned_results_that_todays_settings_would_not_prune_are_not_guessed_at(viewer, settings):
    settings.COMPACTION |= {"PRUNE": "always", "PRUNE_KEEP_TURNS": 1, "PRUNE_TOOL_RESULT_BYTES": 200}
    reply = reply_to(tool_talk()[-1])
    settings.COMPACTION |= {"PRUNE_TOOL_RESULT_BYTES": 4096}
    found = then(viewer, reply)
    assert not any(row.origin == Origin.PRUNED for row in found.rows)
    assert "1 tool result was sent shortened; which is not recorded, so all are shown in full." in found.notes


def test_the_providers_own_count_stands_beside_ours(viewer):
    nodes, _ = summarized()
    found = then(viewer, reply_to(nodes[-1], usage={"prompt_tokens": 96}))
    figures = dict(found.figures)
    assert figures["Counted by the provider"] == "96"
    assert figures["Our estimate was"] == "50.0% too small"


def test_a_pinned_message_is_shown_as_it_was_sent(viewer):
    nodes, _ = summarized()
    summary = summarize(nodes[4], nodes[3], pinned_message=nodes[2], token_count=8)
    found = then(viewer, reply_to(nodes[-1]))
    assert kinds(found.rows) == [
        ("summary", summary.pk),
        ("pinned", nodes[2].pk),
        ("verbatim", nodes[4].pk),
        ("verbatim", nodes[5].pk),
    ]


@pytest.mark.parametrize(
    "kept",
    [
        {"tokens": "many", "strategy": 7, "first_shown_depth": -1, "estimate_error": "x"},
        {"summary_id": 10**18, "first_shown_depth": 10**9, "dropped": 5},
        {"summary_id": True, "first_shown_depth": 1, "dropped": 10**6, "pruned": 3},
        {MARKUP: MARKUP, "strategy": MARKUP},
        [1],
    ],
)
def test_a_record_that_a_host_wrote_is_read_as_far_as_it_goes(viewer, kept):
    nodes = talk(start_session(), ["a", "b", "c", "d"])
    ChatMessage.objects.filter(pk=nodes[-1].pk).update(sent_context=kept)
    page = viewer.get(page_of(nodes[-1]))
    assert page.status_code == 200
    assert "<script>alert" not in page.text


def test_messages_of_another_session_are_never_shown(viewer):
    nodes = talk(start_session(), ["a", "b"])
    foreign = chat.append_message(start_session(), role="user", content="the secret of others")
    kept = {"summary_id": foreign.pk, "pinned_id": foreign.pk, "first_shown_depth": 1}
    ChatMessage.objects.filter(pk=nodes[-1].pk).update(sent_context=kept)
    assert "the secret of others" not in viewer.get(page_of(nodes[-1])).text


def test_many_messages_that_were_sent_are_read_at_both_ends_only(viewer, settings):
    settings.COMPACTION |= {"MODE": "off", "CONTEXT_WINDOW": 1_000_000}
    session = start_session()
    nodes = chain(session, 700)
    reply = reply_to(nodes[-1])
    found = then(viewer, reply)
    listed = contexts.MOST_FIRST + contexts.MOST_LAST
    [folded] = [row for row in found.rows if row.origin == context_words.FOLDED]
    assert len(found.rows) == listed + 1
    assert (folded.note, folded.tokens) == (f"{700 - listed} messages", 10 * (700 - listed))
    assert [link for link, _ in folded.links] == [
        page_of(nodes[contexts.MOST_FIRST]),
        page_of(nodes[-contexts.MOST_LAST - 1]),
    ]
    assert [row.message_id for row in found.rows if row.message_id] == [
        node.pk for node in nodes[: contexts.MOST_FIRST] + nodes[-contexts.MOST_LAST :]
    ]


# -- constant work ------------------------------------------------------------------------------------------


def test_a_message_takes_the_same_queries_at_20_and_at_2000_messages(viewer, settings):
    settings.COMPACTION |= {"CONTEXT_WINDOW": 6000}
    for of in (lambda nodes: nodes[-1], lambda nodes: reply_to(nodes[-1])):
        few, many = (queries_of(viewer, page_of(of(chain(start_session(), length)))) for length in (20, 2000))
        # Where messages are left out, one query looks for their ends: once for now and once for then.
        assert len(many) <= len(few) + 3 <= 18, many
        more = queries_of(viewer, page_of(of(chain(start_session(), 1000))))
        assert len(more) == len(many)


def test_a_compacted_branch_takes_the_same_queries_at_any_length(viewer):
    counts = set()
    for length in (20, 2000):
        nodes = chain(start_session(), length)
        summarize(nodes[-3], nodes[-4], token_count=8)
        counts.add(len(queries_of(viewer, page_of(reply_to(nodes[-1])))))
    assert len(counts) == 1


# -- texts of any size and kind -----------------------------------------------------------------------------


def test_a_message_of_four_megabytes_shows_its_beginning_and_leads_to_the_rest(viewer):
    text = "long " * (4 * 1024 * 1024 // 5)
    message = chat.append_message(start_session(), role="user", content=text)
    page = viewer.get(page_of(message)).text
    assert len(page) < 200_000
    assert f"{len(text) - 20_000:,} characters more are not shown here" in page
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
    assert "2 calls more." in page
    for part in ("tool_calls", "reasoning"):
        link = url("chatmessage_text", message.pk, part)
        assert f'href="{link}"' in page
        assert json.loads(viewer.get(link).text) == getattr(message, part)


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


def test_the_pages_need_no_inline_style_or_script(viewer):
    nodes, summary = summarized()
    for message in (reply_to(nodes[-1]), nodes[0], summary):
        text = viewer.get(page_of(message)).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
        assert "compaction_app/message.css" in text


def test_headings_go_down_without_a_step_left_out(viewer):
    nodes, summary = summarized()
    for message in (reply_to(nodes[-1]), summary):
        levels = [int(level) for level in re.findall(r"<h([1-6])", viewer.get(page_of(message)).text)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_table_of_the_context_has_a_caption_and_scopes(viewer):
    nodes, _ = summarized()
    page = viewer.get(page_of(reply_to(nodes[-1]))).text
    sections = page[page.index("compaction-sections") :]
    assert sections.count("<table") == sections.count("<caption") == 4
    assert sections.count("<th scope=") == sections.count("<th ")
