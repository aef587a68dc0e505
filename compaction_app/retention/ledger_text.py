"""The parts of a summary's text that are ours, each under a heading that no draft of a model may have.

What a model wrote is prose. Quotations stand under one heading (an extract) or the other (the ledger): only there a
line says whose words it has. Both are taken out of every draft, so what a model wrote is read back as nobody's speech.
"""

from __future__ import annotations

import re
from dataclasses import replace

from compaction_app.values import EXTRACTIVE_MODEL, SummaryDraft

#: Heading of the ledger. It is found again by it, so it is the same in every language.
LEDGER_HEADING = "## Kept word for word"
#: Its name, as a summarizer is told it.
LEDGER_NAME = LEDGER_HEADING.lstrip("# ")
#: The first line of an extract.
EXTRACT_HEADING = "## Quoted from the conversation"

_LINE = re.compile(rf"(?m)^[ \t]*#{{1,6}}[ \t]*{re.escape(LEDGER_NAME)}[ \t]*:?[ \t]*$", re.IGNORECASE)
_EXTRACT_LINE = re.compile(
    rf"(?m)^[ \t]*#{{0,6}}[ \t]*{re.escape(EXTRACT_HEADING[3:])}[ \t]*:?[ \t]*\n?", re.IGNORECASE
)
_NEXT_HEADING = re.compile(r"(?m)^#{1,6}[ \t]+\S")


def prose_of(text: str) -> str:
    """A summary or draft without its ledger, wherever it stands: a model may have copied the one it was shown."""
    while match := _LINE.search(text):
        following = _NEXT_HEADING.search(text, match.end())
        rest = f"\n\n{text[following.start() :]}" if following else ""
        text = text[: match.start()].rstrip() + rest
    return text.strip()


def ledger_of(text: str) -> str:
    """The entries of a summary's ledger; "" if it has none."""
    match = _LINE.search(text)
    return text[match.end() :].strip() if match else ""


def with_ledger(prose: str, ledger: str) -> str:
    return f"{prose}\n\n{LEDGER_HEADING}\n{ledger}" if ledger else prose


def extract_of(text: str) -> str:
    """The quotations of a summary that is an extract, without its ledger; "" if it is prose."""
    prose = prose_of(text)
    return prose[len(EXTRACT_HEADING) :].strip() if prose.startswith(f"{EXTRACT_HEADING}\n") else ""


def prose_draft(draft: SummaryDraft) -> SummaryDraft:
    """A draft as it may be stored: a model's without the ledger and the headings that it may have copied."""
    if draft.model == EXTRACTIVE_MODEL:
        return draft
    return replace(draft, text=_EXTRACT_LINE.sub("", prose_of(draft.text)).strip())
