"""The values that the templates show, and the words for the codes of ``compaction_app``.

``reading`` makes the values. A template only prints their words and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_noop as _

from compaction_app import values
from compaction_app.conf import Mode
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ChatContext, Role, RunStatus
from project.chat import markdown
from project.chat.uploads import TextFile, number

#: Messages on a page.
PAGE_SIZE = 40

#: Words for the states of an open run. A test compares them with the enum.
OPEN_RUNS = {
    RunStatus.READY: _("Older messages will be summarized soon"),
    RunStatus.RUNNING: _("Older messages are being summarized"),
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
class Linked:
    """A message of this branch, or of the chat before this one, as a list names it."""

    id: int
    number: int
    address: str
    #: How it begins, or the place for which it was looked up.
    text: str


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
    #: What was looked up for this reply.
    looked_up: tuple[Linked, ...]
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
    #: Brought from another branch.
    is_carried: bool

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
    #: A person put another text in its place.
    is_corrected: bool = False
    #: False where nothing could take its place: it tells of another conversation, and there is none before it.
    can_undo: bool = True
    is_on_branch: bool = True
    #: It tells of another conversation, which this one continues.
    is_handed_over: bool = False

    @property
    def html(self) -> SafeString:
        return markdown.render_summary(self.text)

    @property
    def figures(self) -> str:
        """Tokens sent before and after; "" for one that came along from another conversation."""
        is_known = self.tokens_before is not None or self.tokens_after is not None
        return f"{self.before} → {self.after}" if is_known else ""

    @property
    def covers(self) -> str:
        if self.is_handed_over:
            return gettext("Earlier messages are summarized")
        if self.cutoff_number == 1:
            return gettext("Message 1 is summarized")
        return gettext("Messages 1–{last} are summarized").format(last=self.cutoff_number)

    @property
    def author(self) -> str:
        """Who or what wrote it."""
        if self.model == "extractive":
            told = gettext("no model; it is made of quotes")
            return f"{told} ({self.why_no_model})" if self.why_no_model else told
        return gettext("a person") if self.model == "person" else self.model or gettext("a model")

    @property
    def before(self) -> str:
        return _number(self.tokens_before)

    @property
    def after(self) -> str:
        return _number(self.tokens_after)


#: What fills the window, by the parts of a meter.
_PARTS = {
    "system_prompt": _("Instructions"),
    "summary": _("Summary"),
    "pins": _("Pinned messages"),
    "recalled": _("Found again"),
    "messages": _("Messages"),
    "reserved": _("Room for the reply"),
}


@dataclass(frozen=True, slots=True)
class Meter:
    """How full the context window is, in tokens and in percent of what is available for the history."""

    measured: values.Meter
    mode: str = Mode.STANDARD

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
        return gettext("{percent}% full").format(percent=number(self.used_percent))

    @property
    def words(self) -> str:
        told = [
            gettext("Of what the model can read of this conversation at once ({tokens} tokens), {percent}% are in use.")
        ]
        if self.mode == Mode.MANUAL:
            told.append(gettext("Above {threshold}% older messages should be summarized."))
        elif self.mode != Mode.OFF:
            told.append(gettext("Above {threshold}% older messages are summarized."))
        percents = {"percent": number(self.used_percent), "threshold": number(self.threshold_percent)}
        return " ".join(told).format(tokens=number(self.measured.available), **percents)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """(name, tokens) of what fills the window."""
        sizes = [(name, getattr(self.measured, part)) for part, name in _PARTS.items()]
        return [(gettext(name), number(tokens)) for name, tokens in sizes if tokens]

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
    #: Of the tip.
    depth: int = 0
    meter: Meter | None = None
    generation: Generation | None = None
    #: The state of the run that is open on this branch, if one is.
    open_run: str = ""
    #: Why the newest run on this branch failed, if it did.
    failure: str = ""
    #: A limit of spending is reached, so no summary is written.
    is_paused: bool = False
    #: Why there is no context at all.
    problem: str = ""

    @property
    def is_off(self) -> bool:
        """Nothing is summarized, not even by hand."""
        return self.meter is not None and self.meter.mode == Mode.OFF

    @property
    def needs_summary(self) -> bool:
        """Messages do not fit, or the threshold is reached."""
        return bool(self.meter and self.context and (self.context.dropped or self.meter.level != "calm"))

    @property
    def awaits_a_person(self) -> bool:
        is_manual = self.meter is not None and self.meter.mode == Mode.MANUAL
        return is_manual and self.needs_summary and not (self.open_run or self.failure or self.is_paused)

    @property
    def told(self) -> str:
        """What is so with the older messages, in one sentence; "" where nothing is to be said."""
        left_out, what = self.context.dropped if self.context else 0, self.problem or self._what
        if what and left_out and not self.is_off:
            told = ngettext(
                "{what}; until there is a summary, {n} message is left out of what the model reads.",
                "{what}; until there is a summary, {n} messages are left out of what the model reads.",
                left_out,
            )
            return told.format(what=what, n=number(left_out))
        if left_out:
            told = ngettext(
                "{n} older message is left out of what the model reads.",
                "{n} older messages are left out of what the model reads.",
                left_out,
            )
            return told.format(n=number(left_out))
        if self.open_run:
            return gettext("{what}. You can go on writing.").format(what=what)
        return what if not what or self.problem else f"{what}."

    @property
    def _what(self) -> str:
        if self.open_run or self.failure:
            return self.open_run or self.failure
        if self.is_paused:
            return gettext("Summaries are paused for a while")
        return gettext("This conversation is getting too long for the model") if self.awaits_a_person else ""

    @property
    def read_now(self) -> str:
        """What the model reads of the conversation, in a sentence; "" where there is no context."""
        if self.context is None:
            return ""
        if self.session and self.session.is_handed_over and self.generation is None:
            return gettext("The model does not know what was said before: it was in the chat before this one.")
        if self.generation is None and self.context.dropped:
            return gettext("The model reads the messages themselves, as far as they fit.")
        if self.generation is None:
            return gettext("The model reads the messages themselves.")
        if self.session and self.session.is_handed_over:
            what = gettext("a summary")
        elif self.generation.is_on_branch:
            what = gettext("a summary of messages 1–{last}")
        else:
            what = gettext("quotes of messages 1–{last}")
        told = (
            gettext("The model reads {what}, and of what follows as much as fits.")
            if self.context.dropped
            else gettext("The model reads {what} and all that follows.")
        )
        return told.format(what=what.format(last=self.generation.cutoff_number))

    @property
    def cutoff_end(self) -> int:
        """The end of a page that shows the cutoff and some messages after it: of the newest page, if that has it."""
        if self.generation is None:
            return 0
        cutoff = self.generation.cutoff_number
        return self.depth if self.depth - cutoff < PAGE_SIZE else cutoff + PAGE_SIZE // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchPage:
    session: ChatSession
    tip: ChatMessage | None
    state: State
    messages: Sequence[ShownMessage] = ()
    #: The messages of the branch that are pinned, wherever they stand.
    pins: Sequence[Linked] = ()
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
        is_asked = self.tip is not None and self.is_newest and self.tip.role != Role.ASSISTANT
        return is_asked and not (self.messages and self.messages[-1].is_carried)


def _number(value: int | None) -> str:
    return "?" if value is None else number(value)
