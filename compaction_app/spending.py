"""What runs used and cost: every call that was answered, in every attempt, its draft accepted or refused.

``SPENDING_LIMITS`` bounds it, whatever a compaction is asked for by: :func:`find_overspending` is asked before a run is
opened.

A model has the price that ``MODELS`` gives for its exact name: with prefixes, a small model would be billed as a large
one whose name begins the same. Where ``MODELS`` has no price at all it is the maker's list price in US dollars, if
``genai-prices`` has one.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db.models import Case, Count, DecimalField, F, Min, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce

from compaction_app import telemetry
from compaction_app.conf import SPENDING_LIMIT, Price, site_setting
from compaction_app.context.catalog import known_price
from compaction_app.context.windows import ask_cache
from compaction_app.messages.validation import token_count
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.models.database import after_commit, database_of, now_of
from compaction_app.telemetry import log
from compaction_app.values import EXTRACTIVE_MODEL, OPEN_RUN_STATUSES, PERSON, ModelCall, RunStatus

logger = logging.getLogger("compaction_app.spending")

MILLION = 1_000_000
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_PERIODS = {"h": ("hour", _HOUR), "d": ("day", _DAY)}
#: As the column stores it.
_SMALLEST = Decimal("0.00000001")


def find_overspending(session: ChatSession, now: datetime | None = None) -> dict[str, Any] | None:
    """The first of ``SPENDING_LIMITS`` that is reached, in numbers; None if another run may be opened.

    ``seconds``: how long nothing can change. One query for each limit, and one for the time where ``now`` is not given.
    """
    for spender, texts in site_setting("SPENDING_LIMITS").items():
        if spender == "user" and session.owner_id is None:
            continue
        for text in texts:
            limit, unit, letter = cast(re.Match[str], SPENDING_LIMIT.fullmatch(text)).groups()
            name, period = _PERIODS[letter]
            now = now or now_of(session)
            used, seconds = _used(session, spender, unit, now - period, now)
            if used >= int(limit):
                numbers = {"limit": int(limit), "unit": unit, "period": name, "of": spender}
                return {**numbers, "used": used, "seconds": seconds}
    return None


def lock_owner(session: ChatSession) -> None:
    """Where a limit counts over a user's sessions, make this transaction the only one that opens a run for the user.

    Without it, runs of several sessions that are opened at once would each find the limit not yet reached.
    """
    if session.owner_id is not None and site_setting("SPENDING_LIMITS").get("user"):
        owners = get_user_model()._base_manager.using(database_of(session)).filter(pk=session.owner_id)
        # SQLite ignores it: there the session's lock is the lock of the whole database.
        list(owners.select_for_update(no_key=True).values_list("pk"))


def describe_overspending(numbers: Mapping[str, Any]) -> str:
    """A sentence for people."""
    used = f"{numbers['used']:,} {numbers['unit'].removesuffix('s') if numbers['used'] == 1 else numbers['unit']}"
    return (
        f"In the last {numbers['period']} compactions of this {numbers['of']} used {used}; "
        f"SPENDING_LIMITS allows {numbers['limit']:,}."
    )


def _used(session: ChatSession, spender: str, unit: str, since: datetime, now: datetime) -> tuple[int, int]:
    """What was used since then, and the seconds until the oldest part of it is too old to count."""
    runs = _costly(session)
    own = runs.filter(session__owner_id=session.owner_id) if spender == "user" else runs.filter(session=session)
    count = Count("pk") if unit == "runs" else Sum(_TOKENS)
    found = own.filter(created_at__gte=since).aggregate(used=count, first=Min("created_at"))
    deleted = _used_in_deleted(session.owner_id, unit, since, now) if spender == "user" else 0
    first = found["first"] or now
    return (found["used"] or 0) + deleted, max(1, math.ceil((first - since).total_seconds()))


def _costly(session: ChatSession) -> QuerySet[CompactionRun]:
    """All but the runs that were skipped before a model was asked, and those in which a person wrote."""
    runs = CompactionRun.objects.in_database_of(session).exclude(summarizer_model=PERSON)
    return runs.exclude(status=RunStatus.SKIPPED, input_tokens__isnull=True)


#: Of a run. An open one that has reported nothing counts with what it is about to read, or many at once would pass.
_TOKENS = (
    Coalesce(F("input_tokens"), 0)
    + Coalesce(F("output_tokens"), 0)
    + Case(When(status__in=OPEN_RUN_STATUSES, input_tokens__isnull=True, then=Coalesce("tokens_before", 0)), default=0)
)


def keep_used(session: ChatSession) -> None:
    """Before a session is deleted: what its runs used still counts for its owner, or deleting would lift the limits.

    It is added up by the hour, in Django's cache, once the deletion is committed.
    """
    if session.owner_id is None or not site_setting("SPENDING_LIMITS").get("user"):
        return
    used: dict[str, int] = defaultdict(int)
    recent = _costly(session).filter(session=session, created_at__gte=now_of(session) - _DAY)
    for created_at, tokens in recent.annotate(tokens=_TOKENS).values_list("created_at", "tokens"):
        used[_cache_key(session.owner_id, "runs", created_at)] += 1
        used[_cache_key(session.owner_id, "tokens", created_at)] += tokens
    after_commit(session, _add_to_cache, used)


def _add_to_cache(used: Mapping[str, int]) -> None:
    def add() -> None:
        for key, amount in used.items():
            cache.add(key, 0, timeout=2 * _DAY.total_seconds())
            cache.incr(key, amount)

    ask_cache("spending", add, None)


def _used_in_deleted(owner_id: Any, unit: str, since: datetime, until: datetime) -> int:
    """Of the whole hours that the period touches."""
    hours = int((until - since) / _HOUR) + 1
    keys = [_cache_key(owner_id, unit, since + n * _HOUR) for n in range(hours)]
    return sum(ask_cache("spending", lambda: cache.get_many(keys), {}).values())


def _cache_key(owner_id: Any, unit: str, when: datetime) -> str:
    return f"compaction_app.used.{owner_id}.{unit}.{int(when.timestamp() // _HOUR.total_seconds())}"


def cost_of(calls: Sequence[ModelCall], prices: Mapping[str, Price]) -> Decimal | None:
    """The sum over all calls; None if the cost of one is unknown, since a partial sum is not the cost."""
    known = [cost for call in calls if (cost := cost_of_call(call, prices)) is not None]
    return sum(known, Decimal(0)).quantize(_SMALLEST) if len(known) == len(calls) else None


def cost_of_call(call: ModelCall, prices: Mapping[str, Price]) -> Decimal | None:
    """None where the model has no price, or its provider did not report tokens."""
    if call.model in (EXTRACTIVE_MODEL, PERSON):
        return Decimal(0)
    # Beside prices in the host's own currency one in dollars would be wrong.
    price = prices.get(call.model) if prices else known_price(call.model)
    if price is None or not call.input_tokens + call.output_tokens:
        return None
    # Providers count cached tokens among the input tokens.
    cached = min(call.cached_tokens, call.input_tokens)
    return (
        (call.input_tokens - cached) * price.input
        + cached * (price.input if price.cached is None else price.cached)
        + call.output_tokens * price.output
    ) / MILLION


_COUNTS = ("input_tokens", "output_tokens", "cached_tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """What all runs of a session used so far."""

    #: Runs in which a model answered.
    runs: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    #: In the currency of the prices in ``MODELS``; None where no run has a known cost.
    cost: Decimal | None
    #: Runs with an unknown cost, which the cost above does not include.
    unpriced_runs: int


def add_spending(run: CompactionRun, calls: Sequence[ModelCall], prices: Mapping[str, Price]) -> None:
    """Add an attempt's calls to its run, in the row and in the instance.

    Summed by the database, and without checking the claim: a worker that lost the run meanwhile has paid for its calls
    all the same.
    """
    if not calls:
        return
    # A host's summarizer may report anything; a value that is not a number of tokens counts as not reported.
    checked: list[dict[str, Any]] = [{name: token_count(getattr(one, name)) or 0 for name in _COUNTS} for one in calls]
    calls = [replace(call, **numbers) for call, numbers in zip(calls, checked, strict=True)]
    for call in calls:
        if cost_of_call(call, prices) is None:
            reason = "not_in_prices" if call.input_tokens + call.output_tokens else "no_usage_reported"
            name = call.model or "(none)"
            log(logger, logging.INFO, "unpriced", once_for=name, model=name, reason=reason)
    row = CompactionRun.objects.in_database_of(run).filter(pk=run.pk)
    sums = {name: Coalesce(F(name), 0) + sum(getattr(call, name) for call in calls) for name in _COUNTS}
    row.update(**sums, cost=_sum_of_costs(cost_of(calls, prices)))
    # Nothing, where the run was deleted with its session.
    vars(run).update(row.values(*_COUNTS, "cost").first() or {})
    telemetry.count_tokens(run, calls)


def _sum_of_costs(cost: Decimal | None) -> Any:
    """The cost so far plus the new cost; once a part is unknown the sum stays unknown."""
    field: DecimalField[Any, Any] = DecimalField(max_digits=14, decimal_places=8)
    unknown = Value(None, output_field=field)
    if cost is None:
        return unknown
    known = Coalesce(F("cost"), Value(Decimal(0)), output_field=field) + Value(cost, output_field=field)
    return Case(When(cost__isnull=True, input_tokens__isnull=False, then=unknown), default=known, output_field=field)


def session_spending(session: ChatSession) -> Spending:
    """The sum over a session's runs, failed ones too; one query."""
    runs = CompactionRun.objects.in_database_of(session).filter(session=session, input_tokens__isnull=False)
    # The count first: once there is a sum with the name of a column, a filter would mean the sum.
    unpriced = Count("pk", filter=Q(cost__isnull=True))
    sums = {name: Coalesce(Sum(name), 0) for name in _COUNTS}
    return Spending(**runs.aggregate(unpriced_runs=unpriced, runs=Count("pk"), **sums, cost=Sum("cost")))
