"""A draft far below its target that tells hardly a fact of a talk which is full of them is no summary of it.

The talks are those of ``tests/conversations``. What is genuine was written by people who had read them; what is empty
is what small models write that have not.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from compaction_app.summarizers.drafts import refuse_draft
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import ErrorCode, Message, SummaryDraft
from tests.summarizers.summarizing import request_of

pytestmark = pytest.mark.pure

TALKS = Path(__file__).resolve().parent.parent / "conversations"
COUNT = ExactTokenCounter()

EMPTY = {
    "of anything": """
        The user asked several questions and you answered each of them in detail. You discussed a number of topics
        together, clarified what was unclear, and agreed on what should come next. Everything that was asked for has
        been handled. The conversation is ongoing. The user seems satisfied with the answers, and nothing is left open.
    """,
    "of nobody": """
        This conversation covers a variety of topics. The user provides information and requests help, and the assistant
        provides helpful responses. The tone is friendly and collaborative. Key decisions were made and some next steps
        were identified. The assistant will continue to support the user with their requests as they come up.
    """,
    "by a tiny model": """
        You can't have this material anymore, you're going to be left in a box somewhere. You'll never find it again.
        I'm sorry for the mistake. I was just trying to make sure that no one would ever know what happened. It's not
        possible to do anything about it now.
    """,
    "in another language": """
        Der Nutzer hat mehrere Fragen gestellt und du hast sie ausführlich beantwortet. Gemeinsam habt ihr verschiedene
        Themen besprochen und euch auf das weitere Vorgehen geeinigt. Im Moment ist nichts offen, und der Nutzer ist mit
        den Antworten zufrieden. Das Gespräch geht weiter.
    """,
}
GENUINE = {
    "clinic": """
        The user plans the move of the vet clinic from Bergstraße to the old savings bank. Lotte is the owner, Bastien
        Lejoly may work at most 24 hours a week. The electrician, Heinz-Peter Croé, says that the main board needs
        3x40 A. Lotte wants Wednesdays open until 20:00; Sabrina prefers early shifts.
    """,
    "pipeline": """
        Imke moves Spaakwerk's nightly billing export from MySQL 5.7 and Rundeck to Postgres 16. VAT is rounded per
        line, then summed. The importer takes UTF-8 without BOM and files of up to 40 MB. Nothing else is decided, and
        the old export still runs every night.
    """,
    "thesis": """
        The user finishes a thesis on kelp and urchins. Pilar is on sick leave: nothing goes to her, no drafts and no
        invites. The Galician summary they write themselves. Tjeerd gives in on 2.4, and 2.7 is to be fought for. The
        lab expects dry ice.
    """,
}
#: Of the clinic, without a name or a number, and in another language.
IN_WORDS = """
    The user is turning a pile of sticky notes into a plan for the move of a clinic into an old savings bank. You went
    through the team with them, who works how many hours and who prefers early shifts because of the school bus, and
    through the offer for the new software. They send the letter to the electrician at lunch.
"""
IN_GERMAN = """
    Die Nutzerin plant den Umzug der Praxis aus der Bergstraße in die alte Sparkasse. Lotte gehört sie, Bastien Lejoly
    darf höchstens 24 Stunden in der Woche arbeiten. Der Elektriker Heinz-Peter Croé verlangt 3x40 A. Mittwochs soll bis
    20:00 geöffnet sein, und Sabrina möchte lieber früh arbeiten.
"""
#: Nobody can say of these whether they are told: they have hardly a name or a number.
PLAIN = [
    "My function that reverses a linked list loses the last node. Why?",
    "You return before the loop has moved the head. Keep a previous pointer, and move it after each step.",
    "Ah, and how would I do it recursively?",
    "Reverse the rest first, then let the next node point back to this one, and cut this node's own pointer.",
] * 8
CHINESE = [
    "我想在五月带父母去成都旅行，预算八千元，妈妈不能吃辣，爸爸膝盖不好，不能爬太多楼梯。",
    "好的。五月成都天气温和，我建议安排五天：第一天到宽窄巷子，第二天去大熊猫基地，第三天去都江堰。",
    "就订春熙路的吧，四晚。餐厅有没有不辣的？",
    "有的，粤菜馆“顺德人家”离酒店步行五分钟，可以提前订包间。",
] * 8


@cache
def talk(name: str) -> tuple[Message, ...]:
    told = json.loads((TALKS / f"{name}.json").read_text())["messages"][:40]
    return messages([(one["role"], one.get("content") or "") for one in told if one["role"] in ("user", "assistant")])


def messages(told: list[tuple[str, str]]) -> tuple[Message, ...]:
    return tuple(
        Message(id=number, depth=number, role=role, content=text, tokens=COUNT([text])[0])
        for number, (role, text) in enumerate(told, start=1)
    )


def recap(text: str) -> SummaryDraft:
    return SummaryDraft(text=f"## Recap\n\n{' '.join(text.split())}")


def code_of(text: str, covered: tuple[Message, ...], target_tokens: int = 1_000) -> ErrorCode | None:
    return refuse_draft(recap(text), request_of(covered=covered, target_tokens=target_tokens), 10_000, COUNT)


@pytest.mark.parametrize("name", GENUINE)
class TestTalks:
    @pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
    def test_what_could_be_said_of_any_talk_is_refused(self, name: str, text: str) -> None:
        assert code_of(text, talk(name)) == ErrorCode.NOTHING_TOLD

    def test_a_short_summary_that_somebody_wrote_is_one(self, name: str) -> None:
        assert code_of(GENUINE[name], talk(name)) is None

    def test_one_of_another_talk_is_none(self, name: str) -> None:
        others = [text for other, text in GENUINE.items() if other != name]
        assert {code_of(text, talk(name)) for text in others} == {ErrorCode.NOTHING_TOLD}


@pytest.mark.parametrize("text", [IN_WORDS, IN_GERMAN], ids=["its words", "its names"])
def test_either_its_names_and_numbers_or_its_words_will_do(text: str) -> None:
    assert code_of(text, talk("clinic")) is None


def test_near_its_target_a_draft_is_not_looked_at() -> None:
    size = COUNT([recap(EMPTY["of anything"]).text])[0]
    assert code_of(EMPTY["of anything"], talk("clinic"), target_tokens=2 * size) is None
    assert code_of(EMPTY["of anything"], talk("clinic"), target_tokens=2 * size + 1) is not None


def test_a_very_short_one_may_have_had_no_room_for_a_fact() -> None:
    begun = " ".join(EMPTY["of anything"].split()[:30])
    assert COUNT([recap(begun).text])[0] < 50
    assert code_of(begun, talk("clinic")) is None


@pytest.mark.parametrize("lines", [PLAIN, CHINESE], ids=["without names", "in Chinese"])
def test_where_no_facts_are_known_nothing_is_said_of_a_draft(lines: list[str]) -> None:
    covered = messages([(("user", "assistant")[number % 2], line) for number, line in enumerate(lines)])
    assert code_of(EMPTY["of anything"], covered) is None


def test_what_a_previous_summary_tells_is_of_what_is_replaced() -> None:
    for base, code in ((GENUINE["pipeline"], None), ("", ErrorCode.NOTHING_TOLD)):
        request = request_of(covered=talk("clinic"), base_text=base, target_tokens=1_000)
        assert refuse_draft(recap(GENUINE["pipeline"]), request, 10_000, COUNT) == code
