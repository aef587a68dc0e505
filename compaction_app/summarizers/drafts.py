"""What a host's code gave back in place of a draft, judged by its types before anything reads it. Pure."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from compaction_app.values import SummaryDraft


def wrong_draft(answer: Any) -> str:
    """What it is instead of a :class:`SummaryDraft`, in words that quote none of it; "" if nothing is wrong.

    A coroutine is closed: nobody will await it, and Python would warn of that wherever it is thrown away.
    """
    if isinstance(answer, Coroutine):
        answer.close()
        return "a coroutine, which nobody awaits"
    if not isinstance(answer, SummaryDraft):
        return type(answer).__name__
    # A provider that says nothing of how its reply ended leaves None there.
    said: dict[str, Any] = {"text": answer.text, "model": answer.model, "finish_reason": answer.finish_reason or ""}
    wrong = (f"one whose {name} is of the type {type(value).__name__}" for name, value in said.items())
    return next((words for words, value in zip(wrong, said.values(), strict=True) if not isinstance(value, str)), "")
