"""How much room there is and when to act."""

import pytest
from django.test import override_settings

from compaction_app.conf import get_settings
from compaction_app.context.budget import (
    Calibration,
    calibration_of,
    get_compaction_params,
    make_budget,
    observe_calibration,
    window_of,
)
from compaction_app.exceptions import ConfigurationError

pytestmark = pytest.mark.pure


def budget_at(window, reserved, calibration=1.0, **overrides):
    return make_budget(window, reserved, get_settings(overrides), calibration)


@pytest.mark.parametrize(
    ("history", "window", "recent"),
    [(7_000, 10_000, 1_400), (50_000, 10_000, 5_000 - 1_200), (210_000, 1_000_000, 40_000)],
)
def test_the_tail_budget_is_a_share_of_the_history(history, window, recent):
    """At most its cap, and what the target leaves beside the summary's."""
    assert get_compaction_params(history, budget_at(window, 2_000)).tokens_for_recent == recent


def test_the_trigger_is_capped_for_huge_windows():
    assert budget_at(1_000_000, 8_192).threshold == 200_000


def learned(*reports):
    """What is learned of a model from prompts of (our, the provider's) tokens."""
    calibrations = {}
    for ours, theirs in reports:
        calibrations = observe_calibration(calibrations, "m", theirs, ours)
    return calibration_of(calibrations, "m")


def test_what_a_provider_adds_to_each_prompt_is_an_offset_and_no_factor():
    """vellum-ai/vellum-assistant#27111: 35 tokens for "Hi" made every later prompt twice as large."""
    assert learned((11, 35)) == Calibration(1.0, 24.0)
    grown = learned(*((ours, ours + 3_000) for ours in range(10_000, 90_000, 10_000)))
    assert grown.ratio == pytest.approx(1.0, abs=0.01)
    assert grown.of(90_000) == pytest.approx(93_000, rel=0.005)


def test_a_tokenizer_s_ratio_is_learned_from_large_prompts_at_once_and_from_growing_ones():
    assert learned((10_000, 15_000)) == Calibration(1.5, 0.0)
    assert learned(*((ours, ours * 3 // 2) for ours in range(500, 20_000, 1_500))).ratio == pytest.approx(1.5, abs=0.05)
    assert learned((10_000, 15_000), *[(11, 35)] * 3).of(10_000) == pytest.approx(15_000, rel=0.05)


@pytest.mark.parametrize(("ours", "theirs"), [(10_000, 0), (10_000, 10**8), (1, 10**8), (10**8, 1)])
def test_no_report_makes_a_ratio_or_an_offset_beyond_reason(ours, theirs):
    found = learned((ours, theirs), (ours, theirs))
    assert 0.8 <= found.ratio <= 2.0
    assert 0 <= found.offset <= 20_000


def test_figures_of_twenty_models_are_kept_and_the_oldest_unused_go():
    calibrations = {f"old-{n}": 1.2 for n in range(16_000)}
    for n in range(25):
        calibrations = observe_calibration(calibrations, f"m{n}", 10_000, 10_000)
        calibrations = observe_calibration(calibrations, "used", 10_000, 10_000)
    assert set(calibrations) == {"used", *(f"m{n}" for n in range(6, 25))}


@pytest.mark.parametrize(("stored", "ratio"), [(1.5, 1.5), (9, 2.0)])
def test_the_factor_of_an_earlier_version_is_read(stored, ratio):
    assert calibration_of({"m": stored}, "m") == Calibration(ratio, 0.0)
    after = calibration_of(observe_calibration({"m": stored}, "m", 35, 11), "m")
    assert after == Calibration(1.0, 24.0), "a new report begins anew"


def test_nothing_left_for_the_conversation_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="12000 tokens are reserved") as caught:
        budget_at(10_000, 12_000)
    assert (caught.value.window, caught.value.reserved) == (10_000, 12_000)


def test_an_explicit_window_beats_the_table():
    with override_settings(COMPACTION={"CONTEXT_WINDOW": 4_000}):
        assert window_of("gpt-4o", get_settings()) == 4_000
