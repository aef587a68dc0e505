"""Text into clauses, and a clause into shorter and shorter forms of itself.

A shortened clause is an in-order part of its source: words are left out, none is changed, and a negation is never
left out of a clause that stays. Code lines and tool markers are kept or left out whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from compaction_app import facts
from compaction_app.facts import BOUND, CONTENT, FUNCTION, NEAR, TELLING, Word
from compaction_app.transcript import defuse

#: Between clauses of one speaker on a line; one token, and rare enough in what people write to be read back.
SEPARATOR = " · "
#: From the whole text (0) to its telling words (5).
LEVELS = range(6)

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MARKUP = re.compile(r"\A(?:[#>*+\-–•·▪|\s]+(?=\s|\w)|\(?\d{1,2}[.)]\s+|\[[ xX]\]\s+)+")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*|__(?=\S)([^_\n]+?)(?<=\S)__(?!\w)")
_RULE_LINE = re.compile(r"[\s|:=_*\-+~`#>.]*\Z")
_WRAPPED = re.compile(r"(?m)^(.{48,}[\w,])\n(?=[a-z][a-z]+ [a-z])")
_ENDS = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”’)\]»]*\s+|[。！？｡؟۔।॥]+[\"'”’」』）)]*\s*|;\s+|；|\s·\s|\s[—–]\s"
)
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie no nr fig al approx ca cf dept est inc ltd co corp jan feb mar "
    "apr jun jul aug sep sept oct nov dec z.b d.h bzw usw ggf str art p.ej sra av".split()
)
_STATEMENTS = re.compile(
    r"(?:,\s+(?:and\s+|but\s+)?|\s+and\s+)"
    r"(?=(?:the|my|our|his|her|their|its|your)\s+(?:[\w'’-]+\s+){1,4}(?:is|are|will be|must|should|=)\s)",
    re.IGNORECASE,
)
_JOINTS = re.compile(r",\s+(?=(?:but|so|and|which|while|because|then|however|although|or)\s)|\s+\(|,\s+\"")
_CONDITION = re.compile(r"\A(?:if|unless|when|whenever|in case|wenn|falls|si|cuando|если)\b", re.IGNORECASE)
_OPENER = re.compile(r"\A(?:by the way|btw|fyi|oh|also|well|anyway|okay|ok)\b[,:;]*\s+(?=\S)", re.IGNORECASE)
_CLOSER = re.compile(
    r",?\s+(?:by the way|btw|though|please|thanks|thank you|as well|too)[.!]*\Z", re.IGNORECASE
)
_WORD = re.compile(r"[^\s，、；：]+[，、；：]*\s*|[，、；：]+\s*")
_PAUSE = re.compile(r"[,;:.!?)，、；：。](?:\s|\Z)")

#: A clause with more words is divided at its joints, and one with more telling words keeps the first and last.
_LONG_CLAUSE_WORDS = 40
_LONG_CLAUSE_CHARS = 600
_TELLING_KEPT = 12
_WORD_CHARS = 300
_CODE_CHARS = 200
_FEWEST_WORDS = 4
_SUBJECT_WORDS = 2
_VALUE_WORDS = 4
_TABLE = 0.15
_SPAN_WEIGHT = 3.0
_NAME_REST = 0.6
#: How many words after a cue of a rule are kept with it.
_WINDOW = 7


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
    _forms: dict[int, str] = field(default_factory=dict)

    @property
    def strongest(self) -> int:
        """The level of the shortest form that still says something: a name or a number alone does not."""
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
        if level == 0 or self.whole:
            return self.text
        if level not in self._forms:
            kept = [
                token
                for token, strength in zip(self.tokens, self.strengths, strict=True)
                if strength >= level
            ]
            self._forms[level] = defuse(_trim("".join(kept)))
        return self._forms[level]


def split_clauses(text: str) -> Iterator[tuple[str, bool]]:
    """(clause, is code) in order: sentences, and parts of sentences where a part stands by itself."""
    in_code = False
    lead = ""
    for line in _WRAPPED.sub(r"\1 ", text).splitlines() if "\n" in text else [text]:
        if _FENCE.match(line) and line.count("```") % 2 == 1:
            in_code = not in_code
            # What follows the closing fence on its line is prose again; after an opening one stands a language.
            prose = line.strip(" `~")
            yield from ((clause, False) for clause in _clauses("" if in_code and " " not in prose else prose))
        elif in_code and len(line) <= _CODE_CHARS:
            if line.strip():
                yield " ".join(line.split()), True
        elif not _RULE_LINE.match(line):
            item = _MARKUP.sub("", line)
            prose = _BOLD.sub(r"\1\2", " ".join(item.split()))
            is_item = len(item) != len(line)
            yield from (
                (clause, False) for clause in _clauses(f"{lead} {prose}" if lead and is_item else prose)
            )
            lead = _lead(prose) if prose.endswith((":", "：")) else (lead if is_item else "")


def read_clause(text: str, weigh: Callable[[str], Word], common: Container[str] = ()) -> Clause:
    """Judge the words of a clause. ``weigh`` is :func:`facts.weigh`, perhaps with a memory; ``common`` holds words
    that were seen in lower case: where a sentence begins with one, its capital says nothing."""
    tokens = _WORD.findall(text)
    if any(len(token) > _WORD_CHARS for token in tokens):
        tokens = [
            token if len(token) <= _WORD_CHARS or "/" in token else f"{clip(token, 120)} " for token in tokens
        ]
    words = [weigh(token) for token in tokens]
    if words and facts.is_name(tokens[0], words[0]):
        begins = (
            Word(CONTENT, 0.3, words[0].norm) if words[0].norm in common else words[0]._replace(weight=0.8)
        )
        words[0] = begins
    strengths = [word.strength for word in words]
    clause = Clause(text, tokens, words, strengths)
    _keep_spans_together(clause)
    _keep_neighbours(clause)
    _keep_subject(clause)
    cue = facts.find_cue(text)
    if cue and not text.endswith(("?", "？")):
        clause.firm = True
        _keep_window(clause, cue)
    _bound(clause)
    return clause


def whole_clause(text: str, weight: float) -> Clause:
    """A tool marker or a line of code: one telling word, so to speak."""
    return Clause(text, [text], [Word(TELLING, weight, text.lower())], [TELLING], whole=True)


def clip(text: str, limit: int) -> str:
    """Head and tail of ``text`` in at most ``limit`` characters, never cutting inside a joined emoji or accent."""
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
    return (
        character in "\u200d\ufe0f"
        or "\u0300" <= character <= "\u036f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def _loose(text: str, end: int) -> int:
    while 0 < end < len(text) and (_joins(text[end]) or text[end - 1] == "\u200d"):
        end -= 1
    return end


def _trim(text: str) -> str:
    return text.strip(" ,;:，、；：")


def _lead(prose: str) -> str:
    """The line before a list, repeated on each item where an item alone would say the opposite: "Never:"."""
    words = prose.rstrip(":：").split()
    negated = any(facts.is_negation(word.strip("*,.").lower()) for word in words)
    return prose if negated and len(words) <= 8 else ""


def _clauses(prose: str) -> Iterator[str]:
    for sentence in _sentences(prose):
        for part in _statements(sentence):
            for piece in _divide(part) if part.count(" ") > _LONG_CLAUSE_WORDS else (part,):
                yield from _cut(piece) if len(piece) > _LONG_CLAUSE_CHARS else (piece,)


def _sentences(prose: str) -> Iterator[str]:
    start = 0
    for match in _ENDS.finditer(prose):
        if _ends_sentence(prose, start, match):
            yield from _nonempty(prose[start : match.end()])
            start = match.end()
    yield from _nonempty(prose[start:])


def _nonempty(piece: str) -> Iterator[str]:
    piece = _CLOSER.sub("", _OPENER.sub("", piece.strip(" ·;；")))
    if piece.endswith(".") and not piece.endswith(".."):
        piece = piece[:-1]
    if any(character.isalnum() or ord(character) > 0x2000 for character in piece):
        yield piece


def _ends_sentence(prose: str, start: int, match: re.Match[str]) -> bool:
    end = match.group()
    if end.startswith((" —", " –", ";", "\u00a0")) or (end[0].isspace() and "·" not in end):
        # A dash or semicolon divides two statements, not a word and its remark.
        return (
            prose.count(" ", start, match.start()) >= 3
            and prose.count(" ", match.end(), match.end() + 80) >= 2
        )
    if not end.startswith(".") or end.startswith(".."):
        return True
    before = max(prose.rfind(" ", start, match.start()) + 1, start)
    last = prose[before : match.start()].strip("(\"'").lower()
    is_number_of_item = last.isdigit() and len(last) < 3 and before == start
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or is_number_of_item)


def _statements(sentence: str) -> list[str]:
    """ "My name is Ana and my budget is 3,000" tells two things, of which one may later be superseded."""
    if _CONDITION.match(sentence):
        return [sentence]
    return [part for part in _STATEMENTS.split(sentence) if part]


def _divide(sentence: str) -> Iterator[str]:
    """A very long sentence at its joints; parts too short to be understood stay with the part before."""
    if _CONDITION.match(sentence):
        yield sentence
        return
    start = 0
    for match in _JOINTS.finditer(sentence):
        if (
            sentence.count(" ", start, match.start()) >= 8
            and sentence.count(" ", match.end(), match.end() + 120) >= 5
        ):
            yield sentence[start : match.start()].strip()
            start = match.end() - (1 if match.group().endswith(("(", '"')) else 0)
    yield sentence[start:].strip()


def _cut(piece: str) -> Iterator[str]:
    """What no sentence should be: a list or a dump of thousands of words, in parts that can be chosen from."""
    start = 0
    while len(piece) - start > _LONG_CLAUSE_CHARS:
        limit = start + _LONG_CLAUSE_CHARS // 2
        end = max(piece.rfind(mark, start + 60, limit) + 1 for mark in (", ", "，", "、", "；")) or (
            piece.rfind(" ", start + 60, limit) + 1
        )
        if not end:
            # One endless word: it is clipped, not cut.
            end = piece.find(" ", limit) + 1 or len(piece)
        yield piece[start:end].strip()
        start = end
    yield from _nonempty(piece[start:])


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


def _keep_neighbours(clause: Clause) -> None:
    """What a number counts, what a name is doing, and what a negation denies."""
    strengths, words = clause.strengths, clause.words
    for i, word in enumerate(words):
        if word.strength != TELLING:
            continue
        if facts.is_negation(word.norm):
            _raise_next(strengths, i, 2, TELLING)
            _raise_next(strengths, i, 1, NEAR, -1)
        elif word.norm[:1].isdigit() or word.norm[-1:].isdigit():
            # What a number counts stands right after it, and is worth as much as the number.
            if i + 1 < len(words) and strengths[i + 1] == CONTENT:
                strengths[i + 1] = TELLING
            _raise_next(strengths, i, 1, BOUND, -1)
        else:
            _keep_name_links(clause, i)
            _raise_next(strengths, i, 1, NEAR)
            _raise_next(strengths, i, 1, NEAR, -1)


def _keep_subject(clause: Clause) -> None:
    """The words before the first telling one say what it is told of; a name or a number alone says nothing."""
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
            # The words of a name are one name.
            clause.words[i] = clause.words[i]._replace(weight=min(clause.words[i].weight, _NAME_REST))
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


def _keep_window(clause: Clause, cue: re.Match[str]) -> None:
    """The words that say what the rule is: from its cue to the next pause, and the subject before it."""
    position = 0
    first = -1
    taken: list[int] = []
    for i, token in enumerate(clause.tokens):
        if position + len(token.rstrip()) > cue.start() and len(taken) < _WINDOW:
            first = i if first < 0 else first
            if clause.strengths[i] >= FUNCTION:
                taken.append(i)
            if position > cue.end() and _PAUSE.search(token):
                break
        position += len(token)
    while taken and clause.strengths[taken[-1]] == FUNCTION and not _told_next(clause, taken[-1]):
        taken.pop()
    for i in taken:
        clause.strengths[i] = max(clause.strengths[i], BOUND)
    _raise_next(clause.strengths, first, 2, BOUND, -1)


def _told_next(clause: Clause, at: int) -> bool:
    return at + 1 < len(clause.strengths) and clause.strengths[at + 1] == TELLING


def _bound(clause: Clause) -> None:
    """A clause full of telling words keeps the first and the last of them when it has to be short; a row of bare
    numbers is a table, and tells little."""
    numbers = sum(word.norm.replace(".", "").replace(",", "").isdigit() for word in clause.words)
    if numbers > _TELLING_KEPT // 2 and numbers > len(clause.words) // 2:
        clause.words = [word._replace(weight=word.weight * _TABLE) for word in clause.words]
    telling = [
        i
        for i, s in enumerate(clause.strengths)
        if s == TELLING and not facts.is_negation(clause.words[i].norm)
    ]
    if len(telling) > _TELLING_KEPT:
        for i in telling[_TELLING_KEPT - 4 : -4]:
            clause.strengths[i] = BOUND


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
