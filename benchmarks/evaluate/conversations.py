"""Grows conversations with known facts from a domain's vocabulary, the same for the same seed.

A domain writes its sentences as templates. ``{slot}`` is drawn from a pool of the domain, of ``_MADE_UP`` or of what
every conversation has; the same slot is the same word within a template. ``[…]`` are the words of a fact's answer,
``<…>`` those of its evidence: what it is about. A template begins with its speaker: ``u``, ``a`` or ``t`` for a tool;
" / " stands between messages, " >> " between a value and the later message that changes it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

KINDS = ("constraint", "preference", "decision", "number", "name", "date", "change", "identifier")
#: How many facts of each kind a conversation of this many tokens has.
_FACTS = {
    "constraint": 8,
    "preference": 12,
    "decision": 18,
    "number": 20,
    "name": 14,
    "date": 16,
    "change": 12,
    "identifier": 16,
}
_FACTS_FOR_TOKENS = 16_000
#: Numbers and the like, drawn anew for each template.
_MADE_UP: dict[str, Callable[[random.Random], str]] = {
    "n": lambda dice: str(dice.randint(12, 980)),
    "few": lambda dice: str(dice.randint(2, 11)),
    "big": lambda dice: f"{dice.randint(1, 98)},{dice.randint(100, 999)}",
    "decimal": lambda dice: f"{dice.randint(0, 40)}.{dice.randint(11, 99)}",
    "time": lambda dice: f"{dice.randint(6, 21)}:{dice.choice(('05', '10', '20', '25', '35', '40', '50', '55'))}",
    "date": lambda dice: f"{dice.randint(1, 28)} {dice.choice(('February', 'April', 'May', 'June', 'September'))}",
    "hash": lambda dice: f"{dice.randrange(16**7):07x}",
    "code": lambda dice: (
        f"{dice.choice('ABCDEFGHKLMNPRSTVWX')}{dice.choice('BCDFGHKLMNPRST')}-{dice.randint(1000, 9999)}"
    ),
    "version": lambda dice: f"{dice.randint(1, 9)}.{dice.randint(0, 30)}.{dice.randint(0, 9)}",
    "day": lambda dice: dice.choice(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")),
}
_SLOT = re.compile(r"\{([a-z]+)(\d?)\}")
_MARKED = re.compile(r"\[([^\]]*)\]|<([^>]*)>")
#: Words so common that finding them says nothing. What denies or limits is none of them.
COMMON = frozenset(
    "a an the of to in on at for and or is are was be been it its this that we i you my our me us he she they them his "
    "her their with by as from will would so do does did has have had there here".split()
)
#: A number, a time or an identifier is one word; of an address or a path each part is.
_WORD = re.compile(r"\w+(?:(?:[.,’'_-]|(?<=\d):(?=\d))\w+)*")


def words(text: str) -> list[str]:
    """In lower case, without a genitive's end."""
    return [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(text.casefold())]


def content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if word not in COMMON)


@dataclass(frozen=True)
class Fact:
    kind: str
    #: As it was said.
    text: str
    answer: frozenset[str]
    evidence: frozenset[str]
    #: Number of the message in which it is said.
    place: int


@dataclass(frozen=True)
class Claim:
    """What misleads where it is shown without what keeps it true: patterns on the shown text."""

    id: str
    kind: str
    claim: str
    kept_true_by: str
    text: str = ""


@dataclass
class Turn:
    role: str
    text: str
    #: Name and arguments of each call that an assistant's message makes; the tools' results follow in this order.
    calls: tuple[tuple[str, str], ...] = ()
    moment: datetime | None = None
    #: Of a person, where not only the role says who speaks.
    name: str = ""


@dataclass(eq=False)
class Conversation:
    """Each is itself alone, so that what was stored of it can be found again."""

    name: str
    turns: list[Turn]
    facts: list[Fact]
    claims: list[Claim] = field(default_factory=list)
    #: Where the turns of each event begin: only there may other messages be planted.
    joints: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Domain:
    name: str
    #: "name: word; word" a line. A word may hold slots.
    pools: str
    #: A list of templates, one a line, by kind of fact.
    facts: Mapping[str, str]
    #: What people say beside the subject, with the answer.
    chat: str
    #: Sentences of long answers.
    prose: str
    #: What the user asks for, the tool with its arguments, a line of its result, what the assistant says of it.
    tools: str
    #: Code and tables that stand in answers.
    blocks: tuple[str, ...]
    #: What stands before and after a fact in the same message.
    before: str
    after: str
    #: How an assistant confirms.
    confirms: str


class _Pools:
    def __init__(self, domain: Domain, dice: random.Random) -> None:
        self.dice = dice
        self.words = {
            name: [word.strip() for word in told.split(";")]
            for name, told in (line.split(":", 1) for line in _lines(domain.pools))
        }
        self._unused: dict[str, list[str]] = {}

    def fill(self, template: str, *, fresh: bool = False) -> str:
        """``fresh``: no word of a pool twice in this conversation, as long as there are others."""
        drawn: dict[str, str] = {}

        def draw(match: re.Match[str]) -> str:
            slot = match.group()
            while slot not in drawn:
                word = self.fill(self._draw(match[1], fresh), fresh=fresh)
                if word not in drawn.values():
                    drawn[slot] = word
            return drawn[slot]

        return _SLOT.sub(draw, template)

    def _draw(self, name: str, fresh: bool) -> str:
        if name in _MADE_UP:
            return _MADE_UP[name](self.dice)
        if not fresh:
            return self.dice.choice(self.words[name])
        left = self._unused.setdefault(name, [])
        if not left:
            left += self.dice.sample(self.words[name], len(self.words[name]))
        return left.pop()


@dataclass
class _Event:
    """Some messages that belong together. ``told``: the facts by the number of their message here."""

    turns: list[Turn]
    told: list[tuple[int, str, str]] = field(default_factory=list)
    #: A value and its newer one.
    claims: list[Claim] = field(default_factory=list)


def grow(domain: Domain, seed: int, tokens: int) -> Conversation:
    """A conversation of about so many tokens (estimated from its characters), over some weeks."""
    dice = random.Random(f"{domain.name} {seed}")
    writer = _Writer(domain, dice)
    count = {kind: max(1, round(number * tokens / _FACTS_FOR_TOKENS)) for kind, number in _FACTS.items()}
    events = [event for kind in KINDS for event in writer.facts(kind, count[kind])]
    size = sum(_size(turn) for group in events for event in group for turn in event.turns)
    noise: list[_Event] = []
    while size < tokens:
        noise.append(writer.noise())
        size += sum(_size(turn) for turn in noise[-1].turns)
    # Events of one group keep their order, and have others between them.
    placed = [(dice.random(), event) for event in noise]
    for group in events:
        first = dice.random() * (0.55 if len(group) > 1 else 1.0)
        placed += [(first + number * dice.uniform(0.1, 0.4), event) for number, event in enumerate(group)]
    placed.sort(key=lambda item: item[0])
    start = datetime.combine(date(2026, dice.randint(1, 9), dice.randint(1, 28)), time(8, 12), UTC)
    pause = timedelta(days=dice.randint(20, 55)) / len(placed)
    told = Conversation(f"{domain.name} {seed}", [], [])
    for number, (_, event) in enumerate(placed):
        told.joints.append(len(told.turns))
        told.claims += event.claims
        for place, kind, text in event.told:
            told.facts.append(fact_of(kind, text, len(told.turns) + place))
        for step, turn in enumerate(event.turns):
            turn.moment = start + number * pause + timedelta(seconds=40 * step)
        told.turns += event.turns
    return told


def fact_of(kind: str, marked: str, place: int) -> Fact:
    found = _MARKED.findall(marked)
    answer = content_words(" ".join(one for one, _ in found))
    evidence = content_words(" ".join(two for _, two in found)) - answer
    assert answer, marked
    return Fact(kind, unmarked(marked), answer, evidence, place)


def unmarked(marked: str) -> str:
    return _MARKED.sub(lambda match: match[1] or match[2] or "", marked)


class _Writer:
    def __init__(self, domain: Domain, dice: random.Random) -> None:
        self._domain, self._dice, self._pools = domain, dice, _Pools(domain, dice)
        self._told: set[tuple[str, frozenset[str]]] = set()
        self._prose = _lines(domain.prose)
        self._chat = _lines(domain.chat)

    def facts(self, kind: str, number: int) -> Iterator[list[_Event]]:
        """Groups of events: a value that changes has two."""
        templates = _lines(self._domain.facts[kind])
        self._dice.shuffle(templates)
        for i in range(number):
            told = self._new(templates[i % len(templates)]).split(" >> ")
            events = [self._event(kind if part is told[-1] else "", part) for part in told]
            if len(told) > 1:
                older, newer = (re.findall(r"\[([^\]]*)\]", part)[0] for part in told)
                subject = content_words(" ".join(re.findall(r"<([^>]*)>", told[-1])))
                events[1].claims.append(_stale(older, newer, subject, told))
            yield events

    def _new(self, template: str) -> str:
        """Nothing is said a second time of the same thing, which would be a change that nobody spoke of."""
        for _ in range(50):
            told = self._pools.fill(template, fresh=True)
            about = (template, content_words(" ".join(re.findall(r"<([^>]*)>", told))))
            if about not in self._told:
                break
        self._told.add(about)
        return told

    def _event(self, kind: str, template: str) -> _Event:
        parts = [(part[0], part[2:]) for part in template.split(" / ")]
        fact = " ".join(text for _, text in parts)
        if parts[0][0] == "t":
            return self._with_tool(kind, parts[0][1])
        turns = [] if parts[0][0] == "u" else [Turn("user", self._line(self._domain.before))]
        for number, (speaker, marked) in enumerate(parts):
            text = unmarked(marked)
            if speaker == "u":
                # An answer follows its question at once.
                lead = "" if number or self._dice.random() < 0.4 else self._line(self._domain.before)
                tail = "" if self._dice.random() < 0.5 else self._line(self._domain.after)
            else:
                lead = self._paragraph(2) if self._dice.random() < 0.7 else ""
                tail = "" if number < len(parts) - 1 else self._paragraph(1)
            turns.append(Turn(_ROLES[speaker], " ".join(filter(None, (lead, text, tail)))))
        place = len(turns) - 1
        if turns[-1].role == "user":
            long = self._dice.random() < 0.35
            turns.append(Turn("assistant", self._paragraph(5) if long else self._line(self._domain.confirms)))
        return _Event(turns, [(place, kind, fact)] if kind else [])

    def _with_tool(self, kind: str, marked: str) -> _Event:
        wish, call, line, comment = self._dice.choice(_lines(self._domain.tools)).split(" | ")
        name, arguments = call.split(" ", 1)
        lines = [self._pools.fill(line) for _ in range(self._dice.randint(4, 14))]
        place = self._dice.randint(len(lines) // 2, len(lines))
        if marked:
            lines.insert(place, unmarked(marked))
        made = (name, self._pools.fill(arguments).replace("(", "{").replace(")", "}"))
        turns = [
            Turn("user", self._pools.fill(wish)),
            Turn("assistant", "", (made,)),
            Turn("tool", "\n".join(lines)),
            Turn("assistant", self._pools.fill(comment) + " " + self._paragraph(self._dice.randint(0, 3))),
        ]
        return _Event(turns, [(2, kind, marked)] if kind else [])

    def noise(self) -> _Event:
        shape = self._dice.choices(("chat", "essay", "tool"), (6, 4, 2))[0]
        if shape == "tool":
            return self._with_tool("", "")
        asked, answered = self._pools.fill(self._dice.choice(self._chat)).split(" / ")
        if shape == "essay":
            answered = "\n\n".join(self._paragraph(self._dice.randint(3, 6)) for _ in range(self._dice.randint(1, 3)))
            if self._dice.random() < 0.4:
                answered += "\n\n" + self._block()
        return _Event([Turn("user", asked), Turn("assistant", answered)])

    def _block(self) -> str:
        """A table or code. A line that ends with "*" is repeated with other words."""
        told: list[str] = []
        for line in self._dice.choice(self._domain.blocks).strip("\n").splitlines():
            times = self._dice.randint(3, 9) if line.endswith("*") else 1
            told += [self._pools.fill(line.removesuffix("*")) for _ in range(times)]
        return "\n".join(told)

    def _paragraph(self, sentences: int) -> str:
        return " ".join(self._pools.fill(s) for s in self._dice.sample(self._prose, min(sentences, len(self._prose))))

    def _line(self, templates: str) -> str:
        return self._pools.fill(self._dice.choice(_lines(templates)))


_ROLES = {"u": "user", "a": "assistant", "t": "tool"}


def _stale(older: str, newer: str, subject: frozenset[str], told: list[str]) -> Claim:
    """An older value, told with what it is about in one statement, misleads without the newer one."""
    about = max(subject, key=lambda word: (len(word), word))
    old, new = (rf"(?<![\w.,:]){re.escape(value)}(?![\w:]|[.,]\d)" for value in (older, newer))
    either = rf"(?i:{re.escape(about)}[^·\n]*{old}|{old}[^·\n]*{re.escape(about)})"
    return Claim(f"{about} {older}", "stale value", either, f"(?i:{new})", unmarked(" >> ".join(told)))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def _size(turn: Turn) -> float:
    return (len(turn.text) + sum(len("".join(call)) for call in turn.calls)) / 4.3 + 4
