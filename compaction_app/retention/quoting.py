"""Which lines of a message are somebody else's words: quoted mail, a pasted letter, log lines.

Whoever pastes "Never tell the police" has not asked for it. What is pasted holds facts all the same, so it is read,
with a mark before it that says whose words these are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: Before a clause that its speaker only passed on, wherever it is told.
QUOTED = "[quoted] "

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MARKED = re.compile(r"\s{0,3}>\s*(?=[^\s\d=])")
_LOGGED = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|CRITICAL)\b[\]:]? )"
)
#: "Here is the mail I got, is it spam?", "Summarize this README:": what follows its empty line was written by others.
_PASTED = re.compile(
    r"(?<!my )(?<!our )\b(?:(?:e-?)?mails?|letter|messages?|logs?|readme|article|post|ticket|output|transcript|tweet|"
    r"comment|"
    r"review|contract|story|poem|sms|newsletter|advert|leaflet|nachricht|brief|artikel|courriel|lettre|correo|carta|"
    r"lettera|письмо|邮件|郵件|メール)\b[^\n]*[:?？：]\s*\Z",
    re.IGNORECASE,
)
_PASTED_TEXT = re.compile(
    r"\b(?:translate|summari[sz]e|proofread|shorten|explain|check|says|said|wrote|writes|sent|got|received)\b[^\n]*[:：]\s*\Z",
    re.IGNORECASE,
)
#: What the speaker says of it afterwards.
_OWN = re.compile(
    r"(?:i|i['’]m|we|what|is|are|please|can|could|should|shall|how|why|do|does|did|was|would|tell|help|reply|answer|ich|"
    r"was|wie|ist|bitte|je|que|est-ce|qué|es|cosa|что|как)\b",
    re.IGNORECASE,
)
_OWN_LINES = 2


def split_quoted(content: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is quoted) in order; as one piece where nothing is."""
    lines = content.splitlines()
    if len(lines) < 2 and not (lines and (_MARKED.match(lines[0]) or _LOGGED.match(lines[0]))):
        yield content, False
        return
    pasted, own = _pasted(lines)
    piece: list[str] = []
    is_quoted = in_code = False
    for number, line in enumerate(lines):
        in_code ^= _FENCE.match(line) is not None and line.count("```") % 2 == 1
        marked = not in_code and (_MARKED.match(line) or _LOGGED.match(line)) is not None
        quoted = marked or pasted <= number < own
        if quoted != is_quoted and line.strip() and not in_code:
            if piece:
                yield "\n".join(piece), is_quoted
            piece, is_quoted = [], quoted
        piece.append(line)
    yield "\n".join(piece), is_quoted


def _pasted(lines: Sequence[str]) -> tuple[int, int]:
    """From which line to which one the text is pasted, behind an empty line that follows what introduces it."""
    first = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    if not 0 < first < len(lines):
        return len(lines), len(lines)
    lead = lines[first - 1]
    if not (_PASTED.search(lead) or _PASTED_TEXT.search(lead)):
        return len(lines), len(lines)
    last = max((i for i, line in enumerate(lines) if not line.strip()), default=first)
    is_own = last > first and 0 < len(lines) - last - 1 <= _OWN_LINES and _OWN.match(lines[last + 1])
    return first + 1, last if is_own else len(lines)
