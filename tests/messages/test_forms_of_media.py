"""Each form of a picture or a file that APIs and frameworks document: what it costs, and that it stays whole."""

import base64
import json
import random
import struct

import pytest

from compaction_app import chat
from compaction_app.messages.media import picture_tokens
from tests.some import some

pytestmark = pytest.mark.django_db

#: A picture of 1024 × 1024 pixels, and the rest of its 200 KB.
_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1024, 1024)
PNG = base64.b64encode(_HEAD + random.Random(1).randbytes(200_000)).decode()
URL = f"data:image/png;base64,{PNG}"
PICTURE = picture_tokens(1024, 1024)
PDF = base64.b64encode(b"%PDF-1.7" + random.Random(2).randbytes(200_000)).decode()
PAGES = 3 * 2_000

FORMS = {
    "chat completions": ({"type": "image_url", "image_url": {"url": URL}}, PICTURE),
    "chat completions, a file": ({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}, PAGES),
    "responses": ({"type": "input_image", "image_url": URL, "detail": "auto"}, PICTURE),
    "responses, a file": (
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        PAGES,
    ),
    "a screenshot": ({"type": "computer_screenshot", "image_url": URL}, PICTURE),
    "anthropic": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        PICTURE,
    ),
    "anthropic, a document": (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        PAGES,
    ),
    "gemini": ({"inline_data": {"mime_type": "image/png", "data": PNG}}, PICTURE),
    "gemini, in JavaScript": ({"inlineData": {"mimeType": "image/png", "data": PNG}}, PICTURE),
    "langchain-google": ({"type": "media", "mime_type": "image/png", "data": PNG}, PICTURE),
    "langchain": ({"type": "image", "base64": PNG, "mime_type": "image/png"}, PICTURE),
    "langchain, no media type": ({"type": "image", "base64": PNG}, PICTURE),
    "langchain, an url": ({"type": "image", "url": URL}, PICTURE),
    "langchain, a file": ({"type": "file", "base64": PDF, "mime_type": "application/pdf"}, PAGES),
    "langchain 0": ({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PNG}, PICTURE),
    "langchain, a video": ({"type": "video", "base64": PDF, "mime_type": "video/mp4"}, PAGES),
    "pydantic-ai": ({"kind": "binary", "media_type": "image/png", "data": PNG, "identifier": "a1"}, PICTURE),
    "mcp": ({"type": "image", "data": PNG, "mimeType": "image/png"}, PICTURE),
    "mcp, a resource": (
        {"type": "resource", "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": PNG}},
        PICTURE,
    ),
    "a generated picture": ({"type": "image_generation_call", "id": "ig_1", "result": PNG}, PICTURE),
}
ADDRESSES = {
    "anthropic": {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    "langchain": {"type": "image", "url": "https://example.org/a.png", "mime_type": "image/png"},
    "langchain 0": {"type": "image", "source_type": "url", "url": "https://example.org/a.png"},
    "pydantic-ai": {"kind": "image-url", "url": "https://example.org/a.png"},
    "responses": {"type": "input_image", "image_url": "https://example.org/a.png"},
    "gemini": {"file_data": {"mime_type": "image/png", "file_uri": "https://example.org/a.png"}},
}
TEXTS = {
    "langchain": {"type": "text-plain", "text": "The tide is at nine.", "mime_type": "text/plain"},
    "langchain 0": {"type": "file", "source_type": "text", "mime_type": "text/plain", "text": "The tide is at nine."},
    "anthropic": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "The tide is at nine."},
    },
    "mcp": {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "The tide is at nine."}},
}


@pytest.fixture
def session():
    return chat.start_session()


def as_question(session, block):
    return chat.append_messages(session, None, [{"type": "human", "data": {"content": ["See:", block], "id": "h"}}])[0]


def as_result(session, block, where="list"):
    call = {"id": "c1", "function": {"name": "shot", "arguments": "{}"}}
    asked = [{"role": "user", "content": "See"}, {"role": "assistant", "tool_calls": [call]}]
    tip = chat.append_messages(session, None, asked)[-1]
    if where == "responses":
        item = {"type": "function_call_output", "call_id": "c1", "output": [block]}
        return chat.append_messages(session, tip, [item])[0]
    content = {"list": [block], "alone": block, "inside": {"shot": block, "ok": True}}[where]
    part = {"part_kind": "tool-return", "tool_name": "shot", "tool_call_id": "c1", "content": content}
    return chat.append_messages(session, tip, [{"kind": "request", "parts": [part]}])[0]


@pytest.mark.parametrize("name", some(FORMS, "chat completions", "responses, a file", "anthropic", "mcp, a resource"))
@pytest.mark.parametrize("place", ["question", "list", "alone", "inside", "responses"])
def test_what_a_block_with_bytes_costs(session, name, place):
    block, tokens = FORMS[name]
    message = as_question(session, block) if place == "question" else as_result(session, block, place)
    assert tokens <= message.token_count <= tokens + 120
    assert len(message.content) < 100
    [attachment] = message.attachments
    assert attachment["url"].partition(",")[2] in (PNG, PDF)
    assert json.dumps(block) in json.dumps(message.original)
    # Another endpoint gets the picture of a person, and a line for that of a tool.
    sent = chat.get_context(message).to_openai()[-1]
    assert (tokens == PICTURE and place == "question") == (PNG in json.dumps(sent))


@pytest.mark.parametrize("place", ["question", "list"])
@pytest.mark.parametrize("name", ADDRESSES)
def test_what_an_address_costs(session, name, place):
    block = ADDRESSES[name]
    message = as_question(session, block) if place == "question" else as_result(session, block)
    assert 1_000 <= message.token_count <= 1_120
    assert message.attachments[0]["url"] == "https://example.org/a.png"


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_of_text_is_read(session, name):
    assert "The tide is at nine." in as_question(session, TEXTS[name]).content
    assert "The tide is at nine." in as_result(session, TEXTS[name]).content


def test_signatures_are_no_pictures(session):
    block = {"type": "thinking", "thinking": "Hm.", "signature": PNG[:4_000]}
    message = chat.append_messages(session, None, [{"type": "ai", "data": {"content": [block]}}])[0]
    assert message.attachments is None
    assert message.token_count > 400


def test_pictures_too_large_to_be_kept_twice_are_kept(session):
    block = {"type": "image", "base64": PNG * 10, "mime_type": "image/png"}
    message = as_question(session, block)
    assert message.original["data"]["data"]["content"][1] == block
    assert message.attachments == [{"type": "image", "name": "image 1", "mime_type": "image/png", "tokens": PICTURE}]
