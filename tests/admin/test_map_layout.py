"""The branch map: every message has a place, no line crosses another, and there is little that is empty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.admin.map_layout import (
    BOLD_CHARACTER,
    EVERY_DEPTH,
    GAUGE_WIDTH,
    MOST_SUMMARIES,
    Bar,
    DrawnLane,
    Mark,
    Picture,
    Place,
    Shape,
    draw,
    first_covered,
    is_small,
)
from compaction_app.admin.map_scale import CHARACTER, make_scale

pytestmark = pytest.mark.pure


@dataclass(frozen=True)
class Lane:
    start_id: int
    start_depth: int
    end_id: int
    end_depth: int
    parent_id: int | None = None
    parent_lane_id: int | None = None
    is_tip: bool = True


@dataclass(frozen=True)
class Span:
    summary_id: int
    cutoff_depth: int
    anchor_depth: int
    cutoff_lane_id: int = 1
    anchor_lane_id: int = 1
    is_live: bool = True

    @property
    def generation(self) -> int:
        return self.summary_id % 100

    @property
    def cutoff_id(self) -> int:
        return self.cutoff_lane_id * 1000 + self.cutoff_depth

    @property
    def anchor_id(self) -> int:
        return self.anchor_lane_id * 1000 + self.anchor_depth


@dataclass(frozen=True)
class Filling:
    tokens: int
    summary_id: int | None = None


@dataclass(frozen=True)
class Limits:
    available: int = 3000
    threshold: int = 2250


def trunk(length: int) -> Lane:
    return Lane(1, 1, 10_000_000, length)


def fork(number: int, of: Lane, depth: int, length: int) -> Lane:
    """A lane that leaves ``of`` below its message of that depth."""
    last = number + length - 1
    return Lane(
        number, depth + 1, last, depth + length, parent_id=of.start_id * 100 + depth, parent_lane_id=of.start_id
    )


def drawn_of(picture: Picture, lane: Lane) -> DrawnLane:
    return next(drawn for drawn in picture.lanes if drawn.lane_id == lane.start_id)


def marks_of(drawn: DrawnLane, shape: Shape) -> list[Mark]:
    return [mark for mark in drawn.marks if mark.shape == shape]


def bars_of(picture: Picture) -> list[Bar]:
    return sorted(picture.bars, key=lambda bar: bar.x1)


# -- the scale ----------------------------------------------------------------------------------------------

DEPTHS = st.sets(st.integers(1, 120_000), min_size=1, max_size=120)


@given(DEPTHS)
def test_what_is_deeper_stands_further_right(depths: set[int]) -> None:
    scale = make_scale(depths, 48)
    places = sorted(depths)
    between = [depth + 1 for depth in places if depth + 1 < places[-1]]
    xs = [scale.x(depth) for depth in sorted({*places, *between})]
    assert xs == sorted(xs)
    assert len({scale.x(depth) for depth in places}) == len(places)


@given(DEPTHS)
def test_labels_never_touch_each_other(depths: set[int]) -> None:
    scale = make_scale(depths, 48)
    half = {tick: len(tick.label) * CHARACTER / 2 for tick in scale.ticks}
    assert all(one.x + half[one] < other.x - half[other] for one, other in pairwise(scale.ticks))
    assert all(len(fold.label) * CHARACTER <= fold.x2 - fold.x1 + 1 for fold in scale.folds)
    assert all(one.x2 <= other.x1 for one, other in pairwise(scale.folds))


@given(DEPTHS)
def test_places_and_folds_are_all_the_messages(depths: set[int]) -> None:
    scale = make_scale(depths, 48)
    folded = sum(int(fold.label.split()[0].replace(",", "")) for fold in scale.folds)
    assert folded + len(depths) == max(depths) - min(depths) + 1


def test_a_stretch_says_how_many_messages_it_folds() -> None:
    assert [fold.label for fold in make_scale({1, 1206, 1208}, 0).folds] == ["1,204 messages", "1 message"]
    assert make_scale(range(1, 60, 2), 0).folds[0].label == "1", "where there is much, the number alone"


@pytest.mark.parametrize("length", [5, 5_000, 100_000])
def test_a_conversation_takes_the_same_room_at_any_length(length: int) -> None:
    lanes = [trunk(length), fork(20, trunk(length), length - 3, 2)]
    spans = [Span(900 + n, length * n // 4, length * n // 4) for n in (3, 2)]
    picture = draw(lanes, spans, {}, Limits())
    assert picture.width < 900
    assert picture.height < 200


# -- lanes --------------------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn) -> list[Lane]:
    """Lanes as forks make them, newest first."""
    lanes: list[Lane] = []
    for number in range(1, draw(st.integers(2, 25))):
        start, length = number * 1000, draw(st.integers(1, 900))
        if not lanes or draw(st.integers(0, 9)) == 0:
            lanes.append(Lane(start, 1, start + length - 1, length))
            continue
        of = draw(st.sampled_from(lanes))
        depth = draw(st.integers(of.start_depth, of.end_depth))
        parent = of.start_id + depth - of.start_depth
        lanes.append(Lane(start, depth + 1, start + length - 1, depth + length, parent, of.start_id))
    return lanes[::-1]


@st.composite
def summaries(draw: st.DrawFn, lanes: Sequence[Lane]) -> list[Span]:
    """Summaries of one lane each, newest first."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        lane = draw(st.sampled_from(lanes))
        cutoff, anchor = sorted(draw(st.tuples(*[st.integers(lane.start_depth, lane.end_depth)] * 2)))
        found.append(Span(900_000 + number, cutoff, anchor, lane.start_id, lane.start_id, draw(st.booleans())))
    return found[::-1]


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Lane], list[Span]]:
    """A page of a session's lanes: all of them, or some of which the others are only told of by their forks."""
    lanes = draw(trees())
    spans = draw(summaries(lanes))
    first = draw(st.just(0) | st.integers(0, len(lanes) - 1))
    return lanes[first : first + draw(st.integers(1, len(lanes)))] if first else lanes, spans


FILLINGS = st.sampled_from([100, 2_500, 90_000])


def picture_of(lanes: Sequence[Lane], spans: Sequence[Span] = (), tokens: int = 100) -> Picture:
    in_use = spans[0].summary_id if spans else None
    return draw(lanes, spans, {lane.end_id: Filling(tokens, in_use) for lane in lanes}, Limits())


def fork_x(drawn: DrawnLane) -> int | None:
    """Where its line comes down from."""
    return int(drawn.path[1:].split()[0]) if drawn.parent_id is not None else None


def line_of(drawn: DrawnLane) -> tuple[int, int]:
    """From its first to its last message, stretches included."""
    xs = [int(x) for x in re.findall(r"[MH](\d+)(?= 0|H|M|$)", drawn.path)]
    return min(xs), max(xs)


def taken_by(drawn: DrawnLane) -> tuple[float, float]:
    """The leftmost and the rightmost of all that is drawn of a lane in its row, texts and lines included."""
    xs: list[float] = [mark.x + side for mark in drawn.marks for side in (-7, 7)]
    xs += line_of(drawn)
    xs += [x for bar in drawn.bars for x in (bar.x1, bar.x2)]
    number_ends = drawn.label_x + len(str(drawn.number or "…")) * BOLD_CHARACTER
    xs += [drawn.label_x, number_ends]
    if (down := fork_x(drawn)) is not None:
        xs.append(down)
    if drawn.gauge:
        character = BOLD_CHARACTER if drawn.gauge.is_over else CHARACTER
        xs += [drawn.label_x + GAUGE_WIDTH, number_ends + len(drawn.gauge.label) * character]
    return min(xs), max(xs)


def check_that_no_line_crosses_another(picture: Picture, lanes: Sequence[Lane]) -> None:
    drawn = {lane.lane_id: lane for lane in picture.lanes}
    for lane in lanes:
        if lane.parent_lane_id is None:
            continue
        parent, child = drawn[lane.parent_lane_id], drawn[lane.start_id]
        down = fork_x(child)
        assert down == picture.scale.x(lane.start_depth - 1)
        assert parent.row < child.row
        assert parent.y < child.y
        for other in picture.lanes:
            if parent.row < other.row < child.row:
                left, right = taken_by(other)
                # Forks of one message come down as one line.
                assert down < left or down > right or down == fork_x(other)
                first, last = line_of(other)
                assert down < first or down > last
                assert all(down < bar.x1 or down > bar.x2 for bar in other.bars)


def check_that_lanes_of_a_row_stand_apart(picture: Picture) -> None:
    rows: dict[int, list[tuple[float, float]]] = {}
    for drawn in picture.lanes:
        left, right = taken_by(drawn)
        assert drawn.left <= left
        assert right <= drawn.right < picture.width
        rows.setdefault(drawn.row, []).append((drawn.left, drawn.right))
    for taken in rows.values():
        assert all(one[1] < other[0] for one, other in pairwise(sorted(taken)))


@given(sessions(), FILLINGS)
def test_no_line_crosses_another(session: tuple[list[Lane], list[Span]], tokens: int) -> None:
    """What goes down to a fork meets no lane on its way, nor a summary or a gauge of one."""
    lanes, spans = session
    check_that_no_line_crosses_another(picture_of(lanes, spans, tokens), lanes)


@given(sessions(), FILLINGS)
def test_lanes_of_one_row_stand_apart(session: tuple[list[Lane], list[Span]], tokens: int) -> None:
    """Their lines, marks, summaries, gauges, numbers and labels included."""
    check_that_lanes_of_a_row_stand_apart(picture_of(*session, tokens))


def test_a_root_leaves_room_for_its_forks_beside_a_lane_of_another_page() -> None:
    """It would fit left of that lane, and what goes down from it would meet the root that did not."""
    elsewhere = fork(5_000, Lane(1, 1, 90, 90), 50, 3)
    long_, short = Lane(1_000, 1, 1_059, 60), Lane(2_000, 1, 2_001, 2)
    lanes = [elsewhere, fork(4_000, short, 1, 80), short, long_]
    picture = picture_of(lanes)
    check_that_no_line_crosses_another(picture, lanes)
    assert [drawn.row for drawn in picture.lanes] == [0, 1, 2, 3, 4]


def test_a_bar_may_reach_further_than_what_is_known_of_its_lane() -> None:
    """Older summaries, drawn as one, of a lane that only forks tell of."""
    main, other = Lane(1, 1, 900, 900), Lane(7_000, 1, 7_899, 899)
    spans = [Span(900_001, 600, 610), *(Span(900_000 + n, 10 * n, 10 * n + 3) for n in range(2, 12))][::-1]
    lanes = [fork(8_000, other, 700, 2), other, fork(6_000, main, 50, 3)]
    picture = picture_of(lanes, spans)
    drawn = drawn_of(picture, main)
    assert drawn.lane is None
    assert max(bar.x2 for bar in drawn.bars) > line_of(drawn)[1]
    check_that_lanes_of_a_row_stand_apart(picture)


@given(sessions())
def test_every_lane_is_drawn_within_its_row_and_every_end_a_mark(session: tuple[list[Lane], list[Span]]) -> None:
    lanes, spans = session
    picture = picture_of(lanes, spans)
    here = [drawn for drawn in picture.lanes if drawn.lane]
    assert sorted(drawn.lane_id for drawn in here) == sorted(lane.start_id for lane in lanes)
    assert [drawn.number for drawn in here] == list(range(1, len(lanes) + 1))
    assert {lane.end_id for lane in lanes} <= set(picture.ids)
    assert {drawn.row for drawn in picture.lanes} == set(range(len(picture.rows)))
    assert all(one.top + one.height == other.top for one, other in pairwise(picture.rows))
    assert picture.height >= picture.rows[-1].top + picture.rows[-1].height
    for drawn in picture.lanes:
        row = picture.rows[drawn.row]
        ys = [y for part in (*drawn.bars, *drawn.marks) for y in (part.top, part.bottom)]
        assert all(row.top <= drawn.y + y <= row.top + row.height for y in ys)


def _by_parent(lanes: Sequence[Lane]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for lane in lanes:
        if lane.parent_lane_id is not None:
            found.setdefault(lane.parent_lane_id, []).append(lane.start_id)
    return found


@given(sessions())
def test_lanes_are_numbered_as_they_would_be_in_rows_of_their_own(session: tuple[list[Lane], list[Span]]) -> None:
    """Each lane before its forks, the deeper forks first: a summary more or less changes no number."""
    lanes, spans = session
    numbers = {drawn.lane_id: drawn.number for drawn in picture_of(lanes, spans).lanes}
    assert numbers == {drawn.lane_id: drawn.number for drawn in draw(lanes, [], {}).lanes}
    assert all(numbers[lane.parent_lane_id] < numbers[lane.start_id] for lane in lanes if lane.parent_lane_id)
    depths = {lane.start_id: lane.start_depth for lane in lanes}
    order = [drawn.lane_id for drawn in draw(lanes, [], {}).lanes]
    for siblings in _by_parent(lanes).values():
        shown = sorted(siblings, key=order.index)
        assert shown == sorted(siblings, key=lambda lane_id: (-depths[lane_id], lane_id))


@given(sessions())
def test_every_message_of_a_lane_has_a_mark_or_is_in_one_stretch(session: tuple[list[Lane], list[Span]]) -> None:
    for drawn in picture_of(*session).lanes:
        stretches = marks_of(drawn, Shape.STRETCH)
        depths = [mark.first for mark in drawn.marks if mark.is_message]
        depths += [depth for part in stretches for depth in range(part.first, part.last + 1)]
        assert sorted(set(depths)) == list(range(min(depths), max(depths) + 1))
        assert all(part.width > 0 for part in stretches)
        assert all(one.x2 <= other.x1 for one, other in pairwise(stretches))


def test_lanes_of_a_second_page_are_numbered_on_and_a_guest_has_no_number() -> None:
    main = trunk(100)
    forks = [fork(20 + n, main, 10 * n, 3) for n in range(1, 4)]
    picture = draw([*forks[::-1], main], [], {}, first=61, guests=[main.start_id])
    assert [(drawn.number, drawn.lane is None) for drawn in picture.lanes] == [
        (0, False), (61, False), (62, False), (63, False)
    ]  # fmt: skip


def test_lanes_that_fit_side_by_side_share_a_row() -> None:
    main = trunk(22)
    forks = [fork(1_000 * n, main, depth, 2) for n, depth in enumerate((3, 10, 17), 1)]
    places = [Place(n, n, 1) for n in range(1, 22)]
    apart = draw([*forks[::-1], main], [], {}, places=places)
    assert [drawn.row for drawn in apart.lanes] == [0, 1, 1, 1]
    beside = draw([fork(5_000, main, 4, 2), *forks[::-1], main], [], {}, places=places)
    assert [drawn.row for drawn in beside.lanes] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("apart", [7, 50, 140])
def test_many_short_forks_of_a_long_conversation_do_not_make_the_map_wide(apart: int) -> None:
    main = trunk(5_000)
    forks = [fork(1_000 * n, main, apart * n, 4) for n in range(1, 34)]
    picture = picture_of([*forks[::-1], main], [Span(900_000 + n, n * 600, n * 600 + 9) for n in range(8, 0, -1)])
    assert picture.width < 33 * 80
    assert picture.height < 33 * 35


def test_the_newest_message_is_where_the_map_opens() -> None:
    main = Lane(1, 1, 700, 500)
    early = Lane(1_000, 41, 1_002, 43, parent_id=40, parent_lane_id=1)
    picture = picture_of([early, main])
    assert picture.newest == drawn_of(picture, early).right < drawn_of(picture, main).right


def test_several_roots_stand_in_the_order_in_which_they_began() -> None:
    picture = draw([Lane(30, 1, 30, 1), Lane(20, 1, 21, 2), Lane(10, 1, 12, 3)], [], {})
    assert [(lane.lane_id, lane.parent_id) for lane in picture.lanes] == [(10, None), (20, None), (30, None)]


def test_a_lane_that_only_forks_go_on_from_ends_in_a_mark_of_its_own() -> None:
    main = Lane(1, 1, 5, 5, is_tip=False)
    leaves = Lane(20, 6, 20, 6, parent_id=5, parent_lane_id=1)
    picture = draw([leaves, main], [], {5: Filling(100)}, Limits())
    row = drawn_of(picture, main)
    assert [mark.forks for mark in marks_of(row, Shape.END)] == [1]
    assert row.gauge is None


def test_a_lane_of_which_only_forks_are_known_is_drawn_as_far_as_they_tell() -> None:
    """The newest page of many lanes: the one they leave may be on another page."""
    main = trunk(1000)
    lanes = [fork(50 + n, main, depth, 3) for n, depth in enumerate((40, 500, 700))]
    picture = draw(lanes[::-1], [], {})
    row = drawn_of(picture, main)
    assert row.lane is None
    assert [mark.shape for mark in row.marks if mark.is_message] == [Shape.FORK] * 3
    assert line_of(row) == (picture.scale.x(40), picture.scale.x(700))
    assert [other.number for other in picture.lanes] == [0, 1, 2, 3]


def test_a_short_conversation_has_a_mark_for_every_message() -> None:
    main = trunk(EVERY_DEPTH)
    assert is_small([main])
    assert not is_small([trunk(EVERY_DEPTH + 1)])
    assert not is_small([trunk(EVERY_DEPTH)] * 6)
    places = [Place(n, n, 1) for n in range(1, EVERY_DEPTH)] + [Place(main.end_id, EVERY_DEPTH, 1)]
    picture = draw([main], [], {}, None, places)
    assert len(picture.lanes[0].marks) == EVERY_DEPTH
    assert not picture.scale.folds


def test_the_keyboard_goes_along_a_lane() -> None:
    main = trunk(60)
    picture = draw([fork(30, main, 44, 2), main], [Span(900, 30, 50)], {main.end_id: Filling(1, 900)}, Limits())
    shapes = [mark.shape for mark in drawn_of(picture, main).marks if mark.shape != Shape.STRETCH]
    assert shapes == [Shape.START, Shape.CUTOFF, Shape.FORK, Shape.ANCHOR, Shape.TIP]


# -- gauges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "percent", "filled", "is_over"),
    [(0, 0, 0, False), (2250, 75, 36, False), (2251, 75, 36, True), (9000, 300, GAUGE_WIDTH, True)],
)
def test_a_gauge_tells_how_full_a_tip_is(tokens: int, percent: int, filled: int, is_over: bool) -> None:
    """Over means strictly over the threshold, as the trigger has it."""
    main = trunk(10)
    gauge = draw([main], [], {main.end_id: Filling(tokens)}, Limits()).lanes[0].gauge
    assert gauge is not None
    assert (gauge.percent, gauge.filled, gauge.is_over, gauge.threshold) == (percent, filled, is_over, 36)


def test_the_label_of_a_gauge_does_not_read_as_over_by_so_many_percent() -> None:
    main = trunk(10)
    labels = []
    for tokens in (600, 2400, 127_380):
        gauge = draw([main], [], {main.end_id: Filling(tokens)}, Limits()).lanes[0].gauge
        assert gauge is not None
        labels.append(gauge.label)
    assert labels == ["20 %", "80 % · over threshold", "4,246 % · over threshold"]


# -- summaries ----------------------------------------------------------------------------------------------


def drawn(spans: Sequence[Span], *lanes: Lane, in_use: int | None = None) -> Picture:
    lanes = lanes or (trunk(100),)
    newest_first = sorted(spans, key=lambda span: -span.summary_id)
    return draw(lanes, newest_first, {lanes[-1].end_id: Filling(100, in_use)}, Limits())


def test_each_summary_is_drawn_from_where_the_one_before_it_ends() -> None:
    picture = drawn([Span(901, 20, 25), Span(902, 40, 45), Span(903, 70, 75)], in_use=903)
    assert [(bar.first, bar.last) for bar in bars_of(picture)] == [(1, 20), (21, 40), (41, 70)]
    assert [bar.is_in_use for bar in bars_of(picture)] == [False, False, True]
    assert all(one.x2 < other.x1 and one.top == other.top for one, other in pairwise(bars_of(picture)))


def test_each_summary_has_the_number_of_its_compaction_and_room_for_it() -> None:
    picture = drawn([Span(989 + n, 2 * n, 2 * n) for n in range(1, 8)])
    assert sorted(bar.number for bar in bars_of(picture) if bar.number) == [*range(90, 97)]
    assert all(bar.width >= 12 for bar in bars_of(picture) if bar.number)


def test_a_summary_ends_right_after_its_cutoff() -> None:
    picture = drawn([Span(901, 20, 25)], in_use=901)
    [row] = picture.lanes
    [cutoff], [anchor] = marks_of(row, Shape.CUTOFF), marks_of(row, Shape.ANCHOR)
    assert (cutoff.message_id, cutoff.summary_ids, anchor.message_id) == (1020, (901,), 1025)
    assert cutoff.x == row.bars[0].x2 > picture.scale.x(20)
    assert anchor.x == picture.scale.x(25)


def test_a_summary_of_another_branch_is_not_the_one_before() -> None:
    """It is anchored below the fork: this branch never saw it."""
    main = trunk(100)
    side = fork(20, main, 30, 40)
    spans = [Span(901, 25, 28), Span(902, 50, 60), Span(903, 60, 65, cutoff_lane_id=20, anchor_lane_id=20)]
    assert first_covered(spans, [side, main]) == {901: 1, 902: 26, 903: 26}


def test_a_live_summary_was_not_built_on_a_retired_one() -> None:
    spans = [Span(901, 25, 28, is_live=False), Span(902, 50, 60), Span(903, 70, 75, is_live=False)]
    assert first_covered(spans, [trunk(100)]) == {901: 1, 902: 1, 903: 51}


def test_a_summary_that_also_covers_what_is_above_its_lane_is_open_there() -> None:
    main = trunk(100)
    side = fork(20, main, 30, 40)
    picture = drawn([Span(901, 50, 60, cutoff_lane_id=20, anchor_lane_id=20)], main, side, in_use=901)
    [bar] = drawn_of(picture, side).bars
    assert (bar.first, bar.is_open) == (1, True)
    assert bar.x1 > picture.scale.x(30)
    assert picture.has_open
    assert not drawn([], trunk(100)).has_open


def test_summaries_of_the_same_messages_stand_above_each_other_the_one_in_use_nearest() -> None:
    spans = [Span(901, 40, 45, is_live=False), Span(902, 40, 50), Span(903, 40, 44)]
    bars = {bar.summary_id: bar for bar in bars_of(drawn(spans, in_use=902))}
    assert bars[902].top > bars[903].top > bars[901].top
    assert (bars[902].is_live, bars[901].is_live) == (True, False)


def test_one_cutoff_of_several_summaries_is_one_mark() -> None:
    picture = drawn([Span(902, 40, 50), Span(903, 40, 44, is_live=False)], in_use=902)
    [cutoff] = marks_of(picture.lanes[0], Shape.CUTOFF)
    assert (cutoff.summary_ids, cutoff.is_live) == ((902, 903), True)


def test_of_many_summaries_the_older_are_one_bar() -> None:
    spans = [Span(900 + n, n * 10, n * 10 + 3) for n in range(1, 90)]
    picture = drawn(spans, trunk(1000), in_use=989)
    many, *others = bars_of(picture)
    assert [bar.summary_id for bar in others] == list(range(989 - MOST_SUMMARIES, 990))
    assert (many.summary_id, len(many.summary_ids)) == (0, 89 - len(others))
    assert (many.first, many.last, many.is_live) == (1, others[0].first - 1, True)
    assert picture.has_many
    assert not picture.left_out
    assert 0 not in picture.ids


def test_retired_summaries_beyond_the_newest_are_counted_and_not_drawn() -> None:
    spans = [Span(900 + n, n * 10, n * 10 + 3, is_live=False) for n in range(1, 20)]
    picture = drawn(spans, trunk(1000))
    shown = [summary for bar in bars_of(picture) for summary in bar.summary_ids]
    assert len(shown) + len(picture.left_out) == 19
    assert shown
    assert all(summary > 919 - MOST_SUMMARIES for summary in shown)
    anchors = [summary for mark in marks_of(picture.lanes[0], Shape.ANCHOR) for summary in mark.summary_ids]
    assert sorted(anchors) == sorted(shown), "an anchor without a bar would be read as a live one's"


def test_a_summary_on_lanes_of_another_page_is_not_drawn() -> None:
    assert bars_of(drawn([Span(901, 50, 60, cutoff_lane_id=77, anchor_lane_id=77)])) == []


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 40), st.booleans()), max_size=40))
def test_bars_of_one_lane_never_lie_on_each_other(cuts: list[tuple[int, int, bool]]) -> None:
    spans = [Span(900 + n, cutoff, cutoff + more, is_live=live) for n, (cutoff, more, live) in enumerate(cuts)]
    picture = drawn(spans, trunk(500), in_use=900)
    assert sum(len(bar.summary_ids) for bar in bars_of(picture)) + len(picture.left_out) == len(spans)
    by_height: dict[int, list[Bar]] = {}
    for bar in bars_of(picture):
        by_height.setdefault(bar.top, []).append(bar)
        assert 0 < bar.x1 < bar.x2 < picture.width
    assert all(one.x2 < other.x1 for bars in by_height.values() for one, other in pairwise(bars))
