"""Excerpts: which part of a clause tells a thing, word for word, and says neither more nor less than the clause did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from compaction_app.messages.transcript import neutralize_tags
from compaction_app.retention import facts, meaning
from compaction_app.retention.amounts import tells_change
from compaction_app.retention.cautions import is_cautioned
from compaction_app.retention.needs import Clause, Need
from compaction_app.retention.quoting import QUOTED
from compaction_app.retention.sayings import SEPARATOR
from compaction_app.retention.taken_back import is_taken_back
from compaction_app.values import Role

#: Words around a fact that say what it is about: before and after it, in the long and in the short form.
_AROUND = ((6, 3), (2, 1), (1, 0))
#: A clause of at most so many characters is told whole where there is room.
_WHOLE_CHARS = 90
#: Facts closer than this are told in one excerpt.
_GAP_CHARS = 25
#: … unless they stand so far from the first that the excerpt would be the text: a log without punctuation.
_GROUP_CHARS = 120
#: A sentence that is no longer is told from its beginning on, where whose word it is may stand: "Rumour has it …,
#: that", "Under the old contract …"; and one in which a word turns others round is told whole.
_FRAMED_CHARS, _TURNED_CHARS = 250, 250
#: A sentence of a tool's is told in parts from this length on.
_TOOL_CHARS = 100
#: A clause of at most so many characters in a language whose small words are not known is told whole.
_FOREIGN_CHARS = 240
#: An excerpt of a text without spaces takes so many characters on each side.
_UNSPACED_CHARS = 30
#: So many small words one after another are stepped over.
_SMALL_WORDS = 4
_WORD = re.compile(r"\S+")
#: What a name is set to, and a mark that stands for something, belong to what is before them.
_VALUE = re.compile(r"\s*=\s*(?:\[|\S+)|\s*\[")
_PAUSE = re.compile(r"[,;:.!?)、，；：。](?:\s+|\Z)|[、，；：。]")
#: Days that are none without the day on which they were said. What has its date behind it is left alone.
_RELATIVE = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|(?:this|next|last|coming) (?:morning|afternoon|evening|night|week|weekend|"
    r"month|spring|summer|autumn|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|"
    r"(?:on|until|by|till|before|after|since) (?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"heute|morgen|nächste[nrs]? (?:woche|monat)|aujourd['’]hui|demain|hoy|mañana|oggi|domani|сегодня)\b"
    r"(?!(?:['’]s)? ?[(（]|,? \d)|今天|今日|今晚",
    re.IGNORECASE,
)
_SAID = re.compile(r" \(said (?P<day>\d{4}-\d{2}-\d{2}(?: to \d{4}-\d{2}-\d{2})?)\)\Z")


def read_day(text: str) -> tuple[str, str]:
    """(an entry's words, the day on which they were said if it tells one)."""
    match = _SAID.search(text)
    return (text[: match.start()], match["day"]) if match else (text, "")


def with_day(form: str, day: str) -> str:
    """The day on which it was said, where the words alone would speak of another one each day."""
    return f"{form} (said {day})" if day and _RELATIVE.search(form) else form


def grouped(clause: Clause, needs: Sequence[Need]) -> list[list[list[Need]]]:
    """What is told in one excerpt: groups of facts that stand close to each other, those together whose shortest
    excerpts would tell the same words."""
    groups: list[list[Need]] = []
    for need in sorted(needs, key=lambda need: need.start):
        is_near = groups and need.start - max(other.end for other in groups[-1]) <= _GAP_CHARS
        if is_near and need.end - groups[-1][0].start <= _GROUP_CHARS:
            groups[-1].append(need)
        else:
            groups.append([need])
    return _joined(clause, _apart(clause, groups))


def _joined(clause: Clause, groups: Sequence[list[Need]]) -> list[list[list[Need]]]:
    text = clause.saying.text
    joined: list[list[list[Need]]] = []
    reach = 0
    for group in groups:
        start, end = group[0].start, max(need.end for need in group)
        left, right = _with_meaning(clause, *_excerpt_span(text, start, end, *_AROUND[-1]))
        if joined and left < reach:
            joined[-1].append(group)
        else:
            joined.append([group])
        reach = max(reach, right)
    return joined


def forms_of(clause: Clause, start: int, end: int) -> tuple[str, ...]:
    """Excerpts of a clause around a span of it, the longest first."""
    text, role = clause.saying.text, clause.saying.role
    # A rule in a tool's text says what it says without the title above it; a value does not without its label.
    is_titled = role == Role.TOOL and any(need.fact is None and need.start == start for need in clause.needs)
    is_titled = is_titled and text[:start].endswith(": ")
    spans = [_excerpt_span(text, start, end, -1 if is_titled else before, after) for before, after in _AROUND]
    forms = [text[_with_first_word(text, left) : right] for left, right in (_with_meaning(clause, *s) for s in spans)]
    if role != Role.TOOL and len(text) <= _FOREIGN_CHARS and not _is_understood(text):
        forms = [text]
    if len(text) <= _WHOLE_CHARS:
        forms.insert(0, text)
    return tuple(dict.fromkeys(filter(None, (_as_entry(form) for form in forms))))


def _as_entry(excerpt: str) -> str:
    """Quoted so that it closes nothing, and is read back neither as two nor as a heading."""
    return neutralize_tags(excerpt.replace(SEPARATOR, " - ").strip(" \t\n,;:，、；：").lstrip("# "))


def _apart(clause: Clause, groups: Sequence[list[Need]]) -> list[list[Need]]:
    """The groups, or all of them as one where each would tell the whole text."""
    return [[need for group in groups for need in group]] if _is_whole(clause) else list(groups)


def _is_whole(clause: Clause) -> bool:
    """Whether a clause is told whole or not at all."""
    text = clause.saying.text
    if clause.saying.role == Role.TOOL:
        return len(text) <= _TOOL_CHARS and _turns_round(text)
    return is_taken_back(text) or tells_change(text) or (len(text) <= _TURNED_CHARS and is_cautioned(text))


def _with_meaning(clause: Clause, start: int, end: int) -> tuple[int, int]:
    """The span grown to whole words, brackets and quotations, to the beginning of its sentence, and over each part
    beside it, up to a pause, that could turn it round: "it carries 3 tons" says something else where "nobody believes
    that" stands before it."""
    text = clause.saying.text
    if _is_whole(clause):
        return 0, len(text)
    start, end = meaning.reach(text, *_whole_words(text, start, end))
    is_framed = clause.saying.role != Role.TOOL and len(text) <= _FRAMED_CHARS
    start = 0 if is_framed or text.startswith(QUOTED) or meaning.is_field(text[:_FRAMED_CHARS]) else start
    if not _turns_round(text):
        return start, end
    parts = _parts(text)
    first = next((i for i, (_, right) in enumerate(parts) if right > start), 0)
    last = next((i for i, (_, right) in enumerate(parts) if right >= end), len(parts) - 1)
    turning = [_turns_round(text[left:right]) for left, right in parts]
    while first and turning[first - 1]:
        first -= 1
    # An object may follow its negation after a pause: "never, whatever happens, the red one".
    while last + 1 < len(parts) and (turning[last + 1] or turning[last]):
        last += 1
    if any(turning[first : last + 1]):
        start, end = min(start, parts[first][0]), max(end, parts[last][1])
    return start, end


def _with_first_word(text: str, start: int) -> int:
    """Where it begins with no "and" and no "in": what a small word belongs to stands before it."""
    for _ in range(_SMALL_WORDS):
        first = text[start:].split(maxsplit=1)[:1]
        if not start or not first or facts.weigh(first[0]).strength != facts.FUNCTION or _pauses(text[:start]):
            return start
        start = text.rfind(" ", 0, len(text[:start].rstrip())) + 1
    return start


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """An identifier is no part of itself: "1.2.3-rc.1+build.5"."""
    if facts.is_unspaced(text):
        return start, end
    left = text.rfind(" ", 0, start) + 1 if start and not text[start - 1].isspace() else start
    right = text.find(" ", end) if end < len(text) and not text[end].isspace() else end
    left = start if start - left > _UNSPACED_CHARS else left
    right = len(text) if right < 0 else right
    right = end if right - end > _UNSPACED_CHARS else right
    value = _VALUE.match(text, right)
    return left, value.end() if value else right


def _turns_round(text: str) -> bool:
    return meaning.turns_round(text, [facts.weigh(token).norm for token in text.split()])


def _is_understood(text: str) -> bool:
    return meaning.is_understood(text, [facts.weigh(token).norm for token in text.split()])


def _parts(text: str) -> list[tuple[int, int]]:
    """From pause to pause, none of them inside a bracket or a quotation."""
    spans = meaning.enclosed(text)[0]
    ends = [match.end() for match in _PAUSE.finditer(text)]
    ends = [end for end in ends if not any(left < end < right for left, right in spans)]
    bounds = [0, *ends, len(text)]
    return [(left, right) for left, right in pairwise(bounds) if left < right] or [(0, len(text))]


def _without_loose_end(text: str, end: int, right: int) -> int:
    """Where an excerpt may end at ``right`` or before it: not between "at" and what is there."""
    if right >= len(text) or _pauses(text[end:right]):
        return right
    words = [(match.start() + end, match.group()) for match in _WORD.finditer(text[end:right])]
    small = [facts.weigh(word).strength == facts.FUNCTION for _, word in words]
    if True not in small:
        return right
    first = len(small) - 1 - small[::-1].index(True)
    while first and small[first - 1]:
        first -= 1
    return end + len(text[end : words[first][0]].rstrip())


def _excerpt_span(text: str, start: int, end: int, before: int, after: int) -> tuple[int, int]:
    """From some telling words before ``start`` to some after ``end``, at word ends."""
    left, right = start, end
    while left > 0 and before >= 0:
        cut = text.rfind(" ", 0, left - 1) + 1
        if left - cut > _UNSPACED_CHARS:
            left = max(left - _UNSPACED_CHARS, 0) if left == start else left
            break
        if left < start and _pauses(text[cut:left]):
            break
        before -= facts.weigh(text[cut:left]).strength >= facts.CONTENT
        if before >= 0:
            left = cut
    while right < len(text) and after >= 0:
        cut = text.find(" ", right + 1)
        cut = len(text) if cut < 0 else cut
        if cut - right > _UNSPACED_CHARS:
            right = min(right + _UNSPACED_CHARS, len(text)) if right == end else right
            break
        after -= facts.weigh(text[right:cut]).strength >= facts.CONTENT
        if after >= 0:
            right = cut
        if _pauses(text[right:cut]):
            break
    return left, _without_loose_end(text, end, right)


def _pauses(token: str) -> bool:
    return token.rstrip().endswith((",", ";", ":", ".", "!", "?", ")"))
