"""A summary is retired: what it held back, and what is refused. The state machine shows what is in use afterwards."""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.exceptions import InvalidMessage, NotASummary
from compaction_app.models import CompactionRun
from tests.builders import grow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


def test_what_was_undone_holds_nothing_back(session, settings, monkeypatch):
    """The cool-down is of the summary in use: the last one made is out of use, and the branch over its threshold."""
    first = grow(session, None, "u a " * 20)[-1]
    base = chat.compact(first)
    CompactionRun.objects.filter(pk=base.pk).update(finished_at=timezone.now() - timedelta(hours=1))
    tip = grow(session, first, "u a " * 30)[-1]
    last = chat.compact(tip)
    assert last.base_id == base.summary_id
    settings.COMPACTION = {**settings.COMPACTION, "COOLDOWN_SECONDS": 60}
    monkeypatch.setattr("compaction_app.compaction.trigger.COVERAGE_RATIO", 0.2)
    chat.retire_summary(last.summary)
    assert chat.should_compact(tip)
    assert chat.get_context(tip).dropped == 0, "the prompt still fits, else no cool-down would hold"
    # Requested by the retirement.
    run = CompactionRun.objects.get(status="ready")
    assert tasks.compact_branch(run.pk) == "succeeded"
    run.refresh_from_db()
    assert (run.generation, chat.find_summary(tip)) == (3, run.summary)
    tip = grow(session, tip, "u a " * 29)[-1]
    assert chat.should_compact(tip)
    assert chat.request_compaction(tip) is None, "now the one in use was just made"


@pytest.mark.parametrize("reason", ["\x00", "\ud800"])
def test_a_reason_that_can_not_be_stored_is_refused_and_what_is_no_summary(session, reason):
    """As any text: SQLite would take it, PostgreSQL would not."""
    summary = chat.compact(grow(session, None, "u a " * 5)[-1]).summary
    with pytest.raises(InvalidMessage):
        chat.retire_summary(summary, reason=reason)
    assert list(session.messages.live()) == [summary]
    with pytest.raises(NotASummary):
        chat.retire_summary(summary.parent)
