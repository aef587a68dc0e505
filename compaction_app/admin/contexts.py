"""What the model would be sent at a message, as a table. Made by the function that a chat turn calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compaction_app import branches, chat
from compaction_app.admin.display import name_and_arguments, number, shortened
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage
from compaction_app.values import ChatContext, ContextMessage, Origin, Strategy

ORIGIN_WORDS = {
    Origin.SYSTEM: "System prompt",
    Origin.CONTRIBUTION: "Contribution",
    Origin.SUMMARY: "Summary",
    Origin.PINNED: "Pinned",
    Origin.VERBATIM: "Verbatim",
    Origin.PRUNED: "Pruned",
}

STRATEGY_WORDS = {
    Strategy.NONE: "Everything verbatim",
    Strategy.TOOL_RESULT_BUDGET: "Old tool results pruned",
    Strategy.MICRO_COMPACT: "White space in old tool results collapsed",
    Strategy.AUTO_COMPACT: "A summary is in use, or needed",
    Strategy.TRUNCATED: "Messages left out: the history does not fit the window now",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One message of a context."""

    origin: Origin
    role: str
    tokens: int
    text: str
    #: Names and arguments of the tools it calls.
    calls: tuple[str, ...]
    left_out_bytes: int
    message_id: int | None
    #: Page of the original; "" for what is not stored.
    url: str

    @property
    def origin_words(self) -> str:
        return ORIGIN_WORDS[self.origin]

    @property
    def original(self) -> str:
        return f"{'Summary' if self.origin == Origin.SUMMARY else 'Message'} {self.message_id}"


@dataclass(frozen=True, slots=True)
class ContextHere:
    """A context with its rows, or the reason why there is none."""

    context: ChatContext | None = None
    #: Tokens of the whole history, before anything was pruned or left out: what the trigger compares.
    whole_history: int = 0
    rows: tuple[Row, ...] = ()
    problem: str = ""

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """The numbers behind it, as people read them."""
        if self.context is None:
            return ()
        return (
            ("History in full", number(self.whole_history)),
            ("Threshold", number(self.context.threshold)),
            ("Target", number(self.context.target)),
            ("Window", number(self.context.window)),
            ("Reserved", number(self.context.reserved_tokens)),
            ("Sent in all", number(self.context.tokens)),
            ("Pruned", number(self.context.pruned)),
            ("Left out", number(self.context.dropped)),
            ("Strategy", STRATEGY_WORDS[self.context.strategy]),
        )

    @property
    def fullness(self) -> str:
        if self.context is None:
            return ""
        history, available = number(self.context.history_tokens), number(self.context.available_tokens)
        return f"{history} of {available} available tokens ({self.percent} %)"

    @property
    def percent(self) -> int:
        """How full the history's share of the window is."""
        if self.context is None or self.context.available_tokens <= 0:
            return 0
        return self.context.history_tokens * 100 // self.context.available_tokens

    @property
    def over_threshold(self) -> bool:
        return self.context is not None and self.whole_history > self.context.threshold


def context_here(message: ChatMessage, url_of: Callable[[int], str]) -> ContextHere:
    """What the model would be sent at this message; a context that can not be made says why."""
    try:
        context = chat.get_context(message)
    except CompactionError as error:
        return ContextHere(problem=str(error))
    return ContextHere(
        context=context,
        whole_history=branches.history_at(message.pk, branches.using_of(message)).tokens,
        rows=tuple(_row(shown, url_of) for shown in context.messages),
    )


def _row(shown: ContextMessage, url_of: Callable[[int], str]) -> Row:
    calls = [shortened("{}({})".format(*name_and_arguments(call))) for call in shown.tool_calls]
    return Row(
        origin=shown.origin,
        role=shown.role,
        tokens=shown.tokens,
        text=shortened(shown.content),
        calls=tuple(calls),
        left_out_bytes=shown.left_out_bytes,
        message_id=shown.message_id,
        url=url_of(shown.message_id) if shown.message_id is not None else "",
    )
