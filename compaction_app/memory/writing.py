"""Statements as text, and the text as statements: a line a speaker, under the days; below them the working memory."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from datetime import date

from compaction_app.memory.choosing import choose
from compaction_app.memory.quoting import NAME_AND_COLON, SEPARATOR
from compaction_app.memory.statements import NOBODY, Speaker, Statement
from compaction_app.memory.symbols import parts_in
from compaction_app.memory.words import content_stems, read_words
from compaction_app.memory.working import HEADING, WorkingMemory
from compaction_app.tokens import Count
from compaction_app.values import Role

_DAY = re.compile(r"(?:#{1,6} )?(\d{4}-\d\d-\d\d(?: to \d{4}-\d\d-\d\d)?)")
_SPOKEN = re.compile(rf"(?P<role>{'|'.join([*Role, NOBODY])})(?: (?P<name>[\w .@-]{{1,40}}))?: (?P<text>.*)")
_JOINED = re.compile(rf" \((?:{'|'.join(Role)}){NAME_AND_COLON}.*")
#: How the share of the working memory grows with the square of what it names, and its most; what ends may cost.
_SPEECH, _MOST_NAMED, EDGE = 0.1, 0.92, 2
#: The working memory may take nearly all of the first ``_SMALL`` tokens of a room, and this share of the others.
_SMALL, _MOST_WORK = 250, 0.9
#: More is chosen than has room: together, statements cost less than one by one.
_OVERFULL = 1.3
#: Statements from which on a heading takes no further day, days that it may span, and the most statements of a block.
_PERIOD, _PERIOD_DAYS, _BLOCK = 20, 31, 15


def compose(
    statements: Sequence[Statement],
    working: WorkingMemory,
    room: int,
    count: Count,
    *,
    day_mark: str = "",
    told: Mapping[str, int] | None = None,
    said: Set[str] = frozenset(),
    focus: frozenset[str] = frozenset(),
    first: Collection[int] = (),
) -> str:
    """``told``: how often other texts have each stem; ``said``: the parts of their symbols.

    ``first``: ids of what is chosen first.
    """
    named = working.text(_room_of(working, statements, room, count), count, said)
    left = room - (count([named])[0] + EDGE if named else 0)
    costs = count([one.text + SEPARATOR for one in statements])
    # What the working memory tells is worth less in a statement.
    told = Counter(told or {}) + Counter(frozenset[str]().union(*map(content_stems, named.split("\n"))))
    places = {i for i, one in enumerate(statements) if id(one) in first}
    groups = choose(statements, costs, int(_OVERFULL * left), told=told, focus=focus, first=places)

    def written(number: int) -> str:
        return write([statements[i] for i in sorted(i for group in groups[:number] for i in group)], day_mark)

    # What a statement costs beside others is only known once they are written.
    text = written(bisect_right(range(1, len(groups) + 1), left, key=lambda number: count([written(number)])[0]))
    # It has what is left, too; a symbol that a statement has needs no second place.
    named = working.text(room - count([text])[0] - EDGE, count, said | parts_in([text] if working.calls else ()))
    return "\n".join(filter(None, [text, named]))


def _room_of(working: WorkingMemory, statements: Sequence[Statement], room: int, count: Count) -> int:
    """What the working memory may take: the more that tools did, the more; of a small room nearly all."""
    if not working.calls:
        return 0
    size = working.size(count)
    said = sum(count([one.text for one in statements if one.speaker.role != Role.TOOL]))
    most = _MOST_NAMED * min(room, _SMALL) + _MOST_WORK * max(0, room - _SMALL)
    did, talked = working.done * working.calls, working.said * len(working.asked)
    share = max(did**3 / (did**3 + talked**3 + 1), size**2 / (size**2 + _SPEECH * said**2 + 1))
    return int(min(most, room * share))


def write(statements: Sequence[Statement], day_mark: str = "") -> str:
    lines: list[str] = []
    for first, last, said in _periods(statements):
        lines += [f"{day_mark}{first}" + (f" to {last}" if first != last else "")] if first else []
        for block in _blocks(said):
            lines += [f"{label}: {SEPARATOR.join(texts)}" for label, texts in block.items()]
    return "\n".join(lines)


def _periods(statements: Sequence[Statement]) -> Iterator[tuple[str, str, list[Statement]]]:
    """(first day, last day, statements): a heading for each day would take a quarter of a small room."""
    said: list[Statement] = []
    first = last = ""
    for one in statements:
        if said and not _shares(one.day, first, last, len(said)):
            yield first, last, said
            said = []
        first, last = (first, max(last, one.day[-10:])) if said else (one.day[:10], one.day[-10:])
        said.append(one)
    yield first, last, said


def _shares(day: str, first: str, last: str, size: int) -> bool:
    """Whether what was said then may stand under this heading."""
    if not day or not first:
        return day == first
    if day[-10:] <= last:
        return day[:10] >= first
    return size < _PERIOD and (date.fromisoformat(day[-10:]) - date.fromisoformat(first)).days <= _PERIOD_DAYS


def _blocks(said: Sequence[Statement]) -> Iterator[dict[str, list[str]]]:
    """A line for each speaker: new ones begin after a while, and for the last word."""
    block: dict[str, list[str]] = {}
    for number, one in enumerate(said):
        if number % _BLOCK == 0 or (one is said[-1] and [*block][-1] != one.speaker.label):
            yield block
            block = {}
        block.setdefault(one.speaker.label, []).append(one.text)
    yield block


def told_in(text: str) -> Iterator[tuple[str, Speaker, str]]:
    """(day, speaker, statement) of an extract or a ledger."""
    day = ""
    for line in filter(None, map(str.strip, text.partition(f"\n{HEADING}\n")[0].split("\n"))):
        if heading := _DAY.fullmatch(line):
            day = heading[1]
            continue
        spoken = _SPOKEN.fullmatch(line)
        speaker = Speaker(spoken["role"], spoken["name"] or "") if spoken else Speaker(NOBODY)
        for told in filter(None, map(str.strip, (spoken["text"] if spoken else line).split(SEPARATOR))):
            yield day, speaker, told


def read_back(text: str) -> list[Statement]:
    """The statements of an extract or a ledger."""
    return [
        Statement(day, speaker, told, read_words(told), speaker.weight_of(_JOINED.sub("", told)))
        for day, speaker, told in told_in(text)
    ]


def work_of(text: str) -> str:
    """The lines of the working memory at the end of an extract or a ledger."""
    return f"\n{text}".partition(f"\n{HEADING}\n")[2]
