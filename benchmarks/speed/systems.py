"""Which systems are measured on which database, with which of their calls and up to which size."""

from __future__ import annotations

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
    calls=dict.fromkeys(("read", "append", "turn", "fork"), 10_000),
)


def _peer(name: str, folder: str, variant: str, databases: tuple[str, ...], calls: str, branches: bool) -> Measured:
    return Measured(
        name=name,
        module=f"benchmarks.peers.{folder}.system",
        arguments=(variant,),
        databases=databases,
        branches=branches,
        calls=dict.fromkeys(calls.split(), 10_000),
        peer=_PEERS / folder,
    )


PEERS: tuple[Measured, ...] = ()


def systems_on(database: str) -> list[Measured]:
    return [system for system in (APP, BARE, ONYX, *PEERS) if database in system.databases]
