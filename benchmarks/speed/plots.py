"""A read and a turn of every system, by the size of the conversation, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed.measure import Timing
from benchmarks.speed.processes import POSTGRES, SQLITE
from benchmarks.speed.systems import APP, BARE

#: One colour and one mark a system, so that a plot reads without colours too. From Okabe and Ito's palette.
_COLOURS = ("#0072B2", "#000000", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#56B4E9", "#7F7F7F")
_MARKS = "osD^vPX*"
#: Of the bare database, what is drawn beside a read and a turn.
_FLOORS = {"read": ("ORM read", "all rows"), "turn": ("ORM turn",)}


def draw(timings: Sequence[Timing], folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "benchmarks"
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["font.family"] = "sans-serif"
    for call, title in {"read": "Reading what the next prompt needs", "turn": "A turn: question, read, reply"}.items():
        _plot(timings, call, title, folder / f"{call}.svg")


def _plot(timings: Sequence[Timing], call: str, title: str, path: Path) -> None:
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
    lines = {}
    for pane, database in zip(panes, (SQLITE, POSTGRES), strict=True):
        drawn = [one for one in timings if one.database == database and one.branches == 1]
        for name, chosen in _lines(drawn, call).items():
            place = lines.setdefault(name, len(lines)) % len(_COLOURS)
            places, heights = zip(*sorted((one.size, one.median * 1000) for one in chosen), strict=True)
            width = 2.5 if name == APP.name else 1.2
            pane.plot(places, heights, color=_COLOURS[place], marker=_MARKS[place], linewidth=width, label=name)
        pane.set(xscale="log", yscale="log", title=database, xlabel="messages in the conversation")
        pane.grid(which="major", color="#dddddd", linewidth=0.6)
        pane.set_axisbelow(True)
    panes[0].set_ylabel("milliseconds")
    handles = {label: handle for pane in panes for handle, label in zip(*pane.get_legend_handles_labels(), strict=True)}
    figure.suptitle(title)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def _lines(timings: Sequence[Timing], call: str) -> dict[str, list[Timing]]:
    found: dict[str, list[Timing]] = {}
    for one in timings:
        if one.system == BARE.name and one.call in _FLOORS[call]:
            found.setdefault({"all rows": "a loop over all rows"}.get(one.call, f"bare {one.call}"), []).append(one)
        elif one.system != BARE.name and one.call == call:
            found.setdefault(one.system, []).append(one)
    return found
