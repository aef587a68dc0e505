"""What of a clause must survive: its facts, and the rules, decisions and preferences that it states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from compaction_app import facts
from compaction_app.amounts import Renewal
from compaction_app.fact_spans import Fact, FactKind, find_facts, fold
from compaction_app.sayings import Saying
from compaction_app.standing import Standing, find_cues, standing_of
from compaction_app.superseding import Statement, read_statement
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

_TOKEN = re.compile(r"\S+")


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


def read_needs(saying: Saying, common: dict[str, None]) -> Clause:
    clause = Clause(saying)
    # The marks of JSON quote nobody.
    is_fields = saying.role == Role.TOOL and '":' in saying.text
    found = [fact for fact in find_facts(saying.text, common) if not (is_fields and fact.kind is FactKind.QUOTE)]
    clause.needs = [Need(fact, f"{fact.kind}:{fact.key}", fact.bound, fact.end) for fact in found]
    if not says_something(saying.text):
        clause.needs = [need for need in clause.needs if need.fact and need.fact.kind is not FactKind.NUMBER]
    if saying.role != Role.TOOL:
        clause.statement = read_statement(saying.text)
    for start, end in _statement_spans(saying):
        stated = saying.text[start:end]
        words = tuple(words_of(stated))
        if len(words) >= _FEWEST_WORDS or (words and not stated.isascii()):
            telling = tuple(words_of(stated, facts.TELLING))
            clause.needs.append(Need(None, fold(stated), start, end, words, telling, standing_of(stated)))
    clause.newer = clause.statement is not None and clause.statement.newer
    return clause


def _statement_spans(saying: Saying) -> list[tuple[int, int]]:
    """Where a clause states something: each cue with the words before it, to the next pause."""
    text = saying.text
    if text.endswith(("?", "？", "؟")) or text.startswith("["):
        return []
    advice = is_advice(saying)
    spans: list[tuple[int, int]] = []
    for cue in find_cues(text)[:_CUES]:
        start, end = _core(text, *cue)
        # A model's "always" and "must" explain; what it says must not be done may be why something was not.
        if advice and not any(map(facts.is_negation, words_of(text[start:end]))):
            continue
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def standing_in(saying: Saying) -> Standing:
    """The most standing statement of a saying."""
    found = [standing_of(saying.text[start:end]) for start, end in _statement_spans(saying)]
    return max(found, default=Standing.PASSING)


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
