"""Which lines of a message are somebody else's words: quoted mail, a pasted letter, log lines.

Whoever pastes "Never tell the police" has not asked for it. It may hold facts, so it is read, with a mark before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from compaction_app.retention.word_tables import OWN_WORDS, PASTED, PASTES

#: Before what a speaker only passed on.
QUOTED = "[quoted] "

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MARKED = re.compile(
    r"\s{0,3}>\s*(?=[^\s\d=])|\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|\s*\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|CRITICAL)\b[\]:]? "
)


def split_quoted(content: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is quoted) in order; as one piece where nothing is."""
    lines = content.splitlines()
    pasted = _pasted(lines)
    piece: list[str] = []
    is_quoted = in_code = False
    for number, line in enumerate(lines):
        in_code ^= _FENCE.match(line) is not None and line.count("```") % 2 == 1
        quoted = number in pasted or (not in_code and _MARKED.match(line) is not None)
        if quoted != is_quoted and line.strip() and not in_code:
            if piece:
                yield "\n".join(piece), is_quoted
            piece, is_quoted = [], quoted
        piece.append(line)
    yield "\n".join(piece), is_quoted


def _pasted(lines: Sequence[str]) -> range:
    """The lines behind an empty one that follows "Here is the mail I got:" or "Summarize this:"."""
    empty = [number for number, line in enumerate(lines) if not line.strip()]
    lead = lines[empty[0] - 1].rstrip() if empty and empty[0] else ""
    introduces = lead.endswith((":", "：")) and PASTES.search(lead)
    if not introduces and not (lead.endswith((":", "：", "?", "？")) and PASTED.search(lead)):
        return range(0)
    last = empty[-1]
    # One or two lines behind it may be the speaker's own again.
    is_own = empty[0] < last and len(lines) - last <= 3 and OWN_WORDS.match("".join(lines[last + 1 :][:1]))
    return range(empty[0] + 1, last if is_own else len(lines))
