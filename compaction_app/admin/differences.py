"""The difference between two texts, readable and in bounded time. Pure.

Sentences are compared first, then the words of those that changed. ``difflib`` takes more than quadratic time on texts
that share little, so its input is bounded. Beyond a bound the pieces are larger, but still true: what is the same and
what was removed make up the old text, what is the same and what was added the new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import groupby, pairwise, takewhile
from typing import NamedTuple

#: Characters of each text that are compared; a summary is rarely half as long.
MOST_CHARACTERS = 60_000
#: Sentences of each text that are compared one by one.
MOST_SENTENCES = 600
#: Words of each side of a changed passage that are compared one by one.
MOST_WORDS = 600
#: The product of both sides' words, summed over a whole text.
MOST_WORK = 1_500_000
#: Share of a changed passage that must be the same for it to be compared word by word.
_ALIKE = 0.3
#: A longer passage that is the same is shortened in the middle.
_LONGEST_SAME = 700
_SHOWN_SAME = 250

# Ends after a line with its blank lines, after a sentence, or between the entries of a ledger.
_SENTENCE = re.compile(r"[^\n]*?(?:\n\s*|[.!?…](?=[ \t])[ \t]+|[。！？]| · )|[^\n]+\Z")
# Chinese, Japanese and Korean put no space between words: each character counts as one.
_SIGNS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = rf"(?:(?![{_SIGNS}])\w)"
# What contains a digit is one word: 2,000 became 2,400, v1.2 became v1.3, and 2026-11-09 became 2026-11-19.
_FIGURE = rf"{_LETTER}*\d(?:{_LETTER}|[./:-](?={_LETTER})|,(?=\d))*"
_WORD = re.compile(rf"(?:{_FIGURE}|[{_SIGNS}]|{_LETTER}+|[^\w\s])\s*")


class Change(StrEnum):
    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    #: Characters that are the same and not shown: a count, no text.
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Piece:
    change: Change
    text: str
    #: Characters that are not shown.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    #: In the order of the new text.
    pieces: tuple[Piece, ...]
    #: Characters at the texts' ends that were not compared.
    uncompared: int = 0

    @property
    def is_empty(self) -> bool:
        return all(piece.change is Change.SAME for piece in self.pieces)

    @property
    def added(self) -> int:
        return sum(len(piece.text) for piece in self.pieces if piece.change is Change.ADDED)

    @property
    def removed(self) -> int:
        return sum(len(piece.text) for piece in self.pieces if piece.change is Change.REMOVED)

    def shortened(self) -> tuple[Piece, ...]:
        """With long unchanged passages shortened in the middle."""
        return tuple(part for piece in self.pieces for part in _shortened(piece))


def difference(before: str, after: str) -> Difference:
    old, new = before[:MOST_CHARACTERS], after[:MOST_CHARACTERS]
    uncompared = len(before) - len(old) + len(after) - len(new)
    pieces: list[Piece] = []
    # In a changed passage first everything removed, then everything added.
    for is_same, group in groupby(_compared(old, new), lambda block: block.is_same):
        blocks = list(group)
        removed, added = "".join(block.old for block in blocks), "".join(block.new for block in blocks)
        changes = ((Change.SAME, added),) if is_same else ((Change.REMOVED, removed), (Change.ADDED, added))
        pieces += [Piece(change, text) for change, text in changes if text]
    return Difference(tuple(pieces), uncompared)


class _Block(NamedTuple):
    """A stretch of two texts, which is the same in both or not."""

    is_same: bool
    old: str
    new: str


def _compared(old: str, new: str) -> Iterator[_Block]:
    """By sentences, and those that changed by words, while they are short and there is work left."""
    work = MOST_WORK
    for block in _blocks(_sentences(old), _sentences(new)):
        if block.is_same or not block.old or not block.new:
            yield block
            continue
        before, after = _split(_WORD, block.old), _split(_WORD, block.new)
        head = _common(before, after)
        tail = _common(before[head:][::-1], after[head:][::-1])
        first, last = "".join(before[:head]), "".join(before[len(before) - tail :])
        left, right = before[head : len(before) - tail], after[head : len(after) - tail]
        middle = [_Block(False, "".join(left), "".join(right))]
        if max(len(left), len(right)) <= MOST_WORDS and len(left) * len(right) <= work:
            work -= len(left) * len(right)
            middle = list(_blocks(left, right))
        blocks = [_Block(True, first, first), *middle, _Block(True, last, last)]
        same = sum(len(part.new) for part in blocks if part.is_same)
        # Sides that have little in common are easier to read one after the other.
        is_alike = same >= _ALIKE * min(len(block.old), len(block.new))
        yield from (part for part in blocks if part.old or part.new) if is_alike else [block]


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[_Block]:
    for operation, i, j, k, m in SequenceMatcher(None, before, after).get_opcodes():
        yield _Block(operation == "equal", "".join(before[i:j]), "".join(after[k:m]))


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    """The length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _sentences(text: str) -> list[str]:
    """The text in sentences; in fewer, longer pieces where it has too many."""
    found = _split(_SENTENCE, text)
    size = -(-len(found) // MOST_SENTENCES) or 1
    return ["".join(found[at : at + size]) for at in range(0, len(found), size)]


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Pieces from one match to the next: nothing between them is lost."""
    starts = [0, *(match.start() for match in pattern.finditer(text) if match.start()), len(text)]
    return [text[start:end] for start, end in pairwise(starts) if start < end]


def _shortened(piece: Piece) -> Iterable[Piece]:
    if piece.change is not Change.SAME or len(piece.text) <= _LONGEST_SAME:
        return [piece]
    head, tail = piece.text[:_SHOWN_SAME], piece.text[-_SHOWN_SAME:]
    # Between words, if there are any: half a number would be another number.
    head, tail = head[: head.rfind(" ") + 1] or head, tail[tail.find(" ") :] if " " in tail else tail
    left_out = len(piece.text) - len(head) - len(tail)
    return [Piece(Change.SAME, head), Piece(Change.LEFT_OUT, "", left_out), Piece(Change.SAME, tail)]
