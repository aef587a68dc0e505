"""What should not stand in a summary: its wrapper's tags, its marker, and the text of another branch.

The first two are read off the summary alone. Text of another branch is looked for in all messages of the session that
are not above the summary's anchor: runs of words, and telling tokens such as numbers and identifiers, that the
summary has and its prompt has not. One pass over a session serves all of its summaries.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compaction_app.messages.summary import leaks_wrapper
from compaction_app.retention import facts

#: Words in a row that two texts do not share by chance.
RUN_OF_WORDS = 8
#: A token with a digit in it tells alone if it is as long as this: "7391-alpha", not "2024".
TELLING_CHARACTERS = 6

_WORD = re.compile(r"\w+")
_TELLING = re.compile(r"\w(?:[\w./:@-]*\w)?")
_PREVIOUS = re.compile(r"</?\s*previous-(?:summary|chat-history)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaks:
    """What was found in a summary."""

    #: Tags of the wrapper, the marker or the nonce, in whatever shape: the draft would be refused.
    wrapper_tags: bool
    #: The cutoff marker's nonce.
    marker: bool
    #: The tag of the previous summary.
    previous_summary_tag: bool
    #: Messages of other branches whose text it holds, by id; None where there was nothing to compare with.
    other_branch: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return self.wrapper_tags or self.marker or self.previous_summary_tag or bool(self.other_branch)


def find_leaks(text: str, nonce: str, other_branch: Sequence[int] | None = None) -> Leaks:
    return Leaks(
        wrapper_tags=leaks_wrapper(text, nonce),
        marker=bool(nonce) and nonce in text,
        previous_summary_tag=_PREVIOUS.search(text) is not None,
        other_branch=None if other_branch is None else tuple(other_branch),
    )


def strangers(text: str, shown: Iterable[str]) -> set[str]:
    """What in ``text`` comes from none of the texts ``shown``: runs of words and telling tokens."""
    found = set(_pieces(text))
    for source in shown:
        if not found:
            break
        # As it was sent, and as it was meant: a prompt is escaped, a summary is not.
        found.difference_update(_pieces(source), _pieces(html.unescape(source)))
    return found


def find_holders(
    wanted: Mapping[int, set[str]],
    messages: Iterable[tuple[int, str]],
    may_know: Callable[[int, int], bool],
) -> dict[int, list[int]]:
    """For each summary the messages that hold one of its strangers, and that it may not know.

    ``wanted``: :func:`strangers` of each summary. ``messages``: id and text of each message of the session.
    ``may_know(summary, message)`` is asked only where something was found.
    """
    looking: dict[str, list[int]] = {}
    for summary, pieces in wanted.items():
        for piece in sorted(pieces):
            looking.setdefault(piece, []).append(summary)
    found: dict[int, list[int]] = {summary: [] for summary in wanted}
    for message, text in messages if looking else ():
        met = {summary: None for piece in _pieces(text) for summary in looking.get(piece, ())}
        for summary in met:
            if not may_know(summary, message):
                found[summary].append(message)
    return found


def _pieces(text: str) -> Iterator[str]:
    lowered = text.lower()
    words = _WORD.findall(lowered)
    for start in range(len(words) - RUN_OF_WORDS + 1):
        yield " ".join(words[start : start + RUN_OF_WORDS])
    for match in _TELLING.finditer(lowered):
        token = match[0]
        if len(token) >= TELLING_CHARACTERS and facts.has_digit(token):
            yield token
