"""What a summarizer is, and how any of them is asked."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.utils.module_loading import import_string

from compaction_app.conf import Settings, load_function
from compaction_app.context.overflow import error_text, find_overflow
from compaction_app.exceptions import ConfigurationError, SummarizerError
from compaction_app.memory.extractive import extractive_draft
from compaction_app.messages.validation import make_storable, read_json
from compaction_app.summarizers.drafts import is_error_text, mended, wrong_draft
from compaction_app.summarizers.error_details import safe_code, safe_message
from compaction_app.summarizers.prompts import tighter
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, without_waiting
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count, ExactTokenCounter
from compaction_app.values import PERSON, ErrorCode, EventKind, ModelCall, SummaryDraft, SummaryRequest

logger = logging.getLogger("compaction_app.summarizers")

#: Returns why a draft cannot become a summary, or None if it can.
Accept = Callable[[SummaryDraft], ErrorCode | None]
#: Called with events while a summarizer works. May run in an event loop, so it only collects and does no I/O.
OnEvent = Callable[[EventKind, dict[str, Any]], None]
#: Seconds until nobody waits for a draft any more.
TimeLeft = Callable[[], float]
#: Codes of an answer that was refused; the others mean that there was no answer.
_DRAFT_CODES = frozenset(
    "empty too_short truncated refused tool_call invalid_text leaked_wrapper oversize no_progress error_text "
    "nothing_told".split()
)
#: Of these the same model is asked once more.
_ASKED_AGAIN = (ErrorCode.OVERSIZE, ErrorCode.ERROR_TEXT, ErrorCode.NOTHING_TOLD)
#: With less time than this no model is asked.
_LEAST_SECONDS = 0.1
#: The longest wait, in seconds, that a provider's ``retry-after`` may ask for.
MAX_RETRY_AFTER = 3600.0
_TRANSIENT = (408, 409, 429)
#: Other statuses are of the provider where trying later may help, else of the request.
_CODES = {401: ErrorCode.AUTHENTICATION, 402: ErrorCode.QUOTA, 403: ErrorCode.AUTHENTICATION, 408: ErrorCode.TIMEOUT}


def unlimited() -> float:
    return math.inf


def failure_of(
    status: int,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    *,
    model: str = "",
    prompt: str | None = None,
) -> SummarizerError:
    """The error for an HTTP status: its code, whether trying later may help, the wait that ``headers`` ask for.

    ``body``, parsed or a text, says more. Its message is kept where the ``prompt`` is given, and without what may quote
    that or a key.
    """
    parsed = read_json(body) if isinstance(body, str) else body
    inner = parsed.get("error", parsed) if isinstance(parsed, Mapping) else None
    said: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
    overflow = find_overflow(status, body)
    transient = status in _TRANSIENT or status >= 500
    code = _CODES.get(status, ErrorCode.PROVIDER_ERROR if transient else ErrorCode.BAD_REQUEST)
    if "insufficient_quota" in (said.get("code"), said.get("type")):
        code, transient = ErrorCode.QUOTA, False
    elif overflow:
        code, transient = ErrorCode.INPUT_TOO_LARGE, False
    words = f"HTTP {status} {safe_code(said.get('code'))}".strip()
    if message := safe_message(error_text(body), prompt, model) if prompt is not None else "":
        words += f": {message}"
    else:
        # Type and parameter where the message cannot be stored.
        kind, parameter = safe_code(said.get("type")), safe_code(said.get("param"))
        words = " ".join(part for part in (words, kind, f"({parameter})" if parameter else "") if part)
    wait = _retry_after(headers or {})
    return SummarizerError(
        words, model=model, error_code=code, transient=transient, retry_after=wait, overflow=overflow
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from ``retry-after``, a number or an HTTP date; at most an hour."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            return None
    # False for NaN too.
    return min(seconds, MAX_RETRY_AFTER) if seconds >= 0 else None


#: Returned and not raised: a traceback would carry the request.
Answer = SummaryDraft | SummarizerError
#: Asks one model, or a host's summarizer, once.
_Ask = Callable[[SummaryRequest], Awaitable[Answer]]


@dataclass(slots=True)
class Drafting:
    """One request to one summarizer: what judges its drafts, the failures so far, the calls that were paid for."""

    request: SummaryRequest
    accept: Accept | None = None
    on_event: OnEvent | None = None
    time_left: TimeLeft = unlimited
    count: Count = field(default_factory=ExactTokenCounter)
    failures: list[SummarizerError] = field(default_factory=list)
    #: Calls that were answered, in order: each is paid for, even if its draft is refused.
    calls: list[ModelCall] = field(default_factory=list)

    async def request_draft(self, ask: _Ask, model: str, request: SummaryRequest | None = None) -> SummaryDraft | None:
        """An accepted draft of one model, which is asked once more if its draft is too long or tells nothing.

        ``request``: in another form. None if no draft was accepted; the reasons are then in ``failures``.
        """
        first = request = request or self.request
        too_long = 0
        for is_last in (False, True):
            if self.time_left() < _LEAST_SECONDS:
                raise self._out_of_time()
            answer = await ask(request)
            if isinstance(answer, SummarizerError):
                answer.model = model
                self.fail(answer)
                return None
            self.calls += answer.paid_calls
            answer = mended(answer, self.request.max_output_tokens)
            # It counts with a host's counter.
            with errors_of(model, did="wrote a draft whose check raised"):
                code = self.accept(answer) if self.accept else None
            if code is None:
                numbers = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
                log(logger, logging.INFO, "done", model=model, **numbers, characters=len(answer.text))
                return replace(answer, tightened=too_long, calls=tuple(self.calls))
            self.fail(SummarizerError(f"{len(answer.text)} characters", model=model, error_code=code))
            if is_last or code not in _ASKED_AGAIN or answer.by_person or is_error_text(answer.text):
                return None
            if code != ErrorCode.OVERSIZE:
                # A second answer of the same model may be a summary.
                continue
            too_long = self.count([make_storable(answer.text)])[0]
            request = tighter(first, too_long)
            if self.on_event:
                figures = {"target_tokens": self.request.target_tokens, "output_tokens": answer.output_tokens}
                self.on_event(EventKind.SUMMARY_OVERSIZE, {"model": model, "characters": len(answer.text), **figures})
        return None

    def fail(self, failure: SummarizerError) -> None:
        self.failures.append(failure)
        values = {"model": failure.model, "code": failure.error_code, "transient": failure.transient}
        log(logger, logging.WARNING, "failed", **values)

    def error(self) -> SummarizerError:
        """The error of all failures. It is transient if one of them was: that model may still answer."""
        if self.time_left() < _LEAST_SECONDS:
            return self._out_of_time()
        if not self.failures:
            return SummarizerError(
                "No model is configured: MODELS of the summarizer is empty, and CHAT_MODELS lists no other.",
                error_code=ErrorCode.BAD_REQUEST,
            )
        # The second answer of a model that was asked twice replaces its first.
        last = {failure.model: failure for failure in self.failures}
        # Waiting may help; then a refused draft says more than no answer.
        telling = min(last.values(), key=lambda one: (not one.transient, one.error_code not in _DRAFT_CODES))
        waits = [failure.retry_after for failure in self.failures if failure.retry_after is not None]
        too_small = [failure.capacity for failure in self.failures if failure.capacity]
        return SummarizerError(
            "; ".join(f"{one.model}: {one.error_code} ({one})" for one in self.failures),
            error_code=telling.error_code,
            transient=telling.transient,
            retry_after=max(waits, default=None),
            model=telling.model,
            capacity=max(too_small, key=lambda capacity: capacity.input_tokens, default=None),
        )

    def _out_of_time(self) -> SummarizerError:
        asked = "; ".join(f"{failure.model}: {failure.error_code}" for failure in self.failures)
        return SummarizerError(f"No time is left to ask a model. {asked}".rstrip(), error_code=ErrorCode.TIME_LIMIT)


#: What a summarizer does in order.
Steps = Callable[[Drafting, Way], Awaitable[SummaryDraft]]


class Summarizer:
    """Writes summaries: the base class of ``BACKEND``. A subclass needs :meth:`summarize`; the rest has defaults.

    An instance is made for each run, from the run's ``settings``; its own entry is ``settings.summarizer_entry``.
    """

    #: Tokens of the largest request, by the site's counter, and of the longest reply; None: no limit of its own.
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    #: Whether it reads the reasoning of messages. If it does not, its runs report none as summarized.
    reads_reasoning: bool = True
    #: Whether it reads the messages after those that it summarizes.
    looks_ahead: bool = True
    #: Whether it quotes the conversation, and is its memory. What another one writes shares its target with a memory.
    quotes: bool = False
    #: With less room than this it is not asked, and an extract becomes the summary (``EXTRACT_FALLBACK``).
    smallest_target: int = 150
    #: Asks several models in turn, each of whose drafts is judged. None: :meth:`summarize` is asked.
    cascade: Steps | None = None

    def __init__(self, settings: Settings, *, session_model: str = "", time_left: TimeLeft = unlimited) -> None:
        self.settings = settings
        #: The session's chat model.
        self.session_model = session_model
        #: Seconds until the run ends, whatever it is doing then.
        self.time_left = time_left

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        """A draft of the summary. What it raises fails the run; :class:`SummarizerError` says with which code."""
        raise NotImplementedError(f"{type(self).__name__} has no method summarize.")

    async def asummarize(self, request: SummaryRequest) -> SummaryDraft:
        """:meth:`summarize` for a caller that awaits it; in a thread unless it is overridden."""
        return await asyncio.to_thread(self.summarize, request)

    def learn(self, error_code: str = "") -> None:
        """Called after the last request of a run, outside of event loops, with the code of its error if it failed."""

    def asks(self, model: str, endpoint: str) -> bool:
        """Whether it asks this model at this address, with ``request.chat`` where that is given (``WARM``)."""
        return False

    def seconds_left(self) -> float:
        """The most that one call may take: the entry's ``TIMEOUT``, and not longer than the run lasts."""
        return min(self.settings.summarizer_entry.timeout, self.time_left())

    async def steps(self, drafting: Drafting, way: Way) -> SummaryDraft:
        """An accepted draft of what the class itself writes, and not of what a class above it does in its place."""
        own = next(own for own in map(vars, type(self).__mro__) if own.keys() & {"cascade", "summarize", "asummarize"})
        if self.cascade and "cascade" in own:
            return await self.cascade(drafting, way)
        name, most = type(self).__name__, self.max_output_tokens
        awaited = self.asummarize if "asummarize" in own else partial(Summarizer.asummarize, self)

        async def ask(request: SummaryRequest) -> SummaryDraft:
            limited = replace(request, max_output_tokens=min(filter(None, (request.max_output_tokens, most))))
            draft: SummaryDraft = await way.call(awaited if way.is_awaited else self.summarize, limited)
            if wrong := wrong_draft(draft):
                raise SummarizerError(f"{name} must return a SummaryDraft, not {wrong}.", model=name)
            return draft

        if draft := await drafting.request_draft(ask, name):
            return draft
        raise drafting.error()


class ExtractiveSummarizer(Summarizer):
    """Quotes the most telling sentences. Deterministic, without network: the same request gives the same bytes."""

    #: It quotes messages, never reasoning.
    reads_reasoning = False
    looks_ahead = False
    quotes = True

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return extractive_draft(request, load_function(self.settings.token_counter))


class GivenText(Summarizer):
    """What a person wrote."""

    reads_reasoning = False
    smallest_target = 1

    def __init__(self, settings: Settings, text: str) -> None:
        super().__init__(settings)
        self.text = text

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return SummaryDraft(text=self.text, model=PERSON, by_person=True)


def make_summarizer(settings: Settings, session_model: str = "", time_left: TimeLeft = unlimited) -> Summarizer:
    """The summarizer of the entry that ``SUMMARIZER`` names; :class:`ConfigurationError` where there is none."""
    if (name := settings.summarizer.name) not in settings.summarizers:
        # Not the default one instead: a session may have chosen where its conversation is sent.
        raise ConfigurationError(f"SUMMARIZERS has no {name!r}, which this session has chosen.")
    if problem := find_backend_problem(settings.summarizer_entry.backend):
        raise ConfigurationError(problem)
    backend = import_string(settings.summarizer_entry.backend)
    made: Summarizer = backend(settings, session_model=session_model, time_left=time_left)
    return made


def find_backend_problem(path: str) -> str:
    """What is wrong with a ``BACKEND``; "" for a summarizer."""
    named = import_string(path)
    is_one = isinstance(named, type) and issubclass(named, Summarizer)
    return "" if is_one else f"{path} must be a subclass of compaction_app.summarizers.Summarizer."


def run_summarizer(
    summarizer: Summarizer, request: SummaryRequest, accept: Accept | None = None, on_event: OnEvent | None = None
) -> SummaryDraft:
    """:func:`ask_summarizer` for a caller that blocks."""
    return without_waiting(ask_summarizer(summarizer, request, accept, on_event, BLOCKING))


async def ask_summarizer(
    summarizer: Summarizer,
    request: SummaryRequest,
    accept: Accept | None = None,
    on_event: OnEvent | None = None,
    way: Way = AWAITED,
    steps: Steps | None = None,
) -> SummaryDraft:
    """A draft that ``accept`` accepts, or :class:`SummarizerError` with the calls that were paid for."""
    count = load_function(summarizer.settings.token_counter)
    drafting = Drafting(request, accept, on_event, summarizer.time_left, count)
    with errors_of(type(summarizer).__name__, drafting.calls):
        return await (steps or summarizer.steps)(drafting, way)


@contextmanager
def errors_of(name: str, calls: Sequence[ModelCall] = (), did: str = "raised") -> Iterator[None]:
    """Raise whatever a summarizer raises as a :class:`SummarizerError`, with the calls that were made before.

    The type is recorded and the frames are logged; the error's text may quote the conversation.
    """
    try:
        yield
    except SummarizerError as error:
        error.calls = (*calls, *error.calls)
        raise
    except Exception as error:
        log_error(logger, error, summarizer=name)
        timed_out = isinstance(error, TimeoutError)
        code = ErrorCode.TIMEOUT if timed_out else ErrorCode.PROVIDER_ERROR
        if isinstance(error, SoftTimeLimitExceeded):
            # Of the task, not of a call: it raises in whatever code is at work.
            code = ErrorCode.TIME_LIMIT
        raise SummarizerError(
            f"{name} {did} {type(error).__name__}",
            error_code=code,
            transient=timed_out or isinstance(error, ConnectionError),
            model=name,
            calls=tuple(calls),
        ) from error
