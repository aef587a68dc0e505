"""Traps for a summarizer: a claim, and what denies, limits or corrects it, planted in a conversation.

A summary that tells the claim without the rest misleads. One that tells both is true, and so is one without either.

A trap is grown from a template: ``messages => claim => what keeps it true``. Messages stand between " / ", each begins
with its speaker; ``*`` marks the message with the claim where it is not the first, ``+`` the one before which other
messages may stand. ``[…]`` is the part of a sentence without which it misleads, ``<a|b>`` a choice, ``{A}`` something
made up (``_POOLS``). In the patterns ``~`` are other words of the same statement (of what follows, for what keeps it
true), and ``~~`` any words. No pattern depends on an article or a greeting: summaries drop them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.evaluate.cases import shared
from benchmarks.evaluate.conversations import Claim, Conversation, Turn


@dataclass(frozen=True, kw_only=True)
class Trap:
    id: str
    kind: str
    #: (speaker, text): speakers are 0 and 1.
    messages: tuple[tuple[int, str], ...]
    #: Found where the claim is told.
    claim: str
    #: Found where what makes it true is told.
    kept_true_by: str
    #: How many other messages stand before the last of these.
    gap: int = 0
    #: What a summary that misleads would say, and all that was said besides.
    claim_text: str = ""
    correction: str = ""

    @property
    def told(self) -> str:
        return "\n".join(text for _, text in self.messages)


#: Beginnings, middles and ends of names that nobody has.
Syllables = Mapping[str, tuple[tuple[str, ...], ...]]

#: Each letter of a template is drawn from one pool, so that two of a pool differ.
_POOLS = {"names": "AB", "numbers": "nm", "times": "tu", "dates": "de", "identifiers": "ij", "versions": "vz"}
_LETTERS = {letter: pool for pool, letters in _POOLS.items() for letter in letters}
_MONTHS = ("January", "February", "March", "May", "June", "July", "October", "November")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
#: A claim of these kinds is made true by any plain denial of it, in whatever words a summary has.
_DENIABLE = {"denial", "cancellation", "question", "permission", "retraction"}
_DENIAL = r"(?:not|never|no longer|cancel\w*|declin\w*|refus\w*|\w+n['’]t)\b"


class _Drawn(dict[str, str]):
    """The values of one trap by letter, drawn when they are first asked for."""

    def __init__(self, dice: random.Random, pools: Mapping[str, Iterator[str]]) -> None:
        super().__init__(zip("wx", dice.sample(_WEEKDAYS, 2), strict=True))
        self._pools = pools

    def __missing__(self, letter: str) -> str:
        if letter in "ab":
            return self[letter.upper()].lower()
        self[letter] = next(self._pools[_LETTERS[letter]])
        return self[letter]


def grow(prefix: str, templates: str, syllables: Syllables, seed: int, copies: int = 2) -> list[Trap]:
    """Every template once in a random order, then again: ``copies`` times. Only weekdays are used twice.

    Traps of one template are alike but for their values, so they belong into different conversations.
    """
    dice = random.Random(f"{prefix} {seed}")
    pools = {language: _pools(dice, parts, language) for language, parts in syllables.items()}
    grown: list[Trap] = []
    for _ in range(copies):
        first = len(grown)
        kind, language = "", "en"
        for paragraph in re.split(r"\n(?=\S)", templates.strip()):
            if paragraph.startswith("#"):
                kind, language = [*paragraph[1:].split(), "en"][:2]
            else:
                drawn = _Drawn(dice, {**pools[""], **pools.get(language, {})})
                name = f"{prefix}-{kind}-{len(grown) + 1}"
                grown.append(_trap(name, kind, language, " ".join(paragraph.split()), drawn, dice))
        grown[first:] = dice.sample(grown[first:], len(grown) - first)
    return grown


def _pools(dice: random.Random, parts: tuple[tuple[str, ...], ...], language: str) -> dict[str, Iterator[str]]:
    made: dict[str, list[str]] = {"names": ["".join(name) for name in product(*parts)]}
    if not language:
        made["numbers"] = [str(number) for number in range(211, 989) if number % 10]
        made["times"] = [f"{hour}:{minute}" for hour in range(8, 18) for minute in range(11, 60) if minute % 5]
        made["dates"] = [f"{day} {month}" for month in _MONTHS for day in range(2, 29)]
        made["identifiers"] = [f"{a}{b}-{number}" for a in "QXK" for b in "JWV" for number in range(1013, 1900, 17)]
        made["versions"] = [f"{major}.{minor}.{minor - major}" for major in range(2, 9) for minor in range(11, 30)]
    for values in made.values():
        dice.shuffle(values)
    return {name: iter(values) for name, values in made.items()}


def _trap(name: str, kind: str, language: str, template: str, drawn: _Drawn, dice: random.Random) -> Trap:
    told, claim, truth = template.split(" => ")
    told = re.sub(r"<(.+?)>", lambda match: dice.choice(match[1].split("|")), told)
    told = re.sub(r"\{(\w)\}", lambda match: drawn[match[1]], told)
    messages, claims, besides, gap = [], [], [], 0
    for place, message in enumerate(told.split(" / ")):
        marks, text = message.split(" ", 1)
        messages.append((int(marks[0]), re.sub(r"[\[\]]", "", text)))
        if "*" in marks or (place == 0 and not re.search(r" / \d\*", told)):
            claims.append(re.sub(r"\[.*?\]", "", text))
            besides += re.findall(r"\[(.*?)\]", text)
        else:
            besides.append(messages[-1][1])
        if "+" in marks:
            gap = dice.randint(1, 15)
    if kind in _DENIABLE and language == "en":
        truth += rf"|\b{{A}}[^·\n]{{0,80}}\b{_DENIAL}"
    truth = truth.replace("~~", r"[\s\S]*?").replace("~", r"[\s\S]{0,120}?")
    # plain words make it true only near to a name or value of the trap; in a long text they stand anywhere
    made_up = "|".join(f"{{{letter}}}" for letter in sorted(drawn) if letter not in "wx")
    near = r"[\s\S]{0,240}?"
    return Trap(
        id=name,
        kind=kind,
        messages=tuple(messages),
        claim=_pattern(claim.replace("~", r"[^·\n]*"), drawn),
        kept_true_by=_pattern(rf"(?={made_up}){near}(?:{truth})|(?={truth}){near}(?:{made_up})", drawn),
        gap=gap,
        claim_text=" ".join(claims).strip(),
        correction="\n".join(besides),
    )


def _pattern(pattern: str, drawn: _Drawn) -> str:
    """Case does not matter, and a number is not found inside a longer one."""

    def value(match: re.Match[str]) -> str:
        found = re.escape(drawn[match[1]])
        return rf"(?<!\d){found}(?!\d)" if found[0].isdigit() else found

    return "(?i:" + re.sub(r"\{([A-Za-z])\}", value, pattern) + ")"


def reference() -> list[Trap]:
    """Those of a file that is not part of this repository; none where it is missing."""
    path = shared("reference") / "traps.json"
    return [
        Trap(
            id=one["id"],
            kind="reference",
            messages=tuple((message["speaker"], message["text"]) for message in one["messages"]),
            claim=one["claim"],
            kept_true_by=one["kept_true_by"],
        )
        for one in (json.loads(path.read_text()) if path.is_file() else [])
    ]


def plant(conversation: Conversation, traps: Sequence[Trap], seed: int) -> tuple[Conversation, list[Trap]]:
    """The conversation with as many of the traps as do not resemble anything in it; and those that are left."""
    dice = random.Random(f"{conversation.name} {seed}")
    everything = "\n".join(turn.text for turn in conversation.turns)
    taken: list[Trap] = []
    left: list[Trap] = []
    for trap in traps:
        others = [everything, *(other.told for other in taken)]
        clash = any(re.search(trap.claim, text) for text in others)
        clash = clash or any(re.search(other.claim, trap.told) for other in taken)
        (left if clash else taken).append(trap)
    free = list(range(len(conversation.joints) - 1))
    dice.shuffle(free)
    inserted: dict[int, list[Turn]] = {}
    for trap in taken:
        first = free.pop()
        told = [(first, message) for message in trap.messages]
        if trap.gap:
            # Another trap's messages never stand right before its last one, which would seem to answer them.
            behind = [joint for joint in free if conversation.joints[joint] - conversation.joints[first] >= trap.gap]
            told[-1] = (min(behind, default=first), trap.messages[-1])
            free = [joint for joint in free if joint != told[-1][0]]
        for joint, (speaker, text) in told:
            place = conversation.joints[joint]
            inserted.setdefault(place, []).append(
                Turn(("user", "assistant")[speaker], text, (), conversation.turns[place].moment)
            )
    turns: list[Turn] = []
    for number, turn in enumerate(conversation.turns):
        turns += [*inserted.get(number, ()), turn]
    claims = [Claim(one.id, one.kind, one.claim, one.kept_true_by, one.told) for one in taken]
    return Conversation(conversation.name, turns, [], claims), left
