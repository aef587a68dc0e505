"""How often the beginning of a prompt stays as it was, over thirty turns with tools and no compaction.

Providers cache the beginning of a prompt. A turn keeps that cache where the prompt of the turn before is a prefix of
its own: the same messages, and new ones behind them. Printed for ``PRUNE`` "pressure" and "always", and for windows
that are soon too small because compaction is late: how many of 29 turns keep the prefix, and which share of the
available tokens is used in the turns that leave messages out to fit. Prints numbers, asserts nothing.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

TURNS = 30
#: Name, settings, bytes of a tool result.
SCENARIOS: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("pressure", {"PRUNE": "pressure", "CONTEXT_WINDOW": 60_000}, (7_000, 9_000)),
    ("pressure, small window", {"PRUNE": "pressure", "CONTEXT_WINDOW": 12_000}, (2_000, 3_000)),
    ("always", {"PRUNE": "always", "CONTEXT_WINDOW": 60_000}, (7_000, 9_000)),
    ("always, small window", {"PRUNE": "always", "CONTEXT_WINDOW": 12_000}, (2_000, 3_000)),
    ("late, equal results", {"CONTEXT_WINDOW": 24_000}, (8_000, 8_000)),
    ("late, unequal results", {"CONTEXT_WINDOW": 24_000}, (500, 20_000)),
    ("late, no large results", {"CONTEXT_WINDOW": 12_000}, (1_000, 3_000)),
    ("late, small window", {"CONTEXT_WINDOW": 8_192}, (2_000, 12_000)),
]
_WORDS = "tide harbour ebb pilot anchor mooring chart buoy keel draught berth quay ferry lamp fog".split()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_URL": f"sqlite:///{folder}/prefix.sqlite3",
            "DEBUG": "false",
            "SECRET_KEY": "benchmark",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        print(f"{'':<24}{'prefix stays':>14}{'used, mean':>12}{'least':>8}{'shortened':>11}{'left out':>10}")
        for name, overrides, sizes in SCENARIOS:
            kept, used, shortened, dropped = _measure(overrides, sizes)
            mean, least = (f"{sum(used) / len(used):.0%}", f"{min(used):.0%}") if used else ("-", "-")
            stays = f"{kept} of {TURNS - 1}"
            print(f"{name:<24}{stays:>14}{mean:>12}{least:>8}{shortened:>11}{dropped:>10}")
    return 0


def _measure(overrides: dict[str, Any], sizes: tuple[int, int]) -> tuple[int, list[float], int, int]:
    """Turns that keep the prefix, the used share of each turn that had to be fitted, and the last turn's figures."""
    from compaction_app import chat

    chance = random.Random(20300101)
    session = chat.start_session(system_prompt="You are a harbour pilot.", settings=overrides)
    tip, before, kept, used = None, None, 0, []
    for turn in range(TURNS):
        *_, tip = chat.append_messages(session, tip, _asked(turn, chance, sizes))
        context = chat.get_context(tip)
        prompt = context.to_openai()
        kept += before is not None and prompt[: len(before)] == before
        before = prompt
        if context.strategy == "truncated":
            used.append(context.history_tokens / context.available_tokens)
        tip = chat.append_message(session, tip, role="assistant", content=_text(chance, 300))
    return kept, used, context.pruned, context.dropped


def _asked(turn: int, chance: random.Random, sizes: tuple[int, int]) -> list[dict[str, Any]]:
    function = {"name": "read_file", "arguments": f'{{"path": "log-{turn}.txt"}}'}
    call = {"id": f"call-{turn}", "type": "function", "function": function}
    return [
        {"role": "user", "content": _text(chance, 200)},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": _text(chance, chance.randint(*sizes))},
    ]


def _text(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=size // 5))[:size]


if __name__ == "__main__":
    sys.exit(main())
