"""What the model would be sent at a message, and what it was sent for a reply, on its page."""

import random

import pytest

from compaction_app import chat
from compaction_app.admin import contexts, messages
from compaction_app.messages.openai_format import NO_RESULT
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.values import Kind, Origin, Strategy
from tests.admin.pages import figures_of, ids, page_of, queries_of, table_of
from tests.admin.records import calls, long_words, reply_to, summarized, talk, with_tool_result
from tests.trees import chain, deep_chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_rows_are_what_is_stored_of_what_is_sent_in_order(viewer):
    session = start_session(system_prompt="Be kind.")
    image = {"type": "image", "url": "https://example.org/" + "a" * 500}
    files = [{"type": "file", "name": "plan.pdf"}, image]
    question = chat.append_message(session, role="user", content="read both", name="Ada", attachments=files)
    asked = chat.append_message(session, question, role="assistant", tool_calls=calls("c1", "c2"))
    result = chat.append_message(session, asked, role="tool", tool_call_id="c1", content="one")
    tip = chat.append_message(session, result, role="user", content="and?")
    rows = table_of(viewer, tip).rows
    sent = chat.get_context(tip).to_openai()
    assert sent[4]["content"] == NO_RESULT
    assert [row.role for row in rows] == [item["role"] for item in sent[:4] + sent[5:]]
    assert (rows[1].name, rows[1].attachments[0]) == ("Ada", "[attached: plan.pdf]")
    assert rows[1].attachments[1].startswith("[image: https://example.org/aaa")


def test_the_context_here_is_what_the_model_would_be_sent_and_leads_to_the_originals(viewer):
    nodes, summary = summarized()
    ChatSession.objects.update(system_prompt="Be kind.")
    context = chat.get_context(nodes[-1])
    found = table_of(viewer, nodes[-1])
    assert found.context == context
    sent = [(message.origin, message.tokens) for message in context.messages]
    assert [(row.origin, row.tokens) for row in found.rows] == sent
    assert [ids(row) for row in found.rows] == [(), (summary.pk,), *((node.pk,) for node in nodes[2:])]
    assert [origin for origin, *_ in found.totals] == ["system", "summary", "verbatim"]
    assert sum(tokens for *_, tokens in found.totals) == context.tokens
    assert sum(messages for *_, messages, _ in found.totals) == len(context.messages)


def test_what_did_not_fit_is_a_row_with_its_messages_tokens_and_both_ends(viewer):
    nodes = talk(start_session(), [long_words(f"w{n}x", 100) for n in range(20)])
    found = table_of(viewer, nodes[-1])
    gone = nodes[: found.context.dropped]
    assert len(gone) > 2
    row = found.rows[0]
    assert (row.origin, row.tokens) == (contexts.DROPPED, sum(node.token_count for node in gone))
    assert (row.notes, ids(row)) == ([f"{len(gone)} messages"], (gone[0].pk, gone[-1].pk))
    assert found.totals[-1][3] == len(gone)
    assert found.notes == ["The messages left out do not fit, and no summary that is in use covers them."]
    # After a summary only what came after its cutoff.
    summary = summarize(nodes[3], nodes[1], token_count=8)
    first, second, *_ = table_of(viewer, nodes[-1]).rows
    assert (first.origin, ids(first)) == (Origin.SUMMARY, (summary.pk,))
    assert (second.origin, ids(second)[0]) == (contexts.DROPPED, nodes[2].pk)
    # Where that summary leaves no room, what it covers too.
    ChatMessage.objects.filter(pk=summary.pk).update(token_count=3_900)
    found = table_of(viewer, nodes[-1])
    assert found.context.cutoff_id is None
    assert (found.rows[0].notes, ids(found.rows[0])[0]) == ([f"{found.context.dropped} messages"], nodes[0].pk)


def test_a_context_that_can_not_be_made_says_why(viewer, settings):
    tip = chat.append_message(start_session(), role="user", content=long_words("w", 4000))
    page = viewer.get(page_of(tip)).text
    assert "errornote" in page
    assert "redact the message that is too long" in page
    settings.COMPACTION = {"NO_SUCH_KEY": 1}
    assert "NO_SUCH_KEY" in viewer.get(page_of(tip)).text


def test_a_page_does_not_read_a_whole_branch_where_compaction_is_switched_off(viewer, settings, monkeypatch):
    """Without summaries a context is the branch, and no page loads all messages of a long one."""
    settings.COMPACTION |= {"MODE": "off"}
    nodes = deep_chain(start_session(), 30)
    assert len(table_of(viewer, nodes[-1]).rows) == 30
    monkeypatch.setattr(contexts, "MOST_SWITCHED_OFF", 29)
    assert not any("FROM path" in query for query in queries_of(viewer, page_of(nodes[-1])))


def test_what_was_pruned_says_how_much_is_missing(viewer, settings):
    settings.COMPACTION |= {"PRUNE": "always", "PRUNE_KEEP_TURNS": 1, "PRUNE_TOOL_RESULT_BYTES": 200}
    found = table_of(viewer, with_tool_result()[-1])
    [row] = [row for row in found.rows if row.origin == "pruned"]
    [message] = [m for m in found.context.messages if m.left_out_bytes]
    assert row.notes == [f"{message.left_out_bytes:,} bytes left out"]


def test_every_origin_strategy_and_kind_has_its_words():
    assert set(contexts.ORIGINS) == {*Origin, contexts.DROPPED, contexts.FOLDED} - {Origin.CONTRIBUTION}
    assert set(contexts.STRATEGY_WORDS) == set(Strategy)
    assert set(messages.KIND_WORDS) == set(Kind)


def test_what_was_redacted_is_not_said_to_be_as_it_was_written(viewer):
    nodes, _ = summarized()
    redacted = chat.redact_message(nodes[4])
    assert [ids(row) for row in table_of(viewer, nodes[-1]).rows if "Redacted" in row.notes] == [(redacted.pk,)]


NOT_RECORDED = "What was sent for this reply was not recorded. Below is what would be sent now."


def then(client, reply):
    table = table_of(client, reply)
    assert table.is_record
    return table


def kinds(rows):
    return [(row.origin, *ids(row)) for row in rows]


def test_a_reply_says_what_was_sent_for_it_even_after_the_branch_went_on(viewer):
    nodes, summary = summarized()
    reply = reply_to(nodes[-1])
    later = talk(reply.session, ["more", "and more"], reply)
    summarize(later[-1], reply, token_count=5)
    found = then(viewer, reply)
    assert kinds(found.rows) == [("summary", summary.pk), *(("verbatim", node.pk) for node in nodes[2:])]
    assert "is_record" not in table_of(viewer, reply, sent="now").__dict__


def test_messages_without_a_record_have_one_context_only(viewer):
    nodes, _ = summarized()
    reply = chat.append_message(nodes[0].session, nodes[-1], role="assistant", content="aye")
    for message in (nodes[-1], reply):
        page = viewer.get(page_of(message))
        assert (page.context["has_record"], "Sent for this reply" in page.text) == (False, False)
        assert (NOT_RECORDED in page.text) == (message == reply)


def test_a_summary_retired_since_is_shown_as_it_was_and_what_was_redacted_since_is_said_to_be_gone(viewer):
    nodes, summary = summarized()
    reply = reply_to(nodes[-1])
    chat.retire_summary(summary, reason="wrong")
    found = then(viewer, reply)
    assert ids(found.rows[0]) == (summary.pk,)
    assert "What was said." in found.rows[0].whole
    assert f"Summary {summary.pk} was in use then, and has been retired since." in found.notes
    chat.redact_message(nodes[4])
    chat.redact_message(nodes[0])
    found = then(viewer, reply)
    assert [ids(row) for row in found.rows if "Redacted" in row.notes] == [(nodes[4].pk,)]
    assert f"Summary {summary.pk} was sent, and its text has been erased since." in found.notes


def test_the_providers_own_count_stands_beside_ours(viewer):
    nodes, _ = summarized()
    for counted, said in ((48, "exact"), (96, "50.0% too small")):
        reply = reply_to(nodes[-1], usage={"prompt_tokens": counted})
        figures = figures_of(viewer.get(page_of(reply)).text, "compaction-context")
        assert (figures["Counted by the provider"], figures["Token estimate"]) == (f"{counted} tokens", said)


def test_a_record_that_names_rows_of_another_session_shows_none_of_them(viewer):
    there, summary = summarized(content="Said elsewhere.")
    reply = chain(start_session(), 4)[-1]
    record = {"summary_id": summary.pk, "cutoff_id": there[1].pk, "pinned_id": there[0].pk, "tokens": 9}
    ChatMessage.objects.filter(pk=reply.pk).update(sent_context=record)
    notes = then(viewer, reply).notes
    assert f"Summary {summary.pk} was sent and is deleted now." in notes
    assert f"The turn's request {there[0].pk} was sent and is deleted now." in notes
    assert "Said elsewhere." not in viewer.get(page_of(reply)).text


def test_of_many_messages_that_are_sent_the_newest_are_listed_then_and_now(viewer, settings):
    settings.COMPACTION |= {"CONTEXT_WINDOW": 1_000_000}
    nodes, listed = chain(start_session(), 250), contexts.MOST_LISTED
    for found in (table_of(viewer, nodes[-1]), then(viewer, reply_to(nodes[-1]))):
        folded, *rows = found.rows
        assert (folded.origin, folded.notes) == (contexts.FOLDED, [f"{250 - listed} messages"])
        assert (folded.tokens, ids(folded)) == (10 * (250 - listed), (nodes[0].pk, nodes[-listed - 1].pk))
        assert [ids(row) for row in rows] == [(node.pk,) for node in nodes[-listed:]]


def place(node):
    return node.pk, node.depth, node.token_count, node.path_tokens


def random_tree(seed, size=60):
    """Branches that leave each other anywhere, with summaries among them and a part that was deleted again."""
    chance, session = random.Random(seed), start_session()
    nodes = chain(session, 3)
    while len(nodes) < size:
        parent = nodes[-1] if chance.random() < 0.6 else chance.choice(nodes)
        nodes += chain(session, 1, parent)
        if chance.random() < 0.2:
            summarize(nodes[-1], nodes[0], token_count=5)
    chat.delete_message(chance.choice(nodes[10:]))
    chain(session, 2, ChatMessage.objects.messages().filter(session=session).last())
    return session


#: The same by walking from message to message.
PATH_PLACES = sql.PATH + f"SELECT {sql._PLACE} FROM path JOIN {sql.MESSAGES} m ON m.id = path.id ORDER BY path.depth"


@pytest.mark.parametrize("seed", range(2))
def test_the_ends_of_a_stretch_are_those_that_a_walk_finds(seed):
    chance, session = random.Random(seed), random_tree(seed)
    for tip in chat.tips(session):
        branch = [place(node) for node in chat.get_branch(tip)]
        walked = ChatMessage.objects.raw(PATH_PLACES, {"node": tip.pk, "min_depth": 1})
        assert [place(node) for node in walked] == branch
        for _ in range(5):
            first, last = sorted(chance.choices(range(1, len(branch) + 1), k=2))
            found = contexts.stretch(tip, first=first, last=last)
            assert (found.first, found.last) == (branch[first - 1][0], branch[last - 1][0])
            assert found.messages == last - first + 1
            assert found.tokens == sum(tokens for _, _, tokens, _ in branch[first - 1 : last])
