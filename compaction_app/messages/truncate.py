"""Shortens a text to a number of bytes (head, notice, tail), or to one line. Pure.

Tool results in a context and messages in a summarizer's request are shortened by :func:`shorten`. It cuts between
characters, and never inside what a reader sees as one character (a grapheme cluster). Of Unicode's rules for these
(UAX 29) it knows the part that chats use: marks, variation selectors, skin tones and tags belong to the character
before them, a zero-width joiner to both sides, and two regional indicators are one flag.
"""

from __future__ import annotations

import unicodedata

_ROUND = str.maketrans("[]", "()")
_JOINER = "\u200d"
_MARKS = ("Mn", "Mc", "Me")
#: A longer cluster is cut anyway, or a text of nothing but marks would be lost as a whole.
_LONGEST = 64


def shorten(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` bytes of UTF-8: head, ``...truncated N bytes...``, tail.

    Text that fits is returned as it is, so shortening is idempotent. Where the limit is too small for the notice, a
    head and three dots are left.
    """
    # A character has at most four bytes, so most texts need not be encoded.
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


def one_line(text: str, limit: int) -> str:
    """White space collapsed; over ``limit`` characters the middle is left out, because a path's ends matter most."""
    line = " ".join(text[: limit * 20].split())
    if len(line) <= limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 1]}…{line[-tail:]}"


def in_brackets(name: str, limit: int = 300) -> str:
    """A name from outside, for a place between square brackets: on one line, and without any of its own."""
    return one_line(name, limit).translate(_ROUND)


def _notice(left_out: int) -> str:
    return f"\n...truncated {left_out} bytes...\n"


def _inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _boundary(encoded: bytes, end: int) -> int:
    """The largest position up to ``end`` that is not inside a character's bytes."""
    while 0 < end < len(encoded) and _inside_character(encoded[end]):
        end -= 1
    return end


def _head(text: str, encoded: bytes, limit: int) -> str:
    """The beginning, in at most ``limit`` bytes, without a cut cluster at its end."""
    return text[: grapheme_break_before(text, len(_decode(encoded[: _boundary(encoded, max(limit, 0))])))]


def _decode(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")


def grapheme_break_before(text: str, place: int) -> int:
    """The last place between two clusters, at or before ``place``."""
    for nearer in range(place, max(place - _LONGEST, -1), -1):
        if not _is_inside(text, nearer):
            return nearer
    return place


def grapheme_break_after(text: str, place: int) -> int:
    """The first place between two clusters, at or after ``place``."""
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
    """Whether it belongs to the character before it."""
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
