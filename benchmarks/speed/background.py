"""Compactions without a model: everything else that a worker does, on long histories.

Run as ``python -m benchmarks.speed.background``, with ``DATABASE_URL`` set. A conversation of LONG messages has 200,000
tokens of the demo's text; any other number of messages are short ones, none like another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.speed.on_django import OnDjango
from benchmarks.speed.processes import REPOSITORY
from benchmarks.speed.serving import serve

LONG, LONG_TOKENS = 1_000, 200_000


class Background(OnDjango):
    """Each call compacts the whole branch, and removes what it made."""

    def grow(self, size: int, branches: int) -> None:
        from compaction_app import chat

        session = chat.start_session(title=f"{size} messages")
        contents = _long_texts(size) if size == LONG else _short_texts(size)
        messages = [
            {"role": "assistant" if at % 2 else "user", "content": content} for at, content in enumerate(contents)
        ]
        parent = None
        for start in range(0, size, 1_000):
            parent = chat.append_messages(session, parent, messages[start : start + 1_000])[-1]
        self.grown[size, branches] = parent, parent

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        from django.test import override_settings

        from compaction_app import chat
        from compaction_app.models import ChatMessage
        from tests.fake_summarizer import FakeSummarizer

        tip, _ = self.grown[size, branches]

        def compact(**settings: Any) -> None:
            with override_settings(COMPACTION=settings):
                run = chat.compact(tip)
            if run.summary_id is None:
                raise RuntimeError(f"No summary was made: {run.status} {run.error_code}")
            FakeSummarizer.requests.clear()
            ChatMessage.objects.delete_subtree(run.summary)
            tip.session.runs.all().delete()

        fixed = {"SUMMARIZERS": {"default": {"BACKEND": "tests.fake_summarizer.FakeSummarizer"}}}
        return {
            "planning, prompt, commit": lambda: compact(LEDGER_TOKENS=0, **fixed),
            "with the ledger": lambda: compact(**fixed),
            "with an extract": lambda: compact(SUMMARIZER="extractive"),
        }


def _long_texts(number: int) -> Iterator[str]:
    """The demo's messages again and again, joined until the conversation has its tokens."""
    from compaction_app.conf import get_token_counter

    demo = json.loads((REPOSITORY / "project" / "demo_conversation.json").read_text())
    texts = [message["content"] for message in demo["messages"] if message.get("content")]
    counts = list(get_token_counter()(texts))
    at = 0
    for message in range(number):
        parts, tokens = [f"Part {message}."], 0
        while tokens < LONG_TOKENS / number:
            parts.append(texts[at % len(texts)])
            tokens += counts[at % len(texts)]
            at += 1
        yield "\n\n".join(parts)


def _short_texts(number: int) -> Iterator[str]:
    for at in range(number):
        yield f"Crate {at} of Berg{at % 977} weighs {at * 7} kg."


if __name__ == "__main__":
    serve(Background())
