"""A clause and its shorter and shorter forms: which of its words may go.

A shortened clause is an in-order part of its source: words are left out, none is changed. Where leaving any out
could turn the meaning round (:mod:`meaning`), the clause is told as it was said or not at all, like code lines
and tool markers. Brackets and quotations stay whole or go whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from itertools import accumulate

from compaction_app import facts, meaning
from compaction_app.facts import BOUND, CONTENT, FILLER, FUNCTION, NEAR, TELLING, Word
from compaction_app.transcript import defuse

#: Between clauses of one speaker on a line; one token, and rare enough in what people write to be read back.
SEPARATOR = " · "
#: From the whole text (0) to its telling words (5).
LEVELS = range(6)
_WORD = re.compile(r"[^\s，、；：]+[，、；：]*\s*|[，、；：]+\s*")
#: Cells of a table that is written without spaces.
_CELLS = re.compile(r"[\d.:+-]+[,;|\t]")
#: "No silicone anywhere": a prohibition without any verb. Searched in lower case.
_PROHIBITION = re.compile(
    r"(?:\A|[,:] )(?:no|nobody|not) "
    r"(?!(?:idea|problem|worr(?:y|ies)|doubt|longer|matter|one|need|wonder|more|yet|sure|thanks|really)\b)"
    r"[a-z]{3,} [a-z]{2,}"
    r"|\bhands off\b|\bnot before\b|\bonly (?:reads?|works?|takes?|accepts?)\b"
)
_PAUSE = re.compile(r"[,;:.!?)，、；：。](?:\s|\Z)")

#: A clause with more telling words than this keeps the first and last of them in its shortest form.
_TELLING_KEPT = 12
#: Fewer words than this say nothing to whoever was not there.
_FEWEST_WORDS = 4
#: How many words before the first telling one are kept to say what it is told of.
_SUBJECT_WORDS = 2
#: How many words of a stated value are bound to their statement.
_VALUE_WORDS = 4
#: How many words of a rule are kept with its cue, and how many cues of one clause are looked at.
_WINDOW = 10
_CUES = 3
#: A rule of so few words is kept as it was said.
_SHORT_RULE = 7
#: "48 hours ahead", "40 cm deep": without them an amount is half told.
_DIRECTIONS = frozenset(
    "ahead ago later earlier early late before after long wide high deep tall thick old away".split()
)
#: What a number of a table counts, compared with one of a sentence.
_TABLE = 0.15
#: The weight of a quotation, a date or an amount as a whole.
_SPAN_WEIGHT = 3.0
#: How much more the further words of a name count: who was introduced in full is known by the first name alone
#: later, and then the rest would be lost.
_NAME_REST = 1.67
#: No clause of :mod:`sentences` is longer; what is was no sentence.
_AS_SAID_CHARS = 2000
#: A longer "word" is a dump or a text without spaces: its short forms show head and tail.
_WORD_CHARS = 300
_WORD_SHOWN = 120


@dataclass(slots=True)
class Clause:
    """One thing that was said, and which of its words may go."""

    text: str
    tokens: list[str]
    words: list[Word]
    strengths: list[int]
    #: States a rule, prohibition, constraint, decision or preference.
    firm: bool = False
    #: Code or a tool marker: kept or left out as it is.
    whole: bool = False
    #: Without one of its words it could say something else.
    as_said: bool = False
    _forms: dict[int, str] = field(default_factory=dict)

    @property
    def strongest(self) -> int:
        """The level of the shortest form that still says something: a name or a number alone does not."""
        if self.as_said:
            return 0
        if self.firm and BOUND in self.strengths:
            # The words of a rule are the rule.
            return BOUND
        enough = min(_FEWEST_WORDS, sum(strength >= CONTENT for strength in self.strengths))
        for level in reversed(LEVELS):
            if sum(strength >= level for strength in self.strengths) >= enough:
                return level
        return 0

    def shortened(self, level: int) -> str:
        """The words of strength ``level`` and more; the text itself at level 0."""
        if level == 0 or self.whole or self.as_said:
            return self.text
        if level not in self._forms:
            kept = [token for token, strength in zip(self.tokens, self.strengths, strict=True) if strength >= level]
            self._forms[level] = defuse(_trim("".join(kept)))
        return self._forms[level]


def read_clause(text: str, weigh: Callable[[str], Word], common: Container[str] = ()) -> Clause:
    """Judge the words of a clause. ``weigh`` is :func:`facts.weigh`, perhaps with a memory; ``common`` holds
    words that were seen in lower case: where a sentence begins with one, its capital says nothing."""
    tokens = _WORD.findall(text)
    if any(len(token) > _WORD_CHARS for token in tokens):
        tokens = [
            token if len(token) <= _WORD_CHARS or "/" in token else f"{clip(token, _WORD_SHOWN)} " for token in tokens
        ]
    words = [weigh(token) for token in tokens]
    if words and facts.is_name(tokens[0], words[0]):
        begins = Word(CONTENT, 0.3, words[0].norm) if words[0].norm in common else words[0]._replace(weight=0.8)
        words[0] = begins
    strengths = [word.strength for word in words]
    clause = Clause(text, tokens, words, strengths)
    clause.as_said = len(text) <= _AS_SAID_CHARS and meaning.keeps_all_words(text, [word.norm for word in words])
    _keep_spans_together(clause)
    _keep_neighbours(clause)
    _keep_subject(clause)
    _bridge(clause)
    for cue in _cues(text)[:_CUES]:
        clause.firm = True
        _keep_window(clause, *cue)
    _bound(clause)
    _keep_enclosed(clause)
    return clause


def _cues(text: str) -> list[tuple[int, int]]:
    """Where a rule, decision or preference shows itself; a question is none."""
    if text.endswith(("?", "？", "؟")):
        return []
    return [*facts.find_cues(text), *(match.span() for match in _PROHIBITION.finditer(text.lower()))]


def whole_clause(text: str, weight: float) -> Clause:
    """A tool marker or a line of code: one telling word, so to speak."""
    return Clause(text, [text], [Word(TELLING, weight, text.lower())], [TELLING], whole=True)


def keep_statement(clause: Clause, value_start: int) -> None:
    """Bind the words that say what a value is the value of, and the first words of the value."""
    position = kept = 0
    for i, token in enumerate(clause.tokens):
        in_value = position >= value_start
        if kept == _VALUE_WORDS:
            return
        if not in_value or clause.strengths[i] >= CONTENT:
            clause.strengths[i] = max(clause.strengths[i], BOUND)
            kept += in_value
        position += len(token)


def clip(text: str, limit: int) -> str:
    """Head and tail of ``text`` in at most ``limit`` characters, never cutting inside a joined emoji or
    accent."""
    if len(text) <= limit:
        return text
    if limit < 8:
        return text[: _loose(text, max(limit, 0))]
    tail = limit // 3
    start = len(text) - tail
    while start < len(text) and _joins(text[start]):
        start += 1
    return f"{text[: _loose(text, limit - tail - 1)].rstrip()}…{text[start:].lstrip()}"


def _joins(character: str) -> bool:
    return character in "\u200d\ufe0f" or "\u0300" <= character <= "\u036f" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _loose(text: str, end: int) -> int:
    while 0 < end < len(text) and (_joins(text[end]) or text[end - 1] == "\u200d"):
        end -= 1
    return end


def _trim(text: str) -> str:
    return text.strip(" ,;:，、；：")


def _keep_spans_together(clause: Clause) -> None:
    spans = facts.find_spans(clause.text)
    if not spans:
        return
    position = index = 0
    begun = -1
    for i, token in enumerate(clause.tokens):
        end = position + len(token.rstrip())
        while index < len(spans) and spans[index][1] <= position:
            index += 1
        if index < len(spans) and spans[index][0] < end:
            clause.strengths[i] = TELLING
            # A span is one thing told: its first word has the weight, the others what they have anyway.
            if begun != index:
                clause.words[i] = clause.words[i]._replace(weight=max(clause.words[i].weight, _SPAN_WEIGHT))
            begun = index
        position += len(token)


def _keep_enclosed(clause: Clause) -> None:
    """Half a bracket or quotation says nothing, and one without its middle something else: each is as strong as its
    strongest word."""
    position = index = 0
    spans, _ = meaning.enclosed(clause.text)
    inside: list[list[int]] = [[] for _ in spans]
    for i, token in enumerate(clause.tokens):
        end = position + len(token.rstrip())
        while index < len(spans) and spans[index][1] <= position:
            index += 1
        # One word may end a bracket and begin the next: they share their fate.
        for further in range(index, len(spans)):
            if spans[further][0] >= end:
                break
            inside[further].append(i)
        position += len(token)
    for _ in range(2):
        for members in inside:
            strongest = max((clause.strengths[i] for i in members), default=FILLER)
            for i in members:
                clause.strengths[i] = strongest


def _keep_neighbours(clause: Clause) -> None:
    """What a number counts, what a name is doing, and what a negation denies."""
    strengths, words = clause.strengths, clause.words
    for i, word in enumerate(words):
        if word.strength == BOUND:
            # "Every" tells nothing without what it is said of.
            _raise_next(strengths, i, 1, BOUND)
        if word.strength != TELLING:
            continue
        if facts.is_negation(word.norm):
            _raise_next(strengths, i, 2, TELLING)
            _raise_next(strengths, i, 1, NEAR, -1)
        elif word.norm[:1].isdigit() or word.norm[-1:].isdigit():
            # What a number counts stands right after it, and is worth as much as the number.
            if i + 1 < len(words) and strengths[i + 1] == CONTENT:
                strengths[i + 1] = TELLING
                if i + 2 < len(words) and words[i + 2].norm in _DIRECTIONS:
                    strengths[i + 2] = TELLING
            _raise_next(strengths, i, 1, BOUND, -1)
            _keep_bound_before(clause, i)
        else:
            _keep_name_links(clause, i)
            _raise_next(strengths, i, 1, NEAR)
            _raise_next(strengths, i, 1, NEAR, -1)


def _bridge(clause: Clause) -> None:
    """ "Ceremony at 14:00": one small word between two that stay costs a token and keeps them one phrase."""
    strengths = clause.strengths
    for i in range(1, len(strengths) - 1):
        stays = min(strengths[i - 1], strengths[i + 1])
        if strengths[i] == FUNCTION and stays == TELLING and not _PAUSE.search(clause.tokens[i - 1]):
            strengths[i] = stays


def _keep_bound_before(clause: Clause, at: int) -> None:
    """ "At most 25" is not 25: the words right before a number that bound it stay with it."""
    for i in range(at - 1, max(at - 4, -1), -1):
        if clause.words[i].strength == BOUND:
            start = i - 1 if i and clause.words[i - 1].norm == "at" else i
            clause.strengths[start:at] = [TELLING] * (at - start)
        elif clause.words[i].strength != FUNCTION:
            return


def _keep_subject(clause: Clause) -> None:
    """The words before the first telling one say what it is told of; a name or a number alone says
    nothing."""
    strengths = clause.strengths
    first = next((i for i, strength in enumerate(strengths) if strength == TELLING), None)
    if first is None:
        return
    before = [i for i in range(max(first - 6, 0), first) if strengths[i] >= CONTENT][-_SUBJECT_WORDS:]
    after = [i for i in range(first + 1, min(first + 9, len(strengths))) if CONTENT <= strengths[i] < TELLING]
    for i in before or after[:_SUBJECT_WORDS]:
        strengths[i] = TELLING


def _keep_name_links(clause: Clause, at: int) -> None:
    """Raise the small words between the word ``at`` and the next one with a capital."""
    for i in range(at + 1, min(at + 4, len(clause.words))):
        if clause.tokens[i][:1].isupper() and clause.tokens[at][:1].isupper():
            clause.strengths[at + 1 : i] = [TELLING] * (i - at - 1)
            clause.words[i] = clause.words[i]._replace(weight=clause.words[i].weight * _NAME_REST)
        if clause.words[i].norm not in facts.NAME_LINKS or _PAUSE.search(clause.tokens[i - 1]):
            return


def _raise_next(strengths: list[int], at: int, number: int, to: int, step: int = 1) -> None:
    """Raise the next ``number`` content words on one side, at most four words away."""
    for i in range(at + step, at + 5 * step, step):
        if not 0 <= i < len(strengths) or not number:
            return
        if strengths[i] >= CONTENT:
            strengths[i] = max(strengths[i], to)
            number -= 1


def _keep_window(clause: Clause, cue_start: int, cue_end: int) -> None:
    """The words that say what the rule is, as they were said: from its subject over its cue to the next pause."""
    starts = list(accumulate((len(token) for token in clause.tokens), initial=0))
    begin = max(bisect_right(starts, cue_start) - 1, 0)
    if len(clause.tokens) <= _SHORT_RULE:
        first, last = 0, len(clause.tokens)
    else:
        first = _subject_start(clause, begin)
        last = begin
        while last < len(clause.tokens) and last - first < _WINDOW:
            last += 1
            if starts[last] > cue_end and _PAUSE.search(clause.tokens[last - 1]):
                break
        while last > first and clause.strengths[last - 1] == FUNCTION and not _told_next(clause, last - 1):
            last -= 1
    for i in range(first, last):
        if clause.strengths[i] > FILLER:
            clause.strengths[i] = max(clause.strengths[i], BOUND)


def _subject_start(clause: Clause, at: int) -> int:
    """Where the two words before the cue begin, unless a pause is in between."""
    start, words = at, 0
    for i in range(at - 1, max(at - 5, -1), -1):
        if _PAUSE.search(clause.tokens[i]):
            break
        if clause.strengths[i] >= CONTENT:
            start, words = i, words + 1
            if words == _SUBJECT_WORDS:
                break
    return start


def _told_next(clause: Clause, at: int) -> bool:
    return at + 1 < len(clause.strengths) and clause.strengths[at + 1] == TELLING


def _bound(clause: Clause) -> None:
    """A clause full of telling words keeps the first and the last of them when it has to be short; a row of
    bare numbers is a table, and tells little."""
    numbers = sum(word.norm.replace(".", "").replace(",", "").isdigit() for word in clause.words)
    if numbers > _TELLING_KEPT // 2 and numbers > len(clause.words) // 2:
        clause.words = [word._replace(weight=word.weight * _TABLE) for word in clause.words]
    for i, word in enumerate(clause.words):
        if len(_CELLS.findall(clause.tokens[i])) > 3:
            clause.words[i] = word._replace(weight=word.weight * _TABLE)
    telling = [
        i for i, s in enumerate(clause.strengths) if s == TELLING and not facts.is_negation(clause.words[i].norm)
    ]
    if len(telling) > _TELLING_KEPT:
        for i in telling[_TELLING_KEPT - 4 : -4]:
            clause.strengths[i] = BOUND
