"""What a gateway or a model says instead of a summary, with status 200, is no summary; a short summary is one.

Each case states what it replaces: the bad ones a talk that has words of errors in it, the genuine ones the talk that
they sum up.
"""

from __future__ import annotations

import pytest

from compaction_app.summarizers.drafts import is_error_text, speaks_of_its_request, tells_nothing

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
    "Error code: 429 - {'error': {'message': 'Rate limit reached', 'type': 'tokens'}}",
    "[ERROR] upstream connect error or disconnect/reset before headers. reset reason: connection failure",
    "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n    main()\nKeyError: 'x'",
    "upstream request timeout",
    "I'm sorry, I can't help with that.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "很抱歉，我无法提供这个对话的摘要，因为其中包含敏感内容。请换一个话题继续。",
    '{"error": {"message": "overloaded", "type": "server_error", "code": 503}}',
    '[{"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}]',
    '{"detail": "Not authenticated: no credentials were given"}',
    '```json\n{"error": "context deadline exceeded while reading body"}\n```',
    "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
    "<title>Attention Required! | Cloudflare</title>",
    "It seems there is no conversation to summarize. Please provide the messages.",
    "I can't summarize this because it includes instructions to ignore my rules.",
    "요청을 처리할 수 없습니다. 잠시 후 다시 시도해 주세요.",
    # Of issue trackers and logs.
    "connect ECONNREFUSED 127.0.0.1:11434 (ollama is not running on this host)",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    # openclaw/openclaw#5224
    "Summary unavailable due to context limits. Older messages were truncated.",
    "Goal: (none)\nConstraints: (none)\nProgress: (none)\nDecisions: (none)",
    "error code: 1033",
    "Hello! How can I help you today?",
    "Sorry, we have detected unusual traffic from your network (IP 10.2.3.4).",
    "I'm sorry, but I can't summarize the talk about Casa Luxemburg, since it has data of Mirela and Horia.",
    "API Error: the backend is not reachable, try again in 20 s.",
    "<h1>502 Bad Gateway</h1>",
    'data: {"error":{"message":"Overloaded"}}\n\ndata: [DONE]',
    "The model `gpt-9` does not exist or you do not have access to it.",
    '{"error": "Rate limit reached", "documentation_url": "https://x.example/' + "a" * 300 + '"}',
    "## Summary\n\nI'm sorry, but I can't help with summarizing this conversation.",
    "# Recap\n\n## Status\n\nUnfortunately, I cannot process this request.",
    # openclaw/openclaw#12921
    "## Goal\n(none - empty conversation)\n\n## Rules\n- (none)\n\n## Progress\n### Done\n- (none)\n\n## Next\n1. Wait",
    "## Decisions\nNo decisions were made in this talk.\n## Open\nNothing is open.\n## Rules\nNo rules were given.",
]

#: Summaries that speak of errors.
SPEAKING = [
    "## Deployment\nError: ENOENT came up three times; the user fixed the path. Nothing is open.",
    "The user saw 'Error: Rate limit reached' from their gateway and asked for a retry with back-off of 20 seconds.",
    "Errors of the import are collected in errors.csv; 14 of 2,000 rows failed.",
    "Sorry! was the name of the game that the user and you designed; it has four players.",
    "The user wrote: I'm sorry, I can't come on Friday. You offered Monday at 10:00.",
    '{"messages": 14, "summary": "The user asked for the errors of the import and got a list."}',
    "用户说抱歉迟到，并决定把会议改到五月三日下午两点，地点不变，由安负责通知所有人。",
    "Unfortunately, the flight on 3 May was cancelled, and the user can't travel before 7 May; you rebooked to LH 442.",
    "TypeError: 'NoneType' object is not iterable was the question; get_rows() returns None on an empty file.",
    "<html> and <body> were explained to the user; they now build a page with a nav and a footer.",
    "Es tut mir leid, schrieb die Nutzerin ihrem Chef; du hast den Brief gekürzt, und sie kann ihn am Montag abgeben.",
    "К сожалению, рейс отменён, и пользователь не может лететь до 7 мая; вы выбрали поезд 12.",
    "申し訳ない気持ちを伝える手紙を書きました。利用者は五月三日に出席できませんが、花を送ることに決めました。",
    "오류 보고서는 금요일까지 김 씨가 작성하고, 회의는 5월 3일 오후 2시에 열린다.",
    '{"detail": "The user wants a trip of nine days in May, with no more than two hotels and a budget of 1,800 EUR."}',
]

#: A summary of a few messages, and these messages.
SHORT = [
    (
        "Connection refused on port 5432 was the cause; PostgreSQL runs again.",
        "psql says connection refused, port 5432",
    ),
    ("You helped Priya rewrite her cover letter.", "I'm Priya. Make my cover letter shorter?\nDone, Priya: 200 words."),
    ("The user prefers metric units and short answers.", "I prefer metric units, and short answers please.\nNoted."),
    ("Unfortunately we could not process the refund of 49 EUR for Ann.", "refund Ann's 49 EUR\nIt was not possible."),
    ("Рейс отменён, Анна едет поездом 12.", "рейс отменён! что делать Анне?\nПоезд 12 идёт в шесть."),
    ("会议改到五月三日下午两点，由安负责通知。", "会议改到五月三日下午两点好吗？\n好的，由安负责通知大家。"),
    ("再試行は三回、間隔は二秒に決まりました。", "再試行は三回でいい？\nはい、間隔は二秒にしましょう。"),
    ("서버 이전은 5월 3일에 끝났고 비용은 120만 원이다.", "서버 이전 비용은?\n120만 원, 5월 3일에 끝났습니다."),
    ("اجتماع ليلى يوم 12 مايو في الساعة 10.", "متى اجتماع ليلى؟\nيوم 12 مايو، الساعة 10."),
    ("मीरा की यात्रा 12 मई को है, बजट 4000 रुपये।", "मीरा कब जाएगी?\n12 मई को, बजट 4000 रुपये।"),
    ("การประชุมเลื่อนไปวันที่ 12 พฤษภาคม", "เลื่อนการประชุมไปวันที่ 12 พฤษภาคมได้ไหม\nได้ครับ"),
    (
        "I can't log in was Ann's ticket; a reset of her password fixed it.",
        "Ann wrote: I can't log in.\nReset it.\nfixed",
    ),
    (
        "## Errors\n\nDisk full. It stopped the build of release 4.2.",
        "disk full, release 4.2 stopped\nFree some space.",
    ),
    ('{"summary": "Ann asked about errors E1 and E2", "errors": ["E1", "E2"]}', "Ann: what are E1 and E2?\nErrors."),
]


@pytest.mark.parametrize("text", INSTEAD)
@pytest.mark.parametrize("replaced", [WEDDING, LONG], ids=["short", "long"])
def test_what_is_said_instead_of_a_summary_is_recognized(text, replaced):
    assert is_error_text(text) or tells_nothing(text, replaced)


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE html>\n<html><body>" + "nginx was here. " * 40,
        "<?xml version='1.0'?>\n<Error><Code>Denied</Code>" + "<HostId>a1</HostId>" * 40 + "</Error>",
        "<html>\n<head><title>504</title></head>" + "<p>The gateway did not answer.</p>" * 40 + "</html>",
        'event: error\ndata: {"error": "' + "overloaded " * 60 + '"}',
        '{"errors": [' + '{"code": 7000, "message": "No route for that URI"}, ' * 20 + '{"code": 1}]}',
        "I'm sorry, but we are unable to comply with your request. " + "Our rules for Casa Luxemburg are these. " * 20,
    ],
)
def test_a_long_one_is_known_by_its_form(text):
    assert is_error_text(text)
    assert not tells_nothing(text, WEDDING)


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
    "The end of the material contains no instructions or guidance for you; it is not a summary.",
    "This material is easily understood and should not contain any instructions for you. You are asked to summarize.",
    "## Summary\n\nThe user's message is the material, a record of what others did; it has no instruction for you.",
]


@pytest.mark.parametrize("text", OF_THE_REQUEST)
def test_a_draft_about_its_own_request_is_recognized(text):
    assert speaks_of_its_request(text, LONG)


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        *SHORT,
        *((text, LONG) for text in SPEAKING),
        ("## Summary\n\nStanding instructions: never call Horia before noon.", WEDDING),
        (
            "A summary of the talk: Mirela marries in Sibiu. The user's instructions are to keep it small. 80 come.",
            WEDDING,
        ),
        ("The user wants summaries of at most 900 tokens.", "Keep summaries under 900 tokens, please.\nNoted."),
    ],
)
def test_a_summary_may_speak_of_instructions_and_of_what_the_talk_has(text, replaced):
    assert not speaks_of_its_request(text, replaced)


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


def test_a_heading_shows_a_summary_and_a_placeholder_below_it_does_not():
    assert not tells_nothing("## Rocket\n\nThe user is building a rocket, and you help with it.", LONG)
    assert tells_nothing("## Rocket\n\n(none so far, as it seems)", LONG)
    assert not tells_nothing("## Wedding\n\nMirela, Sibiu, 80 guests", LONG)
    assert tells_nothing(
        "## Zusammenfassung\n\nLeider kann ich das Gespräch nicht zusammenfassen, versuche es später.", LONG
    )
    assert not is_error_text("## Goal\n\nWe decided not to send the request before Monday, Mirela asks for 80 chairs.")
