"""Values that a later one replaced: a summary may forget them, and so must its ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from compaction_app.fact_spans import FactKind, fold
from compaction_app.needs import Clause
from compaction_app.sayings import Saying
from compaction_app.superseding import Statement, find_superseded, read_statement
from compaction_app.values import Role

_CHANGED_FROM = re.compile(
    r"\b(?:gr[eo]w|r[io]se|rais|fell|fall|drop|sank|sink|low|reduc|increas|decreas|cut|chang|mov|shift|extend|push|postpon|"
    r"went|goes|go|bump|correct|updat|switch)\w*\b[^.;]{0,60}\bfrom\s+\Z",
    re.IGNORECASE,
)
_FIGURE_KEY = re.compile(rf"{FactKind.NUMBER}:\W*(?P<figure>\d[\d.,]*)")
_TO = re.compile(r"\s+to\s+")


def let_go(clauses: list[Clause], following: Sequence[Saying]) -> None:
    """Take from the clauses what a later one, or what is said after all of them, has replaced."""
    echoes = _Echoes(clauses)
    echoes.let_go_of_statements([read_statement(saying.text) for saying in following], following)
    echoes.let_go_of_values()


class _Echoes:
    """Where each fact is told, so that all mentions of a value that was replaced can be let go."""

    def __init__(self, clauses: list[Clause]) -> None:
        self.clauses = clauses
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
        speakers = [saying.role or Role.USER for saying in (*(c.saying for c in self.clauses), *following)]
        superseded, _ = find_superseded(statements, speakers)
        newest = {s.subject: i for i, s in enumerate(statements) if s and not superseded[i]}
        for clause, statement, is_superseded in zip(self.clauses, statements, superseded, strict=False):
            at = newest.get(statement.subject, -1) if statement and is_superseded else -1
            kept = statements[at]
            if at < 0 or statement is None or kept is None or kept.value == statement.value:
                # It stands, or was said again.
                continue
            gone = [need.key for need in clause.needs if need.fact]
            clause.needs = []
            self._drop(gone, 0, at, about=statement.subject)
            if at < len(self.clauses):
                self.clauses[at].newer = True

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
                        self._drop([before], at, i)
                        clause.newer = True
                    assigned[name.strip()] = (need.key, min(at, i))
            for old, new in pairwise(said):
                if _CHANGED_FROM.search(text[: old.start]) and _TO.fullmatch(text, old.end, new.start):
                    self._drop(self._figures.get(_figure_of(old.key), [old.key]), 0, i)
                    clause.needs = [need for need in clause.needs if need is not old]
                    clause.newer = True

    def _drop(self, gone: Iterable[str], start: int, end: int, about: Sequence[str] = ()) -> None:
        """Take facts from the clauses ``start`` to ``end``, and the statements that they are part of."""
        for key in list(gone):
            for i in self._tellers.get(key, ()):
                if start <= i < end and (not about or _mentions(self.clauses[i], about)):
                    _drop_fact(self.clauses[i], key)


def _figure_of(key: str) -> str:
    match = _FIGURE_KEY.match(key)
    return match["figure"] if match else ""


def _mentions(clause: Clause, words: Iterable[str]) -> bool:
    text = fold(clause.saying.text)
    return any(word in text for word in words)


def _drop_fact(clause: Clause, key: str) -> None:
    spans = [(need.start, need.end) for need in clause.needs if need.key == key]
    clause.needs = [
        need
        for need in clause.needs
        if need.key != key and (need.fact or not any(need.start < end and start < need.end for start, end in spans))
    ]
