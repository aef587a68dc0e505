"""What each rule of the extract buys: it is switched off, and what is told and misleads is counted again.

``python -m benchmarks.evaluate.ablation [RULE …]``, in ten minutes. Extracts are made without a database, in one round.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from benchmarks.evaluate import planted, product, real
from benchmarks.evaluate.__main__ import RUN
from benchmarks.evaluate.cases import Case
from benchmarks.evaluate.conversations import Conversation
from benchmarks.evaluate.planted import HELD_OUT, TUNED

_MEMORY = "compaction_app.memory."
#: (what, set, room): the table and the column of what is counted.
_MEASURED = {
    ("friends", TUNED, 4_000): ("friends", "stmt"),
    ("facts", HELD_OUT, 0.1): ("facts", "stmt"),
    ("traps", TUNED, 4_000): ("traps", ""),
    ("traps", HELD_OUT, 4_000): ("traps", ""),
}


def _nothing(*_: Any) -> None:
    return None


def _alone(reader: Any, turn: Any, one: Any, full: Any) -> None:
    if full is not None:
        full.needs = [*full.needs, one]
    turn.mine.append(one)
    reader.statements.append(one)


def _unquoted(content: str) -> Iterator[tuple[str, bool]]:
    yield content, False


def _unrelated(statements: Sequence[Any]) -> list[Any]:
    return [*statements]


#: What stands in place of what, below ``compaction_app.memory``; the lines of the functions are the rule's.
RULES: dict[str, dict[str, Any]] = {
    "a newer statement replaces or joins an older": {"extractive.relate": _unrelated},
    "what is said twice is told once": {"relating._without_repeats": _unrelated},
    "answers, denials and comments become part": {"reading.Reader._target": _nothing},
    "comments alone": {"reading.Reader._comments": _nothing},
    "an acknowledgement tells nothing": {"reading.Reader._acknowledges": _nothing},
    "a pronoun needs its subject": {"reading.Reader._add": _alone},
    "quoted text is nobody's rule": {"reading.split_quoted": _unquoted},
    "a relative date has its day": {"reading._with_day": lambda text, *_: text},
    "headings lead lists": {"sentences._LEAD_CHARACTERS": 0},
    "a word is a name everywhere": {"extractive.mark_names": _nothing},
    "names and numbers count more": {"choosing.MARKED": 1.0},
    "rules and wishes count more": {"choosing._RULE": 1.0, "choosing._RULE_BONUS": 0.0, "choosing._FIRM_BONUS": 0.0},
    "people on themselves count more": {"choosing._OWN": 1.0, "choosing._OWN_AMONG_PEOPLE": 1.0},
    "a question counts less": {"choosing._QUESTION": 1.0},
    "what is told counts less": {"choosing.AGAIN": 1.0},
    "the last statement is kept": {"choosing._LAST": 10**9},
    "a heading spans days": {"writing._PERIOD_DAYS": 0},
}


def main(names: Sequence[str]) -> None:
    print("| without | lines | friends, stmt | facts, held out | misleading, tuned | held out |")
    print("| --- | ---: | --- | --- | --- | --- |")
    for name in ["nothing", *(names or RULES)]:
        rule = RULES.get(name, {})
        lines = sum(map(_lines_of, rule))
        with ExitStack() as switched:
            for place, other in rule.items():
                switched.enter_context(patch(_MEMORY + place, other))
            print(f"| {name} | {lines or ''} | {' | '.join(measured())} |", flush=True)


def _lines_of(place: str) -> int:
    module, *names = place.split(".")
    found: Any = sys.modules[_MEMORY + module]
    for name in names:
        found = getattr(found, name)
    return len(inspect.getsourcelines(found)[0]) if isinstance(found, Callable) else 1  # type: ignore[arg-type]


def measured() -> Iterator[str]:
    for (what, set_, room), (table, column) in _MEASURED.items():
        number = len(real.stored(what, set_) if what == "friends" else _planted(what, set_))
        cases = (Case(what, product.EXTRACT, place, room, set=set_) for place in range(number))
        cells = [cell for case in cases for cell in RUN[what](case).cells]
        told = [cell for cell in cells if cell.table == table and cell.column.startswith(column)]
        got, of = sum(cell.got for cell in told), sum(cell.of for cell in told)
        yield f"{got:.0f} of {of:.0f}" if what == "traps" else f"{got / max(1, of):.3f}".removeprefix("0")


def _planted(what: str, set_: str) -> Sequence[Conversation]:
    return planted.trapped(set_) if what == "traps" else planted.conversations(set_)


def extract(system: str, told: Conversation, room: int, rounds: int, share: float = 1.0, **_: bool) -> list[str]:
    """In place of :func:`product.next_prompt`."""
    from compaction_app.memory.extractive import Material, read_earlier
    from compaction_app.values import Message

    fields = ("role", "name", "created_at", "tool_call_id")
    messages = [
        Message(
            id=number,
            depth=number,
            tokens=0,
            content=one["content"] or "",
            tool_calls=tuple(one.get("tool_calls") or ()),
            **{key: one[key] for key in fields if one.get(key)},
        )
        for number, one in enumerate(product.as_openai(told.turns), start=1)
    ]
    text = Material.of(*read_earlier(""), messages).extract(int(room * share), product.counter())
    return text.splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        product.begin(folder)
        with patch.object(product, "next_prompt", extract):
            main(sys.argv[1:])
