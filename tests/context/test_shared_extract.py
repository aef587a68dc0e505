"""What a fork between a summary's cutoff and its anchor is shown: the extract, and nothing of the other branch."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.messages.transcript import summary_message
from compaction_app.models import ChatMessage, CompactionEvent, sql
from tests.builders import grow, words
from tests.small import anchored_summary, small
from tests.trees import analyze, chain, deep_chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]

EXTRACT = "user: never sand the mast"


def branch_and_fork(session, *, extract=EXTRACT, at=153, **fields):
    """200 messages, of which 80 fit, a summary up to message 150 at message 156, and a fork below message ``at``."""
    nodes = grow(session, None, "u a " * 100)
    summary = anchored_summary(nodes[155], nodes[149], extract=extract, **fields)
    return nodes, summary, grow(session, nodes[at - 1], "u")[0]


class TestShown:
    def test_the_extract_stands_for_what_the_summary_covers_and_all_after_the_cutoff_follows(self, session):
        nodes, summary, fork = branch_and_fork(session)
        context = chat.get_context(fork)
        assert (context.strategy, context.dropped, context.fallback_used) == ("shared_extract", 0, False)
        assert (context.summary_id, context.cutoff_id, context.pinned_id) == (summary.pk, nodes[149].pk, None)
        first, *others = context.messages
        assert (first.origin, first.role, first.message_id) == ("shared_extract", "user", summary.pk)
        assert first.content == summary_message(EXTRACT)
        assert first.tokens == len(first.content.split()) + 4
        assert [message.message_id for message in others] == [*(node.pk for node in nodes[150:153]), fork.pk]
        assert {message.origin for message in others} == {"verbatim"}
        assert context.tokens == context.history_tokens == first.tokens + 400
        assert chat.find_summary(fork) is None, "its text applies where its anchor is"
        assert "what was said before" not in str(context.to_openai())

    def test_the_redactor_reads_it(self, session, settings):
        settings.COMPACTION = small(REDACTOR="tests.context.test_shared_extract.without_masts")
        _, _, fork = branch_and_fork(session)
        assert chat.get_context(fork).messages[0].content == summary_message("user: never sand the [gone]")

    def test_a_reply_keeps_what_was_sent_and_the_branch_asks_for_its_own_summary(self, session):
        nodes, summary, fork = branch_and_fork(session)
        context = chat.get_context(fork)
        reply = chat.append_message(session, fork, role="assistant", content=words(100), context=context)
        sent = reply.sent_context
        assert (sent["strategy"], sent["summary_id"]) == ("shared_extract", summary.pk)
        assert (sent["cutoff_id"], sent["dropped"]) == (nodes[149].pk, 0)
        assert not reply.fallback_used
        assert not CompactionEvent.objects.filter(kind="fallback_used").exists()
        assert chat.should_compact(reply)
        assert chat.compact(reply).status == "succeeded"
        assert chat.get_context(reply).strategy == "auto_compact"


def without_masts(text: str) -> str:
    return text.replace("mast", "[gone]")


class TestNotShown:
    def test_the_newest_user_message_is_never_covered_by_it(self, session):
        nodes, _, _ = branch_and_fork(session)
        for tip in (grow(session, nodes[149], "a a")[-1], nodes[149]):
            assert chat.get_context(tip).strategy == "truncated"

    def test_a_result_never_stands_without_the_call_that_the_extract_covers(self, session):
        """The call was open at the cutoff, which is why the anchor is below it; on another branch it is answered."""
        nodes = grow(session, None, "u a " * 75 + "u c")
        below = grow(session, nodes[-1], "u a u a")
        anchored_summary(below[0], nodes[-1], extract=EXTRACT)
        call = nodes[-1].tool_calls[0]["id"]
        answered = chat.append_message(session, nodes[-1], role="tool", tool_call_id=call, content=words(90))
        assert chat.get_context(grow(session, answered, "a u")[-1]).strategy == "truncated"


class TestCost:
    def test_only_where_something_would_be_left_out_one_more_statement_is_made(self, session):
        nodes, _, fork = branch_and_fork(session)
        other = grow(start_session(), None, "u a " * 100)[-1]
        for tip, queries in ((grow(session, nodes[155], "u")[0], 1), (fork, 2), (other, 2)):
            with CaptureQueriesContext(connection) as captured:
                chat.get_context(tip)
            assert len(captured) == queries

    @pytest.mark.twice
    def test_it_walks_no_further_than_the_window_reaches(self, settings):
        """At a depth of 1,200, and with nothing to be found: as many rows as 8,000 tokens have."""
        tip = deep_chain(start_session(), 1_200)[-1]
        walk = sql.SHARED_EXTRACT.partition("base(id)")[0].rstrip(", \n") + " SELECT count(*) FROM walk"
        with connection.cursor() as cursor:
            cursor.execute(walk, {"tip": tip.pk, "above": 0, "limit": 8_000, "pruned": 128})
            assert cursor.fetchone()[0] <= 803

    def test_a_thousand_summaries_at_one_cutoff_are_one_look_up(self, session):
        # With one cutoff in all of the table a planner would rather read the table from its end.
        for node in chain(start_session(), 100):
            anchored_summary(node, node, extract=EXTRACT)
        nodes = chain(session, 4)
        place = {"session": session, "role": "user", "depth": 3}
        forks = [ChatMessage(**place, parent=nodes[1], sib_order=n) for n in range(2, 1_002)]
        told = {**place, "kind": "summary", "last_summarized_message": nodes[1], "extract": EXTRACT}
        ChatMessage.objects.bulk_create(ChatMessage(**told, parent=f) for f in ChatMessage.objects.bulk_create(forks))
        analyze()
        explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)"
        asked = {"tip": nodes[3].pk, "above": 0, "limit": 8_000, "pruned": 128}
        newest = ChatMessage.objects.latest("id").pk
        with connection.cursor() as cursor:
            cursor.execute(sql.SHARED_EXTRACT, asked)
            assert [row[0] for row in cursor.fetchall() if row[-1] == "summary"] == [newest]
            cursor.execute(f"{explain} {sql.SHARED_EXTRACT}", asked)
            plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
        assert "compaction_live_by_cutoff" in plan, plan
        assert "TEMP B-TREE" not in plan, plan
        if connection.vendor == "postgresql":
            scans = re.findall(r"Index Scan.* using compaction_live_by_cutoff.*\(actual rows=([\d.]+)", plan)
            assert scans
            assert all(float(rows) <= 1 for rows in scans), plan
