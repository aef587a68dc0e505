"""A question and its short answer are told together or not at all: "no" beside another question says yes to it.

An answer is the first thing that a message says: short after a question, or a "no" or "yes" after anything. It is
joined to what it answers as one unit of two lines; a summary is read back by the same rule, from its lines. Answers
with numbers go with the questions of their numbers, and "no, yes, no" with all that was asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from compaction_app.retention import facts
from compaction_app.retention.cautions import is_reply
from compaction_app.retention.choosing import Unit
from compaction_app.retention.clauses import SEPARATOR, Clause, read_clause
from compaction_app.retention.facts import Word
from compaction_app.values import Role

#: What has more words, or more characters in a script without spaces, tells by itself what it is about.
_SHORT_WORDS, _SHORT_CHARS = 6, 48
#: Answers to answers make no longer unit than this.
_UNIT_CHARS = 600
#: How many units of the message before are looked through for its last question.
_LOOK_BACK = 12
#: What a question without its answer counts: it states nothing.
_OPEN = 0.5
_NUMBER = re.compile(r"(?:\A|: )\(?(\d{1,2})[.)] ")
_YES_OR_NO = re.compile(
    r"\b(?:no|nope|yes|yep|ja|nein|oui|non|sí|sì|não|sim|nee|да|нет|نعم|لا)\b|不是|是|はい|いいえ|네|아니요"
)


def join_answers(units: Sequence[Unit], before: int, weigh: Callable[[str], Word]) -> list[Unit]:
    """The units with each answer at what it answers. The first ``before`` of them stood in a summary.

    An answer to something that the summary does not hold says something else there, so it is left out.
    """
    joined: list[Unit] = []
    # How many of the joined ones are of the summary.
    border = 0
    for number, unit in enumerate(units):
        border = len(joined) if number == before else border
        is_first = number == before
        if (asked := _asked_by_number(joined, unit)) is not None:
            joined[asked] = _with_answer(joined[asked], unit, weigh)
            continue
        if not _may_answer(unit):
            joined.append(unit)
            continue
        at = _answered(joined, unit)
        if at is not None and at < border <= number and not (is_first and is_question(joined[at])):
            at = None
        if at is not None:
            at = _all_asked(joined, at, unit, weigh)
            joined[at] = _with_answer(joined[at], unit, weigh)
        elif not is_reply(unit.clause.text) or unit.clause.text.count(" ") > 1:
            joined.append(unit)
    return [_asked_only(unit) for unit in joined]


def is_question(unit: Unit) -> bool:
    return unit.clause.text.endswith(facts.QUESTION_MARKS)


def _may_answer(unit: Unit) -> bool:
    return unit.opens and _is_speech(unit) and (_is_short(unit.clause.text) or is_reply(unit.clause.text))


def _is_speech(unit: Unit) -> bool:
    return bool(unit.speaker) and not unit.clause.whole and not unit.speaker.startswith(Role.TOOL)


def _is_short(text: str) -> bool:
    return text.count(" ") < _SHORT_WORDS and len(text) <= _SHORT_CHARS


def _asked_by_number(units: Sequence[Unit], answer: Unit) -> int | None:
    """The open question of the other side with the same number: "2. Shall I push?" for "2. yes"."""
    number = _NUMBER.match(answer.clause.text)
    if number is None or not _is_speech(answer) or is_question(answer):
        return None
    for at in range(len(units) - 1, max(len(units) - 2 * _LOOK_BACK, 0) - 1, -1):
        unit = units[at]
        asked = _NUMBER.search(unit.clause.text) if is_question(unit) and not unit.answered_by else None
        if asked and asked[1] == number[1] and unit.speaker != answer.speaker:
            return at
    return None


def _all_asked(units: list[Unit], at: int, answer: Unit, weigh: Callable[[str], Word]) -> int:
    """Where one answer says "no, yes, no", all open questions before it become one unit; its position."""
    text = answer.clause.text.lower()
    if not _is_short(text) or len(_YES_OR_NO.findall(text)) < 2:
        return at
    asked = [at]
    while asked[0] and is_question(units[asked[0] - 1]) and not units[asked[0]].opens:
        asked.insert(0, asked[0] - 1)
    if len(asked) > 1:
        joint = SEPARATOR.join(units[i].clause.text for i in asked)
        clause = read_clause(joint.replace(SEPARATOR, " "), weigh)
        clause.text, clause.as_said = joint, True
        units[asked[0]] = replace(units[asked[0]], clause=clause, statement=None)
        del units[asked[1] : at + 1]
    return asked[0]


def _answered(units: Sequence[Unit], answer: Unit) -> int | None:
    """The last question of the message before; for "no" and "yes" its last sentence, if it asks nothing."""
    last: int | None = None
    for at in range(len(units) - 1, max(len(units) - _LOOK_BACK, 0) - 1, -1):
        unit = units[at]
        if not _is_speech(unit):
            continue
        if unit.answered_by and len(unit.clause.text) > _UNIT_CHARS:
            return None
        if is_question(unit) and unit.last_speaker != answer.speaker:
            return at
        last = at if last is None else last
        if unit.opens:
            break
    return last if is_reply(answer.clause.text) else None


def _with_answer(unit: Unit, answer: Unit, weigh: Callable[[str], Word]) -> Unit:
    joint = SEPARATOR if answer.speaker == unit.last_speaker else f"\n{answer.speaker}: "
    clause: Clause = read_clause(f"{unit.clause.text} {answer.clause.text}", weigh)
    clause.text = f"{unit.clause.text}{joint}{answer.clause.text}"
    clause.as_said = True
    return replace(
        unit,
        clause=clause,
        scale=max(unit.scale, answer.scale),
        first=unit.first or answer.first,
        statement=None,
        answered_by=answer.speaker,
    )


def _asked_only(unit: Unit) -> Unit:
    return replace(unit, scale=unit.scale * _OPEN) if is_question(unit) and not unit.first else unit
