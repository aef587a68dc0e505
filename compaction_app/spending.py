"""What runs used and cost: every call that was answered, in every attempt, its draft accepted or refused.

``PRICES = {"gpt-5.4-nano": {"input": 0.2, "cached": 0.02, "output": 1.25}}``, per million tokens, in the host's own
currency. A model has the price of its exact name: with prefixes, a small model would be billed as a large one whose
name begins the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from django.db.models import Case, Count, DecimalField, F, Q, Sum, Value, When
from django.db.models.functions import Coalesce

from compaction_app import telemetry
from compaction_app.messages.validation import token_count
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.telemetry import log
from compaction_app.tree.branches import database_of
from compaction_app.values import EXTRACTIVE_MODEL, ModelCall

logger = logging.getLogger("compaction_app.spending")

MILLION = 1_000_000
#: As the column stores it.
_SMALLEST = Decimal("0.00000001")


def cost_of(calls: Sequence[ModelCall], prices: Mapping[str, Any]) -> Decimal | None:
    """The sum over all calls; None if the cost of one is unknown, since a partial sum is not the cost."""
    costs = [cost_of_call(call, prices) for call in calls]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)).quantize(_SMALLEST) if len(known) == len(costs) else None


def cost_of_call(call: ModelCall, prices: Mapping[str, Any]) -> Decimal | None:
    """None where the model has no price, or its provider did not report tokens."""
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
    # From its text: 0.1 means a tenth, not the nearest binary fraction.
    return Decimal(str(number))


SPENDING_FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "cost")

# Models that were already logged as unpriced: one line per model and process, not one per run.
_logged_models: set[str] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """What all runs of a session used so far."""

    #: Runs in which a model answered.
    runs: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    #: In the currency of ``PRICES``; None where no run has a known cost.
    cost: Decimal | None
    #: Runs with an unknown cost, which the cost above does not include.
    unpriced_runs: int


def add_spending(run: CompactionRun, calls: Sequence[ModelCall], prices: Mapping[str, Any]) -> None:
    """Add an attempt's calls to its run, in the row and in the instance.

    Summed by the database, and without checking the claim: a worker that lost the run meanwhile has paid for its calls
    all the same.
    """
    if not calls:
        return
    calls = [_checked(call) for call in calls]
    _log_unpriced(calls, prices)
    row = CompactionRun.objects.using(database_of(run)).filter(pk=run.pk)
    row.update(
        input_tokens=Coalesce(F("input_tokens"), 0) + sum(call.input_tokens for call in calls),
        output_tokens=Coalesce(F("output_tokens"), 0) + sum(call.output_tokens for call in calls),
        cached_tokens=Coalesce(F("cached_tokens"), 0) + sum(call.cached_tokens for call in calls),
        cost=_sum_of_costs(cost_of(calls, prices)),
    )
    for values in row.values(*SPENDING_FIELDS):
        for name, value in values.items():
            setattr(run, name, value)
    telemetry.count_tokens(run, calls)


def _sum_of_costs(cost: Decimal | None) -> Any:
    """The cost so far plus the new cost; once a part is unknown the sum stays unknown."""
    field: DecimalField[Any, Any] = DecimalField(max_digits=14, decimal_places=8)
    nothing = Value(None, output_field=field)
    if cost is None:
        return nothing
    unknown_before = When(cost__isnull=True, input_tokens__isnull=False, then=nothing)
    known = Coalesce(F("cost"), Value(Decimal(0)), output_field=field) + Value(cost, output_field=field)
    return Case(unknown_before, default=known, output_field=field)


def session_spending(session: ChatSession) -> Spending:
    """The sum over a session's runs, failed ones too; one query."""
    runs = CompactionRun.objects.using(database_of(session)).filter(session=session, input_tokens__isnull=False)
    # The count first: once there is a sum with the name of a column, a filter would mean the sum.
    sums = runs.aggregate(
        unpriced_runs=Count("pk", filter=Q(cost__isnull=True)),
        runs=Count("pk"),
        input_tokens=Coalesce(Sum("input_tokens"), 0),
        output_tokens=Coalesce(Sum("output_tokens"), 0),
        cached_tokens=Coalesce(Sum("cached_tokens"), 0),
        cost=Sum("cost"),
    )
    return Spending(**sums)


def _checked(call: ModelCall) -> ModelCall:
    """A host's summarizer may report anything; a value that is not a number of tokens counts as not reported."""
    return replace(
        call,
        input_tokens=token_count(call.input_tokens) or 0,
        output_tokens=token_count(call.output_tokens) or 0,
        cached_tokens=token_count(call.cached_tokens) or 0,
    )


def _log_unpriced(calls: Sequence[ModelCall], prices: Mapping[str, Any]) -> None:
    for call in calls:
        if cost_of_call(call, prices) is None and call.model not in _logged_models:
            _logged_models.add(call.model)
            reason = "no_usage_reported" if call.model in prices else "not_in_prices"
            log(logger, logging.INFO, "unpriced", model=call.model or "(none)", reason=reason)
