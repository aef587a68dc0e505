"""Text into clauses: sentences, and parts of sentences where a part stands by itself.

Regular expressions and a list of abbreviations: fast, the same everywhere, and for any script that marks
where its sentences end.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from compaction_app import facts, meaning

_FENCE = re.compile(r"\s*(?:```|~~~)")
# A dash that no space follows is a minus or an option; "12. März" is a date, not the twelfth item.
_MARKUP = re.compile(
    r"\A(?:\s+|>+\s*|\|\s*|[#*+\-–•·▪]+\s+|\[[ xX]\]\s+"
    r"|\(?\d{1,2}[.)]\s+(?!(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)))+"
)
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*|__(?=\S)([^_\n]+?)(?<=\S)__(?!\w)")
_RULE_LINE = re.compile(r"[\s|:=_*\-+~`#>.]*\Z")
_WRAPPED = re.compile(r"(?m)^(.{48,}[\w,])\n(?=[a-z][a-z]+ [a-z])")
_ENDS = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]»]*\s+|[。！？｡؟۔।॥]+[\"'”’」』）)]*\s*|;\s+|；|\s·\s|\s[—–]\s")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie no nr fig al approx ca cf dept est inc ltd co corp "
    "jan feb mar apr jun jul aug sep sept oct nov dec z.b d.h bzw usw ggf str art p.ej sra av".split()
)
_STATEMENTS = re.compile(
    r"(?:,\s+(?:and\s+|but\s+)?|\s+and\s+)"
    r"(?=(?:the|my|our|his|her|their|its|your)\s+(?:[\w'’-]+\s+){1,4}(?:is|are|will be|must|should|=)\s"
    r"|(?:they|we|you|i|he|she)\s+"
    r"(?:must|should|shall|never|always|prefers?|do not|don['’]t|cannot|can['’]t)\s)",
    re.IGNORECASE,
)
_JOINTS = re.compile(
    r",\s+(?=(?:but|so|and|which|while|because|then|however|although)\s)|\s+\(|,\s+\""
    r"|,\s+(?=(?:the|an?|my|our|his|her|their|its|this|that|these|those|it|he|she|we|they|you|i)\s)|:\s+(?=\w)",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\A(?:if|unless|when|whenever|in case|wenn|falls|si|cuando|если)\b", re.IGNORECASE)
_OPENER = re.compile(r"\A(?:by the way|btw|fyi|oh|also|well|anyway|okay|ok)\b[,:;]*\s+(?=\S)", re.IGNORECASE)
_CLOSER = re.compile(r",?\s+(?:by the way|btw|though|please|thanks|thank you|as well|too)[.!]*\Z", re.IGNORECASE)

#: After these a negation before them has ended.
_CONTRAST = re.compile(r",\s+(?:but|so|because|although|however)\s", re.IGNORECASE)
#: A bracket or quotation of more characters is a text of its own, divided like any other.
_ENCLOSED_CHARS = 240
#: Words that follow themselves so often were not said but written by a machine; up to so many at a time.
_FEWEST_TIMES, _LONGEST_REPEAT = 3, 24
#: A negation further away has nothing to do with what follows.
_TURNED_CHARS = 240
#: So many characters before a cut no negation may stand, or it would lose what it denies.
_DENIED_CHARS = 60
#: A sentence with more words is divided at its joints, and one with more characters even where it has none.
_LONG_CLAUSE_WORDS = 20
_LONG_CLAUSE_CHARS = 600
#: What is divided at a joint must leave so many spaces on either side: a part too short is not understood.
_WORDS_BEFORE_JOINT, _WORDS_AFTER_JOINT = 5, 4
#: A longer line inside a code block is no code: the block was never closed.
_CODE_CHARS = 200


def split_clauses(text: str) -> Iterator[tuple[str, bool]]:
    """(clause, is code) in order: sentences, and parts of sentences where a part stands by itself."""
    in_code = False
    lead = ""
    lines = _WRAPPED.sub(r"\1 ", text).splitlines() if "\n" in text else [text]
    for number, line in enumerate(lines):
        if _FENCE.match(line) and line.count("```") % 2 == 1:
            in_code = not in_code
            # What follows a closing fence on its line is prose; after an opening one stands a language.
            prose = line.strip(" `~")
            yield from ((clause, False) for clause in _clauses("" if in_code and " " not in prose else prose))
        elif in_code and len(line) <= _CODE_CHARS:
            if line.strip():
                yield " ".join(line.split()), True
        elif not _RULE_LINE.match(line):
            item = _MARKUP.sub("", line)
            prose = _BOLD.sub(r"\1\2", " ".join(item.split()))
            is_item = len(item) != len(line)
            if _is_lead(prose) and _item_follows(lines, number):
                lead = prose
                continue
            yield from ((clause, False) for clause in _clauses(f"{lead} {prose}" if lead and is_item else prose))
            lead = lead if is_item else ""


def _is_lead(prose: str) -> bool:
    """The line before a list, repeated on each item where an item alone would say the opposite: "Never:"."""
    words = prose.rstrip(":：").split() if prose.endswith((":", "：")) else []
    return 0 < len(words) <= 8 and any(facts.is_negation(word.strip("*,.").lower()) for word in words)


def _item_follows(lines: list[str], number: int) -> bool:
    following = next((line for line in lines[number + 1 : number + 3] if line.strip()), "")
    return _MARKUP.match(following) is not None


def _clauses(prose: str) -> Iterator[str]:
    for sentence in _sentences(_said_once(prose)):
        for part in _statements(sentence):
            for piece in _divide(part) if part.count(" ") > _LONG_CLAUSE_WORDS else (part,):
                yield from _cut(piece) if len(piece) > _LONG_CLAUSE_CHARS else (piece,)


def _said_once(prose: str) -> str:
    """A log or a copied line without punctuation says the same words over and over: they are told once."""
    words = prose.split(" ")
    if len(words) < 2 * _FEWEST_TIMES or len(set(words)) * 2 > len(words):
        return prose
    kept: list[str] = []
    at = 0
    while at < len(words):
        period = next((n for n in range(2, _LONGEST_REPEAT) if _times(words, at, n) >= _FEWEST_TIMES), 0)
        kept += words[at : at + (period or 1)]
        at += period * _times(words, at, period) if period else 1
    return " ".join(kept)


def _times(words: list[str], at: int, period: int) -> int:
    """How often the ``period`` words at ``at`` stand there one after the other."""
    last = at + (_FEWEST_TIMES - 1) * period
    # Nearly always one look is enough; whatever is sent in one line has to be read in reasonable time.
    if last >= len(words) or not words[at] == words[at + period] == words[last]:
        return 1
    first, times = words[at : at + period], 1
    if len(set(first)) == 1:
        return 1
    while words[at + times * period : at + (times + 1) * period] == first:
        times += 1
    return times


def _is_inside(at: int, spans: list[tuple[int, int]]) -> bool:
    before = bisect_left(spans, (at, 0))
    return before > 0 and at < spans[before - 1][1]


def _enclosures(text: str) -> list[tuple[int, int]]:
    """Where no sentence ends: brackets and quotations, unless one is so long that it is a text of its own."""
    return [(start, end) for start, end in meaning.enclosed(text)[0] if end - start <= _ENCLOSED_CHARS]


def _turns_round(text: str, start: int = 0, end: int | None = None) -> bool:
    end = len(text) if end is None else end
    near = text[max(start, end - _TURNED_CHARS) : end]
    return meaning.turns_round(near, [facts.weigh(token).norm for token in near.split()])


def _sentences(prose: str) -> Iterator[str]:
    start = 0
    spans = _enclosures(prose)
    for match in _ENDS.finditer(prose):
        if not _is_inside(match.start(), spans) and _ends_sentence(prose, start, match):
            yield from _nonempty(prose[start : match.end()])
            start = match.end()
    yield from _nonempty(prose[start:])


def _nonempty(piece: str) -> Iterator[str]:
    piece = _CLOSER.sub("", _OPENER.sub("", piece.strip(" ·;；|")))
    if piece.endswith((".", "。", "۔", "।")) and not piece.endswith(".."):
        piece = piece[:-1]
    if any(character.isalnum() or ord(character) > 0x2000 for character in piece):
        yield piece


def _ends_sentence(prose: str, start: int, match: re.Match[str]) -> bool:
    end = match.group()
    if end.startswith((" —", " –", ";", "\u00a0")) or (end[0].isspace() and "·" not in end):
        # A dash or semicolon divides two statements, not a word and its remark, nor a "never" and what it forbids.
        if not end.startswith(";") and _turns_round(prose, start, match.start()):
            return False
        return prose.count(" ", start, match.start()) >= 3 and prose.count(" ", match.end(), match.end() + 80) >= 2
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
    parts, start = [], 0
    spans = _enclosures(sentence)
    for match in _STATEMENTS.finditer(sentence):
        # "It is not true that the pump runs and the valve is open" says that neither is.
        denied = not match.group().startswith(",") and _turns_round(sentence, start, match.start())
        if not denied and not _is_inside(match.start(), spans):
            parts.append(sentence[start : match.start()])
            start = match.end()
    return [part for part in [*parts, sentence[start:]] if part]


def _divide(sentence: str) -> Iterator[str]:
    """A very long sentence at its joints; parts too short to be understood stay with the part before."""
    if _CONDITION.match(sentence):
        yield sentence
        return
    start = 0
    spans = _enclosures(sentence)
    for match in _JOINTS.finditer(sentence):
        if _is_inside(match.start(), spans):
            continue
        if not _CONTRAST.match(match.group() + sentence[match.end() : match.end() + 10]) and _turns_round(
            sentence, start, match.start()
        ):
            continue
        if (
            sentence.count(" ", start, match.start()) >= _WORDS_BEFORE_JOINT
            and sentence.count(" ", match.end(), match.end() + 120) >= _WORDS_AFTER_JOINT
        ):
            yield sentence[start : match.start()].strip()
            start = match.end() - (1 if match.group().endswith(("(", '"')) else 0)
    yield sentence[start:].strip()


def _cut(piece: str) -> Iterator[str]:
    """What no sentence should be: a list or a dump of thousands of words, in parts that can be chosen
    from."""
    start = 0
    while len(piece) - start > _LONG_CLAUSE_CHARS:
        limit = start + _LONG_CLAUSE_CHARS // 2
        end = max(piece.rfind(mark, start + 60, limit) + 1 for mark in (", ", "，", "、", "；")) or (
            _before_small_word(piece, start + 60, piece.rfind(" ", start + 60, limit) + 1)
        )
        if end and (said := _last_turn(piece, start, end)) > start:
            end = said
        if not end:
            # One endless word: it is clipped, not cut.
            end = piece.find(" ", limit) + 1 or len(piece)
        yield piece[start:end].strip()
        start = end
    yield from _nonempty(piece[start:])


def _before_small_word(piece: str, start: int, end: int) -> int:
    """A cut at ``end``, or a few words before it where it would part "at" from what is there."""
    at = end
    for _ in range(3):
        at = piece.rfind(" ", start, at - 1) + 1 if at > start else 0
        if at and facts.weigh(piece[at:end].split(" ", maxsplit=1)[0]).strength == facts.FUNCTION:
            return at
    return end


def _last_turn(piece: str, start: int, end: int) -> int:
    """Where the first word begins that turns round what stands right before a cut, or 0."""
    at = piece.rfind(" ", start, max(end - _DENIED_CHARS, start)) + 1
    for token in piece[at:end].split() if at else []:
        at = piece.index(token, at)
        if _turns_round(token):
            return at
        at += len(token)
    return 0
