"""Shortens a text to a number of bytes (head, notice, tail), or to one line. Pure.

Tool results in a context and messages in a summarizer's request are shortened by :func:`shorten`. It cuts between
characters, and never before a mark, a variation selector, a skin tone or a tag, nor beside a zero-width joiner: these
are read as one character with what stands before them.
"""

from __future__ import annotations

import unicodedata

_ROUND = str.maketrans("[]", "()")
_JOINER = "\u200d"
#: What is read as one character has fewer, or a text of nothing but marks would be lost as a whole.
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
    # Of a character that was cut the rest is left out.
    start = len(text) - len(encoded[size - room // 3 :].decode(errors="ignore"))
    tail = text[next((i for i in range(start, start + _LONGEST) if not _is_inside(text, i)), start) :]
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


def _head(text: str, encoded: bytes, limit: int) -> str:
    """The beginning, in at most ``limit`` bytes."""
    end = len(encoded[: max(limit, 0)].decode(errors="ignore"))
    return text[: next((i for i in range(end, end - _LONGEST, -1) if not _is_inside(text, i)), end)]


def _is_inside(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before.isascii() and after.isascii():
        return False
    is_skin_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return before == _JOINER or is_skin_tone or unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf")
