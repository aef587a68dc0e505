"""What the templates show, as values: frozen, and read by nobody but them.

A template asks for words and numbers only; how they come about stands here and in ``reading``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ChatContext, Role, Strategy

#: Messages on a page.
PAGE_SIZE = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Variants:
    """Where a message stands among its siblings."""

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
    """A message as the page shows it."""

    id: int
    #: Its place on the branch, 1 for the first.
    number: int
    role: str
    speaker: str
    content: str
    #: Characters that are not on the page.
    hidden_characters: int
    tokens: int
    created_at: datetime
    #: The first of its day on this page.
    starts_day: bool
    tool_calls: tuple[ToolCall, ...]
    attachments: tuple[str, ...]
    variants: Variants | None
    is_redacted: bool
    is_pinned: bool
    #: The summary stands for it, and it is not shown beside it.
    is_covered: bool
    #: The prompt has no room for it.
    is_left_out: bool
    is_cutoff: bool
    #: The first that is sent after some were left out.
    ends_gap: bool
    can_edit: bool
    can_regenerate: bool

    @property
    def only_calls(self) -> bool:
        return bool(self.tool_calls) and not self.content and not self.attachments


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
    anchor_number: int | None
    pinned_number: int | None
    finished_at: datetime | None
    is_in_use: bool = True
    is_retired: bool = False
    is_on_branch: bool = True

    @property
    def before(self) -> str:
        return _words(self.tokens_before)

    @property
    def after(self) -> str:
        return _words(self.tokens_after)


@dataclass(frozen=True, kw_only=True, slots=True)
class Meter:
    """How full the window is, in tokens and in percent of what is available for the history."""

    used: int
    threshold: int
    available: int
    used_percent: float
    threshold_percent: float

    @property
    def words(self) -> str:
        used, threshold, available = _words(self.used), _words(self.threshold), _words(self.available)
        return f"{used} of {available} tokens used; compacted above {threshold}"

    @property
    def level(self) -> str:
        """A word for its colour."""
        if self.used > self.available:
            return "full"
        return "over" if self.used > self.threshold else "calm"


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """What a model would be shown at the tip, and how compaction stands."""

    tip: ChatMessage | None
    context: ChatContext | None = None
    meter: Meter | None = None
    strategy: str = ""
    generation: Generation | None = None
    #: A run is open on this branch; in words.
    open_run: str = ""
    #: Why the newest run on this branch failed, if it did.
    failure: str = ""
    #: Why there is no context at all.
    problem: str = ""

    @property
    def is_truncated(self) -> bool:
        return self.context is not None and self.context.strategy == Strategy.TRUNCATED

    @property
    def left_out_words(self) -> str:
        dropped = self.context.dropped if self.context else 0
        if not dropped:
            return "long tool results are shortened"
        return f"the oldest {_words(dropped)} messages are left out" if dropped > 1 else "a message is left out"

    @property
    def cutoff_end(self) -> int:
        """Where a page ends that holds the cutoff with some of what follows it."""
        return self.generation.cutoff_number + PAGE_SIZE // 2 if self.generation else 0

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Every figure of the context, for those who want to know."""
        if self.context is None:
            return []
        return [
            ("Context window", _words(self.context.window)),
            ("Reserved", _words(self.context.reserved_tokens)),
            ("Available", _words(self.context.available_tokens)),
            ("Threshold", _words(self.context.threshold)),
            ("Target", _words(self.context.target)),
            ("History", _words(self.context.history_tokens)),
            ("Sent in all", _words(self.context.tokens)),
            ("Tool results shortened", _words(self.context.pruned)),
            ("Messages left out", _words(self.context.dropped)),
            ("How", self.strategy),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchPage:
    session: ChatSession
    tip: ChatMessage | None
    panel: Panel
    messages: Sequence[ShownMessage] = ()
    #: Depth of the last message shown here.
    end: int = 0
    #: Depths that the pages before and after this one end at.
    earlier: int | None = None
    later: int | None = None
    generations: Sequence[Generation] = field(default=())

    @property
    def is_newest(self) -> bool:
        return self.later is None

    @property
    def awaits_reply(self) -> bool:
        """The last message is nobody's answer: the reply failed, or is still on its way."""
        return self.tip is not None and self.is_newest and self.tip.role != Role.ASSISTANT


def _words(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
