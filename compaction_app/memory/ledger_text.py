"""The headings of what is quoted in a summary, which no draft of a model may have.

Whether a summary is an extract, and what its ledger is, are columns: a text that has our headings is read as what a
model wrote, so as nobody's speech. The headings are still taken out of every draft, for the model that reads it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from compaction_app.values import LEDGER_HEADING, SummaryDraft, with_ledger

#: The ledger's name, as a summarizer is told it.
LEDGER_NAME = LEDGER_HEADING.lstrip("# ")
#: Characters of a line that may be nothing but headings.
_LONGEST_HEADING = 500
#: The first line of an extract.
EXTRACT_HEADING = "## Quoted from the conversation"


def prose_draft(draft: SummaryDraft, previous_ledger: str = "") -> SummaryDraft:
    """A draft as it may be stored: a model's without our headings, and without the ledger that it may have copied.

    ``previous_ledger`` is cut out as it is; what stands behind it is kept. Of a ledger in other words nobody knows
    where it ends but at the next heading.
    """
    if draft.is_extract:
        return draft
    kept: list[str] = []
    in_ledger = False
    text = draft.text.replace(with_ledger("", previous_ledger), "\n") if previous_ledger else draft.text
    for line in text.splitlines(keepends=True):
        if line.lstrip()[:1] in ("#", "*", "_") and _is_named(line, LEDGER_NAME):
            while kept and not kept[-1].strip():
                kept.pop()
            if kept and not in_ledger:
                kept[-1] = f"{kept[-1].rstrip()}\n\n"
            in_ledger = True
        else:
            in_ledger = in_ledger and not line.startswith("#")
            if not (in_ledger or _is_named(line, EXTRACT_HEADING)):
                kept.append(line)
    return replace(draft, text="".join(kept).strip())


def _is_named(line: str, heading: str) -> bool:
    """Whether a line is nothing but a heading of ours, in whatever signs, letters and repetitions."""
    if len(line) > _LONGEST_HEADING:
        return False
    written, name = (
        "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text).casefold())) for text in (line, heading)
    )
    return bool(written) and not written.replace(name, "")
