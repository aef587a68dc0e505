"""Which lines of a message are somebody else's words: quoted mail, a pasted letter, log lines.

Whoever pastes "Never tell the police" has not asked for it. It may hold facts, so it is read, with a mark before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from compaction_app.memory.sentences import toggles_code
from compaction_app.memory.word_tables import OWN_WORDS, PASTED, PASTES

#: Before what a speaker only passed on.
QUOTED = "[quoted] "
_LONGEST_LEAD = 1_000

#: Before the first sign that a reader sees.
_UNSEEN = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*"
_ANGLE = re.compile(_UNSEEN + "[>＞]")
#: Quoted mail, if of one line, and a line of a log. "> 80 °C is too much" is somebody's own.
_MARKED = re.compile(
    rf"{_UNSEEN}(?:[>＞](?!\s*(?:=\s*)?\d(?!\d{{0,3}}\s*[.):\]–-](?!\d)))\s*[^\s=]"
    r"|\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|CRITICAL)\b[\]:]? ))"
)


def split_quoted(content: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is quoted) in order; as one piece where nothing is."""
    # Only a line feed ends a line: after another sign the quoted mail goes on.
    lines = content.split("\n")
    pasted = _pasted(lines)
    angled = [_ANGLE.match(line) is not None for line in lines]
    piece: list[str] = []
    is_quoted = in_code = False
    for number, line in enumerate(lines):
        in_code ^= toggles_code(line)
        # Two such lines in a row are a quotation, whatever they begin with.
        is_quotation = angled[number] and True in angled[max(number - 1, 0) : number] + angled[number + 1 : number + 2]
        quoted = number in pasted or (not in_code and (is_quotation or _MARKED.match(line) is not None))
        if quoted != is_quoted and line.strip() and not in_code:
            if piece:
                yield "\n".join(piece), is_quoted
            piece, is_quoted = [], quoted
        piece.append(line)
    yield "\n".join(piece), is_quoted


def _pasted(lines: Sequence[str]) -> range:
    """The lines behind an empty one that follows "Here is the mail I got:" or "Summarize this:"."""
    empty = [number for number, line in enumerate(lines) if not line.strip()]
    lead = lines[empty[0] - 1].rstrip()[-_LONGEST_LEAD:] if empty and empty[0] else ""
    introduces = lead.endswith((":", "：")) and PASTES.search(lead)
    if not introduces and not (lead.endswith((":", "：", "?", "？")) and PASTED.search(lead)):
        return range(0)
    last = empty[-1]
    # One or two lines behind it may be the speaker's own again.
    is_own = empty[0] < last and len(lines) - last <= 3 and OWN_WORDS.match("".join(lines[last + 1 :][:1]))
    return range(empty[0] + 1, last if is_own else len(lines))
