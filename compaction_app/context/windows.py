"""How much a model reads and writes in one call: declared, known by its name, or learned from the provider.

A provider that refuses a request for its length says how long it may be. What it says is kept in Django's cache, for
every run and process that asks the same model at the same address, for an hour: the model may be served with another
window then, or what was read was not its window. It is forgotten at once if no request is small enough for it. How
many tokens a summarizer's model makes of one of ours is kept alike, by what it reports of its requests, and whether it
reasons.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from django.core.cache import cache

from compaction_app.context.overflow import OUTPUT_SHARE, theirs_for_ours
from compaction_app.telemetry import log_error
from compaction_app.values import Capacity

logger = logging.getLogger("compaction_app.budget")

Answer = TypeVar("Answer")

#: Where the client asks that is given no address.
OPENAI_URL = "https://api.openai.com/v1"
REMEMBERED_SECONDS = 60 * 60
#: What is remembered of a place: each under a key of its own, since it is written by others.
_KINDS = ("window", "accepted", "habits")
#: What a client adds to its address.
_OPERATIONS = ("/chat/completions", "/completions", "/responses")
#: A prompt that is larger than the largest by less than this share is not noted.
_ALIKE = 0.1
#: Of a model's tokens for one of ours.
_MOST_RATIO = 4.0
#: A cache that failed after this many seconds, not at once, is left alone for a minute.
_SLOW_SECONDS, _AWAY_SECONDS = 1.0, 60.0


#: Where a model is asked, and its name.
ModelPlace = tuple[str, str]


class Habits(NamedTuple):
    """What a summarizer's model does, whatever it is asked."""

    #: Its tokens for one of ours.
    ratio: float = 1.0
    #: Whether each of its replies was as long as its draft, so that nothing was reasoned; None: there was no reply.
    is_plain: bool | None = None


class Learned(NamedTuple):
    """What an endpoint said and did for one model."""

    #: The window in its own tokens, and what it takes and writes of it, where it refused a prompt for its length.
    window: int | None = None
    capacity: Capacity | None = None
    #: The largest prompt of a chat that it took, roughly.
    accepted: int = 0
    habits: Habits = Habits()


NOTHING = Learned()


def endpoint_of(url: str = "") -> str:
    """An address as a place is known by: without query, password and the last slash; by default the client's own."""
    try:
        parts = urlsplit(url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}" if host else ""


def endpoint_of_request(url: str) -> str:
    """The address of the client that sent a request to this one."""
    endpoint = endpoint_of(url)
    return next((endpoint.removesuffix(end) for end in _OPERATIONS if endpoint.endswith(end)), endpoint)


def name_of(place: ModelPlace) -> str:
    """By which a session keeps how a model counts: its name, with the address where that is not the default one."""
    url, model = place
    return model if url in ("", endpoint_of()) else f"{model} at {url}"


def _key(url: str, model: str, kind: str = "window") -> str:
    # A client without an address has not asked the default one.
    place = f"{url and endpoint_of(url)}\0{model}"
    return f"compaction_app.{kind}." + hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()


def learned_of(places: Sequence[ModelPlace]) -> dict[ModelPlace, Learned]:
    """What is remembered of these models, by address and model."""

    def read() -> dict[ModelPlace, Learned]:
        found = cache.get_many([_key(*place, kind) for place in places for kind in _KINDS])
        learned = {}
        for place in places:
            said, accepted, habits = (found.get(_key(*place, kind)) for kind in _KINDS)
            learned[place] = Learned(
                window=said and sum(said),
                capacity=said and Capacity(*said),
                accepted=accepted or 0,
                habits=Habits(*(habits or ())),
            )
        return learned

    return ask_cache("recall_window", read, dict.fromkeys(places, NOTHING))


def learned_at(endpoint: str | None, model: str) -> tuple[ModelPlace, Learned]:
    """The place of a chat model, by default at the client's own address, and what is remembered of it."""
    place = (endpoint_of() if endpoint is None else endpoint, model)
    return place, learned_of([place])[place]


def remember(capacities: Mapping[ModelPlace, Capacity], habits: Mapping[ModelPlace, Habits] | None = None) -> None:
    """Keep what was learned, by address and model; no capacity where a larger prompt was taken."""

    def keep() -> None:
        accepted = cache.get_many([_key(*place, "accepted") for place in capacities])
        said = {
            _key(*place): (capacity.input_tokens, capacity.output_tokens)
            for place, capacity in capacities.items()
            if capacity.window >= accepted.get(_key(*place, "accepted"), 0)
        }
        seen = {_key(*place, "habits"): tuple(one) for place, one in (habits or {}).items()}
        cache.set_many({**said, **seen}, REMEMBERED_SECONDS)

    if capacities or habits:
        ask_cache("remember_window", keep, None)


def ratio_after(reported: int, size: int, known: float = 1.0) -> float:
    """A model's tokens for one of ours, after a request of ``size`` tokens of which it reported so many.

    It rises at once and falls by half, since conversations in other languages ask the same model: a request that is
    too large costs more than one that could have been larger.
    """
    seen = min(theirs_for_ours(reported, size), _MOST_RATIO)
    return round(max(seen, (known + seen) / 2), 2)


def forget(places: Sequence[ModelPlace]) -> None:
    """Where this fails it is forgotten after an hour."""
    keys = [_key(*place, kind) for place in places for kind in ("window", "habits")]
    ask_cache("forget_window", lambda: cache.delete_many(keys), None)


def remember_window(place: ModelPlace, window: int, learned: Learned) -> None:
    """Keep the window that a chat model's endpoint named; never less than a prompt that it took."""
    window = max(window, learned.accepted)
    output = window // OUTPUT_SHARE
    remember({place: Capacity(window - output, output)})


def remember_accepted(place: ModelPlace, tokens: int, learned: Learned, window: int | None = None) -> None:
    """Note that a prompt of ``tokens`` was taken: the ``window``, or what was learned, is not less. Written seldom, as
    prompts grow.
    """
    if tokens > learned.accepted * (1 + _ALIKE):
        ask_cache("accept_window", lambda: cache.set(_key(*place, "accepted"), tokens, REMEMBERED_SECONDS), None)
    if tokens > (window or learned.window or tokens):
        forget([place])


_away_until = 0.0


def ask_cache(step: str, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Ask Django's cache. One that is away costs a refused call, and nothing waits for it twice within a minute."""
    global _away_until  # noqa: PLW0603  # one cache a process
    started = time.monotonic()
    if started < _away_until:
        return otherwise
    try:
        return ask()
    except Exception as error:
        # Whatever a cache client raises: the turn or the run goes on.
        log_error(logger, error, step=step)
        if time.monotonic() - started > _SLOW_SECONDS:
            _away_until = time.monotonic() + _AWAY_SECONDS
        return otherwise
