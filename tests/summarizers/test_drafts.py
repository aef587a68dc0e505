"""What comes in place of a draft is named by its type, and quoted nowhere."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

from compaction_app.summarizers.prompts import wrong_draft
from compaction_app.values import SummaryDraft, SummaryRequest

pytestmark = pytest.mark.pure


async def summarize(request: SummaryRequest | None = None) -> str:
    return "a secret recap"


def test_a_draft_is_one_also_where_its_provider_does_not_say_how_it_ended() -> None:
    assert wrong_draft(SummaryDraft(text="")) == ""
    assert wrong_draft(SummaryDraft(text="a", finish_reason=None)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (None, "NoneType"),
        ("a secret recap", "str"),
        ({"choices": ["a secret recap"]}, "dict"),
        (SummaryDraft, "type"),
        (SummaryDraft(text=None), "one whose text is of the type NoneType"),  # type: ignore[arg-type]
        (SummaryDraft(text=["a secret recap"]), "one whose text is of the type list"),  # type: ignore[arg-type]
        (SummaryDraft(text="a", model=None), "one whose model is of the type NoneType"),  # type: ignore[arg-type]
        (SummaryDraft(text="a", finish_reason=["stop"]), "one whose finish_reason is of the type list"),  # type: ignore[arg-type]
    ],
)
def test_what_is_none_is_named_by_its_type(answer: Any, named: str) -> None:
    assert wrong_draft(answer) == named


def test_a_coroutine_is_closed_so_that_nothing_warns_of_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrong_draft(summarize()) == "a coroutine, which nobody awaits"
        gc.collect()
