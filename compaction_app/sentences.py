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

from compaction_app import facts, meaning
from compaction_app.cautions import is_cautioned, takes_back

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MONTH = r"(?:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|des|dec)"
# A dash that no space follows is a minus or an option; "12. März" is a date, not the twelfth item.
_MARKUP = re.compile(
    r"\A(?:\s+|>+\s*|\|\s*|[#*+\-–•·▪]+\s+|\[[ xX]\]\s+"
    rf"|\(?\d{{1,2}}[.)]\s+(?!(?i:{_MONTH})))+"
)
# Marks of bold print stand outside words; ``__init__``, ``2**10``, ``f(**options)`` and ``src/**/*.ts`` are no print.
_BOLD = re.compile(
    r"(?P<code>`[^`\n]+`)"
    r"|(?<![\w(/.*\\])(?:\*\*(?=[^\s*])(?P<stars>[^*\n`=/\\_+<>|]+)(?<=\S)\*\*"
    r"|__(?=[^\s_])(?P<lines>[^_\n`=/\\*+<>|]+ [^_\n`=/\\*+<>|]+)(?<=\S)__)(?![\w(/*]|\.\w)"
)
_RULE_LINE = re.compile(r"[\s|:=_*\-+~`#>.]*\Z")
_WRAPPED = re.compile(r"(?m)^(.{48,}[\w,])\n(?=[a-z][a-z]+ [a-z])")
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
_AFTER_ORDINAL = re.compile(rf"[^\W\d_A-Z]|(?i:{_MONTH})|(?:Stock|Etage|Klasse|Platz|Quartal|Jahrhundert|Juli|Juni)")
_STATEMENTS = re.compile(
    r"(?:,\s+(?:and\s+)?|\s+and\s+)"
    r"(?=(?:the|my|our|his|her|their|its|your)\s+(?:[\w'’-]+\s+){1,4}(?:is|are|will be|must|should|=)\s"
    r"|(?:we|you|i)\s+(?:must|should|shall|always|prefer)\s)",
    re.IGNORECASE,
)
_JOINTS = re.compile(
    r",\s+(?=(?:so|and)\s+(?:(?:i|we|you)(?:['’][a-z]{1,2})?\s|(?:the|an?|my|our|your)\s+(?:[\w'’-]+\s+){1,4}"
    r"(?:is|are|was|were|has|have|had|will|can|must|should|shall|costs?|needs?)\s))",
    re.IGNORECASE,
)
#: What begins like this is said of what follows its comma.
_CONDITION = re.compile(
    r"\A(?:if|unless|when|whenever|in case|once|as|while|after|before|until|since|because|given|let['’]s say|both|"
    r"wenn|falls|weil|als|nachdem|bevor|sobald|während|si|quand|lorsque|cuando|aunque|porque|se|quando|als|omdat|wanneer|"
    r"если|когда|إذا|عندما)\b",
    re.IGNORECASE,
)
_OPENER = re.compile(r"\A(?:by the way|btw|fyi|oh|also|well|anyway|okay|ok)\b[,:;]*\s+(?=\S)", re.IGNORECASE)
_CLOSER = re.compile(r",?\s+(?:by the way|btw|please|thanks|thank you|as well|too)[.!]*\Z", re.IGNORECASE)

#: A bracket or quotation of more characters is a text of its own, divided like any other.
_ENCLOSED_CHARS = 240
#: A line of more words is no heading of a list.
_LEAD_WORDS = 8
_PAUSES = (".", "!", "?", ":", ";", ",", "…", "—", "–", "。", "！", "？", "：", "；", "،", "؟")
_UNSPACED_ENDS = "。！？；」』"
#: Words that follow themselves so often were not said but written by a machine; up to so many at a time.
_FEWEST_TIMES, _LONGEST_REPEAT = 3, 24
#: So many characters before a cut no negation may stand, or it would lose what it denies.
_DENIED_CHARS = 60
#: A sentence with more words is divided at its joints, and one with more characters even where it has none.
_LONG_CLAUSE_WORDS = 20
_LONG_CLAUSE_CHARS = 600
#: … unless one of its parts denies or limits another: that one is told whole, up to this length.
_CAUTIONED_CHARS = 2000
#: Told where what no sentence should be is cut.
CUT = "…"
#: What is divided at a joint must leave so many spaces on either side: a part too short is not understood.
_WORDS_BEFORE_JOINT, _WORDS_AFTER_JOINT = 5, 4
#: A longer line inside a code block is no code: the block was never closed.
_CODE_CHARS = 200


def split_clauses(text: str) -> Iterator[tuple[str, bool]]:
    """(clause, is code) in order: sentences, and parts of sentences where a part stands by itself."""
    in_code = False
    lead = waiting = ""
    lines = _WRAPPED.sub(r"\1 ", text).splitlines() if "\n" in text else [text]
    for number, line in enumerate(lines):
        if _FENCE.match(line) and line.count("```") % 2 == 1:
            in_code = not in_code
            # What follows a closing fence on its line is prose; after an opening one stands a language.
            prose = line.strip(" `~")
            yield from _prose(waiting)
            waiting = "" if in_code and " " not in prose else prose
        elif in_code and len(line) <= _CODE_CHARS:
            if line.strip():
                yield from _prose(waiting)
                waiting = ""
                yield " ".join(line.split()), True
        elif not _RULE_LINE.match(line):
            item = _MARKUP.sub("", line)
            prose = _BOLD.sub(_unmarked, " ".join(item.split()))
            is_item = len(item) != len(line)
            if _is_lead(prose, line) and _item_follows(lines, number):
                lead = prose
                continue
            said = f"{lead} {prose}" if lead and is_item else prose
            if waiting and takes_back(prose):
                waiting = f"{waiting}{'' if waiting.endswith(_PAUSES) else '.'} {said}"
            else:
                yield from _prose(waiting)
                waiting = said
            lead = lead if is_item else ""
    yield from _prose(waiting)


def _prose(text: str) -> Iterator[tuple[str, bool]]:
    return ((clause, False) for clause in _clauses(text))


def _unmarked(match: re.Match[str]) -> str:
    return match["code"] or match["stars"] or match["lines"]


def _is_lead(prose: str, line: str) -> bool:
    """The line before a list, repeated on each item where an item alone would say the opposite: "Never:"."""
    if not prose.endswith((":", "：")) and not line.startswith("#"):
        return False
    return 0 < len(prose.split()) <= _LEAD_WORDS and is_cautioned(prose)


def _item_follows(lines: list[str], number: int) -> bool:
    following = next((line for line in lines[number + 1 : number + 3] if line.strip()), "")
    return _MARKUP.match(following) is not None


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
        for part in _statements(piece):
            yield from _divide(part) if part.count(" ") > _LONG_CLAUSE_WORDS else (part,)


def _said_once(prose: str) -> str:
    """A log or a copied line without punctuation says the same words over and over: they are told once."""
    words = prose.split(" ")
    if len(words) < 2 * _FEWEST_TIMES or len(set(words)) * 2 > len(words):
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
        if left >= 3 and right >= 2:
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
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or _DOTTED.fullmatch(last))


def _is_ordinal(prose: str, start: int, before: int, after: int) -> bool:
    """Whether the number at ``before`` and its dot count what follows: "3. Mai", "im 2. Stock", "før 3. mai"."""
    if _AFTER_ORDINAL.match(prose, after):
        return True
    words = prose[max(start, before - 40) : before].lower().split()
    # "I am 12. Then …"
    return bool(words) and words[-1] in _BEFORE_ORDINAL and words[-2:] != ["i", "am"]


def _statements(sentence: str) -> list[str]:
    """ "My name is Ana and my budget is 3,000" tells two things, of which one may later be superseded."""
    if _CONDITION.match(sentence):
        return [sentence]
    parts, start = [], 0
    for match in _outside(_STATEMENTS, sentence):
        parts.append(sentence[start : match.start()])
        start = match.end()
    return [part for part in [*parts, sentence[start:]] if part]


def _divide(sentence: str) -> Iterator[str]:
    """A very long sentence at its joints; parts too short to be understood stay with the part before."""
    if _CONDITION.match(sentence):
        yield sentence
        return
    start = 0
    for match in _outside(_JOINTS, sentence):
        if (
            sentence.count(" ", start, match.start()) >= _WORDS_BEFORE_JOINT
            and sentence.count(" ", match.end(), match.end() + 120) >= _WORDS_AFTER_JOINT
        ):
            yield sentence[start : match.start()].strip()
            start = match.end()
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
