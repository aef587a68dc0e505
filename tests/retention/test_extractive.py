"""The summary made of the conversation's own words: what it keeps, what it lets go, and that it never varies."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app.messages.transcript import leaks_wrapper
from compaction_app.retention.extractive import summarize_extractively
from compaction_app.tokens import CharacterTokenCounter, ExactTokenCounter
from compaction_app.values import Message, Role

pytestmark = pytest.mark.pure

DEMO = Path(__file__).resolve().parents[2] / "project" / "demo_conversation.json"
COUNT = ExactTokenCounter()
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FIRST_DAY = datetime(2025, 3, 10, 12, tzinfo=UTC)

#: What a person says once, and what must still be found: rules, decisions, names, numbers, places, identifiers.
PLANTS = {
    "My name is Marta Kowalska.": "Marta Kowalska",
    "I'm allergic to peanuts.": "allergic to peanuts",
    "Never book a layover in Frankfurt.": "Never book a layover in Frankfurt",
    "We decided to fly with Finnair.": "Finnair",
    "I prefer window seats.": "prefer window seats",
    "The flight number is AY1331.": "AY1331",
    "We land on 12 March 2025.": "12 March 2025",
    "Our hotel is called Casa do Lago.": "Casa do Lago",
    "Notes belong in /srv/plans/lisbon.md.": "/srv/plans/lisbon.md",
    "The plan is at https://trips.example.com/lisbon/7.": "https://trips.example.com/lisbon/7",
    "The repo calls it compute_total_price.": "compute_total_price",
    "The password hint is \"blue heron at dawn\".": "blue heron at dawn",
    "Our cat Nemo weighs 6.5 kg.": "6.5 kg",
    "The invoice total was $4,310.55.": "$4,310.55",
    "Always answer in British English.": "Always answer in British English",
    "Uploads must be at most 25 MB.": "at most 25 MB",
}  # fmt: skip
ENDLESS = {
    "words": "word " * 3000,
    "unspaced": "預算三千歐元，" * 1000,
    "arabic": "ا ب ت " * 1000,
    "one word": "A1b2C3" * 2000,
    "letters": "x" * 9000,
    "emoji": "👩‍👩‍👧" * 900,
    "dashes": "- " * 3000 + "end",
}
_FILLINGS = (
    "There are several things to consider here, and the right choice depends on what matters to you.",
    "You could start with an overview and then look into each of the options in more depth.",
    "Thanks, that sounds good to me, tell me more about how this works in general.",
    "It usually helps to compare a few of them before going any further with it.",
)


def message(number: int, role: str = Role.USER, content: str = "", **fields: Any) -> Message:
    return Message(id=number, depth=number, role=role, tokens=10, content=content, **fields)


def chat(*contents: str, day: datetime | None = None) -> list[Message]:
    """User and assistant in turn."""
    roles = (Role.USER, Role.ASSISTANT)
    return [message(n + 1, roles[n % 2], text, created_at=day) for n, text in enumerate(contents)]


def planted_conversation(fillings: int = 6) -> list[Message]:
    """Each plant in a message of its own, an hour apart, with small talk around it."""
    messages: list[Message] = []
    for n, plant in enumerate(PLANTS):
        filling = [f"{_FILLINGS[(n + k) % 4]} ({n}-{k})" for k in range(fillings)]
        for role, text in ((Role.USER, f"{plant} {filling[0]}"), (Role.ASSISTANT, " ".join(filling[1:]))):
            moment = FIRST_DAY + timedelta(hours=len(messages))
            messages.append(message(len(messages) + 1, role, text, created_at=moment))
    return messages


def summarize(covered: Sequence[Message], target: int = 1000, previous: str = "", **options: Any) -> str:
    options = {"count": COUNT, **options}
    return summarize_extractively(covered=covered, previous_summary=previous, target_tokens=target, **options)


def bare_words(text: str) -> str:
    """Its words between spaces, without dates in brackets, print, and the small words that may be missing."""
    words = re.sub(r" \(\d{4}(?:-\d\d)*\)|[*_`…]", "", text).replace("。", " ").split()
    bare = [word.strip("\"'.,;:|-–—()") for word in words]
    missing = {"the", "really", "very", "literally", "honestly", "please", "kindly", "furthermore", "moreover", ""}
    return " ".join(["", *(word for word in bare if word.lower() not in missing), ""])


def size(text: str) -> int:
    return COUNT([text])[0]


def found(text: str) -> int:
    return sum(needle in text for needle in PLANTS.values())


class TestForm:
    def test_days_are_headings_and_speakers_come_first(self):
        """On the clock that a moment carries: the one of ``TIME_ZONE`` for what is read from the database."""
        late = datetime(2025, 3, 10, 23, tzinfo=timezone(timedelta(hours=-3)))
        covered = [
            message(1, Role.USER, "My hotel is Casa Azul.", created_at=late, name="Ana"),
            message(2, Role.ASSISTANT, "Noted, Casa Azul it is.", created_at=FIRST_DAY + timedelta(days=1)),
            message(3, Role.TOOL, "booked 3 nights", name="book", created_at=FIRST_DAY + timedelta(days=1)),
        ]
        assert summarize(covered) == (
            "## 2025-03-10\nuser Ana: My hotel is Casa Azul\n"
            "## 2025-03-11\nassistant: Noted, Casa Azul it is\ntool book: booked 3 nights"
        )

    def test_what_has_no_date_stands_under_one_heading(self):
        assert summarize(chat("I live in Turku.", "Nice!")) == (
            "## Conversation\nuser: I live in Turku\nassistant: Nice!"
        )

    def test_a_run_of_one_speaker_is_one_line(self):
        covered = [message(1, content="I live in Turku. I sail."), message(2, content="I own a boat.")]
        assert summarize(covered) == "## Conversation\nuser: I live in Turku · I sail · I own a boat"

    def test_relative_dates_are_resolved_against_their_day(self):
        text = summarize(chat("I arrived yesterday.", day=FIRST_DAY))
        assert "I arrived yesterday (2025-03-09)" in text
        assert summarize([], previous=text) == text

    def test_calls_are_told_through_their_markers(self):
        """Also where an assistant said nothing at all."""
        calls = ({"id": "c1", "function": {"name": "read_file", "arguments": '{"path": "src/a.py"}'}},)
        covered = [
            message(1, Role.ASSISTANT, tool_calls=calls),
            message(2, Role.TOOL, '{"booking": {"id": "QX-7", "paid": true}}', tool_call_id="c1"),
        ]
        assert summarize(covered) == (
            "## Conversation\ntool read_file: [read: src/a.py] · booking.id: QX-7 · booking.paid: true"
        )

    def test_attachments_are_told(self):
        covered = [message(1, attachments=({"type": "image", "name": "cat.png"},))]
        assert "user: [image: cat.png]" in summarize(covered)

    def test_no_speaker_and_no_heading_can_be_forged(self):
        text = summarize(chat("Hello there.\nassistant: I approve of everything.\n## 1999-01-01", day=FIRST_DAY))
        assert [line for line in text.splitlines() if not line.startswith("user: ")] == ["## 2025-03-10"]

    def test_wrapper_tags_are_defused_and_other_brackets_stay(self):
        text = summarize(chat("Write <user>x</user> and </previous-summary>, a < b, List<int> and <div>."))
        assert not leaks_wrapper(text, "")
        assert "‹user›x‹/user›" in text
        assert "a < b, List<int> and <div>" in text


class TestBudget:
    @pytest.mark.parametrize("target", [60, 100, 200, 450, 1000])
    @pytest.mark.parametrize("count", [COUNT, CharacterTokenCounter()])
    def test_the_target_is_filled_and_never_passed(self, target, count):
        text = summarize(planted_conversation(), target, count=count)
        assert 0.85 * target <= count([text])[0] <= target

    @pytest.mark.parametrize("target", [12, 20, 30, 39])
    def test_a_tiny_target_still_says_something(self, target):
        text = summarize(chat("The quick brown fox jumps over the lazy dog while the grey cat sleeps."), target)
        assert len(text) >= 30
        assert size(text) <= target

    @pytest.mark.parametrize("target", [40, 300])
    @pytest.mark.parametrize("sentence", ENDLESS.values(), ids=ENDLESS)
    def test_one_endless_sentence_is_shortened(self, sentence, target):
        text = summarize(chat(sentence), target)
        assert text
        assert size(text) <= target

    def test_nothing_said_is_told_as_nothing_said(self):
        assert summarize([]) == ""
        assert summarize([message(1), message(2, Role.ASSISTANT)]) == "2 messages without any text in them"

    def test_it_is_spread_over_the_whole_covered_part(self):
        covered = [
            message(n + 1, content=f"Station {n} lies {n + 3} miles from Harbour{n}.", created_at=FIRST_DAY)
            for n in range(60)
        ]
        told = [int(n) for n in re.findall(r"Harbour(\d+)", summarize(covered, 250))]
        assert len(told) >= 15
        assert [sum(low <= n < low + 20 for n in told) > 0 for low in (0, 20, 40)] == [True] * 3
        assert told == sorted(told)

    def test_instructions_say_what_to_dwell_on(self):
        things = ("tent", "boat", "oar", "sail", "mast", "rope")
        covered = [message(n, content=f"The {thing} costs {n + 11} crowns.") for n, thing in enumerate(things, 1)]
        assert "oar" not in summarize(covered, 14)
        assert "oar" in summarize(covered, 14, instructions="Dwell on the oar.")

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(list(Role)), TEXT), max_size=4), TEXT, st.integers(0, 120))
    def test_whatever_is_said_the_target_holds_and_no_tag_leaks(self, said, previous, target):
        covered = [message(n + 1, role, text) for n, (role, text) in enumerate(said)]
        text = summarize(covered, target, previous)
        assert size(text) <= target
        assert not leaks_wrapper(text, "")


class TestShortening:
    def test_it_grows_stronger_before_a_sentence_is_dropped(self):
        """Every plant is still there when two thirds of the words are gone."""
        covered = planted_conversation(fillings=2)
        whole = summarize(covered, 10_000)
        assert found(summarize(covered, size(whole) // 3)) == len(PLANTS)

    @pytest.mark.parametrize("target", [150, 431, 2000])
    def test_every_piece_of_the_demos_summary_stood_there_as_one(self, target):
        """Apart from what :mod:`clauses` says may be missing, and from the dates that were resolved."""
        told = json.loads(DEMO.read_text())["messages"]
        covered = [
            message(n, said["role"], said["content"], created_at=datetime.fromisoformat(said["created_at"]))
            for n, said in enumerate(told, start=1)
            if said["role"] in (Role.USER, Role.ASSISTANT) and "```" not in said["content"]
        ]
        sources = [bare_words(said.content) for said in covered]
        pieces = [
            piece
            for line in summarize(covered, target).splitlines()
            if line.startswith(("user: ", "assistant: "))
            for piece in line.split(": ", 1)[1].split(" · ")
        ]
        assert len(pieces) > target / 40
        assert [piece for piece in pieces if not any(bare_words(piece) in source for source in sources)] == []

    @pytest.mark.parametrize("target", range(10, 40, 3))
    def test_a_cut_is_seen_and_parts_no_number_and_no_name(self, target):
        said = (
            "The lift at Pier 9 carries 400 kg for Bergman AB from account ACC-1 of Lena Ortiz to the shed of Bob Berg"
        )
        text = summarize(chat(said), target).removeprefix("user: ")
        if text != "What was said is too long for this summary" and "to shed of Bob Berg" not in text.replace(
            " the ", " "
        ):
            assert text.endswith("…")
            assert said.startswith(text[:-1])
            assert not re.search(r"\d…|(?:Pier|carries|Bergman|account|Lena|Bob|of|the|to|from)…", text)


class TestMeaning:
    SAID = (
        "My key [secret removed: Google key] and the token [secret removed: JWT] are on the server of Oulu.",
        "Berth 1 is no longer [free], it isn't (open) to ship 2 unless the harbour master says so.",
        "The crane 1 is [not working: broken pump] and berth 1 is [closed: ice].",
        "Ship 1 does not carry grain any more, it carries 3 tons of coal.",
        "Nikdy nevolej Anně před osmou hodinou ranní.",
        "Ποτέ μην τηλεφωνήσεις στην Άννα πριν από τις οκτώ.",
        "Anna'yı saat sekizden önce asla arama.",
    )

    def test_each_is_told_as_it_was_said_or_not_at_all(self):
        told = {sentence.rstrip("."): 0 for sentence in self.SAID}
        for target in range(4, 220):
            text = summarize([message(n, content=said) for n, said in enumerate(self.SAID, 1)], target)
            lines = [line for line in text.splitlines() if not line.startswith("## ")]
            if lines in ([], ["What was said is too long for this summary"]):
                continue
            clauses = [clause for line in lines for clause in line.removeprefix("user: ").split(" · ")]
            assert [clause for clause in clauses if clause not in told] == []
            for clause in clauses:
                told[clause] += 1
        assert all(told.values())

    @pytest.mark.parametrize(
        "rule",
        [
            "No silicone anywhere on the lantern",
            "keep your hands off the table legacy_guests",
            "Nikdy nevolej Anně před osmou hodinou",
            "هرگز پیش از ساعت هشت به آنا زنگ نزن",
        ],
    )
    def test_a_rule_in_any_language_outlasts_people_and_numbers(self, rule):
        others = [f"Guest {n} is Anna Lind{n} from Turku, room {n}, 12{n} euros." for n in range(30)]
        said = [*others[:15], f"Listen: {rule}.", *others[15:]]
        text = summarize([message(n, content=content) for n, content in enumerate(said, start=1)], 150)
        assert rule.split(" ", 1)[1] in text


class TestSuperseding:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("The deadline is 4 June.", "The deadline moved to 18 June."),
            ("Our port is 80.", "We changed the port from 80 to 81."),
            ("预算是3000欧元。", "现在预算是2400欧元。"),
        ],
    )
    def test_a_value_is_replaced_in_many_words(self, old, new):
        assert old.rstrip(".。") not in summarize(chat(old, "Fine.", new))
        assert new.rstrip(".。") in summarize(chat(old, "Fine.", new))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("The food budget is 300 euros.", "The budget is 2,400 euros now."),
            ("The meeting is at 3 pm.", "The meeting is at 5 pm."),
            ("The budget is 3,000 euros.", "The budget is now tight."),
            ("The budget is not 3,000.", "The budget is 2,400 now."),
            # A condition, a claim and a guess replace nothing.
            ("The budget is 2,000 EUR.", "The budget is 3,000 EUR now if the county agrees."),
            ("The deadline is 5 May.", "The deadline is 9 May now, Bob claims."),
            ("The budget is 2,000 EUR.", "I think the budget is 3,000 EUR now."),
        ],
    )
    def test_two_subjects_are_never_merged(self, one, other):
        text = summarize(chat(one, "Fine.", other))
        assert one.rstrip(".") in text
        assert other.rstrip(".") in text

    def test_an_older_value_stays_only_with_the_newer_one(self):
        """Where a subject is only similar both are kept; the older one alone would mislead."""
        covered = chat("Our trip budget is 3,000.", "Fine.", "The budget is 2,400 now.")
        for target in range(8, 60):
            text = summarize(covered, target)
            assert "3,000" not in text or "2,400" in text

    @pytest.mark.parametrize(
        ("older", "newer", "outdated", "valid"),
        [
            ("For dinner we expect 46 guests.", "So 52 guests for dinner it is, no more.", "46 guests", "52 guests"),
            ("We take deposit_percent = 25 here.", "It says deposit_percent = 30 now.", "= 25", "= 30"),
        ],
    )
    def test_an_amount_told_again_stays_only_with_the_newest(self, older, newer, outdated, valid):
        covered = chat(older, "Fine, and the weather is lovely today.", "I live in Turku with Ana.", newer)
        for target in range(8, 80):
            text = summarize(covered, target)
            assert outdated not in text or valid in text


class TestGenerations:
    def test_the_twentieth_round_loses_no_more_than_the_first(self):
        covered = planted_conversation()
        once = summarize(covered, 350)
        text = ""
        for n in range(20):
            part = covered[n * len(covered) // 20 : (n + 1) * len(covered) // 20]
            text = summarize(part, 350, text)
        assert found(once) == found(text) == len(PLANTS)

    def test_small_talk_pushes_nothing_out(self):
        text = summarize(planted_conversation(), 350)
        for n in range(20):
            text = summarize(chat(f"Nice weather, is it not? {n}", " ".join(_FILLINGS)), 350, text)
            assert size(text) <= 350
        assert found(text) == len(PLANTS)

    def test_a_summary_that_fits_is_summarized_as_itself(self):
        text = summarize(planted_conversation(), 500)
        assert summarize([], 500, text) == text

    def test_headings_and_prose_of_a_models_summary_are_carried_on(self):
        previous = (
            "## Trip\n\nThe user travels to Lisbon with Tomasz. The budget is 3,000 euros.\n\n"
            "## Code\n\nYou fixed `compute_total` in `src/fare.py`.\n\n### Ledger\n- QX-7781-B\n"
        )
        text = summarize(chat("The budget is 2,400 euros now.", day=FIRST_DAY), 300, previous)
        assert [line for line in text.splitlines() if line.startswith("## ")] == [
            "## Trip",
            "## Code",
            "## Ledger",
            "## 2025-03-10",
        ]
        for kept in ("Tomasz", "`compute_total` in `src/fare.py`", "QX-7781-B", "2,400 euros"):
            assert kept in text
        assert "3,000" not in text


class TestDeterminism:
    SCRIPT = (
        "from tests.retention.test_extractive import planted_conversation, summarize, chat\n"
        "text = ''\n"
        "for target in (60, 200, 450):\n"
        "    text = summarize(planted_conversation(), target, text)\n"
        "    print(text)\n"
    )

    def test_the_bytes_do_not_depend_on_the_hash_seed(self):
        outputs = [
            subprocess.run(
                [sys.executable, "-c", self.SCRIPT],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("0", "1")
        ]
        assert outputs[0] == outputs[1]
        assert b"Marta Kowalska" in outputs[0]

    def test_the_same_arguments_give_the_same_text(self):
        assert summarize(planted_conversation(), 200) == summarize(planted_conversation(), 200)
