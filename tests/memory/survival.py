"""What tests of survival share: conversations with plants, and a plain search for them.

Those of tests/conversations were written by people who had not seen the code, to measure what was fitted to no
conversation: a rule of the ledger that is made for one of their sentences would spoil them.
"""

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


@dataclass(frozen=True)
class Conversation:
    system_prompt: str
    #: The messages from the root to a tip, as the file has them.
    branch: list[Fields]
    plants: list[Plant]


def demo() -> Conversation:
    """The demo conversation's main branch."""
    told, planted = json.loads(CONVERSATION.read_text()), json.loads(PLANTS.read_text())
    messages = {message["id"]: message for message in _dated(told["messages"])}
    branch = []
    following = planted["main_tip"]
    while following:
        branch.append(messages[following])
        following = messages[following]["parent"]
    return Conversation(told["system_prompt"], branch[::-1], _plants(planted["plants"]))


def written_blind(name: str) -> Conversation:
    """One of tests/conversations: a line without branches."""
    told = json.loads((REPOSITORY / "tests" / "conversations" / f"{name}.json").read_text())
    return Conversation(told["system_prompt"], _dated(told["messages"]), _plants(told["plants"]))


def _dated(messages: Sequence[Fields]) -> list[Fields]:
    return [{**message, "created_at": datetime.fromisoformat(message["created_at"])} for message in messages]


def _plants(told: Sequence[Fields]) -> list[Plant]:
    return [Plant(plant["id"], plant["text"], plant["message"], plant["superseded_by"]) for plant in told]


@dataclass(frozen=True)
class Found:
    """What a plain search of a context's text finds of the plants that its branch has told so far."""

    live: tuple[Plant, ...]
    missing: tuple[Plant, ...]
    #: Superseded ones that stand there without what replaced them.
    misleading: tuple[Plant, ...]

    @property
    def share(self) -> float:
        return (len(self.live) - len(self.missing)) / len(self.live)


def search(context: ChatContext, plants: Sequence[Plant], told: Sequence[str]) -> Found:
    """Whatever the case and the white space. ``told``: ids of the branch's messages in the file."""
    text = _plain(history_text(context))
    known = {plant.name: plant for plant in plants if plant.message in told}
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


def assert_survived(found: Found, context: ChatContext, *, least: float, plants: int) -> None:
    """At least that share of what still holds, nothing outdated without what replaced it, and the prompt fits."""
    assert len(found.live) >= plants
    assert found.share >= least, [plant.text for plant in found.missing]
    assert not found.misleading
    assert context.history_tokens <= context.available_tokens
    assert (context.dropped, context.window) == (0, 4000)


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


def told_and_searched(told: Conversation, generations: int) -> tuple[ChatSession, Found, ChatContext]:
    """A session in which it was told, turn by turn, until so many summaries stood; what a search finds there."""
    session = chat.start_session(model="gpt-4o-mini", system_prompt=told.system_prompt)
    tip, appended = compact_turn_by_turn(session, told.branch, generations)
    context = chat.get_context(tip)
    return session, search(context, told.plants, [message["id"] for message in told.branch[:appended]]), context


def generations_of(session: ChatSession) -> Iterator[Any]:
    return session.runs.filter(generation__isnull=False).order_by("generation").iterator()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
