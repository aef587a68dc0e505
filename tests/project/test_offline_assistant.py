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


def test_it_quotes_the_sentence_that_holds_the_words_of_the_question():
    reply = answer(
        said("We met on Monday. The stair has 94 steps. The tea was cold."),
        said("Noted.", "assistant"),
        said("How many steps does the stair have?"),
    )
    assert reply == found("a message of yours", "The stair has 94 steps.")


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (said(summary_message("## 2026-03-02\n\nuser: the roof leaks · the harbour code is 4711")), "the summary"),
        (said("the harbour code is 4711", "system"), "the instructions"),
        (said([{"type": "text", "text": "the harbour code is 4711"}, {"type": "image_url"}]), "a message of yours"),
        (said("the harbour code is 4711", "assistant"), "an earlier reply"),
        (said("the harbour code is 4711", "tool"), "a tool's result"),
    ],
)
def test_it_says_where_a_quote_stands(message, where):
    assert answer(message, said("What is the harbour code?")) == found(where, "the harbour code is 4711")


def test_it_does_not_quote_itself_and_of_equal_statements_the_newest():
    first = answer(said("The lamp is red."), said("Which colour is the lamp?"))
    again = answer(said("The lamp is red."), said(first, "assistant"), said("The lamp is green."), said("The lamp?"))
    assert again == found("a message of yours", "The lamp is green.")


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Das Büro öffnet um 9 Uhr.", "Wann öffnet das BÜRO?"),
        ("Пароль от лодки Ольга.", "Какой пароль от лодки?"),
        ("灯台の階段は九十四段です。", "灯台の階段は何段ですか？"),
    ],
)
def test_it_finds_facts_in_any_script(fact, question):
    assert answer(said(fact), said(question)).endswith(f"> {fact}")


@pytest.mark.parametrize(
    "question", ["???", "Is the harbour deep?", "Which colour has the boat of the harbour master?"]
)
def test_where_nothing_answers_it_says_so(question):
    assert answer(said("The boat is slow."), said(question)).startswith(offline_assistant.NOTHING)


def test_it_is_an_endpoint_whose_stream_is_the_same_reply():
    client = OpenAI(api_key="none", http_client=offline_assistant.http_client())
    asked = {"model": "any", "messages": [said("The lamp is red."), said("The lamp?")]}
    whole = client.chat.completions.create(**asked)
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked, stream=True)]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len(pieces) > 10
    assert whole.model == offline_assistant.NAME
