"""Commands that are typed in the message box with a slash: nothing of them is stored as a message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.contrib import messages

from compaction_app import chat
from compaction_app.conf import Mode, get_settings
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import RunStatus, Trigger
from project.chat.turns import model_for
from project.chat.words import COMPACTION_ERRORS

COMPACT = "compact"
COMPACTIONS = "compactions"
KNOWN = (COMPACT, COMPACTIONS)

# "/etc/passwd" is a path that somebody asks about, "/compakt" a command with a slip in it.
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
    """What to tell, at a level of Django's messages."""

    level: int
    text: str


def parse(text: str) -> Command | None:
    """The command that stands in the box; None: a message. A space before the slash makes it one."""
    found = _COMMAND.fullmatch(text)
    return Command(found["name"].lower(), (found["argument"] or "").strip()) if found else None


def unknown(command: Command) -> str:
    return (
        f"There is no command /{command.name}. Known are /compact, with instructions for the summary if you like, and "
        "/compactions. To send a message that begins with a slash, put a space before it."
    )


def compact(session: ChatSession, tip: ChatMessage | None, instructions: str) -> Notice:
    """Ask for a compaction in the background and say what came of it.

    Raises :class:`InvalidMessage` for instructions that can not be taken.
    """
    if tip is None:
        return Notice(messages.INFO, "There is nothing to compact yet.")
    if get_settings(session.settings).mode == Mode.OFF:
        return Notice(messages.WARNING, "Compaction is off for this conversation.")
    run = chat.request_compaction(tip, trigger=Trigger.MANUAL, instructions=instructions, model=model_for(session))
    if run is None:
        return Notice(messages.INFO, "A compaction of this branch is open already; this page shows how it goes.")
    # It is over by now in deterministic mode, or where a worker was quick.
    run.refresh_from_db()
    return Notice(*_outcome(run))


def _outcome(run: CompactionRun) -> tuple[int, str]:
    if run.status == RunStatus.SKIPPED:
        return messages.INFO, "There is nothing to compact: everything older is summarized, or there is too little."
    if run.status == RunStatus.FAILED:
        why = COMPACTION_ERRORS.get(run.error_code, run.error_code)
        return messages.ERROR, f"The compaction failed because {why}. Nothing was changed."
    if run.status == RunStatus.SUCCEEDED:
        numbers = f"{run.tokens_before:,} → {run.tokens_after:,} tokens"
        return messages.SUCCESS, f"Compacted: generation {run.generation}, {numbers}."
    return messages.SUCCESS, "A compaction was started in the background; this page shows how it goes."
