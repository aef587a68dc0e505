"""The small world, in it a branch that is to be compacted."""

import pytest


@pytest.fixture(autouse=True)
def small_world(small_window: None) -> None:
    """Before the fixtures of a class, which change some of it: a mark would come after them."""
