"""Where to cut, what to show, where to anchor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.compaction.planning import get_messages_to_summarize, plan_compaction
from compaction_app.conf import get_settings
from compaction_app.context.budget import make_budget
from compaction_app.messages.transcript import SUMMARY_WRAPPER_TOKENS
from compaction_app.values import CompactionPlan, Role, Summary
from tests.small import branch_of, messages_of

pytestmark = pytest.mark.pure

ROOMY = {"SUMMARY_TARGET_TOKENS": 50}


def ids(messages):
    return [message.id for message in messages]


def plan(shorthand_or_tail, *, window=10_000, reserved=2_000, base=None, settings=None, seen=False, **options):
    tail = messages_of(shorthand_or_tail) if isinstance(shorthand_or_tail, str) else shorthand_or_tail
    resolved = get_settings(settings or {})
    budget = make_budget(window, reserved, resolved)
    return plan_compaction(branch_of(tail, base, already_compacted=seen), budget, resolved, **options)


def summary_at(cutoff, anchor, *, tokens=30, pinned=None):
    return Summary(
        id=999,
        anchor_id=anchor.id,
        anchor_depth=anchor.depth,
        cutoff_id=cutoff.id,
        cutoff_depth=cutoff.depth,
        cutoff_path_tokens=0,
        tokens=tokens,
        content="earlier matter",
        turn_request=pinned,
    )


class TestSplitting:
    @pytest.mark.parametrize(
        ("messages", "budget", "covered", "kept"),
        [
            ("u u u", 50, [1], [2, 3]),
            ("u a u", 50, [], [1, 2, 3]),
            ("u a u a(50)", 60, [1, 2], [3, 4]),
            ("u c t a u a", 300, [1, 2, 3, 4], [5, 6]),
            ("a a", 50, [], [1, 2]),
            ("", 50, [], []),
        ],
    )
    def test_the_newest_messages_within_the_budget_stay(self, messages, budget, covered, kept):
        split = get_messages_to_summarize(messages_of(messages), budget)
        assert (ids(split[0]), ids(split[1])) == (covered, kept)

    @given(
        letters=st.lists(st.sampled_from(["u", "a", "c t", "c t t"]), max_size=30),
        budget=st.integers(0, 3_000),
        preserve=st.integers(2, 6),
    )
    def test_every_split_is_whole_keeps_the_floor_and_begins_with_a_user(self, letters, budget, preserve):
        messages = messages_of(" ".join(letters))
        covered, kept = get_messages_to_summarize(messages, budget, preserve=preserve)
        assert covered + kept == messages
        if covered:
            assert len(kept) >= preserve
            assert kept[0].role == Role.USER


class TestCuts:
    def test_an_empty_history_has_nothing_to_compact(self):
        assert plan("") is None

    def test_whole_turns_are_covered(self):
        made = plan(" ".join(["u a"] * 40))
        assert made.kept[0].role == Role.USER
        assert made.turn_request is None
        assert ids(made.covered) + ids(made.kept) == list(range(1, 81))
        assert sum(m.tokens for m in made.kept) == 1_600, "as long as the budget lasts"
        assert made.cutoff == made.covered[-1]

    def test_a_tool_loop_is_cut_inside_its_turn(self):
        made = plan("u " + "c t " * 200)
        assert made.kept[0].role == Role.ASSISTANT
        assert made.cutoff.role == Role.TOOL
        assert made.turn_request.id == 1
        assert 1 not in ids(made.covered)
        assert made.anchor_id == made.cutoff.id
        assert made.replaced_tokens == sum(message.tokens for message in made.covered), "without the pin"

    def test_the_newest_user_message_is_never_covered(self):
        made = plan("u a " * 30 + "u(4000) a(100) a(100) a(2000)")
        newest = 61
        assert newest not in ids(made.covered)
        assert newest in ids(made.kept) or made.turn_request.id == newest

    def test_a_turn_without_a_point_for_a_cut_is_left_whole(self):
        """Question, first reply, and a last reply within the floor: nothing but the pin stands before a cut."""
        assert plan("u(3000) a(10) a(4000)") is None
        assert ids(plan("u(3000) a(200) a(4000) a(10)").covered) == [2]

    def test_what_is_smaller_than_the_wrapper_of_a_summary_is_left(self):
        """90 % of what goes must hold the wrapper's 69 tokens, one to spare and at least one of text."""
        assert plan("u(3000) a(78) a(4000) a(10)") is None
        assert plan("u(3000) a(79) a(4000) a(10)").target_tokens == 1

    def test_over_the_threshold_with_nothing_before_the_cut_the_tail_budget_is_given_up(self):
        """The window shrank, say: base and tail are too much together, though the tail alone is small."""
        messages = messages_of("u a u(250) a(250) u(250) a(250)")
        base = summary_at(messages[1], messages[1], tokens=5_100)
        made = plan(messages[2:], base=base)
        assert (ids(made.covered), ids(made.kept)) == ([3, 4], [5, 6])


class TestTargets:
    def test_the_target_leaves_room_for_what_is_kept(self):
        made = plan(" ".join(["u a"] * 40))
        kept = sum(message.tokens for message in made.kept)
        assert made.target_tokens == 1_200
        assert made.target_tokens + kept <= 5_000

    def test_the_wrapper_of_a_summary_is_counted(self):
        """Or a draft that exactly meets its target would be refused for saving too little."""
        made = plan("u u u u", focused=True, settings=ROOMY | {"RECENT_MESSAGES_RATIO": 0.4, "TRIGGER_RATIO": 0.6})
        assert made.target_tokens + SUMMARY_WRAPPER_TOKENS < 0.9 * made.replaced_tokens

    def test_a_large_kept_part_makes_it_a_fifth(self):
        """Of the threshold of 6,000 the kept 5,400 leave room for that, and for no more."""
        made = plan(" ".join(["u a"] * 10) + " u(2700) a(2700)")
        assert sum(message.tokens for message in made.kept) == 5_400
        assert made.target_tokens == 240


class TestIdempotency:
    @pytest.mark.parametrize("option", ["focused", "follow_up"])
    def test_instructions_and_follow_ups_compact_again(self, option):
        messages = messages_of("u a u a u a u a")
        base = summary_at(messages[1], messages[1])
        made = plan(messages[2:], base=base, seen=True, settings=ROOMY, **{option: True})
        assert isinstance(made, CompactionPlan)


class TestAnchors:
    LONG = "u a " * 50

    def test_by_default_the_anchor_is_the_end_of_the_turn_before_the_last(self):
        """So that editing or regenerating the last turn keeps the summary and leaks nothing."""
        made = plan(self.LONG)
        assert made.anchor_id == 98
        assert ids(made.lookahead) == ids(made.kept)[:-2]

    def test_tip_shows_and_anchors_at_the_tip(self):
        made = plan(self.LONG, settings={"LOOKAHEAD": "tip"})
        assert made.anchor_id == 100
        assert ids(made.lookahead) == ids(made.kept)

    def test_the_anchor_stays_where_it_was_when_the_lookahead_is_exhausted(self):
        made = plan(self.LONG.replace(" ", "(2000) "), window=200_000)
        assert made.anchor_id == 98
        assert ids(made.lookahead) == [97, 98]


class Limit:
    """A summarizer that takes ``max_tokens``; blocks cost their tokens, the rest of a request 100."""

    def __init__(self, max_tokens):
        self.max_tokens = max_tokens

    def blocks(self, messages):
        return [message.tokens for message in messages]

    def overhead(self, base, pinned, lookahead):
        return 100 + (pinned.tokens if pinned else 0)

    def spare(self, base):
        return self.max_tokens - 100


class TestSummarizerLimits:
    def test_the_oldest_part_that_fits_is_covered_up_to_a_legal_cut(self):
        assert not plan("u a " * 40, limit=Limit(100_000)).partial
        made = plan("u a " * 40, limit=Limit(1_050))
        assert (made.partial, made.shorten) == (True, False)
        assert ids(made.covered) == list(range(1, 9))
        assert made.kept[0].role == Role.USER

    def test_of_a_small_input_the_look_ahead_has_a_quarter_of_what_the_prompt_leaves(self):
        """A model of a window of 2,048 refused every request: the prompt's words take half of that by themselves."""
        for most, due in ((1_050, 2), (899, 1), (499, 0)):
            made = plan("u a " * 40, limit=Limit(most), settings={"LOOKAHEAD": "tip"})
            assert len(made.lookahead) == due

    def test_where_not_even_the_first_legal_cut_fits_its_messages_are_shortened(self):
        made = plan("u(3000) a(3000) u a " + "u a " * 10, limit=Limit(1_000))
        assert made.partial
        assert made.shorten
        assert ids(made.covered) == [1, 2]

    def test_a_part_that_is_too_small_for_any_summary_is_not_covered_alone(self):
        """Every draft for it was refused after it was paid for, and the branch was never compacted."""
        made = plan("u(20) a(20) u(3000) a(3000) u a " + "u a " * 10, limit=Limit(1_000))
        assert made.shorten
        assert ids(made.covered) == [1, 2, 3, 4]
        assert made.target_tokens > 100


@given(
    turns=st.lists(
        st.tuples(
            st.integers(20, 900), st.lists(st.sampled_from(["a", "a(400)", "c t", "c t t(900)", "c"]), max_size=12)
        ),
        min_size=1,
        max_size=12,
    ),
    window=st.sampled_from([2_000, 4_000, 8_000]),
    lookahead=st.sampled_from(["previous_turn", "tip", "none"]),
)
def test_every_plan_keeps_the_rules(turns, window, lookahead):
    """Covered, pinned and kept are the branch; no pair is split; the newest user message is not covered."""
    tail = messages_of(" ".join(f"u({size}) {' '.join(replies)}" for size, replies in turns))
    made = plan(tail, window=window, reserved=window // 4, settings={"LOOKAHEAD": lookahead})
    if made is None:
        return
    pinned = [made.turn_request.id] if made.turn_request else []
    assert sorted(ids(made.covered) + pinned + ids(made.kept)) == ids(tail)
    assert made.covered
    assert made.kept[0].role in (Role.USER, Role.ASSISTANT)
    newest = max(m.id for m in tail if m.role == Role.USER)
    assert newest not in ids(made.covered)
    assert made.anchor_depth >= made.cutoff.depth
    if made.kept[0].role == Role.ASSISTANT:
        assert made.turn_request is not None
    assert len(made.kept) >= 2
