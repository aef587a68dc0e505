"""Which systems are measured on which database, with which of their calls and up to which size."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.speed import clients, pages
from benchmarks.speed.processes import POSTGRES, PREPARED, REPOSITORY, SQLITE, Measured

DATABASES = (SQLITE, POSTGRES, PREPARED)
_EVERY = 1_000_000
_ON_DJANGO = "benchmarks.speed.on_django"
_PEERS = REPOSITORY / "benchmarks" / "peers"

APP = Measured(
    name="this app",
    module=_ON_DJANGO,
    arguments=("app",),
    databases=DATABASES,
    calls=dict.fromkeys(("read", "append", "turn", "request", "fork"), _EVERY),
)
#: Until the first summary every message is read, up to the threshold.
UNSUMMARIZED = Measured(
    name="this app, before its first summary",
    module=_ON_DJANGO,
    arguments=("no summary",),
    databases=DATABASES,
    branches=False,
    calls=dict.fromkeys(("read", "append", "turn", "fork"), 1_000),
)
BARE = Measured(
    name="bare",
    module=_ON_DJANGO,
    arguments=("bare",),
    databases=DATABASES,
    calls=dict.fromkeys(("driver", "insert", "create", "ORM read", "ORM turn"), _EVERY) | {"all rows": 10_000},
)
ONYX = Measured(
    name="Onyx's pattern",
    module=_ON_DJANGO,
    arguments=("onyx",),
    branches=False,
    calls=dict.fromkeys(("read", "append", "turn", "fork"), 10_000),
)


def _peer(name: str, path: str, databases: tuple[str, ...], calls: str) -> Measured:
    folder, variant = path.split("/")
    return Measured(
        name=name,
        module=f"benchmarks.peers.{folder}.system",
        arguments=(variant,),
        databases=databases,
        branches=False,
        calls=dict.fromkeys(calls.split(), 10_000),
        peer=_PEERS / folder,
    )


_NEWEST = "read read_recent append turn turn_recent fork"
_ALL = "read append turn fork"
_BOTH = (SQLITE, POSTGRES)
SQLALCHEMY = _peer("Agents SDK, SQLAlchemySession", "agents_sdk/sqlalchemy", _BOTH, _NEWEST)
LANGGRAPH = _peer("LangGraph", "langgraph/messages", _BOTH, _ALL)
PEERS = (
    SQLALCHEMY,
    LANGGRAPH,
    _peer("LangGraph, DeltaChannel", "langgraph/delta", _BOTH, _ALL),
    _peer("LangGraph, DeltaChannel, durability exit", "langgraph/delta_exit", _BOTH, _ALL),
)
#: Measured alone, on histories of its own.
BACKGROUND = Measured(
    name="this app, in the background",
    module="benchmarks.speed.background",
    arguments=(),
    # A call takes up to twenty seconds.
    fewest_rounds=3,
    calls=dict.fromkeys(("planning, prompt, commit", "with the ledger", "with an extract"), _EVERY),
)
PAGES = tuple(
    Measured(
        name=f"pages of {size:,} messages",
        module="benchmarks.speed.pages",
        arguments=(),
        calls=dict.fromkeys(("read", "append", "turn", *pages.PAGES, *pages.SEARCHES), size),
        only_size=size,
    )
    for size in (pages.SMALL, pages.LARGE)
)
#: Its sizes are numbers of workers.
WORKERS = Measured(
    name="this app, with workers",
    module="benchmarks.speed.workers",
    arguments=(),
    calls=dict.fromkeys(("a run", "the model's call alone"), _EVERY),
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
