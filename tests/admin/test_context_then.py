"""What the model was sent for a reply, on the reply's page: as it was recorded, told with what was lost since."""

import pytest

from compaction_app import chat
from compaction_app.admin import contexts
from compaction_app.models import ChatMessage
from compaction_app.values import Origin
from tests.admin.pages import figures_of, ids, page_of, table_of, url
from tests.admin.records import long_words, reply_to, summarized, talk
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


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
    page = viewer.get(page_of(reply)).text
    figures = figures_of(page, "compaction-context")
    assert (figures["Sent in total"], figures["Left out"]) == (f"{8 + 40} tokens", "0 messages")
    assert figures["Strategy"] == "A summary is used"
    for link in (f'<a href="{url("chatmessage_text", reply.pk, "sent_context")}">', "sent=now#compaction-context"):
        assert link in page
    assert "is_record" not in table_of(viewer, reply, sent="now").__dict__
    assert NOT_RECORDED not in page


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


def test_contributions_are_counted_and_said_to_be_missing(viewer):
    nodes, _ = summarized()
    contributions = [{"role": "developer", "content": long_words("c", 50)}]
    context = chat.get_context(nodes[-1], contributions=contributions)
    reply = chat.append_message(nodes[-1].session, nodes[-1], role="assistant", content="aye", context=context)
    found = then(viewer, reply)
    assert "Contributions, tool schemas and" in viewer.get(page_of(reply)).text
    assert not any(row.origin == Origin.CONTRIBUTION for row in found.rows)


def test_what_did_not_fit_then_is_told_with_its_ends(viewer):
    nodes = talk(start_session(), [long_words(f"w{n}x", 100) for n in range(21)])
    context = chat.get_context(nodes[-1])
    reply = reply_to(nodes[-1])
    found = then(viewer, reply)
    assert found.rows[0].origin == contexts.DROPPED
    assert found.rows[0].notes == [f"{context.dropped} messages"]
    assert found.rows[0].tokens == sum(node.token_count for node in nodes[: context.dropped])
    assert kinds(found.rows[1:]) == [("verbatim", node.pk) for node in nodes[context.dropped :]]


def test_the_providers_own_count_stands_beside_ours(viewer):
    nodes, _ = summarized()
    for counted, said in ((48, "exact"), (96, "50.0% too small")):
        reply = reply_to(nodes[-1], usage={"prompt_tokens": counted})
        figures = figures_of(viewer.get(page_of(reply)).text, "compaction-context")
        assert (figures["Counted by the provider"], figures["Token estimate"]) == (f"{counted} tokens", said)


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
    assert viewer.get(page_of(nodes[-1])).text.count("compaction-row-") == listed + 1
