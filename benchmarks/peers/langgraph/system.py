"""Threads of LangGraph, whose checkpoints are stored by SqliteSaver or PostgresSaver.

``python -m benchmarks.peers.langgraph.system messages|delta|delta_exit <database>``
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypedDict

os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}

import psycopg
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from psycopg.rows import dict_row

from benchmarks.peers import common

Config = dict[str, Any]


class WholeState(TypedDict):
    """Every checkpoint stores all messages."""

    messages: Annotated[list, add_messages]


class DeltaState(TypedDict):
    """A checkpoint stores what was added; each 100th update and each fork store all. In beta, says the library."""

    messages: Annotated[list, DeltaChannel(_messages_delta_reducer)]


def answer(_: Any) -> dict[str, Any]:
    return {"messages": [common.ANSWER]}


class SQLiteStore:
    """A saver on its long-lived connection."""

    read_back = common.PRAGMAS_READ_BACK

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        for pragma in common.PRAGMAS:
            self._connection.execute(pragma)
        self.saver = SqliteSaver(self._connection)
        self.saver.setup()

    def ask(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()[0]

    def settle(self) -> None:
        self._connection.execute("ANALYZE")
        self._connection.commit()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        trace = self._connection.set_trace_callback
        return common.count_statements(call, lambda statements: trace(statements.add), lambda: trace(None))


class _CountingCursor(psycopg.Cursor):
    statements: common.Statements

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        self.statements.add(query)
        return super().execute(query, *args, **kwargs)

    def executemany(self, query: Any, params_seq: Any, **kwargs: Any) -> None:
        rows = list(params_seq)
        self.statements.add(query, len(rows))
        super().executemany(query, rows, **kwargs)


class PostgresStore:
    """The same, with a connection as ``PostgresSaver.from_conn_string`` makes it, without the cost of a pool."""

    read_back = common.SETTINGS_READ_BACK

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        self.saver = PostgresSaver(self._connection)
        self.saver.setup()

    def ask(self, statement: str) -> Any:
        return next(iter(self._connection.execute(statement).fetchone().values()))

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE")

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        def watch(statements: common.Statements) -> None:
            _CountingCursor.statements = statements
            self._connection.cursor_factory = _CountingCursor

        return common.count_statements(
            call, watch, partial(setattr, self._connection, "cursor_factory", psycopg.Cursor)
        )


class Threads(common.Peer):
    """One graph of one node, which answers without a model.

    A thread is filled by three ``update_state``: three checkpoints in all instead of three for each turn, which is the
    best case. The first has half of the messages, and the second only one more, since a fork reads what was added to
    the checkpoint it starts from. A branch is made by such a fork; all are made before the rest is added, because the
    newest checkpoint of a thread is the one that is read. The checkpoint to fork from is known: a chat would store its
    id with its message.

    A turn is one ``invoke``. By default its checkpoints are stored while the node runs, the user's message before the
    answer; with ``durability="exit"`` all of it is stored at the end, and a crash before that loses the user's message.
    The library has no way to read only the newest messages of a thread.
    """

    def __init__(self, database: common.Database, *, state: type, durability: str) -> None:
        super().__init__()
        self._store = PostgresStore(database.address) if database.is_postgresql else SQLiteStore(database.address)
        builder = StateGraph(state)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        self._graph = builder.compile(checkpointer=self._store.saver)
        self._durability = durability
        self._middle: dict[str, Config] = {}

    def about(self) -> dict[str, Any]:
        packages = common.versions(
            "langgraph",
            "langgraph-checkpoint",
            "langgraph-checkpoint-sqlite",
            "langgraph-checkpoint-postgres",
            "psycopg",
        )
        return {"versions": packages, "durability": common.durability(self._store.read_back, self._store.ask)}

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return self._store.count(call)

    def settle(self) -> None:
        self._store.settle()

    def calls_on(self, read: str, written: str, forked: str, size: int) -> dict[str, Callable[[], Any]]:
        to_read, to_write, middle = _thread(read), _thread(written), self._middle[forked]
        return {
            "read": lambda: self._graph.get_state(to_read).values["messages"],
            "append": lambda: self._add(to_write, [common.EDITED], START),
            "turn": lambda: self._graph.invoke({"messages": [common.EDITED]}, to_write, durability=self._durability),
            "fork": lambda: self._add(middle, [common.EDITED], START),
        }

    def fill(self, name: str, size: int) -> None:
        items, half = common.messages(size), size // 2
        tip = self._middle[name] = self._add(_thread(name), items[:half], "answer")
        for rest in (items[half : half + 1], items[half + 1 :]):
            tip = self._add(tip, rest, "answer")

    def _add(self, config: Config, items: list[dict[str, str]], node: str) -> Config:
        return self._graph.update_state(config, {"messages": items}, as_node=node)


def _thread(name: str) -> Config:
    return {"configurable": {"thread_id": name}}


if __name__ == "__main__":
    common.run(
        {
            "messages": partial(Threads, state=WholeState, durability="async"),
            "delta": partial(Threads, state=DeltaState, durability="async"),
            "delta_exit": partial(Threads, state=DeltaState, durability="exit"),
        }
    )
