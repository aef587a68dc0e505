"""Errors that callers may catch. All share :class:`CompactionError`, whose docstring is the message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class CompactionError(Exception):
    """Something in compaction_app went wrong."""

    code = "compaction_error"

    def __init__(self, message: str | None = None, **attributes: Any) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        for name, value in attributes.items():
            setattr(self, name, value)


class ConfigurationError(CompactionError):
    """A setting is missing, unknown or out of range."""

    code = "configuration"
    #: The id of the system check that says the same, where there is one.
    problem_id: str = ""


class InvalidMessage(CompactionError, ValueError):
    """The message can not be stored as it is; ``field`` names what is wrong."""

    code = "invalid_message"
    field: str = ""


class InvalidParent(InvalidMessage):
    """The parent can not take this message."""

    code = "invalid_parent"


class IdempotencyConflict(InvalidMessage):
    """This idempotency key was used in this session with another message."""

    code = "idempotency_conflict"
    field = "idempotency_key"


class ImmutableTree(CompactionError):
    """Messages are append-only: they are not moved, reordered or inserted between others."""

    code = "immutable_tree"


class MessageNotFound(CompactionError, LookupError):
    """The message or session does not exist any more."""

    code = "not_found"


class NotASummary(CompactionError, ValueError):
    """This works on summaries only."""

    code = "not_a_summary"


class ImportFailed(CompactionError, ValueError):
    """The file can not be imported; ``line`` (1-based) says where, nothing was written."""

    code = "import_failed"
    line: int | None = None


class BundleError(CompactionError, ValueError):
    """The replay bundle can not be read, or not be written there."""

    code = "bundle"


class ContextOverflow(CompactionError):
    """The newest user message and the last group alone are larger than the context window.

    ``needed`` and ``available`` are tokens.
    """

    code = "context_overflow"
    needed: int = 0
    available: int = 0


class InvalidReply(CompactionError):
    """The chat model's endpoint answered with something that is no chat completion. Nothing was stored.

    It may have been paid for, so it is here: ``completion`` is the client's own object, None where it gave none (a
    stream, a page that is no JSON); ``reply`` is what could be read of it, in the keywords of ``append_message``
    (content, tool_calls, reasoning, usage, model), and empty where nothing could. Its values are the provider's,
    unchecked.
    """

    code = "invalid_reply"
    completion: Any = None
    reply: Mapping[str, Any] = {}


class EmptyReply(InvalidReply):
    """The model's reply is empty: neither content nor a tool call. Nothing was stored.

    ``finish_reason`` is the provider's ("length": reasoning may have used up all that it was allowed to write),
    ``usage`` what it reports.
    """

    code = "empty_reply"
    finish_reason: str = ""
    usage: Mapping[str, Any] = {}


class StreamInterrupted(InvalidReply):
    """A reply that was being streamed did not come to its end. Nothing was stored.

    ``partial`` is the text that had come; the cause is the client's own error, where there is one.
    """

    code = "stream_interrupted"
    partial: str = ""


class RedactionFailed(CompactionError):
    """REDACTOR did not give back a text; nothing was sent to any model."""

    code = "redaction_failed"


class DurableTransactionRequired(CompactionError, RuntimeError):
    """Call this outside ``transaction.atomic()``: no transaction may be open while a model is being called."""

    code = "open_transaction"


class CompactionFailed(CompactionError):
    """The summary could not be made; nothing was changed.

    ``error_code``, ``error_detail`` (for operators: what the provider said) and ``run_id`` tell more.
    """

    code = "compaction_failed"
    error_code: str = ""
    error_detail: str = ""
    run_id: int | None = None


class CompactionRefused(CompactionError):
    """A compaction was asked for and not started; ``reason`` is a skip or suppression code.

    ``run_id`` is the run in the way, where the reason is ``open_run``.
    """

    code = "compaction_refused"
    reason: str = ""
    run_id: int | None = None


class SummarizerError(CompactionError):
    """A summarizer could not give a draft.

    ``error_code`` is one of :class:`compaction_app.values.ErrorCode`; ``transient`` says that trying later may
    help; ``retry_after`` is what the provider asked for, in seconds; ``attempts`` are (model, code) in order;
    ``calls`` are the calls that gave an answer (:class:`compaction_app.values.ModelCall`), paid for in vain.
    """

    code = "summarizer_error"
    error_code: str = "provider_error"
    transient: bool = False
    retry_after: float | None = None
    model: str = ""
    attempts: Sequence[tuple[str, str]] = ()
    calls: Sequence[Any] = ()
