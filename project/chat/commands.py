"""Slash commands typed in the message box. They are not stored as messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from compaction_app import chat
from compaction_app.api.codes import Code
from compaction_app.conf import Mode, get_settings
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.words import why_it_failed
from compaction_app.spending import find_overspending
from compaction_app.values import RunStatus, Trigger
from project.chat.turns import model_for
from project.chat.uploads import number
from project.chat.words import FAILURES

COMPACT = "compact"
COMPACTIONS = "compactions"
UNDER_WAY = _("A summary is under way.")
KNOWN = (COMPACT, COMPACTIONS)

# "/etc/passwd" is a path in a question, "/compakt" a misspelled command.
_COMMAND = re.compile(r"/(?P<name>[A-Za-z][\w-]*)(?:\s+(?P<argument>.*))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    argument: str = ""

    @property
    def is_known(self) -> bool:
        return self.name in KNOWN


@dataclass(frozen=True, slots=True)
class Notice:
    """A text for the page, with a level of Django's messages."""

    level: int
    text: str
    #: The page looks for what becomes of it.
    is_open: bool = False


def parse(text: str) -> Command | None:
    """The command in the box; None for a message. A space before the slash makes it a message."""
    found = _COMMAND.fullmatch(text)
    return Command(found["name"].lower(), (found["argument"] or "").strip()) if found else None


def unknown(command: Command) -> str:
    return gettext(
        "Unknown command /{name}. Available are /compact, optionally with instructions for the summary, and "
        "/compactions. To send a message that starts with a slash, put a space before it."
    ).format(name=command.name)


def compact(
    session: ChatSession, tip: ChatMessage | None, instructions: str, *, until: ChatMessage | None = None
) -> Notice:
    """Request a compaction in the background and return the result as a notice.

    Raises :class:`InvalidMessage` for invalid instructions.
    """
    if tip is None:
        return Notice(messages.INFO, gettext(FAILURES[Code.NOTHING_TO_COMPACT]))
    if get_settings(session.settings).mode == Mode.OFF:
        return Notice(messages.WARNING, gettext(FAILURES[Code.MODE_OFF]))
    asked: Any = {"instructions": instructions, "until": until, "model": model_for(session)}
    run = chat.request_compaction(tip, trigger=Trigger.MANUAL, **asked)
    if run is None and find_overspending(session):
        return Notice(messages.WARNING, gettext(FAILURES[Code.SPEND]))
    if run is None:
        return Notice(messages.INFO, gettext(UNDER_WAY), is_open=True)
    # It is finished by now in deterministic mode, or if a worker was quick.
    run.refresh_from_db()
    return _outcome(run)


def _outcome(run: CompactionRun) -> Notice:
    if run.status == RunStatus.SKIPPED:
        told = gettext("Nothing to summarize: older messages are already summarized, or there are too few.")
        return Notice(messages.INFO, told)
    if run.status == RunStatus.FAILED:
        told = gettext("Older messages could not be summarized: {why}. Nothing was changed.")
        return Notice(messages.ERROR, told.format(why=why_it_failed(run.error_code) or run.error_code))
    if run.status == RunStatus.SUCCEEDED:
        told = gettext("Older messages are summarized: {before} → {after} tokens.")
        figures = {"before": number(run.tokens_before or 0), "after": number(run.tokens_after or 0)}
        return Notice(messages.SUCCESS, told.format(**figures))
    return Notice(messages.SUCCESS, gettext(UNDER_WAY), is_open=True)
