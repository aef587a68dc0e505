"""Undo in depth: a summary is retired in the middle of a line of generations, and people go on chatting.

What must hold afterwards: the originals are back, all that was built on the retired one is gone from use too,
the next compaction builds on the newest live one, generation numbers go on, and along every line each message
was told once: nothing is lost and nothing twice.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionRefused, InvalidMessage, NotASummary
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.compaction.world import Interfering
from tests.fake_summarizer import FakeSummarizer
from tests.small import shown_ids, small

pytestmark = pytest.mark.django_db(transaction=True)

#: Messages of 100 tokens: five turns a generation stay far below the threshold of 6,000, so all can be shown.
TURNS = "u a " * 5


@pytest.fixture(autouse=True)
def site(settings):
    settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": "tests.compaction.world.Interfering"}})
    yield
    Interfering.action = None


@pytest.fixture
def session():
    return chat.start_session(title="a conversation")


def go_on(
    session: ChatSession, tip: ChatMessage | None, generations: int
) -> tuple[ChatMessage | None, list[ChatMessage]]:
    """Chat and compact so often; the tip, and the summaries in order."""
    made = []
    for _ in range(generations):
        tip = grow(session, tip, TURNS)[-1]
        made.append(chat.compact(tip).summary)
    return tip, made


def line_of(summary: ChatMessage | None) -> list[CompactionRun]:
    """The runs that made a summary and what it was built on, the first generation first."""
    line: list[CompactionRun] = []
    while summary is not None:
        run = CompactionRun.objects.select_related("base").get(summary=summary)
        line.insert(0, run)
        summary = run.base
    return line


def check_branch(tip: ChatMessage, *, generation: int | None) -> None:
    """The newest summary at the tip is of that generation, and with the tail it tells each message once."""
    newest = chat.find_summary(tip)
    line = line_of(newest)
    assert (line[-1].generation if line else None) == generation
    assert all(run.summary.retired_at is None for run in line)
    told = {request.nonce: request for request in FakeSummarizer.requests}
    covered = [message.id for run in line for message in told[run.nonce].covered]
    path = [message.pk for message in chat.get_branch(tip)]
    assert covered == path[: len(covered)]
    context = chat.get_context(tip)
    assert context.dropped == 0
    assert shown_ids(tip) == [*([newest.pk] if newest else []), *path[len(covered) :]]
    assert verify_session(tip.session).problems == []


def live(session: ChatSession) -> list[ChatMessage]:
    return list(ChatMessage.objects.filter(session=session).live().order_by("id"))


@pytest.mark.parametrize("index", [0, 2])
def test_from_the_retired_generation_on_the_originals_are_back(session, index):
    tip, made = go_on(session, None, 5)
    assert tip is not None
    before = list(ChatMessage.objects.filter(session=session).messages().order_by("id").values())
    check_branch(tip, generation=5)
    assert chat.retire_summary(made[index], reason="it got the date wrong") == [s.pk for s in made[index:]]
    check_branch(tip, generation=index or None)
    assert live(session) == made[:index]
    retired = ChatMessage.objects.filter(session=session, kind="summary", retired_at__isnull=False)
    assert {(s.retired_reason, bool(s.content)) for s in retired} == {("it got the date wrong", True)}
    [event] = CompactionEvent.objects.filter(session=session, kind="retired")
    assert (event.payload["summaries"], event.payload["summary"]) == (5 - index, made[index].pk)
    assert list(ChatMessage.objects.filter(session=session).messages().order_by("id").values()) == before


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
    check_branch(tip, generation=3)
    tip = grow(session, tip, "u a " * 29)[-1]
    assert chat.should_compact(tip)
    assert chat.request_compaction(tip) is None, "now the one in use was just made"


@pytest.mark.parametrize("reason", ["\x00", "\ud800"])
def test_a_reason_that_can_not_be_stored_is_refused_and_what_is_no_summary(session, reason):
    """As any text: SQLite would take it, PostgreSQL would not."""
    _, (summary,) = go_on(session, None, 1)
    with pytest.raises(InvalidMessage):
        chat.retire_summary(summary, reason=reason)
    assert live(session) == [summary]
    with pytest.raises(NotASummary):
        chat.retire_summary(summary.parent)


def test_a_run_that_waits_is_given_up_and_the_next_turn_asks_anew(session):
    """The retirement comes while a model is being asked."""
    tip, made = go_on(session, None, 3)
    tip = grow(session, tip, "u a " * 30)[-1]
    run = chat.request_compaction(tip)
    assert run is not None
    chat.retire_summary(made[1])
    asked = len(FakeSummarizer.requests)
    with pytest.raises(CompactionRefused, match="open_run"):
        chat.compact(tip)
    assert tasks.compact_branch(run.pk) == "skipped"
    assert len(FakeSummarizer.requests) == asked, "no model is asked for a run on a retired base"
    run.refresh_from_db()
    assert run.skip_reason == "base_changed"
    again = chat.request_compaction(tip)
    assert again is not None
    assert tasks.compact_branch(again.pk) == "succeeded"
    check_branch(tip, generation=4)
