"""A trigger for each model, beside the window for each model."""

from __future__ import annotations

import pytest

from compaction_app import chat
from compaction_app.testing.builders import grow
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _ratios(settings):
    """8,000 tokens are available."""
    models = {"house-": {"trigger_ratio": 0.5}, "house-large": {"trigger_ratio": 0.9}}
    settings.COMPACTION = small(TRIGGER_RATIO=0.75, MODELS=models)


@pytest.mark.parametrize(
    ("model", "threshold"),
    [
        ("house-small", 4_000),
        pytest.param("house-large-2", 7_200, id="the longest prefix counts"),
        pytest.param("another", 6_000, id="any other has the ratio of all"),
        pytest.param("", 6_000, id="no model"),
    ],
)
def test_the_threshold_is_the_models(model, threshold):
    session = chat.start_session(model=model)
    under = grow(session, None, " ".join(["u"] * (threshold // 100)))[-1]
    over = grow(session, under, "a")[-1]
    assert chat.get_context(under).threshold == threshold
    assert not chat.should_compact(under)
    assert chat.should_compact(over)
    run = chat.request_compaction(over)
    assert run is not None
    assert run.budget["threshold"] == threshold


def test_it_is_that_of_the_model_that_is_asked():
    tip = grow(chat.start_session(model="another"), None, " ".join(["u"] * 41))[-1]
    assert not chat.should_compact(tip)
    assert chat.should_compact(tip, model="house-small")


def test_a_sessions_own_ratio_goes_first():
    session = chat.start_session(model="house-small", settings={"TRIGGER_RATIO": 0.6})
    assert chat.get_context(grow(session, None, "u")[-1]).threshold == 4_800


def test_a_sessions_mode_does_not():
    """What is set explicitly beats a preset."""
    session = chat.start_session(model="house-small", settings={"MODE": "aggressive"})
    assert chat.get_context(grow(session, None, "u")[-1]).threshold == 4_000
