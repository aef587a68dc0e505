"""Retiring from the admin: which summaries go along, with what reason."""

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from compaction_app.admin.display import link
from compaction_app.models import ChatMessage, CompactionEvent
from compaction_app.values import EventKind
from tests.admin.pages import page_of, told, url
from tests.admin.records import compacted, run_at
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.fixture
def generations():
    """Two summaries, the second built on the first, and a third that is not."""
    session = start_session(title="Harbour")
    nodes = chain(session, 6)
    first, second = summarize(nodes[1], nodes[0]), summarize(nodes[3], nodes[2])
    other = summarize(chain(session, 2)[-1], nodes[0])
    run_at(nodes[-1], status="succeeded", generation=1, summary=first)
    run_at(nodes[-1], status="succeeded", generation=2, summary=second, base=first)
    return first, second, other


def test_retiring_says_first_which_summaries_go(operator, generations):
    first, second, other = generations
    page = operator.get(url("chatmessage_retire", first.pk)).text
    for summary, goes in ((first, True), (second, True), (other, False)):
        assert (f"<li>{link(page_of(summary), summary)}</li>" in page.replace("\n", "").replace("\t", "")) == goes
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()


def test_retiring_takes_a_reason_and_goes_through_the_app(operator, generations):
    first, second, _ = generations
    response = operator.post(url("chatmessage_retire", first.pk), {"reason": "It was wrong."})
    retired = ChatMessage.objects.filter(retired_at__isnull=False)
    assert {(row.pk, row.retired_reason) for row in retired} == {
        (first.pk, "It was wrong."),
        (second.pk, "It was wrong."),
    }
    in_the_background = "If a branch is over its threshold now, it is compacted in the background: see the runs."
    assert told(response) == f"Retired 2: Summary {first.pk}, Summary {second.pk}. {in_the_background}"
    assert response.headers["Location"] == page_of(first)
    assert CompactionEvent.objects.filter(kind=EventKind.RETIRED).count() == 1
    logged = {entry.change_message for entry in LogEntry.objects.all()}
    assert logged == {"Retired."}, "this log outlives an erasure: the reason stands with the summary"


@pytest.mark.parametrize("reason", ["", "  ", "x" * 256, "\x00"])
def test_retiring_without_a_proper_reason_asks_again(operator, generations, reason):
    page = operator.post(url("chatmessage_retire", generations[0].pk), {"reason": reason})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()


def test_what_is_no_live_summary_is_not_retired(operator):
    _, nodes, *_ = compacted()
    retired = summarize(nodes[3], nodes[1], retired_at=timezone.now())
    for row in (nodes[0], retired):
        assert operator.post(url("chatmessage_retire", row.pk), {"reason": "x"}).status_code == 404
