"""A summary made of the conversation's own words: deterministic, offline, free.

Everything said is taken apart into clauses. Each clause has shorter and shorter forms of itself, each form
costs tokens and is worth what its words tell, and the budget is filled with the moves that tell most per
token: rules, decisions and preferences first, then everything else, always in the form that tells most for
what it costs. So much is told briefly before anything is left out, and what repeats is worth less each time.

The text of the previous summary is the only state between generations. Its lines are read back into clauses,
which compete with the new ones by the same measure: what was worth keeping once still is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.tool_calls import call_name, tool_marker
from compaction_app.messages.transcript import neutralize_tags, results_of_calls, tool_names
from compaction_app.messages.truncate import one_line, shorten
from compaction_app.retention.amounts import newer_amounts
from compaction_app.retention.answers import is_question, join_answers
from compaction_app.retention.cautions import is_reply
from compaction_app.retention.choosing import Unit
from compaction_app.retention.clauses import SEPARATOR, keep_statement, read_clause, whole_clause
from compaction_app.retention.companions import (
    STATE_WORDS,
    Bonds,
    bind_opposites,
    find_companions,
    said_of,
    share_topic,
)
from compaction_app.retention.dates import resolve_dates
from compaction_app.retention.facts import CONTENT, Word, bare, is_agreement, is_name, weigh
from compaction_app.retention.selection import UNDATED, fill
from compaction_app.retention.sentences import split_clauses
from compaction_app.retention.superseded import find_replacements, read_statement
from compaction_app.tokens import Count
from compaction_app.values import Message, Role

#: Between its tags a text may count a token more than alone, and a target may be all that a summary is to save.
_EDGE = 1

#: How much the words of each speaker count. People say what must be remembered, models explain, tools dump.
_SCALES: dict[str, float] = {
    Role.USER: 1.0,
    Role.SYSTEM: 1.0,
    Role.DEVELOPER: 1.0,
    Role.ASSISTANT: 0.6,
    Role.TOOL: 0.35,
}
#: The nth best clause of one message counts 1 / (1 + n × this), so that one long message does not take all
#: room.
_CROWDING = 0.05
#: Each clause of a long message counts less than a short message: this much for each clause more.
_VERBOSITY = 0.02
#: What is read back from a summary has lost sight of the long message it came from; this stands for that.
_SURVIVORS: dict[str, float] = {Role.USER: 0.8, Role.ASSISTANT: 0.5, Role.TOOL: 0.6}
#: A rule that a tool has read somewhere, against what else it read.
_TOLD_RULE = 2.0
_FOCUS = 1.8
#: "The dentist is Dr. Virtanen": a fact told plainly by a person.
_STATED = 1.3
#: "7." and "(2-3)": a number alone says nothing.
_BARE, _BARE_CHARS = 0.1, 7
_MARKER_WEIGHT = 1.2
_ATTACHMENT_WEIGHT = 2.0
#: A word with a capital that is also written without one: a heading or a title more often than a name.
_COMMON_NAME_WEIGHT = 0.8
_CODE_WEIGHT = 0.8
_RESULT_BYTES = 2000
_RESULT_FIELDS = 40
_FIELD_CHARS = 300
#: What a record is called by, and how long a value is at most that calls it.
_NAMING = re.compile(r"(?:id|name|title|key|host|path|file|user|email|number)\b[^:]{0,12}: .{1,60}\Z", re.IGNORECASE)
_NAME_CHARS = 60
_JOINT = ", "
_NAMED_VALUE = re.compile(r"[\w.-]{1,64}: \S")
#: So many clauses between two that are the same are looked at.
_BETWEEN = 40

_HEADING = re.compile(r"#{1,6}\s+(?P<heading>.{1,120})")
_LOWER_CASE = re.compile(r"\b[a-zà-öø-ÿα-ωа-яё]{2,}\b")
_SPOKEN = re.compile(r"(?P<speaker>(?P<role>user|assistant|system|developer|tool)(?: [^:\n]{1,64})?): (?P<text>.*)")


def summarize_extractively(
    *,
    covered: Sequence[Message],
    previous_summary: str,
    target_tokens: int,
    count: Count,
    instructions: str = "",
) -> str:
    """Markdown of at most ``target_tokens``: the most telling clauses in order, a heading a day, speakers
    first.

    ``instructions`` are no prompt here, nobody reads them: clauses that share a telling word with them count
    almost twice, so what they name is told before other things of its kind. What they forbid is not understood.
    The same arguments give the same bytes, on every run and every machine.
    """
    reader = _Reader(instructions, [previous_summary, *(message.content for message in covered)])
    before = list(reader.read_summary(previous_summary))
    units = join_answers([*before, *reader.read_messages(covered)], len(before), reader.weigh)
    units, needs = _without_superseded(*_without_repeats(units, find_companions(units)))
    room = target_tokens - _EDGE if target_tokens > _EDGE else target_tokens
    text = fill(units, target=room, count=count, needs=needs)
    return text if text or units else _nothing_said(covered, target_tokens, count)


class _Reader:
    """Turns texts into units. Remembers the words it has judged: most words of a conversation are repeats."""

    def __init__(self, instructions: str, texts: Sequence[str]) -> None:
        self._words: dict[str, Word] = {}
        self._cores: dict[str, Word] = {}
        self._common: dict[str, None] = {}
        for text in texts:
            self._common.update(dict.fromkeys(_LOWER_CASE.findall(text)))
        self._focus = {w.norm: True for w in map(weigh, instructions.split()) if w.strength >= CONTENT}

    def read_summary(self, text: str) -> Iterator[Unit]:
        """The lines of a previous summary; prose, where a model wrote it, is taken apart like any other."""
        heading = UNDATED
        prose: list[str] = []
        for line in [*neutralize_tags(text).splitlines(), "# "]:
            found, spoken = _HEADING.fullmatch(line.strip()), _SPOKEN.fullmatch(line.strip())
            if found or spoken or line == "# ":
                for clause, is_code in split_clauses("\n".join(prose)):
                    yield self._unit(heading, Role.USER, "", clause, is_code)
                prose = []
            else:
                prose.append(line)
            if found:
                heading = one_line(found["heading"], 120)
            elif spoken:
                yield from self._read_line(heading, spoken["role"], spoken["speaker"], spoken["text"])

    def _read_line(self, heading: str, role: str, speaker: str, text: str) -> Iterator[Unit]:
        for number, clause in enumerate(filter(None, map(str.strip, text.split(SEPARATOR)))):
            is_marker = role == Role.TOOL and clause.startswith("[")
            unit = self._unit(heading, role, speaker, clause, is_marker, _SURVIVORS.get(role, 1.0))
            unit.opens = not number or is_reply(clause)
            yield unit

    def read_messages(self, messages: Sequence[Message]) -> Iterator[Unit]:
        results = results_of_calls(messages)
        names = tool_names(messages)
        last = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role != Role.TOOL), -1)
        for i, message in enumerate(messages):
            day = _day(message.created_at)
            heading = day.isoformat() if day else UNDATED
            speaker = _speaker(message, names[i])
            said = [
                self._unit(
                    heading,
                    message.role,
                    speaker,
                    # Code and what a tool gave back have a time base of their own, if they speak of time at all.
                    resolve_dates(clause, day, message.content)
                    if day and not is_code and message.role != Role.TOOL
                    else clause,
                    is_code,
                )
                for clause, is_code in _said(message)
            ]
            if said:
                said[0].opens = True
            # The answer comes after what is summarized, and needs it.
            if said and i == last and is_question(said[-1]):
                said[-1].first = True
            yield from _crowded(said)
            yield from (
                self._whole(heading, speaker, attachment_line(a), _ATTACHMENT_WEIGHT) for a in message.attachments
            )
            for call, result in zip(message.tool_calls, results[i], strict=True):
                name = one_line(neutralize_tags(f"tool {call_name(call)}").replace(":", "."), 64)
                yield self._whole(heading, name, tool_marker(call, result), _MARKER_WEIGHT)

    def _unit(self, heading: str, role: str, speaker: str, text: str, is_whole: bool, scale: float = 1.0) -> Unit:
        if is_whole:
            return self._whole(heading, speaker, text, _MARKER_WEIGHT if role == Role.TOOL else _CODE_WEIGHT)
        clause = read_clause(neutralize_tags(text), self.weigh, self._common)
        scale *= _SCALES.get(role, 1.0) * self._focused(word.norm for word in clause.words)
        if len(clause.text) < _BARE_CHARS and not any(character.isalpha() for character in clause.text):
            scale *= _BARE
        if role == Role.TOOL:
            return Unit(heading, speaker, clause, scale * (_TOLD_RULE if clause.firm else 1.0))
        statement = read_statement(clause.text)
        if role == Role.ASSISTANT:
            return Unit(heading, speaker, clause, scale, clause.firm and is_agreement(text), statement)
        if statement:
            keep_statement(clause, statement.value_start)
            scale *= _STATED
        return Unit(heading, speaker, clause, scale, clause.firm, statement)

    def _whole(self, heading: str, speaker: str, text: str, weight: float) -> Unit:
        text = one_line(neutralize_tags(text), 300).replace(SEPARATOR, " - ")
        # Without a speaker before it, a comment of a shell script would be read back as a heading.
        text = text if speaker else text.lstrip("# ")
        focused = self._focused(weigh(token).norm for token in text.split())
        return Unit(heading, speaker, whole_clause(text, weight), focused)

    def _focused(self, norms: Iterable[str]) -> float:
        return _FOCUS if self._focus and any(norm in self._focus for norm in norms) else 1.0

    def weigh(self, token: str) -> Word:
        word = self._words.get(token)
        if word is None:
            # A word comes with many marks and blanks around it: those are remembered with it, its weight once.
            word = self._words[token] = self._weigh_bare(bare(token))
        return word

    def _weigh_bare(self, core: str) -> Word:
        word = self._cores.get(core)
        if word is None:
            word = weigh(core)
            if is_name(core, word) and word.norm in self._common:
                word = word._replace(weight=_COMMON_NAME_WEIGHT)
            self._cores[core] = word
        return word


def _day(moment: datetime | None) -> date | None:
    """The day on the clock of whoever hands it over: that of the time zone which the moment carries."""
    return moment.date() if moment else None


def _speaker(message: Message, tool: str) -> str:
    name = tool if message.role == Role.TOOL else message.name
    return one_line(neutralize_tags(f"{message.role} {name}").replace(":", "."), 64)


def _said(message: Message) -> Iterator[tuple[str, bool]]:
    if message.role != Role.TOOL:
        return split_clauses(message.content)
    fields = _fields(message.content)
    if fields is not None:
        return ((field, False) for field in fields)
    return split_clauses(shorten(message.content, _RESULT_BYTES))


def _fields(text: str) -> list[str] | None:
    """A result in JSON as "name: value" for each value in it, and each record of a list as one; None if it is something
    else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return [field for field, _ in zip(_leaves(parsed, ""), range(_RESULT_FIELDS), strict=False)]


def _leaves(value: Any, name: str, depth: int = 6) -> Iterator[str]:
    if depth and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif depth and isinstance(value, list):
        for inner in value:
            yield from (
                _record(inner, name, depth - 1) if isinstance(inner, Mapping) else _leaves(inner, name, depth - 1)
            )
    elif value not in (None, "", [], {}):
        yield _field(name, value)


def _field(name: str, value: Any) -> str:
    told = json.dumps(value) if isinstance(value, bool) else str(value)
    return one_line(f"{name}: {told}" if name else told, _FIELD_CHARS).replace(SEPARATOR, " - ")


def _record(record: Mapping[str, Any], name: str, depth: int) -> Iterator[str]:
    """The values of a record stand together, or nobody knows whose they are; where they are too many for one clause,
    each clause begins with what the record is called."""
    fields = [field for key, inner in record.items() for field in _leaves(inner, str(key), depth - 1)]
    called = next((f for f in fields if _NAMING.match(f)), next((f for f in fields if len(f) <= _NAME_CHARS), ""))
    before = f"{name}." if name else ""
    told: list[str] = []
    for field in fields:
        if told and sum(map(len, told)) + len(field) > _FIELD_CHARS:
            yield before + _JOINT.join(told)
            told = [called] if called else []
        if field not in told:
            told.append(field)
    if told:
        yield before + _JOINT.join(told)


def _crowded(units: list[Unit]) -> list[Unit]:
    """Each further clause of a message counts less, the most telling ones first."""
    ranked = sorted(range(len(units)), key=lambda i: (-sum(word.weight for word in units[i].clause.words), i))
    for rank, i in enumerate(ranked):
        units[i].scale /= (1 + _CROWDING * rank) * (1 + _VERBOSITY * (len(units) - 1))
    return units


def _without_repeats(units: Sequence[Unit], bonds: Bonds) -> tuple[list[Unit], Bonds]:
    """A clause said twice in the same words is kept where it was said last, and what it turned round in between is told
    only with it. An answer is no repeat: it goes with its question; nor is what needs another clause, or is needed
    by one; nor is a value that a tool told of another thing."""
    bound = {*bonds, *(needed for others in bonds.values() for needed in others)}
    last: dict[tuple[str, str], int] = {}
    gone: dict[int, None] = {}
    keys = [said_of(unit) for unit in units]
    for i in range(len(units) - 1, -1, -1):
        unit, key = units[i], keys[i]
        if i in bound or unit.answered_by or not key[1] or _is_value(unit):
            continue
        again = last.setdefault(key, i)
        if again == i:
            continue
        gone[i] = None
        units[again].scale = max(units[again].scale, unit.scale)
        units[again].first = units[again].first or unit.first
        if len(unit.clause.words) > STATE_WORDS:
            continue
        for between in range(i + 1, min(again, i + 1 + _BETWEEN)):
            other = units[between]
            if keys[between] != key and other.speaker == unit.speaker and share_topic(unit, other):
                bonds.setdefault(between, []).append(again)
    kept = [i for i in range(len(units)) if i not in gone]
    told = [units[i] for i in kept]
    moved = _moved(bonds, kept)
    bind_opposites(told, moved)
    return told, moved


def _is_value(unit: Unit) -> bool:
    return unit.speaker.startswith(Role.TOOL) and _NAMED_VALUE.match(unit.clause.text) is not None


def _moved(bonds: Bonds, kept: Sequence[int]) -> Bonds:
    """The bonds of those that are kept, by their new positions."""
    index = {old: new for new, old in enumerate(kept)}
    return {
        index[i]: [index[needed] for needed in dict.fromkeys(others) if needed in index]
        for i, others in bonds.items()
        if i in index
    }


def _without_superseded(units: list[Unit], bonds: Bonds) -> tuple[list[Unit], Bonds]:
    replaced, needs = find_replacements([unit.statement for unit in units], [unit.speaker for unit in units])
    # What a tool dumps has the same names with other numbers in every line.
    texts = ["" if unit.speaker.startswith(Role.TOOL) else unit.clause.text for unit in units]
    needed = {other for others in bonds.values() for other in others}
    # Without the speakers: whoever said the newer amount, the older one is not told alone.
    for older, newer in (newer_amounts(texts) | needs | {i: by for i, by in replaced.items() if i in needed}).items():
        bonds.setdefault(older, []).append(newer)
    kept = [i for i in range(len(units)) if i not in replaced or i in needed]
    return [units[i] for i in kept], _moved(bonds, kept)


def _nothing_said(covered: Sequence[Message], target: int, count: Count) -> str:
    """Messages without a word in them: that much can be told."""
    if not covered:
        return ""
    text = f"{len(covered)} message{'' if len(covered) == 1 else 's'} without any text in them"
    return text if count([text])[0] <= target else ""
