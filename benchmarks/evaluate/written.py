"""Conversations and traps that are files: what people wrote for tests/conversations, and reference/traps.json."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.evaluate import traps_held_out, traps_tuned
from benchmarks.evaluate.cases import REPOSITORY, shared
from benchmarks.evaluate.conversations import Claim, Conversation, Fact, Turn, content_words

#: The hand-written conversations' categories by the kinds of facts that they are.
_KINDS = {"prohibition": "constraint", "path": "identifier", "url": "identifier", "quote": "decision"}
#: So many words around a plant are what it is about.
_EVIDENCE = 3
_ROLES = ("user", "assistant")


def written_conversations() -> list[Conversation]:
    return [_read(path) for path in sorted((REPOSITORY / "tests" / "conversations").glob("*.json"))]


def _read(path: Path) -> Conversation:
    told = json.loads(path.read_text())
    turns, joints = [], []
    for number, message in enumerate(told["messages"]):
        called = [call["function"] for call in message.get("tool_calls") or ()]
        calls = tuple((call["name"], call["arguments"]) for call in called)
        moment = datetime.fromisoformat(message["created_at"])
        turns.append(Turn(message["role"], message.get("content") or "", calls, moment))
        if message["role"] == "user":
            joints.append(number)
    places = {message["id"]: number for number, message in enumerate(told["messages"])}
    plants = {plant["id"]: plant for plant in told["plants"]}
    facts, claims = [], []
    for plant in plants.values():
        newer = plants.get(plant["superseded_by"] or "")
        if newer:
            claims.append(
                Claim(plant["id"], "stale value", _literal(plant["text"]), _literal(newer["text"]), plant["text"])
            )
        elif answer := content_words(plant["text"]):
            place = places[plant["message"]]
            about = _around(turns[place].text, plant["text"])
            kind = "change" if any(p["superseded_by"] == plant["id"] for p in plants.values()) else plant["category"]
            facts.append(Fact(_KINDS.get(kind, kind), plant["text"], answer, about, place))
    return Conversation(path.stem, turns, facts, claims, joints)


def _literal(text: str) -> str:
    return "(?i:" + r"\s+".join(re.escape(word) for word in text.split()) + ")"


def _around(text: str, plant: str) -> frozenset[str]:
    """The longest words of the sentence in which it is said."""
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", text):
        if plant in sentence:
            rest = content_words(sentence) - content_words(plant)
            return frozenset(sorted(rest, key=lambda word: (-len(word), word))[:_EVIDENCE])
    return frozenset()


class Planted:
    """A trap as all files have it: messages of speaker 0 or 1, the claim, and how many messages stand between."""

    def __init__(self, claim: Claim, messages: Sequence[tuple[int, str]], gap: int) -> None:
        self.claim, self.messages, self.gap = claim, tuple(messages), gap


def reference_traps() -> list[Planted]:
    """Those of ``reference/traps.json`` beside the data folder; none where it is not at hand."""
    path = shared("reference") / "traps.json"
    if not path.is_file():
        return []
    return [_planted(trap) for trap in json.loads(path.read_text())]


def _planted(trap: dict[str, Any]) -> Planted:
    messages = [(message["speaker"], message["text"]) for message in trap["messages"]]
    text = " / ".join(text for _, text in messages)
    return Planted(Claim(trap["id"], "reference", trap["claim"], trap["kept_true_by"], text), messages, 0)


def grown_traps(held_out: bool, seed: int) -> list[Planted]:
    found = traps_held_out.traps(seed) if held_out else traps_tuned.traps(seed)
    return [
        Planted(
            Claim(trap.id, trap.kind, trap.claim, trap.kept_true_by, " / ".join(text for _, text in trap.messages)),
            trap.messages,
            trap.gap,
        )
        for trap in found
    ]


def plant(conversation: Conversation, traps: Sequence[Planted], seed: int) -> tuple[Conversation, list[Planted]]:
    """The conversation with as many of the traps as do not resemble anything in it; and those that are left."""
    dice = random.Random(f"{conversation.name} {seed}")
    everything = "\n".join(turn.text for turn in conversation.turns)
    taken: list[Planted] = []
    left: list[Planted] = []
    for trap in traps:
        own = "\n".join(text for _, text in trap.messages)
        others = [everything, *("\n".join(text for _, text in other.messages) for other in taken)]
        clash = any(re.search(trap.claim.claim, text) for text in others)
        clash = clash or any(re.search(other.claim.claim, own) for other in taken)
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
            inserted.setdefault(place, []).append(Turn(_ROLES[speaker], text, (), conversation.turns[place].moment))
    turns: list[Turn] = []
    for number, turn in enumerate(conversation.turns):
        turns += [*inserted.get(number, ()), turn]
    claims = [trap.claim for trap in taken]
    return Conversation(conversation.name, turns, [], claims), left
