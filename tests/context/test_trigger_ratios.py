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
    ("model", "own", "threshold"),
    [
        ("house-small", {}, 4_000),
        pytest.param("house-large-2", {}, 7_200, id="the longest prefix counts"),
        pytest.param("another", {}, 6_000, id="any other has the ratio of all"),
        pytest.param("", {}, 6_000, id="no model"),
        pytest.param("house-small", {"TRIGGER_RATIO": 0.6}, 4_800, id="a session's own ratio goes first"),
        pytest.param("house-small", {"MODE": "aggressive"}, 4_000, id="what is set explicitly beats a preset"),
    ],
)
def test_the_threshold_is_the_models(model, own, threshold):
    tip = grow(chat.start_session(model=model, settings=own), None, "u")[-1]
    assert chat.get_context(tip).threshold == threshold


def test_it_is_that_of_the_model_that_is_asked():
    tip = grow(chat.start_session(model="another"), None, " ".join(["u"] * 41))[-1]
    assert not chat.should_compact(tip)
    assert chat.should_compact(tip, model="house-small")
    run = chat.request_compaction(tip, model="house-small")
    assert run is not None
    assert run.budget["threshold"] == 4_000
