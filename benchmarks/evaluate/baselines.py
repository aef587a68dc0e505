"""What the app is compared with: each takes messages and a number of tokens, and returns lines.

They are given a line for each line of a message, with its speaker, and one for each day as the app's extract has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

from benchmarks.evaluate.conversations import Fact, Turn, content_words
from benchmarks.evaluate.product import counter, cut, size_of

Baseline = Callable[[Sequence[Turn], int], list[str]]
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


def lines_of(turns: Sequence[Turn]) -> list[str]:
    told, day = [], None
    for turn in turns:
        if turn.moment and turn.moment.date() != day:
            day = turn.moment.date()
            told.append(f"## {day}")
        text = turn.text or "\n".join(f"[{name} {arguments}]" for name, arguments in turn.calls)
        told += [f"{turn.name or turn.role}: {line}" for line in text.splitlines() if line.strip()]
    return told


def tail(turns: Sequence[Turn], room: int) -> list[str]:
    return cut(lines_of(turns)[::-1], room)[::-1]


def library(turns: Sequence[Turn], room: int) -> list[str]:
    """SumBasic of ``sumy``, which keeps more of a conversation than its LexRank, TextRank, LSA and Luhn do."""
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.summarizers.sum_basic import SumBasicSummarizer

    class Words:
        def to_words(self, sentence: str) -> list[str]:
            return re.findall(r"\w+", sentence)

    sentences = list(dict.fromkeys(one for line in lines_of(turns) for one in _SENTENCE_END.split(line) if one))
    document: Any = ObjectDocumentModel([Paragraph([Sentence(one, Words()) for one in sentences])])
    number = min(len(sentences), room // 8)
    for _ in range(3):
        found = [str(one) for one in SumBasicSummarizer()(document, number)]
        size = size_of("\n".join(found))
        if 0.95 * room <= size <= room or (size <= room and number == len(sentences)):
            break
        number = min(len(sentences), max(1, int(number * 0.97 * room / size)))
    return cut(found, room)


def distinct_words(turns: Sequence[Turn], room: int) -> list[str]:
    """No statement at all, the most words: what it scores is worth nothing."""
    counted = Counter(word for line in lines_of(turns) for word in content_words(line))
    told = sorted(counted, key=lambda word: (counted[word], word))
    while (size := size_of(" ".join(told))) > room:
        told = told[: int(len(told) * room / size)]
    return [" ".join(told)]


def cheapest(turns: Sequence[Turn], facts: Sequence[Fact], room: int) -> list[str]:
    """The sentences of as many facts as fit."""
    told = set()
    for fact in facts:
        sentences = re.split(rf"{_SENTENCE_END.pattern}|\n", turns[fact.place].text)
        told.add(next((sentence for sentence in sentences if fact.text in sentence), fact.text))
    lines = sorted(told, key=lambda line: (size_of(line), line))
    ends = list(accumulate(size + 1 for size in counter()(lines)))
    return [line for line, end in zip(lines, ends, strict=True) if end <= room]


#: No system: it knows which facts are asked for, and tells what costs least of them. So it is what the best could do.
CEILING = "ceiling"
WORDS = "null: distinct words"
BASELINES: dict[str, Baseline] = {"tail": tail, "sumy": library, WORDS: distinct_words}
#: The others tell no claim, so they mislead nobody.
WITH_STATEMENTS = ("tail", "sumy")


def available() -> list[str]:
    return [name for name in BASELINES if name != "sumy" or find_spec("sumy")]
