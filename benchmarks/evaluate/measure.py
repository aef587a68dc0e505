"""Runs systems over conversations and collects what they kept. The cases are independent of each other."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from benchmarks.evaluate import scores, systems, written
from benchmarks.evaluate.conversations import Conversation, Domain, Turn, grow
from benchmarks.evaluate.domains import HELD_OUT, TUNED

TOKENS = (10_000, 15_000, 20_000, 25_000)
TRAP_BUDGETS = (1_500, 4_000)
#: Traps in one conversation of so many tokens.
_TRAPS, _TRAP_TOKENS = 20, 16_000
SEED = 13


@dataclass(frozen=True)
class Case:
    """One system on one conversation at one budget. ``place``: which of the set's conversations."""

    system: str
    #: "tuned", "held out" or "hand-written"; of traps, "tuned", "held out" or "reference".
    set: str
    place: int
    #: A share of the conversation's tokens, or over 1 tokens.
    budget: float
    rounds: int
    #: "facts", "traps" or "fork".
    what: str = "facts"


@dataclass
class Outcome:
    case: Case
    told: list[scores.Told] = field(default_factory=list)
    #: By kind of claim: planted, told, misleading.
    claims: dict[str, list[int]] = field(default_factory=dict)
    #: What was lost or misleads, with the text around it, for --show.
    lost: list[tuple[str, str, str]] = field(default_factory=list)
    #: Of a fork: how many facts of the other branch are shown, of how many.
    leaked: tuple[int, int] = (0, 0)


@cache
def conversations(set_: str, number: int) -> list[Conversation]:
    """Two thirds of the domains are tuned; ``number`` of each set are grown, of every length."""
    if set_ == "hand-written":
        return written.written_conversations()
    chosen = domains(set_)
    return [
        grow(chosen[i % len(chosen)], SEED + i, TOKENS[(i + i // len(chosen)) % len(TOKENS)]) for i in range(number)
    ]


def domains(set_: str) -> tuple[Domain, ...]:
    return HELD_OUT if set_ == "held out" else TUNED


@cache
def trapped(set_: str, every: int) -> list[Conversation]:
    """Conversations with traps, each trap in one of them. ``every``: only each nth trap."""
    traps = written.reference_traps() if set_ == "reference" else written.grown_traps(set_ == "held out", SEED)
    chosen = domains(set_)
    traps = traps[::every]
    random.Random(SEED).shuffle(traps)
    found: list[Conversation] = []
    while traps:
        number = len(found)
        told = grow(chosen[number % len(chosen)], 1000 + number, _TRAP_TOKENS)
        planted, left = written.plant(told, traps[:_TRAPS], SEED)
        traps = left + traps[_TRAPS:] if planted.claims else traps[1:]
        found.append(planted)
    return found


def run(case: Case, number: int, every: int = 1) -> Outcome:
    """``number`` of grown conversations in a set, each ``every``th trap."""
    if case.what == "traps":
        told = trapped(case.set, every)[case.place]
        return _scored(case, told, _text(case, told, told.turns), None)
    all_told = conversations(case.set, number)
    told, other = all_told[case.place], all_told[(case.place + 1) % len(all_told)]
    if case.what == "fork":
        return _forked(case, told, other)
    return _scored(case, told, _text(case, told, told.turns), other)


def _text(case: Case, told: Conversation, turns: Sequence[Turn], rounds: int | None = None, previous: str = "") -> str:
    whole = sum(systems.counter()([turn.text for turn in told.turns]))
    budget = int(case.budget if case.budget > 1 else case.budget * whole)
    if case.system == systems.CEILING:
        return systems.cheapest(told.turns, told.facts, budget)
    return systems.in_rounds(systems.SYSTEMS[case.system], turns, budget, rounds or case.rounds, previous)


def _scored(case: Case, told: Conversation, text: str, other: Conversation | None) -> Outcome:
    outcome = Outcome(case)
    shown = scores.Shown(text, systems.counter())
    if other:
        outcome.told = scores.tell(shown, told.facts, other.facts, len(told.turns))
        for fact, one in zip(told.facts, outcome.told, strict=True):
            if not one.kept:
                outcome.lost.append((fact.kind, fact.text, _around(text, max(sorted(fact.answer), key=len))))
    for claim in told.claims:
        counts = outcome.claims.setdefault(claim.kind, [0, 0, 0])
        misleads = shown.misleads(claim)
        counts[0] += 1
        counts[1] += misleads is not None
        counts[2] += bool(misleads)
        if misleads:
            outcome.lost.append((claim.kind, claim.text, _around(text, claim.claim, pattern=True)))
    return outcome


def _forked(case: Case, told: Conversation, other: Conversation) -> Outcome:
    """Two branches that go on from the summary of their trunk: this conversation's end, and the other one's."""
    at, begun = (one.joints[len(one.joints) * 3 // 5] for one in (told, other))
    trunk = _text(case, told, told.turns[:at], case.rounds)
    outcome, leaked, foreign = Outcome(case), 0, 0
    own = [fact for fact in told.facts if fact.place < at]
    branches = [
        (told.turns[at:], [fact for fact in told.facts if fact.place >= at]),
        (other.turns[begun:], [fact for fact in other.facts if fact.place >= begun]),
    ]
    for number, (turns, facts) in enumerate(branches):
        shown = scores.Shown(_text(case, told, turns, 2, trunk), systems.counter())
        everything = "\n".join(turn.text for turn in [*told.turns[:at], *turns])
        said = scores.Shown(everything, systems.counter())
        theirs = [fact for fact in branches[1 - number][1] if not said.keeps(fact)]
        outcome.told += scores.tell(shown, own + facts, theirs, at + len(turns))
        leaked += sum(shown.keeps(fact) for fact in theirs)
        foreign += len(theirs)
    outcome.leaked = (leaked, foreign)
    return outcome


def _around(text: str, sought: str, *, pattern: bool = False) -> str:
    """The line in which it is shown, with those before and after."""
    found = re.search(sought if pattern else re.escape(sought), text, 0 if pattern else re.IGNORECASE)
    if not found:
        return "(nothing of it is shown)"
    return "…" + text[max(0, found.start() - 160) : found.end() + 240].strip() + "…"


def misleading(outcomes: Iterable[Outcome]) -> dict[str, list[int]]:
    """By kind of claim: planted, told, misleading."""
    total: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for outcome in outcomes:
        for kind, counts in outcome.claims.items():
            total[kind] = [a + b for a, b in zip(total[kind], counts, strict=True)]
    return dict(total)


#: What a row is of: the case without its conversation.
_KEY = ("system", "set", "what", "budget", "rounds")


def rows(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Numbers alone, which JSON can hold: what all conversations of a set gave."""
    groups: dict[tuple[Any, ...], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[tuple(getattr(outcome.case, name) for name in _KEY)].append(outcome)
    found = []
    for key, group in groups.items():
        told = [one for outcome in group for one in outcome.told]
        row: dict[str, Any] = {**dict(zip(_KEY, key, strict=True)), "claims": misleading(group)}
        if told:
            kinds = sorted({one.kind for one in told})
            row |= {
                "margin": round(scores.margin(told), 4),
                "kept": round(scores.kept(told), 4),
                "kinds": {kind: round(scores.kept(one for one in told if one.kind == kind), 4) for kind in kinds},
                "ages": [round(scores.kept(one for one in told if one.age == age), 4) for age in range(4)],
                "leaked": [sum(outcome.leaked[i] for outcome in group) for i in (0, 1)],
            }
        found.append(row)
    return found
