"""What must survive a summary: which facts and statements a text holds, and when another text holds them too."""

from __future__ import annotations

from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.retention.fact_spans import FactKind, find_facts
from compaction_app.retention.sayings import NOBODY, Saying, read_messages, read_summary
from compaction_app.retention.score import Passages, survey
from compaction_app.values import Message, Role

pytestmark = pytest.mark.pure

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def message(number: int, role: str, content: str = "", **fields) -> Message:
    return Message(id=number, depth=number, role=role, tokens=10, content=content, **fields)


def user(*texts: str) -> list[Saying]:
    return [saying for text in texts for saying in read_messages([message(1, Role.USER, text)])]


def keys(sayings, following=()) -> list[str]:
    return list(survey(sayings, list(following)).keys)


def share(told: str, *staying: str) -> float:
    """How much of what a user told stands in other texts."""
    return survey(user(told), []).share_held(Passages(staying))


class TestFacts:
    @pytest.mark.parametrize(
        ("text", "kind", "fact"),
        [
            ("It is at https://sak.example/2026-0417, says he.", FactKind.URL, "https://sak.example/2026-0417"),
            ("See docs/permit/conditions.md for it.", FactKind.PATH, "docs/permit/conditions.md"),
            ("It is set to deposit_percent = 25 there.", FactKind.CODE, "deposit_percent = 25"),
            ("We open on 23 May 2026 at last.", FactKind.DATE, "23 may 2026"),
            ("Ceremony at 14:00 on the lawn.", FactKind.DATE, "14:00"),
            ("出荷日は4月24日です", FactKind.DATE, "4月24日"),
            ("Above 14 m/s it stays home.", FactKind.NUMBER, "14 m/s"),
            ("預算是3000歐元", FactKind.NUMBER, "3000歐元"),
            ("We stay at Casa do Lago there.", FactKind.NAME, "casa do lago"),
            ("Auf dem Schild steht „Zutritt verboten“ in Rot.", FactKind.QUOTE, "zutritt verboten"),
        ],
    )  # fmt: skip
    def test_what_stands_in_a_text_word_for_word_is_found(self, text: str, kind: FactKind, fact: str) -> None:
        assert (kind, fact) in [(found.kind, found.key) for found in find_facts(text)]

    @pytest.mark.parametrize(
        "text",
        [
            "We could go there and look around.",
            "It is either this and/or that.",
            "Thanks! That sounds good. Maybe later.",
        ],
    )
    def test_what_only_looks_like_a_fact_is_none(self, text: str) -> None:
        assert find_facts(text) == []

    @given(TEXT)
    def test_facts_stand_where_they_say_and_never_overlap(self, text: str) -> None:
        found = find_facts(text)
        assert all(0 <= fact.bound <= fact.start < fact.end <= len(text) for fact in found)
        assert all(before.end <= after.start for before, after in pairwise(found))


class TestHolding:
    @pytest.mark.parametrize(
        ("told", "elsewhere"),
        [
            ("We have 1,840,000 kroner.", "The budget: 1.840.000 NOK."),
            ("We open on 23 May 2026 then.", "opening: 2026-05-23"),
            ("We met Ragnhild Øfsti there.", "ragnhild  øfsti\nis the officer"),
            ("Never write to the county in my name.", "You must never write to the county in my name."),
        ],
    )
    def test_another_way_to_write_it_counts(self, told: str, elsewhere: str) -> None:
        assert share(told, elsewhere) == 1

    @pytest.mark.parametrize(
        ("told", "elsewhere"),
        [
            ("We are 46 guests there.", "in 1946 guests came, 146 guests"),
            ("Never write to the county in my name.", "Always write to the county in my name."),
            ("Never enter room 4 with wet boots.", "Never enter room 5 with wet boots."),
        ],
    )
    def test_something_like_it_does_not_count(self, told: str, elsewhere: str) -> None:
        assert share(told, elsewhere) < 1

    def test_nothing_to_keep_is_all_kept(self) -> None:
        assert share("That sounds good to me.", "") == 1

    def test_the_share_counts_each_thing_once(self) -> None:
        told = "Birk Aune counts 94 steps. Later Birk Aune counts again."
        assert share(told, "there are 94 steps") == 0.5

    @given(TEXT)
    def test_a_text_holds_all_that_it_says_itself(self, text: str) -> None:
        text = normalize("NFKC", text)
        sayings = read_messages([message(1, Role.USER, text)])
        told = survey(sayings, [])
        assert told.share_held(Passages([saying.text for saying in sayings])) == 1


class TestStatements:
    @pytest.mark.parametrize(
        "text",
        [
            "Never push to main.",
            "We decided to keep the old dome.",
            "I prefer window seats.",
            "No silicone anywhere on the lantern, please.",
            "必ず鉛のくさびを使う",
        ],
    )
    def test_rules_decisions_and_preferences_must_survive(self, text: str) -> None:
        assert any(need.fact is None for need in survey(user(text), []).keys.values())

    def test_a_models_advice_is_no_statement_and_its_decision_is_one(self) -> None:
        advice = read_messages([message(1, Role.ASSISTANT, "You should always compare a few of them.")])
        decision = read_messages([message(1, Role.ASSISTANT, "We agreed to go by train.")])
        assert keys(advice) == []
        assert len(keys(decision)) == 1


class TestSayings:
    def test_an_extract_is_read_back_by_its_speakers(self) -> None:
        text = "## 2026-03-02\nuser Ana: I live in Turku · I sail\ntool read: 3 files\n\nA model wrote this."
        assert read_summary(text) == [
            Saying(Role.USER, "I live in Turku", "2026-03-02", "Ana"),
            Saying(Role.USER, "I sail", "2026-03-02", "Ana"),
            Saying(Role.TOOL, "3 files", "2026-03-02"),
            Saying(NOBODY, "A model wrote this", "2026-03-02"),
        ]

    def test_reasoning_is_not_said(self) -> None:
        thought = [{"type": "thinking", "thinking": "The key is 7391-alpha."}]
        assert read_messages([message(1, Role.ASSISTANT, "Good.", reasoning=thought)]) == [
            Saying(Role.ASSISTANT, "Good")
        ]

    def test_calls_and_attachments_are_said(self) -> None:
        call = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a/b.md"}'}}
        file = {"type": "file", "name": "plan.pdf"}
        said = read_messages([message(1, Role.ASSISTANT, tool_calls=(call,), attachments=(file,))])
        assert [saying.text for saying in said] == ["[attached: plan.pdf]", "[read: a/b.md]"]
