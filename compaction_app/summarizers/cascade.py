"""The summarizer that asks models: a cascade, behind any OpenAI-compatible endpoint.

Which model is asked next is decided by coroutines: see :mod:`waiting`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import sys
from collections import defaultdict
from collections.abc import Coroutine
from contextvars import copy_context
from dataclasses import astuple, replace
from functools import partial
from typing import Any

from compaction_app.conf import Settings, load_function
from compaction_app.context import windows
from compaction_app.context.windows import Habits
from compaction_app.exceptions import ConfigurationError
from compaction_app.messages.validation import make_storable
from compaction_app.summarizers.base import Answer, Drafting, Failure, Summarizer, ask_summarizer
from compaction_app.summarizers.drafts import NORMAL_ENDS, mended
from compaction_app.summarizers.openai import Clients, ModelEntry, call_model, model_entries
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR, count_request
from compaction_app.summarizers.waiting import BLOCKING, Way, without_waiting
from compaction_app.tokens import Count
from compaction_app.values import Capacity, ErrorCode, EventKind, SummaryDraft, SummaryRequest

#: Its locks cannot be shared with a real thread, which a model's call needs (see :func:`replaced_threads`).
NO_EVENTLET = "eventlet has replaced Python's threads: asking a model would stop the database work of other greenlets."
USE_GEVENT = "Use Celery's prefork pool, or gevent (-P gevent)."


#: Ratios of tokens that differ by less are not written again.
_SAME_RATIO = 0.05
#: A reply with at most 1.25 times the tokens of its draft, and 50 more, holds the draft alone: nothing was reasoned.
_BESIDE, _FEW = 1.25, 50


class OpenAISummarizer(Summarizer):
    """A cascade of models behind any OpenAI-compatible endpoint.

    Each model is asked once, plus one tighter retry of a draft that was too long; after a failure or a refused draft
    the next model is asked. ``clients`` makes the client of an entry, a new one for every call, which is closed
    afterwards: the place for a host's proxies and certificates.
    """

    def __init__(self, settings: Settings, *, clients: Clients | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        if replaced_threads() == "eventlet":
            raise ConfigurationError(f"{NO_EVENTLET} {USE_GEVENT}")
        entries = model_entries(settings, self.session_model)
        # The cache may be a database, which an event loop must not wait for.
        known: dict[tuple[str, str], Capacity] = {}
        #: By address and model: as they were remembered, and as they are now.
        self._former_habits: dict[tuple[str, str], Habits] = {}
        if not _is_loop_running():
            places = [entry.place for entry in entries]
            known, self._former_habits = windows.recall(places), windows.recall_habits(places)
        self._habits = defaultdict(Habits, self._former_habits)
        #: By the same, in its own tokens: with how many its server may have cut a request.
        self._limits = {one.place: (one.max_input_tokens, sum(astuple(one.capacity))) for one in entries}
        #: In the order in which they are asked. An entry is replaced when its provider says how small its window is.
        self.entries = tuple(
            entry.counting(self._habits[entry.place].ratio).limited_to(known.get(entry.place)) for entry in entries
        )
        #: What providers said of their windows, by address and model, for :meth:`learn`.
        self.learned: dict[tuple[str, str], Capacity] = {}
        #: By the same: the share of a request that a provider said it had read.
        self._shares: dict[tuple[str, str], float] = {}
        #: By the same: the tokens of a reply that filled the window.
        self._replies: dict[tuple[str, str], int] = {}
        self._clients = clients
        self._count: Count = load_function(settings.token_counter)

    @property
    def max_input_tokens(self) -> int | None:  # type: ignore[override]  # what is learned changes it
        """What to plan for: the first model's limit. A later model that is too small for a request is skipped."""
        return self.entries[0].max_input_tokens if self.entries else None

    @property
    def max_output_tokens(self) -> int | None:  # type: ignore[override]
        """Of ours: what the model writes are its own."""
        if not self.entries:
            return None
        return max(1, int(self.entries[0].max_output_tokens / self._habits[self.entries[0].place].ratio))

    def learn(self, error_code: str = "") -> None:
        """Keep what was learned for the next runs; forget it where no request was small enough."""
        if error_code == ErrorCode.INPUT_TOO_LARGE:
            windows.forget([entry.place for entry in self.entries])
            return
        if self.learned:
            windows.remember(self.learned)
        changed = {}
        for place, (ratio, is_plain) in self._habits.items():
            former = self._former_habits.get(place, Habits())
            # Written seldom: most requests are counted nearly as the one before.
            if is_plain != former.is_plain or abs(ratio - former.ratio) > _SAME_RATIO:
                changed[place] = Habits(ratio, is_plain)
        if changed:
            windows.remember_habits(changed)

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        # Not a subclass's steps, which would call this again.
        steps = partial(OpenAISummarizer.steps, self)
        return without_waiting(ask_summarizer(self, request, way=BLOCKING, steps=steps))

    async def asummarize(self, request: SummaryRequest) -> SummaryDraft:
        return await ask_summarizer(self, request, steps=partial(OpenAISummarizer.steps, self))

    async def steps(self, drafting: Drafting, way: Way) -> SummaryDraft:
        size = count_request(drafting.request, self._count)
        for entry in self.entries:
            before = len(drafting.failures)
            if draft := await self._draft_of(entry, drafting, size, way):
                # A failed run names them in its error.
                for model, code in dict.fromkeys((failed.model, failed.code) for failed in drafting.failures[:before]):
                    if drafting.on_event:
                        drafting.on_event(EventKind.MODEL_FAILED, {"model": model, "code": code})
                return draft
        raise drafting.error()

    async def _draft_of(self, entry: ModelEntry, drafting: Drafting, size: int, way: Way) -> SummaryDraft | None:
        """Ask one model, and once more with a shorter reply where its window leaves no room for a longer one."""
        if size > entry.max_input_tokens:
            detail = f"{size} tokens, takes {entry.max_input_tokens}"
            drafting.fail(Failure(model=entry.model, code=ErrorCode.INPUT_TOO_LARGE, detail=detail))
        for _ in range(2):
            if size > entry.max_input_tokens:
                break
            draft = await drafting.request_draft(partial(self._ask, entry, drafting, way, size), entry.model)
            overflow = drafting.failures[-1].overflow if draft is None else None
            if overflow is None:
                if draft and windows.read_usage(draft, size):
                    # It counts fewer tokens, and nothing was cut.
                    self.learned.pop(entry.place, None)
                return draft
            if overflow.ended_reply:
                reply = (overflow.window or 0) - (overflow.sent or 0)
                if reply == self._replies.get(entry.place):
                    # With less to read it ends at the same length: that is the server's own limit, and no window.
                    drafting.failures[-1] = replace(drafting.failures[-1], code=ErrorCode.TRUNCATED, overflow=None)
                    self.learned.pop(entry.place, None)
                    return None
                self._replies[entry.place] = reply
            self._shares[entry.place] = (overflow.sent or 0) / size
            entry = self._narrow(entry, windows.narrowed(entry.capacity, overflow, size), learn=not overflow.is_rate)
        else:
            # It refused what its own numbers allow: less still.
            entry = self._narrow(entry, windows.halved(size))
        drafting.too_small.append(entry.capacity)
        return None

    async def _ask(self, entry: ModelEntry, drafting: Drafting, way: Way, size: int, request: SummaryRequest) -> Answer:
        """Ask a model, and see how it counts, whether it reasons, and whether all was read.

        One that never did may write little more than the longest draft: if it runs on, it is stopped.
        """
        habits, most = self._habits[entry.place], entry.max_output_tokens
        if habits.is_plain:
            longest = OVERSIZE_FACTOR * drafting.request.target_tokens
            most = min(most, int(_BESIDE * habits.ratio * longest) + _FEW)
        limited = replace(entry, max_output_tokens=most, timeout=min(entry.timeout, self.time_left()))
        call = call_model(limited, request, self._clients)
        answer = await call if way.is_awaited else _run(call)
        if not isinstance(answer, SummaryDraft) or not answer.input_tokens:
            return answer
        ratio, is_plain = windows.ratio_after(answer.input_tokens, size, habits.ratio), habits.is_plain
        if answer.output_tokens:
            read = replace(answer, text=make_storable(answer.text))
            written = _BESIDE * ratio * self._count([mended(read, request.max_output_tokens).text])[0] + _FEW
            is_plain = answer.output_tokens <= written and is_plain is not False
        self._habits[entry.place] = Habits(ratio, is_plain)
        if not is_plain and most < entry.max_output_tokens and answer.finish_reason not in NORMAL_ENDS:
            # It reasons about some requests only.
            drafting.calls += answer.paid_calls
            return await self._ask(entry, drafting, way, size, request)
        limits = (*self._limits[entry.place], entry.max_input_tokens, sum(astuple(entry.capacity)))
        if overflow := windows.read_usage(answer, size, self._shares.get(entry.place), limits):
            drafting.calls += answer.paid_calls
            detail = f"read {overflow.sent} of {size} tokens"
            return Failure(model=entry.model, code=ErrorCode.INPUT_TOO_LARGE, detail=detail, overflow=overflow)
        return answer

    def _narrow(self, entry: ModelEntry, capacity: Capacity, *, learn: bool = True) -> ModelEntry:
        narrowed = entry.limited_to(capacity)
        self.entries = tuple(narrowed if one is entry else one for one in self.entries)
        if learn:
            self.learned[entry.place] = narrowed.capacity
        return narrowed


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
