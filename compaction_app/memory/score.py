"""Which facts a text tells: the names, identifiers and values of statements, and the rules of people."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from compaction_app.memory.sentences import SEPARATOR, split_sentences
from compaction_app.memory.statements import Statement
from compaction_app.memory.word_tables import NEGATION
from compaction_app.memory.words import read_words, stem

#: A sentence that has so many of a statement's words, and denies where it does, tells it in other words.
_PARAPHRASED = 0.75
#: Statements of less weight are rows of data: no fact that anybody would miss.
_LEAST_WEIGHT = 0.1


class Told:
    """What texts tell, a sentence at a time."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._sentences: list[frozenset[str]] = []
        self._denies: list[bool] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        #: In how many sentences each stem is told.
        self.stems: Counter[str] = Counter()
        sentences = (sentence for text in texts for sentence, _ in split_sentences(text))
        for part in (part for sentence in sentences for part in sentence.split(SEPARATOR)):
            words = frozenset(map(stem, read_words(part).content))
            for word in words:
                self._places[word].append(len(self._sentences))
            self.stems.update(words)
            self._sentences.append(words)
            self._denies.append(NEGATION.search(part) is not None)

    def holds(self, statement: Statement) -> bool:
        """Whether one sentence tells the statement, if in other words; if something was joined, two and half of it."""
        words = {stem(word) for word in statement.words.content}
        if not words:
            return True
        needed = math.ceil(_PARAPHRASED * len(words))
        values = {stem(word) for word in statement.words.values}
        # A sentence with so many of them has one of the rarest.
        rarest = sorted(words, key=lambda word: (len(self._places.get(word, ())), word))[: len(words) - needed + 1]
        denies = NEGATION.search(statement.text) is not None
        joined = set(map(stem, statement.joined))

        def tells(places: set[int]) -> bool:
            told = [place for place in places if 0 <= place < len(self._sentences)]
            if any(self._denies[place] for place in told) != denies:
                return False
            found = words & frozenset().union(*(self._sentences[place] for place in told))
            return len(found) >= needed and values <= found and 2 * len(found & joined) >= len(joined)

        steps = (-1, 1) if joined else (0,)
        places = sorted({place for word in rarest for place in self._places.get(word, ())})
        return any(tells({place, place + step}) for place in places for step in steps)


def share_kept(statements: Sequence[Statement], told: Told) -> float:
    """The share of the facts of ``statements`` that are told, 0–1: 1 where there are none."""
    kept, facts = facts_kept(statements, told)
    return kept / facts if facts else 1.0


def facts_kept(statements: Sequence[Statement], told: Told) -> tuple[int, int]:
    """How many facts of ``statements`` are told, and how many there are."""
    read = [one for one in statements if one.weight >= _LEAST_WEIGHT]
    facts = {stem(word) for one in read for word in one.words.marked | one.words.values}
    rules = [one for one in read if one.is_rule]
    return sum(fact in told.stems for fact in facts) + sum(map(told.holds, rules)), len(facts) + len(rules)
