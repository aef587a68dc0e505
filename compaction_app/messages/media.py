"""What pictures, sounds and files cost in tokens, as far as their first bytes tell. Pure.

A message is counted once, whatever model comes later, so each kind has one price: OpenAI's, of the models with the
o200k tokenizer, where OpenAI publishes one. For any other model it is an estimate, which the calibration does not
learn from. Where a host knows better, ``tokens`` of the attachment says so.
"""

import base64
import math
import re
from collections.abc import Mapping
from typing import Any

LOW_DETAIL_TOKENS = 85
#: For an attachment that a model is sent, of which nothing is known but an address: a middling picture.
TOKENS_PER_ATTACHMENT = 1_000

_MEDIA_TYPE = re.compile(r"data:([\w.+-]+/[\w.+-]+)[;,]", re.IGNORECASE)
#: Of a ``data:`` URL no more is read. A JPEG has its size behind a preview and a colour profile.
_MOST_CHARACTERS = 400_000
_MOST_SEGMENTS = 500

#: OpenAI, "Managing costs" of the Realtime API: one token for each 100 ms of a user's audio. An estimate: 128 kbit/s.
_TOKENS_PER_SECOND, _BYTES_PER_SECOND = 10, 16_000
#: Estimates: what Anthropic says of the text of a page (1,500 to 3,000 tokens), and how many bytes a page has.
_TOKENS_PER_PAGE, _BYTES_PER_PAGE, _MOST_PAGES = 2_000, 75_000, 20
_BYTES_PER_TOKEN = 4


def media_type(url: str) -> str:
    """Of a ``data:`` URL, in lower case; "" for an address."""
    found = _MEDIA_TYPE.match(url)
    return found[1].lower() if found else ""


def media_tokens(kind: str, attachment: Mapping[str, Any]) -> int:
    """Tokens of an attachment that a model is sent as ``image``, ``audio`` or ``file``; 0 where nothing tells them."""
    url = str(attachment.get("url") or "")
    if kind == "image":
        if attachment.get("detail") == "low":
            return LOW_DETAIL_TOKENS
        pixels = picture_size(url)
        return picture_tokens(*pixels) if pixels else 0
    # About what the ``data:`` URL contains.
    size = (len(url) - url.find(",", 0, 200)) * 3 // 4 if _encoded(url) else 0
    if kind == "audio":
        return math.ceil(size / _BYTES_PER_SECOND * _TOKENS_PER_SECOND)
    if media_type(url).startswith("text/"):
        return math.ceil(size / _BYTES_PER_TOKEN)
    return min(math.ceil(size / _BYTES_PER_PAGE), _MOST_PAGES) * _TOKENS_PER_PAGE


def picture_tokens(width: int, height: int) -> int:
    """OpenAI's price of a picture in high detail: 85 tokens, and 170 for each tile of 512 × 512 pixels.

    Before that it is made smaller: to fit into 2048 × 2048, and until its shortest side has 768 pixels. 1024 × 1024
    costs 765, 2048 × 4096 costs 1,105, and nothing more than 1,445. Source: OpenAI, "Images and vision", *Calculating
    costs*, for gpt-4o, gpt-4.1, o1 and o3. An estimate for all others: gpt-5 asks 70 and 140, its small models and
    Anthropic's count patches (openai/openai-python#2851), of which 1024 × 1024 has 1,024 and 1,369.
    """
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    columns, rows = (max(1, math.ceil(round(side * scale) / 512)) for side in (width, height))
    return LOW_DETAIL_TOKENS + 170 * columns * rows


def picture_size(url: str) -> tuple[int, int] | None:
    """Width and height of the PNG, JPEG, GIF or WebP in a ``data:`` URL; None where they are not to be found."""
    encoded = _encoded(url)
    head = _read(encoded, 0, 64)
    if head.startswith(b"\x89PNG") and (at := head.find(b"IHDR")) > 0:
        size = _big(head[at + 4 : at + 8]), _big(head[at + 8 : at + 12])
    elif head.startswith(b"GIF8"):
        size = _little(head[6:8]), _little(head[8:10])
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg_size(encoded)
    else:
        return None
    return size if all(size) else None


def _webp_size(head: bytes) -> tuple[int, int]:
    if head[12:16] == b"VP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if head[12:16] == b"VP8L":
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF


def _jpeg_size(encoded: str) -> tuple[int, int]:
    """From the frame header, which stands behind segments of any length: each says where the next one begins."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        head = _read(encoded, at, 9)
        if len(head) < 9 or head[0] != 0xFF:
            break
        marker = head[1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(head[7:9]), _big(head[5:7])
        # A marker may be filled up with 0xFF, and a few have no length.
        at += 1 if marker == 0xFF else 2 if marker == 0x01 or 0xD0 <= marker <= 0xD8 else 2 + _big(head[2:4])
    return 0, 0


def _encoded(url: str) -> str:
    """The beginning of the base64 of a ``data:`` URL; "" for an address."""
    begin = url.find(",", 0, 200) + 1
    if ";base64" not in url[:begin].lower():
        return ""
    encoded = url[begin : begin + _MOST_CHARACTERS]
    return "".join(encoded.split()) if any(map(str.isspace, encoded[:100])) else encoded


def _read(encoded: str, start: int, length: int) -> bytes:
    """These bytes, decoded without those before them; fewer or none where it ends, or is no base64."""
    first, past = start // 3 * 4, (start + length + 2) // 3 * 4
    part = encoded[first:past].replace("-", "+").replace("_", "/").rstrip("=")
    try:
        decoded = base64.b64decode(part + "=" * (-len(part) % 4), validate=True)
    except ValueError:
        return b""
    return decoded[start % 3 :][:length]


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
