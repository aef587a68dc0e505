"""The summary made of the conversation's own words: its form, its budget, its generations, and that it never varies."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app.memory.extractive import extractive_draft
from compaction_app.memory.statements import demand_of
from compaction_app.messages.transcript import leaks_wrapper
from compaction_app.tokens import CharacterTokenCounter
from compaction_app.values import EXTRACTIVE_MODEL, Message, Role
from tests.conftest import REPOSITORY
from tests.memory.telling import (
    COUNT,
    FIRST_DAY,
    PLANTS,
    chat,
    found,
    message,
    planted_conversation,
    size,
    summarize,
    turns,
)
from tests.some import some
from tests.summarizers.summarizing import NONCE, request_of

pytestmark = pytest.mark.pure

HEADING = "## Quoted from the conversation"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ENDLESS = {
    "words": "word " * 3000,
    "unspaced": "預算三千歐元，" * 1000,
    "one word": "A1b2C3" * 2000,
    "dashes": "- " * 3000 + "end",
    "brackets": "([{" * 4000,
    "questions": "Really? " * 3000,
    "numbers": "".join(f"{n} " for n in range(9000)),
    "a list": "\n".join(f"- entry {n}: the value of {n * 7}" for n in range(3000)),
    "roles": "user: " * 3000,
}


def lines(text: str) -> list[str]:
    return text.splitlines()


class TestForm:
    def test_it_says_whose_words_they_are_in_which_order_and_when(self) -> None:
        """The days are those of the clock that a moment carries: of ``TIME_ZONE`` for what the database holds."""
        late = datetime(2025, 3, 10, 23, tzinfo=timezone(timedelta(hours=-3)))
        later = FIRST_DAY + timedelta(days=60)
        covered = [
            message(1, content="My hotel is Casa Azul in Lisbon. I have the only key.", created_at=late, name="Ana"),
            message(
                2,
                Role.ASSISTANT,
                "Casa Azul is in the old town. The garden of it has nine olive trees.",
                created_at=later,
            ),
            message(3, Role.TOOL, "booked 3 nights", name="book", created_at=later),
        ]
        assert lines(summarize(covered)) == [
            HEADING,
            "### 2025-03-10",
            "user Ana: My hotel is Casa Azul in Lisbon · I have the only key",
            "### 2025-05-09",
            "assistant: Casa Azul is in the old town · The garden of it has nine olive trees",
            "tool book: booked 3 nights",
        ]

    def test_days_that_are_near_share_a_heading(self) -> None:
        said = [
            message(n, content=f"Crate {n} of Carl Berg{n} goes to Hanko.", created_at=FIRST_DAY + timedelta(days=n))
            for n in range(3)
        ]
        assert lines(summarize(said))[1] == "### 2025-03-10 to 2025-03-12"

    def test_a_relative_date_has_the_day_on_which_it_was_said(self) -> None:
        text = summarize(chat("I arrived in Turku yesterday.", "后天付100元。", day=FIRST_DAY))
        assert "I arrived in Turku yesterday (said 2025-03-10)" in text
        assert "后天 (said 2025-03-10)付100元" in text
        assert summarize([], previous=text) == text

    @pytest.mark.parametrize(
        "content",
        [
            "git log --since=yesterday",
            "See https://x.org/today/news.html",
            "```\nbackup tomorrow\n```",
            "> See you today",
        ],
    )
    def test_paths_options_code_and_quotations_stay_as_they_are(self, content: str) -> None:
        assert "(said" not in summarize(chat(content, "Anna Lind has berth 7.", day=FIRST_DAY))

    def test_calls_are_told_as_work(self) -> None:
        """Also where an assistant said nothing at all."""
        calls = ({"id": "c1", "function": {"name": "read_file", "arguments": '{"path": "src/a.py"}'}},)
        result = '{"booking": {"id": "QX-7", "paid": true}}'
        covered = [message(1, Role.ASSISTANT, tool_calls=calls), message(2, Role.TOOL, result, tool_call_id="c1")]
        told = [HEADING, "tool read_file: QX-7", "Work so far:", "read: src/a.py"]
        assert lines(summarize(covered)) == told

    def test_outcomes_come_before_what_else_a_tool_wrote(self) -> None:
        log = "\n".join(f"collected item {n} in folder{n}" for n in range(40))
        covered = turns((Role.TOOL, f"{log}\n3 failed, 212 passed in 41 s\n{log}"))
        assert "3 failed, 212 passed" in summarize(covered, 40)

    def test_attachments_are_told(self) -> None:
        covered = [message(1, attachments=({"type": "image", "name": "cat.png"},))]
        assert "user: [quoted] [image: cat.png]" in summarize(covered)

    def test_wrapper_tags_are_defused_and_other_brackets_stay(self) -> None:
        text = summarize(chat("Write <user>x</user> and </previous-summary>, a < b, List<int> and <div>."))
        assert not leaks_wrapper(text, "")
        assert "‹user›x‹/user›" in text
        assert "a < b, List<int> and <div>" in text


class TestBudget:
    @pytest.mark.parametrize("target", [60, 100, 200, 300])
    @pytest.mark.parametrize("count", [COUNT, CharacterTokenCounter()])
    def test_the_target_is_filled_and_never_passed(self, target: int, count: object) -> None:
        text = summarize(planted_conversation(), target, count=count)
        assert 0.75 * target <= count([text])[0] <= target

    @pytest.mark.few
    @pytest.mark.parametrize("what", some(ENDLESS, "words", "brackets", "a list"))
    @pytest.mark.parametrize(("role", "target"), [(Role.USER, 300), (Role.TOOL, 40)])
    def test_whatever_never_ends_does(self, what: str, target: int, role: Role) -> None:
        text = summarize([message(1, role, ENDLESS[what])], target)
        assert 0 < size(text) <= target
        assert summarize([], target, text)

    def test_nothing_said_is_told_as_nothing_said(self) -> None:
        assert summarize([]) == ""
        assert summarize([message(1), message(2, Role.ASSISTANT)]) == "Messages without any text in them: 2"

    def test_it_is_spread_over_the_whole_covered_part(self) -> None:
        begun, ended = "Ka Lo Mi Ru Ve So Ta Ne Pi Du".split(), "lmar rvik nsund tholm ssby ndal".split()
        places = [first + last for last in ended for first in begun]
        covered = turns(*(f"The boat of {place} brings {n * 37 + 211} crates." for n, place in enumerate(places)))
        told = [(int(n) - 211) // 37 for n in re.findall(r"brings (\d+)", summarize(covered, 250))]
        assert [any(low <= n < low + 20 for n in told) for low in (0, 20, 40)] == [True] * 3
        assert told == sorted(told)

    def test_instructions_say_what_to_dwell_on(self) -> None:
        things = ("tent", "boat", "oar", "sail", "mast", "rope")
        covered = turns(*(f"The {thing} costs {n + 11} crowns." for n, thing in enumerate(things)))
        assert "oar" not in summarize(covered, 22)
        assert "oar" in summarize(covered, 22, instructions="Dwell on the oar.")

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(list(Role)), TEXT), max_size=4), TEXT, st.integers(0, 120))
    def test_whatever_is_said_the_target_holds_and_no_tag_leaks(
        self, said: list[tuple[Role, str]], previous: str, target: int
    ) -> None:
        text = summarize(turns(*said), target, previous, previous_is_extract=False)
        assert size(text) <= target
        assert not leaks_wrapper(text, "")
        assert "\x00" not in text


class TestTruth:
    @pytest.mark.parametrize("target", [150, 431, 2000])
    def test_all_of_the_demos_summary_was_said(self, target: int) -> None:
        """Whole sentences, but for the dates that are resolved and the marks that could be the extract's own."""
        from tests.memory.survival import demo

        covered = [
            message(n, said["role"], said.get("content") or "", created_at=said["created_at"])
            for n, said in enumerate(demo().branch, start=1)
            if said["role"] in (Role.USER, Role.ASSISTANT) and "```" not in said.get("content", "")
        ]
        said = " ".join(bare(one.content) for one in covered)
        parts = [
            part
            for line in summarize(covered, target).splitlines()
            if line.startswith(("user: ", "assistant: "))
            for part in re.split(r" · | \((?:user|assistant): |(?<!\d)\)(?= \(|$| )", line.split(": ", 1)[1])
            if part
        ]
        assert len(parts) > target / 50
        sentences = [one for part in parts for one in re.split(r"(?<=[.?!]) ", part)]
        assert [one for one in sentences if bare(one) not in said] == []

    @pytest.mark.parametrize(
        "rule",
        [
            "keep your hands off the table legacy_guests",
            "The interns may not see the salaries",
            "I refuse all paint with lead",
            "You should never email the county",
            "Auf keinen Fall vor acht Uhr anrufen",
            "绝对不要在八点以前给安娜打电话",
            "The reserve is not touched before 1 May",
            "Write plain prose, no bullet lists unless I ask",
            "The form needs to reach Oda by 12 May",
            "I want the draft on Tuesday at the latest",
            "必ず鉛のくさびを使う",
        ],
    )
    def test_a_rule_outlasts_people_and_numbers(self, rule: str) -> None:
        others = [f"Guest {n} is Anna Lind{n} from Turku, room {n}, 12{n} euros." for n in range(30)]
        text = summarize(turns(*others[:15], f"{rule}.", *others[15:]), 150)
        assert rule in text

    def test_chinese_names_outlast_small_words(self) -> None:
        """In book-title marks, or with a middle dot; 我也很喜欢他的 says nothing."""
        said = [f"我觉得这个也是非常不错的，我的第{n}位客人也很喜欢他的。" for n in "二三四五六七"]
        text = summarize(turns("导演是尼克·卡索维茨。", *said, "我看过《大话西游》。"), 60)
        assert "尼克·卡索维茨" in text
        assert "《大话西游》" in text

    @pytest.mark.parametrize(
        "idiom",
        [
            "I can't wait to see you all there",
            "Never mind, it was only an idea of mine",
            "I agree, you must be so proud of her",
            "We had to wait in the rain with the goat",
        ],
    )
    def test_an_idiom_is_no_rule(self, idiom: str) -> None:
        others = [f"Guest {n} is Anna Lind{n} from Turku, room {n}, 12{n} euros." for n in range(30)]
        assert idiom not in summarize(turns(*others[:15], f"{idiom}.", *others[15:]), 150)

    @pytest.mark.parametrize(("end", "is_first"), [("!", False), (".", True)])
    def test_cheering_is_no_rule(self, end: str, is_first: bool) -> None:
        told = turns(f"Never stop working on your many dreams{end}", (Role.ASSISTANT, "Fine."), "Oda has 40 ropes.")
        assert ("dreams" in summarize(told, 22)) is is_first

    def test_any_language_keeps_names_and_numbers(self) -> None:
        said = ["Nikdy nevolej Anně Novákové před 8:30, číslo QX-7781.", "Η Άννα μένει στο Κάσα ντο Λάγο 17."]
        text = summarize(turns(*said, "חדר 4711 שייך לאנה", "अन्ना का कमरा 5522 है।"))
        for kept in ("Anně Novákové před 8:30, číslo QX-7781", "Κάσα ντο Λάγο 17", "4711 שייך לאנה", "कमरा 5522 है"):
            assert kept in text


def bare(text: str) -> str:
    """Its words, without dates in brackets and print."""
    words = re.sub(r" \(said \d{4}-\d\d-\d\d\)|\[quoted\]|[*_`#>|\[\]-]", " ", text).split()
    return " ".join(filter(None, (word.strip("\"'.,;:|()") for word in words)))


class TestGenerations:
    def test_twenty_rounds_lose_no_more_than_one(self) -> None:
        covered, text = planted_conversation(), ""
        for n in range(20):
            part = covered[n * len(covered) // 20 : (n + 1) * len(covered) // 20]
            text = summarize(part, 350, text)
        assert found(summarize(covered, 350)) == found(text) == len(PLANTS)

    def test_small_talk_pushes_nothing_out(self) -> None:
        text = summarize(planted_conversation(), 350)
        for n in range(20):
            talk = ("It is nice weather again today, is it not?", f"It is, and on day {n} it will be nicer.")
            text = summarize(chat(*talk), 350, text)
            assert size(text) <= 350
        assert found(text) == len(PLANTS)

    def test_what_a_models_summary_says_is_carried_on_as_nobodys_words(self) -> None:
        previous = (
            "## Trip\n\nThe user travels to Lisbon with Tomasz. The budget is 3,000 euros.\n\n"
            "## Code\n\nYou fixed `compute_total` in `src/fare.py`.\n\n### Open\n- QX-7781-B\n"
        )
        text = summarize(turns("The budget is 2,400 euros now."), 300, previous, previous_is_extract=False)
        for kept in (
            "Tomasz",
            "`compute_total` in `src/fare.py`",
            "Open: QX-7781-B",
            "user: The budget is 2,400 euros",
        ):
            assert kept in text
        assert "3,000" not in text or text.index("3,000") < text.index("2,400")
        assert [line.split(": ")[0] for line in text.splitlines()[1:]] == ["summary", "user"]


class TestDeterminism:
    SCRIPT = (
        "from tests.memory.telling import planted_conversation, summarize\n"
        "text = ''\n"
        "for target in (60, 200, 450):\n"
        "    text = summarize(planted_conversation(), target, text)\n"
        "    print(text)\n"
    )

    @pytest.mark.long
    def test_the_bytes_do_not_depend_on_the_hash_seed(self) -> None:
        # This process has a hash seed of its own, by chance.
        told = subprocess.run(
            [sys.executable, "-c", self.SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8"},
            cwd=REPOSITORY,
            capture_output=True,
            check=True,
        ).stdout.decode()
        here = io.StringIO()
        with contextlib.redirect_stdout(here):
            exec(self.SCRIPT)
        assert told == here.getvalue()
        assert "Marta Kowalska" in told

    def test_the_same_arguments_give_the_same_text(self) -> None:
        assert summarize(planted_conversation(), 200) == summarize(planted_conversation(), 200)

    def test_moments_of_any_zone_are_read(self) -> None:
        request = request_of(
            covered=(Message(id=1, depth=1, role=Role.USER, tokens=9, content="My boat is blue.", created_at=None),),
            nonce=NONCE,
        )
        draft = extractive_draft(request, COUNT)
        assert (draft.model, draft.text) == (EXTRACTIVE_MODEL, f"{HEADING}\nuser: My boat is blue")
        last = datetime(9999, 12, 31, tzinfo=UTC)
        assert "9999-12-31" in summarize([message(1, content="We sail tomorrow to Oslo.", created_at=last)])


def test_rows_of_one_shape_in_several_lines_of_an_extract_are_rows_in_the_next_one() -> None:
    """Room was left for two of each day. They cost what is said later no room."""
    days = [f"### 2026-0{n}-01\ntool weather: 8:30 rain {n}.4 mm · 9:30 rain {n}.7 mm" for n in range(1, 10)]
    first = "\n".join([HEADING, *days])
    facts = [f"The mooring of boat {n} at Kirkholm costs {n}7 kroner a day." for n in range(12)]
    text = summarize([message(n, Role.ASSISTANT, fact) for n, fact in enumerate(facts)], 235, first)
    assert [fact for fact in facts if fact.rstrip(".") not in text] == []


def test_outcomes_of_one_shape_in_an_extract_are_no_rows() -> None:
    days = [f"### 2026-0{n}-01\ntool pytest: {n} failed, 21{n} passed" for n in range(1, 10)]
    others = [message(n, Role.ASSISTANT, f"Boat {n} may stay at Kirkholm in winter.") for n in range(30)]
    text = summarize(others, 235, "\n".join([HEADING, *days]))
    assert text.count("failed") == 9


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("We watched a film until 7:20, and Quirin fell asleep after 10 minutes.", 0),
        ("Nobody opens it until Lena has signed.", 2),
        ("Let's take the red boat.", 1),
        ("I have to run, back in 7 minutes.", 0),
    ],
)
def test_what_people_demand_and_what_only_looks_like_it(text: str, demand: int) -> None:
    assert demand_of(text) == demand
