"""Errors that callers may catch, each a :class:`CompactionError`; the first line of its docstring is its message."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


class CompactionError(Exception):
    """Something in compaction_app went wrong."""

    code = "compaction_error"

    def __init__(self, message: str | None = None, **attributes: Any) -> None:
        summary = (self.__doc__ or "").strip().partition("\n")[0].replace("``", "")
        super().__init__(message or summary)
        for name, value in attributes.items():
            setattr(self, name, value)


class ConfigurationError(CompactionError):
    """A setting is missing, unknown or out of range."""

    code = "configuration"
    #: The id of the system check for the same problem, "" if there is none.
    problem_id: str = ""


class InvalidMessage(CompactionError, ValueError):
    """The message cannot be stored as it is; ``field`` names what is wrong.

    ``external_id`` is your own id of it, where it has one.
    """

    code = "invalid_message"
    field: str = ""
    external_id: str = ""


class InvalidParent(InvalidMessage):
    """The message cannot be appended to this parent."""

    code = "invalid_parent"


class IdempotencyConflict(InvalidMessage):
    """This session has another message with the same idempotency key."""

    code = "idempotency_conflict"
    field = "idempotency_key"


class DuplicateExternalId(InvalidMessage):
    """The external_id is already in use: by another message of this session, or another session of this owner."""

    code = "duplicate"
    field = "external_id"


class ImmutableTree(CompactionError):
    """Messages are append-only: they are not changed, moved, reordered or inserted between others."""

    code = "immutable_tree"


class MessageNotFound(CompactionError, LookupError):
    """The message or session does not exist any more.

    Where it was deleted while a chat model answered, the answer is attached, as to :class:`InvalidReply`.
    """

    code = "not_found"
    completion: Any = None
    reply: Mapping[str, Any] = {}


class NotASummary(CompactionError, ValueError):
    """This is only possible for summaries."""

    code = "not_a_summary"


class ImportFailed(CompactionError, ValueError):
    """The file or conversation cannot be imported. The text says where the problem is."""

    code = "import_failed"


class BundleError(CompactionError, ValueError):
    """The replay bundle cannot be read, or cannot be written there."""

    code = "bundle"


class ContextOverflow(CompactionError):
    """The newest user message and the last group alone are larger than the context window.

    ``needed`` and ``available`` are tokens.
    """

    code = "context_overflow"
    needed: int = 0
    available: int = 0


class PinsTooLarge(CompactionError):
    """The pins of a conversation would take too much of the context window. Nothing was pinned.

    ``needed`` and ``allowed`` are the tokens of all pins together.
    """

    code = "pins_too_large"
    needed: int = 0
    allowed: int = 0


class InvalidReply(CompactionError):
    """The chat model's endpoint did not return a valid chat completion. Nothing was stored.

    You may have paid for it, so it is attached: ``completion`` is the client's own object, or None (a stream, a page
    that is not JSON). ``reply`` is what could be read of it, in the keywords of ``append_message``, which takes it
    unless it is larger than ``MAX_MESSAGE_BYTES``. ``finish_reason`` is the provider's: "error" or "content_filter"
    where it failed or took the reply back.
    """

    code = "invalid_reply"
    completion: Any = None
    reply: Mapping[str, Any] = {}
    finish_reason: str = ""


class EmptyReply(InvalidReply):
    """The model's reply is empty: neither content nor a tool call. Nothing was stored.

    With the ``finish_reason`` "length" reasoning may have used up all output tokens; ``usage`` is what it reports.
    """

    code = "empty_reply"
    usage: Mapping[str, Any] = {}


class StreamInterrupted(InvalidReply):
    """A streamed reply ended early. Nothing was stored.

    ``partial`` is the text received so far, and ``reply`` has the rest of it too; of its calls the last may be half of
    one. The cause is the client's own error, if there is one.
    """

    code = "stream_interrupted"
    partial: str = ""


class ReplyNotStored(InvalidReply):
    """The model's reply came, and the database could not store it: ask again, or append ``reply``.

    The cause is the database's own error.
    """

    code = "reply_not_stored"


class ReplyUnderWay(CompactionError):
    """A reply to this message is under way: another call asks a model for it. Nothing was asked or stored.

    ``message_id`` is the message that is answered. ``expires_at`` is when the other call is taken for lost unless it
    says before that it lives.
    """

    code = "reply_under_way"
    message_id: int | None = None
    expires_at: datetime | None = None


class TooManyReplies(CompactionError):
    """Too many replies to this user are under way: wait for one of them to end. Nothing was asked or stored.

    ``at_once`` is how many may be, ``retry_after`` when to try again, in seconds.
    """

    code = "too_many_replies"
    at_once: int = 0
    retry_after: int = 5


class RedactionFailed(CompactionError):
    """REDACTOR raised, or did not return a text that can be stored; nothing was sent to any model."""

    code = "redaction_failed"


class DurableTransactionRequired(CompactionError, RuntimeError):
    """Call this outside ``transaction.atomic()``: no transaction may be open while a model is being called."""

    code = "open_transaction"


class CompactionFailed(CompactionError):
    """The summary could not be made.

    ``generation`` is the one that is in use because an earlier run of the same request made it; None: nothing was
    changed. ``error_detail`` is for operators: what the provider reported.
    """

    code = "compaction_failed"
    error_code: str = ""
    error_detail: str = ""
    run_id: int | None = None
    generation: int | None = None


class CompactionRefused(CompactionError):
    """The compaction was not started; ``reason`` is a skip or suppression code.

    ``run_id`` is the open run, where the reason is ``open_run``. ``numbers`` are what the reason is based on.
    """

    code = "compaction_refused"
    reason: str = ""
    run_id: int | None = None
    numbers: Mapping[str, Any] | None = None


class SummarizerError(CompactionError):
    """A summarizer could not make a draft.

    ``error_code`` is one of :class:`compaction_app.values.ErrorCode`. ``transient`` means that trying later may help;
    ``retry_after`` is the provider's wish, in seconds. ``calls`` (of :class:`compaction_app.values.ModelCall`) are the
    calls that were answered, so they are paid for. ``capacity`` (:class:`compaction_app.values.Capacity`) is what the
    largest model that the request was too large for takes: a smaller request may succeed.
    """

    code = "summarizer_error"
    error_code: str = "provider_error"
    transient: bool = False
    retry_after: float | None = None
    model: str = ""
    calls: Sequence[Any] = ()
    capacity: Any = None
    #: What a provider says of a request that was too long for it.
    overflow: Any = None
