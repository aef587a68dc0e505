"""Where a text may be cut: never inside what a reader sees as one character. Pure.

A small part of Unicode's rules for grapheme clusters (UAX 29), the part that is met in chats: marks and variation
selectors belong to what stands before them, a zero-width joiner to both sides, a skin tone and a tag to their emoji,
and two regional indicators are one flag.
"""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_MARKS = ("Mn", "Mc", "Me")
#: A cluster longer than this is cut all the same: a text of nothing but marks would else be lost whole.
_LONGEST = 64


def cut_before(text: str, place: int) -> int:
    """The last place at or before ``place`` that lies between two clusters."""
    for nearer in range(place, max(place - _LONGEST, -1), -1):
        if not _is_inside(text, nearer):
            return nearer
    return place


def cut_after(text: str, place: int) -> int:
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
