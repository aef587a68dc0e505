"""The summarizer that asks models behind any OpenAI-compatible endpoint: a cascade, each within a deadline.

:func:`call_model` returns a :class:`SummaryDraft`, or a :class:`SummarizerError`: whatever is wrong with an address, a
key, a connection or an answer, the next model can be asked. An error is stored with the run, so it contains no key and
no text of the conversation: providers quote keys in a 401, and some servers quote the whole input in a 422 (see
:mod:`error_details`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from celery.exceptions import SoftTimeLimitExceeded

from compaction_app.conf import AskedModel, Settings, SummarizerEntry, find_address_error, load_function
from compaction_app.context import windows
from compaction_app.context.budget import window_of, window_or_default
from compaction_app.context.overflow import (
    OUTPUT_SHARE,
    Overflow,
    complaint_of,
    error_text,
    find_output_limit,
    overflow_of_error,
    overflow_of_report,
    overflow_of_usage,
)
from compaction_app.context.windows import OPENAI_URL, Habits, ModelPlace, endpoint_of
from compaction_app.exceptions import ConfigurationError, SummarizerError
from compaction_app.messages.openai_format import strings, with_user
from compaction_app.messages.originals import read_message
from compaction_app.messages.validation import make_storable, token_count
from compaction_app.summarizers.base import Answer, Drafting, Summarizer, ask_summarizer, failure_of
from compaction_app.summarizers.drafts import CHARACTERS_A_TOKEN, NORMAL_ENDS, mended
from compaction_app.summarizers.endpoint import async_http_client, is_unreadable, openai
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR, count_request
from compaction_app.summarizers.waiting import (
    BLOCKING,
    NO_EVENTLET,
    USE_GEVENT,
    Way,
    is_loop_running,
    replaced_threads,
    run_in_loop,
    without_waiting,
)
from compaction_app.telemetry import log_error
from compaction_app.tokens import Count
from compaction_app.values import Capacity, ErrorCode, EventKind, SummaryDraft, SummaryRequest

logger = logging.getLogger("compaction_app.summarizers")

TEMPERATURE = 0.1
#: Sent where no key is needed: the client does not start without one, and local servers ignore it.
NO_KEY = "no-key"
#: A reply with at most 1.25 times the tokens of its draft, and 50 more, holds the draft alone: nothing was reasoned.
_BESIDE, _FEW = 1.25, 50

#: Models that refuse ``temperature`` and ``max_tokens``.
_REASONING_MODEL = re.compile(r"(?:o\d|gpt-5)")
_OUTPUT_PARAMETERS = ("max_completion_tokens", "max_tokens")
#: A parameter that is refused whatever its value.
_UNSUPPORTED = re.compile(r"unsupported|not (?:supported|permitted)|extra|unknown|unrecognized|instead", re.IGNORECASE)
#: How often a reply's limit is halved where the provider names none: from 20,000 to 1,250 tokens.
_MOST_HALVINGS = 4
#: Usually a proxy's error page or a truncated body, so trying later may help.
_MALFORMED = "the reply is not a chat completion"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """One model of the cascade, with every default filled in."""

    model: str
    #: None: the client's own default, ``OPENAI_BASE_URL`` or OpenAI.
    base_url: str | None = None
    #: Name of the environment variable with the key.
    api_key_env: str | None = None
    #: Seconds for one call in total, connecting and reading the whole reply included.
    timeout: float
    #: Tokens of the largest request that the model accepts.
    max_input_tokens: int
    #: Tokens of the longest reply that the model may write.
    max_output_tokens: int

    @property
    def url(self) -> str:
        return self.base_url or _default_url()

    @property
    def place(self) -> ModelPlace:
        """Address and model: what is learned of a window belongs to both."""
        return self.url, self.model

    @property
    def capacity(self) -> Capacity:
        return Capacity(self.max_input_tokens, self.max_output_tokens)

    def limited_to(self, capacity: Capacity) -> ModelEntry:
        """The entry, with no more than this capacity."""
        least = self.capacity.within(capacity)
        return replace(self, max_input_tokens=least.input_tokens, max_output_tokens=least.output_tokens)


Clients = Callable[[ModelEntry], "openai.AsyncOpenAI"]


def model_entries(settings: Settings, session_model: str = "") -> tuple[ModelEntry, ...]:
    """The cascade: ``MODELS`` of the entry in order, then the session's own model if ``CHAT_MODELS`` has it.

    A session's owner may name any model: unless the host lists it, a conversation would go to an address, and be paid
    with a key, that the host did not choose for it.
    """
    listed = settings.summarizer_entry
    # CONTEXT_WINDOW is the window of the session's chat model; a summarizer has its own.
    without = settings.but(context_window=None)
    own = [asked for asked in listed.chat_models if asked.model == session_model]
    # Each once: the host may name the same model, at the same address, in both.
    return tuple(dict.fromkeys(_entry(asked, listed, without) for asked in (*listed.models, *own)))


def _entry(asked: AskedModel, of_all: SummarizerEntry, own: Settings) -> ModelEntry:
    stated = asked.max_input_tokens or 0
    # A window that is larger than the stated input may belong to another model of that name: then the provider says so.
    smallest = stated + stated // (OUTPUT_SHARE - 1)
    window = max(window_of(asked.model, own) or 0, smallest) if stated else window_or_default(asked.model, own)
    # In a small window the cap would leave no room for input.
    room = window - stated if stated else window // OUTPUT_SHARE
    output = max(1, min(of_all.max_output_tokens, room))
    return ModelEntry(
        model=asked.model,
        base_url=asked.base_url,
        api_key_env=asked.api_key_env,
        timeout=asked.timeout or of_all.timeout,
        max_input_tokens=stated or window - output,
        max_output_tokens=output,
    )


@dataclass(kw_only=True, slots=True)
class Candidate:
    """One model of the cascade, and what a run has seen of it."""

    #: As the settings have it, in the model's own tokens: with how many its server may have cut a request.
    stated: ModelEntry
    #: As it is asked: in tokens of our count, and narrowed when its provider says how small its window is.
    entry: ModelEntry
    #: What it does whatever it is asked, as it was remembered and as it is now.
    former_habits: Habits
    habits: Habits
    #: What its provider said of its window, for the next runs.
    learned: Capacity | None = None
    #: The share of a request that its provider said it had read.
    share: float | None = None
    #: Tokens of a reply that filled the window.
    full_reply: int | None = None

    def narrow(self, overflow: Overflow, size: int) -> None:
        """After a refused request of ``size`` tokens."""
        self.entry = self.entry.limited_to(overflow.left_of(self.entry.capacity, size))
        if not overflow.is_rate:
            self.learned = self.entry.capacity


def _candidates(entries: Sequence[ModelEntry]) -> Iterator[Candidate]:
    """The models of a cascade, with what is remembered of them."""
    # The cache may be a database, which an event loop must not wait for.
    remembered = {} if is_loop_running() else windows.learned_of([entry.place for entry in entries])
    for stated in entries:
        learned = remembered.get(stated.place, windows.NOTHING)
        habits = learned.habits
        entry = replace(stated, max_input_tokens=max(1, int(stated.max_input_tokens / habits.ratio)))
        entry = entry.limited_to(learned.capacity or entry.capacity)
        yield Candidate(stated=stated, entry=entry, former_habits=habits, habits=habits)


class OpenAISummarizer(Summarizer):
    """A cascade of models behind any OpenAI-compatible endpoint.

    Each model is asked once, and once more where its draft was too long or told nothing; after a failure or a refused
    draft the next model is asked. ``clients`` makes the client of an entry, a new one for every call, which is closed
    afterwards: the place for a host's proxies and certificates.
    """

    def __init__(self, settings: Settings, *, clients: Clients | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        if replaced_threads() == "eventlet":
            raise ConfigurationError(f"{NO_EVENTLET} {USE_GEVENT}")
        #: In the order in which they are asked.
        self.candidates = tuple(_candidates(model_entries(settings, self.session_model)))
        self._clients = clients
        self._count: Count = load_function(settings.token_counter)

    @property
    def max_input_tokens(self) -> int | None:  # type: ignore[override]  # what is learned changes it
        """What to plan for: the first model's limit. A later model that is too small for a request is skipped."""
        return self.candidates[0].entry.max_input_tokens if self.candidates else None

    @property
    def max_output_tokens(self) -> int | None:  # type: ignore[override]
        """Of ours: what the model writes are its own."""
        if not self.candidates:
            return None
        first = self.candidates[0]
        return max(1, int(first.entry.max_output_tokens / first.habits.ratio))

    def learn(self, error_code: str = "") -> None:
        """Keep what was learned for the next runs; forget it where no request was small enough."""
        if error_code == ErrorCode.INPUT_TOO_LARGE:
            windows.forget([one.stated.place for one in self.candidates])
            return
        learned = {one.stated.place: one.learned for one in self.candidates if one.learned}
        habits = {one.stated.place: one.habits for one in self.candidates if one.habits != one.former_habits}
        windows.remember(learned, habits)

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return without_waiting(ask_summarizer(self, request, way=BLOCKING, steps=self.cascade))

    async def asummarize(self, request: SummaryRequest) -> SummaryDraft:
        return await ask_summarizer(self, request, steps=self.cascade)

    def asks(self, model: str, endpoint: str) -> bool:
        return self._at(model, endpoint) is not None

    def _at(self, model: str, endpoint: str) -> Candidate | None:
        places = ((one, one.stated.place) for one in self.candidates)
        return next((one for one, (url, name) in places if (name, endpoint_of(url)) == (model, endpoint)), None)

    async def _draft_behind_the_chat(self, drafting: Drafting, way: Way) -> SummaryDraft | None:
        """Of the model that has just read the conversation, and answered it."""
        chat = drafting.request.chat
        candidate = self._at(chat.model, chat.endpoint) if chat else None
        if chat is None or candidate is None:
            return None

        async def ask(request: SummaryRequest) -> Answer:
            limited = replace(candidate.stated, timeout=min(candidate.stated.timeout, self.time_left()))
            call = call_model(limited, request, self._clients)
            return await call if way.is_awaited else run_in_loop(call)

        request = replace(drafting.request, system="", user=chat.instruction)
        return await drafting.request_draft(ask, chat.model, request)

    async def cascade(self, drafting: Drafting, way: Way) -> SummaryDraft:
        if draft := await self._draft_behind_the_chat(drafting, way):
            return draft
        size = count_request(drafting.request, self._count)
        for candidate in self.candidates:
            before = len(drafting.failures)
            if draft := await self._draft_of(candidate, drafting, size, way):
                # A failed run names them in its error.
                failed = drafting.failures[:before]
                for model, code in dict.fromkeys((failure.model, failure.error_code) for failure in failed):
                    if drafting.on_event:
                        drafting.on_event(EventKind.MODEL_FAILED, {"model": model, "code": code})
                return draft
        raise drafting.error()

    async def _draft_of(self, candidate: Candidate, drafting: Drafting, size: int, way: Way) -> SummaryDraft | None:
        """Ask one model, and once more with a shorter reply where its window leaves no room for a longer one."""
        model = candidate.entry.model
        if size > candidate.entry.max_input_tokens:
            detail = f"{size} tokens, takes {candidate.entry.max_input_tokens}"
            drafting.fail(SummarizerError(detail, model=model, error_code=ErrorCode.INPUT_TOO_LARGE))
        for _ in range(2):
            if size > candidate.entry.max_input_tokens:
                break
            draft = await drafting.request_draft(partial(self._ask, candidate, drafting, way, size), model)
            overflow = drafting.failures[-1].overflow if draft is None else None
            if overflow is None:
                if draft and overflow_of_usage(draft, size):
                    # It counts fewer tokens, and nothing was cut.
                    candidate.learned = None
                return draft
            if overflow.ended_reply:
                reply = (overflow.window or 0) - (overflow.sent or 0)
                if reply == candidate.full_reply:
                    # With less to read it ends at the same length: that is the server's own limit, and no window.
                    drafting.failures[-1].error_code = ErrorCode.TRUNCATED
                    candidate.learned = None
                    return None
                candidate.full_reply = reply
            candidate.share = (overflow.sent or 0) / size
            candidate.narrow(overflow, size)
        else:
            # It refused what its own numbers allow: less still.
            candidate.narrow(Overflow(), size)
        drafting.failures[-1].capacity = candidate.entry.capacity
        return None

    async def _ask(
        self, candidate: Candidate, drafting: Drafting, way: Way, size: int, request: SummaryRequest
    ) -> Answer:
        """Ask a model, and see how it counts, whether it reasons, and whether all was read.

        One that never did may write little more than the longest draft: if it runs on, it is stopped.
        """
        entry, (known, was_plain) = candidate.entry, candidate.habits
        most = entry.max_output_tokens
        if was_plain:
            longest = OVERSIZE_FACTOR * drafting.request.target_tokens
            most = min(most, int(_BESIDE * known * longest) + _FEW)
        limited = replace(entry, max_output_tokens=most, timeout=min(entry.timeout, self.time_left()))
        call = call_model(limited, request, self._clients)
        answer = await call if way.is_awaited else run_in_loop(call)
        if not isinstance(answer, SummaryDraft) or not answer.input_tokens:
            return answer
        ratio, is_plain = windows.ratio_after(answer.input_tokens, size, known), was_plain
        if answer.output_tokens:
            read = replace(answer, text=make_storable(answer.text))
            written = _BESIDE * ratio * self._count([mended(read, request.max_output_tokens).text])[0] + _FEW
            is_plain = answer.output_tokens <= written and was_plain is not False
        candidate.habits = Habits(ratio, is_plain)
        if not is_plain and most < entry.max_output_tokens and answer.finish_reason not in NORMAL_ENDS:
            # It reasons about some requests only.
            drafting.calls += answer.paid_calls
            return await self._ask(candidate, drafting, way, size, request)
        limits = [n for one in (candidate.stated, entry) for n in (one.max_input_tokens, one.capacity.window)]
        if overflow := overflow_of_usage(answer, size, candidate.share, limits):
            drafting.calls += answer.paid_calls
            detail = f"read {overflow.sent} of {size} tokens"
            return SummarizerError(detail, error_code=ErrorCode.INPUT_TOO_LARGE, overflow=overflow)
        return answer


async def call_model(entry: ModelEntry, request: SummaryRequest, clients: Clients | None = None) -> Answer:
    """Ask a model once. A parameter that it rejects is left out or renamed, within the same deadline."""
    if wrong := _misconfigured(entry, clients):
        return wrong
    limit = min(request.max_output_tokens, entry.max_output_tokens)
    try:
        client = (clients or make_client)(entry)
        # A client's own read time-out starts again with each byte, so a server that drips could block for ever.
        # Cancelling closes the connection, and the provider stops writing. The client is used for this call only: its
        # connections belong to the running event loop.
        async with asyncio.timeout(entry.timeout), client:
            completion, limit = await _create(client, _parameters(entry, request))
        return _read(entry, completion, limit)
    except Exception as error:
        prompt = "\n".join([request.system, request.user, *strings(request.chat.messages if request.chat else ())])
        return failure_of_error(error, model=entry.model, prompt=prompt, seconds=entry.timeout)


def make_client(entry: ModelEntry) -> openai.AsyncOpenAI:
    # Without retries of its own: the cascade asks the next model instead, and the client would retry even an
    # exhausted quota.
    return openai.AsyncOpenAI(
        api_key=_api_key(entry),
        base_url=entry.base_url,
        timeout=entry.timeout,
        max_retries=0,
        http_client=async_http_client(),
    )


def _default_url() -> str:
    return os.environ.get("OPENAI_BASE_URL") or OPENAI_URL


def _api_key(entry: ModelEntry) -> str | None:
    """The key for this address; None if one is required and missing."""
    if entry.api_key_env:
        return os.environ.get(entry.api_key_env)
    # OPENAI_API_KEY is for the default address. Sent elsewhere it would give one provider's key to another.
    if entry.url.rstrip("/") != _default_url().rstrip("/"):
        return NO_KEY
    return os.environ.get("OPENAI_API_KEY") or (None if _is_openai(entry) else NO_KEY)


def _is_openai(entry: ModelEntry) -> bool:
    host = urlsplit(entry.url).hostname or ""
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))


def _misconfigured(entry: ModelEntry, clients: Clients | None) -> SummarizerError | None:
    if wrong := find_address_error(entry.url):
        return SummarizerError(f"base_url {wrong}", error_code=ErrorCode.BAD_REQUEST)
    if clients is not None:
        return None
    key = _api_key(entry)
    if key and key.isascii() and key.isprintable():
        return None
    wrong = "has a character that no header can have" if key else "is not set"
    detail = f"the environment variable {entry.api_key_env or 'OPENAI_API_KEY'} {wrong}"
    return SummarizerError(detail, error_code=ErrorCode.AUTHENTICATION)


def _parameters(entry: ModelEntry, request: SummaryRequest) -> dict[str, Any]:
    # Names may have a provider's prefix: "openai/gpt-5-mini".
    reasoning = bool(_REASONING_MODEL.match(entry.model.rpartition("/")[2]))
    output = "max_completion_tokens" if reasoning or _is_openai(entry) else "max_tokens"
    parameters: dict[str, Any] = {
        "model": entry.model,
        "messages": [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}],
        output: min(request.max_output_tokens, entry.max_output_tokens),
    }
    if (chat := request.chat) and not request.system:
        parameters["messages"] = with_user(chat.messages, request.user, alternate=chat.alternate_roles)
        parameters |= {**chat.parameters, **({"tools": list(chat.tools)} if chat.tools else {})}
    return parameters if reasoning else {**parameters, "temperature": TEMPERATURE}


async def _create(client: openai.AsyncOpenAI, parameters: dict[str, Any]) -> tuple[Any, int]:
    """The completion, and the longest reply that was asked for in the end."""
    tried: list[str] = []
    while True:
        try:
            completion = await client.chat.completions.create(**parameters)
            return completion, next(parameters[name] for name in _OUTPUT_PARAMETERS if name in parameters)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            adapted = _adapted(parameters, error, tried)
            if adapted is None:
                raise
            parameters = adapted


def _adapted(parameters: dict[str, Any], error: openai.APIStatusError, tried: list[str]) -> dict[str, Any] | None:
    """The parameters without what the provider complains about, or None. Each remedy is ``tried`` a few times at most.

    A reply that may be too long is limited to what the provider names, else to half.
    """
    if overflow_of_error(error):
        return None
    named = error.param or complaint_of(error.body)
    output = next(name for name in _OUTPUT_PARAMETERS if name in parameters)
    if "temperature" in named and "temperature" in parameters:
        return {name: value for name, value in parameters.items() if name != "temperature"}
    limit = find_output_limit(error.status_code, error.body, parameters[output])
    if limit and not _UNSUPPORTED.search(error_text(error.body)) and tried.count("limit") < _MOST_HALVINGS:
        tried.append("limit")
        return {**parameters, output: limit}
    if "rename" in tried or not any(name in named for name in _OUTPUT_PARAMETERS):
        return None
    tried.append("rename")
    other = next(name for name in _OUTPUT_PARAMETERS if name != output)
    return {other if name == output else name: value for name, value in parameters.items()}


def _read(entry: ModelEntry, completion: Any, limit: int) -> Answer:
    """``limit``: of the reply. The client checks nothing: any part may be missing, or the whole a page of HTML."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if overflow := overflow_of_report(getattr(completion, "error", None)):
        detail = "the prompt is too long, says an answer with status 200"
        return SummarizerError(detail, error_code=ErrorCode.INPUT_TOO_LARGE, overflow=overflow)
    if message is None:
        return SummarizerError(_MALFORMED, transient=True)
    finish_reason = str(getattr(choice, "finish_reason", None) or "")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    text = read_message({"content": getattr(message, "content", None)}, writer="model").text("assistant")
    return SummaryDraft(
        # What is longer than any reply within the limit is refused, and need not be read to its end.
        text=text[: CHARACTERS_A_TOKEN * limit + 1],
        finish_reason=finish_reason,
        model=entry.model,
        input_tokens=token_count(getattr(usage, "prompt_tokens", None)) or 0,
        output_tokens=token_count(getattr(usage, "completion_tokens", None)) or 0,
        cached_tokens=token_count(getattr(details, "cached_tokens", None)) or 0,
        limit=limit,
        refused=bool(getattr(message, "refusal", None)),
        tool_called=bool(getattr(message, "tool_calls", None) or getattr(message, "function_call", None))
        or finish_reason in ("tool_calls", "function_call"),
    )


# -- Errors of a provider -------------------------------------------------------------------------------


def failure_of_error(error: Exception, *, model: str, prompt: str, seconds: float | None = None) -> SummarizerError:
    """Whatever was raised between making the client and reading the answer; only a task's soft time limit is raised.

    Returned and not raised: a traceback would carry the request, key and all. Its detail contains neither a key nor
    text of ``prompt``.
    """
    # The client wraps what is raised while it sends.
    origin = error.__cause__ or error
    if isinstance(origin, SoftTimeLimitExceeded):
        raise origin from None
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        detail = f"no reply within {seconds:g} s" if seconds else "no reply in time"
        return SummarizerError(detail, error_code=ErrorCode.TIMEOUT, transient=True)
    if isinstance(error, openai.APIResponseValidationError) or is_unreadable(error):
        return SummarizerError(_MALFORMED, transient=True)
    if isinstance(error, openai.APIConnectionError):
        return SummarizerError("the connection failed", transient=True)
    if not isinstance(error, openai.APIStatusError):
        if not isinstance(error, openai.OpenAIError):
            log_error(logger, error, model=model)
        return SummarizerError(type(error).__name__)
    return failure_of(error.status_code, error.body, error.response.headers, model=model, prompt=prompt)
