"""One client: a process that talks in several conversations at once and journals what was acknowledged.

What it does next is drawn from its seed; where it does it depends on what it has seen. Two clients share half of their
conversations. Of an operation whose connection was killed the client does not know whether it was carried out: with an
idempotency key it sends it again, otherwise it goes on from the last message that it knows.
"""

import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django
import openai
import psycopg
from django.db import InterfaceError, OperationalError, connection

from tests.soak.journal import Journal, digest
from tests.soak.model import CHAT_MODEL, MARKER

#: How often a client does what, in a thousand steps. A turn is four operations.
SHARES = {
    "turn": 460,
    "tool_turn": 40,
    "edit": 60,
    "regenerate": 60,
    "switch": 152,
    "look": 120,
    "redact": 25,
    "delete": 25,
    "retire": 10,
    "compact": 14,
    "complete": 27,
    "delete_session": 1,
}
#: Conversations of a client: its own, and those that it shares with its neighbour.
OWN, SHARED = 2, 2
#: Messages that a client adds to a conversation before it goes on in another one.
LONGEST = 300
#: Operations a second that one client sends at most.
MOST_A_SECOND = 55
WORDS = """harbour berth tide board pilot crane quay sluice barge ballast mooring lantern ledger manifest customs cargo
wharf signal buoy rudder anchor hatch winch rope tarpaulin grain timber copper salt amber cask crate invoice seal
""".split()


@dataclass
class Node:
    """A message that the client knows."""

    row: Any
    parent: Any
    role: str


@dataclass
class Room:
    """A conversation as this client sees it."""

    name: str
    is_shared: bool
    number: int = 0
    session: Any = None
    tip: Any = None
    nodes: dict[int, Node] = field(default_factory=dict)
    added: int = 0


class Client:
    def __init__(self, number: int, seed: int, seconds: float, folder: Path) -> None:
        from compaction_app import chat, exceptions

        self.chat, self.number = chat, number
        self.random = random.Random(f"client {seed} {number}")
        self.journal = Journal(folder / f"client-{number}.jsonl")
        self.openai = openai.OpenAI(base_url=os.environ["SOAK_MODEL_URL"], api_key="none", timeout=1.0, max_retries=0)
        self.markers = self.operations = 0
        self.started = time.monotonic()
        self.until = self.started + seconds
        gone = exceptions.MessageNotFound
        #: The errors that an operation documents, and that another client or the model can cause.
        self.documented: dict[str, tuple[type[Exception], ...]] = {
            "start": (exceptions.DuplicateExternalId,),
            "compact": (gone, exceptions.CompactionRefused, exceptions.CompactionFailed),
            "complete": (gone, exceptions.ContextOverflow, exceptions.InvalidReply, openai.APIError),
        }
        self.always = (gone,)
        pair = number // 2
        self.rooms = [Room(f"own-{number}-{n}", is_shared=False) for n in range(OWN)]
        self.rooms += [Room(f"shared-{pair}-{n}", is_shared=True) for n in range(SHARED)]

    def run(self) -> None:
        kinds, weights = list(SHARES), list(SHARES.values())
        while time.monotonic() < self.until:
            # Always the same number of draws, so that the choices do not depend on what happened.
            kind = self.random.choices(kinds, weights)[0]
            room = self.random.choice(self.rooms)
            place = self.random.random()
            if room.session is None or room.added > LONGEST:
                self.enter(room)
            if room.session is not None:
                step: Callable[[Room, float], None] = getattr(self, kind)
                step(room, place)
            ahead = self.started + self.operations / MOST_A_SECOND - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
        self.journal.before("end")

    # -- one operation ----------------------------------------------------------------------------------

    def do(
        self, op: str, call: Callable[[], Any], acknowledge: Callable[[Any], Any] = lambda _: True, **sent: Any
    ) -> tuple[Any, bool]:
        """Journal, send, journal. The result, None after an error; and whether the outcome is unknown."""
        number = self.journal.before(op, **sent)
        self.operations += 1
        try:
            result = call()
            acknowledged = acknowledge(result)
        except self.documented.get(op, self.always) as error:
            self.journal.after(number, error=type(error).__name__)
        except (OperationalError, InterfaceError, psycopg.OperationalError) as error:
            # A deadlock has the same class in Django, and no fault of this run may cause one. What is raised where a
            # server's cursor is closed Django does not translate.
            cause = type(error if isinstance(error, psycopg.Error) else error.__cause__).__name__
            expected = cause in ("AdminShutdown", "OperationalError", "InterfaceError", "NoneType")
            self.journal.after(number, error=f"{type(error).__name__} ({cause})", unknown=True, unexpected=not expected)
            connection.close()
            return None, True
        except Exception as error:
            self.journal.after(
                number, error=type(error).__name__, unknown=True, unexpected=True, trace=traceback.format_exc()
            )
            connection.close()
        else:
            self.journal.after(number, ok=acknowledged)
            return result, False
        return None, False

    def enter(self, room: Room) -> None:
        """Begin the next conversation of this name, or join it if the neighbour has begun it."""
        from compaction_app.models import ChatSession

        room.number += 1
        name = f"{room.name}-{room.number}"
        room.session, room.tip, room.nodes, room.added = None, None, {}, 0
        session, _ = self.do(
            "start",
            lambda: self.chat.start_session(external_id=name, model=CHAT_MODEL, system_prompt="You keep the board."),
            lambda made: {"id": str(made.pk)},
        )
        if session is None:
            try:
                session = ChatSession.objects.filter(external_id=name).first()
            except (OperationalError, InterfaceError):
                connection.close()
        room.session = session

    def append(self, room: Room, parent: Any, *roles: str, context: Any = None) -> Any:
        """Store one message, or a chain of them; the last one."""
        messages = [self.message(role, n, len(roles)) for n, role in enumerate(roles)]
        key = f"key-{self.number}-{self.markers}" if len(roles) == 1 and self.markers % 2 else ""
        session = room.session

        def send() -> list[Any]:
            if len(messages) > 1:
                return list(self.chat.append_messages(session, parent, messages))
            stored = self.chat.append_message(session, parent, **messages[0], context=context, idempotency_key=key)
            return [stored]

        sent = {
            "s": str(session.pk),
            "p": parent.pk if parent else None,
            "chain": [self.described(message["role"], message["content"]) for message in messages],
        }
        if key:
            sent["k"] = key
        rows, unknown = self.do("append", send, self.stored, **sent)
        if unknown and key:
            rows, _ = self.do("append", send, self.stored, **sent)
        return self.add(room, parent, rows)

    def message(self, role: str, n: int, of: int) -> dict[str, Any]:
        marker = self.marker()
        words = random.Random(marker)
        text = " ".join(words.choice(WORDS) for _ in range(words.randint(20, 60)))
        message = {"role": role, "content": f"{marker}: {text}, says Ida — {words.randint(2, 900)} tons by Friday."}
        if of > 1 and n == 0:
            function = {"name": "look", "arguments": f'{{"query": "{marker}"}}'}
            message["tool_calls"] = [{"id": f"call-{self.number}", "type": "function", "function": function}]
        if role == "tool":
            message["tool_call_id"] = f"call-{self.number}"
        return message

    def marker(self) -> str:
        self.markers += 1
        return f"mk{self.number}x{self.markers}z"

    @staticmethod
    def described(role: str, content: str) -> dict[str, str]:
        return {"m": MARKER.findall(content)[0], "r": role, "h": digest(content)}

    @staticmethod
    def stored(rows: Sequence[Any]) -> dict[str, list[int]]:
        return {"ids": [row.pk for row in rows], "tokens": [row.token_count for row in rows]}

    def add(self, room: Room, parent: Any, rows: Sequence[Any] | None) -> Any:
        if not rows:
            return None
        for row in rows:
            room.nodes[row.pk] = Node(row, parent, row.role)
            parent = row
        room.tip, room.added = parent, room.added + len(rows)
        return parent

    # -- what a client does -----------------------------------------------------------------------------

    def turn(self, room: Room, place: float) -> None:
        question = self.append(room, room.tip, "user")
        self.answer(room, question)

    def tool_turn(self, room: Room, place: float) -> None:
        question = self.append(room, room.tip, "user")
        if question is not None:
            reply = self.append(room, question, "assistant", "tool", "assistant")
            self.request(room, reply)

    def answer(self, room: Room, question: Any) -> None:
        if question is None:
            # Deleted by the neighbour, or its fate is unknown: go on from what is there.
            self.switch(room, 0.99)
            return
        context = self.read(room, question)
        self.request(room, self.append(room, question, "assistant", context=context))

    def request(self, room: Room, reply: Any) -> None:
        if reply is not None:
            self.do("request", lambda: self.chat.request_compaction(reply), lambda run: run.pk if run else 0)

    def read(self, room: Room, tip: Any) -> Any:
        """Read what a model would be shown; the journal keeps the markers in it."""

        def shown(context: Any) -> dict[str, Any]:
            return {"shown": MARKER.findall("\n".join(message.content for message in context.messages))}

        sent = {"s": str(room.session.pk), "tip": tip.pk}
        return self.do("read", lambda: self.chat.get_context(tip), shown, **sent)[0]

    def look(self, room: Room, place: float) -> None:
        if room.tip is not None:
            self.read(room, room.tip)

    def edit(self, room: Room, place: float) -> None:
        """Another question beside an earlier one, with its answer."""
        found = self.known(room, place, "user")
        if found is None:
            return self.turn(room, place)
        return self.answer(room, self.append(room, found.parent, "user"))

    def regenerate(self, room: Room, place: float) -> None:
        found = self.known(room, place, "user")
        if found is None:
            return self.turn(room, place)
        return self.request(room, self.append(room, found.row, "assistant"))

    def switch(self, room: Room, place: float) -> None:
        """Go to another branch, which may be the neighbour's, and read it."""

        def seen(tips: list[Any]) -> dict[str, Any]:
            told = [[t.pk, t.parent_message_id, t.role, "".join(MARKER.findall(t.content)[:1])] for t in tips]
            return {"seen": told}

        session = room.session
        tips, unknown = self.do("switch", lambda: self.chat.tips(session), seen, s=str(session.pk))
        if tips:
            # Most often one that is being written on.
            tip = tips[-1 - int(place**2 * len(tips))]
            known = room.nodes.get(tip.pk)
            room.nodes[tip.pk] = Node(tip, known.parent if known else None, tip.role if known else "seen")
            room.tip = tip
            self.read(room, tip)
        elif not unknown:
            # No message is left, or no session.
            room.tip = None
            room.added += LONGEST // 4

    def known(self, room: Room, place: float, role: str = "", newest: int = 60) -> Node | None:
        nodes = [node for node in room.nodes.values() if role in ("", node.role)][-newest:]
        return nodes[int(place * len(nodes))] if nodes else None

    def redact(self, room: Room, place: float) -> None:
        if found := self.known(room, place):
            sent = {"s": str(room.session.pk), "id": found.row.pk}
            self.do("redact", lambda: self.chat.redact_message(found.row), **sent)
            # Whatever the outcome, this client quotes it no more.
            found.row.content = ""

    def delete(self, room: Room, place: float) -> None:
        """Delete a message with all below it; most often a short piece at the end of a branch."""
        found = self.known(room, place, newest=12)
        if found is None:
            return
        sent = {"s": str(room.session.pk), "id": found.row.pk}
        self.do("delete", lambda: self.chat.delete_message(found.row), **sent)
        room.nodes.pop(found.row.pk, None)
        self.switch(room, place)

    def retire(self, room: Room, place: float) -> None:
        tip = room.tip
        if tip is None:
            return
        summary, _ = self.do("find_summary", lambda: self.chat.find_summary(tip))
        if summary is not None:
            self.do("retire", lambda: self.chat.retire_summary(summary, reason="soak"), s=str(room.session.pk))

    def compact(self, room: Room, place: float) -> None:
        """Compact now. In a conversation of its own the client's instructions quote a message."""
        tip = room.tip
        if tip is None:
            return
        quoted = "" if room.is_shared else " ".join(MARKER.findall(tip.content)[:1])
        instructions = f"Keep {quoted}." if quoted else ""
        call = lambda: self.chat.compact(tip, instructions=instructions)  # noqa: E731
        self.do("compact", call, lambda run: {"run": run.pk, "status": run.status}, s=str(room.session.pk), tip=tip.pk)

    def complete(self, room: Room, place: float) -> None:
        """Let the app ask the chat model and store its reply."""
        question = self.append(room, room.tip, "user")
        if question is None:
            return
        marker = self.marker()
        chain = [self.described("assistant", f"{marker}: noted, the board has it now.")]
        sent = {"s": str(room.session.pk), "p": question.pk, "chain": chain}
        call = lambda: [self.chat.complete(question, client=self.openai, user=marker)]  # noqa: E731
        rows, _ = self.do("complete", call, self.stored, **sent)
        self.add(room, question, rows)

    def delete_session(self, room: Room, place: float) -> None:
        session = room.session
        self.do("delete_session", lambda: self.chat.delete_session(session), s=str(session.pk))
        room.session = None


if __name__ == "__main__":
    django.setup()
    client, seed, seconds, folder = sys.argv[1:]
    Client(int(client), int(seed), float(seconds), Path(folder)).run()
