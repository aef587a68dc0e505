"""Summarizers: what turns a request into a draft, and the cascade that does not give up with the first model.

A summarizer is a class with ``max_input_tokens`` (None: no limit) and ``summarize(request) -> SummaryDraft``;
a host names its own in ``SUMMARIZER``. :func:`run_summarizer` asks one of any kind: drafts are judged by
``accept``, one that is too long is asked for once more, tighter, and what remains unusable raises
:class:`SummarizerError`.

The order of asking is a generator that yields questions and is sent answers. Synchronous and asynchronous
callers drive the same one, so there is one cascade to get right and no wrapper that holds a thread while a
model thinks.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from compaction_app.conf import Settings, load
from compaction_app.exceptions import SummarizerError
from compaction_app.messages.transcript import neutralize_tags
from compaction_app.retention.extractive import summarize_extractively
from compaction_app.retention.ledger_text import prose_of
from compaction_app.summarizers.openai import Clients, Failure, ModelEntry, ask, model_entries
from compaction_app.summarizers.prompts import count_request, tighter, wrong_draft
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count
from compaction_app.values import EXTRACTIVE_MODEL, ErrorCode, EventKind, ModelCall, SummaryDraft, SummaryRequest

logger = logging.getLogger("compaction_app.summarizers")

#: Says why a draft can not become a summary, or None if it can.
Accept = Callable[[SummaryDraft], ErrorCode | None]
#: Told of events while a summarizer works. May be called from an event loop, so it collects and does no I/O.
OnEvent = Callable[[EventKind, dict[str, Any]], None]
#: Seconds of a lease beyond what the models may take: loading, planning, the ledger, the commit.
LEASE_MARGIN = 10.0

_DRAFT_CODES = frozenset(
    {
        ErrorCode.EMPTY,
        ErrorCode.TOO_SHORT,
        ErrorCode.TRUNCATED,
        ErrorCode.REFUSED,
        ErrorCode.TOOL_CALL,
        ErrorCode.INVALID_TEXT,
        ErrorCode.LEAKED_WRAPPER,
        ErrorCode.OVERSIZE,
        ErrorCode.NO_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class _Question:
    request: SummaryRequest
    #: None for a summarizer that is not a cascade.
    entry: ModelEntry | None = None


@dataclass(slots=True)
class _Tried:
    """What a summarizer was asked so far, and in vain."""

    failures: list[Failure] = field(default_factory=list)
    #: Calls that gave an answer, in order: each is paid for, also where its draft is refused.
    calls: list[ModelCall] = field(default_factory=list)

    def fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        values = {"model": failure.model, "code": failure.code, "transient": failure.transient}
        log(logger, logging.WARNING, "failed", **values)


_Answer = SummaryDraft | Failure
_Dialogue = Generator[_Question, _Answer, SummaryDraft]


class ExtractiveSummarizer:
    """Quotes the most telling sentences. Deterministic, without network: the same request, the same bytes."""

    max_input_tokens: int | None = None
    #: It quotes what was said; what a model thought is not quoted.
    reads_reasoning = False

    def __init__(self, settings: Settings) -> None:
        self._count: Count = load(settings.token_counter)()

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        text = summarize_extractively(
            covered=request.covered,
            # The ledger carries itself on; quoted here as well it would take the room twice.
            previous_summary=prose_of(request.previous_summary),
            target_tokens=request.target_tokens,
            count=self._count,
            instructions=request.instructions,
        )
        # It quotes: a message about <user> tags must not look like a leak of the wrapper.
        return SummaryDraft(text=neutralize_tags(text), model=EXTRACTIVE_MODEL)

    async def asummarize(self, request: SummaryRequest) -> SummaryDraft:
        # A long branch takes seconds of one core, which an event loop does not have.
        return await asyncio.to_thread(self.summarize, request)


class OpenAISummarizer:
    """A cascade of models behind any OpenAI-compatible endpoint.

    Each model is asked once, plus one tighter retry of a draft that was too long; a failure or a refused
    draft goes on to the next. ``clients`` makes the client of an entry, a new one for every call, which is
    closed afterwards: the place for a host's proxies and certificates.
    """

    def __init__(self, settings: Settings, *, session_model: str = "", clients: Clients | None = None) -> None:
        self.entries = model_entries(settings, session_model)
        self._clients = clients
        self._count: Count = load(settings.token_counter)()

    @property
    def max_input_tokens(self) -> int | None:
        """What to plan for: the first model's. A later one that is too small for a request is passed over."""
        return self.entries[0].max_input_tokens if self.entries else None

    def summarize(
        self, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
    ) -> SummaryDraft:
        return _drive(self._cascade(request, accept, on_event), lambda question: _run(self._answer(question)))

    async def asummarize(
        self, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
    ) -> SummaryDraft:
        return await _adrive(self._cascade(request, accept, on_event), self._answer)

    async def _answer(self, question: _Question) -> _Answer:
        assert question.entry is not None
        return await ask(question.entry, question.request, self._clients)

    def _cascade(self, request: SummaryRequest, accept: Accept | None, on_event: OnEvent | None) -> _Dialogue:
        size = count_request(request, self._count)
        tried = _Tried()
        for entry in self.entries:
            if size > entry.max_input_tokens:
                detail = f"{size} tokens, takes {entry.max_input_tokens}"
                tried.fail(Failure(model=entry.model, code=ErrorCode.INPUT_TOO_LARGE, detail=detail))
                continue
            draft = yield from _ask_model(entry.model, entry, request, accept, on_event, tried)
            if draft:
                return draft
        raise _give_up(tried)


def _ask_model(
    name: str,
    entry: ModelEntry | None,
    request: SummaryRequest,
    accept: Accept | None,
    on_event: OnEvent | None,
    tried: _Tried,
) -> Generator[_Question, _Answer, SummaryDraft | None]:
    """Ask one model, and once more if its draft is too long. None, with the reasons in ``tried``, if in vain."""
    for question in (request, tighter(request)):
        answer = yield _Question(question, entry)
        if isinstance(answer, Failure):
            tried.fail(answer)
            return None
        tried.calls += answer.paid_calls
        code = _judge(accept, answer, name, tried)
        if code is None:
            numbers = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
            log(logger, logging.INFO, "done", model=name, **numbers, characters=len(answer.text))
            return replace(answer, tightened=question is not request, calls=tuple(tried.calls))
        tried.fail(Failure(model=name, code=code, detail=f"{len(answer.text)} characters"))
        if code != ErrorCode.OVERSIZE or question is not request:
            return None
        if on_event:
            figures = {"target_tokens": request.target_tokens, "output_tokens": answer.output_tokens}
            on_event(EventKind.SUMMARY_OVERSIZE, {"model": name, "characters": len(answer.text), **figures})
    return None


def _judge(accept: Accept | None, draft: SummaryDraft, name: str, tried: _Tried) -> ErrorCode | None:
    """What ``accept`` says. What it raises (it counts by a host's counter) ends the asking; its calls are paid."""
    try:
        return accept(draft) if accept else None
    except Exception as error:
        raise _error_of(error, name, "was being judged, which raised", tried) from error


def _give_up(tried: _Tried) -> SummarizerError:
    """The error of a whole cascade. It is transient if one failure was: that model may yet answer."""
    failures: Sequence[Failure] = tried.failures
    if not failures:
        return SummarizerError(
            "No model is configured: SUMMARIZER_MODELS is empty and the session names none.",
            error_code=ErrorCode.BAD_REQUEST,
            attempts=[],
        )
    # Of a model that was asked a second time, tighter, the second answer tells.
    last_words = {failure.model: failure for failure in failures}
    telling = min(last_words.values(), key=_rank)
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    return SummarizerError(
        "; ".join(f"{f.model}: {f.code}" + (f" ({f.detail})" if f.detail else "") for f in failures),
        error_code=telling.code,
        transient=telling.transient,
        retry_after=max(waits, default=None),
        model=telling.model,
        attempts=[(failure.model, failure.code) for failure in failures],
        calls=tuple(tried.calls),
    )


def _rank(failure: Failure) -> int:
    """What says most about a cascade: that waiting may help, then what a model that did answer wrote."""
    if failure.transient:
        return 0
    return 1 if failure.code in _DRAFT_CODES else 2


def run_summarizer(
    summarizer: Any, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
) -> SummaryDraft:
    """An accepted draft from any summarizer, or :class:`SummarizerError`."""
    tried = _Tried()
    if _judges_itself(summarizer.summarize):
        with _errors_of(summarizer, tried):
            return _checked(summarizer, summarizer.summarize(request, accept, on_event))

    def answer(question: _Question) -> SummaryDraft:
        with _errors_of(summarizer, tried):
            return _checked(summarizer, summarizer.summarize(question.request))

    return _drive(_single(summarizer, request, accept, on_event, tried), answer)


async def arun_summarizer(
    summarizer: Any, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
) -> SummaryDraft:
    """As :func:`run_summarizer`. A summarizer without ``asummarize`` works in a thread of its own."""
    tried = _Tried()
    asummarize = getattr(summarizer, "asummarize", None) or _in_a_thread(summarizer.summarize)
    if _judges_itself(getattr(summarizer, "asummarize", None) or summarizer.summarize):
        with _errors_of(summarizer, tried):
            return _checked(summarizer, await asummarize(request, accept, on_event))

    async def answer(question: _Question) -> SummaryDraft:
        with _errors_of(summarizer, tried):
            return _checked(summarizer, await asummarize(question.request))

    return await _adrive(_single(summarizer, request, accept, on_event, tried), answer)


def _in_a_thread(summarize: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def asummarize(*given: Any) -> Any:
        return await asyncio.to_thread(summarize, *given)

    return asummarize


def make_summarizer(settings: Settings, session_model: str = "") -> Any:
    """An instance of what ``SUMMARIZER`` names, given those of ``settings`` and ``session_model`` that it
    takes."""
    make = load(settings.summarizer)
    parameters = inspect.signature(make).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    offered = {"settings": settings, "session_model": session_model}
    return make(**{name: value for name, value in offered.items() if takes_any or name in parameters})


def lease_seconds(settings: Settings, session_model: str = "", *, margin: float = LEASE_MARGIN) -> float:
    """What the whole cascade can take: each model its time-out twice, for the tighter retry, and a margin."""
    return 2 * sum(entry.timeout for entry in model_entries(settings, session_model)) + margin


def _single(
    summarizer: Any, request: SummaryRequest, accept: Accept | None, on_event: OnEvent | None, tried: _Tried
) -> _Dialogue:
    draft = yield from _ask_model(type(summarizer).__name__, None, request, accept, on_event, tried)
    if draft is None:
        raise _give_up(tried)
    return draft


def _judges_itself(summarize: Callable[..., Any]) -> bool:
    return "accept" in inspect.signature(summarize).parameters


def _checked(summarizer: Any, draft: Any) -> SummaryDraft:
    wrong = wrong_draft(draft)
    if not wrong and isinstance(draft, SummaryDraft):
        return draft
    name = type(summarizer).__name__
    raise SummarizerError(
        f"{name} must return a SummaryDraft, not {wrong}.",
        model=name,
        attempts=[(name, ErrorCode.PROVIDER_ERROR)],
    )


@contextmanager
def _errors_of(summarizer: Any, tried: _Tried) -> Iterator[None]:
    """What a summarizer raises, as a :class:`SummarizerError` with the calls that were made before it."""
    try:
        yield
    except SummarizerError as error:
        error.calls = (*tried.calls, *error.calls)
        raise
    except Exception as error:
        raise _error_of(error, type(summarizer).__name__, "raised", tried) from error


def _error_of(error: Exception, name: str, did: str, tried: _Tried) -> SummarizerError:
    """Its type is recorded and its frames are logged; its text may quote the conversation."""
    log_error(logger, error, summarizer=name)
    timed_out = isinstance(error, TimeoutError)
    code = ErrorCode.TIMEOUT if timed_out else ErrorCode.PROVIDER_ERROR
    return SummarizerError(
        f"{name} {did} {type(error).__name__}",
        error_code=code,
        transient=timed_out or isinstance(error, ConnectionError),
        model=name,
        attempts=[(name, code)],
        calls=tuple(tried.calls),
    )


def _drive(dialogue: _Dialogue, answer: Callable[[_Question], _Answer]) -> SummaryDraft:
    try:
        question = next(dialogue)
        while True:
            question = dialogue.send(answer(question))
    except StopIteration as done:
        draft: SummaryDraft = done.value
        return draft


async def _adrive(dialogue: _Dialogue, answer: Callable[[_Question], Awaitable[_Answer]]) -> SummaryDraft:
    try:
        question = next(dialogue)
        while True:
            question = dialogue.send(await answer(question))
    except StopIteration as done:
        draft: SummaryDraft = done.value
        return draft


def _run(coroutine: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run one call to its end on an event loop of its own.

    Why synchronous callers get a loop at all: cancelling a task really closes its connection at the deadline.
    A synchronous client can only time out between two bytes, and closing it from another thread neither wakes
    a blocked read nor is safe under TLS.
    """
    if not _is_loop_running():
        return asyncio.run(coroutine)
    # Called synchronously from asynchronous code (a notebook, say), where a second loop needs a second
    # thread.
    with ThreadPoolExecutor(max_workers=1) as pool:
        # In a copy of this context, so that the call's span stands below the run's.
        return pool.submit(copy_context().run, asyncio.run, coroutine).result()


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
