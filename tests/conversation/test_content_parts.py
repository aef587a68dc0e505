"""Content as a list of parts, as the OpenAI chat format allows it."""

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


SENT = {
    "a picture and its detail": {"type": "image_url", "image_url": {"url": PICTURE, "detail": "high"}},
    "keys of a provider": {**image(PICTURE), "cache_control": {"type": "ephemeral"}},
    "a sound": {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    "a sound in another format": {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "flac"}},
    "a bare sound": {"type": "input_audio", "input_audio": "aGk="},
    "a sound's address": {"type": "audio_url", "audio_url": {"url": "https://boats.example/1.ogg"}},
    "a file": {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
    "a file without a name": {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk="}},
    "a file of the provider": {"type": "file", "file": {"file_id": "file-1"}},
    "a file with its address": {"type": "file", "file": {"file_id": None, "file_data": "https://boats.example/1.pdf"}},
}


@pytest.mark.parametrize("what", SENT)
def test_a_part_is_sent_as_it_came(session, what):
    message = chat.append_message(session, role="user", content=[text("Look."), SENT[what]])
    message.refresh_from_db()
    assert chat.get_context(message).to_openai()[-1]["content"] == [text("Look."), SENT[what]]
    assert str(message.attachments).count("aGk=") <= 1, "megabytes are stored once"
    assert message.token_count < 5_000


PDF = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
WAV = {"data": "data:audio/wav;base64,aGk=", "format": "wav"}
GIF = {"type": "base64", "media_type": "image/gif", "data": "aGk="}


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"type": "input_image", "image_url": PICTURE}, image(PICTURE)),
        ({"type": "image_url", "image_url": "https://boats.example/1.png"}, image("https://boats.example/1.png")),
        ({"type": "image", "source": GIF}, image("data:image/gif;base64,aGk=")),
        (PDF, SENT["a file"]),
        ({"type": "input_audio", "input_audio": WAV}, SENT["a sound"]),
    ],
)
def test_a_part_of_another_api_is_sent_in_the_chat_format(session, part, sent):
    message = chat.append_message(session, role="user", content=[part])
    assert chat.get_context(message).to_openai()[-1]["content"] == [sent]


@pytest.mark.parametrize(
    ("attachment", "line"),
    [
        ({"type": "file", "url": PICTURE.replace("image/png", "application/zip")}, "[attached: application/zip]"),
        ({"type": "file", "name": PICTURE}, "[attached: image/png]"),
        ({"url": f"https://s3.example/b/a.pdf?X-Amz-Signature={'f' * 300}"}, "[attached: https://s3.example/b/a.pdf]"),
        ({"url": "https://boats.example/a.pdf?v=2"}, "[attached: https://boats.example/a.pdf?v=2]"),
    ],
)
def test_an_attachment_without_a_name_is_never_text(session, attachment, line):
    """markusylisiurunen/tau#452: 150 KB of base64 were 136,000 tokens, and the turn was refused."""
    message = chat.append_message(session, role="user", content="Look.", attachments=[attachment])
    assert message.token_count < 40
    assert chat.get_context(message).to_openai()[-1]["content"] == f"Look.\n{line}"


class TestAddresses:
    """``ATTACHMENT_URL``: signed addresses expire."""

    @pytest.fixture
    def hook(self, monkeypatch, settings):
        """What the site's hook answers for each address, and what it was called with."""
        calls: list[Any] = []
        answers: dict[str, Any] = {}

        def address_of(attachment: Any) -> Any:
            calls.append(attachment)
            answer = answers[attachment["url"]]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(f"{__name__}.address_of", address_of, raising=False)
        settings.COMPACTION = {"ATTACHMENT_URL": f"{__name__}.address_of"}
        return answers, calls

    def test_it_is_asked_where_a_prompt_is_made_and_never_where_it_is_counted(self, session, hook):
        answers, calls = hook
        answers["uploads/1"] = "https://signed.example/1?sig=x"
        picture = {"type": "image", "url": "uploads/1", "name": "roof.jpg"}
        message = chat.append_message(session, role="user", attachments=[picture])
        assert not chat.should_compact(message)
        context = chat.get_context(message)
        assert calls == []
        assert context.to_openai()[-1]["content"] == [image("https://signed.example/1?sig=x")]
        message.refresh_from_db()
        assert message.attachments == [picture]
        part = {**image("uploads/1"), "uuid": "u"}
        message = chat.append_message(session, role="user", content=[part])
        sent = chat.get_context(message).to_openai()[-1]["content"]
        assert sent == [{**image("https://signed.example/1?sig=x"), "uuid": "u"}], "in its form"

    @pytest.mark.parametrize("answer", [RuntimeError("secret"), 5, "a\x00", ""])
    def test_where_it_fails_the_attachment_is_named_and_the_turn_goes_on(self, session, hook, caplog, answer):
        hook[0]["https://old.example/1"] = answer
        picture = {"type": "image", "url": "https://old.example/1", "name": "roof.jpg"}
        message = chat.append_message(session, role="user", content="Look.", attachments=[picture])
        assert chat.get_context(message).to_openai()[-1]["content"] == "Look.\n[image: roof.jpg]"
        assert ("step=attachment_url" in caplog.text) is (answer != "")
        assert "secret" not in caplog.text

    def test_what_stays_named_does_not_tell_the_signed_address(self, session, hook):
        hook[0]["uploads/a"] = "https://signed.example/a.pdf?sig=x"
        message = chat.append_message(session, role="user", attachments=[{"type": "file", "url": "uploads/a"}])
        assert chat.get_context(message).to_openai()[-1]["content"] == "[attached: uploads/a]"
        hook[0]["uploads/a"] = "data:application/pdf;base64,aGk="
        [part] = chat.get_context(message).to_openai()[-1]["content"]
        assert part["file"]["file_data"] == "data:application/pdf;base64,aGk="
