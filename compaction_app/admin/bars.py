"""Bars as SVG: where each part begins and how wide it is, in attributes, so that no page needs inline styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compaction_app.admin.display import number
from compaction_app.values import ChatContext, Origin

#: Units across; the height is the template's.
WIDTH = 1000
#: … of a mark: one at the end stands inside.
MARK = 3


@dataclass(frozen=True, slots=True)
class Part:
    #: Names its colour.
    origin: str
    words: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Mark:
    words: str
    at: int


@dataclass(frozen=True, slots=True)
class Bar:
    parts: tuple[Part, ...]
    marks: tuple[Mark, ...] = ()

    @property
    def told(self) -> str:
        """The picture in words, for those who do not see it."""
        return "; ".join([part.words for part in self.parts] + [mark.words for mark in self.marks])


def bar(parts: Sequence[tuple[str, str, int]], marks: Sequence[tuple[str, int]] = (), scale: int = 0) -> Bar:
    """``parts``: (origin, words, tokens) from left to right; ``scale``: tokens that fill the bar."""
    scale = max(scale, sum(tokens for *_, tokens in parts), *(tokens for _, tokens in marks), 1)
    drawn, before = [], 0
    for origin, words, tokens in parts:
        start, end = before * WIDTH // scale, (before + tokens) * WIDTH // scale
        before += tokens
        if tokens > 0:
            # What is there at all is seen.
            drawn.append(Part(origin, f"{words} {number(tokens)}", start, max(end - start, 2)))
    return Bar(
        tuple(drawn),
        tuple(Mark(f"{words} {number(tokens)}", min(tokens * WIDTH // scale, WIDTH - MARK)) for words, tokens in marks),
    )


def history_bar(context: ChatContext, whole_history: int, *, is_off: bool = False) -> Bar:
    """The history of a context against what is available for it, threshold and target where there are any."""
    words = {"summary": "Summary", "pinned": "Pinned", "pruned": "Pruned results", "verbatim": "Verbatim"}
    sums = {
        origin: sum(message.tokens for message in context.messages if message.origin == Origin(origin))
        for origin in words
    }
    parts = [(origin, words[origin], tokens) for origin, tokens in sums.items()]
    parts.append(("dropped", "Not sent", max(whole_history - sum(sums.values()), 0)))
    available = context.available_tokens
    limits = [] if is_off else [("target", context.target), ("threshold", context.threshold)]
    return bar(parts, [*limits, ("available", available)], available)


def before_and_after(before: int, after: int, first: str = "Before", then: str = "after") -> tuple[Bar, Bar]:
    """Two bars of one scale."""
    scale = max(before, after)
    return bar([("verbatim", first, before)], scale=scale), bar([("summary", then, after)], scale=scale)
