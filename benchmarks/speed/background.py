"""Compactions without a model: everything else that a worker does, on conversations that really happened.

Run as ``python -m benchmarks.speed.background``, with ``DATABASE_URL`` set. Sizes are tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.evaluate.cases import shared
from benchmarks.speed.on_django import OnDjango
from benchmarks.speed.serving import serve

#: Not part of this repository: see docs/proofs.md. How many tokens each has at least.
FILES = {"friends": "friends_locomo.json", "customer service": "agent_airline.json", "coding": "agent_coding.json"}
TOKENS = {"friends": 80_000, "customer service": 300_000, "coding": 400_000}
FOUND = {name: TOKENS[name] for name, file in FILES.items() if (shared("real") / file).is_file()}


class Background(OnDjango):
    """Each call compacts the whole branch, and removes what it made."""

    def __init__(self) -> None:
        super().__init__()
        self.grown_of: dict[tuple[str, int], tuple[Any, str]] = {}

    def grow(self, size: int, branches: int) -> None:
        from compaction_app import chat
        from compaction_app.conf import get_token_counter

        for name in (name for name, most in FOUND.items() if size <= most):
            taken: list[dict[str, Any]] = []
            tokens = 0
            for message in _messages(name):
                taken.append(message)
                said = [message.get("content") or "", json.dumps(message.get("tool_calls") or "")]
                tokens += sum(get_token_counter()(said))
                if tokens >= size:
                    break
            tip = None
            session = chat.start_session(title=f"{name}, {size} tokens")
            for start in range(0, len(taken), 1_000):
                tip = chat.append_messages(session, tip, taken[start : start + 1_000])[-1]
            # In place of a model's text; a draft that tells next to nothing of the messages is refused.
            told = [message.get("content") or "" for message in taken[:: 1 + len(taken) // 40]]
            self.grown_of[name, size] = tip, "\n\n".join(["## Recap", *(content[:200] for content in told)])

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        return {name: partial(_compact, *one) for (name, tokens), one in self.grown_of.items() if tokens == size}


def _compact(tip: Any, text: str) -> None:
    from django.test import override_settings

    from compaction_app import chat
    from compaction_app.models import ChatMessage
    from tests.fake_summarizer import FakeSummarizer

    settings = {"SUMMARIZERS": {"default": {"BACKEND": "tests.fake_summarizer.FakeSummarizer"}}}
    FakeSummarizer.text = text
    with override_settings(COMPACTION=settings):
        run = chat.compact(tip)
    if run.summary_id is None:
        raise RuntimeError(f"No summary was made: {run.status} {run.error_code}")
    FakeSummarizer.requests.clear()
    ChatMessage.objects.delete_subtree(run.summary)
    tip.session.runs.all().delete()


def _messages(name: str) -> Iterator[dict[str, Any]]:
    for conversation in json.loads((shared("real") / FILES[name]).read_text()):
        messages = conversation["messages"]
        for at, message in enumerate(messages):
            if name == "friends":
                speaker = message["speaker"]
                role = "user" if speaker == messages[0]["speaker"] else "assistant"
                yield {"role": role, "name": speaker.split()[0], "content": message["text"]}
            elif message["role"] != "system" and (at or message["role"] == "user"):
                yield message


if __name__ == "__main__":
    serve(Background())
