"""What people read for a stored code: its own words, in the language of the request."""

from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_noop as _

from compaction_app.values import ErrorCode, RunStatus

#: Codes that are not called as they are stored.
_OTHERWISE: dict[str, str] = {RunStatus.READY: "waiting", "generation": "compaction"}
#: Why no model wrote a summary, for use after "because".
WHY_IT_FAILED: dict[str, str] = {
    ErrorCode.PROVIDER_ERROR: _("the provider had an error"),
    ErrorCode.TIMEOUT: _("the summarizer took too long"),
    ErrorCode.TIME_LIMIT: _("it was not finished within its time limit, or its workers were lost"),
    ErrorCode.QUOTA: _("the provider's quota is used up"),
    ErrorCode.AUTHENTICATION: _("the API key is missing or was not accepted"),
    ErrorCode.BAD_REQUEST: _("the request or the settings were not accepted"),
    ErrorCode.INPUT_TOO_LARGE: _("the text was too long for the summarizer"),
    ErrorCode.EMPTY: _("the summary was empty"),
    ErrorCode.TOO_SHORT: _("the summary was too short"),
    ErrorCode.TRUNCATED: _("the summary was cut off"),
    ErrorCode.REFUSED: _("the summarizer refused"),
    ErrorCode.TOOL_CALL: _("the summarizer called a tool instead of writing"),
    ErrorCode.INVALID_TEXT: _("the summary contained characters that cannot be stored"),
    ErrorCode.LEAKED_WRAPPER: _("the summary repeated its instructions"),
    ErrorCode.OVERSIZE: _("the summary was too long"),
    ErrorCode.NO_PROGRESS: _("the summary saved too little"),
    ErrorCode.NOTHING_TOLD: _("the summarizer repeated its instructions, or itself, or told nothing of the messages"),
    ErrorCode.ERROR_TEXT: _("the summarizer answered with an error message or a refusal"),
}


def words(code: str) -> str:
    """``no_progress`` → "no progress"; a code of a host's own stays as it is but for its underscores."""
    return gettext(_OTHERWISE.get(code, code.replace("_", " ")))


def why_it_failed(code: str) -> str:
    """The reason in a clause, in the language of the request; "" for a code of a host's own."""
    return gettext(WHY_IT_FAILED[code]) if code in WHY_IT_FAILED else ""


def lazy_words(code: str) -> Any:
    """The same for a model's choices."""
    return capfirst(gettext_lazy(_OTHERWISE.get(code, code.replace("_", " "))))
