"""How much a model reads and writes in one call: declared, known by its name, or learned from the provider.

A provider that refuses a request for its length says how long it may be. What it says is kept in Django's cache, for
every run and process that asks the same model at the same address, for an hour: the model may be served with another
window then, or what was read was not its window. It is forgotten at once if no request is small enough for it. How
many tokens a summarizer's model makes of one of ours is kept alike, by what it reports of its requests, and whether it
reasons.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Learned:
    """What an endpoint said and did for one model, in its own tokens."""

    #: The window, where it refused a prompt for its length.
    window: int | None = None
    #: The largest prompt that it took, roughly.
    accepted: int = 0


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


def remember(found: Mapping[ModelPlace, Capacity]) -> None:
    """Keep what was learned, by address and model, unless a larger prompt was taken there."""

    def keep() -> None:
        accepted = cache.get_many([_key(*place, "accepted") for place in found])
        values = {
            _key(*place): (capacity.input_tokens, capacity.output_tokens)
            for place, capacity in found.items()
            if capacity.window >= accepted.get(_key(*place, "accepted"), 0)
        }
        cache.set_many(values, REMEMBERED_SECONDS)

    ask_cache("remember_window", keep, None)


def recall_windows(places: Sequence[ModelPlace]) -> dict[ModelPlace, Capacity]:
    """What is remembered of these models, by address and model."""
    return _recalled("window", places, Capacity)


def _recalled(kind: str, places: Sequence[ModelPlace], made_of: Callable[..., Answer]) -> dict[ModelPlace, Answer]:
    keys = {_key(*place, kind): place for place in places}

    def ask() -> dict[ModelPlace, Answer]:
        return {keys[key]: made_of(*value) for key, value in cache.get_many(list(keys)).items()}

    return ask_cache(f"recall_{kind}", ask, {})


def ratio_after(reported: int, size: int, known: float = 1.0) -> float:
    """A model's tokens for one of ours, after a request of ``size`` tokens of which it reported so many.

    It rises at once and falls by half, since conversations in other languages ask the same model: a request that is
    too large costs more than one that could have been larger.
    """
    seen = min(theirs_for_ours(reported, size), _MOST_RATIO)
    return round(max(seen, (known + seen) / 2), 2)


class Habits(NamedTuple):
    """What a summarizer's model does, whatever it is asked."""

    #: Its tokens for one of ours.
    ratio: float = 1.0
    #: Whether each of its replies was as long as its draft, so that nothing was reasoned; None: there was no reply.
    is_plain: bool | None = None


def recall_habits(places: Sequence[ModelPlace]) -> dict[ModelPlace, Habits]:
    return _recalled("habits", places, Habits)


def remember_habits(found: Mapping[ModelPlace, Habits]) -> None:
    values = {_key(*place, "habits"): tuple(habits) for place, habits in found.items()}
    ask_cache("remember_habits", lambda: cache.set_many(values, REMEMBERED_SECONDS), None)


def forget(places: Sequence[ModelPlace]) -> None:
    """Where this fails it is forgotten after an hour."""
    keys = [_key(*place, kind) for place in places for kind in ("window", "habits")]
    ask_cache("forget_window", lambda: cache.delete_many(keys), None)


def learned_of(place: ModelPlace) -> Learned:
    """What is remembered of one chat model."""

    def read() -> Learned:
        said, taken = _key(*place), _key(*place, "accepted")
        found = cache.get_many([said, taken])
        return Learned(sum(found[said]) if said in found else None, int(found.get(taken, 0)))

    return ask_cache("recall_window", read, NOTHING)


def learned_at(endpoint: str | None, model: str) -> tuple[ModelPlace, Learned]:
    """The place of a chat model, by default at the client's own address, and what is remembered of it."""
    place = (endpoint_of() if endpoint is None else endpoint, model)
    return place, learned_of(place)


def remember_window(place: ModelPlace, window: int, learned: Learned) -> None:
    """Keep the window that a chat model's endpoint named; never less than a prompt that it took."""
    window = max(window, learned.accepted)
    output = window // OUTPUT_SHARE
    remember({place: Capacity(window - output, output)})


def remember_accepted(place: ModelPlace, tokens: int, learned: Learned) -> None:
    """Note that a prompt of ``tokens`` was taken: what was learned is not less. Written seldom, as prompts grow."""
    if tokens > learned.accepted * (1 + _ALIKE):
        ask_cache("accept_window", lambda: cache.set(_key(*place, "accepted"), tokens, REMEMBERED_SECONDS), None)
    if learned.window is not None and tokens > learned.window:
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
