"""The benchmarks of docs/proofs.md: tables of what was measured, plots, how to read them; and the README's sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.speed import plots
from benchmarks.speed.clients import AT_ONCE, NUMBERS, OVER_NETWORK
from benchmarks.speed.measure import Timing
from benchmarks.speed.processes import POSTGRES, PREPARED, REPOSITORY, SQLITE, Measured
from benchmarks.speed.results import find
from benchmarks.speed.systems import (
    APP,
    BACKGROUND,
    BARE,
    CLIENTS,
    DATABASES,
    EVERY,
    LANGGRAPH,
    ONYX,
    PAGES,
    PEERS,
    SQLALCHEMY,
    UNSUMMARIZED,
    WORKERS,
)

FOLDER = REPOSITORY / "docs" / "benchmarks"
TEXT = REPOSITORY / "benchmarks" / "speed" / "page.md"
PAGE, README = REPOSITORY / "docs" / "proofs.md", REPOSITORY / "README.md"
_BEGIN, _END = "<!-- make bench writes what follows -->", "<!-- make bench ends here -->"
_BOTH = (SQLITE, POSTGRES)
_COMPARED = (APP, UNSUMMARIZED, ONYX, *PEERS)


def write(timings: Sequence[Timing]) -> None:
    """Write the page's part, from the text of ``page.md`` with a table for each name in braces."""
    # Without calls that were measured once, and exist no longer.
    timings = sorted((one for one in timings if one.call in EVERY[one.system].calls), key=_order)
    found = {
        "machine": describe(timings),
        "durability": durability(timings),
        "ratios": ratios_table(timings),
        "parts": parts_table(timings),
        "systems": "\n\n".join(systems_table(timings, size) for size in (100, 10_000)),
        "background": background_table(timings),
        "pages": pages_table(timings),
        "bytes": bytes_table(timings),
        "workers": workers_table(timings),
        "clients": clients_table(timings),
        "spread": spread(timings),
    }
    text = TEXT.read_text()
    for name, table in found.items():
        text = text.replace(f"{{{name}}}", table or "This was not measured: `make bench-all` does it.")
    _replace(PAGE, text)
    _replace(README, f"{readme_sentence(timings)}\n")
    plots.draw(timings, FOLDER)


def _replace(page: Path, text: str) -> None:
    head, rest = page.read_text().split(_BEGIN)
    page.write_text(f"{head}{_BEGIN}\n{text}{_END}{rest.split(_END)[1]}")


def _order(timing: Timing) -> tuple[int, ...]:
    """As the systems and their calls are listed, the app first."""
    system = EVERY[timing.system]
    return (
        DATABASES.index(timing.database),
        list(EVERY).index(timing.system),
        list(system.calls).index(timing.call),
        timing.branches,
        timing.size,
    )


def readme_sentence(timings: Sequence[Timing]) -> str:
    """How long it takes to read what the next prompt of a long conversation needs, beside two libraries."""
    size = max(one.size for one in timings if one.system == ONYX.name)

    def read(system: Measured, call: str = "read") -> str:
        return f"{_on_both(timings, size=size, branches=1, system=system.name, call=call)} ms"

    return fill(
        f"With {size:,} messages, on SQLite / PostgreSQL, this app reads what the next prompt needs (a summary and 63 "
        f"messages) in {read(APP)}; the Agents SDK's `SQLAlchemySession` reads the newest 64 messages in "
        f"{read(SQLALCHEMY, 'read_recent')} and all in {read(SQLALCHEMY)}, LangGraph all in {read(LANGGRAPH)} "
        "([all that was measured](docs/proofs.md#what-storing-and-reading-cost)).",
        120,
        break_on_hyphens=False,
    )


_NONE = "– / –"


def _on_both(timings: Sequence[Timing], **where: Any) -> str:
    """With two digits: what was measured a few times has no more."""
    found = [find(timings, database=name, **where) for name in _BOTH]
    values = [one.median * 1000 if one else None for one in found]
    return " / ".join("–" if one is None else f"{float(f'{one:.2g}'):,g}" for one in values)


def describe(timings: Sequence[Timing]) -> str:
    machines: dict[str, set[str]] = {}
    for one in timings:
        kind = one.machine.get("cpu_model_name", "of an unknown kind")
        python = str(one.machine.get("python_version", "?")).split()[0]
        what = f"{one.machine.get('cpu_count', '?')} processors ({kind}), Python {python}"
        machines.setdefault(what, set()).add(str(one.machine.get("date", "an unknown day"))[:10])
    first = "; ".join(f"{', '.join(sorted(days))}: {what}" for what, days in machines.items())
    first = f"Measured on {first}."
    found: dict[str, dict[str, None]] = {}
    for one in timings:
        versions = re.sub(r" on \S+, compiled.*", "", one.versions)
        is_ours = one.system in (BARE.name, ONYX.name, *(pages.name for pages in PAGES))
        found.setdefault(versions, {})[APP.name if is_ours else one.system.split(", ")[0]] = None
    return "\n".join([first, "", *(f"- {', '.join(names)}: {versions}" for versions, names in found.items())])


def durability(timings: Sequence[Timing]) -> str:
    """The settings that a commit waits by, as the systems read them back from their databases."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in timings:
        of_database = found.setdefault(one.database.split(",")[0], {})
        for setting in one.durability.replace("=", " ").split(", "):
            name, _, value = setting.partition(" ")
            of_database.setdefault(name, set()).add(value)
    lines = [
        f"{database} with " + ", ".join(f"`{name}` {' or '.join(sorted(values))}" for name, values in settings.items())
        for database, settings in found.items()
    ]
    return "; ".join(lines)


def databases(timings: Iterable[Timing]) -> list[str]:
    return list(dict.fromkeys(one.database for one in timings))


def ratios(timings: Sequence[Timing], database: str, size: int) -> dict[str, float]:
    """The app beside the least that the same rows cost, by the name of the ratio."""

    def seconds(system: str, call: str, at: int = size) -> float | None:
        one = find(timings, database=database, size=at, branches=1, system=system, call=call)
        return one.median if one else None

    pairs = {
        "read ÷ the same rows through the driver": (seconds(APP.name, "read"), seconds(BARE.name, "driver")),
        "read ÷ an ORM read of those rows": (seconds(APP.name, "read"), seconds(BARE.name, "ORM read")),
        "turn ÷ two creates and an ORM read": (seconds(APP.name, "turn"), seconds(BARE.name, "ORM turn")),
        "append ÷ a create": (seconds(APP.name, "append"), seconds(BARE.name, "create")),
        "read ÷ read at 100 messages": (seconds(APP.name, "read"), seconds(APP.name, "read", 100)),
        "a loop over all rows ÷ read": (seconds(BARE.name, "all rows"), seconds(APP.name, "read")),
    }
    return {name: above / below for name, (above, below) in pairs.items() if above and below}


def ratios_table(timings: Sequence[Timing], size: int = 10_000) -> str:
    found = {name: ratios(timings, name, size) for name in databases(timings)}
    names = list(dict.fromkeys(name for one in found.values() for name in one))
    head = [f"{size:,} messages", *found]
    return table(head, [[name, *(number(one.get(name)) for one in found.values())] for name in names])


def parts_table(timings: Sequence[Timing], size: int = 10_000) -> str:
    """Milliseconds of the app and of the bare database on each database, with statements and rows."""
    rows = []
    for system in (APP, BARE):
        for call in system.calls:
            found = [
                find(timings, database=name, size=size, branches=1, system=system.name, call=call)
                for name in databases(timings)
            ]
            if any(found):
                counts = [_range(one and one.counted.get(key) for one in found) for key in ("statements", "rows")]
                rows.append([call if system is APP else f"*{call}*", *map(milliseconds, found), *counts])
    return table(["milliseconds", *databases(timings), "statements", "rows"], rows)


def systems_table(timings: Sequence[Timing], size: int) -> str:
    """Milliseconds of every system on both databases: whole conversations, and the newest 64 where there is a way."""
    rows = []
    for system in _COMPARED:
        for suffix, name in (("", system.name), ("_recent", f"{system.name}, newest 64")):
            calls = (f"read{suffix}", f"turn{suffix}", *([] if suffix else ["fork"]))
            cells = [_on_both(timings, size=size, branches=1, system=system.name, call=call) for call in calls]
            if any(cell != _NONE for cell in cells):
                rows.append([name, *cells, *([""] if suffix else [])])
    return table([f"{size:,} messages", "read", "turn", "fork"], rows)


def background_table(timings: Sequence[Timing]) -> str:
    chosen = [one for one in timings if one.system == BACKGROUND.name]
    places = sorted({one.size for one in chosen})
    rows = [
        [call, *(milliseconds(find(chosen, call=call, size=size)) for size in places)]
        for call in dict.fromkeys(one.call for one in chosen)
    ]
    return table(["milliseconds, by tokens", *(f"{size:,}" for size in places)], rows) if rows else ""


def pages_table(timings: Sequence[Timing]) -> str:
    """Milliseconds in a long session among a million rows, and how many times as long as in a short one.

    Of all pages of the admin and of the API, the least and the most.
    """
    small, large = (one.name for one in PAGES)
    kinds: dict[str, list[list[float]]] = {}
    for call in PAGES[0].calls:
        pairs = [
            [find(timings, database=database, system=name, call=call) for name in (small, large)] for database in _BOTH
        ]
        # A row that a run of before did not measure is left out.
        if all(map(all, pairs)):
            cells = [value for before, after in pairs for value in (after.median * 1000, after.median / before.median)]
            kinds.setdefault(call.partition(":")[0], []).append(cells)
    rows = [
        [
            f"{kind}, {len(found)} pages" if len(found) > 1 else kind,
            *(_least_and_most(column) for column in zip(*found, strict=True)),
        ]
        for kind, found in kinds.items()
    ]
    head = [f"{name}{what}" for name in _BOTH for what in ("", ", ×")]
    return table(["milliseconds", *head], rows) if rows else ""


def _least_and_most(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(map(number, (min(values), max(values)))))


def bytes_table(timings: Sequence[Timing]) -> str:
    """Bytes a message in the table of a million: of its text, of its row with the text, of its entries in indexes."""
    rows = []
    for database in _BOTH:
        one = find(timings, database=database, system=PAGES[1].name, call="read")
        if one and "messages" in one.counted:
            parts = [one.counted[f"{name}_bytes"] / one.counted["messages"] for name in ("text", "table", "index")]
            rows.append([database, f"{one.counted['messages']:,}", *map(number, [*parts, parts[1] + parts[2]])])
    head = ("bytes a message", "messages", "its text", "its row, with the text", "in the indexes", "row and indexes")
    return table(head, rows) if rows else ""


def workers_table(timings: Sequence[Timing]) -> str:
    chosen = [one for one in timings if one.system == WORKERS.name]
    rows = []
    for one in chosen:
        if one.call == "a run":
            alone = find(chosen, call="the model's call alone", size=one.size)
            rows.append([str(one.size), milliseconds(one), number(1 / one.median), milliseconds(alone)])
    head = ("workers", "milliseconds a run", "runs a second", "the model's call alone, milliseconds")
    return table(head, rows) if rows else ""


def clients_table(timings: Sequence[Timing]) -> str:
    """Turns a second of some clients at once, and of one behind a network, with the slowest hundredth."""
    places = [*((AT_ONCE, number) for number in NUMBERS), (OVER_NETWORK, 1)]
    rows = []
    for database in (POSTGRES, PREPARED):
        for system in CLIENTS:
            where = {"database": database, "system": system.name}
            found = [find(timings, **where, call=call, size=size) for call, size in places]
            cells = [
                f"{number(1 / one.median)} · {number(one.counted['slowest_microseconds'] / 1000)}" if one else ""
                for one in found
            ]
            if any(found):
                rows.append([system.name if database == POSTGRES else f"{system.name}, prepared", *cells])
    head = ["turns a second · slowest hundredth, ms", *(f"{n} at once" for n in NUMBERS), "1, over a network"]
    return table(head, rows) if rows else ""


def spread(timings: Sequence[Timing]) -> str:
    spreads = sorted(one.spread for one in timings)
    if not spreads:
        return ""
    return (
        f"Half of the distance between the quartiles is {spreads[len(spreads) // 2]:.0%} of the median in the middle"
        f" case, and at most {spreads[len(spreads) * 19 // 20]:.0%} in 95 of 100."
    )


def sizes(timings: Iterable[Timing]) -> list[int]:
    return sorted({one.size for one in timings if one.system == APP.name and one.call in APP.calls})


def _range(values: Iterable[int | None]) -> str:
    found = sorted({value for value in values if value is not None})
    if not found:
        return ""
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def milliseconds(one: Timing | None) -> str:
    return "" if one is None else number(one.median * 1000)


def number(value: float | None) -> str:
    """With two or three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
