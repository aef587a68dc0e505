"""The scripted model: its latency, its faults, and summaries that quote every marker they were shown.

Each answer is chosen by the seed and the order of arrival. From the moment that the run comes to rest it makes no
faults.
"""

import random
import re
import threading
from collections import Counter

from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step, content_text
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.steps import cut_off, echoing_validation_error, late, malformed

CHAT_MODEL = "chat"
MARKER = re.compile(r"mk\d+x\d+z")

#: Faults and how often each occurs, in a thousand answers. A hang is longer than any time-out of a soak run.
SUMMARIZER_FAULTS: dict[str, tuple[int, Step]] = {
    "429": (40, steps.rate_limited(retry_after=1)),
    "500": (30, steps.server_error()),
    "hang": (25, steps.hang(5)),
    "dropped connection": (20, steps.drop()),
    "garbage": (20, malformed()),
    "empty": (10, steps.reply("")),
    "refusal": (10, steps.refusal()),
    "cut off": (10, cut_off("## Recap\n\nThis goes on and on and then suddenly")),
    "422 that quotes the prompt": (10, echoing_validation_error()),
    "too-long context": (5, steps.context_overflow(n_prompt_tokens=4_000, n_ctx=3_000)),
}
CHAT_FAULTS: dict[str, tuple[int, Step]] = {
    "429": (40, steps.rate_limited(retry_after=1)),
    "500": (30, steps.server_error()),
    "garbage": (20, malformed()),
    "empty": (20, steps.reply("")),
    "too-long context": (60, steps.context_overflow()),
}
#: Markers that a summary quotes at most: more would be as long as what it replaces.
QUOTED = 40


class Model:
    """A server on a free port; ``answers`` counts what it did."""

    def __init__(self, seed: int) -> None:
        self.answers: Counter[str] = Counter()
        self.is_calm = False
        self._random = random.Random(f"model {seed}")
        self._lock = threading.Lock()
        self.server = ScriptedOpenAIServer(default=self._answer)

    def _answer(self, exchange: Exchange) -> None:
        is_chat = exchange.model == CHAT_MODEL
        with self._lock:
            latency = self._random.choice((0.05, 0.1, 0.3, 0.5, 0.8))
            name, step = self._choose(CHAT_FAULTS if is_chat else SUMMARIZER_FAULTS)
            self.answers[name or "answered"] += 1
        late(latency, step or (reply if is_chat else recap))(exchange)

    def _choose(self, faults: dict[str, tuple[int, Step]]) -> tuple[str, Step | None]:
        drawn = self._random.randrange(1000)
        if not self.is_calm:
            for name, (share, step) in faults.items():
                drawn -= share
                if drawn < 0:
                    return name, step
        return "", None


def reply(exchange: Exchange) -> None:
    """A reply with the marker that the client gave it, so that it can be found again."""
    steps.reply(f"{exchange.body.get('user', '')}: noted, the board has it now.")(exchange)


def recap(exchange: Exchange) -> None:
    shown = MARKER.findall("\n".join(content_text(message.get("content")) for message in exchange.body["messages"]))
    told = list(dict.fromkeys(shown))[-QUOTED:]
    steps.reply(f"## Recap\n\nIda and you settled these points of the harbour, in order: {' '.join(told)}.")(exchange)
