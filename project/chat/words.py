"""The one table of what can go wrong with a reply, and the other words of the page's script.

The views read it, and the script reads it out of the page: so both say the same sentence, in the reader's language. The
keys are what the stream for pages says of a failure: its detail, else its code.
"""

from __future__ import annotations

import json

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from compaction_app.api.codes import SENTENCES, TOO_LONG, Code
from compaction_app.contrib.stream.replies import problem_for_people
from compaction_app.exceptions import CompactionRefused
from compaction_app.values import ErrorCode
from project.chat import uploads

FAILURES: dict[str, str] = {
    SENTENCES[ErrorCode.TIMEOUT]: _("The model did not answer in time."),
    SENTENCES[ErrorCode.QUOTA]: _("The quota of this site's account with the model's provider is used up."),
    SENTENCES[ErrorCode.AUTHENTICATION]: _("The model is not set up rightly. Tell the site's administrator."),
    SENTENCES[ErrorCode.INPUT_TOO_LARGE]: _("The model finds the conversation too long."),
    TOO_LONG: _("This message is too long for the model. Shorten it, or attach less."),
    # Whatever else a model or the way to it may do.
    Code.MODEL: _("No whole answer came from the model. Try again in a moment."),
    Code.CONFIGURATION: _("There is no room for the conversation beside the instructions for the model."),
    Code.REDACTION_FAILED: _("What may be sent to the model could not be checked, so nothing was sent."),
    Code.REPLY_UNDER_WAY: _("A reply to this message is already on its way."),
    Code.TOO_MANY_REPLIES: _("Too many replies to you are on their way. Wait for one of them."),
    Code.UNAVAILABLE: _("The site's database is busy. Try again in a moment."),
    Code.UNAUTHENTICATED: _("You are signed out. Sign in again; what you wrote is still here."),
    Code.CSRF_FAILED: _("This page is from before you signed in. Load it again; what you wrote is still here."),
    Code.NOT_FOUND: _("The conversation may be deleted, or belong to another account."),
    Code.INTERNAL: _("The site had an error. Try again in a moment."),
    # Of no reply, and told by the views alone.
    Code.PINS_TOO_LARGE: _("There is no room for another pinned message. Unpin one first."),
    Code.NOTHING_TO_COMPACT: _("There is nothing to summarize yet."),
    Code.MODE_OFF: _("Summaries are off for this conversation."),
    Code.SPEND: _("Summaries are paused for a while."),
    Code.BASE_CHANGED: _("The summary was changed meanwhile. Try again."),
}

#: What else the script says.
_SCRIPT: dict[str, str] = {
    "unreachable": _("The site cannot be reached. What you wrote is still here; try again."),
    "broken": _("The connection broke off. The reply goes on, and will be here."),
    "busy": _("The reply is still coming. What you wrote stays here until then."),
    "left_out": _("Older messages are left out of what the model reads."),
    "summarized": _("Older messages are summarized."),
    "complete": _("The reply is complete."),
    "stopped": _("The reply is stopped."),
    "lost": _("not stored"),
    "copy": _("Copy"),
    "copied": _("Copied"),
    "remove": _("Remove {name}"),
}


def words_for(error: Exception) -> str:
    """What is wrong, for whoever writes."""
    if isinstance(error, CompactionRefused):
        told = FAILURES.get(error.reason)
    elif "MAX_MESSAGE_BYTES" in str(error):
        told = _("This message is too large to be stored.")
    else:
        problem = problem_for_people(error)
        told = FAILURES.get(problem.detail) or FAILURES.get(problem.code)
    if not told and not (get_language() or "en").startswith("en"):
        # The app's own words are English; what it refuses else was pressed on a page older than the conversation.
        told = _("This is not possible here any more. Load the page again.")
    return gettext(told) if told else str(error)


def for_script() -> str:
    """The words and the limits that the script has to know, as JSON."""
    told = {name: gettext(text) for name, text in (FAILURES | _SCRIPT).items()}
    return json.dumps(told | {"files": uploads.too_large(), "most": uploads.MAX_BYTES})
