"""Which facts a text tells: what a run records as ``retention_before`` and ``retention_after``."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compaction_app.memory.extractive import read_replaced
from compaction_app.memory.score import Told, share_kept
from compaction_app.values import Role
from tests.memory.telling import Said, turns
from tests.summarizers.summarizing import NONCE, request_of

pytestmark = pytest.mark.pure

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"]), max_size=300)


def share(said: Said | list[Said], *texts: str) -> float:
    """How much of what was said stands in other texts."""
    messages = turns(*said) if isinstance(said, list) else turns(said)
    return share_kept(read_replaced(request_of(covered=tuple(messages), nonce=NONCE)).statements, Told(texts))


@pytest.mark.parametrize(
    ("said", "elsewhere"),
    [
        ("We have 1,840,000 kroner.", "The budget: 1.840.000 NOK."),
        ("We met Ragnhild Øfsti there.", "ragnhild  øfsti\nis the officer"),
        ("Never write to the county in my name.", "You must never write to the county in my name."),
        ("It is set to deposit_percent = 25 there.", "deposit_percent is 25"),
        ("Never email Bob Berg. But only until Friday, 3 May.", "Never email Bob Berg. Until Friday, 3 May."),
        ("預算是3000歐元", "預算是3000歐元"),
    ],
)
def test_another_way_to_write_it_counts(said: str, elsewhere: str) -> None:
    assert share(said, elsewhere) == 1


@pytest.mark.parametrize(
    ("said", "elsewhere"),
    [
        ("We are 46 guests there.", "in 1946 guests came, 146 guests"),
        ("Never write to the county in my name.", "Always write to the county in my name."),
        ("Never enter room 4 with wet boots.", "Never enter room 5 with wet boots."),
        ("Booking SNF-2605-017 is ours.", "Booking SNF-2605-018 is ours."),
        ("We decided to keep the old dome of Pier 9.", "The dome of Pier 9 is old."),
    ],
)
def test_something_like_it_does_not_count(said: str, elsewhere: str) -> None:
    assert share(said, elsewhere) < 1


@pytest.mark.parametrize(
    "rule",
    [
        "Never push to main.",
        "We decided to keep the old dome.",
        "I prefer window seats.",
        "No silicone anywhere on the lantern, please.",
        "必ず鉛のくさびを使う",
    ],
)
def test_a_rule_a_decision_and_a_wish_are_facts(rule: str) -> None:
    assert share(rule, "") == 0
    assert share(rule, rule) == 1


def test_a_models_advice_is_no_fact() -> None:
    assert share((Role.ASSISTANT, "You should always compare a few of them."), "") == 1


def test_each_fact_counts_once() -> None:
    said: list[Said] = ["I met Birk Aune, and there are 94 steps.", "So later I saw Birk Aune again at the pier."]
    assert share(said, "there are 94 steps") == pytest.approx(1 / 3)
    assert share(said, "Birk Aune counted") == pytest.approx(2 / 3)


@given(TEXT)
@example("0Ａ")
@example("0\u115f1")
def test_a_text_tells_all_that_it_says_itself(text: str) -> None:
    assert share(text, text) >= 0.99
