"""What tests of survival share: the demo conversation's main branch, its plants, and a plain search for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ChatContext, Origin
from tests.conftest import REPOSITORY

CONVERSATION = REPOSITORY / "project" / "demo_conversation.json"
PLANTS = REPOSITORY / "project" / "demo_plants.json"
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "created_at")

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Plant:
    name: str
    text: str
    #: The message in which it is said.
    message: str
    #: The plant that replaces it.
    superseded_by: str | None


def main_branch() -> tuple[str, list[Fields]]:
    """The system prompt, and the messages from the root to the main tip as the file has them."""
    told = json.loads(CONVERSATION.read_text())
    messages = {
        message["id"]: {**message, "created_at": datetime.fromisoformat(message["created_at"])}
        for message in told["messages"]
    }
    branch = []
    following = json.loads(PLANTS.read_text())["main_tip"]
    while following:
        branch.append(messages[following])
        following = messages[following]["parent"]
    return told["system_prompt"], branch[::-1]


def plants() -> list[Plant]:
    return [
        Plant(plant["id"], plant["text"], plant["message"], plant["superseded_by"])
        for plant in json.loads(PLANTS.read_text())["plants"]
    ]


@dataclass(frozen=True)
class Found:
    """What a plain search of a context's text finds of the plants that its branch has told so far."""

    live: tuple[Plant, ...]
    missing: tuple[Plant, ...]
    #: Superseded ones that stand there without what replaced them.
    misleading: tuple[Plant, ...]

    @property
    def share(self) -> float:
        return 1 - len(self.missing) / len(self.live)


def search(context: ChatContext, told: Sequence[str]) -> Found:
    """Whatever the case and the white space. ``told``: ids of the branch's messages in the file."""
    text = _plain(history_text(context))
    known = {plant.name: plant for plant in plants() if plant.message in told}
    live = tuple(plant for plant in known.values() if plant.superseded_by not in known)
    return Found(
        live=live,
        missing=tuple(plant for plant in live if _plain(plant.text) not in text),
        misleading=tuple(
            plant
            for plant in known.values()
            if plant.superseded_by in known
            and _plain(plant.text) in text
            and _plain(known[plant.superseded_by].text) not in text
        ),
    )


def history_text(context: ChatContext) -> str:
    """Summary, pinned message and tail, with the arguments of calls."""
    shown = [message for message in context.messages if message.origin is not Origin.SYSTEM]
    calls = [call["function"]["arguments"] for message in shown for call in message.tool_calls]
    return "\n".join([*(message.content for message in shown), *calls])


def compact_turn_by_turn(session: ChatSession, branch: Sequence[Fields], generations: int) -> tuple[ChatMessage, int]:
    """Append the branch, compacting after each turn that is over the threshold, until so many summaries stand.

    Returns the tip and how many messages were appended.
    """
    tip = None
    for number, fields in enumerate(branch, start=1):
        tip = chat.append_message(session, tip, **{key: fields[key] for key in _FIELDS if fields.get(key)})
        turn_is_over = number == len(branch) or branch[number]["role"] == "user"
        if turn_is_over and chat.should_compact(tip):
            run = chat.compact(tip)
            if run.generation == generations:
                return tip, number
    raise AssertionError(f"the branch is too short for {generations} compactions")


def generations_of(session: ChatSession) -> Iterator[Any]:
    return session.runs.filter(generation__isnull=False).order_by("generation").iterator()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
