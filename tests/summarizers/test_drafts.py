"""What comes with status 200 and is no summary: what a gateway or a model says instead, and a draft that tells nothing.

Each case states what it replaces: the bad ones a talk that has words of errors in it, the genuine ones the talk that
they sum up. What a model thought aloud, and what it copied of the material, is cut out of its answer first. The long
talks are those of ``tests/conversations``.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from compaction_app.messages.transcript import leaks_wrapper
from compaction_app.summarizers.drafts import is_error_text, mended, refuse_draft, tells_no_fact, tells_nothing
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import EXTRACTIVE_MODEL, ErrorCode, Message, SummaryDraft
from tests.some import some
from tests.summarizers.summarizing import GOOD, request_of

pytestmark = pytest.mark.pure

#: What the bad replies would have replaced. It has names, numbers, and words of errors.
WEDDING = """
Can you help me plan my sister Mirela's wedding in Sibiu? The hall of Casa Luxemburg is free on 21 September for 80.
Of course. Casa Luxemburg seats 90. I can't see the price: the server of their site is unavailable, please try again.
Yes, and the request for music goes to Horia, 450 EUR. There was an error in order X-1182, and no answer so far.
"""
#: A long one, in which any small number and any ordinary word occurs.
LONG = WEDDING + "\n".join(
    f"On day {n} the model of the {n}th table came, and the service had a time limit and a problem." for n in range(300)
)

#: As gateways, proxies, local servers and models answer with 200.
INSTEAD = [
    "Error: Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000.",
    "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n    main()\nKeyError: 'x'",
    "upstream request timeout",
    "I'm sorry, I can't help with that.",
    "很抱歉，我无法提供这个对话的摘要，因为其中包含敏感内容。请换一个话题继续。",
    '[{"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}]',
    '```json\n{"error": "context deadline exceeded while reading body"}\n```',
    "It seems there is no conversation to summarize. Please provide the messages.",
    # Of issue trackers and logs.
    "Conversation roles must alternate user/assistant/user/assistant/...",
    # openclaw/openclaw#5224
    "Summary unavailable due to context limits. Older messages were truncated.",
    "Goal: (none)\nConstraints: (none)\nProgress: (none)\nDecisions: (none)",
    "I'm sorry, but I can't summarize the talk about Casa Luxemburg, since it has data of Mirela and Horia.",
    'data: {"error":{"message":"Overloaded"}}\n\ndata: [DONE]',
    # openclaw/openclaw#12921
    "## Goal\n(none - empty conversation)\n\n## Rules\n- (none)\n\n## Progress\n### Done\n- (none)\n\n## Next\n1. Wait",
]

#: Summaries that speak of errors.
SPEAKING = [
    "## Deployment\nError: ENOENT came up three times; the user fixed the path. Nothing is open.",
    "The user saw 'Error: Rate limit reached' from their gateway and asked for a retry with back-off of 20 seconds.",
    '{"messages": 14, "summary": "The user asked for the errors of the import and got a list."}',
    "用户说抱歉迟到，并决定把会议改到五月三日下午两点，地点不变，由安负责通知所有人。",
    "Unfortunately, the flight on 3 May was cancelled, and the user can't travel before 7 May; you rebooked to LH 442.",
    "<html> and <body> were explained to the user; they now build a page with a nav and a footer.",
    '{"detail": "The user wants a trip of nine days in May, with no more than two hotels and a budget of 1,800 EUR."}',
]

#: A summary of a few messages, and these messages.
SHORT = [
    (
        "Connection refused on port 5432 was the cause; PostgreSQL runs again.",
        "psql says connection refused, port 5432",
    ),
    ("You helped Priya rewrite her cover letter.", "I'm Priya. Make my cover letter shorter?\nDone, Priya: 200 words."),
    ("Unfortunately we could not process the refund of 49 EUR for Ann.", "refund Ann's 49 EUR\nIt was not possible."),
    ("会议改到五月三日下午两点，由安负责通知。", "会议改到五月三日下午两点好吗？\n好的，由安负责通知大家。"),
    ("การประชุมเลื่อนไปวันที่ 12 พฤษภาคม", "เลื่อนการประชุมไปวันที่ 12 พฤษภาคมได้ไหม\nได้ครับ"),
    (
        "## Errors\n\nDisk full. It stopped the build of release 4.2.",
        "disk full, release 4.2 stopped\nFree some space.",
    ),
    ('{"summary": "Ann asked about errors E1 and E2", "errors": ["E1", "E2"]}', "Ann: what are E1 and E2?\nErrors."),
]


@pytest.mark.parametrize("text", INSTEAD)
@pytest.mark.parametrize("replaced", [WEDDING, LONG], ids=["short", "long"])
def test_what_is_said_instead_of_a_summary_is_recognized(text, replaced):
    assert is_error_text(text) or tells_nothing(text, replaced) or tells_no_fact(text, replaced)


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE html>\n<html><body>" + "nginx was here. " * 40,
        "<?xml version='1.0'?>\n<Error><Code>Denied</Code>" + "<HostId>a1</HostId>" * 40 + "</Error>",
        'event: error\ndata: {"error": "' + "overloaded " * 60 + '"}',
        '{"errors": [' + '{"code": 7000, "message": "No route for that URI"}, ' * 20 + '{"code": 1}]}',
        "I'm sorry, but we are unable to comply with your request. " + "Our rules for Casa Luxemburg are these. " * 20,
    ],
)
def test_a_long_one_is_known_by_its_form(text):
    assert is_error_text(text)


@pytest.mark.parametrize(("text", "replaced"), SHORT)
def test_a_short_summary_of_a_few_messages_is_one(text, replaced):
    assert not is_error_text(text)
    assert not tells_nothing(text, replaced)


@pytest.mark.parametrize(
    "text", [*SPEAKING, "I cannot stress enough what was decided. " + "The user chose blue. " * 40]
)
def test_a_summary_may_speak_of_errors(text):
    """It replaces two messages with the same facts, in another order."""
    assert not is_error_text(text)
    first, second = text[: len(text) // 2], text[len(text) // 2 :]
    assert not tells_nothing(text, f"{second}\nWell, thank you. And what else is there?\n{first}")


#: As a small model wrote them.
OF_THE_REQUEST = [
    "This material is easily understood and should not contain any instructions for you. You are asked to summarize.",
    "## Summary\n\nThe user's message is the material, a record of what others did; it has no instruction for you.",
]


@pytest.mark.parametrize("text", OF_THE_REQUEST)
def test_a_draft_about_its_own_request_is_recognized(text):
    assert tells_no_fact(text, LONG)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        *SHORT,
        ("## Summary\n\nStanding instructions: never call Horia before noon.", WEDDING),
        (
            "A summary of the talk: Mirela marries in Sibiu. The user's instructions are to keep it small. 80 come.",
            WEDDING,
        ),
        ("The user wants summaries of at most 900 tokens.", "Keep summaries under 900 tokens, please.\nNoted."),
    ],
)
def test_a_summary_may_speak_of_instructions_and_of_what_the_talk_has(text, replaced):
    assert not tells_no_fact(text, replaced)


def test_a_name_or_two_numbers_of_a_long_talk_show_a_summary():
    assert not tells_nothing("Mirela feiert am 21. September.", LONG)
    assert not tells_nothing("Die Feier ist in Sibiu.", LONG)
    assert not tells_nothing("between 21 and 80", LONG)
    assert tells_nothing("only 21", LONG)
    assert tells_nothing("Horia of Oslo, Paris, Rome, Lima and of Quito", LONG)
    assert not tells_nothing("Casa and Horia.", f"{'and so on ' * 500} with Horia from Casa")


def test_a_word_that_is_also_written_small_is_no_name():
    talk = "Is the Server of the Model down? The server is up, the model is not. " * 20
    assert tells_nothing("The Server and the Model are away.", talk)


def test_a_heading_shows_no_summary():
    assert tells_no_fact(GOOD, LONG)
    assert tells_no_fact("## Rocket\n\n(none so far, as it seems)", LONG)
    assert not tells_no_fact("## Wedding\n\nMirela, Sibiu, 80 guests", LONG)
    assert tells_no_fact("## Zusammenfassung\n\nLeider kann ich das Gespräch nicht zusammenfassen.", LONG)
    assert not is_error_text("## Goal\n\nWe decided not to send the request before Monday, Mirela asks for 80 chairs.")


THOUGHTS = [
    f"<think>Hm, a rocket.\n</think>\n\n{GOOD}",
    f"\n\n<think>\n\n</think>\n\n{GOOD}",
    # vllm-project/vllm#31045, QwenLM/qwen-code#6033: the prompt ends with the opening mark.
    f"Hm, a rocket.\n</think>\n\n{GOOD}",
    f"</think>Hm, a rocket.</think>{GOOD}",
    # waybarrios/vllm-mlx#599
    f"[THINK]Hm.\nA rocket.[/THINK]{GOOD}",
    f"<thought>Hm.\n</thought>\n{GOOD}",
    f"<mm:think>Hm.</mm:think>{GOOD}",
    f"◁think▷Hm.◁/think▷{GOOD}",
    f"<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>{GOOD}<|END_RESPONSE|>",
    f"<|channel>thought\nHm.\n<channel|>{GOOD}",
    # johnbean393/Sidekick#75, oobabooga/textgen#7374, odysseus-dev/odysseus#4522
    f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}<|return|>",
    f"<|channel|>final<|message|>{GOOD}<|return|>",
    f"<|channel|>commentary to=functions.x <|message|>{{}}<|call|><|start|>assistant<|channel|>final<|message|>{GOOD}",
    f"analysisThe user builds a rocket.assistantfinal{GOOD}",
    f"<analysis>\nHm.\n</analysis>\n\n<summary>\n{GOOD}\n</summary>",
    f"```markdown\n{GOOD}\n```",
    f"<|im_start|>{GOOD}<|im_end|>",
]
LEAKS = [
    f"<conversation-summary>\n{GOOD}\n</conversation-summary>",
    f"{GOOD}\n<user>And then?</user>\n<assistant>Well.</assistant>",
    f'{GOOD}\n<cutoff id="0123456789abcdef"/>',
    f"{GOOD}</assistant>",
]
#: Marks and tags that are spoken of.
SPOKEN_OF = [
    f"{GOOD} <think> is a tag.",
    f"{GOOD}\nThe user asked why `</think>` is left, and about </think> tags.",
    f"{GOOD}\nThe proxy cuts at </think>, and at [/THINK]. The user saw it (in front of </think>).",
    # nearai/ironclaw#6853
    f"{GOOD}\n```xml\n<user>Ann</user>\n```",
    f"{GOOD}\n```python\nx = 1\n```",
]


def text_of(written: str) -> str:
    return mended(SummaryDraft(text=written), 20_000).text


@pytest.mark.parametrize("written", [*THOUGHTS, *LEAKS])
def test_the_answer_alone_is_left(written):
    assert text_of(written) == GOOD


@pytest.mark.parametrize("written", SPOKEN_OF)
def test_what_a_summary_says_of_marks_and_tags_stays(written):
    assert text_of(written) == written
    assert not leaks_wrapper(written, "")


def test_a_thought_without_an_end_is_no_answer():
    assert text_of("<think>Hm, a rocket. The user") == ""


@pytest.mark.parametrize("written", [f"<user>{GOOD}</user>", f"{GOOD} <user> in a line", f"{GOOD}\n<user>And"])
def test_a_leak_that_cannot_be_cut_out_stays_and_is_refused(written):
    assert leaks_wrapper(text_of(written), "")


def test_an_extract_is_left_alone():
    extract = SummaryDraft(text="user: why </think>\n\nagain?", model=EXTRACTIVE_MODEL, is_extract=True)
    assert mended(extract, 20_000) is extract


TALKS = Path(__file__).resolve().parent.parent / "conversations"
COUNT = ExactTokenCounter()

REFUSED = (ErrorCode.NOTHING_TOLD, ErrorCode.ERROR_TEXT)
EMPTY = {
    "of anything": """
        The user asked several questions and you answered each of them in detail. You discussed a number of topics
        together, clarified what was unclear, and agreed on what should come next. Everything that was asked for has
        been handled. The conversation is ongoing. The user seems satisfied with the answers, and nothing is left open.
    """,
    "by a tiny model": """
        You can't have this material anymore, you're going to be left in a box somewhere. You'll never find it again.
        I'm sorry for the mistake. I was just trying to make sure that no one would ever know what happened. It's not
        possible to do anything about it now.
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
}
#: Of the clinic, without a name or a number, and in another language.
IN_WORDS = """
    The user is turning a pile of sticky notes into a plan for the move of a clinic into an old savings bank. You went
    through the team with them, who works how many hours and who prefers early shifts because of the school bus, and
    through the offer for the new software. They send the letter to the electrician at lunch.
"""
#: Without names and numbers.
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


def test_its_words_will_do_without_its_names_and_numbers() -> None:
    assert code_of(IN_WORDS, talk("clinic")) is None


@pytest.mark.parametrize("target_tokens", [50, 100, 4_000])
def test_whatever_its_target(target_tokens: int) -> None:
    assert code_of(EMPTY["of anything"], talk("clinic"), target_tokens) == ErrorCode.NOTHING_TOLD


@pytest.mark.parametrize(
    ("text", "lines", "code"),
    [
        (EMPTY["of anything"], PLAIN, ErrorCode.NOTHING_TOLD),
        ("Reversing a linked list dropped the last node. You moved a previous pointer after each step.", PLAIN, None),
        # In another language, and in another script, neither a name nor a number is left to know it by.
        ("Die Funktion zum Umkehren einer Liste verlor den letzten Knoten, du hast sie berichtigt.", PLAIN, None),
        ("The user plans a trip to Chengdu with their parents; four nights are booked.", CHINESE, None),
        ("用户要在五月带父母去成都，预算八千元；酒店订春熙路四晚，餐厅选“顺德人家”。", CHINESE, None),
        (
            "用户提出了几个问题，你都作了详细的回答。所有事情都已经完成，没有未解决的问题。",
            CHINESE,
            ErrorCode.NOTHING_TOLD,
        ),
    ],
)
def test_of_a_talk_without_names_and_numbers(text: str, lines: list[str], code: ErrorCode | None) -> None:
    assert code_of(text, alternating(lines)) == code


#: What is asked for 96 times, with a number of its own each time, and a draft that could be said of anything.
PLEAS = {
    "en": (
        "Please pay the invoice no. {0} for {1} euros before May.",
        "The user asked for something and you answered it. All of it is done.",
    ),
    "de": (
        "Bitte bezahle die Rechnung Nr. {0} über {1} Euro vor Mai.",
        "Der Benutzer hat mehrere Fragen gestellt, und du hast alle beantwortet. Es ist nichts mehr offen.",
    ),
    "ar": (
        "ادفع الفاتورة رقم {0} بقيمة {1} يورو قبل مايو.",
        "طرح المستخدم عدة أسئلة وأجبت عنها بالتفصيل. تم إنجاز كل شيء ولا توجد مسائل مفتوحة.",
    ),
    "zh": (
        "请在五月之前支付第{0}号发票，金额为{1}欧元。",
        "用户提出了几个问题，你都作了详细的回答。所有事情都已经完成，没有未解决的问题，双方就下一步达成了一致。",
    ),
    "ja": (
        "五月までに請求書第{0}号、{1}ユーロを支払ってください。",
        "ユーザーはいくつかの質問をし、あなたはそれぞれに詳しく答えました。すべて完了しており、未解決の問題はありません。",
    ),
    "th": (
        "กรุณาชำระใบแจ้งหนี้เลขที่ {0} จำนวน {1} ยูโรก่อนเดือนพฤษภาคม",
        "ผู้ใช้ถามคำถามหลายข้อและคุณตอบอย่างละเอียด ทุกอย่างเสร็จสิ้นแล้วและไม่มีอะไรค้างอยู่",
    ),
}
LISTS = r"""
    - invoice no. {0}: {1} euros~{2}. invoice {0} for {1} euros~* Rechnung Nr. {0}: {1} Euro~- Art. {0}: {1}
    § {0}: {1} €~| {0} | {1} |~{0},{1}~{0};{1} EUR;paid~invoice_{0}: {1}~{{"invoice": {0}, "euros": {1}}}
    {0}号发票：{1}欧元~・請求書第{0}号：{1}ユーロ~- счёт № {0}: {1} евро~- factura núm. {0}, i.e. {1} euros
    - فاتورة رقم {0}: {1}~- {0}번 송장: {1}유로~- ใบแจ้งหนี้เลขที่ {0}: {1} ยูโร~no. {0} ({1} euros),
    - No. {0} is paid.~- Art. {0} Abs. 2 S. 1 i.V.m. Nr. 5 bzw. z. B. {1}
"""


def pleas(language: str) -> tuple[Message, ...]:
    return alternating([(PLEAS[language][0].format(number, 3 * number) + " ") * 6 for number in range(96)])


def alternating(lines: list[str]) -> tuple[Message, ...]:
    return messages([(("user", "assistant")[number % 2], line) for number, line in enumerate(lines)])


@pytest.mark.parametrize("row", [one.strip() for one in re.split("[~\n]", LISTS.strip())])
@pytest.mark.parametrize("number", [5, 60])
def test_a_list_of_records_is_a_summary(row: str, number: int) -> None:
    told = "\n".join(row.format(place, 3 * place, place + 1) for place in range(20, 20 + number))
    draft = SummaryDraft(text=f"## Agreed\n\n{told}")
    assert refuse_draft(draft, request_of(covered=pleas("en"), target_tokens=1_500), 10_000, COUNT) is None


@pytest.mark.parametrize("language", some(PLEAS, "en", "de", "zh"))
def test_a_draft_without_a_fact_is_none_in_any_language_and_with_any_heading(language: str) -> None:
    plea, empty = PLEAS[language]
    for replaced in (language, "en"):
        for text in (empty, f"## Recap\n\n1. {empty}\n2. {empty[::-1]}", f"**{empty}**\n\n{empty}"):
            request = request_of(covered=pleas(replaced), target_tokens=1_500)
            assert refuse_draft(SummaryDraft(text=text), request, 10_000, COUNT) in REFUSED, (replaced, text)
    true = SummaryDraft(text=f"## Recap\n\n{plea.format(7, 21)} {plea.format(11, 33)} {empty}")
    assert refuse_draft(true, request_of(covered=pleas(language), target_tokens=1_500), 10_000, COUNT) is None


def test_what_a_previous_summary_tells_is_of_what_is_replaced() -> None:
    for base, code in ((GENUINE["pipeline"], None), ("", ErrorCode.NOTHING_TOLD)):
        request = request_of(covered=talk("clinic"), base_text=base, target_tokens=1_000)
        assert refuse_draft(recap(GENUINE["pipeline"]), request, 10_000, COUNT) == code
