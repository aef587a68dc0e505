"""The enums of this app, and the frozen values that its pure logic works on.

Values know nothing of storage: ``tree.branches`` makes them from rows; planning, pruning, transcripts and prompts
take and return them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Required, TypedDict

from compaction_app.messages.openai_format import to_openai, with_address

if TYPE_CHECKING:
    from uuid import UUID

Json = Any

#: The model name in drafts of the extractive summarizer, which calls no model and is free.
EXTRACTIVE_MODEL = "extractive"
#: That of summaries that a person wrote.
PERSON = "person"
#: Stands before the ledger where a summary is shown. What stands under it elsewhere is no ledger.
LEDGER_HEADING = "## Kept word for word"
#: The first line of an extract.
EXTRACT_HEADING = "## Quoted from the conversation"


def with_ledger(text: str, ledger: str) -> str:
    """A summary as it is read: its text, and its ledger under a heading."""
    return f"{text}\n\n{LEDGER_HEADING}\n{ledger}" if ledger else text


class Kind(StrEnum):
    """What a node of the tree is."""

    MESSAGE = "message"
    SUMMARY = "summary"


class Role(StrEnum):
    """Who wrote a message."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Trigger(StrEnum):
    """Why a compaction was requested."""

    #: The history is over its threshold, or a policy forced it.
    THRESHOLD = "threshold"
    #: Somebody asked for it.
    MANUAL = "manual"
    #: The provider found the prompt too long.
    OVERFLOW = "overflow"
    #: Somebody carries over what this branch has below a fork: the summary is for another branch, never for this one.
    CARRY_OVER = "carry_over"


#: As callers write them: a member of the enum or its value, so that a type checker refuses any other.
RoleName = Role | Literal["system", "developer", "user", "assistant", "tool"]
TriggerName = Trigger | Literal["threshold", "manual", "overflow"]


class RunStatus(StrEnum):
    """How far a run is."""

    #: Waits for a worker, for the first time or for another attempt.
    READY = "ready"
    #: A worker has it.
    RUNNING = "running"
    #: It stored a summary; with an ``error_code``, an extract, since no model wrote one.
    SUCCEEDED = "succeeded"
    #: Permanently: ``error_code`` says why.
    FAILED = "failed"
    #: Without an error and without a summary: ``skip_reason`` says why.
    SKIPPED = "skipped"


#: Of runs that are not finished.
OPEN_RUN_STATUSES = (RunStatus.READY, RunStatus.RUNNING)


class Strategy(StrEnum):
    """The last layer that a context needed, from free to paid (see ``context.assembly``)."""

    NONE = "none"
    #: Old tool results are shortened.
    TOOL_RESULT_BUDGET = "tool_result_budget"
    #: Whitespace in them is collapsed, too.
    MICRO_COMPACT = "micro_compact"
    #: A summary is shown in place of older messages.
    AUTO_COMPACT = "auto_compact"
    #: Messages would not fit, but a summary of another branch covers them: its extract is shown in their place.
    SHARED_EXTRACT = "shared_extract"
    #: Cut to fit, because compaction is late or failing: something of the summary in use, the pins, the turn's request
    #: and the messages after the cutoff is left out or shortened to fit, or an older summary is shown.
    TRUNCATED = "truncated"


class SkipReason(StrEnum):
    """Why nothing was compacted."""

    #: Everything must stay verbatim, or nothing is new since the last summary.
    NOTHING_TO_COMPACT = "nothing_to_compact"
    #: The branch was deleted meanwhile.
    BRANCH_GONE = "branch_gone"
    #: The branch got another summary meanwhile, or lost its own.
    BASE_CHANGED = "base_changed"
    #: ``MODE`` is ``off``.
    MODE_OFF = "mode_off"


class Suppression(StrEnum):
    """What kept a compaction back that was due."""

    #: A run of this branch is queued or running.
    OPEN_RUN = "open_run"
    #: The branch was compacted a moment ago (``COOLDOWN_SECONDS``).
    COOLDOWN = "cooldown"
    #: Its last runs failed.
    BREAKER = "breaker"
    #: ``POLICY`` deferred it.
    POLICY = "policy"
    #: What must stay verbatim is over the threshold alone.
    IRREDUCIBLE = "irreducible"
    #: One of ``SPENDING_LIMITS`` is reached.
    SPEND = "spend"
    #: ``MODE`` is ``manual``: only a person compacts.
    MANUAL_MODE = "manual_mode"


class ErrorCode(StrEnum):
    """Why a run failed, or a draft was refused."""

    #: Anything that has no code of its own.
    PROVIDER_ERROR = "provider_error"
    TIMEOUT = "timeout"
    #: The account has no credit left.
    QUOTA = "quota"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    #: Not even the smallest part fits any model's window.
    INPUT_TOO_LARGE = "input_too_large"
    #: Not finished after ``RUN_TIME_LIMIT``, or lost with three workers.
    TIME_LIMIT = "time_limit"
    # Drafts that were refused.
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    #: Cut off by the limit of its length.
    TRUNCATED = "truncated"
    REFUSED = "refused"
    #: It called a tool instead of writing.
    TOOL_CALL = "tool_call"
    #: It has a character that cannot be stored.
    INVALID_TEXT = "invalid_text"
    #: It repeats the tags or markers of its prompt.
    LEAKED_WRAPPER = "leaked_wrapper"
    #: Far longer than asked for.
    OVERSIZE = "oversize"
    #: It saves less than ``MIN_SAVING_RATIO`` of what it would replace.
    NO_PROGRESS = "no_progress"
    #: It is an error message.
    ERROR_TEXT = "error_text"
    #: It repeats its instructions, or itself, or has hardly a fact of what it replaces.
    NOTHING_TOLD = "nothing_told"


class Cold(StrEnum):
    """Why a summarizer with ``WARM`` was not asked with the chat's own last prompt: in the event ``started``."""

    #: The newest reply of the branch is none that this app asked for with that setting.
    NO_PROMPT = "no_prompt"
    #: The last reply is older than ``WARM`` says.
    CACHE_ENDED = "cache_ended"
    #: The summarizer does not ask the chat's model at its address.
    OTHER_MODEL = "other_model"
    #: It cannot be made again byte for byte, or lacks something that is to be summarized.
    OTHER_PROMPT = "other_prompt"


class EventKind(StrEnum):
    """What an event records."""

    #: A branch is over its threshold, and a run was opened.
    THRESHOLD_HIT = "threshold_hit"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    #: A due compaction was kept back: :class:`Suppression`.
    SUPPRESSED = "suppressed"
    #: A prompt was cut to fit: :attr:`Strategy.TRUNCATED`.
    FALLBACK_USED = "fallback_used"
    SUMMARY_OVERSIZE = "summary_oversize"
    #: A model of the cascade failed before another one, or an extract, became the summary.
    MODEL_FAILED = "model_failed"
    NO_PROGRESS = "no_progress"
    REASONING_DOWNGRADED = "reasoning_downgraded"
    #: The provider is set to shorten prompts too.
    DOUBLE_COMPACTION_CONFIGURED = "double_compaction_configured"
    #: The provider reports that it shortened a prompt.
    DOUBLE_RAN = "double_ran"
    #: Summaries were taken out of use.
    RETIRED = "retired"
    #: A message was redacted or deleted.
    INVALIDATED = "invalidated"


class Origin(StrEnum):
    """Where a message of a context comes from."""

    SYSTEM = "system"
    #: Passed with the request, not stored.
    CONTRIBUTION = "contribution"
    SUMMARY = "summary"
    #: The extract of a summary that is anchored on another branch.
    SHARED_EXTRACT = "shared_extract"
    #: The turn's request: the user message of the turn that the summary's cutoff is in.
    PINNED = "pinned"
    #: A message that somebody pinned: shown although it is not in the tail.
    PIN = "pin"
    VERBATIM = "verbatim"
    #: A tool result, shortened.
    PRUNED = "pruned"

    @property
    def is_summary(self) -> bool:
        return self in (Origin.SUMMARY, Origin.SHARED_EXTRACT)


class Contents(TypedDict, total=False):
    """What a message says: where none of it is given, it is read from ``original``."""

    content: str | Sequence[Mapping[str, Any]]
    tool_calls: Sequence[Mapping[str, Any]] | None
    reasoning: Any
    original: Mapping[str, Any] | None
    attachments: Sequence[Mapping[str, Any]] | None


class MessageFields(Contents, total=False):
    """A message dict, in the OpenAI chat format with this app's additions."""

    role: Required[RoleName]
    tool_call_id: str
    name: str
    usage: Mapping[str, Any] | None
    model: str
    finish_reason: str
    metadata: Mapping[str, Any] | None
    created_at: Any
    external_id: str | None


#: What a system prompt cannot have beside its text.
BESIDE_A_TEXT = [
    key for key in MessageFields.__annotations__ if key not in {"role", "content", "original", "created_at"}
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextMessage:
    """A message as a model is sent it, and its origin."""

    #: Its row; None for the system prompt and contributions.
    id: int | None = None
    #: One of :class:`Role`.
    role: str
    #: Text; empty where only the structure was read.
    content: str = ""
    #: OpenAI tool calls, in order.
    tool_calls: tuple[Mapping[str, Json], ...] = ()
    #: The call that a tool message answers.
    tool_call_id: str = ""
    #: The participant's or tool's name.
    name: str = ""
    #: Provider-native reasoning blocks, opaque.
    reasoning: Json = None
    #: ``{format, endpoint, data}``: what came, where these fields could not give it back, and nothing was left out.
    original: Json = None
    #: ``{type, mime_type, name, url, tokens}`` each.
    attachments: tuple[Mapping[str, Json], ...] = ()
    #: Tokens of what is sent for it, wrapper included.
    tokens: int
    origin: Origin = Origin.VERBATIM
    #: Bytes of what is stored that pruning left out.
    left_out_bytes: int = 0

    @property
    def message_id(self) -> int | None:
        return self.id


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(ContextMessage):
    """One message of a branch, as planning, transcripts and contexts see it."""

    id: int
    #: 1 for a root.
    depth: int
    #: When it was written; never used for order, and read for summarizers alone.
    created_at: datetime | None = None

    @property
    def starts_turn(self) -> bool:
        return self.role == Role.USER


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The newest applicable summary of a branch: the base of its next compaction."""

    #: Primary key of the summary's node.
    id: int
    #: Its parent: at or below the last message its summarizer was shown.
    anchor_id: int
    anchor_depth: int
    #: The last message it covers, inclusive.
    cutoff_id: int
    cutoff_depth: int
    cutoff_path_tokens: int
    #: Tokens of the message that carries it in a context.
    tokens: int
    content: str = ""
    #: What is quoted beside the content, and whether the content is quoted too. Both are columns: no text tells it.
    ledger: str = ""
    is_extract: bool = False
    #: A person wrote it, or corrected it.
    by_person: bool = False
    #: What is quoted of the covered messages, told without sight of anything after the cutoff; read for summarizers.
    extract: str = ""
    #: The state of the working memory beside the extract.
    memory: str = ""
    #: Its anchor is on another branch: only the extract is shown, and stands in ``content``.
    is_shared: bool = False
    #: The user message of the turn that the cutoff lies in, shown verbatim after the summary.
    turn_request: Message | None = None

    @property
    def text(self) -> str:
        return with_ledger(self.content, self.ledger)


def pins_beside(pins: Sequence[Message], turn_request: Message | None, tail: Sequence[Message]) -> tuple[Message, ...]:
    """The pins that are shown beside the summary: those that are neither the turn's request nor in the tail."""
    if not pins:
        return ()
    shown = {message.id for message in (turn_request, *tail) if message is not None}
    return tuple(pin for pin in pins if pin.id not in shown)


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """What is known of the path root → tip: the newest applicable summary and the messages after its cutoff."""

    #: The last message, structure only unless it is in the tail.
    tip_id: int
    tip_depth: int
    tip_path_tokens: int
    base: Summary | None = None
    #: Messages after the cutoff in order. May lack the oldest ones, see ``unread``.
    tail: tuple[Message, ...] = ()
    #: Number of messages after the cutoff that were not read, because they do not fit the window.
    unread: int = 0
    #: Their tokens.
    unread_tokens: int = 0
    #: Nothing is new since the base: the tip is, or is above, the tip of the run that made it.
    already_compacted: bool = False
    #: The pinned messages of the path in order, those in the tail too.
    pins: tuple[Message, ...] = ()
    #: The newest applicable summary leaves no room for the newest turn: the base is an older one, or there is none.
    is_without_newest_summary: bool = False
    #: The reply with the provider's own summary, which stands for all above it.
    own_summary_id: int | None = None

    @property
    def turn_request(self) -> Message | None:
        return self.base.turn_request if self.base else None

    @property
    def history_tokens(self) -> int:
        """Tokens of summary + pins + the turn's request + everything after the cutoff; never the raw branch."""
        shown = (self.base, self.turn_request, *pins_beside(self.pins, self.turn_request, self.tail), *self.tail)
        return self.unread_tokens + sum(part.tokens for part in shown if part is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The budget of one request, in tokens of our own counter, with calibration applied."""

    window: int
    reserved: int
    available: int
    threshold: int
    target: int
    #: min(SUMMARY_TARGET_TOKENS, 15 % of available).
    summary_target: int
    recent_ratio: float
    recent_cap: int
    #: What may be tried where the newest turn is too large for ``available``: without calibration, and with no more
    #: than the usual room for a reply. 0 in runs of earlier versions.
    limit: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionParams:
    """What a budget means for a history: Onyx's ``get_compression_params``."""

    should_compact: bool
    threshold: int
    target: int
    #: Tail budget: how much of the recent history may stay verbatim.
    tokens_for_recent: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionPlan:
    """What to summarize, where to cut, where to anchor. Made by :func:`planning.plan_compaction`."""

    #: Messages to be summarized, in order, beginning with the request of the base's turn if the turn is covered now.
    covered: tuple[Message, ...]
    #: Messages after the cutoff that the summarizer is shown, in order.
    lookahead: tuple[Message, ...]
    #: Messages that stay verbatim.
    kept: tuple[Message, ...]
    base: Summary | None
    turn_request: Message | None
    cutoff: Message
    anchor_id: int
    anchor_depth: int
    #: The size that the summarizer is asked for.
    target_tokens: int
    #: Tokens that the summary replaces: base + covered, without what is pinned.
    replaced_tokens: int
    #: Most tokens that the summary may have, wrapper and ledger included, to save enough of ``replaced_tokens``.
    most_tokens: int
    #: Pins that are shown beside the summary.
    pins: tuple[Message, ...] = ()
    #: The summarizer's window is too small for everything that could be covered: another generation follows.
    partial: bool = False
    #: Even the smallest part is too large: the summarizer is shown its largest messages shortened.
    shorten: bool = False

    @property
    def staying_tokens(self) -> int:
        """Of what is shown beside the summary."""
        request = self.turn_request
        return sum(message.tokens for message in (*self.pins, *self.kept)) + (request.tokens if request else 0)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a model takes and writes in one call, in tokens by our count."""

    input_tokens: int
    output_tokens: int

    @property
    def window(self) -> int:
        return self.input_tokens + self.output_tokens

    def within(self, other: Capacity) -> Capacity:
        return Capacity(min(self.input_tokens, other.input_tokens), min(self.output_tokens, other.output_tokens))

    def below(self, size: int) -> Capacity:
        """For a request that is smaller by a tenth at least than one of ``size`` tokens.

        A provider that names a slightly smaller window each time would otherwise be asked for each message.
        """
        return Capacity(min(self.input_tokens, size * 9 // 10), self.output_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPrompt:
    """The chat's own last prompt, which its provider has in its cache, and the instruction to stand behind it."""

    #: The model that was asked, and where.
    model: str
    endpoint: str
    #: As they were sent.
    messages: Sequence[Mapping[str, Json]]
    tools: Sequence[Mapping[str, Json]] = ()
    #: Consecutive messages of one role are sent as one.
    alternate_roles: bool = False
    #: What else leads to the cache, in the request's own words.
    parameters: Mapping[str, Json] = field(default_factory=dict)
    #: For the user role.
    instruction: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryRequest:
    """The input of a summarizer. One that asks a model needs only ``system`` and ``user``."""

    #: The instructions, for the system role.
    system: str
    #: The material, for the user role.
    user: str
    #: Size to aim for, tokens.
    target_tokens: int
    #: Hard cap for the reply, tokens.
    max_output_tokens: int
    #: Text of the base, its ledger included; "" for a first generation.
    previous_summary: str = ""
    #: The ledger at its end, and whether the text before it is an extract.
    previous_ledger: str = ""
    previous_is_extract: bool = False
    previous_by_person: bool = False
    #: The base's own extract, which its text need not have been made of.
    previous_extract: str = ""
    #: The state of its working memory.
    previous_memory: str = ""
    covered: tuple[Message, ...] = ()
    #: The user's message that the last of these answer, which stays in view beside the summary.
    turn_request: Message | None = None
    lookahead: tuple[Message, ...] = ()
    instructions: str = ""
    #: Random word in the cutoff marker of this run.
    nonce: str = ""
    #: With ``WARM``, for the model that has read it a moment ago. In a request that begins with it ``system`` is empty,
    #: and ``user`` the instruction.
    chat: ChatPrompt | None = None

    @property
    def previous_content(self) -> str:
        """Text of the base without its ledger: what a summarizer that writes no new text carries on."""
        return self.previous_summary.removesuffix(with_ledger("", self.previous_ledger))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """One answered call of a model, with the tokens it reports. It is paid for whether the draft is accepted or not."""

    #: As the request named it.
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    #: Those of the input tokens that the provider read from its cache.
    cached_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryDraft(ModelCall):
    """The output of a summarizer, not accepted yet, and the call that wrote it."""

    text: str
    #: The provider's value; "stop" is a normal end.
    finish_reason: str = "stop"
    #: Tokens that the reply might have had; 0: unknown.
    limit: int = 0
    #: The model declined, by a field or a finish reason of the provider's.
    refused: bool = False
    #: The model called a tool instead of writing.
    tool_called: bool = False
    #: The text is quoted from the conversation, as that of a summarizer that needs no model: it is judged as such.
    is_extract: bool = False
    #: A person wrote the text: only its size is judged.
    by_person: bool = False
    #: Tokens of the draft that was too long, where this one answers the retry with a smaller target; else 0.
    tightened: int = 0
    #: Every call made for it, refused drafts included. Empty: only the call that made this draft.
    calls: tuple[ModelCall, ...] = field(default=(), compare=False)
    #: What our own extract was chosen from, so that nothing is read twice.
    material: Any = field(default=None, compare=False, repr=False)

    @property
    def paid_calls(self) -> tuple[ModelCall, ...]:
        """All calls made for this draft, its own included."""
        return self.calls or (ModelCall(**{one.name: getattr(self, one.name) for one in fields(ModelCall)}),)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatContext:
    """What the model would be sent at a tip, and all the numbers behind it. Tokens are our own counter's."""

    messages: tuple[ContextMessage, ...]
    #: Tokens of everything but the reply's reserve: system prompt, tools, contributions and history.
    tokens: int
    #: Tokens of summary + pins + the turn's request + what is shown of the tail.
    history_tokens: int
    available_tokens: int
    reserved_tokens: int
    window: int
    threshold: int
    target: int
    summary_id: int | None
    cutoff_id: int | None
    #: The turn's request, where it is shown beside the summary.
    pinned_id: int | None
    strategy: Strategy
    #: Tool results that are shown shortened.
    pruned: int
    #: Messages after the cutoff, and pins, that are not shown.
    dropped: int
    tip_id: int
    #: The pins that are shown beside the summary, in order.
    pin_ids: tuple[int, ...] = ()
    first_shown_depth: int | None = None
    #: The reply with the provider's own summary, for the model that made it: what is above is not sent.
    own_summary_id: int | None = None
    #: The name of the model that it is meant for, "" for none; and where that is asked, "" for the default address.
    model: str = ""
    endpoint: str = ""
    #: Names of the tools that are offered with it.
    tool_names: tuple[str, ...] = ()
    #: Consecutive messages of one role are sent as one.
    alternate_roles: bool = False
    #: Reasoning blocks are counted and will be sent.
    include_reasoning: bool = False
    #: Of ``tokens``, what attachments take.
    attachment_tokens: int = 0
    #: With ``WARM``, how what was sent is known again (``compaction.warm``); of replies alone.
    prompt: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: The site's ``ATTACHMENT_URL``, called when the messages are made ready to be sent.
    address_of: Callable[[Mapping[str, Json]], str | None] | None = field(default=None, compare=False, repr=False)

    @property
    def fallback_used(self) -> bool:
        """Whether the prompt was cut to fit, because compaction is late or failing: see :attr:`Strategy.TRUNCATED`."""
        return self.strategy == Strategy.TRUNCATED

    def with_addresses(self) -> ChatContext:
        """The context with each attachment at the address that ``ATTACHMENT_URL`` gives it now."""
        if self.address_of is None:
            return self
        messages = [
            replace(message, attachments=tuple(with_address(one, self.address_of(one)) for one in message.attachments))
            if message.attachments and message.role == Role.USER
            else message
            for message in self.messages
        ]
        return replace(self, messages=tuple(messages), address_of=None)

    def to_openai(self, include_reasoning: bool | None = None, *, endpoint: str | None = None) -> list[dict[str, Any]]:
        """The list that the ``openai`` client takes as ``messages``.

        What a model wrote goes back whole, unknown keys and all, to the same model at the ``endpoint`` (the client's
        base URL) that it came from; to any other its text and calls go. A tool call without a result gets
        ``[no result]``, because providers refuse a request with an unanswered call; so do they blank messages,
        arguments that are not JSON, long ids and odd names of functions, which are left out or mended. With
        ``include_reasoning``, by default as the context was asked for, the reasoning of tail messages that does not go
        back whole is included under ``reasoning``. With the setting ``ALTERNATE_ROLES`` a user's message is first, and
        consecutive messages of one role are joined.
        ``ATTACHMENT_URL`` is called here, for each attachment.
        """
        return to_openai(
            self.with_addresses().messages,
            include_reasoning=self.include_reasoning if include_reasoning is None else include_reasoning,
            alternate=self.alternate_roles,
            endpoint=endpoint,
            model=self.model,
            offered=self.tool_names,
        )


class MeterState(StrEnum):
    """What compaction has to do with a branch. Of several that hold, the first one."""

    #: A run of it is open.
    RUNNING = "running"
    #: Its newest run failed.
    FAILED = "failed"
    #: It is over its threshold: the next turn compacts it, or in the mode ``manual`` somebody may.
    DUE = "due"
    #: What stands for older messages is an extract, since no model wrote a summary.
    EXTRACT = "extract"
    OK = "ok"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meter:
    """How full the window is at a tip, and by what: tokens of our own counter, and no text."""

    tip_id: int
    model: str
    state: MeterState
    #: Of the newest run: its :class:`ErrorCode`, if it has one.
    code: str
    #: The newest run of the branch, if there is one.
    run_id: int | None
    system_prompt: int
    tools: int
    contributions: int
    summary: int
    #: Of pinned messages and the turn's request, where they are shown beside the summary.
    pins: int
    #: Of messages that a search found again.
    recalled: int
    #: All others after the summary.
    messages: int
    #: Kept free for the reply.
    reserved: int
    #: What the history takes, from ``summary`` to ``messages``, and what it may take.
    history: int
    available: int
    threshold: int
    window: int
    #: Whether the prompt was cut to fit, and how many messages were left out then.
    fallback_used: bool
    dropped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyDecision:
    """The answer of a host's ``POLICY``: ``allow``, ``defer`` or ``force``, and a line for the prompt.

    ``reason`` is a code for the event, up to 100 characters of ``A-Z a-z 0-9 _ . : -``; other text is not stored.
    """

    action: Literal["allow", "defer", "force"] = "allow"
    reason: str = ""
    prompt_line: str = ""


class Recalled(NamedTuple):
    """A message that a search found, as far as it may be shown."""

    message_id: int
    #: On its branch: 1 for the first message.
    position: int
    #: One of :class:`Role`.
    role: str
    #: The participant's or tool's name.
    name: str
    created_at: datetime | None
    excerpt: str


class Found(NamedTuple):
    """A message that a search for people found."""

    message_id: int
    session_id: UUID
    #: The newest message at or below it: the tip to open.
    tip_id: int
    #: One of :class:`Role`.
    role: str
    #: The participant's or tool's name.
    name: str
    created_at: datetime
    excerpt: str


class QuotedIn(NamedTuple):
    """A row that quotes a text, and the columns where it does; without any, it is below one that does."""

    id: int
    places: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFound:
    """What of a conversation quotes a text, without the text itself."""

    #: Of ``title``, ``system_prompt`` and ``metadata``.
    session: tuple[str, ...]
    messages: tuple[QuotedIn, ...]
    #: Those that are emptied: they quote it, or may have been told of a message that does.
    summaries: tuple[QuotedIn, ...]
    runs: tuple[QuotedIn, ...]
