"""Scores of a shown text: what of a conversation's facts is there, whether it misleads.

A fact is kept if one statement of at most 60 tokens has all words of its answer and most of what it is about. A
statement is a part of a line between " · ", of a longer one some of its sentences, or a question with what follows it:
so words that only happen to be somewhere in the text count for the margin alone, which words of another conversation's
answers are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.evaluate.conversations import Claim, Fact, content_words

Count = Callable[[Sequence[str]], list[int]]

#: Of a statement, in tokens.
LONGEST = 60
#: How much of what a fact is about must stand beside its answer.
_EVIDENCE = 0.6
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")
_SEPARATOR = re.compile(r"\n| · ")


class Shown:
    """A text as the scores read it."""

    def __init__(self, text: str, count: Count) -> None:
        self.text = text
        self.words = content_words(text)
        self._statements = list(_statements(text, count))
        self._places: dict[str, set[int]] = {}
        for place, statement in enumerate(self._statements):
            for word in statement:
                self._places.setdefault(word, set()).add(place)

    def keeps(self, fact: Fact) -> bool:
        if any(word not in self._places for word in fact.answer):
            return False
        least = _EVIDENCE * len(fact.evidence)
        together = set.intersection(*(self._places[word] for word in fact.answer))
        return any(len(fact.evidence & self._statements[place]) >= least for place in together)

    def share(self, answer: frozenset[str]) -> float:
        return len(answer & self.words) / len(answer)

    def misleads(self, claim: Claim) -> bool | None:
        """None where the claim is not told."""
        if not re.search(claim.claim, self.text):
            return None
        return not re.search(claim.kept_true_by, self.text)


def _statements(text: str, count: Count) -> Iterator[frozenset[str]]:
    parts = [part.strip() for part in _SEPARATOR.split(text) if part.strip()]
    sentences = [_SENTENCE_END.split(part) for part in parts]
    sizes = count(parts) if parts else []
    short = [[part] if size <= LONGEST else told for part, size, told in zip(parts, sizes, sentences, strict=True)]
    candidates = [one for told in short for one in told]
    for i, told in enumerate(sentences[:-1]):
        if parts[i].endswith("?"):
            # A question that takes two sentences: "There are two ways. Which one?"
            candidates += [" ".join([*told[-back:], *sentences[i + 1][:1]]) for back in (1, 2)]
    for one, size in zip(candidates, count(candidates) if candidates else [], strict=True):
        if size <= LONGEST:
            yield content_words(one)


@dataclass(frozen=True)
class Told:
    """What became of one fact in one shown text."""

    kind: str
    #: Share of the answer's words that are there, and of another conversation's answer.
    share: float
    control: float
    kept: bool


def tell(shown: Shown, facts: Sequence[Fact], others: Sequence[Fact]) -> list[Told]:
    """``others``: another conversation's facts, of whose answers this text should have nothing."""
    same = {kind: [fact for fact in others if fact.kind == kind] or others for kind in {fact.kind for fact in facts}}
    return [
        Told(
            fact.kind,
            shown.share(fact.answer),
            shown.share(same[fact.kind][number % len(same[fact.kind])].answer),
            shown.keeps(fact),
        )
        for number, fact in enumerate(facts)
    ]


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def margin(told: Iterable[Told]) -> float:
    return mean(one.share - one.control for one in told)


def kept(told: Iterable[Told]) -> float:
    return mean(one.kept for one in told)
