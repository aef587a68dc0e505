"""Conversations with known facts, hand-written or grown, and traps that are planted in grown ones."""

from __future__ import annotations

import random
import re
from functools import cache, partial

from benchmarks.evaluate import (
    baselines,
    domains_held_out,
    domains_tuned,
    product,
    scores,
    traps_held_out,
    traps_tuned,
    written,
)
from benchmarks.evaluate.cases import Case, Result
from benchmarks.evaluate.conversations import Conversation, Domain, grow
from benchmarks.evaluate.scores import Shown
from benchmarks.evaluate.traps import grow as grow_traps
from benchmarks.evaluate.traps import plant, reference

HAND_WRITTEN, TUNED, HELD_OUT, REFERENCE = "hand-written", "tuned", "held out", "reference"
#: Grown conversations of a set, of every length in turn.
GROWN = {TUNED: 8, HELD_OUT: 4}
TOKENS = (10_000, 15_000, 20_000, 25_000)
#: Traps in one conversation of so many tokens.
_TRAPS, _TRAP_TOKENS = 20, 16_000
_SEED = 13
TRAPS = {
    TUNED: partial(grow_traps, "tuned", traps_tuned.TEMPLATES, traps_tuned.SYLLABLES, _SEED),
    HELD_OUT: partial(grow_traps, "held-out", traps_held_out.TEMPLATES, traps_held_out.SYLLABLES, _SEED),
    REFERENCE: reference,
}


@cache
def conversations(set_: str) -> list[Conversation]:
    if set_ == HAND_WRITTEN:
        return written.written_conversations()
    chosen = _domains(set_)
    lengths = [TOKENS[(i + i // len(chosen)) % len(TOKENS)] for i in range(GROWN[set_])]
    return [grow(chosen[i % len(chosen)], _SEED + i, tokens) for i, tokens in enumerate(lengths)]


def _domains(set_: str) -> tuple[Domain, ...]:
    return domains_held_out.DOMAINS if set_ == HELD_OUT else domains_tuned.DOMAINS


@cache
def trapped(set_: str) -> list[Conversation]:
    """Conversations with traps, each trap in one of them."""
    left, chosen = TRAPS[set_](), _domains(set_)
    random.Random(_SEED).shuffle(left)
    found: list[Conversation] = []
    while left:
        number = len(found)
        told = grow(chosen[number % len(chosen)], 1000 + number, _TRAP_TOKENS)
        planted, clashing = plant(told, left[:_TRAPS], _SEED)
        left = clashing + left[_TRAPS:] if planted.claims else left[1:]
        found.append(planted)
    return found


def facts(case: Case) -> Result:
    """What is kept of a conversation's facts, and how often an older value stands without the newer one."""
    of_set = conversations(case.set)
    told, other = of_set[case.place], of_set[(case.place + 1) % len(of_set)]
    result, shown = Result(case), _shown(case, told)
    found = scores.tell(shown, told.facts, other.facts)
    is_summary = case.system in (product.EXTRACT, *product.MODELS)
    sums = sum(one.share - one.control for one in found), sum(one.kept for one in found)
    for column, got in zip(case.columns, sums, strict=True):
        if case.system not in product.MODELS:
            result.add("facts", case.system, column, got, len(found))
        if is_summary:
            result.add("budgets", case.row, column, got, len(found))
    if case.system == product.EXTRACT:
        for fact, one in zip(told.facts, found, strict=True):
            if not one.kept:
                near = _around(shown.text, re.escape(max(sorted(fact.answer), key=len)))
                result.lost.append((fact.kind, fact.text, near))
    if is_summary:
        _judge(result, told, shown, "outdated", case.set)
    return result


def traps(case: Case) -> Result:
    told = trapped(case.set)[case.place]
    result = Result(case)
    # A correction that stands verbatim behind the summary is seen.
    _judge(result, told, _shown(case, told, is_cut=False), "traps", *case.columns)
    return result


def _shown(case: Case, told: Conversation, *, is_cut: bool = True) -> Shown:
    whole = sum(product.counter()([turn.text for turn in told.turns]))
    room = int(case.room if case.room > 1 else case.room * whole)
    if case.system == baselines.CEILING:
        lines = baselines.cheapest(told.turns, told.facts, room)
    elif case.system in baselines.BASELINES:
        lines = baselines.BASELINES[case.system](told.turns, room)
    else:
        lines = product.next_prompt(case.system, told, room, case.rounds, is_cut=is_cut)
    return Shown("\n".join(lines), product.counter())


def _judge(result: Result, told: Conversation, shown: Shown, table: str, column: str) -> None:
    """Claims that mislead, of those that are told."""
    for claim in told.claims:
        is_stale = claim.kind == "stale value"
        misleads = shown.misleads(claim)
        if misleads is None or is_stale != (table == "outdated"):
            continue
        result.add(table, result.case.title, column, misleads, 1)
        if misleads:
            result.lost.append((claim.kind, claim.text, _around(shown.text, claim.claim)))


def _around(text: str, sought: str) -> str:
    """The line in which it is shown, with those before and after."""
    found = re.search(sought, text) or re.search(sought, text, re.IGNORECASE)
    if not found:
        return "(nothing of it is shown)"
    return "…" + text[max(0, found.start() - 160) : found.end() + 240].strip() + "…"
