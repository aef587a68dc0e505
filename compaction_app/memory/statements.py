"""A statement: one or more whole sentences of one speaker that are told together or not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from compaction_app.memory import word_tables as known
from compaction_app.memory.quoting import QUOTED
from compaction_app.memory.sentences import NAME_AND_COLON
from compaction_app.memory.words import Words, count_words, read_words
from compaction_app.values import Role

#: Whose words a model's prose is in the next generation: nobody's.
NOBODY = "summary"
PEOPLE = frozenset({Role.USER.value, Role.SYSTEM.value, Role.DEVELOPER.value})
#: What is worth telling of each; people's words count whole. The last: of what a tool says of how its work ended.
_ROLE_WEIGHTS, _OUTCOME = {Role.ASSISTANT.value: 0.5, Role.TOOL.value: 0.45}, 0.8
#: Of more lines with one shape than this none says much: rows of logs, tables and code. And of any code.
ROW, _MOST_ROWS, CODE = 0.03, 3, 0.2
#: What a person replied: to somebody else, or to what a model said of their own.
_REPLY = re.compile(
    rf"(?:\((?:{'|'.join(sorted(PEOPLE))}){NAME_AND_COLON}|(?P<asked>\(assistant{NAME_AND_COLON}[^()]+\)) )"
    r"(?P<reply>[^()]{1,60})"
)
#: Words of a brief reply, and characters of a sentence in which its cues are looked for.
BRIEF_WORDS, OPENING = 6, 48
#: Of a sentence without any of these the shape says nothing.
_MARKS = re.compile(r"[^a ]")
#: But for those around a date that was resolved, which ``IDLE`` knows.
_BRACKETS = re.compile(r"(?P<date>\(\d{4}(?:-\d\d){0,2}\))|[()]")
_TWO_WORDS = re.compile(r"[^\W\d_]{2,} [^\W\d_]{2,}")
_NUMBERED_LINE = re.compile(r"\d+[:|]")
_LETTERS, _DIGITS = re.compile(r"[^\W\d]+"), re.compile(r"\d+")


class Speaker(NamedTuple):
    """Who said something, as a line begins: ``user``, ``user Ana``, ``tool bash``."""

    role: str
    name: str = ""

    @property
    def label(self) -> str:
        return f"{self.role} {self.name}".rstrip()

    @property
    def is_person(self) -> bool:
        return self.role in PEOPLE

    def weight_of(self, text: str, words: Words, *, is_code: bool = False) -> float:
        """How much what it says is worth: a tool's outcome more than the rest of its output, a row next to nothing."""
        # A named assistant is somebody who takes part.
        weight = 1.0 if self.name and self.role == Role.ASSISTANT else _ROLE_WEIGHTS.get(self.role, 1.0)
        if self.role != Role.TOOL:
            return weight * (CODE if is_code or text.startswith("|") else 1.0)
        ends = known.OUTCOME.search(text)
        is_row = _NUMBERED_LINE.match(text) or not (ends or ":" in text or _TWO_WORDS.search(text))
        # The names of files, and nothing said of them.
        is_row = is_row or (not ends and 4 <= len(words.marked) >= 0.8 * len(words.content))
        return ROW if is_row else _OUTCOME if ends else weight


@dataclass(eq=False)
class Statement:
    day: str
    speaker: Speaker
    text: str
    words: Words
    weight: float = 1.0
    #: Content words before anything was joined.
    size: int = field(init=False)
    #: Those that only what was joined has.
    joined: frozenset[str] = frozenset()
    #: The newer one that says it again, or with another value.
    replaced_by: Statement | None = None
    #: The summary tells it, in whatever words.
    is_told: bool = False
    #: Never told without these; nor without those that name the same, if they are not too many.
    needs: list[Statement] = field(default_factory=list)
    mentions: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = len(self.words.content)

    @property
    def asks(self) -> bool:
        return is_question(self.text)

    @property
    def is_own(self) -> bool:
        """Whether it is what a person says, and not only passes on."""
        return (self.speaker.is_person or any(self._adopted)) and not self.text.startswith(QUOTED)

    @property
    def is_rule(self) -> bool:
        """A rule, a wish or a decision; of nobody's own, where a document or a model says so."""
        return not self.asks and (self._adopted[1] or self._demand > 0)

    @property
    def is_firm(self) -> bool:
        """A rule of a person that forbids or demands."""
        if not self.is_own or self.asks:
            return False
        return self._demand == 2 or (self._adopted[1] and known.NEGATION.search(self.text) is not None)

    @cached_property
    def _demand(self) -> int:
        asked, decided = self._adopted
        is_model_asking = self.speaker.role == Role.ASSISTANT and asked and not decided
        # What a model asks is no rule, unless a person says yes.
        if is_model_asking and not any(early(known.ACCEPTANCE, reply) for _, reply in self._replies):
            return demand_of(". ".join(reply for _, reply in self._replies))
        return demand_of(self.text)

    @cached_property
    def _adopted(self) -> tuple[bool, bool]:
        """Whether a model asked and a person said how it is; and whether they made it their own decision."""
        return any(ends_in_question(said) for said, _ in self._replies), any(decides(*one) for one in self._replies)

    @cached_property
    def _replies(self) -> list[tuple[str, str]]:
        """What was said or asked, and what a person replied."""
        found = _REPLY.finditer(self.text) if "(" in self.text else ()
        return [
            (self.text[: max(one.start(), one.end("asked"))].rstrip(), one["reply"])
            for one in found
            # What follows a model's question is a person's answer only where the rest is that person's too.
            if not one["asked"] or self.speaker.is_person
        ]

    def join(self, speaker: Speaker, text: str, words: Words) -> None:
        """Make a sentence part of this statement."""
        if speaker != self.speaker:
            # With brackets of its own a reply would end ours, and go on as the words of this speaker.
            self.text += f" ({speaker.label}: {_BRACKETS.sub(_square, text)})"
        else:
            self.text += f"{'.' if self.text[-1:].isalnum() else ''} {text}"
        self.joined |= words.content - self.words.content
        self.words = Words(*map(frozenset.union, self.words, words))
        for name in ("_demand", "_adopted", "_replies"):
            self.__dict__.pop(name, None)


def _square(bracket: re.Match[str]) -> str:
    return bracket["date"] or ("[" if bracket[0] == "(" else "]")


def is_question(text: str) -> bool:
    if text.endswith(("?", "？", "؟")):
        return True
    return text[-1:].isalnum() and "(" not in text and known.QUESTION.match(text) is not None


def ends_in_question(text: str) -> bool:
    return is_question(text.rstrip(')”"'))


def early(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern occurs within the first three words."""
    match = pattern.search(text, 0, OPENING)
    return match is not None and len(text[: match.start()].split()) <= 2


def decides(proposed: str, reply: str) -> bool:
    """Whether a reply makes what was proposed or asked one's own decision: a yes, a no, or one of the choices."""
    asks = ends_in_question(proposed)
    if known.HEDGE.search(reply):
        return False
    # "Oak or ash? Ash."
    if asks and not read_words(reply).content.isdisjoint(read_words(proposed).content):
        return True
    if not known.PROPOSAL.search(proposed):
        return False
    if denial := known.NEGATION.search(known.IDLE.sub("-", reply)):
        return asks and len(reply[: denial.start()].split()) <= 1
    return count_words(reply) <= BRIEF_WORDS and early(known.ACCEPTANCE, reply)


def demand_of(text: str) -> int:
    """2 where it forbids or demands, 1 for a wish or a decision, 0 for neither."""
    text = known.IDLE.sub("-", text)
    # Denied twice, or denied and bounded: "we do not deploy without a review".
    denials = sum(1 for _ in islice(known.NEGATION.finditer(text), 2))
    if known.FIRM.search(text) or denials + bool(denials and known.BOUND.search(text)) >= 2:
        return 2
    return 1 if known.RULE.search(text) else 0


def level_rows(sentences: Sequence[Any]) -> None:
    """What has a ``text`` and a ``weight``, and looks like others of the same message, weighs almost nothing."""
    if len(sentences) <= _MOST_ROWS:
        return
    # The same for lines that differ only in their words and numbers.
    shapes = [_DIGITS.sub("0", _LETTERS.sub("a", one.text[:80]))[:30] for one in sentences]
    often = Counter(shapes)
    for sentence, shape in zip(sentences, shapes, strict=True):
        if often[shape] > _MOST_ROWS and _MARKS.search(shape):
            sentence.weight = min(sentence.weight, ROW)
