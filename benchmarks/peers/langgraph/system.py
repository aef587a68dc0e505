"""LangGraph with its checkpointers for SQLite and PostgreSQL.

Run as ``python -m benchmarks.peers.langgraph.system messages <database URL>``; ``delta`` instead of ``messages`` stores
them in a ``DeltaChannel``.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from psycopg import Connection
from psycopg.rows import dict_row
from typing_extensions import TypedDict

from benchmarks.speed.serving import System, message, serve


class Messages(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


STATES = {"messages": Messages, "delta": Delta}
NODE = "reply"


class LangGraph(System):
    """A graph of one node, which replies without a model; a thread is a conversation.

    A turn is one ``invoke`` with the user's message, with ``durability="exit"``: one checkpoint a turn, the fewest that
    LangGraph writes. A conversation is stored by one ``update_state`` with all its messages, which is the least that a
    thread can have: one that was talked has a checkpoint for each turn. A fork is ``invoke`` from the checkpoint of the
    first half.
    """

    def __init__(self, variant: str, url: str) -> None:
        self.url = url
        if url.startswith("postgresql"):
            # As PostgresSaver.from_conn_string opens it.
            connection = Connection.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
            self.connection: Any = connection
            self.saver: Any = PostgresSaver(connection)
        else:
            self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = NORMAL")
            self.saver = SqliteSaver(self.connection)
        self.saver.setup()
        state = STATES[variant]
        graph = StateGraph(state)
        graph.add_node(NODE, lambda state: {"messages": [_message(1)]})
        graph.add_edge(START, NODE)
        graph.add_edge(NODE, END)
        self.graph = graph.compile(checkpointer=self.saver)
        self.numbers = count()

    def about(self) -> dict[str, Any]:
        names = ["langgraph", "langgraph-checkpoint-sqlite"]
        read = {name: f"PRAGMA {name}" for name in ("journal_mode", "synchronous")}
        if self.url.startswith("postgresql"):
            names = ["langgraph", "langgraph-checkpoint-postgres", "psycopg"]
            read = {name: f"SHOW {name}" for name in ("fsync", "synchronous_commit")}
        durability = []
        for name, statement in read.items():
            row = self.connection.execute(statement).fetchone()
            durability.append(f"{name} {next(iter(row.values())) if isinstance(row, dict) else row[0]}")
        return {"versions": {name: version(name) for name in names}, "durability": ", ".join(durability)}

    def grow(self, size: int, branches: int) -> None:
        for use in ("read", "written", "forked"):
            thread = _thread(f"{use} {size} {branches}")
            half = self.graph.update_state(thread, {"messages": [_message(at) for at in range(size // 2)]}, NODE)
            self.halves = getattr(self, "halves", {}) | {(use, size, branches): half}
            self.graph.update_state(thread, {"messages": [_message(at) for at in range(size // 2, size)]}, NODE)

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        read, written = (_thread(f"{use} {size} {branches}") for use in ("read", "written"))
        half = self.halves["forked", size, branches]

        def turn(at: dict[str, Any]) -> None:
            self.graph.invoke({"messages": [_message(0)]}, at, durability="exit")

        return {
            "read": lambda: self.graph.get_state(read).values["messages"],
            "append": lambda: self.graph.update_state(written, {"messages": [_message(0)]}, NODE),
            "turn": lambda: turn(written),
            "fork": lambda: turn(half),
        }


def _thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def _message(number: int) -> AnyMessage:
    stored = message(number)
    return (HumanMessage if stored["role"] == "user" else AIMessage)(stored["content"])


if __name__ == "__main__":
    serve(LangGraph(sys.argv[1], sys.argv[2]))
