"""Values that a later one replaced: a summary may forget them, and so must its ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from compaction_app.retention.amounts import Renewal, renewed_amounts
from compaction_app.retention.fact_spans import FactKind, fold
from compaction_app.retention.lifting import find_lifted
from compaction_app.retention.needs import Clause, Need, state_lift, words_of
from compaction_app.retention.sayings import Saying
from compaction_app.retention.superseded import Statement, find_replacements, may_replace, read_statement
from compaction_app.values import Role

_CHANGED_FROM = re.compile(
    r"\b(?:gr[eo]w|r[io]se|rais|fell|fall|drop|sank|sink|low|reduc|increas|decreas|cut|chang|mov|shift|extend|push|postpon|"
    r"went|goes|go|bump|correct|updat|switch)\w*\b[^.;]{0,60}\bfrom\s+\Z",
    re.IGNORECASE,
)
_FIGURE_KEY = re.compile(rf"{FactKind.NUMBER}:\W*(?P<figure>\d[\d.,]*)")
_TO = re.compile(r"\s+to\s+")


def let_go(clauses: list[Clause], following: Sequence[Saying]) -> None:
    """Take from the clauses what a later one, or what is said after all of them, has replaced.

    What may have been replaced stays, and is marked with what is newer.
    """
    echoes = _Echoes(clauses)
    later = [read_statement(saying.text) for saying in following]
    echoes.let_go_of_statements(later, following)
    echoes.let_go_of_values()
    echoes.mark_amounts(following)
    echoes.mark_lifted(following)


class _Echoes:
    """Where each fact is told, so that all mentions of a value that was replaced can be let go."""

    def __init__(self, clauses: list[Clause]) -> None:
        self.clauses = clauses
        self._replaced: dict[int, int] = {}
        #: What was needed of a clause that was replaced.
        self._gone: dict[int, list[Need]] = {}
        self._tellers: dict[str, list[int]] = {}
        self._figures: dict[str, dict[str, None]] = {}
        for i, clause in enumerate(clauses):
            for need in clause.needs:
                if need.fact:
                    self._tellers.setdefault(need.key, []).append(i)
                    if figure := _figure_of(need.key):
                        self._figures.setdefault(figure, {})[need.key] = None

    def let_go_of_statements(self, later: Sequence[Statement | None], following: Sequence[Saying]) -> None:
        """The statements that a later one replaced, and echoes of their values: "a budget of 2,000, noted"."""
        statements = [*(clause.statement for clause in self.clauses), *later]
        speakers = [*map(speaker_of, self.clauses), *(saying.speaker or Role.USER for saying in following)]
        replaced, needed = find_replacements(statements, speakers)
        self._replaced = replaced
        for i, (clause, statement) in enumerate(zip(self.clauses, statements, strict=False)):
            at = _last(replaced, i)
            newest = statements[at]
            if statement is None or newest is None or at == i or newest.value == statement.value:
                # It stands, or was said again.
                continue
            gone = [need.key for need in clause.needs if need.fact]
            self._gone[i], clause.needs = clause.needs, []
            self._drop(gone, 0, at, speakers[at], about=statement.subject)
            if at < len(self.clauses):
                self.clauses[at].newer = True
        for i, first in needed.items():
            at = _last(replaced, first)
            older, newer = statements[i], statements[at]
            if at < len(self.clauses) and older and newer and older.value != newer.value:
                self.clauses[i].renewals.append(Renewal(older.value, at, newer.value))

    def mark_amounts(self, following: Sequence[Saying]) -> None:
        """Amounts that were told again with another number. What tools dump has the same names in every line."""
        sayings = [*(clause.saying for clause in self.clauses), *following]
        texts = ["" if saying.role == Role.TOOL else saying.text for saying in sayings]
        for i, renewals in renewed_amounts(texts, [saying.speaker or Role.USER for saying in sayings]).items():
            if i < len(self.clauses):
                self.clauses[i].renewals += [renewal for renewal in renewals if renewal.at < len(self.clauses)]

    def mark_lifted(self, following: Sequence[Saying]) -> None:
        """What a later clause lifts, cancels or brings back is told only together with that one."""
        sayings = [*(clause.saying for clause in self.clauses), *following]
        texts = ["" if saying.role == Role.TOOL else saying.text for saying in sayings]
        speakers = [saying.speaker or Role.USER for saying in sayings]
        for i, lifters in find_lifted(texts, speakers, self._replaced).items():
            if i >= len(self.clauses) or not self.clauses[i].needs:
                continue
            for at in (at for at in lifters if at < len(self.clauses)):
                self.clauses[i].lifted_by.append(at)
                if at > i:
                    state_lift(self.clauses[at], self.clauses[i])
                else:
                    # Without it nobody could tell in the next generation what came back.
                    self.clauses[at].needs = self.clauses[at].needs or self._gone.get(at, [])

    def let_go_of_values(self) -> None:
        """``deposit = 25`` once ``deposit = 30`` is said, and 173,000 once it grew "from 173,000 to 212,000"."""
        assigned: dict[str, tuple[str, int]] = {}
        for i, clause in enumerate(self.clauses):
            text, said = clause.saying.text, [need for need in clause.needs if need.fact]
            for need in said:
                name, equals, _ = need.key.partition("=")
                if equals and need.fact and need.fact.kind is FactKind.CODE:
                    before, at = assigned.get(name.strip(), (need.key, i))
                    if before != need.key:
                        self._drop([before], at, i, speaker_of(clause))
                        clause.newer = True
                    assigned[name.strip()] = (need.key, min(at, i))
            for old, new in pairwise(said):
                if _CHANGED_FROM.search(text[: old.start]) and _TO.fullmatch(text, old.end, new.start):
                    gone = self._figures.get(_figure_of(old.key), [old.key])
                    self._mark(gone, i, text[new.start : new.end])
                    self._drop(gone, 0, i, speaker_of(clause))
                    clause.needs = [need for need in clause.needs if need is not old]
                    clause.newer = True

    def _mark(self, outdated: Iterable[str], at: int, wording: str) -> None:
        """Values of earlier clauses that may be told only together with the one in the clause ``at``."""
        for key in list(outdated):
            for clause in (self.clauses[i] for i in self._tellers.get(key, ()) if i < at):
                for need in clause.needs:
                    if need.key == key:
                        old = clause.saying.text[need.start : need.end]
                        clause.renewals.append(Renewal(old, at, wording))

    def _drop(self, gone: Iterable[str], start: int, end: int, speaker: str, about: Sequence[str] = ()) -> None:
        """Take facts from the clauses ``start`` to ``end``, and the statements that they are part of. ``speaker`` said
        the newer ones; ``about`` are the words of the subject, told in a clause that echoes it."""
        for key in list(gone):
            for i in self._tellers.get(key, ()):
                clause = self.clauses[i]
                if start <= i < end and may_replace(speaker, speaker_of(clause)) and _echoes(clause, key, about):
                    _drop_fact(clause, key)


def renews(older: str, newer: str) -> bool:
    """Whether the one text alone tells a newer value than the other."""
    if renewed_amounts([older, newer]):
        return True
    return any(find_replacements([read_statement(older), read_statement(newer)], [Role.USER] * 2))


def speaker_of(clause: Clause) -> str:
    """A summary's prose tells what people said."""
    return clause.saying.speaker or Role.USER


def _last(replaced: Mapping[int, int], i: int) -> int:
    """What stands in the end of all that replaced a statement; itself where nothing did."""
    while i in replaced:
        i = replaced[i]
    return i


def _echoes(clause: Clause, key: str, about: Sequence[str]) -> bool:
    """Whether it only repeats a value of that subject: "a budget of 2,000, noted". The food budget is another one."""
    if not about:
        return True
    own = clause.statement.subject if clause.statement else ()
    if any(word not in about and word not in key for word in own):
        return False
    words = words_of(clause.saying.text)
    return all(fold(word) in words for word in about)


def _figure_of(key: str) -> str:
    match = _FIGURE_KEY.match(key)
    return match["figure"] if match else ""


def _drop_fact(clause: Clause, key: str) -> None:
    spans = [(need.start, need.end) for need in clause.needs if need.key == key]
    clause.needs = [
        need
        for need in clause.needs
        if need.key != key and (need.fact or not any(need.start < end and start < need.end for start, end in spans))
    ]
