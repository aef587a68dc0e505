"""What the branch map is made of: what it reads, and what it draws. Pure.

What it reads has the names of ``lanes`` and ``values``, which stand on other floors than the drawing does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from compaction_app.admin.map_scale import Scale

#: Pixels of a gauge: what is available.
GAUGE_WIDTH = 48


class Lane(Protocol):
    """As ``lanes.Lane`` has it."""

    @property
    def start_id(self) -> int: ...
    @property
    def start_depth(self) -> int: ...
    @property
    def parent_id(self) -> int | None: ...
    @property
    def parent_lane_id(self) -> int | None: ...
    @property
    def end_id(self) -> int: ...
    @property
    def end_depth(self) -> int: ...
    @property
    def is_tip(self) -> bool: ...


class Span(Protocol):
    """As ``lanes.SummarySpan`` has it."""

    @property
    def summary_id(self) -> int: ...
    @property
    def is_live(self) -> bool: ...
    @property
    def anchor_id(self) -> int: ...
    @property
    def anchor_depth(self) -> int: ...
    @property
    def anchor_lane_id(self) -> int: ...
    @property
    def cutoff_id(self) -> int: ...
    @property
    def cutoff_depth(self) -> int: ...
    @property
    def cutoff_lane_id(self) -> int: ...


class Filling(Protocol):
    """As ``lanes.TipHistory`` has it."""

    @property
    def history_tokens(self) -> int: ...
    @property
    def summary_id(self) -> int | None: ...


class Limits(Protocol):
    """As ``values.Budget`` has it."""

    @property
    def available(self) -> int: ...
    @property
    def threshold(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A message that gets a mark although nothing but it is there."""

    message_id: int
    depth: int
    lane_id: int


class MarkKind(StrEnum):
    """What a mark stands for; a message that is several of the first five is drawn as the first of them."""

    TIP = "tip"
    END = "end"
    FORK = "fork"
    START = "start"
    MESSAGE = "message"
    CUTOFF = "cutoff"
    ANCHOR = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    kind: MarkKind
    message_id: int
    depth: int
    x: int
    y: int
    #: Lanes that leave here.
    forks: int = 0
    #: The first message of its lane.
    is_start: bool = False
    #: Whose cutoff or anchor it is.
    summary_ids: tuple[int, ...] = ()
    #: The shape of a cutoff or an anchor, and from where to where it goes down; messages are circles.
    path: str = ""
    top: int = 0
    bottom: int = 0
    #: Of cutoffs and anchors: none of their summaries is live.
    is_retired: bool = False

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def is_message(self) -> bool:
        """It stands for a message, and not for where a summary ends or is anchored."""
        return self.kind not in (MarkKind.CUTOFF, MarkKind.ANCHOR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A summary over what it covers; or, where there are many, several of one lane as one bar."""

    summary_ids: tuple[int, ...]
    x1: int
    x2: int
    y: int
    #: Depths of the first and the last message that it, and no summary before it, covers.
    first: int
    last: int
    is_live: bool
    #: It applies at one of the tips drawn.
    is_in_use: bool
    #: It also covers messages above this lane's first one, beyond the summary before it.
    is_open: bool

    @property
    def width(self) -> int:
        return self.x2 - self.x1

    @property
    def outline(self) -> str:
        """Its shape: round at both ends, or an arrow to the left where it goes on above its lane."""
        end = f"H{self.x2 - 3}a3 3 0 0 1 3 3v1a3 3 0 0 1 -3 3"
        if self.is_open:
            return f"M{self.x1 + 3} {self.y}{end}H{self.x1 + 3}l-4 -3.5z"
        return f"M{self.x1 + 3} {self.y}{end}H{self.x1 + 3}a3 3 0 0 1 -3 -3v-1a3 3 0 0 1 3 -3z"

    @property
    def summary_id(self) -> int:
        """The only one; 0 where it stands for several."""
        return self.summary_ids[0] if len(self.summary_ids) == 1 else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """How full the window is at a tip."""

    x: int
    y: int
    #: Pixels of the history, and of the threshold, out of ``GAUGE_WIDTH`` for what is available.
    filled: int
    threshold: int
    percent: int
    is_over: bool

    @property
    def label(self) -> str:
        """Short: "97 %", or "97 % full · over", which is over the threshold and not over by 97 %."""
        return f"{self.percent:,} % full · over" if self.is_over else f"{self.percent:,} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Messages of a lane without a mark of their own, between two that have one."""

    #: Depth of the first and the last of them.
    first: int
    last: int
    x: int
    width: int

    @property
    def depth(self) -> int:
        return self.first

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnLane:
    """A lane with all that is drawn of it."""

    lane_id: int
    #: 0 for a lane of an older page, which is there because others leave it.
    number: int
    #: Only its forks are known, neither its own end nor its beginning.
    is_elsewhere: bool
    #: Which row of the picture it stands in, from 0 on; and where its line runs.
    row: int
    y: int
    #: What it takes of its row, its line from above and what is written beside it included.
    left: int
    right: int
    #: Pieces of its line: x1, x2, whether messages are folded there.
    line: tuple[tuple[int, int, bool], ...]
    #: From the message it forks from; "" for a root.
    fork: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    stretches: tuple[Stretch, ...]
    gauge: Gauge | None
    #: Where its number stands: beside its end.
    label_x: int
    label_y: int


@dataclass(frozen=True, slots=True)
class Row:
    """A stripe of the picture, with one lane or with several side by side."""

    top: int
    height: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    width: int
    height: int
    axis: int
    scale: Scale
    rows: tuple[Row, ...]
    #: In the order of their numbers, which is the keyboard's too.
    lanes: tuple[DrawnLane, ...]
    #: The right end of the lane with the newest message: what one wants to see first.
    newest: int
    #: Summaries that stand on these lanes and are not drawn: retired ones, and those that found no room.
    left_out: int

    @property
    def ids(self) -> tuple[int, ...]:
        """Every message and summary that has a mark, each once."""
        found = [mark.message_id for lane in self.lanes for mark in lane.marks]
        found += [bar.summary_id for lane in self.lanes for bar in lane.bars if bar.summary_id]
        return tuple(dict.fromkeys(found))

    @property
    def has_open(self) -> bool:
        """One of the bars goes on above the lane that it stands over."""
        return any(bar.is_open for lane in self.lanes for bar in lane.bars)

    @property
    def has_many(self) -> bool:
        """One of the bars stands for several summaries."""
        return any(not bar.summary_id for lane in self.lanes for bar in lane.bars)
