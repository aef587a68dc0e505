"""What people read for a stored code: its own words, in the language of the request."""

from __future__ import annotations

from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from compaction_app.values import ErrorCode, RunStatus

#: Codes that are not called as they are stored.
_OTHERWISE: dict[str, str] = {RunStatus.READY: "waiting", "generation": "compaction"}
#: Why a summary failed, for use after "because".
WHY_IT_FAILED: dict[str, str] = {
    ErrorCode.PROVIDER_ERROR: "the provider had an error",
    ErrorCode.TIMEOUT: "the summarizer took too long",
    ErrorCode.TIME_LIMIT: "it took longer than its time limit",
    ErrorCode.QUOTA: "the provider's quota is used up",
    ErrorCode.AUTHENTICATION: "the provider did not accept the API key",
    ErrorCode.BAD_REQUEST: "the provider did not accept the request",
    ErrorCode.INPUT_TOO_LARGE: "the text was too long for the summarizer",
    ErrorCode.EMPTY: "the summary was empty",
    ErrorCode.TOO_SHORT: "the summary was too short",
    ErrorCode.TRUNCATED: "the summary was cut off",
    ErrorCode.REFUSED: "the summarizer refused",
    ErrorCode.TOOL_CALL: "the summarizer called a tool instead of writing",
    ErrorCode.INVALID_TEXT: "the summary contained characters that cannot be stored",
    ErrorCode.LEAKED_WRAPPER: "the summary repeated its instructions",
    ErrorCode.OVERSIZE: "the summary was too long",
    ErrorCode.NO_PROGRESS: "the summary saved too little",
    ErrorCode.NOTHING_TOLD: "the summarizer repeated its instructions, or itself, or told nothing of the messages",
    ErrorCode.ERROR_TEXT: "the summarizer answered with an error message",
}


def words(code: str) -> str:
    """``no_progress`` → "no progress"; a code of a host's own stays as it is but for its underscores."""
    return gettext(_OTHERWISE.get(code, code.replace("_", " ")))


def lazy_words(code: str) -> Any:
    """The same for a model's choices."""
    return capfirst(gettext_lazy(_OTHERWISE.get(code, code.replace("_", " "))))
