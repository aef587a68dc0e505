"""A long text as head, notice and tail. Pure.

Tool results in a context and messages in a summarizer's request are shortened by the same function. A text is cut
between characters, and never inside what a reader sees as one: a small part of Unicode's rules for grapheme clusters
(UAX 29), the part that is met in chats. Marks and variation selectors belong to what is before them, a zero-width
joiner to both sides, a skin tone and a tag to their emoji, and two regional indicators are one flag.
"""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_MARKS = ("Mn", "Mc", "Me")
#: A cluster longer than this is cut all the same: a text of nothing but marks would else be lost whole.
_LONGEST = 64


def shorten(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` bytes of UTF-8: head, ``...truncated N bytes...``, tail.

    Text that fits is returned as it is, so shortening twice is shortening once. Characters are never cut, nor is
    what is read as one (an emoji of several, a letter and its marks). A limit too small for the notice leaves a head
    and three dots.
    """
    # A character takes at most four bytes; most texts need no encoding to be known to fit.
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    size = len(encoded)
    if size <= limit:
        return text
    room = limit - len(_notice(size))
    if room <= 0:
        dots = "..."[: max(limit, 0)]
        return _head(text, encoded, limit - len(dots)) + dots
    head = _head(text, encoded, room - room // 3)
    start = size - room // 3
    while start < size and _inside_character(encoded[start]):
        start += 1
    tail = text[grapheme_break_after(text, len(text) - len(_decode(encoded[start:]))) :]
    left_out = text[len(head) : len(text) - len(tail)]
    return head + _notice(len(left_out.encode("utf-8", "surrogatepass"))) + tail


def _notice(left_out: int) -> str:
    return f"\n...truncated {left_out} bytes...\n"


def _inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _boundary(encoded: bytes, end: int) -> int:
    """The largest position up to ``end`` that does not lie inside a character."""
    while 0 < end < len(encoded) and _inside_character(encoded[end]):
        end -= 1
    return end


def _head(text: str, encoded: bytes, limit: int) -> str:
    """As much of the beginning as ``limit`` bytes hold whole."""
    return text[: grapheme_break_before(text, len(_decode(encoded[: _boundary(encoded, max(limit, 0))])))]


def _decode(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")


def grapheme_break_before(text: str, place: int) -> int:
    """The last place at or before ``place`` that lies between two clusters."""
    for nearer in range(place, max(place - _LONGEST, -1), -1):
        if not _is_inside(text, nearer):
            return nearer
    return place


def grapheme_break_after(text: str, place: int) -> int:
    """The first place at or after ``place`` that lies between two clusters."""
    for farther in range(place, min(place + _LONGEST, len(text) + 1)):
        if not _is_inside(text, farther):
            return farther
    return place


def _is_inside(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before.isascii() and after.isascii():
        return False
    if before == _JOINER or _extends(after):
        return True
    return _is_flag_letter(before) and _is_flag_letter(after) and _flag_letters_before(text, place) % 2 == 1


def _extends(character: str) -> bool:
    """Whether it belongs to what stands before it."""
    return (
        character == _JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or unicodedata.category(character) in _MARKS
    )


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    count = 0
    while count < place and _is_flag_letter(text[place - 1 - count]):
        count += 1
    return count
