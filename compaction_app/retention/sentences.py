"""Text into clauses: sentences, and parts of sentences where a part stands by itself.

Regular expressions and a list of abbreviations: fast, the same everywhere, and for any script that marks
where its sentences end. A part may be told without the others, so a sentence is only divided where none of its parts
denies, limits or doubts another (:mod:`cautions`), and a sentence that takes back the one before it stays with it.
What begins with "he" or "it" is not divided off either: alone it would speak of somebody else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from compaction_app.retention import facts, meaning
from compaction_app.retention.cautions import is_cautioned, is_reply, takes_back
from compaction_app.retention.outlines import Outline, is_heading, is_item

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MONTH = r"(?:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|des|dec)"
# A dash that no space follows is a minus or an option; "12. März" and "5. 6." are dates, "- 5 °C" and "> 80" are
# amounts, and a box that is ticked or not is what an item says.
_MARKUP = re.compile(
    r"\A(?:\s+|>++(?!=|\s*\d)\s*|\|\s*|(?![+\-–]\s+\d[\d.,]*\s*(?:°|℃|%))[#*+\-–•·▪]+\s+"
    rf"|\(?\d{{1,2}}[.)]\s+(?!(?i:{_MONTH})|\d{{1,2}}\.\s))+"
)
_NUMBERED = re.compile(r"\s*(\(?\d{1,2}[.)])\s+(?=\S)")
_NUMBERED_LINES = re.compile(r"(?m)^\s*\(?\d{1,2}[.)]\s")
#: What of a numbered list is as short as this may answer the question of its number.
_ANSWER_WORDS = 3
# Marks of bold print stand outside words; ``__init__``, ``2**10``, ``f(**options)`` and ``src/**/*.ts`` are no print.
_BOLD = re.compile(
    r"(?P<code>`[^`\n]+`)"
    r"|(?<![\w(/.*\\])(?:\*\*(?=[^\s*])(?P<stars>[^*\n`=/\\_+<>|]+)(?<=\S)\*\*"
    r"|__(?=[^\s_])(?P<lines>[^_\n`=/\\*+<>|]+ [^_\n`=/\\*+<>|]+)(?<=\S)__)(?![\w(/*]|\.\w)"
)
_RULE_LINE = re.compile(r"[\s|:=_*\-+~`#>.]*\Z")
_WRAPPED = re.compile(r"(?m)^(.{48,}[\w,])\n(?=[a-z][a-z]+ [a-z])")
#: A heading of Markdown is also a line that is underlined.
_UNDERLINED = re.compile(r"(?m)^([^\W\d_].{0,80})\n(?:={3,}|-{3,})[ \t]*$")
_ENDS = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]»]*\s+|[。！？｡؟۔।॥]+[\"'”’」』）)]*\s*|\s·\s")
#: Where two statements of one sentence may stand apart; a dash after a word or before a remark divides none.
_APART = re.compile(r";\s+|；|\s[—–]\s")
#: "z.B", "d.w.z", "i.d.R": letters with dots between them.
_DOTTED = re.compile(r"(?![ap]\.m\Z)[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")
_ELISION = re.compile(r"\A(?:l|d|un|qu|all|dell|dall|nell|sull)['’]")
#: No ordinal has more digits: "1945." ends its sentence.
_ORDINAL_DIGITS = 2
_ABBREVIATIONS = frozenset(
    # English
    "mr mrs ms messrs dr prof rev hon gen col sgt capt lt st sr jr vs etc e.g i.e eg ie no nos nr fig figs al approx "
    "ca cf dept est inc ltd co corp bros ave blvd rd apt mt ft vol ph.d tel ext incl excl jan feb mar apr jun jul aug "
    "sep sept oct nov dec "
    # German, Dutch
    "z.b d.h u.a o.ä u.ä i.d.r z.t v.a s.o s.u bzw usw ggf evtl str art fa hr hrn fr bspw inkl exkl zzgl bzgl vgl "
    "abs abb bd gem mio mrd jh geb gest dipl ing hll tgl dez okt dhr mevr mw drs ir bijv bv d.w.z o.a m.b.t t.a.v "
    "i.v.m blz enz "
    # French
    "m mm mme mmes mlle mlles av bd env ex p.ex c.-à-d chap tél janv févr avr juil déc n° "
    # Spanish, Portuguese, Italian
    "sra srta sres dra ud uds vd vds p.ej ej pág págs núm aprox lic avda cía ee.uu profa eng sig sigg sig.ra sig.na "
    "dott dott.ssa avv pag ecc es gent egr spett "
    # Russian
    "ул тыс млн млрд руб коп т.е т.д т.п т.к т.н др пр им см рис табл проф доц акад гл стр тел обл пос "
    # Scandinavian: the commonest
    "f.eks bl.a osv dvs kl tlf mvh ekskl t.ex m.m o.s.v".split()
)
#: After these a number with a dot is an ordinal: "am 3. Mai", "im 2. Stock", "den 5. juni".
_BEFORE_ORDINAL = frozenset(
    "am im vom zum beim dem den der die das des ins ein eine einen einem einer eines seit ab bis jeder jede jeden "
    "jedem ihr ihre ihren ihrem sein seine seinen seinem mein meine meinen meinem unser unsere unseren unserem dieser "
    "diese diesen diesem nächsten letzten zur und oder på til fra før etter innen efter inden till från före de "
    "het op bij tot montag dienstag mittwoch donnerstag freitag samstag sonntag".split()
)
_AFTER_ORDINAL = re.compile(
    rf"[^\W\d_A-Z]|(?i:{_MONTH})|(?:Stock|Etage|Klasse|Platz|Quartal|Jahrhundert|Juli|Juni)|(?:1[0-2]|0?[1-9])\.(?:\W|\Z)"
)
#: "5.6. um": a day and its month, and "VIII. hatte": a name with a number, where a small letter follows.
_DAY_OR_RANK = re.compile(r"\d{1,2}\.\d{1,2}|[IVXLC]+")
_YEAR = re.compile(r"\d{4}\b")
#: "My name is Ana" and "my budget is 3,000" are two statements of which one may be superseded later; any other "and"
#: may turn round what stands before it: "… and you have to ask Priya first".
_EQUATION = r"(?:the|my|our|his|her|their|its|your)\s+(?:[\w'’-]+\s+){1,4}(?:is|are|was|were|will be|=)\s"
_STATES = re.compile(rf"\A{_EQUATION}", re.IGNORECASE)
_STATEMENTS = re.compile(rf"(?:,\s+(?:and\s+)?|\s+and\s+)(?={_EQUATION})", re.IGNORECASE)
#: What stands behind a semicolon or a dash speaks of what is before it with any of these.
_REFERS = re.compile(
    r"\b(?:he|she|it|they|him|her|his|its|them|their|this|that|these|those|there|then|first|before|so|"
    r"er|sie|es|ihn|ihm|ihr|dies|dieser|diese|dieses|das|dort|dann|zuerst|il|elle|ils|elles|lui|leur|cela|ça|y|"
    r"él|ella|ello|ellos|ellas|esto|eso|le|la|lo|les|lui|lei|loro|questo|hij|zij|ze|het|dit|dat|он|она|оно|они|его|её|"
    r"это|هو|هي|هم|هذا|ذلك)\b",
    re.IGNORECASE,
)
# "Well 7" is a well, and "ok 12" a result.
_OPENER = re.compile(
    r"\A(?:by the way|btw|fyi|oh|also|well|anyway|okay|ok)\b(?:[,;]+\s+|\s+(?=[^\W\d]+(?:[\s.,!?;]|\Z)))(?=\S)",
    re.IGNORECASE,
)
_CLOSER = re.compile(r",?\s+(?:by the way|btw|please|thanks|thank you|as well|too)[.!]*\Z", re.IGNORECASE)

#: A bracket or quotation of more characters is a text of its own, divided like any other.
_ENCLOSED_CHARS = 240
_PAUSES = (".", "!", "?", ":", ";", ",", "…", "—", "–", "。", "！", "？", "：", "；", "،", "؟")
_UNSPACED_ENDS = "。！？；」』"
#: Words that follow themselves so often were not said but written by a machine; up to so many at a time.
_FEWEST_TIMES, _LONGEST_REPEAT = 3, 24
#: So many characters before a cut no negation may stand, or it would lose what it denies.
_DENIED_CHARS = 60
#: What has more characters is no sentence: it is cut …
_LONG_CLAUSE_CHARS = 600
#: … unless a part of it denies or limits another: that one is told whole, up to this length.
_CAUTIONED_CHARS = 2000
#: Told where what no sentence should be is cut.
CUT = "…"
#: A longer line inside a code block is no code: the block was never closed.
_CODE_CHARS = 200


def split_clauses(text: str) -> Iterator[tuple[str, bool]]:
    """(clause, is code) in order: sentences, and parts of sentences where a part stands by itself."""
    in_code = False
    code_lead = above = waiting = ""
    outline = Outline()
    if "\n---" in text or "\n===" in text:
        text = _UNDERLINED.sub(r"## \1", text)
    lines = _WRAPPED.sub(r"\1 ", text).splitlines() if "\n" in text else [text]
    for number, line in enumerate(lines):
        if _FENCE.match(line) and line.count("```") % 2 == 1:
            in_code = not in_code
            # What follows a closing fence on its line is prose; after an opening one stands a language.
            prose = line.strip(" `~")
            yield from _prose(waiting, above)
            waiting, above = "" if in_code and " " not in prose else prose, ""
            code_lead = outline.turning() if in_code else ""
        elif in_code and len(line) <= _CODE_CHARS:
            if line.strip():
                yield from _prose(waiting, above)
                waiting = ""
                yield " ".join([*code_lead.split(), *line.split()]), True
        elif not _RULE_LINE.match(line):
            prose = _BOLD.sub(_unmarked, " ".join(_MARKUP.sub("", line).split()))
            following, apart = _following(lines, number)
            if outline.begins(line, prose, following, apart=apart):
                yield from _prose(waiting, above)
                waiting = ""
                continue
            lead = outline.above(line)
            said = _numbered(line, prose, text, lead)
            if waiting and ((takes_back(prose) and not said[:1].isdigit()) or _leads_on(waiting, line)):
                waiting = f"{waiting}{'' if waiting.endswith(_PAUSES) else '.'} {said}"
                continue
            yield from _prose(waiting, above)
            # An item is told once under its lead, a paragraph with each of its sentences.
            waiting, above = (f"{lead} {said}", "") if lead and is_item(line) else (said, lead)
    yield from _prose(waiting, above)


def _prose(text: str, above: str = "") -> Iterator[tuple[str, bool]]:
    return ((f"{above} {clause}" if above else clause, False) for clause in _clauses(text))


def _unmarked(match: re.Match[str]) -> str:
    return match["code"] or match["stars"] or match["lines"]


def _following(lines: list[str], number: int) -> tuple[str, bool]:
    """The next line that is not empty, or "", and whether an empty one stands between."""
    for ahead in range(number + 1, min(number + 3, len(lines))):
        if lines[ahead].strip():
            return lines[ahead], ahead > number + 1
    return "", True


def _numbered(line: str, prose: str, text: str, lead: str) -> str:
    """With its number where that tells: a question of several, what may be the answer to one, and a number that belongs
    to no list."""
    number = _NUMBERED.match(line)
    if number is None or prose.startswith(number[1]):
        return prose
    if prose.endswith(facts.QUESTION_MARKS) or is_reply(prose) or (not lead and prose.count(" ") < _ANSWER_WORDS):
        # A dot would end the sentence of the lead.
        return f"{number[1].strip('(.)')}) {prose}" if lead else f"{number[1]} {prose}"
    # A list begins with 1 or has other numbers.
    is_listed = number[1].strip("(.)") == "1" or len(_NUMBERED_LINES.findall(text)) > 1
    return prose if is_listed or lead else f"{number[1]} {prose}"


def _leads_on(waiting: str, line: str) -> bool:
    """Whether a line goes on with what the one before announces: "Never do this:" and then what."""
    return (
        waiting.endswith((":", "：")) and not is_heading(line) and not is_item(line) and len(waiting) <= _ENCLOSED_CHARS
    )


def _clauses(prose: str) -> Iterator[str]:
    for sentence in _sentences(_said_once(prose)):
        whole = is_cautioned(sentence)
        for part in (sentence,) if whole else _parts(sentence):
            if len(part) > (_CAUTIONED_CHARS if whole else _LONG_CLAUSE_CHARS):
                yield from _cut(part)
            else:
                yield from _nonempty(part)


def _parts(sentence: str) -> Iterator[str]:
    for piece in _said_apart(sentence):
        yield from _statements(piece)


def _said_once(prose: str) -> str:
    """A log or a copied line without punctuation says the same words over and over: they are told once."""
    words = prose.split(" ")
    different = len(set(words))
    if len(words) < 2 * _FEWEST_TIMES or different == 1 or different * 2 > len(words):
        return prose
    kept: list[str] = []
    alike = _alike(words)
    at = 0
    while at < len(words):
        # One word over and over has no period: nothing shorter than its run needs a look.
        periods = range(max(2, alike[at] + 1), _LONGEST_REPEAT)
        period = next((n for n in periods if _times(words, at, n) >= _FEWEST_TIMES), 0)
        kept += words[at : at + (period or 1)]
        at += period * _times(words, at, period) if period else 1
    return " ".join(kept)


def _alike(words: list[str]) -> list[int]:
    """For each word how many from it on are the same."""
    alike = [1] * len(words)
    for i in range(len(words) - 2, -1, -1):
        if words[i] == words[i + 1]:
            alike[i] += alike[i + 1]
    return alike


def _times(words: list[str], at: int, period: int) -> int:
    """How often the ``period`` words at ``at`` stand there one after the other."""
    last = at + (_FEWEST_TIMES - 1) * period
    # Nearly always one look is enough; whatever is sent in one line has to be read in reasonable time.
    if last >= len(words) or not words[at] == words[at + period] == words[last]:
        return 1
    first, times = words[at : at + period], 1
    while words[at + times * period : at + (times + 1) * period] == first:
        times += 1
    return times


def _outside(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Where it matches outside brackets and quotations, unless one is so long that it is a text of its own."""
    spans: list[tuple[int, int]] | None = None
    for match in pattern.finditer(text):
        if spans is None:
            spans = [(start, end) for start, end in meaning.enclosed(text)[0] if end - start <= _ENCLOSED_CHARS]
        before = bisect_left(spans, (match.start(), 0))
        if not before or match.start() >= spans[before - 1][1]:
            yield match


def _sentences(prose: str) -> Iterator[str]:
    """With their marks; one that takes back what was said before it together with that."""
    held = ""
    for sentence in _all_sentences(prose):
        if held and takes_back(sentence):
            held += sentence if held[-1].isspace() or held[-1] in _UNSPACED_ENDS else f" {sentence}"
            continue
        yield from (held,) if held else ()
        held = sentence
    yield from (held,) if held else ()


def _all_sentences(prose: str) -> Iterator[str]:
    start = 0
    for match in _outside(_ENDS, prose):
        if _ends_sentence(prose, start, match):
            yield prose[start : match.end()]
            start = match.end()
    if start < len(prose):
        yield prose[start:]


def _said_apart(sentence: str) -> Iterator[str]:
    """The parts of a sentence on both sides of a dash or a semicolon, where each is a statement."""
    start = 0
    for match in _outside(_APART, sentence):
        left, right = sentence.count(" ", start, match.start()), sentence.count(" ", match.end(), match.end() + 80)
        if left >= 3 and right >= 2 and not _REFERS.search(sentence, match.end()):
            yield sentence[start : match.start()]
            start = match.end()
    yield sentence[start:]


def _nonempty(piece: str) -> Iterator[str]:
    piece = _CLOSER.sub("", _OPENER.sub("", piece.strip(" ·;；|")))
    # A dash at an end joins what stands there to nothing.
    piece = piece.removesuffix(" —").removesuffix(" –")
    if piece.endswith((".", "。", "۔", "।")) and not piece.endswith(".."):
        piece = piece[:-1]
    if any(character.isalnum() or ord(character) > 0x2000 for character in piece):
        yield piece


def _ends_sentence(prose: str, start: int, match: re.Match[str]) -> bool:
    end = match.group()
    if not end.startswith(".") or end.startswith(".."):
        return True
    before = max(prose.rfind(" ", start, match.start()) + 1, start)
    last = _ELISION.sub("", prose[before : match.start()].strip("(\"'").lower())
    if last.isdigit() and len(last) <= _ORDINAL_DIGITS:
        return not (before == start or _is_ordinal(prose, start, before, match.end()))
    if _DAY_OR_RANK.fullmatch(prose, before, match.start()) and prose[match.end() : match.end() + 1].islower():
        return False
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or _DOTTED.fullmatch(last))


def _is_ordinal(prose: str, start: int, before: int, after: int) -> bool:
    """Whether the number at ``before`` and its dot count what follows: "3. Mai", "im 2. Stock", "før 3. mai"."""
    if _AFTER_ORDINAL.match(prose, after):
        return True
    words = prose[max(start, before - 40) : before].lower().split()
    # "5. 6. 2026".
    if words and words[-1].rstrip(".").isdigit() and words[-1].endswith(".") and _YEAR.match(prose, after):
        return True
    # "I am 12. Then …"
    return bool(words) and words[-1] in _BEFORE_ORDINAL and words[-2:] != ["i", "am"]


def _statements(sentence: str) -> list[str]:
    """ "My name is Ana and my budget is 3,000" tells two things, of which one may later be superseded."""
    if not _STATES.match(sentence):
        return [sentence]
    parts, start = [], 0
    for match in _outside(_STATEMENTS, sentence):
        if _says_more_of(sentence[start : match.start()], sentence[match.end() :]):
            continue
        parts.append(sentence[start : match.start()])
        start = match.end()
    return [part for part in [*parts, sentence[start:]] if part]


def _says_more_of(left: str, right: str) -> bool:
    """Whether the second statement has the subject of the first: "the fee is 30, and the fee is waived"."""
    subject = _STATES.match(right)
    said = left.lower().split()
    return subject is not None and any(word in said for word in subject.group().lower().split()[1:-1])


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
        yield f"{piece[start:end].strip()}{CUT}"
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
        if is_cautioned(token):
            return at
        at += len(token)
    return 0
