"""What pictures, sounds and files cost, by their first bytes."""

from __future__ import annotations

import base64
import struct

import pytest

from compaction_app.messages import media
from compaction_app.messages.media import media_tokens, picture_size, picture_tokens

pytestmark = pytest.mark.pure


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
