"""What was said, clause by clause: messages, and an earlier summary with its ledger, in the order of time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compaction_app.openai_format import attachment_line
from compaction_app.relative_dates import resolve_dates
from compaction_app.sentences import split_clauses
from compaction_app.tool_markers import one_line, tool_marker
from compaction_app.transcript import defuse, results_of_calls, shorten
from compaction_app.values import Message, Role

#: Who speaks in a model's prose: nobody of the conversation.
NOBODY = ""
#: Between two clauses of one speaker on a line of a ledger, as in an extractive summary.
SEPARATOR = " · "
#: As much of a tool's result as a summarizer is shown.
_RESULT_BYTES = 2000
#: No clause of :mod:`sentences` is longer.
_CLAUSE_CHARS = 2000
_NAME_CHARS = 58
_FIGURES = re.compile(r"\d+(?:[.:-]\d+)*")
#: A clause with more figures than this, and fewer letters than digits, is a row of a table.
_ROW_FIGURES = 4
_NOTICE = re.compile(r"\.{3}truncated \d+ bytes\.{3}")
_DAY_HEADING = re.compile(r"#{1,6}\s+(?P<day>\d{4}-\d{2}-\d{2}(?: to \d{4}-\d{2}-\d{2})?)")
_HEADING = re.compile(r"#{1,6}\s+\S")
_SPOKEN = re.compile(r"(?P<role>user|assistant|system|developer|tool)(?: (?P<name>[^:\n]{1,64}))?: (?P<text>.*)")


class Saying(NamedTuple):
    role: str
    text: str
    #: The day, or days, on which it was said, where that is known.
    day: str = ""
    #: Who of several users spoke.
    name: str = ""

    @property
    def speaker(self) -> str:
        return f"{self.role} {self.name}" if self.name else self.role


def read_messages(messages: Sequence[Message]) -> list[Saying]:
    """Content, calls and attachments. Reasoning is no part of what was said."""
    results = results_of_calls(messages)
    return [saying for i, message in enumerate(messages) for saying in _read_message(message, results[i])]


def read_summary(text: str) -> list[Saying]:
    """The clauses of a summary: lines with a speaker are the speaker's, prose is nobody's."""
    sayings: list[Saying] = []
    prose: list[str] = []
    day = ""
    for line in [*text.splitlines(), "# end"]:
        spoken = _SPOKEN.fullmatch(line.strip())
        if spoken or _HEADING.match(line):
            sayings += [
                Saying(NOBODY, one_line(clause, _CLAUSE_CHARS), day) for clause, _ in split_clauses("\n".join(prose))
            ]
            prose = []
            if not spoken:
                day = found["day"] if (found := _DAY_HEADING.fullmatch(line.strip())) else ""
        else:
            prose.append(line)
        if spoken:
            parts = spoken["text"].split(SEPARATOR)
            name = (spoken["name"] or "") if spoken["role"] == Role.USER else ""
            sayings += [
                Saying(spoken["role"], one_line(part, _CLAUSE_CHARS), day, name) for part in parts if part.strip()
            ]
    return sayings


def _read_message(message: Message, results: Sequence[str | None]) -> Iterator[Saying]:
    day = message.created_at
    today = day.date() if day else None
    content = message.content
    # A colon would end the name where it is read back.
    name = one_line(defuse(message.name).replace(":", "."), _NAME_CHARS) if message.role == Role.USER else ""
    if message.role == Role.TOOL:
        content = shorten(content, _RESULT_BYTES)
    for clause, _ in split_clauses(content):
        if _is_row(clause):
            continue
        text = resolve_dates(clause, today) if today and message.role != Role.TOOL else clause
        yield Saying(message.role, one_line(text, _CLAUSE_CHARS), today.isoformat() if today else "", name)
    for attachment in message.attachments:
        yield Saying(message.role, one_line(attachment_line(attachment), _CLAUSE_CHARS))
    for call, result in zip(message.tool_calls, results, strict=True):
        yield Saying(Role.TOOL, tool_marker(call, result))


def _is_row(clause: str) -> bool:
    """A line of data, or the notice that some was left out: nothing that anybody said."""
    if _NOTICE.fullmatch(clause):
        return True
    if clause.count(",") > _ROW_FIGURES and " " not in clause:
        return True
    if len(_FIGURES.findall(clause[:_CLAUSE_CHARS])) <= _ROW_FIGURES:
        return False
    return sum(map(str.isdigit, clause)) > sum(map(str.isalpha, clause))
