"""What of a clause must survive: its facts, and the rules, decisions and preferences that it states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from compaction_app.retention import facts, meaning
from compaction_app.retention.amounts import Renewal
from compaction_app.retention.fact_spans import Fact, FactKind, find_facts, fold
from compaction_app.retention.quoting import QUOTED
from compaction_app.retention.sayings import NOBODY, Saying
from compaction_app.retention.standing import Standing, find_cues, is_of_the_moment, standing_of
from compaction_app.retention.superseded import Statement, read_statement
from compaction_app.retention.taken_back import is_accepted, is_taken_back
from compaction_app.values import Role

#: Words that a statement has at least; fewer say nothing by themselves.
_FEWEST_WORDS = 2
#: Words of a statement before its cue, and after it: at least and at most.
_WORDS_BEFORE, _FEWEST_AFTER, _WORDS_AFTER = 6, 2, 14
#: A cue that ends its part of the sentence needs so many before it: "30 from now on, because …".
_WORDS_SAID = 4
#: … and characters on each side of it in a text without spaces.
_UNSPACED_CHARS = 40
#: How many cues of one clause are looked at.
_CUES = 4
_PAUSE = re.compile(r"[,;:.!?)、，；：。](?:\s+|\Z)|[、，；：。]")

#: Who gives commands, rows and code back; people's lines are short for other reasons.
_MAY_BE_CODE = (Role.TOOL, Role.ASSISTANT, NOBODY)
_TOKEN = re.compile(r"\S+")
#: Marks around a quotation.
_MARKS = '"“”'
_TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|<%[^<>\n]*%>|\$\{[^{}\n]*\}")
#: Words that say nothing of a figure beside them.
_BARE = frozenset(
    "used use uses add added set got put said says done year years week weeks month day thing maybe".split()
)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that must survive, where it was said."""

    #: None for a statement.
    fact: Fact | None
    key: str
    start: int
    end: int
    #: Of a statement: its words, and those without which it is another one: names, figures, negations.
    words: tuple[str, ...] = ()
    telling: tuple[str, ...] = ()
    #: Of a statement: how long it is meant to hold.
    standing: Standing = Standing.PASSING


@dataclass(slots=True)
class Clause:
    """A saying and what of it must survive."""

    saying: Saying
    needs: list[Need] = field(default_factory=list)
    statement: Statement | None = None
    #: Tells of a change: it may not be the one that is left out.
    newer: bool = False
    #: Values of it that may be told only together with a newer one.
    renewals: list[Renewal] = field(default_factory=list)
    #: Places of later clauses that lift, cancel or bring back what it says: it may be told only together with these.
    lifted_by: list[int] = field(default_factory=list)
    #: Written to be read, and no command, row or line of code.
    is_prose: bool = True
    #: A model's proposal that a person accepted: a decision of that person.
    accepted: bool = False


def read_needs(saying: Saying, common: dict[str, None]) -> Clause:
    if saying.role == Role.TOOL:
        saying = saying._replace(text=_unquoted(saying.text))
    clause = Clause(saying)
    clause.is_prose = saying.role not in _MAY_BE_CODE or meaning.reads_like_prose(saying.text)
    # The marks of JSON quote nobody.
    is_fields = saying.role == Role.TOOL and '":' in saying.text
    found = [fact for fact in find_facts(saying.text, common) if not (is_fields and fact.kind is FactKind.QUOTE)]
    clause.needs = [Need(fact, f"{fact.kind}:{fact.key}", fact.bound, fact.end) for fact in found]
    if not says_something(saying.text):
        clause.needs = [need for need in clause.needs if need.fact and need.fact.kind is not FactKind.NUMBER]
    if _is_fragment(saying.text, found):
        clause.needs = []
    if saying.role != Role.TOOL and not saying.text.startswith(QUOTED) and not is_taken_back(saying.text):
        clause.statement = read_statement(saying.text)
    clause.accepted = saying.role == Role.ASSISTANT and is_accepted(saying.text)
    quotations = [(fact.start, fact.end) for fact in found if fact.kind is FactKind.QUOTE and not is_fields]
    for start, end in _statement_spans(saying, quotations):
        stated = saying.text[start:end]
        words = tuple(words_of(stated))
        if len(words) >= _FEWEST_WORDS or (words and not stated.isascii()):
            telling = tuple(words_of(stated, facts.TELLING))
            standing = _standing(saying, stated)
            clause.needs.append(Need(None, fold(stated), start, end, words, telling, standing))
    clause.newer = clause.statement is not None and clause.statement.newer
    return clause


def _unquoted(text: str) -> str:
    """Marks around all that a tool shows of a document quote nobody."""
    inner = text[1:-1]
    if text[:1] not in _MARKS or text[-1:] not in _MARKS or any(mark in inner for mark in _MARKS):
        return text
    return inner.strip(" .…") or text


def _is_fragment(text: str, found: Sequence[Fact]) -> bool:
    """Whether it is the name of a template's place, or a time or figure with words that say nothing of it: "used
    14:00"."""
    if "{" in text and not says_something(_TEMPLATE.sub("", text)):
        return True
    if not found or any(fact.kind not in (FactKind.DATE, FactKind.NUMBER) for fact in found):
        return False
    outside = "".join(
        text[left:right]
        for left, right in zip([0, *(fact.end for fact in found)], [*(fact.bound for fact in found), None], strict=True)
    )
    norms = [word.norm for word in map(facts.weigh, outside.split()) if word.strength >= facts.CONTENT]
    words = [norm for norm in norms if norm.isalpha()]
    return bool(words) and not facts.is_unspaced(outside) and all(word in _BARE for word in words)


def _statement_spans(saying: Saying, quotations: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Where a clause states something: each cue with the words before it, to the next pause. What is quoted is
    nobody's rule."""
    text = saying.text
    if text.endswith(facts.QUESTION_MARKS) or text.startswith("["):
        return []
    if saying.role == Role.ASSISTANT and is_accepted(text):
        return [(0, len(text))]
    advice = is_advice(saying)
    spans: list[tuple[int, int]] = []
    cues = [cue for cue in find_cues(text) if not any(start <= cue[0] < end for start, end in quotations)]
    for cue in cues[:_CUES]:
        start, end = _core(text, *cue)
        # A model's "always" and "must" explain; what it says must not be done may be why something was not.
        if advice and not any(map(facts.is_negation, words_of(text[start:end]))):
            continue
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def state_lift(clause: Clause, lifted: Clause) -> None:
    """A clause that lifts another one must survive as long as that one does, whatever its words."""
    firmest = max((need.standing for need in lifted.needs if need.fact is None), default=Standing.PASSING)
    standing = max(firmest, Standing.STATE)
    if any(need.fact is None and need.standing >= standing for need in clause.needs):
        return
    text = clause.saying.text
    words = tuple(words_of(text))
    clause.needs = [need for need in clause.needs if need.fact]
    clause.needs.append(Need(None, fold(text), 0, len(text), words, tuple(words_of(text, facts.TELLING)), standing))


def standing_in(saying: Saying) -> Standing:
    """The most standing statement of a saying."""
    found = [_standing(saying, saying.text[start:end]) for start, end in _statement_spans(saying)]
    return max(found, default=Standing.PASSING)


def _standing(saying: Saying, stated: str) -> Standing:
    if saying.role == Role.ASSISTANT and is_accepted(saying.text):
        return Standing.FIRM
    if is_of_the_moment(saying.text):
        return Standing.PASSING
    standing = standing_of(stated)
    return Standing.RULE if standing and facts.is_plainly_wanted(stated) else standing


def says_something(text: str) -> bool:
    """Whether there is a word in it: a figure alone is a riddle, like the numbers of lines."""
    return any(map(str.isalpha, text)) and any(
        facts.weigh(token).norm.isalpha() or facts.is_unspaced(token) for token in _TOKEN.findall(text)
    )


def is_advice(saying: Saying) -> bool:
    """Said by a model, and no decision that was taken."""
    return saying.role == Role.ASSISTANT and not facts.is_agreement(saying.text)


def _core(text: str, start: int, end: int) -> tuple[int, int]:
    """From what a rule is about to where its sentence pauses. A text without spaces is one word: all of it."""
    before = [match.end() for match in _PAUSE.finditer(text, 0, start)]
    left = before[-1] if before else 0
    words = [match.start() for match in _TOKEN.finditer(text, left, start)]
    if len(words) > _WORDS_BEFORE:
        left = words[-_WORDS_BEFORE]
    is_said = len(words) >= _WORDS_SAID and _PAUSE.match(text, end) is not None
    tokens = [] if is_said else list(_TOKEN.finditer(text, end))
    right = end
    for number, token in enumerate(tokens[:_WORDS_AFTER], start=1):
        right = token.end()
        if number >= _FEWEST_AFTER and _PAUSE.match(text, token.end() - 1):
            break
    left = min(left, start)
    if " " not in text[left:right]:
        left, right = max(left, start - _UNSPACED_CHARS), min(right, end + _UNSPACED_CHARS)
    return left, right


def words_of(text: str, strength: int = facts.FILLER) -> list[str]:
    """The words of a text of some strength or more; small ones too, for without them a rule is a riddle."""
    words = map(facts.weigh, _TOKEN.findall(text))
    return list(dict.fromkeys(fold(word.norm) for word in words if word.norm and word.strength >= strength))


def common_words(sayings: Sequence[Saying]) -> dict[str, None]:
    """Words that are written without a capital somewhere."""
    found: dict[str, None] = {}
    for saying in sayings:
        found.update(dict.fromkeys(re.findall(r"\b[^\W\d_]+\b", saying.text)))
    return {word: None for word in found if word.islower()}
