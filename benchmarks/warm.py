"""What a summary costs behind the chat's own prompt (``WARM``) and without: fifty requests, into docs/proofs.md.

``python -m benchmarks.warm``. The scripted server records the chat's last request and both requests for a summary. What
a provider reads from its cache is the part of a request that begins as the chat's did: bytes, and tokens by o200k.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import pairwise, takewhile
from statistics import median
from typing import Any

from benchmarks.evaluate import domains_tuned, product
from benchmarks.evaluate.cases import REPOSITORY
from benchmarks.evaluate.conversations import grow

#: Conversations by window.
WINDOWS = {16_000: 27, 32_000: 20, 64_000: 3}
#: Of the chat, and a small one of the kind that usually writes summaries.
PRICED = {"openai": "gpt-5.4", "anthropic": "claude-sonnet-4-5"}
SMALL = ("openai", "gpt-5.4-nano")
PAGE = REPOSITORY / "docs" / "proofs.md"
_BEGIN, _END = "<!-- python -m benchmarks.warm writes what follows -->", "<!-- and that ends here -->"
_SYSTEM = "You help the people who use this service. Look things up before you answer, and name the source. " * 12
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"{verb}_{noun}",
            "description": f"Can {verb} a {noun} of the account by its number. Use it before you answer.",
            "parameters": {
                "type": "object",
                "properties": {"number": {"type": "string", "description": "As the user wrote it."}},
                "required": ["number"],
            },
        },
    }
    for verb in ("find", "change", "close")
    for noun in ("order", "ticket", "booking")
]


def leave(run: Any, *, countdown: float = 0.0) -> None:
    """``ENQUEUE``: the run is carried out here."""


def measure() -> Iterator[tuple[int, float, int, int, int]]:
    """Window, share of bytes, tokens of the warm request that repeat and that do not, tokens of the cold one."""
    import openai

    from compaction_app.testing.server import ScriptedOpenAIServer

    domains = domains_tuned.DOMAINS
    with ScriptedOpenAIServer() as server, openai.OpenAI(base_url=server.url, api_key="none") as client:
        for window, count in WINDOWS.items():
            for number in range(count):
                told = grow(domains[number % len(domains)], number, 2 * window)
                before, warm, cold = _asked(told, window, server, client)
                same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, warm, strict=False)))
                share = len(warm[:same].encode()) / len(warm.encode())
                yield window, share, product.size_of(warm[:same]), product.size_of(warm[same:]), product.size_of(cold)


def _asked(told: Any, window: int, server: Any, client: Any) -> list[str]:
    """The chat's last request and both for a summary, as a provider reads them: tools, then messages."""
    from django.conf import settings

    from compaction_app import chat
    from compaction_app.compaction.execute import compact_chat_history
    from compaction_app.summarizers.prompts import BEHIND

    models = [{"model": "chat-model", "base_url": server.url}]
    settings.COMPACTION = {
        "ENQUEUE": "benchmarks.warm.leave",
        "CONTEXT_WINDOW": window,
        "RESERVED_TOKENS": window // 16,
        "SUMMARIZERS": {"default": {"MODELS": models, "WARM": True}, "cold": {"MODELS": models}},
    }
    session, tip = chat.start_session(model="chat-model", system_prompt=_SYSTEM), None
    turns = [*_turns(product.as_openai(told.turns))]
    while not session.runs.exists():
        # Whether it is due is decided after the reply, by how its provider counts.
        taken = len(turns) // 20 + 1 if tip else len(turns) // 3
        tip = chat.append_messages(session, tip, [one for turn in turns[:taken] for one in turn])[-1]
        turns = turns[taken:]
        tip = chat.append_message(session, tip, role="user", content="And what is next?")
        tip = chat.complete(tip, client=client, tools=_TOOLS)
    copied = chat.copy_branch(tip)
    copied.settings = {"SUMMARIZER": "cold"}
    copied.save()
    for run in (session.runs.get(), chat.request_compaction(chat.tips(copied)[0], tools=_TOOLS, trigger="manual")):
        compact_chat_history(run.pk)
    # A draft may have been refused: the server's are short.
    requests = server.requests
    warm = next(at for at, one in enumerate(requests) if str(one["messages"][-1]["content"]).startswith(BEHIND))
    sent = [requests[at] for at in (warm - 1, warm, -1)]
    server.reset()
    return [json.dumps([one.get("tools"), *one["messages"]], ensure_ascii=False) for one in sent]


def _turns(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    begins = [at for at, one in enumerate(messages) if one["role"] == "user"]
    yield from (messages[at:end] for at, end in pairwise([*begins, len(messages)]))


def table(measured: list[tuple[int, float, int, int, int]]) -> str:
    head = ["window", "requests", "bytes that repeat, median (least)", "tokens, cold", "tokens, warm (new)"]
    head += [f"{model}, cold → warm" for model in PRICED.values()] + [f"{SMALL[1]}, cold"]
    lines = [head, ["---:"] * len(head)]
    for window in WINDOWS:
        own = [one[1:] for one in measured if one[0] == window]
        shares, same, new, cold = zip(*own, strict=True)
        line = [f"{window:,}", str(len(own)), f"{median(shares):.0%} ({min(shares):.0%})", f"{median(cold):,.0f}"]
        line.append(f"{median(same) + median(new):,.0f} ({median(new):,.0f})")
        for provider, model in PRICED.items():
            prices = _price(provider, model, sum(cold)), _price(provider, model, sum(same) + sum(new), sum(same))
            line.append(" → ".join(f"{1_000 * price / len(own):.2f}" for price in prices))
        line.append(f"{1_000 * _price(*SMALL, sum(cold)) / len(own):.2f}")
        lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _price(provider: str, model: str, tokens: int, cached: int = 0) -> float:
    """Of so many input tokens, in US dollars, none of the requests being large enough for a higher price."""
    from genai_prices import Usage, calc_price

    parts = ({"input_tokens": 1_000}, {"input_tokens": 1_000, "cache_read_tokens": 1_000})
    new, read = (float(calc_price(Usage(**one), model, provider_id=provider).input_price) / 1_000 for one in parts)
    return (tokens - cached) * new + cached * read


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        product.begin(folder)
        product.migrate()
        text = table([*measure()])
    print(text)
    written = re.sub(
        f"({_BEGIN}).*?({_END})", lambda found: f"{found[1]}\n\n{text}\n\n{found[2]}", PAGE.read_text(), flags=re.DOTALL
    )
    PAGE.write_text(written)


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "none")
    main()
