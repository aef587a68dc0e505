"""Which summary applies to which branch, and what a context reads: design §2 and §17."""

from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.models import ChatSession
from compaction_app.tree import branches
from tests.builders import grow
from tests.small import anchored_summary, shown_ids

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]


class TestApplies:
    def test_a_summary_does_not_apply_where_its_anchor_is_not(self, session):
        m1, m2, _, m4, m5 = grow(session, None, "u a u a u")
        m6, m7 = grow(session, m2, "u a")
        anchored_summary(m5, m4)
        assert chat.find_summary(m7) is None
        assert shown_ids(m7) == [m1.pk, m2.pk, m6.pk, m7.pk]

    def test_a_fork_between_cutoff_and_anchor_falls_back_to_the_older_generation(self, session):
        messages = grow(session, None, "u a u a u a u a")
        older = anchored_summary(messages[3], messages[1])
        anchored_summary(messages[7], messages[3])
        fork = grow(session, messages[5], "u")[0]
        assert chat.find_summary(fork) == older
        assert shown_ids(fork) == [older.pk, *(m.pk for m in messages[2:6]), fork.pk]


class TestReading:
    def test_rows_and_queries_do_not_grow_with_what_is_compacted(self):
        """The same tail behind 40 and behind 1,000 messages: the same queries, the same rows."""
        seen = []
        for turns in (20, 500):
            messages = grow(chat.start_session(), None, "u a " * turns)
            anchored_summary(messages[-5], messages[-8])
            with (
                mock.patch.object(branches, "message_value", wraps=branches.message_value) as read,
                CaptureQueriesContext(connection) as captured,
            ):
                chat.get_context(messages[-1])
            seen.append((len(captured), read.call_count))
        assert seen[0] == seen[1]
        assert seen[0][0] == 1, "its rows and its session"
        assert seen[0][1] > 0

    @pytest.mark.parametrize(
        ("changed", "shown"),
        [
            ({"system_prompt": "Be kind."}, {"reserved_tokens": 2_006}),
            ({"settings": {"CONTEXT_WINDOW": 9_000}}, {"window": 9_000}),
            ({"model": "gpt-4o"}, {"model": "gpt-4o"}),
            ({"token_calibration": {"": 1.5}}, {"threshold": 4_000}),
        ],
    )
    def test_a_session_in_memory_is_not_believed(self, session, changed, shown):
        """It may be old, or have been changed and not stored."""
        tip = grow(session, None, "u a u")[-1]
        before = chat.get_context(tip)
        assert tip.session is session
        vars(session).update(system_prompt="Never stored.")
        assert chat.get_context(tip) == before
        session.refresh_from_db()
        ChatSession.objects.filter(pk=session.pk).update(**changed)
        context = chat.get_context(tip)
        assert {name: getattr(context, name) for name in shown} == shown

    def test_content_is_read_back_to_the_window_only(self, session):
        messages = grow(session, None, "u a " * 300)
        branch, _ = branches.load_window(messages[-1], limit=2_000, preserve=2, prune_bytes=4_096)
        assert len(branch.tail) == 20
        assert branch.unread == 580
        assert branch.history_tokens == 60_000

    def test_a_summary_of_more_tokens_than_asked_for_is_passed_over(self, session):
        messages = grow(session, None, "u a " * 20)
        older = anchored_summary(messages[20], messages[18], tokens=50)
        newer = anchored_summary(messages[30], messages[28], tokens=60)
        wanted = {"limit": 2_000, "preserve": 2, "prune_bytes": 4_096}

        def load(**largest):
            return branches.load_window(messages[-1], **wanted, **largest)[0]

        assert [load().base.id, load(largest_summary=60).base.id] == [newer.pk] * 2
        passed_over = load(largest_summary=59)
        assert (passed_over.base.id, passed_over.base.cutoff_id) == (older.pk, messages[18].pk)
        assert passed_over.tail[-1].id == messages[-1].pk
        assert load(largest_summary=49).base is None

    def test_the_newest_user_message_is_read_however_far_up_it_stands(self, session):
        messages = grow(session, None, "u " + "c t " * 200)
        branch, _ = branches.load_window(messages[-1], limit=2_000, preserve=2, prune_bytes=4_096)
        assert branch.tail[0].id == messages[0].pk
        assert branch.tail[1].id > messages[300].pk

    def test_the_trigger_reads_numbers_only(self, session):
        messages = grow(session, None, "u a " * 10)
        anchored_summary(messages[15], messages[13], content="not to be read", pinned=messages[12])
        with CaptureQueriesContext(connection) as captured:
            history = branches.history_at(messages[-1])
        assert history.tokens == 6 * 100 + 30 + 100
        assert len(captured) == 1
        assert "content" not in captured[0]["sql"]

    def test_a_transcript_is_the_path_without_summaries(self, session):
        messages = grow(session, None, "u a u a")
        anchored_summary(messages[2], messages[1])
        assert [m.pk for m in chat.get_branch(messages[-1])] == [m.pk for m in messages]
