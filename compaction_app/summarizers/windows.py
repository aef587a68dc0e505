"""How much a model reads and writes in one call: declared, known by its name, or learned from the provider.

A provider that refuses a request for its length says how long it may be. What it says is kept in Django's cache, for
every run and process that asks the same model at the same address, for an hour: the model may be served with another
window then, or what was read was not its window. It is forgotten at once if no request is small enough for it.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache

from compaction_app.telemetry import log_error
from compaction_app.values import Capacity, SummaryDraft

logger = logging.getLogger("compaction_app.summarizers")

REMEMBERED_SECONDS = 60 * 60
#: Of a window, a quarter is for the reply, as for ``RESERVED_TOKENS``.
OUTPUT_SHARE = 4
#: A smaller window than this is a misread number: the instructions alone take a thousand tokens.
_SMALLEST_WINDOW = 1_000
#: Two shares of requests are the same if they differ by less than this share. The second request is smaller by more.
_ALIKE = 0.1
#: No server's default window is smaller. Below it a count that is too low is a proxy's, and nothing was cut.
_SMALLEST_CUT = 4_096

# OpenAI and Azure: "maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens";
# "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens".
# vLLM: "maximum context length is 8192 tokens. However, you requested 26000 tokens (6000 in the messages, 20000 in the
# completion)"; "… and your request has 6000 input tokens"; "You passed 6000 input tokens and requested 20000 output
# tokens. However, the model's context length is only 8192 tokens".
# llama.cpp and Ollama: "request (9000 tokens) exceeds the available context size (8192 tokens)".
# Anthropic: "prompt is too long: 9000 tokens > 8192 maximum"; "exceed context limit: 6000 + 20000 > 8192".
# Gemini: "input token count (9000) exceeds the maximum number of tokens allowed (8192)".
# Mistral: "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum context length".
# TGI: "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6000 `inputs` tokens and 20000 `max_new_tokens`".
_WINDOW = re.compile(
    r"context[ _](?:length|size|window)(?: is| of)?(?: only)?:? \(?(\d+)|limit of (\d+)|> (\d+)|<= (\d+)"
    r"|tokens allowed \((\d+)|(\d+) maximum context",
    re.IGNORECASE,
)
_SENT = re.compile(
    r"\((\d+) (?:in the messages|of text input)|(?:has|passed) (\d+) input tokens|resulted in (\d+) tokens"
    r"|request \((\d+) tokens|too long: (\d+) tokens|: (\d+) \+ \d+ >|token count \((\d+)|contains (\d+) tokens"
    r"|given: (\d+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """What a provider says of a request that is too long, in its own tokens; None where it does not say."""

    window: int | None = None
    #: Tokens of the request, without the reply.
    sent: int | None = None


def read_overflow(message: str, fields: Mapping[str, Any]) -> Overflow:
    """From an error's message, and from the fields ``n_ctx`` and ``n_prompt_tokens`` of llama.cpp."""
    window = _whole(fields.get("n_ctx")) or _first(_WINDOW, message)
    sent = _whole(fields.get("n_prompt_tokens")) or _first(_SENT, message)
    return Overflow(window if window and window >= _SMALLEST_WINDOW else None, sent)


def read_usage(
    draft: SummaryDraft, size: int, usual_share: float | None = None, limits: Sequence[int] = ()
) -> Overflow | None:
    """The overflow of a server that cut the request in silence, as Ollama does, and summarized the rest.

    ``size`` is the request's by our count, 0 where it is unknown; ``limits`` are those that the server may have. Few
    tokenizers make half as many tokens as another: ``usual_share`` is what the server said it had read of a larger
    request. A server that counts that way reads the same share of every request; one that cuts reads the same number
    of tokens.
    """
    # A prompt that is exactly as large as the server's context was cut there. Contexts are multiples of 1,024.
    exact = draft.input_tokens
    if exact >= _SMALLEST_WINDOW and (exact in limits or (exact % 1024 == 0 and size > exact)):
        return Overflow(window=exact, sent=exact)
    # Some providers count the tokens that they read from a cache apart.
    read = draft.input_tokens + draft.cached_tokens
    if size < _SMALLEST_CUT or not _SMALLEST_WINDOW < 2 * read < size:
        return None
    if usual_share and abs(read / size - usual_share) < _ALIKE * usual_share:
        return None
    return Overflow(window=read + read // (OUTPUT_SHARE - 1), sent=read)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _first(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return next(int(number[:12]) for number in found.groups() if number) if found else None


def smaller(first: Capacity, second: Capacity) -> Capacity:
    return Capacity(
        min(first.input_tokens, second.input_tokens),
        min(first.output_tokens, second.output_tokens),
    )


def less_than(size: int, capacity: Capacity) -> Capacity:
    """The capacity, for a request that is smaller by a tenth at least than one of ``size`` tokens.

    A provider that names a slightly smaller window each time would otherwise be asked for each message.
    """
    return Capacity(min(capacity.input_tokens, size * 9 // 10), capacity.output_tokens)


def halved(size: int, capacity: Capacity | None = None) -> Capacity:
    """After a refused request of ``size`` tokens, where nothing is known but that this was too much."""
    most = max(1, size // 2)
    found = Capacity(most, max(1, most // (OUTPUT_SHARE - 1)))
    return smaller(found, capacity) if capacity else found


def narrowed(capacity: Capacity, overflow: Overflow, size: int) -> Capacity:
    """The capacity after a refused request of ``size`` tokens, by our count: never more than it was.

    A provider may count more tokens than we do, for the same text; the limit is in ours.
    """
    if overflow.window is None:
        return halved(size, capacity)
    output = min(capacity.output_tokens, overflow.window // OUTPUT_SHARE)
    ratio = max(1.0, (overflow.sent or 0) / size)
    return smaller(capacity, Capacity(int((overflow.window - output) / ratio), output))


# -- what is remembered -------------------------------------------------------------------------------------


def _key(url: str, model: str) -> str:
    return "compaction_app.window." + hashlib.sha256(f"{url}\0{model}".encode("utf-8", "surrogatepass")).hexdigest()


def remember(found: Mapping[tuple[str, str], Capacity]) -> None:
    """Keep what was learned, by address and model."""
    values = {_key(*place): (capacity.input_tokens, capacity.output_tokens) for place, capacity in found.items()}
    try:
        cache.set_many(values, REMEMBERED_SECONDS)
    except Exception as error:
        # A cache that is away costs one refused call more; the compaction goes on.
        log_error(logger, error, step="remember_window")


def recall(places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Capacity]:
    """What is remembered of these models, by address and model."""
    keys = {_key(*place): place for place in places}
    try:
        return {keys[key]: Capacity(*value) for key, value in cache.get_many(list(keys)).items()}
    except Exception as error:
        log_error(logger, error, step="recall_window")
        return {}


def forget(places: Sequence[tuple[str, str]]) -> None:
    try:
        cache.delete_many([_key(*place) for place in places])
    except Exception as error:
        # It is forgotten after an hour.
        log_error(logger, error, step="forget_window")
