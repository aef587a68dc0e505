"""A host's POLICY: it may allow, defer or force, and add a line. Whatever it does, the chat turn goes on."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun
from compaction_app.values import Budget, PolicyDecision
from tests.builders import grow
from tests.compaction.world import suppressed
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER: list[Any] = [None]
#: The thresholds over which it was asked.
ASKED: list[int] = []


def policy(tip: ChatMessage, budget: Budget) -> Any:
    ASKED.append(budget.threshold)
    answer = ANSWER[0]
    return answer() if callable(answer) else answer


def always_asked(tip: ChatMessage, budget: Budget) -> Any:
    return policy(tip, budget)


always_asked.asked_below_threshold = True  # type: ignore[attr-defined]  # what a host writes


class AlwaysAsked:
    asked_below_threshold = True

    def __call__(self, tip: ChatMessage, budget: Budget) -> Any:
        return policy(tip, budget)


@pytest.fixture(autouse=True)
def _with_policy(small_window, settings):
    settings.COMPACTION = small(POLICY=f"{__name__}.policy")
    ASKED.clear()
    yield
    ANSWER[0] = None


@pytest.fixture
def tip():
    """Over the threshold of 6,000."""
    return grow(chat.start_session(model="house-model"), None, "u a " * 35)[-1]


#: What is no answer → what the log line says that it was.
WRONG: dict[str, tuple[Any, str]] = {
    "the word": ("allow", "str"),
    "an action in words": (PolicyDecision(action="Ida said: not now"), "PolicyDecision"),  # type: ignore[arg-type]
    "a reason that is no text": (PolicyDecision(action="defer", reason=7), "PolicyDecision"),  # type: ignore[arg-type]
    "a line that can not be stored": (PolicyDecision(prompt_line="a\x00"), "PolicyDecision"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_decision_is_logged_by_its_type_and_counts_as_allow(tip, case, caplog):
    ANSWER[0], named = WRONG[case]
    run = chat.request_compaction(tip)
    assert run is not None
    assert (run.status, run.policy_line) == ("ready", "")
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("error step=policy ")
    assert f"answered={named} " in line
    assert "Ida" not in caplog.text


@pytest.mark.parametrize(
    ("reason", "code"), [("in_checkout", "in_checkout"), ("they said: my PIN is 4711", "not_a_code")]
)
def test_a_deferred_compaction_is_noted_with_its_code(tip, reason, code):
    """A reason in words is not kept."""
    ANSWER[0] = PolicyDecision(action="defer", reason=reason)
    assert chat.request_compaction(tip) is None
    assert suppressed() == [{"reason": "policy", "code": code}]


@pytest.mark.parametrize("by", ["force", "a clock that was wrong"])
def test_force_passes_the_cool_down(settings, tip, monkeypatch, by):
    monkeypatch.setattr("compaction_app.compaction.trigger.COVERAGE_RATIO", 0.4)
    settings.COMPACTION = small(POLICY=f"{__name__}.policy", COOLDOWN_SECONDS=60)
    chat.compact(tip)
    later = grow(tip.session, tip, "u a " * 26)[-1]
    assert chat.should_compact(later)
    assert chat.request_compaction(later) is None
    [held] = suppressed()
    assert held["reason"] == "cooldown"
    assert 0 <= held["seconds_since"] < 60
    assert 0.4 <= held["covered"] < 1
    if by == "force":
        ANSWER[0] = PolicyDecision(action="force")
    else:
        CompactionRun.objects.update(finished_at=timezone.now() + timedelta(days=300))
    assert chat.request_compaction(later) is not None


def test_force_does_not_pass_the_breaker(tip, monkeypatch):
    monkeypatch.setattr(FakeSummarizer, "error", ValueError("broken"))
    for _ in range(3):
        with pytest.raises(CompactionFailed):
            chat.compact(tip)
    ANSWER[0] = PolicyDecision(action="force")
    assert chat.request_compaction(tip) is None
    assert suppressed() == [{"reason": "breaker", "failures": 3}]


def test_it_is_asked_over_the_threshold_only(tip):
    ANSWER[0] = PolicyDecision(action="defer")
    assert chat.request_compaction(grow(tip.session, None, "u a")[-1]) is None
    assert chat.compact(tip).status == "succeeded"
    assert ASKED == []


class TestBelowTheThreshold:
    """``POLICY="force"`` below the threshold did nothing."""

    @pytest.fixture
    def quiet(self):
        """1,000 tokens, far under the threshold of 6,000."""
        return grow(chat.start_session(model="house-model"), None, "u a " * 5)[-1]

    @pytest.fixture(autouse=True)
    def _asked(self, settings):
        settings.COMPACTION = small(POLICY=f"{__name__}.always_asked")

    @pytest.mark.parametrize("name", ["always_asked", "AlwaysAsked"])
    def test_force_compacts(self, settings, quiet, name):
        settings.COMPACTION = small(POLICY=f"{__name__}.{name}")
        ANSWER[0] = PolicyDecision(action="force", prompt_line="Keep every berth number.")
        assert not chat.should_compact(quiet)
        run = chat.request_compaction(quiet)
        assert run is not None
        assert tasks.compact_branch(run.pk) == "succeeded"
        run.refresh_from_db()
        assert (run.trigger, run.policy_line) == ("threshold", "Keep every berth number.")
        assert run.tokens_after < run.tokens_before == 1_000
        assert not CompactionEvent.objects.filter(kind="threshold_hit").exists()

    def test_force_twice_is_one_compaction(self, quiet):
        """There is nothing new at the same tip, and no event says so at each turn."""
        ANSWER[0] = PolicyDecision(action="force")
        chat.compact(quiet)
        assert chat.request_compaction(quiet) is None
        assert suppressed() == []

    @pytest.mark.parametrize("answer", [None, PolicyDecision(), PolicyDecision(action="defer", reason="later")])
    def test_any_other_answer_changes_nothing(self, quiet, answer):
        ANSWER[0] = answer
        assert chat.request_compaction(quiet) is None
        assert ASKED == [6_000]
        assert suppressed() == []
