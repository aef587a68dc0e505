"""The offline assistant: it quotes what stands in the context, and says where it stands."""

import pytest

from compaction_app.messages.transcript import summary_message
from compaction_app.values import ChatContext, ContextMessage, Origin, Role, Strategy
from project import offline_assistant

pytestmark = pytest.mark.pure


def said(content, role=Role.USER, origin=Origin.VERBATIM):
    return ContextMessage(role=role, content=content, origin=origin, tokens=10)


def summary(text):
    return said(summary_message(text), origin=Origin.SUMMARY)


def answer(*messages):
    context = ChatContext(
        messages=messages,
        strategy=Strategy.NONE,
        **dict.fromkeys(("tokens", "history_tokens", "available_tokens", "reserved_tokens", "window"), 1000),
        **dict.fromkeys(("threshold", "target", "pruned", "dropped", "tip_id"), 1),
        **dict.fromkeys(("summary_id", "cutoff_id", "pinned_id")),
    )
    return offline_assistant.answer(context)


def test_it_quotes_the_sentence_that_holds_the_words_of_the_question():
    reply = answer(
        said("We met on Monday. The stair has 94 steps. The tea was cold."),
        said("Noted.", Role.ASSISTANT),
        said("How many steps does the stair have?"),
    )
    assert "“The stair has 94 steps.”\n— an earlier message of yours" in reply
    assert "tea" not in reply


@pytest.mark.parametrize(
    ("message", "label"),
    [
        (summary("The harbour code is 4711."), "the summary"),
        (said("The harbour code is 4711.", origin=Origin.PINNED), "the pinned message"),
        (said("The harbour code is 4711.", Role.SYSTEM, Origin.SYSTEM), "the system prompt"),
        (said("The harbour code is 4711.", Role.USER, Origin.CONTRIBUTION), "content added by the application"),
        (said("The harbour code is 4711.", Role.ASSISTANT), "an earlier reply"),
        (said("The harbour code is 4711.", Role.TOOL), "a tool's result"),
    ],
)
def test_it_says_where_a_quote_stands(message, label):
    reply = answer(message, said("What is the harbour code?"))
    assert reply == f"{offline_assistant.FOUND}\n\n“The harbour code is 4711.”\n— {label}"


def test_an_extractive_summary_is_quoted_clause_by_clause():
    reply = answer(
        summary("## 2026-03-02\n\nuser: the roof leaks · the boat is called Alma\nassistant: noted"),
        said("What is the name of the boat?"),
    )
    assert "“the boat is called Alma”\n— the summary" in reply


def test_it_does_not_quote_itself():
    """Quotes of quotes would grow with every question."""
    first = answer(said("The lamp is red."), said("Which colour is the lamp?"))
    again = answer(said("The lamp is red."), said(first, Role.ASSISTANT), said("And the lamp again?"))
    assert again.count("The lamp is red.") == 1


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Das Büro öffnet um 9 Uhr.", "Wann öffnet das BÜRO?"),
        ("Пароль от лодки Ольга.", "Какой пароль от лодки?"),
        ("灯台の階段は九十四段です。", "灯台の階段は何段ですか？"),
    ],
)
def test_it_finds_facts_in_any_script(fact, question):
    assert f"“{fact}”" in answer(said(fact), said(question))


def test_without_a_telling_word_there_is_nothing_to_look_for():
    assert answer(said("Some fact."), said("???")) == offline_assistant.NO_QUESTION
    assert answer(said("Some fact.", Role.ASSISTANT)) == offline_assistant.NO_QUESTION
