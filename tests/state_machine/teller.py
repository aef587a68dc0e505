"""The machine's summarizer. Its texts quote what it was shown, so that a leak shows in the text itself, and it
keeps a ledger of every request. In the middle of a call it can let something else happen first."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import connections

from compaction_app.exceptions import SummarizerError
from compaction_app.messages.transcript import marker
from compaction_app.summarizers import Summarizer
from compaction_app.values import SummaryDraft, SummaryRequest
from tests.state_machine.model import SERIAL, count, serials_in

KEY = re.compile(r"K(\d+)K")
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_PINNED = re.compile(r"<pinned>(.*?)</pinned>", re.DOTALL)
#: What is no message of the look-ahead behind the cutoff.
_BESIDE = re.compile(r"<(instructions|working-memory)>(.*?)</\1>", re.DOTALL)

#: What was carried over from another branch, which is told but has no serial of its own.
_CARRIED = re.compile(r"\[From Another Branch\].*?</user>", re.DOTALL)

#: How a call can end, and the code that the run must then carry.
REFUSED = {
    "empty": "empty",
    "short": "too_short",
    "length": "truncated",
    "refusal": "refused",
    "tool_call": "tool_call",
    "leak": "leaked_wrapper",
    "oversize": "oversize",
    "no_progress": "no_progress",
}
FAILED = {"permanent": "bad_request", "crash": "provider_error"}
TRANSIENT = {"transient": "provider_error", "timeout": "timeout"}


@dataclass(frozen=True)
class Answer:
    """How one call is to go: ``during`` names what happens meanwhile, ``kind`` how it ends."""

    kind: str = "good"
    fill: float = 0.5
    during: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class Told:
    """What a summarizer was shown in one request."""

    key: int
    nonce: str
    previous: int | None
    covered: tuple[int, ...]
    lookahead: tuple[int, ...]
    #: Serials as they stand in the text that is sent.
    covered_serials: tuple[int, ...]
    lookahead_serials: tuple[int, ...]
    pinned_serials: tuple[int, ...]
    target_tokens: int
    #: The summarizer's own limit then.
    max_input: int | None


class TellingSummarizer(Summarizer):
    """What ``BACKEND`` names. The app makes an instance a run; the teller behind them is one."""

    max_input_tokens: ClassVar[int | None] = None
    #: It tells something in a few tokens; else extracts would stand in for most of what it is asked for.
    smallest_target = 1
    teller: ClassVar[Any] = None

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return self.teller.tell(request)

    async def asummarize(self, request: SummaryRequest) -> SummaryDraft:
        return self.teller.tell(request)


class Teller:
    def __init__(self, during: Callable[[SummaryRequest, tuple[str, int, int]], None]) -> None:
        self.during = during
        self.script: deque[Answer] = deque()
        self.ledger: dict[int, Told] = {}
        #: For each request what was written, and the tokens of what it covers.
        self.texts: dict[int, str] = {}
        self.covered: dict[int, dict[int, int]] = {}
        #: What went wrong inside a call, where an exception would be taken for the summarizer's own.
        self.faults: list[BaseException] = []
        self.calls = 0

    def tell(self, request: SummaryRequest) -> SummaryDraft:
        held = connections["default"].connection is not None
        answer = self.script.popleft() if self.script else Answer()
        self.calls += 1
        try:
            assert not held, "a database connection is held while the model is called (rule 8)"
            told = self._note(request)
            if answer.during:
                self.during(request, answer.during)
        except Exception as fault:
            self.faults.append(fault)
            raise
        if answer.kind in {"oversize", "oversize_once"}:
            self.script.appendleft(Answer(kind="oversize_again" if answer.kind == "oversize" else "good"))
        return self._draft(answer, request, told)

    def _note(self, request: SummaryRequest) -> Told:
        before, _, after = _CARRIED.sub("</user>", request.user).partition(marker(request.nonce))
        previous, pinned = _PREVIOUS.search(before), _PINNED.search(before)
        told = Told(
            key=len(self.ledger) + 1,
            nonce=request.nonce,
            # An extract has no key but those that it quotes.
            previous=int(next(iter(KEY.findall(previous[1])), 0)) if previous else None,
            covered=tuple(message.id for message in request.covered),
            lookahead=tuple(message.id for message in request.lookahead),
            covered_serials=_in_order(_PINNED.sub("", _PREVIOUS.sub("", before))),
            lookahead_serials=_in_order(_BESIDE.sub("", after)),
            pinned_serials=_in_order(pinned[1]) if pinned else (),
            target_tokens=request.target_tokens,
            max_input=TellingSummarizer.max_input_tokens,
        )
        self.ledger[told.key] = told
        return told

    def _draft(self, answer: Answer, request: SummaryRequest, told: Told) -> SummaryDraft:
        quote = f"about #s{told.covered_serials[0]}#" if told.covered_serials else "about nothing"
        if answer.kind == "transient":
            raise SummarizerError(f"Away, {quote}.", error_code="provider_error", transient=True, retry_after=7.0)
        if answer.kind == "permanent":
            raise SummarizerError(f"Bad request {quote}.", error_code="bad_request")
        if answer.kind == "timeout":
            raise TimeoutError(f"too slow {quote}")
        if answer.kind == "crash":
            raise RuntimeError(f"crashed {quote}")
        text = self._text(answer, request, told)
        self.texts[told.key] = text
        self.covered[told.key] = {message.id: message.tokens for message in request.covered}
        return SummaryDraft(
            text=text,
            finish_reason="length" if answer.kind == "length" else "stop",
            model="teller",
            refused=answer.kind == "refusal",
            tool_called=answer.kind == "tool_call",
            input_tokens=count(request.user),
            output_tokens=count(text),
        )

    def _text(self, answer: Answer, request: SummaryRequest, told: Told) -> str:
        if answer.kind == "empty":
            return " \n "
        if answer.kind == "short":
            return f"K{told.key}K".ljust(29, ".")
        size = max(30, int(4 * request.target_tokens * answer.fill))
        if answer.kind in {"oversize", "oversize_once"}:
            size = 4 * int(request.target_tokens * 1.6) + 40
        if answer.kind == "oversize_again":
            # Asked for 0.7 of the target, and still over 1.5 times of the whole.
            size = 4 * int(request.target_tokens * 2.4) + 40
        if answer.kind == "no_progress":
            size = max(30, 4 * int(request.target_tokens * 1.5))
        text = f"Recap K{told.key}K."
        for number, serial in enumerate(sorted(serials_in(request.user), reverse=True)):
            quoted = f"{text} #s{serial}#"
            # A short draft that tells nothing of what it replaces is refused, so one of them is always there.
            if number and len(quoted) > size - 2:
                break
            text = quoted
        if answer.kind == "leak":
            # Within a line it cannot be cut out.
            text += " <user> said"
        return f"{text} ".ljust(size, "x")


def _in_order(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in SERIAL.findall(text)))
