"""The parts of a summary's text that are ours, each under a heading that no draft of a model may have.

What a model wrote is prose. Quotations stand under one heading (an extract, which is a whole summary) or the other
(the ledger at the end of one): there, and nowhere else, a line says whose words it has. A heading of ours is taken out
of every draft before it is stored, so whatever a model was made to write is read back as nobody's speech.
"""

from __future__ import annotations

import re
from dataclasses import replace

from compaction_app.retention.ledger_text import prose_of
from compaction_app.values import EXTRACTIVE_MODEL, SummaryDraft

#: The first line of an extract.
EXTRACT_HEADING = "## Quoted from the conversation"

_EXTRACT_LINE = re.compile(
    rf"(?m)^[ \t]*#{{0,6}}[ \t]*{re.escape(EXTRACT_HEADING[3:])}[ \t]*:?[ \t]*\n?", re.IGNORECASE
)


def extract_of(text: str) -> str:
    """The quotations of a summary that is an extract, without its ledger; "" if it is prose."""
    prose = prose_of(text)
    return prose[len(EXTRACT_HEADING) :].strip() if prose.startswith(f"{EXTRACT_HEADING}\n") else ""


def without_headings(text: str) -> str:
    """What a model wrote, without the ledger and the headings that it may have copied."""
    return _EXTRACT_LINE.sub("", prose_of(text)).strip()


def prose_draft(draft: SummaryDraft) -> SummaryDraft:
    """A draft as it may be stored: a model's without headings of ours."""
    if draft.model == EXTRACTIVE_MODEL:
        return draft
    return replace(draft, text=without_headings(draft.text))
