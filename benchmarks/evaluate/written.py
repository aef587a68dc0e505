"""What people wrote for tests/conversations, with the facts that they planted in it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

from benchmarks.evaluate.cases import REPOSITORY
from benchmarks.evaluate.conversations import Claim, Conversation, Fact, Turn, content_words

#: The hand-written conversations' categories by the kinds of facts that they are.
_KINDS = {"prohibition": "constraint", "path": "identifier", "url": "identifier", "quote": "decision"}
#: So many words around a plant are what it is about.
_EVIDENCE = 3


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
