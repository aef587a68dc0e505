"""Which systems are measured on which database, with which of their calls and up to which size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.speed import background, clients, pages
from benchmarks.speed.processes import POSTGRES, PREPARED, REPOSITORY, SQLITE, Measured

DATABASES = (SQLITE, POSTGRES, PREPARED)
_EVERY = 1_000_000
_PEERS = REPOSITORY / "benchmarks" / "peers"


def _on_django(name: str, variant: str, calls: Mapping[str, int], **more: Any) -> Measured:
    return Measured(
        name=name,
        module="benchmarks.speed.on_django",
        arguments=(variant,),
        calls=calls,
        **{"databases": DATABASES, **more},
    )


def _up_to(size: int, *calls: str) -> dict[str, int]:
    return dict.fromkeys(calls, size)


_BOTH = (SQLITE, POSTGRES)
APP = _on_django("this app", "app", _up_to(_EVERY, "read", "append", "turn", "request", "fork"))
#: Until the first summary every message is read, up to the threshold.
UNSUMMARIZED = _on_django(
    "this app, before its first summary", "no summary", _up_to(1_000, "read", "append", "turn", "fork"), branches=False
)
BARE = _on_django(
    "bare", "bare", _up_to(_EVERY, "driver", "insert", "create", "ORM read", "ORM turn") | {"all rows": 10_000}
)
ONYX = _on_django(
    "Onyx's pattern", "onyx", _up_to(10_000, "read", "append", "turn", "fork"), databases=_BOTH, branches=False
)


def _peer(name: str, path: str, databases: tuple[str, ...], calls: str) -> Measured:
    folder, variant = path.split("/")
    return Measured(
        name=name,
        module=f"benchmarks.peers.{folder}.system",
        arguments=(variant,),
        databases=databases,
        branches=False,
        calls=_up_to(10_000, *calls.split()),
        peer=_PEERS / folder,
    )


_NEWEST = "read read_recent append turn turn_recent fork"
_ALL = "read append turn fork"
SQLALCHEMY = _peer("Agents SDK, SQLAlchemySession", "agents_sdk/sqlalchemy", _BOTH, _NEWEST)
LANGGRAPH = _peer("LangGraph", "langgraph/messages", _BOTH, _ALL)
PEERS = (
    SQLALCHEMY,
    LANGGRAPH,
    _peer("LangGraph, DeltaChannel", "langgraph/delta", _BOTH, _ALL),
    _peer("LangGraph, DeltaChannel, durability exit", "langgraph/delta_exit", _BOTH, _ALL),
)
#: Measured alone, on conversations of its own; its sizes are tokens.
BACKGROUND = Measured(
    name="this app, in the background",
    module="benchmarks.speed.background",
    arguments=(),
    fewest_rounds=3,
    calls=background.FOUND,
)
PAGES = tuple(
    Measured(
        name=f"pages of {size:,} messages",
        module="benchmarks.speed.pages",
        arguments=(),
        calls=_up_to(size, "read", "append", "turn", *pages.PAGES, *pages.SEARCHES),
        only_size=size,
    )
    for size in (pages.SMALL, pages.LARGE)
)
#: Its sizes are numbers of workers.
WORKERS = Measured(
    name="this app, with workers",
    module="benchmarks.speed.workers",
    arguments=(),
    calls=_up_to(_EVERY, "a run", "the model's call alone"),
)


#: Measured with many clients at once, too.
CLIENTS = (APP, SQLALCHEMY, LANGGRAPH)

EVERY = {one.name: one for one in (APP, UNSUMMARIZED, ONYX, *PEERS, BARE, BACKGROUND, *PAGES, WORKERS)}
EVERY |= {one.name: replace(one, calls={**one.calls, **clients.CALLS}) for one in CLIENTS}


def is_measured(name: str, call: str, size: int, branches: int) -> bool:
    """Whether it still is: a result of an earlier run may be of a call or a size that is not measured any more."""
    system = EVERY.get(name)
    return system is not None and size <= system.calls.get(call, 0) and (branches == 1 or system.branches)


def systems_on(database: str) -> list[Measured]:
    return [system for system in (APP, UNSUMMARIZED, BARE, ONYX, *PEERS) if database in system.databases]
