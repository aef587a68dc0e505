"""Statements as text, and the text as statements: a line a speaker in each stretch, under the day.

The text is all that the next generation has. So it is read back as what it was: whose words, on which day, in which
order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.candidate.choosing import choose
from benchmarks.candidate.sentences import SEPARATOR
from benchmarks.candidate.statements import NOBODY, Speaker, Statement
from benchmarks.candidate.word_tables import ACCEPTANCE, OUTCOME
from benchmarks.candidate.words import read_words
from compaction_app.tokens import Count
from compaction_app.values import Role

_DAY = re.compile(r"(?:#{1,6} )?(\d{4}-\d\d-\d\d)")
_SPOKEN = re.compile(rf"(?P<role>{'|'.join([*Role, NOBODY])})(?: (?P<name>[\w .@-]{{1,40}}))?: (?P<text>.*)")
_ACCEPTED = re.compile(
    r"(?:\((?:user|developer|system)(?: [\w .@-]{1,40})?: |\(assistant[^()]+\) )(?P<reply>[^()]{1,60})"
)
_OUTCOME = {Role.TOOL.value: 0.8, Role.ASSISTANT.value: 1.0}
#: Choosing is repeated with more or less room until the text is near its size.
_TRIES = 6


def compose(
    statements: Sequence[Statement],
    room: int,
    count: Count,
    *,
    day_mark: str = "",
    told: Mapping[str, int] | None = None,
    focus: frozenset[str] = frozenset(),
    keeps_last: bool = True,
) -> str:
    """The text of the chosen statements in at most ``room`` tokens. ``told``: stems that are told elsewhere."""
    if room <= 0 or not statements:
        return ""
    between, day_cost = count([SEPARATOR, f"\n{day_mark}2026-12-31\n"])
    costs = count([one.text + SEPARATOR for one in statements])
    limit, best = float(room), ""
    for _ in range(_TRIES):
        chosen = choose(
            statements, costs, limit, day_cost=day_cost, told=told or {}, focus=focus, keeps_last=keeps_last
        )
        text = write([statements[i] for i in chosen], day_mark)
        size = count([text])[0]
        if size <= room:
            best = max(best, text, key=len)
            taken = set(chosen)
            if room - size < min((cost for i, cost in enumerate(costs) if i not in taken), default=room) - between:
                break
        # What a statement costs beside others is only known once they are written.
        limit = limit * room / max(size, 1) - (1 if size > room else 0)
    return best


def write(statements: Sequence[Statement], day_mark: str = "") -> str:
    lines: list[str] = []
    stretch: dict[str, list[str]] = {}
    #: Who said what the coming statement corrects.
    corrected: dict[int, str] = {}
    day, number = "", -1

    def end_stretch() -> None:
        lines.extend(f"{label}: {SEPARATOR.join(texts)}" for label, texts in stretch.items())
        stretch.clear()
        corrected.clear()

    for place, one in enumerate(statements):
        is_last_of_another = place == len(statements) - 1 and list(stretch)[-1:] != [one.label]
        if one.day != day:
            end_stretch()
            day = one.day
            lines.extend([f"{day_mark}{day}"] if day else [])
        elif (
            (one.stretch != number and list(stretch) != [one.label])
            or corrected.get(id(one), one.label) != one.label
            or is_last_of_another
        ):
            end_stretch()
        number = one.stretch
        stretch.setdefault(one.label, []).append(one.text)
        corrected.update((id(newer), one.label) for newer in one.needs)
    end_stretch()
    return "\n".join(lines)


def read_back(text: str, first_stretch: int = 0) -> list[Statement]:
    """The statements of an extract or a ledger."""
    statements: list[Statement] = []
    seen: set[tuple[str, str]] = set()
    day, stretch = "", first_stretch
    for line in filter(None, map(str.strip, text.splitlines())):
        if heading := _DAY.fullmatch(line):
            day = heading[1]
            continue
        spoken = _SPOKEN.fullmatch(line)
        speaker = Speaker(spoken["role"], spoken["name"] or "") if spoken else Speaker(NOBODY)
        if (day, speaker.label) in seen:
            seen.clear()
            stretch += 1
        seen.add((day, speaker.label))
        for told in filter(None, map(str.strip, (spoken["text"] if spoken else line).split(SEPARATOR))):
            weight = _OUTCOME.get(speaker.role, 1.0) if OUTCOME.search(told) else speaker.weight
            statement = Statement(day, speaker, told, read_words(told), stretch, weight)
            accepted = _ACCEPTED.search(told)
            statement.is_accepted = accepted is not None and ACCEPTANCE.search(accepted["reply"]) is not None
            statements.append(statement)
    return statements
