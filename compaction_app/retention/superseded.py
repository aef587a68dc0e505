"""Which statement has been replaced by a later one: "the budget is 3,000", then "the budget is 2,400 now".

Only what is clearly the same subject with a new value is let go: the same words for the subject, nothing that narrows
one of the values and not the other ("for travel"), a value of the same kind, and a sign that it changed. A condition,
a claim or a quotation replaces nothing. Where subjects merely share words (the budget, the food budget), or the kinds
of the values differ ("Anna Nowak", "angry"), both stay, and the older one stays only together with the newer. What a
model or a tool says replaces nothing that a person said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from compaction_app.retention import facts, meaning
from compaction_app.values import Role

_CHANGED = (
    r"moved|changed|switched|updated|raised|lowered|increased|reduced|postponed|pushed|extended|cut|renamed|dropped|"
    r"rescheduled|bumped|corrected|revised|geändert|verschoben|cambiado|changé"
)
_TO = r"\s+(?:(?:up|down|back|forward|out|over)\s+)?(?:from\s+.{1,60}?\s+)?(?:to|auf|à|a)\s+"
_FORMS = (
    re.compile(
        r"\A(?P<subject>.{2,80}?)\s+(?:(?:has|have|is|was|were|got|been|wurde|ha sido|a été)\s+){0,2}"
        rf"(?:{_CHANGED}|set){_TO}(?P<value>.+)\Z",
        re.IGNORECASE,
    ),
    re.compile(
        r"\A(?:(?:please|let['’]s|we|i|we['’]ve|i['’]ve|they|now|actually|ok|so|just|have|had|will)\W+){0,4}"
        rf"(?:{_CHANGED}|set|change|move|switch|update|raise|lower|increase|reduce|postpone|push|extend|rename|reschedule|"
        rf"bump)\s+(?P<subject>.{{2,60}}?){_TO}(?P<value>.+)\Z",
        re.IGNORECASE,
    ),
    re.compile(
        r"\A(?P<subject>.{2,80}?)"
        r"(?:\s+(?:is|are|will be|becomes?|should be|must be|remains|ist|sind|est|son|è|=|→)\s+|:\s+|=)"
        r"(?P<value>.+)\Z",
        re.IGNORECASE,
    ),
    re.compile(r"\A(?P<subject>[^\s，。、:：]{1,16}?)(?:是|为|為|改为|改成|は|：)(?P<value>.+)\Z"),
)
_CHANGES = _FORMS[:2]
_NEWER = re.compile(
    r"\b(?:now|actually|instead|correction|no longer|any ?more|from now on|as of|"
    r"jetzt|nun|ab sofort|maintenant|désormais|ahora|adesso|agora|теперь|"
    # What comes back is new again.
    r"again|once more|after all|back to|wieder|doch wieder|zurück auf|de nouveau|à nouveau|otra vez|de nuevo|di nuovo|"
    r"de novo|weer|снова|опять)\b|现在|現在|改为|改成|今は|又是|再次|また",
    re.IGNORECASE,
)
_CUE_WORDS = frozenset(
    "now actually new current currently correction update updated revised final latest instead "
    "currently still jetzt nun neue neuer neues maintenant ahora nuevo nueva adesso agora теперь".split()
)
_OWNED = re.compile(
    r"\b(?:my|our|mine|mein|meine|unser|unsere|mon|ma|notre|mi|nuestro|nuestra|мой|наш)\b", re.IGNORECASE
)
_MINE = re.compile(r"\b(?:my|mine|mein|meine|mon|ma|mi|мой)\b", re.IGNORECASE)
_RENEWED = re.compile(r"\A(?:the|my|our|your)\s+(?:new|current|updated|revised|final)\s", re.IGNORECASE)
_DEFINITE = re.compile(r"\A(?:the|my|our|das|der|die|unser|le|la|el|il|notre|nuestro)\s", re.IGNORECASE)
_OTHERS = frozenset("his her their your its sein ihr son sa su".split())
#: What is preferred has no other word for its subject: "I prefer tea" is replaced by what names tea again.
_PREFERRED = "prefer"
_PREFERENCE = re.compile(
    r"\A(?:.{0,40}[,;:]\s+)?i(?:['’]d| would| now| really| actually| still)*(?: rather)? prefer\s+(?P<value>.+)\Z",
    re.IGNORECASE,
)
#: "I moved: my address is …" tells of the address, and that it changed.
_LEAD = re.compile(
    r"\A[^:;,.]{0,40}\b(?:moved|changed|switched|quit|left|resigned|updated?|correction|corrected|mistake|mistaken|wrong|"
    r"sorry)\b[^:;,.]{0,20}[:;,]\s+",
    re.IGNORECASE,
)
_LEAD_CHANGES = re.compile(r"\b(?:changed|correction|corrected|mistake|mistaken|wrong|sorry|moved)\b", re.IGNORECASE)
#: What narrows a value follows it: "for travel", "on staging", "(travel)".
_QUALIFIER = re.compile(
    r"(?:\A|\s)(?:for|of|on|in|at|per|with|from|by|during|under|via|für|auf|von|vom|im|bei|beim|mit|pour|sur|avec|para|"
    r"sobre|con|voor|van|для|на|в)\s+(?P<about>.+)\Z|\((?P<aside>.+)\Z",
    re.IGNORECASE,
)
#: … unless it says nothing of what it is for.
_NO_QUALIFIER = frozenset(
    "total moment time being all whole most least best course sure good discussed agreed once euros dollars kroner "
    "today tomorrow week month year morning afternoon evening".split()
)
#: "12 Elm Street, Boston": what follows belongs to the value.
_PLACE = re.compile(r"(?:[A-ZÀ-ÖØ-Þ0-9][\w.-]*[ ,]*){1,5}\Z")
_REMAINDER = re.compile(
    r",\s|;\s|[，；。]|\s\(|\.\s+|\s(?:because|since|so|due to|but|and|which|although)\s",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"\A(?:(?:now|again|back|actually|currently|set|to|at|on|for|in|by|about|jetzt|wieder|现在|現在)\s+)+",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"\W+(?:now|instead|actually|then|though|today|again|once more|after all|jetzt|wieder|ahora|otra vez|de nuevo|"
    r"maintenant|de nouveau|di nuovo|现在)\W*\Z",
    re.IGNORECASE,
)
#: Where, when or with whom: "in Oslo" is no other value of what is "red".
_PLACED = re.compile(
    r"\A(?:(?:now|again|back|jetzt|wieder|ahora|maintenant)\s+)*(?P<by>in|at|on|with|by|from|under|near|im|am|bei|mit|"
    r"dans|chez|avec|en|con|на|в|у)\s",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"\b(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|o[ck]t|nov|de[cz]|mon|tues|wednes|thurs|fri|satur|sun)\w*\b|"
    r"\d[:.]\d\d\b|\d{4}-\d\d|\b\d{1,2} ?[ap]m\b|\A(?:\w+ )?at \d{1,2}\Z|"
    r"\b(?:today|tomorrow|tonight|noon|midnight|week|month)\b|"
    r"[月日時点]",
    re.IGNORECASE,
)
#: What is conditional or somebody's word only is not how it is.
_UNSURE = re.compile(
    r"\b(?:if|unless|provided|assuming|supposing|in case|subject to|as soon as|once (?:the|we|he|she|they|it)|claims?|"
    r"claimed|(?<!i )says?|(?<!i )said|thinks?|thought|believes?|believed|guess|suppose|assume|hear|heard|reportedly|"
    r"apparently|allegedly|supposedly|according to|rumou?rs?|maybe|perhaps|probably|possibly|might|could|would|seems?|"
    r"wants?|wishes|hopes?|hoping|suggests?|proposes?|proposed|asked|pretend|imagine|(?-i:may)|"
    r"wenn|falls|sofern|sobald|angeblich|vielleicht|vermutlich|wahrscheinlich|glaubt?|meint|sagt|behauptet|laut|"
    r"peut-être|selon|dit|croi[st]|prétend|à condition|quizás?|según|dice|cree|creo|talvez|diz|forse|secondo|crede|"
    r"si|se|als|mits|indien|jeśli|eğer|если|когда|может|возможно|говорит|якобы)\b|إذا|ربما|如果|要是|可能|也许|听说|据说|もし|かも|らしい|と言|만약|아마",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"\A(?:(?:by the way|btw|fyi|oh|ok|okay|actually|also|so|and|but|correction|noted|understood|right|sure|got it|"
    r"thanks)\b[,:;]*\s+)+",
    re.IGNORECASE,
)
_ABOUT_NOTHING = re.compile(
    r"\A(?:if|unless|when|what|where|who|how|why|would|could|can|does|do|is|are|was)\b", re.IGNORECASE
)
_UNIT = re.compile(r"\d[\d.,:]*\s*([^\W\d_]+|[%€$£¥])?")
_UNSPACED_CUE = re.compile("现在|現在|今は|我们的|我的|私の|的|の")

_QUOTES = '"“„«「『'
#: What a project has one of: "the deadline is" said again with another value has changed without any "now".
_SINGULAR = frozenset("budget deadline goal frist ziel plazo presupuesto délai scadenza 预算 予算".split())

#: What is said after a value and weighs less may go with it: "as discussed" may, "because Anna insists" may
#: not.
_DETAIL = 0.7
_VALUE_WORDS = 8
_SUBJECT_WORDS = 5
#: Statements looked back at per shared word: enough for a conversation, and it bounds the work for a log.
_LOOK_BACK = 32


@dataclass(frozen=True, slots=True)
class Statement:
    subject: tuple[str, ...]
    value: str
    #: The first number's unit; "" if it has none.
    unit: str
    #: Says that something changed.
    newer: bool
    #: About something of the speaker's own.
    own: bool
    #: … alone: nobody else's has replaced it.
    mine: bool
    #: Speaks of "the" or "our" one, not of one in a list.
    definite: bool
    #: Says nothing else that could be lost with it.
    sole: bool
    #: What the value is narrowed to: "for travel".
    about: tuple[str, ...]
    #: Goes on with a place, which another place replaces as well.
    in_place: bool
    #: Where the value begins in the text.
    value_start: int
    #: What sort of value it is: a time, a figure, a name, plain words; and the word that places it, such as "in".
    kind: str = ""
    #: Where it stands in which text: whether it is said as how it is, no condition, claim or quotation.
    asserting: tuple[str, int] = ("", 0)

    @property
    def is_asserted(self) -> bool:
        """Looked at only where it would replace something, which is seldom."""
        return _is_asserted(*self.asserting)

    @property
    def has_number(self) -> bool:
        return facts.has_digit(self.value)


def read_statement(text: str) -> Statement | None:
    """``text`` as "subject is value", if it is that plainly."""
    if len(text) > 240 or text.endswith(facts.QUESTION_MARKS) or _ABOUT_NOTHING.match(text):
        return None
    if match := _PREFERENCE.match(text):
        return _preference(text, match)
    lead = _LEAD.match(text)
    if lead and (statement := _read_form(text[lead.end() :])):
        changed = statement.newer or _LEAD_CHANGES.search(lead.group()) is not None
        return replace(statement, newer=changed, value_start=statement.value_start + lead.end())
    return _read_form(text) or _statement_by_number(text)


def _read_form(text: str) -> Statement | None:
    for form in _FORMS:
        match = form.match(text)
        if match and (statement := _statement(text, match, changes=form in _CHANGES)):
            return statement
    return None


def find_replacements(
    statements: Sequence[Statement | None], speakers: Sequence[str]
) -> tuple[dict[int, int], dict[int, int]]:
    """(the statement that replaces each replaced one, which older one may stay only with which newer one)."""
    replaced: dict[int, int] = {}
    needs: dict[int, int] = {}
    by_word: dict[str, list[int]] = {}
    for i, newer in enumerate(statements):
        if newer is None:
            continue
        for j in _candidates(newer, by_word):
            older = statements[j]
            if older is None or j in replaced or not may_replace(speakers[i], speakers[j]):
                continue
            if not _comparable(older, newer, speakers[j] == speakers[i]) or not newer.is_asserted:
                continue
            if older.subject == newer.subject and _replaces(older, newer):
                replaced[j] = i
            elif newer.newer or (older.subject == newer.subject and newer.subject != (_PREFERRED,)):
                needs[j] = i
        for word in newer.subject:
            by_word.setdefault(word, []).append(i)
    return replaced, needs


def is_person(speaker: str) -> bool:
    """Whether a person speaks, or a summary that tells what people said. ``speaker``: a role, perhaps with a name."""
    return not speaker.startswith((Role.ASSISTANT, Role.TOOL))


def may_replace(newer: str, older: str) -> bool:
    """Whether what one speaker says later can replace what another said: people are only replaced by people."""
    return is_person(newer) or (not is_person(older) and newer.partition(" ")[0] == older.partition(" ")[0])


def _candidates(statement: Statement, by_word: dict[str, list[int]]) -> list[int]:
    """Earlier statements whose subject contains this one's, or the other way round, shares at least a
    word."""
    found: dict[int, None] = {}
    for word in statement.subject:
        found.update(dict.fromkeys(by_word.get(word, ())[-_LOOK_BACK:]))
    return sorted(found)


def _comparable(older: Statement, newer: Statement, same_speaker: bool) -> bool:
    if not same_speaker and (older.own or newer.own):
        return False
    if older.has_number != newer.has_number or (older.about and newer.about and older.about != newer.about):
        return False
    small, large = sorted((older.subject, newer.subject), key=len)
    return all(word in large for word in small)


def _replaces(older: Statement, newer: Statement) -> bool:
    if older.about != newer.about or older.mine != newer.mine:
        return False
    if not (older.sole or (older.in_place and newer.in_place)):
        return False
    if older.unit and newer.unit and older.unit != newer.unit:
        return False
    if older.kind and newer.kind and older.kind != newer.kind:
        return False
    if newer.subject == (_PREFERRED,) and older.value != newer.value:
        return newer.newer and all(word in newer.value.split() for word in older.value.split())
    if newer.newer or older.value == newer.value:
        return True
    return newer.definite and any(word in _SINGULAR for word in newer.subject)


def _statement(text: str, match: re.Match[str], *, changes: bool) -> Statement | None:
    value, remainder = _cut(match["value"])
    named = _OPENER.sub("", match["subject"])
    subject = _subject(named)
    words = value.split()
    if not subject or len(subject) > _SUBJECT_WORDS or not words or len(words) > _VALUE_WORDS:
        return None
    if any(facts.is_negation(word.strip(".,").lower()) for word in words):
        return None
    return Statement(
        subject=subject,
        value=value.lower(),
        unit=_unit(value),
        newer=changes or _NEWER.search(text) is not None or _RENEWED.match(named) is not None,
        own=_OWNED.search(named) is not None,
        mine=_MINE.search(named) is not None,
        definite=_DEFINITE.match(named) is not None,
        sole=_is_detail(remainder),
        about=_about(value, remainder),
        in_place=_PLACE.match(remainder) is not None,
        value_start=match.start("value"),
        kind="" if changes else _kind(match["value"], value),
        asserting=(text, match.start("value")),
    )


def _kind(said: str, value: str) -> str:
    """What sort of value it is; "" for signs, of which nothing is known. ``said`` is the value with what leads it."""
    if _WHEN.search(said):
        return "when"
    placed = _PLACED.match(said)
    by = placed["by"].lower() if placed else ""
    if facts.has_digit(value):
        return f"{by} figure"
    if facts.is_unspaced(value):
        return ""
    return f"{by} name" if any(word[0].isupper() for word in value.split()) else f"{by} words"


def _is_asserted(text: str, at: int) -> bool:
    """Whether a text says how it is, outside quotations, at its value."""
    if _UNSURE.search(text):
        return False
    return not any(start <= at < end for start, end in meaning.enclosed(text)[0] if text[start] in _QUOTES)


def _preference(text: str, match: re.Match[str]) -> Statement | None:
    value, remainder = _cut(match["value"])
    if not value or len(value.split()) > _VALUE_WORDS:
        return None
    return Statement(
        subject=(_PREFERRED,),
        value=value.lower(),
        unit="",
        newer=_NEWER.search(text) is not None or _LEAD_CHANGES.search(text[: match.start("value")]) is not None,
        own=True,
        mine=True,
        definite=False,
        sole=_is_detail(remainder),
        about=_about(value, remainder),
        in_place=False,
        value_start=match.start("value"),
        asserting=(text, match.start("value")),
    )


def _is_detail(remainder: str) -> bool:
    return sum(facts.weigh(word).weight for word in remainder.split()) < _DETAIL


def _unit(value: str) -> str:
    """The first number's; a word with a capital is part of a name or a date: "12 Elm Street", "5 May"."""
    unit = _UNIT.search(value)
    word = (unit.group(1) or "") if unit else ""
    return "" if len(word) > 1 and word.istitle() else word.lower().rstrip("s")


def _about(value: str, remainder: str) -> tuple[str, ...]:
    """The words that narrow a value to a part of its subject, in the value or right behind it."""
    words: dict[str, None] = {}
    for text in (value, remainder):
        match = _QUALIFIER.search(text)
        if match is None or (text is remainder and match.start()):
            continue
        tokens = (match["about"] or match["aside"]).split()
        for before, token in zip(["", *tokens], tokens, strict=False):
            word = facts.weigh(token)
            is_figure = any(map(str.isdigit, before + token))
            if not is_figure and word.strength >= facts.CONTENT and word.norm not in _CUE_WORDS | _NO_QUALIFIER:
                words[word.norm] = None
    return tuple(sorted(words))


def _statement_by_number(text: str) -> Statement | None:
    """ "The server listens on port 8443": without a form, the words around its only number are the
    subject."""
    if not facts.has_digit(text):
        return None
    tokens = text.split()
    numbers = [token for token in tokens if facts.has_digit(token)]
    if len(numbers) != 1 or len(tokens) > _VALUE_WORDS + _SUBJECT_WORDS:
        return None
    subject = _subject(_OPENER.sub("", " ".join(token for token in tokens if token != numbers[0])))
    if not 2 <= len(subject) <= _SUBJECT_WORDS or any(facts.is_negation(word) for word in subject):
        return None
    value = numbers[0].strip(" .,!()")
    return Statement(
        subject=subject,
        value=value.lower(),
        unit="",
        newer=_NEWER.search(text) is not None,
        own=_OWNED.search(text) is not None or bool(re.match(r"(?:I|we)\b", text)),
        mine=_MINE.search(text) is not None,
        definite=False,
        sole=True,
        about=(),
        in_place=False,
        value_start=0,
        asserting=(text, text.find(numbers[0])),
    )


def _cut(value: str) -> tuple[str, str]:
    """The value without "now", and what is said after it."""
    end = _REMAINDER.search(value)
    head, remainder = (value[: end.start()], value[end.end() :]) if end else (value, "")
    return _TRAILING.sub("", _LEADING.sub("", head)).strip(" .,!。"), remainder


def _subject(text: str) -> tuple[str, ...]:
    words = []
    for token in _UNSPACED_CUE.sub("", text).split():
        word = facts.weigh(token)
        if word.norm in _OTHERS or (word.strength > facts.FUNCTION and word.norm not in _CUE_WORDS):
            words.append(word.norm)
    return tuple(sorted(dict.fromkeys(words)))
