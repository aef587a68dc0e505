"""The values that the templates show, and the words for the codes of ``compaction_app``.

``reading`` makes the values. A template only prints their words and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from compaction_app import values
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ChatContext, Role, RunStatus
from project.chat import markdown
from project.chat.uploads import TextFile

#: Messages on a page.
PAGE_SIZE = 40

#: Words for the states of an open run. A test compares them with the enum.
OPEN_RUNS = {
    RunStatus.READY: "Older messages will be summarized soon. You can go on writing.",
    RunStatus.RUNNING: "Older messages are being summarized. You can go on writing.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Variants:
    """The position of a message among its siblings."""

    number: int
    count: int
    previous_id: int | None
    next_id: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownMessage:
    """A message on the page."""

    id: int
    #: Its position on the branch, 1 for the first.
    number: int
    role: str
    speaker: str
    content: str
    #: Characters that are not on the page.
    hidden_characters: int
    tokens: int
    created_at: datetime
    #: The first message of its day on this page.
    starts_day: bool
    tool_calls: tuple[ToolCall, ...]
    #: A reply's Markdown as HTML, "" for other messages.
    html: str
    files: tuple[TextFile, ...]
    #: Names of pictures that were uploaded; the place of each is part of its address.
    pictures: tuple[str, ...]
    #: A line for each other attachment.
    attachments: tuple[str, ...]
    variants: Variants | None
    is_redacted: bool
    #: Its reader stopped it before its end.
    is_stopped: bool
    #: The user message of the turn in which the summary ends: still read in full.
    is_request: bool
    is_pinned: bool
    #: Replaced by the summary, and not read in full.
    is_covered: bool
    #: It does not fit the prompt.
    is_left_out: bool
    is_cutoff: bool
    #: The first message that is sent after some were left out.
    ends_gap: bool
    can_edit: bool
    #: A summary may end with it: the next message begins a turn.
    can_cut: bool
    can_regenerate: bool
    can_pin: bool
    #: It says no more than that others come before it, in the conversation that this one continues.
    stands_for_others: bool

    @property
    def has_controls(self) -> bool:
        return not self.stands_for_others and bool(
            self.variants or self.can_edit or self.can_regenerate or (self.content and self.role != Role.TOOL)
        )

    @property
    def is_blank(self) -> bool:
        return not (self.content or self.files or self.pictures or self.attachments)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A summary with its figures."""

    number: int | None
    text: str
    model: str
    tokens_before: int | None
    tokens_after: int | None
    messages_compacted: int | None
    cutoff_number: int
    pinned_number: int | None
    finished_at: datetime | None
    summary_id: int
    #: Why it is an extract, where models were asked and none wrote it.
    why_no_model: str = ""
    is_in_use: bool = True
    is_retired: bool = False
    is_on_branch: bool = True
    #: It tells of another conversation, which this one continues.
    is_handed_over: bool = False

    @property
    def html(self) -> SafeString:
        return markdown.render(self.text)

    @property
    def covers(self) -> str:
        if self.is_handed_over:
            return "Earlier messages are summarized"
        if self.cutoff_number == 1:
            return "Message 1 is summarized"
        return f"Messages 1–{self.cutoff_number} are summarized"

    @property
    def before(self) -> str:
        return _number(self.tokens_before)

    @property
    def after(self) -> str:
        return _number(self.tokens_after)


#: What fills the window, by the parts of a meter.
_PARTS = {
    "system_prompt": "Instructions",
    "summary": "Summary",
    "pins": "Pinned messages",
    "recalled": "Found again",
    "messages": "Messages",
    "reserved": "Room for the reply",
}


@dataclass(frozen=True, slots=True)
class Meter:
    """How full the context window is, in tokens and in percent of what is available for the history."""

    measured: values.Meter
    #: Nothing is summarized by itself.
    is_manual: bool = False

    def _percent(self, tokens: int, most: float) -> float:
        return round(min(most, 100 * tokens / max(self.measured.available, 1)), 2)

    @property
    def used_percent(self) -> float:
        return self._percent(self.measured.history, 100.0)

    @property
    def threshold_percent(self) -> float:
        return self._percent(self.measured.threshold, 99.0)

    @property
    def short(self) -> str:
        return f"{self.used_percent:.0f}% full"

    @property
    def words(self) -> str:
        above = f"Above {self.threshold_percent:.0f}% older messages"
        return (
            f"Of what the model can read of this conversation at once ({_number(self.measured.available)} tokens), "
            f"{self.used_percent:.0f}% are in use. "
            + (f"{above} should be summarized." if self.is_manual else f"{above} are summarized.")
        )

    @property
    def parts(self) -> list[tuple[str, str]]:
        """(name, tokens) of what fills the window."""
        sizes = [(name, getattr(self.measured, part)) for part, name in _PARTS.items()]
        return [(name, _number(tokens)) for name, tokens in sizes if tokens]

    @property
    def level(self) -> str:
        """The CSS class of its colour."""
        if self.measured.history > self.measured.available:
            return "full"
        return "over" if self.measured.history > self.measured.threshold else "calm"


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The figures of the context at the tip, and the state of its compaction."""

    context: ChatContext | None = None
    session: ChatSession | None = None
    #: Nothing is summarized, not even by hand.
    is_off: bool = False
    meter: Meter | None = None
    generation: Generation | None = None
    #: The state of the run that is open on this branch, if one is.
    open_run: str = ""
    #: Why the newest run on this branch failed, if it did.
    failure: str = ""
    #: Why there is no context at all.
    problem: str = ""

    @property
    def needs_summary(self) -> bool:
        """Messages do not fit, or the threshold is reached."""
        return bool(self.meter and self.context and (self.context.dropped or self.meter.level != "calm"))

    @property
    def awaits_a_person(self) -> bool:
        return self.needs_summary and not self.open_run and bool(self.meter and self.meter.is_manual)

    @property
    def read_now(self) -> str:
        """What the model reads of the conversation, in a sentence; "" where there is no context."""
        if self.context is None:
            return ""
        if self.session and self.session.is_handed_over and self.generation is None:
            return "The model does not know what was said before: it is in the chat before this one."
        if self.session and self.session.is_handed_over:
            return "The model reads a summary and all that follows."
        if self.generation is None:
            return f"The model reads the messages themselves{', as far as they fit' * bool(self.context.dropped)}."
        what = "a summary" if self.generation.is_on_branch else "quotes"
        return f"The model reads {what} of messages 1–{self.generation.cutoff_number} and all that follows."

    @property
    def cutoff_end(self) -> int:
        """The end of a page that shows the cutoff and some messages after it."""
        return self.generation.cutoff_number + PAGE_SIZE // 2 if self.generation else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchPage:
    session: ChatSession
    tip: ChatMessage | None
    state: State
    messages: Sequence[ShownMessage] = ()
    #: Depth of the last message shown here.
    end: int = 0
    #: Depths at which the pages before and after this one end.
    earlier: int | None = None
    later: int | None = None

    @property
    def is_newest(self) -> bool:
        return self.later is None

    @property
    def awaits_reply(self) -> bool:
        """The last message has no reply: it failed, or is not here yet."""
        return self.tip is not None and self.is_newest and self.tip.role != Role.ASSISTANT


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
