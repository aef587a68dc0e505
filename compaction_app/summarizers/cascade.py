"""The two summarizers, and how any summarizer is asked.

A summarizer is a class with ``max_input_tokens`` (None: no limit) and ``summarize(request) -> SummaryDraft``; a host
names its own in ``SUMMARIZER``. :func:`ask_summarizer` asks any of them: ``accept`` judges each draft, a draft that is
too long is requested once more with a smaller target, and a failure raises :class:`SummarizerError`.

Which model is asked next is decided by coroutines: see :mod:`waiting`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import inspect
import logging
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from compaction_app.conf import Settings, load
from compaction_app.context import windows
from compaction_app.exceptions import ConfigurationError, SummarizerError
from compaction_app.retention.extractive import extractive_draft
from compaction_app.summarizers.error_text import is_error_text
from compaction_app.summarizers.mending import mended
from compaction_app.summarizers.openai import (
    Answer,
    Clients,
    Failure,
    ModelEntry,
    call_model,
    chat_model_entries,
    model_entries,
)
from compaction_app.summarizers.prompts import CHARACTERS_A_TOKEN, count_request, tighter, wrong_draft
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.values import Capacity, ErrorCode, EventKind, ModelCall, SummaryDraft, SummaryRequest

logger = logging.getLogger("compaction_app.summarizers")

#: Returns why a draft cannot become a summary, or None if it can.
Accept = Callable[[SummaryDraft], ErrorCode | None]
#: Called with events while a summarizer works. May run in an event loop, so it only collects and does no I/O.
OnEvent = Callable[[EventKind, dict[str, Any]], None]
#: Asks one model, or a host's summarizer, once.
_Ask = Callable[[SummaryRequest], Awaitable[Answer]]
#: Codes of an answer that was refused; the others mean that there was no answer.
_DRAFT_CODES = frozenset(
    "empty too_short truncated refused tool_call invalid_text leaked_wrapper oversize no_progress error_text".split()
)
#: Its locks cannot be shared with a real thread, which a model's call needs (see :func:`replaced_threads`).
NO_EVENTLET = "eventlet has replaced Python's threads: asking a model would stop the database work of other greenlets."
USE_GEVENT = "Use Celery's prefork pool, or gevent (-P gevent)."
#: With less time than this no model is asked.
_LEAST_SECONDS = 0.1


def _unlimited() -> float:
    return math.inf


@dataclass(slots=True)
class _Attempt:
    """One request to one summarizer: what judges its drafts, the failures so far, and the calls that were paid for."""

    request: SummaryRequest
    accept: Accept | None
    on_event: OnEvent | None
    #: Seconds until nobody waits for a draft any more.
    time_left: Callable[[], float] = _unlimited
    failures: list[Failure] = field(default_factory=list)
    #: Calls that were answered, in order: each is paid for, even if its draft is refused.
    calls: list[ModelCall] = field(default_factory=list)
    #: What each model takes for which the request was too large.
    too_small: list[Capacity] = field(default_factory=list)

    async def request_draft(
        self, ask: _Ask, model: str, size: int = 0, usual_share: float | None = None, limits: Sequence[int] = ()
    ) -> SummaryDraft | None:
        """An accepted draft of one model, which is asked once more if its draft is too long or tells nothing.

        None if no draft was accepted; the reasons are then in ``failures``. ``size``: tokens of the request, where
        known. ``usual_share`` and ``limits``: see :func:`windows.read_usage`.
        """
        request = self.request
        for is_last in (False, True):
            if self.time_left() < _LEAST_SECONDS:
                raise self._out_of_time()
            answer = await ask(request)
            if isinstance(answer, Failure):
                self.fail(answer)
                return None
            self.calls += answer.paid_calls
            is_far_too_long = len(answer.text) > CHARACTERS_A_TOKEN * request.max_output_tokens
            answer = answer if is_far_too_long else mended(answer)
            if overflow := windows.read_usage(answer, size, usual_share, limits):
                detail = f"read {overflow.sent} of {size} tokens"
                self.fail(Failure(model=model, code=ErrorCode.INPUT_TOO_LARGE, detail=detail, overflow=overflow))
                return None
            code = ErrorCode.OVERSIZE if is_far_too_long else self._judge(answer, model)
            if code is None:
                numbers = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
                log(logger, logging.INFO, "done", model=model, **numbers, characters=len(answer.text))
                return replace(answer, tightened=request is not self.request, calls=tuple(self.calls))
            self.fail(Failure(model=model, code=code, detail=f"{len(answer.text)} characters"))
            if is_last or code not in (ErrorCode.OVERSIZE, ErrorCode.ERROR_TEXT) or is_error_text(answer.text):
                return None
            if code == ErrorCode.ERROR_TEXT:
                # A second answer of the same model may be a summary.
                continue
            request = tighter(self.request)
            if self.on_event:
                figures = {"target_tokens": self.request.target_tokens, "output_tokens": answer.output_tokens}
                self.on_event(EventKind.SUMMARY_OVERSIZE, {"model": model, "characters": len(answer.text), **figures})
        return None

    def fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        values = {"model": failure.model, "code": failure.code, "transient": failure.transient}
        log(logger, logging.WARNING, "failed", **values)

    def report(self, failures: Sequence[Failure]) -> None:
        """An event for each model that failed before another one's draft; a failed run names them in its error."""
        for model, code in dict.fromkeys((failure.model, failure.code) for failure in failures):
            if self.on_event:
                self.on_event(EventKind.MODEL_FAILED, {"model": model, "code": code})

    def error(self) -> SummarizerError:
        """The error of all failures. It is transient if one of them was: that model may still answer."""
        if self.time_left() < _LEAST_SECONDS:
            return self._out_of_time()
        if not self.failures:
            return SummarizerError(
                "No model is configured: SUMMARIZER_MODELS is empty, and SUMMARIZER_CHAT_MODELS lists no other.",
                error_code=ErrorCode.BAD_REQUEST,
            )
        # The second answer of a model that was asked twice replaces its first.
        last = {failure.model: failure for failure in self.failures}
        telling = min(last.values(), key=_rank)
        waits = [failure.retry_after for failure in self.failures if failure.retry_after is not None]
        return SummarizerError(
            "; ".join(f"{f.model}: {f.code}" + (f" ({f.detail})" if f.detail else "") for f in self.failures),
            error_code=telling.code,
            transient=telling.transient,
            retry_after=max(waits, default=None),
            model=telling.model,
            capacity=max(self.too_small, key=lambda capacity: capacity.input_tokens, default=None),
        )

    def _out_of_time(self) -> SummarizerError:
        asked = "; ".join(f"{failure.model}: {failure.code}" for failure in self.failures)
        return SummarizerError(f"No time is left to ask a model. {asked}".rstrip(), error_code=ErrorCode.TIME_LIMIT)

    def _judge(self, draft: SummaryDraft, model: str) -> ErrorCode | None:
        """The answer of ``accept``. It counts with a host's counter; if that raises, the attempt ends."""
        try:
            return self.accept(draft) if self.accept else None
        except Exception as error:
            raise _error_of(error, model, "wrote a draft whose check raised") from error


@contextmanager
def _errors_of(name: str, calls: Sequence[ModelCall] = ()) -> Iterator[None]:
    """Raise whatever a summarizer raises as a :class:`SummarizerError`, with the calls that were made before."""
    try:
        yield
    except SummarizerError as error:
        error.calls = (*calls, *error.calls)
        raise
    except Exception as error:
        raise _error_of(error, name, "raised", calls) from error


def _error_of(error: Exception, name: str, did: str, calls: Sequence[ModelCall] = ()) -> SummarizerError:
    """The type is recorded and the frames are logged; the error's text may quote the conversation."""
    log_error(logger, error, summarizer=name)
    timed_out = isinstance(error, TimeoutError)
    code = ErrorCode.TIMEOUT if timed_out else ErrorCode.PROVIDER_ERROR
    if isinstance(error, SoftTimeLimitExceeded):
        # Of the task, not of a call: it raises in whatever code is at work.
        code = ErrorCode.TIME_LIMIT
    return SummarizerError(
        f"{name} {did} {type(error).__name__}",
        error_code=code,
        transient=timed_out or isinstance(error, ConnectionError),
        model=name,
        calls=tuple(calls),
    )


def _rank(failure: Failure) -> int:
    """The most useful failure first: waiting may help, then a refused draft, then no answer."""
    if failure.transient:
        return 0
    return 1 if failure.code in _DRAFT_CODES else 2


class ExtractiveSummarizer:
    """Quotes the most telling sentences. Deterministic, without network: the same request gives the same bytes."""

    max_input_tokens: int | None = None
    #: It quotes messages, never reasoning.
    reads_reasoning = False

    def __init__(self, settings: Settings) -> None:
        self._count: Count = load(settings.token_counter)()

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return extractive_draft(request, self._count)


class OpenAISummarizer:
    """A cascade of models behind any OpenAI-compatible endpoint.

    Each model is asked once, plus one tighter retry of a draft that was too long; after a failure or a refused draft
    the next model is asked. ``clients`` makes the client of an entry, a new one for every call, which is closed
    afterwards: the place for a host's proxies and certificates.
    """

    def __init__(self, settings: Settings, *, session_model: str = "", clients: Clients | None = None) -> None:
        if replaced_threads() == "eventlet":
            raise ConfigurationError(f"{NO_EVENTLET} {USE_GEVENT}")
        entries = model_entries(settings, session_model)
        # The cache may be a database, which an event loop must not wait for.
        known = {} if _is_loop_running() else windows.recall([entry.place for entry in entries])
        #: In the order in which they are asked. An entry is replaced when its provider says how small its window is.
        self.entries = tuple(entry.limited_to(known.get(entry.place)) for entry in entries)
        #: What providers said of their windows, by address and model, for :meth:`remember`.
        self.learned: dict[tuple[str, str], Capacity] = {}
        #: By the same: the share of a request that a provider said it had read.
        self._shares: dict[tuple[str, str], float] = {}
        self._clients = clients
        #: Seconds that its run has left, set by whoever carries it out.
        self.time_left: Callable[[], float] = _unlimited
        self._count: Count = load(settings.token_counter)()

    @property
    def max_input_tokens(self) -> int | None:
        """What to plan for: the first model's limit. A later model that is too small for a request is skipped."""
        return self.entries[0].max_input_tokens if self.entries else None

    @property
    def max_output_tokens(self) -> int | None:
        return self.entries[0].max_output_tokens if self.entries else None

    def remember(self) -> None:
        """Keep what was learned for the next runs. Not in an event loop: the cache may be a database."""
        if self.learned:
            windows.remember(self.learned)

    def forget(self) -> None:
        """Forget what is remembered of these models, with which no request was small enough. As :meth:`remember`."""
        windows.forget([entry.place for entry in self.entries])

    def summarize(
        self, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
    ) -> SummaryDraft:
        return without_waiting(self._cascade(request, accept, on_event, BLOCKING))

    async def asummarize(
        self, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
    ) -> SummaryDraft:
        return await self._cascade(request, accept, on_event, AWAITED)

    async def _cascade(
        self, request: SummaryRequest, accept: Accept | None, on_event: OnEvent | None, way: Way
    ) -> SummaryDraft:
        attempt = _Attempt(request, accept, on_event, time_left=self.time_left)
        with _errors_of(type(self).__name__, attempt.calls):
            size = count_request(request, self._count)
            for entry in self.entries:
                before = len(attempt.failures)
                if draft := await self._draft_of(entry, attempt, size, way):
                    attempt.report(attempt.failures[:before])
                    return draft
            raise attempt.error()

    async def _draft_of(self, entry: ModelEntry, attempt: _Attempt, size: int, way: Way) -> SummaryDraft | None:
        """Ask one model, and once more with a shorter reply where its window leaves no room for a longer one."""
        if size > entry.max_input_tokens:
            detail = f"{size} tokens, takes {entry.max_input_tokens}"
            attempt.fail(Failure(model=entry.model, code=ErrorCode.INPUT_TOO_LARGE, detail=detail))
        for _ in range(2):
            if size > entry.max_input_tokens:
                break
            ask = partial(self._ask, entry, way)
            limits = (entry.max_input_tokens, entry.max_input_tokens + entry.max_output_tokens)
            draft = await attempt.request_draft(ask, entry.model, size, self._shares.get(entry.place), limits)
            overflow = attempt.failures[-1].overflow if draft is None else None
            if overflow is None:
                if draft and windows.read_usage(draft, size):
                    # It counts fewer tokens, and nothing was cut.
                    self.learned.pop(entry.place, None)
                return draft
            self._shares[entry.place] = (overflow.sent or 0) / size
            entry = self._narrow(entry, windows.narrowed(entry.capacity, overflow, size), learn=not overflow.is_rate)
        else:
            # It refused what its own numbers allow: less still.
            entry = self._narrow(entry, windows.halved(size))
        attempt.too_small.append(entry.capacity)
        return None

    async def _ask(self, entry: ModelEntry, way: Way, request: SummaryRequest) -> Answer:
        limited = replace(entry, timeout=min(entry.timeout, self.time_left()))
        call = call_model(limited, request, self._clients)
        return await call if way.is_awaited else _run(call)

    def _narrow(self, entry: ModelEntry, capacity: Capacity, *, learn: bool = True) -> ModelEntry:
        narrowed = entry.limited_to(capacity)
        self.entries = tuple(narrowed if one is entry else one for one in self.entries)
        if learn:
            self.learned[entry.place] = narrowed.capacity
        return narrowed


def make_summarizer(settings: Settings, session_model: str = "") -> Any:
    """An instance of the class in ``SUMMARIZER``, given ``settings`` and ``session_model`` if it accepts them."""
    if (name := settings.summarizer_name) is not None and name not in settings.summarizers:
        # Not the site's own instead: a session may have chosen where its conversation is sent.
        raise ConfigurationError(f"SUMMARIZERS has no {name!r}, which this session has chosen.")
    make = load(settings.summarizer)
    parameters = inspect.signature(make).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    offered = {"settings": settings, "session_model": session_model}
    return make(**{name: value for name, value in offered.items() if takes_any or name in parameters})


def longest_seconds(settings: Settings) -> float:
    """The longest that the whole cascade can take: each model's time-out twice, for the tighter retry."""
    last = max((entry.timeout for entry in chat_model_entries(settings)), default=0.0)
    return 2 * (sum(entry.timeout for entry in model_entries(settings)) + last)


def run_summarizer(
    summarizer: Any, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
) -> SummaryDraft:
    """:func:`ask_summarizer` for a caller that blocks."""
    return without_waiting(ask_summarizer(summarizer, request, accept, on_event, BLOCKING))


async def ask_summarizer(
    summarizer: Any,
    request: SummaryRequest,
    accept: Accept | None = None,
    on_event: OnEvent | None = None,
    way: Way = AWAITED,
) -> SummaryDraft:
    """An accepted draft from any summarizer, or :class:`SummarizerError`.

    Where it is awaited, a summarizer without ``asummarize`` works in a thread of its own.
    """
    name, attempt = type(summarizer).__name__, _Attempt(request, accept, on_event)
    awaitable = getattr(summarizer, "asummarize", None) if way.is_awaited else None
    summarize = awaitable or summarizer.summarize
    call = partial(asyncio.to_thread, summarize) if way.is_awaited and not awaitable else summarize

    async def ask(*args: Any) -> SummaryDraft:
        return _checked(summarizer, await way.call(call, *args))

    with _errors_of(name, attempt.calls):
        if "accept" in inspect.signature(summarize).parameters:
            return await ask(request, accept, on_event)
        if draft := await attempt.request_draft(ask, name):
            return draft
        raise attempt.error()


def _checked(summarizer: Any, draft: Any) -> SummaryDraft:
    wrong = wrong_draft(draft)
    if not wrong and isinstance(draft, SummaryDraft):
        return draft
    name = type(summarizer).__name__
    raise SummarizerError(f"{name} must return a SummaryDraft, not {wrong}.", model=name)


def _run(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run one call to its end on an event loop of its own.

    Synchronous callers need a loop too: cancelling a task closes its connection at the deadline. A synchronous
    client can only time out between two bytes, and closing it from another thread neither wakes a blocked read nor
    is safe under TLS.
    """
    threads: Any = concurrent.futures
    if replaced_threads() == "gevent":
        # Its executor starts real threads, and lets the other greenlets work until one is done.
        threads = importlib.import_module("gevent.threadpool")
    elif not _is_loop_running():
        return asyncio.run(coroutine)
    # Called synchronously from asynchronous code, such as a notebook, where a second loop needs a second thread.
    with threads.ThreadPoolExecutor(max_workers=1) as pool:
        # In a copy of this context, so that the call's span is a child of the run's.
        answer: Answer = pool.submit(copy_context().run, asyncio.run, coroutine).result()
    return answer


def replaced_threads() -> str:
    """The library that has replaced threads by greenlets: "gevent", "eventlet", or "" for real threads.

    Greenlets share one thread. A loop that runs in it counts as running in each of them, and Django's ORM refuses to
    work where a loop runs.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent and gevent.is_module_patched("threading"):
        return "gevent"
    return "eventlet" if eventlet and eventlet.is_monkey_patched("thread") else ""


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
