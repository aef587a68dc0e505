"""What people read for the codes of ``compaction_app``. A test holds each table to its enum."""

from compaction_app.values import ErrorCode, RunStatus, Strategy

STRATEGIES = {
    Strategy.NONE: "everything as it was written",
    Strategy.TOOL_RESULT_BUDGET: "old tool results shortened",
    Strategy.MICRO_COMPACT: "old tool results shortened, their white space collapsed",
    Strategy.AUTO_COMPACT: "a summary stands for the older part, or is due",
    Strategy.TRUNCATED: "fallback: the oldest turns are left out",
}

RUN_STATUSES = {
    RunStatus.READY: "waiting for a worker",
    RunStatus.RUNNING: "being written",
    RunStatus.SUCCEEDED: "done",
    RunStatus.FAILED: "failed",
    RunStatus.SKIPPED: "skipped",
}

#: Why a summary failed, to stand after "because".
COMPACTION_ERRORS: dict[str, str] = {
    ErrorCode.PROVIDER_ERROR: "the provider had an error",
    ErrorCode.TIMEOUT: "the summarizer took too long",
    ErrorCode.QUOTA: "the provider's quota is used up",
    ErrorCode.AUTHENTICATION: "the provider did not accept the API key",
    ErrorCode.BAD_REQUEST: "the provider did not accept the request",
    ErrorCode.INPUT_TOO_LARGE: "the text was too long for the summarizer",
    ErrorCode.EMPTY: "the summary was empty",
    ErrorCode.TOO_SHORT: "the summary was too short to be one",
    ErrorCode.TRUNCATED: "the summary was cut off",
    ErrorCode.REFUSED: "the summarizer refused",
    ErrorCode.TOOL_CALL: "the summarizer called a tool instead of writing",
    ErrorCode.INVALID_TEXT: "the summary held characters that can not be stored",
    ErrorCode.LEAKED_WRAPPER: "the summary repeated its instructions",
    ErrorCode.OVERSIZE: "the summary was too long",
    ErrorCode.NO_PROGRESS: "the summary saved too little",
}

#: Why there is no reply, as a sentence.
REPLY_ERRORS = {
    ErrorCode.PROVIDER_ERROR: "The model's endpoint had an error.",
    ErrorCode.TIMEOUT: "The model's endpoint did not answer in time.",
    ErrorCode.QUOTA: "The quota at the model's endpoint is used up.",
    ErrorCode.AUTHENTICATION: "The model's endpoint did not accept the API key.",
    ErrorCode.BAD_REQUEST: "The model's endpoint did not accept the request.",
    ErrorCode.INPUT_TOO_LARGE: "The conversation is too long for the model.",
}
