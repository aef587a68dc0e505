"""What calls of a model cost, by the host's ``PRICES``: per million tokens, in whatever currency they are given.

``PRICES = {"gpt-5.4-nano": {"input": 0.2, "cached": 0.02, "output": 1.25}}``. A model goes by the exact name that
it is asked under: with prefixes a small model would be billed at the price of a large one whose name begins alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from compaction_app.values import EXTRACTIVE_MODEL, ModelCall

MILLION = 1_000_000
#: As the column stores it.
_SMALLEST = Decimal("0.00000001")


def cost_of(calls: Sequence[ModelCall], prices: Mapping[str, Any]) -> Decimal | None:
    """The sum over all calls; None if the cost of one is not known, for a part of a sum is no cost."""
    costs = [cost_of_call(call, prices) for call in calls]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)).quantize(_SMALLEST) if len(known) == len(costs) else None


def cost_of_call(call: ModelCall, prices: Mapping[str, Any]) -> Decimal | None:
    """None where the model has no price, or its provider did not say how many tokens it used."""
    if call.model == EXTRACTIVE_MODEL:
        return Decimal(0)
    price = prices.get(call.model)
    if price is None or not call.input_tokens + call.output_tokens:
        return None
    # Providers count cached tokens among the input tokens.
    cached = min(call.cached_tokens, call.input_tokens)
    return (
        (call.input_tokens - cached) * _exact(price["input"])
        + cached * _exact(price.get("cached", price["input"]))
        + call.output_tokens * _exact(price["output"])
    ) / MILLION


def _exact(number: float | Decimal) -> Decimal:
    # By its text: 0.1 is meant as a tenth, not as the nearest binary fraction.
    return Decimal(str(number))
