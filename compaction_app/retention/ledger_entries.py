"""The entries of a ledger: what of each clause it would tell, how much that counts, and what may only be told together.

Standing rules of people are *firm*: they outlast everything else. An entry is written only in forms that are read back
as what it is, so that in the next generation it counts as much as in this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from compaction_app.retention import facts
from compaction_app.retention.amounts import Renewal
from compaction_app.retention.fact_spans import Fact, FactKind
from compaction_app.retention.facts import has_digit
from compaction_app.retention.ledger_excerpts import forms_of, grouped, with_day
from compaction_app.retention.needs import Clause, Need, is_advice, says_something, standing_in
from compaction_app.retention.outdated import renews, speaker_of
from compaction_app.retention.sayings import NOBODY
from compaction_app.retention.score import repeats
from compaction_app.retention.standing import Standing, is_told_of
from compaction_app.retention.superseded import is_person, read_statement
from compaction_app.retention.taken_back import is_answered
from compaction_app.values import Role

#: How much a thing counts that must survive.
_STATEMENT, _ADVICE = 4.0, 3.0
#: How things are counts less than a fact, and what somebody does or did, "she always laughs at that", hardly anything.
_STATE, _CHATTER = 1.5, 0.3
#: What must be done or not counts more, whoever says it; people's rules are told first anyway.
_RULE = 2.0
#: What a person wanted for the moment, and a cry.
_PASSING, _CRY = 0.5, 0.2
_WEIGHTS: dict[FactKind, float] = {
    FactKind.URL: 3.0,
    FactKind.PATH: 4.0,
    FactKind.CODE: 3.0,
    FactKind.DATE: 2.0,
    FactKind.NAME: 2.5,
    FactKind.QUOTE: 2.0,
    FactKind.NUMBER: 2.0,
}
#: A figure with what bounds it is nearly a rule; a single capital is often no name, and a bare file one of a list.
_BOUND, _SINGLE_NAME, _BARE_FILE = 4.0, 1.5, 1.0
#: What the prose of a tool's document quotes, somebody chose to quote.
_SHOWN_QUOTE = 3.0
#: A model numbers and counts a lot: a figure of one or two digits that it wrote tells little.
_SMALL_FIGURE, _TELLING_DIGITS = 1.2, 3
#: People say what must be remembered, models explain, tools dump.
_SCALES: dict[str, float] = {Role.ASSISTANT: 0.5, Role.TOOL: 0.5}
#: A summary may have been made of anything, but a command or a line of code in it no person spoke.
_COPIED_SCALE = 0.5
#: What a model says for later, it says like a person.
_FOR_LATER = 1.0
#: What a tool shows of a document says more than its rows, and that something was read or listed says less.
_SHOWN_SCALE, _READ_SCALE = 0.75, 0.25
#: … and of one thing that they said, so many facts count: a table has dozens.
_COUNTED: dict[str, int] = {Role.ASSISTANT: 4, Role.TOOL: 2, NOBODY: 4}
#: A figure, a day or an identifier of a command, a row or a line of code, of which nobody said anything.
_UNREAD: dict[str, float] = {Role.ASSISTANT: 0.7, Role.TOOL: 0.5, NOBODY: 0.7}
_UNREAD_KINDS = (FactKind.CODE, FactKind.NUMBER, FactKind.DATE, FactKind.QUOTE)
#: A path there is an address, but one of many.
_LISTED = 0.6
#: Markers of calls that changed nothing, or of which nobody knows.
_LOOKED_AT = re.compile(
    r"\[(?:(?:read|listed|searched|shell)\b|tool-[\w.-]+: (?:code|command|cmd|expression|query|script|source|sql)=)"
)
#: Which item of a list or a document it is, and where to look something up: "32.3 Changes", "see Annex II", "Fig 6".
_ITEM_NUMBER = re.compile(r"(?:\A|: )\d+(?:\.\d+)+[.)]? (?=[^\W\d_])")
_REFERENCE = re.compile(
    r"(?:Annex|Appendix|Articles?|Artikel|Chapters?|Clauses?|Figs?|Figures?|Pages?|Sections?|Steps?|Tables?)\.? "
    r"(?:\d[\d.]*|[IVX]+|[A-Z])(?!\w)"
)
_OUTLINE = 0.2
#: Figures like "1.1, 2.5, 2.6" one after another number items too.
_LIST_OF_NUMBERS = re.compile(r"(?<![\w.])\d{1,2}\.\d{1,2}, \d{1,2}\.\d{1,2}\b")
_ITEM = re.compile(r"\d{1,2}\.\d{1,2}")
#: A row of figures, and the heads of a table's columns.
_ROW_SHARE, _HEAD_WORDS = 0.5, 3
#: What a model worked out and calls out, and where it says that it keeps something: said to be used later.
_RESULT = re.compile(
    r"\b(?:add(?:s|ed)? up to|sums? (?:up )?to|comes? (?:out )?(?:to|at)|amounts? to|totals?|in total|altogether|"
    r"all in all|makes? it|(?:that|this|which) (?:makes|leaves|gives|goes (?:in|into|on|to)|belongs (?:in|into|to))|"
    r"left (?:over|for)|(?:is|are) left|remain(?:s|ing|der)?|on average|"
    r"the (?:result|answer|sum|difference|balance) is)\b",
    re.IGNORECASE,
)
_KEPT_AT = re.compile(
    r"\bi(?:['’]ll| will|['’]ve| have|['’]m)?(?: now| just| also)? "
    r"(?:keep|kept|keeping|put|putting|save|saved|saving|store|stored|storing|wrote|write|written|writing|left|leave|"
    r"leaving|filed?|filing|collect(?:ed|ing)?|drafted|created?|moved|uploaded|published|pushed)\b",
    re.IGNORECASE,
)
#: A question states nothing, with its answer little.
_ASKED = 0.5
#: The cells of a table are figures by the dozen.
_TABLED = 0.7
#: Whoever knows the old value and not the new one is misled, so changes come first.
_NEWER = 2.0
#: A bare figure is told in its whole clause, if that is no longer.
_RIDDLE_CHARS = 160


@dataclass(slots=True)
class Entry:
    #: A role, with the name where several users have one.
    speaker: str
    #: Excerpts of the clause, the longest first.
    forms: tuple[str, ...]
    weight: float
    #: How firm a rule, decision or preference of a person it is; the firmest are told before anything else.
    firm: Standing
    #: Where it was said: the clause, and the place in it.
    place: tuple[int, int]
    #: The places of the entries without which this one would mislead.
    needs: tuple[tuple[int, int], ...] = ()


def read_entries(
    clauses: Sequence[Clause], lost: dict[str, Need], prose: str, is_safe: Callable[[str], bool]
) -> list[Entry]:
    """An excerpt for everything lost, in the order in which it was said; what is told once is told. ``prose`` is the
    summary that lost it."""
    ranked = sorted(range(len(clauses)), key=lambda i: (-_weight(clauses[i], lost), -i))
    told: dict[str, None] = {}
    stated: list[Need] = []
    entries: dict[tuple[int, int], Entry] = {}
    for i in ranked:
        needs = [need for need in clauses[i].needs if need.key in lost and need.key not in told]
        needs = [need for need in needs if need.fact or not any(repeats(need, other) for other in stated)]
        if needs:
            told.update(dict.fromkeys(need.key for need in needs))
            stated += [need for need in needs if need.fact is None]
            entries |= {entry.place: entry for entry in _entries(i, clauses[i], needs, is_safe)}
    _bind(clauses, entries, is_safe)
    _correct(clauses, entries, prose.casefold())
    _bind_lifted(clauses, entries, lost, is_safe)
    return [entries[place] for place in sorted(entries)]


def _entries(i: int, clause: Clause, needs: Sequence[Need], is_safe: Callable[[str], bool]) -> Iterator[Entry]:
    for groups in grouped(clause, needs):
        group = [need for part in groups for need in part]
        weight = sum(_told(part, clause) for part in groups)
        start, end = group[0].start, max(need.end for need in group)
        forms = [form for form in forms_of(clause, start, end) if is_safe(form)]
        forms = _read_back(_telling(forms, clause, group), clause, group)
        if forms:
            firm = (_standing(group) or Standing.PASSING) if _is_persons(clause) else Standing.PASSING
            # A limit with a figure is nearly a rule; the others have to be worth their room.
            is_limit = firm is Standing.FIRM and any(need.fact is None and has_digit(need.key) for need in group)
            firm = firm if firm is Standing.RULE or is_limit or clause.accepted else Standing.PASSING
            shown = tuple(dict.fromkeys(with_day(form, clause.saying.day) for form in forms))
            yield Entry(clause.saying.speaker, shown, weight, firm, (i, start))


def _telling(forms: Sequence[str], clause: Clause, group: Sequence[Need]) -> list[str]:
    """The forms with a word that says what a figure is about; every form where there is more than figures."""
    text = clause.saying.text
    if any(need.fact is None or need.fact.kind not in (FactKind.NUMBER, FactKind.DATE) for need in group):
        return list(forms)
    found = [form for form in forms if says_something(form)]
    return found or ([form for form in forms_of(clause, 0, len(text))[:1] if len(text) <= _RIDDLE_CHARS])


def _read_back(forms: Sequence[str], clause: Clause, group: Sequence[Need]) -> list[str]:
    """The forms that the next generation takes for what this one does; all of them if none is."""
    wanted, changed = _standing(group), clause.statement if clause.newer else None

    def holds(form: str) -> bool:
        if wanted is not None and standing_in(clause.saying._replace(text=form)) < wanted:
            return False
        if changed is None:
            return True
        found = read_statement(form)
        return found is not None and found.newer == changed.newer and found.subject == changed.subject

    return [form for form in forms if holds(form)] or list(forms)


def _standing(group: Sequence[Need]) -> Standing | None:
    return max((need.standing for need in group if need.fact is None), default=None)


def _bind(clauses: Sequence[Clause], entries: dict[tuple[int, int], Entry], is_safe: Callable[[str], bool]) -> None:
    """Tell an outdated value only together with the newest, and before it."""
    for place in sorted(entries):
        entry = entries[place]
        for renewal in clauses[place[0]].renewals:
            old = renewal.old.casefold()
            if not any(old in form.casefold() for form in entry.forms):
                continue
            if old not in entry.forms[-1].casefold():
                entry.forms = tuple(form for form in entry.forms if old not in form.casefold())
                continue
            newer = _newer_entry(clauses, entries, entry, renewal, is_safe)
            if newer is None or line_of(newer.speaker) < line_of(entry.speaker):
                # What it would need can not be told after it.
                del entries[place]
                break
            entries.setdefault(newer.place, newer)
            entry.needs = (*entry.needs, newer.place)


def _bind_lifted(
    clauses: Sequence[Clause],
    entries: dict[tuple[int, int], Entry],
    lost: dict[str, Need],
    is_safe: Callable[[str], bool],
) -> None:
    """Tell what was lifted only together with what lifts it, and that one first where the summary tells the other."""
    for i, clause in enumerate(clauses):
        for at in clause.lifted_by:
            told = [entry for place, entry in entries.items() if place[0] == i]
            lifting = next((entry for place, entry in entries.items() if place[0] == at), None)
            if not told and lifting is not None and any(need.key not in lost for need in clause.needs):
                lifting.firm, lifting.weight = Standing.RULE, max(lifting.weight, _STATEMENT) * _NEWER
            if not told:
                continue
            lifting = lifting or _whole_entry(at, clauses[at], is_safe)
            for entry in told:
                if lifting is None or line_of(lifting.speaker) < line_of(entry.speaker):
                    # What it would need can not be told after it.
                    del entries[entry.place]
                else:
                    entries.setdefault(lifting.place, lifting)
                    entry.needs = (*entry.needs, lifting.place)


def _whole_entry(at: int, clause: Clause, is_safe: Callable[[str], bool]) -> Entry | None:
    """One that only follows another."""
    forms = [form for form in forms_of(clause, 0, len(clause.saying.text)) if is_safe(form)]
    return Entry(clause.saying.speaker, tuple(forms[:1]), 0.0, Standing.PASSING, (at, 0)) if forms else None


def _correct(clauses: Sequence[Clause], entries: dict[tuple[int, int], Entry], prose: str) -> None:
    """What the summary tells the old value of comes first: alone it misleads."""
    newest = [(r.at, r.new.casefold()) for clause in clauses for r in clause.renewals if r.old.casefold() in prose]
    for entry in entries.values():
        if any(at == entry.place[0] and new not in prose and new in entry.forms[-1].casefold() for at, new in newest):
            entry.firm, entry.weight = Standing.RULE, max(entry.weight, _STATEMENT) * _NEWER


def _newer_entry(
    clauses: Sequence[Clause],
    entries: dict[tuple[int, int], Entry],
    older: Entry,
    renewal: Renewal,
    is_safe: Callable[[str], bool],
) -> Entry | None:
    """The entry that tells the newer value, in forms that the next generation takes for that; one that only follows
    another if there is none."""
    clause, wanted = clauses[renewal.at], renewal.new.casefold()
    for entry in entries.values():
        told = [form for form in entry.forms if wanted in form.casefold()] if entry.place[0] == renewal.at else []
        if told and (forms := [form for form in told if renews(older.forms[-1], form)]):
            entry.forms = tuple(forms)
            return entry
    text = clause.saying.text
    start = text.casefold().find(wanted)
    if start < 0:
        return None
    around = forms_of(clause, start, start + len(wanted)) + forms_of(clause, 0, len(text))
    told = [form for form in around if wanted in form.casefold() and is_safe(form)]
    forms = [form for form in told if renews(older.forms[-1], form)] or told
    place = (renewal.at, start)
    while place in entries:
        place = (place[0], place[1] + 1)
    return Entry(clause.saying.speaker, tuple(forms), 0.0, Standing.PASSING, place) if forms else None


def line_of(speaker: str) -> int:
    """People first, then what models and tools said."""
    return 0 if is_person(speaker) else 1 if speaker.startswith(Role.ASSISTANT) else 2


def _is_persons(clause: Clause) -> bool:
    """Said by a person, or by a model and accepted by one."""
    return clause.accepted or is_person(speaker_of(clause))


def _weight(clause: Clause, keys: dict[str, Need]) -> float:
    return _told([need for need in clause.needs if need.key in keys], clause)


def _told(needs: Sequence[Need], clause: Clause) -> float:
    """What telling these things of a clause is worth."""
    scale = _scale(clause)
    weights = sorted((_need_weight(need, clause) for need in needs), reverse=True)
    counted = None if clause.accepted else _COUNTED.get(clause.saying.role)
    total = sum(weights[:counted]) * (1.0 if scale is None else scale)
    total *= _TABLED if " | " in clause.saying.text else 1.0
    is_asked = clause.saying.text.endswith(facts.QUESTION_MARKS) or is_answered(clause.saying.text)
    total *= _ASKED if is_asked and not clause.accepted else 1.0
    return total * (_NEWER if clause.newer else 1.0)


def _scale(clause: Clause) -> float | None:
    """What a person says is not scaled, nor what a person accepted."""
    role = clause.saying.role
    if role in (Role.TOOL, NOBODY) and _LOOKED_AT.match(clause.saying.text):
        return _READ_SCALE
    if role == NOBODY and not clause.is_prose and not any(need.fact is None for need in clause.needs):
        return _COPIED_SCALE
    if role == Role.TOOL and clause.is_prose:
        return _SHOWN_SCALE
    if role == Role.ASSISTANT and _is_called_out(clause):
        return _FOR_LATER
    return None if clause.accepted else _SCALES.get(role)


def _is_called_out(clause: Clause) -> bool:
    """Whether a model names a figure as a result, or a place where it keeps something."""
    text, kinds = clause.saying.text, [need.fact.kind for need in clause.needs if need.fact]
    if not clause.is_prose:
        return False
    if FactKind.NUMBER in kinds and _RESULT.search(text):
        return True
    return (FactKind.PATH in kinds or FactKind.URL in kinds) and _KEPT_AT.search(text) is not None


def _need_weight(need: Need, clause: Clause) -> float:
    if need.fact is None:
        if need.standing is Standing.PASSING:
            return _PASSING
        if need.standing is Standing.STATE:
            if clause.saying.role == Role.TOOL:
                # A document tells no stories.
                return _ADVICE
            tells = need.telling or any(other.fact for other in clause.needs)
            return _STATE if tells and not is_told_of(need.key) else _CHATTER
        if _is_head(clause.saying.text):
            return _CHATTER
        weight = _ADVICE if is_advice(clause.saying) and not clause.accepted else _STATEMENT
        return weight * (_RULE if need.standing is Standing.RULE and clause.saying.role in _SCALES else 1.0)
    weight = _fact_weight(need.fact, clause)
    if clause.is_prose:
        return weight
    if need.fact.kind is FactKind.PATH:
        return weight * (_LISTED if clause.saying.role == Role.TOOL else 1.0)
    return weight * (_UNREAD[clause.saying.role] if need.fact.kind in _UNREAD_KINDS else 1.0)


def _fact_weight(fact: Fact, clause: Clause) -> float:
    kind, key = fact.kind, fact.key
    if fact.is_bound:
        return _BOUND
    if _is_outline(fact, clause):
        return _OUTLINE
    if kind is FactKind.NAME:
        return _CRY if not clause.is_prose and _is_shouted(fact, clause) else _name_weight(key, clause.saying.text)
    if kind is FactKind.PATH and "/" not in key:
        return _BARE_FILE
    if kind is FactKind.NUMBER and clause.saying.role in _SCALES and sum(map(str.isdigit, key)) < _TELLING_DIGITS:
        return _SMALL_FIGURE
    if kind is FactKind.QUOTE and clause.saying.role == Role.TOOL and clause.is_prose:
        return _SHOWN_QUOTE
    return _WEIGHTS[kind]


def _is_shouted(fact: Fact, clause: Clause) -> bool:
    """Whether it is written in capitals, several words of it: "GRANT USAGE ON"."""
    found = clause.saying.text[fact.start : fact.end]
    return found.isupper() and " " in found


def _is_head(text: str) -> bool:
    """Whether it names the columns of a table, where a word like "budget" rules nothing."""
    cells = text.split(" | ")
    return len(cells) > 1 and not has_digit(text) and all(len(cell.split()) < _HEAD_WORDS for cell in cells)


def _is_outline(fact: Fact, clause: Clause) -> bool:
    """Whether it only tells items apart: their numbers, references to them, a row of figures."""
    text = clause.saying.text
    if fact.kind is FactKind.NAME:
        found = _REFERENCE.match(text, fact.start)
        return found is not None and fact.end <= found.end()
    if fact.kind not in (FactKind.NUMBER, FactKind.CODE):
        return False
    # Groups of digits in a row are read as one long number.
    if clause.saying.role == Role.TOOL and not clause.is_prose and _is_row(text):
        return True
    found = _ITEM_NUMBER.search(text)
    if found is not None and fact.start < found.end():
        return True
    return _ITEM.fullmatch(fact.key) is not None and _LIST_OF_NUMBERS.search(text) is not None


def _is_row(text: str) -> bool:
    tokens = text.split()
    return sum(token.replace(".", "").isdigit() for token in tokens) > _ROW_SHARE * len(tokens)


def _name_weight(name: str, text: str) -> float:
    """ "WE HAVE IT" and "Thirty-one" have the capitals of names, and say nothing of anybody."""
    is_cry = text.isupper() and " " in text and not any(map(str.isdigit, text))
    if is_cry or (" " not in name and len(text.split()) == 1):
        return _CRY
    return _WEIGHTS[FactKind.NAME] if " " in name else _SINGLE_NAME
