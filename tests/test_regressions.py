"""Faults that the state machine found, each as the shortest story that shows it."""

import pytest

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.values import SummaryDraft, SummaryRequest
from tests.builders import grow
from tests.compaction.world import Interfering
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


class SmallSummarizer(FakeSummarizer):
    max_input_tokens = 1_000


@pytest.fixture(autouse=True)
def site(settings):
    settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": "tests.compaction.world.Interfering"}})
    yield
    Interfering.reset()
    Interfering.action = None


@pytest.mark.parametrize("transient", [True, False])
def test_a_summarizer_that_fails_after_its_branch_was_deleted_ends_the_run(session, branch, transient):
    """The event of the failure pointed at the deleted tip, so that nothing of it could be written and the run
    stayed claimed until its lease ran out."""
    run = chat.request_compaction(branch[-1])
    Interfering.action = lambda: chat.delete_message(branch[-2])
    Interfering.error = SummarizerError("away", transient=transient)
    assert tasks.compact_branch(run.pk) == "skipped"
    run.refresh_from_db()
    assert (run.skip_reason, run.claim_token) == ("branch_gone", None)


@pytest.mark.long
def test_after_a_cut_inside_a_turn_a_small_summarizer_goes_on_from_there(session, settings):
    """The point right at the cutoff counted as a cut: a generation that covers nothing, with the tip for a
    cutoff."""
    settings.COMPACTION = small(
        asked={"BACKEND": "tests.test_regressions.SmallSummarizer", "PROMPT": "Sum it up."}, PRESERVE_RECENT_MESSAGES=4
    )
    tip = grow(session, None, "u " + "c t " * 60)[-1]
    chat.compact(tip)
    made = list(CompactionRun.objects.filter(session=session, status="succeeded").order_by("generation"))
    assert len(made) > 2
    assert all(run.messages_compacted for run in made)
    depths = [run.cutoff.depth for run in made]
    assert depths == sorted(set(depths))
    assert depths[-1] <= tip.depth - 4


@pytest.mark.long
def test_the_next_generation_does_not_wait_for_the_cool_down_of_the_one_before(session, settings):
    """Once enough was covered and the prompt fitted, the rest of the plan was let fall without a word."""
    settings.COMPACTION = small(
        asked={"BACKEND": "tests.test_regressions.SmallSummarizer", "PROMPT": "Sum it up."}, COOLDOWN_SECONDS=60
    )
    tip = grow(session, None, "u a " * 32)[-1]
    run = chat.request_compaction(tip)
    while run is not None:
        tasks.compact_branch(run.pk)
        run = CompactionRun.objects.filter(session=session).open().first()
    last = CompactionRun.objects.filter(session=session).latest("generation")
    assert last.generation > 2
    assert last.tokens_after <= last.budget["target"]


def test_a_tip_deleted_meanwhile_does_not_keep_a_sessions_other_branches_from_compaction(session):
    """The task ended with an error at the tip that was gone, and never came to the next one."""
    first = grow(session, None, "u a " * 35)
    second = grow(session, None, "u a " * 36)
    Interfering.action = lambda: chat.delete_message(first[-1])
    tasks.compact_session(str(session.pk))
    assert not chat.should_compact(second[-1])


def test_a_turn_that_is_only_read_in_part_is_left_out_whole(session):
    """Its last replies were shown without the request that they answer: reading stops where the window is full."""
    tip = grow(session, None, "u(4500) a(1900) a(1700) u a")[-1]
    context = chat.get_context(tip)
    assert [message.role for message in context.messages] == ["user", "assistant"]
    assert (context.strategy, context.dropped) == ("truncated", 3)


class WordyThenVain(FakeSummarizer):
    """Far too long at first, and the second time of a length that saves nothing."""

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        FakeSummarizer.requests.append(request)
        times = {1: 3.0, 2: 1.3}[len(FakeSummarizer.requests)]
        return SummaryDraft(text="wordy " * int(times * FakeSummarizer.requests[0].target_tokens), model="m")


def test_of_a_model_asked_twice_the_second_answer_says_why_there_is_no_summary(settings, session):
    """It said "oversize", and two drafts in a row that saved nothing did not open the breaker."""
    settings.COMPACTION = small(SUMMARIZERS={"default": {"BACKEND": "tests.test_regressions.WordyThenVain"}})
    tip = grow(session, None, "u a u(4) a(4)")[-1]
    with pytest.raises(CompactionFailed) as caught:
        chat.compact(tip)
    assert caught.value.error_code == "no_progress"
