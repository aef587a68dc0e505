"""A statement: one or more whole sentences of one speaker that are told together or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import or_
from typing import NamedTuple

from compaction_app.memory import word_tables as known
from compaction_app.memory.quoting import QUOTED
from compaction_app.memory.words import Words, count_words, is_unspaced, read_words
from compaction_app.values import Role

#: Whose words a model's prose is in the next generation: nobody's.
NOBODY = "summary"
PEOPLE = frozenset({Role.USER.value, Role.SYSTEM.value, Role.DEVELOPER.value})
#: What is worth telling of each; people's words count whole.
_ROLE_WEIGHTS = {Role.ASSISTANT.value: 0.5, Role.TOOL.value: 0.45}
#: Of rows of logs and tables.
ROW = 0.03
#: Characters of a sentence in which the cues of a brief reply are looked for.
_OPENING = 48
#: With brackets of its own a reply would end ours, and go on as the words of another speaker.
_SQUARE = str.maketrans("()", "[]")
#: Two words, or a name of what follows, and no number first: "8:30 rain 1.4 mm" and "12 return None" are rows.
_SAYS = re.compile(r"(?!\W*\d+\W).*?(?:[^\W\d_]{2,} [^\W\d_]{2,}|[^\W\d_][\"'*`)\]]*:)")


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

    def weight_of(self, text: str) -> float:
        """How much what it says is worth: a tool's row next to nothing."""
        # A named assistant is somebody who takes part.
        if self.role == Role.TOOL and not (_SAYS.match(text) or known.FAILURE.search(text)):
            return ROW
        return 1.0 if self.name and self.role == Role.ASSISTANT else _ROLE_WEIGHTS.get(self.role, 1.0)


@dataclass(eq=False, slots=True)
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
    needs: Sequence[Statement] = ()
    mentions: Sequence[Statement] = ()
    #: Once all is read (:func:`choosing.appraise`): each word with what it is worth where nothing tells it, a factor on
    #: these, and what a rule has beside its words.
    worth: Mapping[str, float] = field(default_factory=dict)
    factor: float = 0.0
    bonus: float = 0.0
    _demand: int | None = None

    def __post_init__(self) -> None:
        # Pairs of signs overlap: about two of them are one word.
        unspaced = 0 if self.text.isascii() else sum(map(is_unspaced, self.words.content))
        self.size = len(self.words.content) - unspaced // 2

    @classmethod
    def read(cls, day: str, speaker: Speaker, text: str, *, is_quoted: bool = False) -> Statement:
        return cls(day, speaker, QUOTED * is_quoted + text, read_words(text), speaker.weight_of(text))

    @property
    def asks(self) -> bool:
        return is_question(self.text)

    @property
    def is_own(self) -> bool:
        """Whether a person says it, and does not only pass it on."""
        return self.speaker.is_person and not self.text.startswith(QUOTED)

    @property
    def demand(self) -> int:
        """Whoever says it, once all is read: 2 where it forbids or demands, 1 for a rule, a wish or a decision."""
        if self._demand is None:
            self._demand = 0 if self.asks else demand_of(self.text, self.words.cues)
        return self._demand

    @property
    def is_rule(self) -> bool:
        """A person's rule, wish or decision."""
        return self.is_own and self.demand > 0

    @property
    def is_firm(self) -> bool:
        """A rule of a person that forbids or demands."""
        return self.is_own and self.demand == 2

    def join(self, speaker: Speaker, text: str, words: Words) -> None:
        """Make a sentence part of this statement."""
        if speaker != self.speaker:
            # An idle phrase is one of a model's or a tool's comment, too.
            words = words._replace(cues=words.cues | read_words(speaker.label).cues)
            self.text += f" ({speaker.label}: {text.translate(_SQUARE)})"
        else:
            self.text += f"{'.' if self.text[-1:].isalnum() else ''} {text}"
        self.joined |= words.content - self.words.content
        self.words = Words(*map(or_, self.words, words))


def is_question(text: str) -> bool:
    return text.rstrip(')”"').endswith(("?", "？", "؟"))


def early(cues: known.Cues, text: str, among: int | None = None) -> bool:
    """Whether one of them occurs within the first three words."""
    match = cues.search(text[:_OPENING], among)
    return match is not None and count_words(text[: match.start()]) <= 3


def demand_of(text: str, among: int | None = None) -> int:
    """2 where it forbids or demands, 1 for a wish or a decision, 0 for neither."""
    text = known.IDLE.sub("-", text, among)
    if known.FIRM.search(text, among):
        return 2
    # Denied twice: "we do not deploy without a review".
    if (denied := known.NEGATION.search(text, among)) and known.NEGATION.pattern.search(text, denied.end()):
        return 2
    return 1 if known.RULE.search(text, among) else 0
