"""What a summarizer is, and how any of them is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from compaction_app.conf import Settings, load, load_function
from compaction_app.exceptions import ConfigurationError, SummarizerError
from compaction_app.memory.extractive import extractive_draft
from compaction_app.summarizers.attempt import Accept, Attempt, OnEvent, TimeLeft, errors_of, unlimited
from compaction_app.summarizers.prompts import wrong_draft
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, without_waiting
from compaction_app.values import SummaryDraft, SummaryRequest

#: What a summarizer does in order.
Steps = Callable[[Attempt, Way], Awaitable[SummaryDraft]]


class Summarizer:
    """Writes summaries: the base class of ``BACKEND``. A subclass needs :meth:`summarize`; the rest has defaults.

    An instance is made for each run, from the run's ``settings``; its own entry is ``settings.summarizer_entry``.
    """

    #: Tokens of the largest request, by the site's counter, and of the longest draft; None: no limit.
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    #: Whether it reads the reasoning of messages. If it does not, its runs report none as summarized.
    reads_reasoning: bool = True
    #: Whether it reads the messages after those that it summarizes.
    looks_ahead: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).keys()
        if "steps" not in own and {"summarize", "asummarize"} & own:
            # What a subclass writes is asked, and not what a class above it does in its place.
            cls.steps = Summarizer.steps  # type: ignore[method-assign]
            if "asummarize" not in own:
                cls.asummarize = Summarizer.asummarize  # type: ignore[method-assign]

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

    async def steps(self, attempt: Attempt, way: Way) -> SummaryDraft:
        """An accepted draft: asked for once, and once more if it is too long."""
        name = type(self).__name__

        async def ask(request: SummaryRequest) -> SummaryDraft:
            draft = await way.call(self.asummarize if way.is_awaited else self.summarize, request)
            if wrong := wrong_draft(draft):
                raise SummarizerError(f"{name} must return a SummaryDraft, not {wrong}.", model=name)
            accepted: SummaryDraft = draft
            return accepted

        if draft := await attempt.request_draft(ask, name):
            return draft
        raise attempt.error()


class ExtractiveSummarizer(Summarizer):
    """Quotes the most telling sentences. Deterministic, without network: the same request gives the same bytes."""

    #: It quotes messages, never reasoning.
    reads_reasoning = False
    looks_ahead = False

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return extractive_draft(request, load_function(self.settings.token_counter))


def make_summarizer(settings: Settings, session_model: str = "", time_left: TimeLeft = unlimited) -> Summarizer:
    """The summarizer of the entry that ``SUMMARIZER`` names; :class:`ConfigurationError` where there is none."""
    if (name := settings.summarizer.name) not in settings.summarizers:
        # Not the default one instead: a session may have chosen where its conversation is sent.
        raise ConfigurationError(f"SUMMARIZERS has no {name!r}, which this session has chosen.")
    if problem := find_backend_problem(settings.summarizer_entry.backend):
        raise ConfigurationError(problem)
    made: Summarizer = load(settings.summarizer_entry.backend)(
        settings, session_model=session_model, time_left=time_left
    )
    return made


def find_backend_problem(path: str) -> str:
    """What is wrong with a ``BACKEND``; "" for a summarizer."""
    named = load(path)
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
    attempt = Attempt(request, accept, on_event, summarizer.time_left)
    with errors_of(type(summarizer).__name__, attempt.calls):
        return await (steps or summarizer.steps)(attempt, way)
