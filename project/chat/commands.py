"""Slash commands typed in the message box. They are not stored as messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.contrib import messages

from compaction_app import chat
from compaction_app.conf import Mode, get_settings
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.words import WHY_IT_FAILED
from compaction_app.spending import find_overspending
from compaction_app.values import RunStatus, Trigger
from project.chat.turns import model_for

COMPACT = "compact"
COMPACTIONS = "compactions"
UNDER_WAY = "A summary is under way."
KNOWN = (COMPACT, COMPACTIONS)
NOTHING_YET = "There is nothing to summarize yet."

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


def parse(text: str) -> Command | None:
    """The command in the box; None for a message. A space before the slash makes it a message."""
    found = _COMMAND.fullmatch(text)
    return Command(found["name"].lower(), (found["argument"] or "").strip()) if found else None


def unknown(command: Command) -> str:
    return (
        f"Unknown command /{command.name}. Available are /compact, optionally with instructions for the summary, and "
        "/compactions. To send a message that starts with a slash, put a space before it."
    )


def compact(
    session: ChatSession, tip: ChatMessage | None, instructions: str, *, until: ChatMessage | None = None
) -> Notice:
    """Request a compaction in the background and return the result as a notice.

    Raises :class:`InvalidMessage` for invalid instructions.
    """
    if tip is None:
        return Notice(messages.INFO, NOTHING_YET)
    if get_settings(session.settings).mode == Mode.OFF:
        return Notice(messages.WARNING, "Summaries are off for this conversation.")
    asked: Any = {"instructions": instructions, "until": until, "model": model_for(session)}
    run = chat.request_compaction(tip, trigger=Trigger.MANUAL, **asked)
    if run is None and find_overspending(session):
        return Notice(messages.WARNING, "Summaries are paused for a while.")
    if run is None:
        return Notice(messages.INFO, UNDER_WAY)
    # It is finished by now in deterministic mode, or if a worker was quick.
    run.refresh_from_db()
    return Notice(*_outcome(run))


def _outcome(run: CompactionRun) -> tuple[int, str]:
    if run.status == RunStatus.SKIPPED:
        return messages.INFO, "Nothing to summarize: older messages are already summarized, or there are too few."
    if run.status == RunStatus.FAILED:
        why = WHY_IT_FAILED.get(run.error_code, run.error_code)
        return messages.ERROR, f"Older messages could not be summarized because {why}. Nothing was changed."
    if run.status == RunStatus.SUCCEEDED:
        numbers = f"{run.tokens_before:,} → {run.tokens_after:,} tokens"
        return messages.SUCCESS, f"Older messages are summarized: {numbers}."
    return messages.SUCCESS, UNDER_WAY
