"""How much room there is and when to act: design §5 and the numbers of §17."""

import pytest
from django.test import override_settings

from compaction_app.conf import get_settings
from compaction_app.context.budget import get_compaction_params, make_budget, observe_calibration, window_of
from compaction_app.exceptions import ConfigurationError

pytestmark = pytest.mark.pure


def budget_at(window, reserved, calibration=1.0, **overrides):
    return make_budget(window, reserved, get_settings(overrides), calibration)


def test_the_tail_budget_is_a_share_of_the_history():
    assert get_compaction_params(7_000, budget_at(10_000, 2_000)).tokens_for_recent == 1_400


def test_the_trigger_is_capped_for_huge_windows():
    assert budget_at(1_000_000, 8_192).threshold == 200_000


def test_calibration_divides_the_limits_before_the_comparison():
    """A model that counts half as many tokens again triggers earlier by our count."""
    budget = budget_at(10_000, 2_000, calibration=1.5)
    assert budget.threshold == 4_000
    assert get_compaction_params(4_900, budget).should_compact


def test_calibration_is_smoothed_and_clamped():
    assert observe_calibration(None, 3_000, 1_000) == 2.0
    assert observe_calibration(None, 100, 1_000) == 0.8
    assert observe_calibration(1.0, 1_500, 1_000) == pytest.approx(1.15)
    assert observe_calibration(1.3, 0, 1_000) == 1.3


def test_nothing_left_for_the_conversation_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="12000 tokens are reserved") as caught:
        budget_at(10_000, 12_000)
    assert (caught.value.window, caught.value.reserved) == (10_000, 12_000)


def test_the_window_comes_from_the_longest_matching_prefix():
    settings = get_settings({})
    assert window_of("gpt-4o-mini-2024", settings) == 128_000
    assert window_of("gpt-4.1-nano", settings) == 1_047_576
    assert window_of("gpt-4-0613", settings) == 8_192
    assert window_of("house-model", settings) is None


def test_an_explicit_window_beats_the_table():
    with override_settings(COMPACTION={"CONTEXT_WINDOW": 4_000}):
        assert window_of("gpt-4o", get_settings()) == 4_000


def test_a_window_of_one_s_own_stands_beside_the_table():
    with override_settings(COMPACTION={"CONTEXT_WINDOWS": {"house-": 9_000, "gpt-4o": 5_000}}):
        settings = get_settings()
        assert [window_of(m, settings) for m in ("house-1", "gpt-4o", "o3")] == [9_000, 5_000, 200_000]
