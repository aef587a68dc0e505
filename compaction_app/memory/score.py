"""Which facts a text tells: the names, identifiers and values of statements, and the rules of people."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from compaction_app.memory.quoting import SEPARATOR, as_seen
from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import Statement
from compaction_app.memory.word_tables import NEGATION
from compaction_app.memory.words import content_stems

#: A sentence that has so many of a statement's words, and denies where it does, tells it in other words.
_PARAPHRASED = 0.75
#: Statements of less weight are rows of data: no fact that anybody would miss.
_LEAST_WEIGHT = 0.1


class Told:
    """What texts tell, a sentence at a time."""

    def __init__(self, texts: Iterable[str], before: Told | None = None) -> None:
        """``before``: what stands behind these texts, and was read before."""
        sentences = (sentence for text in texts for sentence, _ in split_sentences(text))
        self.parts = [as_seen(part) for sentence in sentences for part in sentence.split(SEPARATOR)]
        self.sentences = [content_stems(part) for part in self.parts]
        if before:
            self.parts, self.sentences = self.parts + before.parts, self.sentences + before.sentences
        #: How many sentences have each stem.
        self.stems = Counter(word for words in self.sentences for word in words)
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self.sentences):
            for word in words:
                self._places[word].append(place)

    def holds(self, statement: Statement) -> bool:
        """Whether a sentence tells the statement, if in other words; where something was joined, half of it as well,
        there or in the sentences beside it."""
        words, values, joined = statement.words.content, statement.words.values, statement.joined
        needed = math.ceil(_PARAPHRASED * len(words))
        denies, width = NEGATION.search(statement.text, statement.words.cues) is not None, 1 if joined else 0
        # A sentence with so many of them has one of the rarest.
        rarest = sorted(words, key=lambda word: (self.stems[word], word))[: len(words) - needed + 1]
        for place in sorted({place for word in rarest for place in self._places.get(word, ())}):
            near = slice(max(0, place - width), place + width + 1)
            found = words & frozenset().union(*self.sentences[near])
            tells = len(found) >= needed and values <= found and 2 * len(found & joined) >= len(joined)
            if tells and any(map(NEGATION.search, self.parts[near])) == denies:
                return True
        return not words


def share_kept(statements: Sequence[Statement], told: Told) -> float:
    """The share of the facts of ``statements`` that are told, 0–1: 1 where there are none."""
    read = [one for one in statements if one.weight >= _LEAST_WEIGHT]
    facts = {word for one in read for word in one.words.marked | one.words.values}
    rules = [one for one in read if one.is_rule]
    kept = sum(fact in told.stems for fact in facts) + sum(map(told.holds, rules))
    return kept / (len(facts) + len(rules)) if facts or rules else 1.0
