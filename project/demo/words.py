"""Texts of a conversation on a terminal: one line, nothing that steers the terminal, whatever script they are in."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

# What follows a right-to-left text on its line would be drawn as a part of it without these two around it.
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
#: Joins letters and pictures; without it a family falls into its members.
_JOINER = "\u200d"
#: A terminal's line holds no more; what is behind it need not be looked at.
_LOOKED_AT = 2_000


def one_line(text: str, width: int) -> str:
    """The first words, in at most ``width`` columns."""
    words = " ".join("".join(map(_harmless, text[:_LOOKED_AT])).split())
    if cell_len(words) > width or len(text) > _LOOKED_AT:
        words = set_cell_size(words, min(width - 1, cell_len(words))).rstrip() + "…"
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in words):
        return f"{_ISOLATE}{words}{_END_OF_ISOLATE}"
    return words


def _harmless(character: str) -> str:
    """Control characters could clear the screen or set a colour; invisible ones could turn the line around."""
    if character == _JOINER or unicodedata.category(character)[0] != "C":
        return character
    return " " if character.isspace() else ""


def number(count: int, word: str, words: str = "") -> str:
    """``1 branch``, ``2 branches``."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"
