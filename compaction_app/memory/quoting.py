"""Whose words they are: text that cannot pass for another speaker's, and what a speaker only passed on.

Whoever pastes "Never tell the police" has not asked for it. It may hold facts, so it is read, with a mark before it.
"""

import re
from collections.abc import Iterator

from compaction_app.memory.sentences import toggles_code
from compaction_app.messages.transcript import neutralize_tags
from compaction_app.values import Role

#: What stands behind a role, between the statements of a line, and before what a speaker only passed on.
NAME_AND_COLON, SEPARATOR, QUOTED = r"(?: [\w .@-]{1,40})?: ", " · ", "[quoted] "

#: What looks like the separator, and what a reader does not see but that hides what is there.
_SEPARATORS = re.compile(r"(?:^|(?<=\s))[·•∙⋅‧・․]+(?=\s)")
_UNSEEN = re.compile(
    "[\u0000-\u0008\u000e-\u001f\u007f\u00ad\u061c\u115f\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_JOINERS = re.compile("(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])")
_WIDE = {wide: wide - 0xFEE0 for wide in [*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)]}
_COLONS = ":：﹕︓ː։∶꞉"
_COLON = re.compile(f"[{_COLONS}]")
#: A role and a colon, also in bold, in quotes or with a name: nobody but us says whose words follow.
_SPEAKER = re.compile(
    rf"(?<![\w/.@-])(?P<role>{'|'.join(Role)})(?P<name>(?: [\w.-]{{1,40}}){{0,2}})"
    rf"(?P<end>[*_`\"'”’\])>]{{0,4}}\s?)[{_COLONS}](?![\w/])",
    re.IGNORECASE,
)
#: The same at the beginning, whatever follows.
_SPEAKER_FIRST = re.compile(
    rf"^(\W{{0,8}}(?:{'|'.join(Role)})(?: [\w.-]{{1,40}}){{0,2}}\W{{0,4}}?)[{_COLONS}]\s*", re.IGNORECASE
)
#: What would be read back as somebody's comment: names have more signs there.
_COMMENT = re.compile(rf"\((?=(?:{'|'.join(Role)}){NAME_AND_COLON})", re.IGNORECASE)
_QUOTED_MARK = re.compile(r"\[quoted\]\s*", re.IGNORECASE)

#: A block of a program that a person's message came through: ``<system-reminder>…</system-reminder>``; not what holds
#: that person's own words.
_BLOCK = re.compile(
    r"\s*<(?!/|(?:user_)?(?:query|task|request|question|prompt|input|feedback|answer)>)([a-z][\w-]*)(?: [^>]*)?>",
    re.IGNORECASE,
)
#: Where a part of a diff begins, and how its lines do.
_DIFF, _DIFF_SIGNS = re.compile(r"@@ -\d"), ("+", "-", " ", "@@", "\\")
#: A line of quoted mail, or of a log. "> 80 °C is too much" is somebody's own.
_MARKED = re.compile(
    r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*(?:[>＞](?!\s*(?:=\s*)?\d(?!\d{0,3}\s*[.):\]–-](?!\d)))\s*[^\s=]"
    r"|\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|CRITICAL)\b[\]:]? ))"
)


def as_seen(text: str) -> str:
    """Without signs that nobody sees, and with plain letters for wide ones."""
    is_plain = text.isascii() and text.isprintable()
    return text if is_plain else _JOINERS.sub("", _UNSEEN.sub("", text)).translate(_WIDE)


def harmless(text: str) -> str:
    """Someone's text, without what could pass for another speaker, for the next statement or for a tag of ours."""
    text = neutralize_tags(as_seen(text))
    # Most sentences have none of the signs that a pattern needs.
    if "[" in text:
        text = _QUOTED_MARK.sub("", text)
    if not text.isascii():
        text = _SEPARATORS.sub("-", text)
    if _COLON.search(text):
        text = _SPEAKER_FIRST.sub(r"\1 - ", _SPEAKER.sub(r"\g<role>\g<name>\g<end> -", text))
        text = _COMMENT.sub("[", text)
    return text


def split_quoted(content: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is quoted) in order; as one piece where nothing is."""
    piece: list[str] = []
    is_quoted = in_code = in_diff = False
    closing = ""
    # Only a line feed ends a line: after another sign the quoted mail goes on.
    for line in content.split("\n"):
        in_code ^= toggles_code(line)
        opened = None if closing or in_code else _BLOCK.match(line)
        if opened and f"</{opened[1]}>" in content:
            closing = f"</{opened[1]}>"
        in_diff = _DIFF.match(line) is not None or (in_diff and line.startswith(_DIFF_SIGNS))
        quoted = bool(closing) or in_diff or (not in_code and _MARKED.match(line) is not None)
        closing = "" if closing and closing in line else closing
        if quoted != is_quoted and line.strip() and not in_code:
            if piece:
                yield "\n".join(piece), is_quoted
            piece, is_quoted = [], quoted
        piece.append(line)
    yield "\n".join(piece), is_quoted
