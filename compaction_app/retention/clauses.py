"""A clause and its shorter forms: what of it may go without saying something else.

Three things may go, and nothing else:

- words that add nothing ("really", "please"),
- the article "the" before a plain word, outside rules, names and quotations,
- at the end, a reason: joined by a comma and "because" or its like, after a main clause of some length. Told is then
  the beginning of the sentence, word for word but for those small words: no word comes to stand beside another
  clause's. Any other part may turn round what stands before it: "…, and you have to ask Priya first", "…, which Lena
  has to approve".

A clause in which anything is denied, limited, doubted or contrasted (:mod:`cautions`, :mod:`meaning`), one in a
language whose small words are not known, a line of code and a tool's marker are told as they were said or not at all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from compaction_app.messages.transcript import neutralize_tags
from compaction_app.retention import facts, meaning
from compaction_app.retention.cautions import is_cautioned
from compaction_app.retention.facts import BOUND, CONTENT, FILLER, FUNCTION, NEAR, TELLING, Word

#: Between clauses of one speaker on a line; one token, and rare enough in what people write to be read back.
SEPARATOR = " · "
#: From the whole text (0) over one without small words (2) to one without its last parts (5).
LEVELS = range(6)
#: How strong the reasons at the end of a clause are, the last one first. A clause has seldom more of them.
_PARTS = (CONTENT, NEAR, BOUND)
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
#: Where a reason begins.
_GOES_ON = re.compile(
    r",\s+(?:because|weil|denn|car|porque|perché|omdat|want|потому что|так как)\s|,\s+(?:parce qu|لأن)",
    re.IGNORECASE,
)
#: What is said after a name.
_LATER_PAUSE = re.compile(r"[,;:)—–]\s")
#: What begins like this leans on what follows.
_LEANS = re.compile(
    r"\A(?:when|while|as|since|because|once|after|before|given|both|between|first|on the one hand|als|wenn|weil|da|"
    r"nachdem|bevor|sowohl|quand|lorsque|puisque|comme|cuando|como|quando|siccome|poiché|toen|terwijl|zowel|когда|"
    r"так как)\b",
    re.IGNORECASE,
)
#: What stays when a part goes has so many spaces at least: a clause, not the first item of a list.
_SPACES_KEPT = 3
_ADDS_NOTHING = frozenset("really very literally honestly please kindly furthermore moreover".split())
#: Before these "the" makes a difference: "the few", "the same", "the day before".
_WITH_ARTICLE = frozenset(
    "few same other others more less most least only rest one ones first last next day week month year".split()
)

#: How many words of a stated value are bound to their statement.
_VALUE_WORDS = 4
#: What a number of a table counts, compared with one of a sentence, and how many numbers make a table.
_TABLE, _TABLE_NUMBERS = 0.15, 6
#: The weight of a quotation, a date or an amount as a whole.
_SPAN_WEIGHT = 3.0
#: How much more the further words of a name count: who was introduced in full is known by the first name alone
#: later, and then the rest would be lost.
_NAME_REST = 1.67
#: No clause of :mod:`sentences` is longer; what is was no sentence.
_AS_SAID_CHARS = 2000
#: A longer "word" is a dump: its short form shows head and tail.
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
        """The level of the shortest form."""
        return 0 if self.as_said or self.whole else TELLING

    def shortened(self, level: int) -> str:
        """The words of strength ``level`` and more; the text itself at level 0."""
        if level == 0 or self.whole or self.as_said:
            return self.text
        if level not in self._forms:
            kept = [token for token, strength in zip(self.tokens, self.strengths, strict=True) if strength >= level]
            self._forms[level] = neutralize_tags(_trim("".join(kept)))
        return self._forms[level]


def read_clause(text: str, weigh: Callable[[str], Word], common: Container[str] = ()) -> Clause:
    """Judge the words of a clause. ``weigh`` is :func:`facts.weigh`, perhaps with a memory; ``common`` holds
    words that were seen in lower case: where a sentence begins with one, its capital says nothing."""
    tokens = _WORD.findall(text)
    is_dump = any(len(token) > _WORD_CHARS for token in tokens)
    if is_dump:
        tokens = [
            token if len(token) <= _WORD_CHARS or "/" in token else f"{clip(token, _WORD_SHOWN)} " for token in tokens
        ]
    words = [weigh(token) for token in tokens]
    if words and facts.is_name(tokens[0], words[0]):
        begins = Word(CONTENT, 0.3, words[0].norm) if words[0].norm in common else words[0]._replace(weight=0.8)
        words[0] = begins
    clause = Clause(text, tokens, words, [TELLING] * len(tokens))
    cues = _cues(text)
    clause.firm = bool(cues)
    clause.as_said = len(text) <= _AS_SAID_CHARS and _keeps_all_words(text, words)
    spans = _weigh_spans(clause)
    _weigh_names(clause)
    _weigh_tables(clause)
    if not is_dump and not clause.as_said:
        _loosen_parts(clause, cues, spans)
        _loosen_words(clause, spans)
    return clause


def _keeps_all_words(text: str, words: Sequence[Word]) -> bool:
    return is_cautioned(text) or meaning.keeps_all_words(text, [word.norm for word in words])


def _cues(text: str) -> list[tuple[int, int]]:
    """Where a rule, decision or preference shows itself; a question is none."""
    if text.endswith(facts.QUESTION_MARKS):
        return []
    lower = text.lower()
    return [*facts.find_cues(lower), *(match.span() for match in _PROHIBITION.finditer(lower))]


def whole_clause(text: str, weight: float) -> Clause:
    """A tool marker or a line of code: one telling word, so to speak."""
    return Clause(text, [text], [Word(TELLING, weight, text.lower())], [TELLING], whole=True)


def keep_statement(clause: Clause, value_start: int) -> None:
    """Bind the words that say what a value is the value of, and the first words of the value."""
    position = kept = end = 0
    for i, token in enumerate(clause.tokens):
        if kept == _VALUE_WORDS:
            break
        kept += position >= value_start
        position += len(token)
        end = i + 1
    # With a word its whole part stays, and what is before that.
    loosest = min((s for s in clause.strengths[:end] if s > FUNCTION), default=TELLING)
    clause.strengths[:] = [
        TELLING if i < end or strength >= loosest else strength for i, strength in enumerate(clause.strengths)
    ]


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


def _weigh_spans(clause: Clause) -> list[tuple[int, int]]:
    """Where dates, amounts, quotations and brackets stand. A date is one thing told: its first word has the weight."""
    spans = facts.find_spans(clause.text)
    position = index = 0
    begun = -1
    for i, token in enumerate(clause.tokens) if spans else ():
        end = position + len(token.rstrip())
        while index < len(spans) and spans[index][1] <= position:
            index += 1
        if index < len(spans) and spans[index][0] < end:
            if begun != index:
                clause.words[i] = clause.words[i]._replace(weight=max(clause.words[i].weight, _SPAN_WEIGHT))
            begun = index
        position += len(token)
    return sorted([*spans, *meaning.enclosed(clause.text)[0]])


def _weigh_names(clause: Clause) -> None:
    """The further words of a name count more."""
    for at, word in enumerate(clause.words):
        if word.strength != TELLING or not clause.tokens[at][:1].isupper():
            continue
        for i in range(at + 1, min(at + 4, len(clause.words))):
            if clause.tokens[i][:1].isupper():
                clause.words[i] = clause.words[i]._replace(weight=clause.words[i].weight * _NAME_REST)
            if clause.words[i].norm not in facts.NAME_LINKS or _LATER_PAUSE.search(clause.tokens[i - 1]):
                break


def _weigh_tables(clause: Clause) -> None:
    """A row of bare numbers is a table, and tells little."""
    if not facts.has_digit(clause.text):
        return
    numbers = sum(word.norm.replace(".", "").replace(",", "").isdigit() for word in clause.words)
    is_table = numbers > max(_TABLE_NUMBERS, len(clause.words) // 2)
    for i, word in enumerate(clause.words):
        if is_table or len(_CELLS.findall(clause.tokens[i])) > 3:
            clause.words[i] = word._replace(weight=word.weight * _TABLE)


def _loosen_parts(clause: Clause, cues: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> None:
    starts = _part_starts(clause.text, cues, spans)
    position = 0
    for i, token in enumerate(clause.tokens) if starts else ():
        part = bisect_right(starts, position)
        from_end = len(starts) - part
        if part and from_end < len(_PARTS):
            clause.strengths[i] = _PARTS[from_end]
        position += len(token)


def _part_starts(text: str, cues: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Where parts begin that may go together with all behind them. A question would go on as a statement."""
    if "," not in text or text.endswith(facts.QUESTION_MARKS) or _LEANS.match(text):
        return []
    last_cue = max((start for start, _ in cues), default=-1)
    return [
        match.start() + 1
        for match in _GOES_ON.finditer(text)
        if match.start() > last_cue
        and text.count(" ", 0, match.start()) >= _SPACES_KEPT
        and not any(start <= match.start() < end for start, end in spans)
    ]


def _loosen_words(clause: Clause, spans: Sequence[tuple[int, int]]) -> None:
    position = 0
    for i, token in enumerate(clause.tokens):
        norm = clause.words[i].norm
        strength = clause.strengths[i]
        # A mark on a word belongs to its sentence.
        if norm in _ADDS_NOTHING and token.strip().isalpha():
            strength = FILLER
        elif norm == "the" and not clause.firm and _is_plain_next(clause, i):
            strength = FUNCTION
        end_of_token = position + len(token)
        if strength != clause.strengths[i] and not any(a < end_of_token and position < b for a, b in spans):
            clause.strengths[i] = strength
        position = end_of_token


def _is_plain_next(clause: Clause, at: int) -> bool:
    following = clause.tokens[at + 1].strip() if at + 1 < len(clause.tokens) else ""
    return following[:1].islower() and clause.words[at + 1].norm not in _WITH_ARTICLE
