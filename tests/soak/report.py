"""The table at the end of a run."""

from collections.abc import Mapping
from typing import Any


def failed(result: Mapping[str, Any]) -> bool:
    is_violated = any(violated for _, violated in result["invariants"].values())
    return result["rest_seconds"] is None or not result["verified"] or is_violated


def table(result: Mapping[str, Any]) -> str:
    operations = sum(result["operations"].values())
    rest = result["rest_seconds"]
    rate = operations / result["seconds"]
    lines = [f"seed {result['seed']}: {operations:,} operations in {result['seconds']:g} s ({rate:.0f} a second)", ""]
    for title, name in (
        ("operations", "operations"),
        ("errors that clients met", "errors"),
        ("faults injected", "faults"),
        ("the model's answers", "model"),
        ("runs", "runs"),
        ("rows in the end", "rows"),
    ):
        lines += [title, *(f"  {kind:<44} {n:>9,}" for kind, n in sorted(result[name].items())), ""]
    lines += [
        f"operations of unknown outcome: {result['unknown']:,}",
        f"runs of more than one attempt: {result['taken_up_again']:,}",
        f"claims that a worker found lost: {result['lost_claims']:,}",
        f"at rest after {rest:g} s" if rest is not None else "NOT at rest: something is stuck",
        "every tree agrees with itself" if result["verified"] else "NOT every tree agrees with itself: verify_chats",
        "",
        f"{'invariant':<46} {'checked':>9} {'violated':>9}",
    ]
    lines += [f"{name:<46} {n:>9,} {bad:>9,}" for name, (n, bad) in result["invariants"].items()]
    lines += [f"VIOLATED {example}" for example in result["examples"]]
    lines.append("FAILED" if failed(result) else "nothing lost, doubled, changed, leaked or stuck")
    return "\n".join(lines)
