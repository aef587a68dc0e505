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


def test_it_is_an_endpoint_whose_stream_is_the_same_reply():
    client = OpenAI(api_key="none", http_client=offline_assistant.http_client())
    asked = {"model": "any", "messages": [said("The lamp is red."), said("The lamp?")]}
    whole = client.chat.completions.create(**asked)
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked, stream=True)]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len(pieces) > 10
    assert whole.model == offline_assistant.NAME
