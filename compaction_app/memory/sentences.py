"""Text as sentences that can stand beside others: split, on one line, and without what only looks like our syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from compaction_app.memory.word_tables import ABBREVIATIONS, LIMIT, MONTHS, ORDINAL_ARTICLES
from compaction_app.messages.transcript import neutralize_tags
from compaction_app.values import Role

#: What stands behind a role.
NAME_AND_COLON = r"(?: [\w .@-]{1,40})?: "
#: Between the statements of a line.
SEPARATOR = " · "

#: What looks like the separator, and what a reader does not see but that hides what is there.
_SEPARATORS = re.compile(r"(?:^|(?<=\s))[·•∙⋅‧・․]+(?=\s)")
_UNSEEN = re.compile(
    "[\u0000-\u0008\u000e-\u001f\u007f\u00ad\u061c\u115f\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_JOINERS = re.compile("(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])")
_WIDE = {wide: wide - 0xFEE0 for wide in [*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)]}
_COLONS = ":：﹕︓ː։∶꞉"
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

_NO_END = "".join(
    [rf"(?<!\b{re.escape(word)}\.)" for word in ABBREVIATIONS]
    # "im 2. Stock", "am 14. Mai"
    + [rf"(?<!\b{word} {number}\.)" for word in ORDINAL_ARTICLES for number in (r"\d", r"\d\d")]
)
_END = re.compile(
    rf"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’)*])){_NO_END}"
    # "plant no. 7", initials, the number of an item.
    rf"(?!(?<=\d\.)\s{MONTHS})"
    r"(?!(?<=\s\d\.)\s[a-z])(?!(?<=[\"'”’])\s[a-z])(?!(?<=\b[Nn][or]\.)\s\d)(?<!\b[^\W\d_]\.)(?<!^\d\.)(?<!^\d\d\.)\s(?=\S)"
    r"|(?<=[。！？])(?=[^。！？」』”）)]|$)"
)
_ITEM = re.compile(r"(?P<mark>[-*+•]|\(?\d{1,3}[.)]|[a-z]\))\s+(?=\S)")
#: Questions and brief answers are told with their numbers.
_NUMBERED_WORDS = 3
_HEADING = re.compile(r"#{1,6}\s+|\*\*(?=[^*]+\*\*:?$)")
_FENCES = ("```", "~~~")
#: Characters of a heading or lead that is told with what is below it, and of a sentence: a longer line is data.
_LEAD_CHARACTERS, _LONGEST = 80, 1_500


def harmless(text: str) -> str:
    """Someone's text, without what could pass for another speaker, for the next statement or for a tag of ours."""
    if not (text.isascii() and text.isprintable()):
        text = _JOINERS.sub("", _UNSEEN.sub("", text)).translate(_WIDE)
    text = _SEPARATORS.sub("-", neutralize_tags(text))
    text = _SPEAKER_FIRST.sub(r"\1 - ", _SPEAKER.sub(r"\g<role>\g<name>\g<end> -", text))
    return _COMMENT.sub("[", _QUOTED_MARK.sub("", text))


def toggles_code(line: str) -> bool:
    """Whether a block of code begins or ends with it."""
    mark = line.lstrip()[:3]
    return mark in _FENCES and line.count(mark) % 2 == 1


def _lines(text: str) -> Iterator[str]:
    """Lines at whatever sign ends one, except those that begin or end code: they end at a line feed alone."""
    for line in text.split("\n"):
        yield from [line] if toggles_code(line) else (part for part in line.splitlines() if not toggles_code(part))
    yield "."


def split_sentences(text: str) -> Iterator[tuple[str, bool]]:
    """(sentence, whether it stands in code) in order. An item of a list has what it stands under before it."""
    lead, in_code = "", False
    items: list[str] = []
    for raw in _lines(text):
        line = " ".join(raw.split())
        if toggles_code(raw):
            in_code = not in_code
        elif line and (in_code or line.startswith(_FENCES)):
            yield line[:_LONGEST], True
        elif _ITEM.match(line):
            items.append(line)
        elif line:
            if items:
                yield from ((item, False) for item in _told_items(lead, items))
                lead, items = "", []
            if heading := _HEADING.match(line):
                lead = line[heading.end() :].rstrip("*: ")[:_LEAD_CHARACTERS]
                continue
            sentences = list(_sentences(line)) if raw != "." else []
            if sentences and lead:
                sentences[0] = f"{lead}: {sentences[0]}"
            lead = ""
            # What introduces a list is told with each of its items.
            if sentences and sentences[-1][-1] in ":：" and len(sentences[-1]) <= _LEAD_CHARACTERS:
                lead = sentences.pop()[:-1]
            yield from ((sentence, False) for sentence in sentences)


def _told_items(lead: str, items: Sequence[str]) -> Iterator[str]:
    """What a list says; where its lead limits something, its items hold only together."""
    if LIMIT.search(lead):
        yield f"{lead}: {'; '.join(_ITEM.sub('', item, count=1) for item in items)}"
        return
    for item in items:
        match = _ITEM.match(item)
        sentences = list(_sentences(item[match.end() :] if match else item))
        is_brief = sentences and (sentences[-1][-1] in "?？" or len(sentences[0].split()) <= _NUMBERED_WORDS)
        if is_brief and match and match["mark"][-2:-1].isdigit():
            sentences[0] = f"{match['mark']} {sentences[0]}"
        if sentences and lead:
            sentences[0] = f"{lead}: {sentences[0]}"
        yield from sentences


def _sentences(line: str) -> Iterator[str]:
    for sentence in _END.split(line):
        if sentence := sentence.strip():
            start = 0
            # A longer one is data, and is cut between words where it has any.
            while len(sentence) - start > _LONGEST:
                end = sentence.rfind(" ", start + 1, start + _LONGEST + 1)
                end = end if end > 0 else start + _LONGEST
                yield sentence[start:end]
                start = end + (sentence[end] == " ")
            yield sentence[start:]
