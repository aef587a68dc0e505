"""Where the ledger stands in a summary's text, and the text without it: all there is between generations."""

from __future__ import annotations

import re

#: Heading of the ledger. It is found again by it, so it is the same in every language.
LEDGER_HEADING = "## Kept word for word"
#: Its name, as a summarizer is told it.
LEDGER_NAME = LEDGER_HEADING.lstrip("# ")

_LINE = re.compile(rf"(?m)^[ \t]*#{{1,6}}[ \t]*{re.escape(LEDGER_NAME)}[ \t]*:?[ \t]*$", re.IGNORECASE)
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


def prose_share(text: str) -> float:
    """How much of a summary is not its ledger, 0–1, in characters."""
    return len(prose_of(text)) / len(text) if text else 1.0
