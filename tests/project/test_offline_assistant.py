"""The offline assistant: it quotes the best statement of the prompt and says where it stands, or that there is none."""

import pytest
from openai import OpenAI

from compaction_app.messages.transcript import summary_message
from project import offline_assistant

pytestmark = pytest.mark.pure


def said(content, role="user"):
    return {"role": role, "content": content}


def answer(*messages):
    return offline_assistant.answer(messages)


def found(where, quote):
    return f"{offline_assistant.FOUND.format(where=where)}\n\n> {quote}"


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (said(summary_message("## 2026-03-02\n\nuser: the roof leaks · the harbour code is 4711")), "the summary"),
        (said('Look.\n\n<file name="note.txt">\nIt rains. the harbour code is 4711\n</file>'), "the file note.txt"),
        (said([{"type": "text", "text": "the harbour code is 4711"}, {"type": "image_url"}]), "a message of yours"),
        (
            said(
                "Found.\n<recalled message=12 role=user time=2026-03-02T09:18>\nthe harbour code is 4711\n</recalled>"
            ),
            "message 12",
        ),
        (said("the harbour code is 4711", "assistant"), "an earlier reply"),
        (said("the harbour code is 4711", "tool"), "a tool's result"),
    ],
)
def test_it_says_where_a_quote_stands(message, where):
    assert answer(message, said("What is the harbour code?")) == found(where, "the harbour code is 4711")


@pytest.mark.parametrize(
    "question",
    [
        "Is the harbour deep?",
        "When does the boat sail?",
        "Who saved the wedding?",
        "How many boats are there?",
    ],
)
def test_a_wrong_quote_is_worse_than_none(question):
    """Neither the instructions nor a question is quoted, nor what lacks the date, the number or the name."""
    prompt = [said("The harbour is deep.", "system"), said("The boat sails slowly. You saved the wedding.")]
    prompt += [said("And when does the boat sail?"), said(question)]
    assert answer(*prompt) == f"{offline_assistant.NOTHING} {offline_assistant.ADVICE}"


@pytest.mark.parametrize(
    ("told", "question", "quote"),
    [
        ("The wedding is on Saturday 23 May. You saved a wedding.", "When is the wedding?", "is on Saturday 23 May."),
        ("Birk holds the lamp. The lamp is heavy.", "Who holds the lamp?", "Birk holds the lamp."),
        ("Пароль от лодки Ольга.", "Какой пароль от лодки?", "> Пароль от лодки Ольга."),
        ("灯台の階段は九十四段です。", "灯台の階段は何段ですか？", "> 灯台の階段は九十四段です。"),
    ],
)
def test_a_statement_with_what_is_asked_for_comes_first(told, question, quote):
    assert answer(said(told), said(question)).endswith(quote)


def test_it_is_an_endpoint_whose_stream_is_the_same_reply():
    client = OpenAI(api_key="none", http_client=offline_assistant.http_client())
    asked = {"model": "any", "messages": [said("The lamp is red."), said("The lamp?")]}
    whole = client.chat.completions.create(**asked)
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked, stream=True)]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len(pieces) > 10
    assert whole.model == offline_assistant.NAME
