"""The one table of what can go wrong with a reply, and the other words of the page's script.

The views read it, and the script reads it out of the page: so both say the same sentence, in the reader's language. The
keys are what the stream for pages says of a failure: its detail, else its code.
"""

from __future__ import annotations

import json

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from compaction_app.api.codes import SENTENCES, TOO_LONG, Code
from compaction_app.contrib.stream.replies import problem_for_people
from compaction_app.exceptions import CompactionRefused, InvalidMessage
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

#: What is refused of a text that somebody wrote or a button that was pressed, by the field that the package names.
_REFUSED: dict[str, str] = {
    "content": _("This message has signs that cannot be stored."),
    "instructions": _("These instructions are too long. Shorten them."),
    "source": _("One of the two branches goes on with the other, so there is nothing to bring."),
    "summary": _("This summary is not in use any more."),
    "text": _("This cannot be a summary: it is empty, or too long."),
    "until": _("A summary cannot end here: it ends with a whole answer, after the last summary."),
}

#: Where the model's provider says how long.
_WAIT = _("The model is asked too much just now. Try again in {seconds} s.")

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
    "wait": _WAIT,
    "copy": _("Copy"),
    "copied": _("Copied"),
    "close": _("Close"),
    "remove": _("Remove {name}"),
}


def words_for(error: Exception) -> str:
    """What is wrong, for whoever writes."""
    if isinstance(error, CompactionRefused):
        told = FAILURES.get(error.reason)
    elif "MAX_MESSAGE_BYTES" in str(error):
        told = _("This message is too large to be stored.")
    elif isinstance(error, InvalidMessage) and error.field in _REFUSED:
        told = _REFUSED[error.field]
    else:
        problem = problem_for_people(error)
        wait, told = problem.headers.get("Retry-After"), FAILURES.get(problem.detail)
        if wait and not told and problem.code == Code.MODEL:
            return gettext(_WAIT).format(seconds=wait)
        told = told or FAILURES.get(problem.code)
    # Whatever else is refused was pressed on a page older than the conversation.
    return gettext(told or _("This is not possible here any more. Load the page again."))


def for_script() -> str:
    """The words and the limits that the script has to know, as JSON."""
    told = {name: gettext(text) for name, text in (FAILURES | _SCRIPT).items()}
    return json.dumps(told | {"files": uploads.too_large(), "most": uploads.MAX_BYTES})
