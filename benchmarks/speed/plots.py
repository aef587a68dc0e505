"""A read and a turn of every system, by the size of the conversation, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.measure import Timing
from benchmarks.speed.processes import POSTGRES, SQLITE
from benchmarks.speed.systems import APP, BARE, ONYX, PEERS

#: A colour and a mark for each system, so that a plot reads without colours too; from Okabe and Ito's palette.
_STYLES = {
    system.name: {"color": color, "marker": mark, "linewidth": 2.5 if system is APP else 1.2}
    for system, color, mark in zip(
        (APP, ONYX, *PEERS),
        ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", ""),
        "osdv^ ",
        strict=True,
    )
    if color
}
#: Of the bare database, what is drawn beside a read and a turn, and its name there.
_FLOORS = {"read": {"ORM read": "an ORM read of 64 rows", "all rows": "a loop over all rows"}}
_FLOORS["turn"] = {"ORM turn": "two creates and an ORM read"}


def draw(timings: Sequence[Timing], folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "benchmarks"
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["font.family"] = "sans-serif"
    mpl.rcParams["savefig.facecolor"] = "white"
    for call, title in {"read": "Reading what the next prompt needs", "turn": "A turn: question, read, reply"}.items():
        _plot(timings, call, title, folder / f"{call}.svg")


def _plot(timings: Sequence[Timing], call: str, title: str, path: Path) -> None:
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    for pane, database in zip(panes, (SQLITE, POSTGRES), strict=True):
        drawn = [one for one in timings if one.database == database and one.branches == 1]
        for name, style in (_STYLES | _floors(call)).items():
            wanted = (BARE.name, style.pop("call")) if "call" in style else (name, call)
            points = sorted((one.size, one.median * 1000) for one in drawn if (one.system, one.call) == wanted)
            if points:
                pane.plot(*zip(*points, strict=True), label=name, **style)
        pane.set(xscale="log", yscale="log", title=database, xlabel="messages in the conversation")
        pane.xaxis.set_major_formatter("{x:,.0f}")
        pane.yaxis.set_major_formatter("{x:,g}")
        pane.grid(which="major", color="#dddddd", linewidth=0.6)
        pane.set_axisbelow(True)
    panes[0].set_ylabel("milliseconds")
    handles = {label: handle for pane in panes for handle, label in zip(*pane.get_legend_handles_labels(), strict=True)}
    figure.suptitle(title)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def _floors(call: str) -> dict[str, dict[str, Any]]:
    lines = ((":", "1"), ("--", "2"))
    return {
        title: {"call": name, "color": "#7F7F7F", "marker": mark, "linestyle": line}
        for (name, title), (line, mark) in zip(_FLOORS[call].items(), lines, strict=False)
    }
