"""What of a clause must survive: which sentences are constraints, preferences and decisions without saying so."""

from __future__ import annotations

import pytest

from compaction_app.retention import facts
from compaction_app.retention.fact_spans import FactKind
from compaction_app.retention.meaning import reads_like_prose
from compaction_app.retention.needs import read_needs, standing_in
from compaction_app.retention.sayings import Saying
from compaction_app.retention.standing import Standing
from compaction_app.values import Role

pytestmark = pytest.mark.pure


def standing(text: str, role: str = Role.USER) -> Standing:
    return standing_in(Saying(role, text))


class TestConstraints:
    @pytest.mark.parametrize(
        "said",
        [
            "The crates have to be on the quay before 07:15, otherwise the ferry leaves",
            "The form needs to reach Oda by 12 May",
            "Her pills have to be taken every morning",
            "I want the draft on Tuesday at the latest",
            "The second signature is non-negotiable for the bank",
            "The choir may use the chapel but no candles near the organ",
            "Der Antrag liegt spätestens am 3. Mai auf dem Tisch",
            "Le dossier arrive le 3 mai au plus tard",
            "Hay que avisar a Lucía de cada cambio",
        ],
    )
    def test_what_must_be_done_by_when_or_else_is_one(self, said: str) -> None:
        assert standing(said) >= Standing.FIRM

    @pytest.mark.parametrize(
        "said",
        [
            "I have to laugh about the goat in the choir",
            "We had to wait in the rain with the goat",
            "The latest novel of Oda has a goat in it",
            "The goat may come or not",
        ],
    )
    def test_what_has_only_words_of_it_is_none(self, said: str) -> None:
        assert standing(said) < Standing.FIRM


class TestAnswers:
    @pytest.mark.parametrize(
        "said",
        [
            "brief replies, numbers first",
            "Short answers would be nice",
            "Please answer in Norwegian",
            "Keep your explanations simple",
            "No emojis in there",
            "Use bullet points for the steps",
            "Antworte bitte kurz auf alles von mir",
            "Des réponses courtes pour moi",
            "请简短回答",
        ],
    )
    def test_how_somebody_wants_to_be_answered_is_kept_to(self, said: str) -> None:
        assert standing(said) is Standing.RULE

    @pytest.mark.parametrize(
        "said",
        [
            "The answer in the book surprised Oda",
            "She wrote the code first and the tests much later",
            "I keep it in the shed",
            "He answered in the evening",
        ],
    )
    def test_what_tells_of_answers_is_no_wish(self, said: str) -> None:
        assert not facts.is_plainly_wanted(said)

    def test_a_question_is_no_wish(self) -> None:
        assert standing("Are short answers all right?") is Standing.PASSING


class TestWhatIsSettled:
    @pytest.mark.parametrize("said", ["then the green paint it is", "Harstad it is, then!", "Then let's say 18 June"])
    def test_it_is_a_decision(self, said: str) -> None:
        assert facts.is_plainly_wanted(said)

    @pytest.mark.parametrize(
        "said",
        [
            "Nobody knows what it is",
            "I like the boat as it is",
            "That's how it is.",
            "It is late",
            "Let's say the goat is a guest",
        ],
    )
    def test_what_only_sounds_like_it_is_none(self, said: str) -> None:
        assert not facts.is_plainly_wanted(said)


class TestProse:
    @pytest.mark.parametrize(
        "text",
        [
            "agreed with the parish: the bells are silent during the night",
            "harbour office: Sverre Moe, open on weekdays until four",
            "Les cloches se taisent pendant la nuit",
            "鐘は夜に鳴らさない",
        ],
    )
    def test_what_is_written_to_be_read(self, text: str) -> None:
        assert reads_like_prose(text)

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT b.berth_id, b.boat_no FROM berth b WHERE b.left_at IS NULL",
            "rsync -az --delete ./site/ web2:/srv/site",
            "berth 118 44KB",
            "2026-02-03 04:11:52 tide_job OK rows=8812",
            "",
        ],
    )
    def test_what_is_written_to_be_run_or_counted(self, text: str) -> None:
        assert not reads_like_prose(text)


class TestWhatAToolShows:
    def test_marks_around_all_of_it_quote_nobody(self) -> None:
        clause = read_needs(Saying(Role.TOOL, '"...the caretaker is Sverre Moe, never call him at night..."'), {})
        assert clause.saying.text == "the caretaker is Sverre Moe, never call him at night"
        assert FactKind.NAME in [need.fact.kind for need in clause.needs if need.fact]
        assert Standing.RULE in [need.standing for need in clause.needs if need.fact is None]

    @pytest.mark.parametrize(
        "text", ['"never again" and "always"', 'He said "never again"', '"', '""', '"...', '"..."']
    )
    def test_other_marks_stay(self, text: str) -> None:
        assert read_needs(Saying(Role.TOOL, text), {}).saying.text == text

    def test_a_person_who_quotes_still_quotes(self) -> None:
        said = '"never call him at night"'
        assert read_needs(Saying(Role.USER, said), {}).saying.text == said
