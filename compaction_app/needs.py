"""What of a clause must survive: its facts, and the rules, decisions and preferences that it states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from compaction_app import facts
from compaction_app.fact_spans import Fact, FactKind, find_facts, fold
from compaction_app.sayings import Saying
from compaction_app.superseding import Statement, read_statement
from compaction_app.values import Role

#: Words that a statement has at least; fewer say nothing by themselves.
_FEWEST_WORDS = 2
#: Words of a statement before its cue, and after it: at least and at most.
_WORDS_BEFORE, _FEWEST_AFTER, _WORDS_AFTER = 6, 2, 14
#: … and characters on each side of it in a text without spaces.
_UNSPACED_CHARS = 40
#: How many cues of one clause are looked at.
_CUES = 4
_PAUSE = re.compile(r"[,;:.!?)、，；：。](?:\s+|\Z)|[、，；：。]")

#: Cues that :func:`facts.find_cues` leaves alone, since they may also begin small talk.
_MORE_CUES = re.compile(
    r"\b(?:decision|rule|condition)s?: |\bno [\w-]+ing\b|\bno (?:[\w-]+ ){1,4}(?:anywhere|above|below|before|after|on|"
    r"into|without|ever|unless|at all)\b|\bhands off\b|\bnobody\b.{1,40}\b(?:before|until|without)\b|\bunless\b|"
    r"\bnot\b.{1,60}\b(?:before|until)\b|\b(?:stays?|remains?) (?:closed|open|where|with|as|at|in)\b|\bonly \w+ing\b|"
    r"\bonly (?:\w+ ){1,2}(?:before|after|when|while|if)\b|\b(?:for good|from \w+ on|as of|instead|any ?more|forget)\b|"
    r"\b(?:goes|moves|moved|leaves|comes|sleeps?|runs|belongs?|sits|stands|lives) "
    r"(?:in|into|to|at|on|out|under|with)\b|\bwants? [\w ]{1,24}\bas\b|"
    r"\b(?:is|are|it['’]s|says) .{1,40} now\b|\bneeds? (?:at|\d)|\bas \w+, never\b|\bnot \w+, \w+\b"
    r"|必ず|ألا ",
    re.IGNORECASE,
)
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


@dataclass(slots=True)
class Clause:
    """A saying and what of it must survive."""

    saying: Saying
    needs: list[Need] = field(default_factory=list)
    statement: Statement | None = None
    #: Tells of a change: it may not be the one that is left out.
    newer: bool = False


def read_needs(saying: Saying, common: dict[str, None]) -> Clause:
    clause = Clause(saying)
    # The marks of JSON quote nobody.
    is_fields = saying.role == Role.TOOL and '":' in saying.text
    found = [fact for fact in find_facts(saying.text, common) if not (is_fields and fact.kind is FactKind.QUOTE)]
    clause.needs = [Need(fact, f"{fact.kind}:{fact.key}", fact.bound, fact.end) for fact in found]
    if saying.role != Role.TOOL:
        clause.statement = read_statement(saying.text)
    for start, end in _statement_spans(saying):
        stated = saying.text[start:end]
        words = tuple(words_of(stated))
        if len(words) >= _FEWEST_WORDS or (words and not stated.isascii()):
            clause.needs.append(Need(None, fold(stated), start, end, words, tuple(words_of(stated, facts.TELLING))))
    clause.newer = clause.statement is not None and clause.statement.newer
    return clause


def _statement_spans(saying: Saying) -> list[tuple[int, int]]:
    """Where a clause states something: each cue with the words before it, to the next pause."""
    text = saying.text
    if text.endswith(("?", "？", "؟")) or text.startswith("["):
        return []
    advice = is_advice(saying)
    spans: list[tuple[int, int]] = []
    cues = facts.find_cues(text) or [match.span() for match in _MORE_CUES.finditer(text)]
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
    tokens = list(_TOKEN.finditer(text, end))
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
