"""The branch map: every message has a place, no line crosses another, and long stretches take little room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.branch_map import EVERY_DEPTH, draw, is_small
from compaction_app.map_parts import GAUGE_WIDTH, Bar, Mark, MarkKind, Picture, Place, Row
from compaction_app.map_scale import CHARACTER, make_scale
from compaction_app.map_summaries import MOST_SUMMARIES, first_covered

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
    def cutoff_id(self) -> int:
        return self.cutoff_lane_id * 1000 + self.cutoff_depth

    @property
    def anchor_id(self) -> int:
        return self.anchor_lane_id * 1000 + self.anchor_depth


@dataclass(frozen=True)
class Filling:
    history_tokens: int
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


def row_of(picture: Picture, lane: Lane) -> Row:
    return next(row for row in picture.rows if row.lane_id == lane.start_id)


def marks_of(row: Row, kind: MarkKind) -> list[Mark]:
    return [mark for mark in row.marks if mark.kind == kind]


def bars_of(picture: Picture) -> list[Bar]:
    return sorted((bar for row in picture.rows for bar in row.bars), key=lambda bar: bar.x1)


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
    folded = sum(fold.messages for fold in scale.folds)
    assert folded + len(depths) == max(depths) - min(depths) + 1


@given(DEPTHS, st.data())
def test_a_line_is_drawn_from_its_first_to_its_last_message_without_a_gap(
    depths: set[int], data: st.DataObject
) -> None:
    scale = make_scale(depths, 48)
    first, last = sorted(data.draw(st.tuples(st.sampled_from(sorted(depths)), st.sampled_from(sorted(depths)))))
    pieces = list(scale.stretches(first, last))
    assert (pieces[0][0], pieces[-1][1]) == (scale.x(first), scale.x(last))
    assert all(one[1] == other[0] for one, other in pairwise(pieces))


def test_a_stretch_says_how_many_messages_it_folds() -> None:
    assert [fold.label for fold in make_scale({1, 1206, 1208}, 0).folds] == ["1,204 messages", "1 message"]
    assert make_scale(range(1, 60, 2), 0).folds[0].label == "1", "where there is much, the number alone"


@pytest.mark.parametrize("length", [5, 5_000, 100_000])
def test_a_conversation_takes_the_same_room_at_any_length(length: int) -> None:
    """Readable at 5 messages and at 100,000: on a wide screen without scrolling."""
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


@given(trees())
def test_no_line_crosses_another(lanes: list[Lane]) -> None:
    """What goes down to a fork meets no lane on its way, nor a gauge at the end of one."""
    picture = draw(lanes, [], {lane.end_id: Filling(100) for lane in lanes}, Limits())
    rows = {row.lane_id: row for row in picture.rows}
    for lane in lanes:
        if lane.parent_lane_id is None:
            continue
        down = picture.scale.x(lane.start_depth - 1)
        parent, child = rows[lane.parent_lane_id], rows[lane.start_id]
        assert parent.y < child.y
        for row in picture.rows:
            if parent.y < row.y < child.y:
                assert all(down < x1 for x1, _, _ in row.line)


@given(trees())
def test_every_lane_is_a_row_and_every_end_a_mark(lanes: list[Lane]) -> None:
    picture = draw(lanes, [], {})
    assert sorted(row.lane_id for row in picture.rows) == sorted(lane.start_id for lane in lanes)
    assert [row.number for row in picture.rows] == list(range(1, len(lanes) + 1))
    assert {lane.end_id for lane in lanes} <= set(picture.ids)
    assert all(one.top + one.height == other.top for one, other in pairwise(picture.rows))
    assert picture.height >= picture.rows[-1].top + picture.rows[-1].height


def test_an_empty_session_is_an_empty_picture() -> None:
    assert draw([], [], {}).rows == ()


def test_one_message_is_a_tip() -> None:
    [row] = draw([Lane(7, 1, 7, 1)], [], {}).rows
    assert [(mark.kind, mark.message_id, mark.is_start) for mark in row.marks] == [(MarkKind.TIP, 7, True)]


def test_forks_stand_below_their_lane_the_deepest_first() -> None:
    main = trunk(100)
    early, late, again = fork(20, main, 10, 5), fork(30, main, 90, 5), fork(40, main, 90, 5)
    below = fork(50, late, 92, 5)
    picture = draw([below, again, late, early, main], [], {})
    assert [row.lane_id for row in picture.rows] == [1, 30, 50, 40, 20]


def test_several_roots_stand_in_the_order_in_which_they_began() -> None:
    picture = draw([Lane(30, 1, 30, 1), Lane(20, 1, 21, 2), Lane(10, 1, 12, 3)], [], {})
    assert [(row.lane_id, row.fork) for row in picture.rows] == [(10, ""), (20, ""), (30, "")]


def test_a_fork_says_how_many_lanes_leave_it() -> None:
    main = trunk(10)
    picture = draw([fork(40, main, 5, 2), fork(20, main, 5, 3), main], [], {})
    [mark] = marks_of(row_of(picture, main), MarkKind.FORK)
    assert (mark.message_id, mark.depth, mark.forks) == (105, 5, 2)


def test_a_lane_that_only_forks_go_on_from_ends_in_a_mark_of_its_own() -> None:
    main = Lane(1, 1, 5, 5, is_tip=False)
    leaves = Lane(20, 6, 20, 6, parent_id=5, parent_lane_id=1)
    picture = draw([leaves, main], [], {5: Filling(100)}, Limits())
    row = row_of(picture, main)
    assert [mark.forks for mark in marks_of(row, MarkKind.END)] == [1]
    assert row.gauge is None


def test_a_lane_of_which_only_forks_are_known_is_drawn_as_far_as_they_tell() -> None:
    """The newest page of many lanes: the one they leave may be on another page."""
    main = trunk(1000)
    lanes = [fork(50 + n, main, depth, 3) for n, depth in enumerate((40, 500, 700))]
    picture = draw(lanes[::-1], [], {})
    row = row_of(picture, main)
    assert row.is_elsewhere
    assert [mark.kind for mark in row.marks] == [MarkKind.FORK] * 3
    assert (row.line[0][0], row.line[-1][1]) == (picture.scale.x(40), picture.scale.x(700))
    assert [other.number for other in picture.rows] == [0, 1, 2, 3]


def test_a_short_conversation_has_a_mark_for_every_message() -> None:
    main = trunk(EVERY_DEPTH)
    assert is_small([main])
    assert not is_small([trunk(EVERY_DEPTH + 1)])
    assert not is_small([trunk(EVERY_DEPTH)] * 6)
    places = [Place(n, n, 1) for n in range(1, EVERY_DEPTH)] + [Place(main.end_id, EVERY_DEPTH, 1)]
    picture = draw([main], [], {}, None, places)
    assert len(picture.rows[0].marks) == EVERY_DEPTH
    assert not picture.scale.folds


def test_the_keyboard_goes_along_a_lane() -> None:
    main = trunk(60)
    picture = draw([fork(30, main, 44, 2), main], [Span(900, 30, 50)], {main.end_id: Filling(1, 900)}, Limits())
    kinds = [mark.kind for mark in row_of(picture, main).marks]
    assert kinds == [MarkKind.START, MarkKind.CUTOFF, MarkKind.FORK, MarkKind.ANCHOR, MarkKind.TIP]


# -- gauges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "percent", "filled", "is_over"),
    [(0, 0, 0, False), (2250, 75, 36, False), (2251, 75, 36, True), (9000, 300, GAUGE_WIDTH, True)],
)
def test_a_gauge_tells_how_full_a_tip_is(tokens: int, percent: int, filled: int, is_over: bool) -> None:
    """Over means strictly over the threshold, as the trigger has it."""
    main = trunk(10)
    gauge = draw([main], [], {main.end_id: Filling(tokens)}, Limits()).rows[0].gauge
    assert gauge is not None
    assert (gauge.percent, gauge.filled, gauge.is_over, gauge.threshold) == (percent, filled, is_over, 36)


def test_without_a_budget_there_are_no_gauges() -> None:
    main = trunk(10)
    assert draw([main], [], {main.end_id: Filling(100)}).rows[0].gauge is None


# -- summaries ----------------------------------------------------------------------------------------------


def drawn(spans: Sequence[Span], *lanes: Lane, in_use: int | None = None) -> Picture:
    lanes = lanes or (trunk(100),)
    newest_first = sorted(spans, key=lambda span: -span.summary_id)
    return draw(lanes, newest_first, {lanes[-1].end_id: Filling(100, in_use)}, Limits())


def test_each_summary_is_drawn_from_where_the_one_before_it_ends() -> None:
    picture = drawn([Span(901, 20, 25), Span(902, 40, 45), Span(903, 70, 75)], in_use=903)
    assert [(bar.first, bar.last) for bar in bars_of(picture)] == [(1, 20), (21, 40), (41, 70)]
    assert [bar.is_in_use for bar in bars_of(picture)] == [False, False, True]
    assert all(one.x2 < other.x1 and one.y == other.y for one, other in pairwise(bars_of(picture)))


def test_a_summary_ends_right_after_its_cutoff() -> None:
    picture = drawn([Span(901, 20, 25)], in_use=901)
    [row] = picture.rows
    [cutoff], [anchor] = marks_of(row, MarkKind.CUTOFF), marks_of(row, MarkKind.ANCHOR)
    assert (cutoff.message_id, cutoff.summary_ids, anchor.message_id) == (1020, (901,), 1025)
    assert cutoff.x == row.bars[0].x2 > picture.scale.x(20)
    assert anchor.x == picture.scale.x(25)
    assert cutoff.path != anchor.path


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
    [bar] = row_of(picture, side).bars
    assert (bar.first, bar.is_open) == (1, True)
    assert bar.x1 > picture.scale.x(30)


def test_summaries_of_the_same_messages_stand_above_each_other_the_one_in_use_nearest() -> None:
    spans = [Span(901, 40, 45, is_live=False), Span(902, 40, 50), Span(903, 40, 44)]
    bars = {bar.summary_id: bar for bar in bars_of(drawn(spans, in_use=902))}
    assert bars[902].y > bars[903].y > bars[901].y
    assert (bars[902].is_live, bars[901].is_live) == (True, False)


def test_one_cutoff_of_several_summaries_is_one_mark() -> None:
    picture = drawn([Span(902, 40, 50), Span(903, 40, 44, is_live=False)], in_use=902)
    [cutoff] = marks_of(picture.rows[0], MarkKind.CUTOFF)
    assert (cutoff.summary_ids, cutoff.is_retired) == ((902, 903), False)


def test_of_many_summaries_the_older_are_one_bar() -> None:
    spans = [Span(900 + n, n * 10, n * 10 + 3) for n in range(1, 90)]
    picture = drawn(spans, trunk(1000), in_use=989)
    many, *others = bars_of(picture)
    assert [bar.summary_id for bar in others] == list(range(989 - MOST_SUMMARIES, 990))
    assert (many.summary_id, len(many.summary_ids)) == (0, 89 - len(others))
    assert (many.first, many.last, many.is_live) == (1, others[0].first - 1, True)
    assert picture.has_many
    assert picture.left_out == 0
    assert 0 not in picture.ids


def test_retired_summaries_beyond_the_newest_are_counted_and_not_drawn() -> None:
    spans = [Span(900 + n, n * 10, n * 10 + 3, is_live=False) for n in range(1, 20)]
    picture = drawn(spans, trunk(1000))
    shown = [summary for bar in bars_of(picture) for summary in bar.summary_ids]
    assert len(shown) + picture.left_out == 19
    assert shown
    assert all(summary > 919 - MOST_SUMMARIES for summary in shown)
    anchors = [summary for mark in marks_of(picture.rows[0], MarkKind.ANCHOR) for summary in mark.summary_ids]
    assert sorted(anchors) == sorted(shown), "an anchor without a bar would be read as a live one's"


def test_a_summary_on_lanes_of_another_page_is_not_drawn() -> None:
    assert bars_of(drawn([Span(901, 50, 60, cutoff_lane_id=77, anchor_lane_id=77)])) == []


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 40), st.booleans()), max_size=40))
def test_bars_of_one_lane_never_lie_on_each_other(cuts: list[tuple[int, int, bool]]) -> None:
    spans = [Span(900 + n, cutoff, cutoff + more, is_live=live) for n, (cutoff, more, live) in enumerate(cuts)]
    picture = drawn(spans, trunk(500), in_use=900)
    assert sum(len(bar.summary_ids) for bar in bars_of(picture)) + picture.left_out == len(spans)
    by_height: dict[int, list[Bar]] = {}
    for bar in bars_of(picture):
        by_height.setdefault(bar.y, []).append(bar)
        assert 0 < bar.x1 < bar.x2 < picture.width
    assert all(one.x2 < other.x1 for bars in by_height.values() for one, other in pairwise(bars))
