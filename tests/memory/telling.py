"""What tests of the extract share: messages, and what is told of them at many targets and in later generations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from compaction_app.memory.extractive import Material, read_earlier
from compaction_app.tokens import Count, ExactTokenCounter
from compaction_app.values import Message, Role

COUNT = ExactTokenCounter()
FIRST_DAY = datetime(2025, 3, 10, 12, tzinfo=UTC)
TARGETS = (*range(30, 120, 12), 200, 400)

#: What a person says once, and what must still be found: rules, decisions, names, numbers, places, identifiers.
PLANTS = {
    "My name is Marta Kowalska.": "Marta Kowalska",
    "I'm allergic to peanuts.": "allergic to peanuts",
    "Never book a layover in Frankfurt.": "Never book a layover in Frankfurt",
    "We decided to fly with Finnair.": "Finnair",
    "I prefer window seats.": "prefer window seats",
    "The flight number is AY1331.": "AY1331",
    "We land on 12 March 2025.": "12 March 2025",
    "Our hotel is called Casa do Lago.": "Casa do Lago",
    "Notes belong in /srv/plans/lisbon.md.": "/srv/plans/lisbon.md",
    "The plan is at https://trips.example.com/lisbon/7.": "https://trips.example.com/lisbon/7",
    "The repo calls it compute_total_price.": "compute_total_price",
    "The password hint is \"blue heron at dawn\".": "blue heron at dawn",
    "Our cat Nemo weighs 6.5 kg.": "6.5 kg",
    "The invoice total was $4,310.55.": "$4,310.55",
    "Always answer in British English.": "Always answer in British English",
    "Uploads must be at most 25 MB.": "at most 25 MB",
}  # fmt: skip
_FILLINGS = (
    "There are several things to consider here, and the right choice depends on what matters to you.",
    "You could start with an overview and then look into each of the options in more depth.",
    "Thanks, that sounds good to me, tell me more about how this works in general.",
    "It usually helps to compare a few of them before going any further with it.",
)

Said = str | tuple[str, str]


def message(number: int, role: str = Role.USER, content: str = "", **fields: Any) -> Message:
    return Message(id=number, depth=number, role=role, tokens=10, content=content, **fields)


def chat(*contents: str, day: datetime | None = None) -> list[Message]:
    """User and assistant in turn."""
    roles = (Role.USER, Role.ASSISTANT)
    return [message(n + 1, roles[n % 2], text, created_at=day) for n, text in enumerate(contents)]


def turns(*said: Said) -> list[Message]:
    """A user's where no role is named."""
    named = [one if isinstance(one, tuple) else (Role.USER, one) for one in said]
    return [message(n, role, text) for n, (role, text) in enumerate(named, start=1)]


def among_others(*said: Said) -> list[Message]:
    """Between turns that tell of other things."""
    before = [f"Guest {n} is Anna Lind{n} from Turku, and she sleeps in room {n} until Sunday." for n in range(3)]
    after = [f"Crate {n} of Carl Berg{n} goes to Hanko on {n + 3} May, with the early boat." for n in range(3)]
    heard = (Role.ASSISTANT, "All right, thank you.")
    return turns(*(one for text in before for one in (text, heard)), *said, heard, *after)


def planted_conversation(fillings: int = 6) -> list[Message]:
    """Each plant in a message of its own, an hour apart, with small talk around it."""
    messages: list[Message] = []
    for n, plant in enumerate(PLANTS):
        filling = [_FILLINGS[(n + k) % 4] for k in range(fillings)]
        for role, text in ((Role.USER, f"{plant} {filling[0]}"), (Role.ASSISTANT, " ".join(filling[1:]))):
            moment = FIRST_DAY + timedelta(hours=len(messages))
            messages.append(message(len(messages) + 1, role, text, created_at=moment))
    return messages


def summarize(
    covered: Sequence[Message],
    target: int = 1000,
    previous: str = "",
    *,
    previous_is_extract: bool = True,
    count: Count = COUNT,
    instructions: str = "",
) -> str:
    earlier = read_earlier(previous, is_extract=previous_is_extract)
    return Material.of(*earlier, covered).extract(target, count, instructions)


def told(messages: Sequence[Message], generations: int = 2) -> Iterator[str]:
    """Every extract of them, at every target, and what is made of it a generation later."""
    for target in TARGETS:
        text = ""
        for generation in range(generations):
            text = summarize([] if generation else messages, target, text)
            yield text


def size(text: str) -> int:
    return COUNT([text])[0]


def found(text: str) -> int:
    return sum(needle in text for needle in PLANTS.values())
