"""What was said, clause by clause: messages, and an earlier summary with its ledger, in the order of time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.tool_calls import tool_marker
from compaction_app.messages.transcript import neutralize_tags, results_of_calls
from compaction_app.messages.truncate import one_line, shorten
from compaction_app.retention import facts
from compaction_app.retention.dates import resolve_dates
from compaction_app.retention.fact_spans import LONG_NUMBERS
from compaction_app.retention.quoting import QUOTED, split_quoted
from compaction_app.retention.sentences import split_clauses
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
#: What stands before the items of a list in which each holds only with the others.
_CONDITION_LEAD = re.compile(
    r"[^:\n]{0,160}\b(?:if|when|unless|once|after|before|until|provided(?: that)?|conditions?|requirements?|wenn|falls|"
    r"sofern|sobald|bedingungen|si|conditions|cuando|condiciones|se|quando|condizioni|als|mits|если|"
    r"когда)\b[^:\n]{0,40}: ",
    re.IGNORECASE,
)
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
    return [saying for sayings in read_each_message(messages) for saying in sayings]


def read_each_message(messages: Sequence[Message]) -> Iterator[list[Saying]]:
    """The sayings of each message."""
    results = results_of_calls(messages)
    return (_with_all_conditions(list(_read_message(message, results[i]))) for i, message in enumerate(messages))


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
    name = one_line(neutralize_tags(message.name).replace(":", "."), _NAME_CHARS) if message.role == Role.USER else ""
    if message.role == Role.TOOL:
        content = shorten(content, _RESULT_BYTES)
    for clause, is_code, is_quoted in _clauses(content, message.role):
        if _is_row(clause):
            continue
        # Others' words, code and what a tool gave back have a time base of their own.
        dated = not is_code and not is_quoted and message.role != Role.TOOL
        text = resolve_dates(clause, today, content) if today and dated else clause
        text = f"{QUOTED}{text}" if is_quoted else text
        yield Saying(message.role, one_line(text, _CLAUSE_CHARS), today.isoformat() if today else "", name)
    for attachment in message.attachments:
        yield Saying(message.role, one_line(attachment_line(attachment), _CLAUSE_CHARS))
    for call, result in zip(message.tool_calls, results, strict=True):
        yield Saying(Role.TOOL, tool_marker(call, result))


def _clauses(content: str, role: str) -> Iterator[tuple[str, bool, bool]]:
    """(clause, is code, whether its speaker only passed it on). Code that reads like a rule is none of the
    speaker's."""
    pieces = iter([(content, False)]) if role == Role.TOOL else split_quoted(content)
    for piece, is_quoted in pieces:
        for clause, is_code in split_clauses(piece):
            passed_on = is_quoted or (is_code and role != Role.TOOL and bool(facts.find_cues(clause)))
            yield clause, is_code, passed_on


def _with_all_conditions(sayings: list[Saying]) -> list[Saying]:
    """The items of "only if:" as one saying: some of the conditions are other conditions."""
    joined: list[Saying] = []
    lead = ""
    for saying in sayings:
        same = lead and saying.text.startswith(lead) and saying.role == joined[-1].role
        if same and len(joined[-1].text) + len(saying.text) < _CLAUSE_CHARS:
            joined[-1] = joined[-1]._replace(text=f"{joined[-1].text}; {saying.text[len(lead) :]}")
            continue
        found = _CONDITION_LEAD.match(saying.text) if saying.role != Role.TOOL else None
        lead = found.group() if found else ""
        joined.append(saying)
    return joined


def _is_row(clause: str) -> bool:
    """A line of data, or the notice that some was left out: nothing that anybody said."""
    clause = LONG_NUMBERS.sub("", clause)
    if _NOTICE.fullmatch(clause):
        return True
    if clause.count(",") > _ROW_FIGURES and " " not in clause:
        return True
    if len(_FIGURES.findall(clause[:_CLAUSE_CHARS])) <= _ROW_FIGURES:
        return False
    return sum(map(str.isdigit, clause)) > sum(map(str.isalpha, clause))
