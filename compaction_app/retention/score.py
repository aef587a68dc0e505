"""What must survive a summary, and whether it did.

Everything that a summary replaces is read clause by clause. A clause holds facts (:mod:`fact_spans`) and may be
a statement: a rule, prohibition, constraint, decision or preference. What a later statement has replaced need
not survive. The rest does where the summary, the messages from cutoff to anchor or the pinned message hold it;
no other message counts, since every branch that contains the anchor shares the summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from compaction_app.retention.fact_spans import Fact, FactKind, fold, joined
from compaction_app.retention.needs import Clause, Need, common_words, read_needs, words_of
from compaction_app.retention.outdated import let_go
from compaction_app.retention.sayings import SEPARATOR, Saying
from compaction_app.retention.sentences import split_clauses

#: Of a statement's words, how many one passage must hold for the statement to have survived in other words.
_PARAPHRASED = 0.75
_SHORT_FIGURE = re.compile(r"\D?\d{1,2}(?!\d)")
_DAY_MONTH = re.compile(
    r"(?P<day>\d{1,2})\D{0,3} ?(?:of |de )?(?P<month>[^\W\d_]{3,})|(?P<m2>[^\W\d_]{3,})\.? (?P<d2>\d{1,2})"
)
_MONTH_NUMBERS = {
    name: number
    for number, names in enumerate(
        "jan|feb|mar mär|apr|may mai|jun|jul|aug|sep|oct okt|nov|dec des dez".split("|"), start=1
    )
    for name in names.split()
}


class Passages:
    """Texts that facts and statements are looked for in."""

    def __init__(self, texts: Iterable[str]) -> None:
        texts = list(texts)
        self._folded = " \n".join(map(fold, texts))
        self._passages: list[dict[str, None]] = []
        self._holding: dict[str, list[int]] = {}
        for text in texts:
            for clause, _ in split_clauses(text):
                # Two lines of an extract, or of a ledger, are no one passage.
                for part in clause.split(SEPARATOR):
                    self._add(part)

    def _add(self, clause: str) -> None:
        words = dict.fromkeys(words_of(clause))
        for word in words:
            self._holding.setdefault(word, []).append(len(self._passages))
        self._passages.append(words)

    def holds(self, need: Need) -> bool:
        if need.fact is None:
            return self._says(need)
        return any(self._contains(key) for key in _forms(need.fact))

    def _contains(self, key: str) -> bool:
        """Whether ``key`` stands there as words of their own: 40 is not in 1940."""
        at = self._folded.find(key)
        while at >= 0:
            end = at + len(key)
            if not (joined(self._folded, at) or joined(self._folded, end)):
                return True
            at = self._folded.find(key, at + 1)
        return False

    def _says(self, need: Need) -> bool:
        if self._contains(need.key):
            return True
        words = need.words
        rarest = min(words, key=lambda word: (len(self._holding.get(word, ())), word))
        return any(
            all(word in self._passages[at] for word in need.telling)
            and sum(word in self._passages[at] for word in words) >= _PARAPHRASED * len(words)
            for at in self._holding.get(rarest, ())
        )


def _forms(fact: Fact) -> list[str]:
    """The ways to write a fact that count as it."""
    if fact.kind is FactKind.NUMBER and not _SHORT_FIGURE.match(fact.key):
        figure = re.match(r"\W*[\d.,×x ]*\d[\d.,]*", fact.key)
        return [fact.key, figure.group().strip()] if figure and len(figure.group().strip()) > 2 else [fact.key]
    if fact.kind is FactKind.DATE and (match := _DAY_MONTH.search(fact.key)):
        day, name = match["day"] or match["d2"], match["month"] or match["m2"]
        month = _MONTH_NUMBERS.get(name[:3], 0)
        if month:
            year = re.search(r"\d{4}", fact.key)
            iso = [f"{year.group()}-{month:02d}-{int(day):02d}"] if year else []
            return [f"{day} {name}", f"{name} {day}", f"{day}. {name}", f"{day}th {name}", f"{day} of {name}", *iso]
    return [fact.key]


def repeats(need: Need, other: Need) -> bool:
    """Whether a statement says what another one says already."""
    if not all(word in other.words for word in need.telling):
        return False
    return sum(word in other.words for word in need.words) >= _PARAPHRASED * len(need.words)


class Survey(NamedTuple):
    """What must survive: clauses in the order of time, and the keys of all they need."""

    clauses: list[Clause]
    keys: dict[str, Need]

    def share_held(self, passages: Passages) -> float:
        """0–1; 1 if there is nothing that must survive."""
        if not self.keys:
            return 1.0
        return sum(passages.holds(need) for need in self.keys.values()) / len(self.keys)


def survey(replaced: Sequence[Saying], following: Sequence[Saying]) -> Survey:
    """What of ``replaced`` must survive, given that ``following`` is said after it and stays."""
    common = common_words([*replaced, *following])
    clauses = [read_needs(saying, common) for saying in replaced]
    let_go(clauses, following)
    keys: dict[str, Need] = {}
    for clause in clauses:
        for need in clause.needs:
            keys.setdefault(need.key, need)
    _drop_parts_of_names(clauses, keys)
    return Survey(clauses, keys)


def _drop_parts_of_names(clauses: list[Clause], keys: dict[str, Need]) -> None:
    """ "Tomasz" is no fact of its own where "Tomasz Wieczorek" is one."""
    parts: dict[str, None] = {}
    for need in keys.values():
        if need.fact and need.fact.kind is FactKind.NAME and " " in need.fact.key:
            parts.update(dict.fromkeys(f"{FactKind.NAME}:{part}" for part in need.fact.key.split()))
    for key in parts:
        keys.pop(key, None)
    for clause in clauses:
        clause.needs = [need for need in clause.needs if need.key in keys]
