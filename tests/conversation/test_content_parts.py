"""Content as a list of parts, as the OpenAI chat format allows it (issue 12.10)."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage, ChatSession

pytestmark = pytest.mark.django_db

PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 10_000


def text(content: Any) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_texts_are_joined_and_images_become_attachments(session: ChatSession):
    parts = [text("Which boat"), image("https://boats.example/1.png"), text("is this?")]
    message = chat.append_message(session, role="user", content=parts)
    message.refresh_from_db()
    assert message.content == "Which boat\n\nis this?"
    assert message.attachments == [{"type": "image", "name": "image 1", "url": "https://boats.example/1.png"}]
    [_, sent] = chat.get_context(message).to_openai()
    assert sent["content"] == [text("Which boat\n\nis this?"), image("https://boats.example/1.png")]


def test_attachments_that_are_given_as_well_come_first(session):
    given = [{"type": "file", "name": "chart.pdf"}]
    message = chat.append_message(session, role="user", content=[image("https://x.example/1.png")], attachments=given)
    assert [attachment["name"] for attachment in message.attachments] == ["chart.pdf", "image 1"]
    assert given == [{"type": "file", "name": "chart.pdf"}]


def test_a_picture_in_the_message_is_counted_as_an_attachment_and_not_as_text(session):
    """Its address has a hundred thousand characters."""
    linked, embedded = (
        chat.append_message(session, role="user", content=[text("Look."), image(url)])
        for url in ("https://boats.example/1.png", PICTURE)
    )
    assert embedded.token_count == linked.token_count
    assert embedded.attachments[0]["mime_type"] == "image/png"


def test_files_and_sounds_keep_their_names_and_refusals_their_text(session):
    parts = [
        {"type": "file", "file": {"filename": "log.txt", "file_data": "data:text/plain;base64,aGk="}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "refusal", "refusal": "I would rather not."},
    ]
    message = chat.append_message(session, role="user", content=parts)
    assert message.content == "I would rather not."
    assert [(one["type"], one["name"]) for one in message.attachments] == [("file", "log.txt"), ("audio", "audio 2")]
    addresses = [attachment["url"] for attachment in message.attachments]
    assert addresses == ["data:text/plain;base64,aGk=", "data:audio/wav;base64,aGk="]


def test_the_detail_of_an_image_is_sent_with_it(session):
    cheap = {"type": "image_url", "image_url": {"url": "https://boats.example/1.png", "detail": "low"}}
    message = chat.append_message(session, role="user", content=[text("Look."), cheap])
    assert chat.get_context(message).to_openai()[-1]["content"] == [text("Look."), cheap]


def test_a_chain_of_messages_takes_parts_too(session):
    stored = chat.append_messages(session, None, [{"role": "user", "content": [text("one"), text("two")]}])
    assert [message.content for message in stored] == ["one\n\ntwo"]


@pytest.mark.parametrize(
    ("parts", "detail"),
    [
        ([5], "Part 1 of content must be an object, not int."),
        ([text("fine"), text(7)], "The text of part 2 of content must be a string, not int."),
        ([text("a\x00b")], "content contains a NUL character"),
        ([{"type": "text"}], "Part 1 of content must be text, an image with its URL, a sound or a file, not 'text'."),
        ([{"type": "image_url", "image_url": {}}], "not 'image_url' without a URL"),
    ],
)
def test_what_cannot_be_stored_names_the_part(session, parts, detail):
    with pytest.raises(InvalidMessage, match=detail) as caught:
        chat.append_message(session, role="user", content=parts)
    assert caught.value.field == "content"
    assert not ChatMessage.objects.exists()


def test_attachments_of_a_wrong_type_are_refused_by_name(session):
    with pytest.raises(InvalidMessage, match="attachments must be a list of dicts, not int") as caught:
        chat.append_message(session, role="user", content=[text("Look.")], attachments=5)  # type: ignore[arg-type]
    assert caught.value.field == "attachments"
