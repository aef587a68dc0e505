"""Splits text: prose into sentences, code into lines, and lists into items, each with the list's heading before it."""

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from compaction_app.memory.word_tables import ABBREVIATIONS, LIMIT

#: "Am 14. Mai", "im 2. Stock".
_ORDINALS = [f"{word} {number}" for word in "im am zum vom der den dem des".split() for number in (r"\d", r"\d\d")]
_NO_END = "".join(rf"(?<!\b{before}\.\s)" for before in (*map(re.escape, ABBREVIATIONS), *_ORDINALS))
_END = re.compile(
    rf"\s(?<=[.!?…\"'”’)*]\s)(?=\S)(?:(?<=[.!?…]\s)|(?<=[.!?…][\"'”’)*]\s)){_NO_END}"
    # The number of an item, initials, "plant no. 7", a quotation inside a sentence.
    r"(?<!^\d\.\s)(?<!^\d\d\.\s)(?<!\b[^\W\d_]\.\s)"
    r"(?!(?<=\b[Nn][or]\.\s)\d)(?!(?<=[\"'”’]\s)[a-z])(?!(?<=\s\d\.\s)[a-z])"
)
_UNSPACED_END = re.compile(rf"{_END.pattern}|(?<=[。！？])(?=[^。！？」』”）)]|$)")
_ITEM = re.compile(r"(?:[-*+•]|\(?\d{1,3}[.)]|[a-z]\))\s+(?=\S)")
_HEADING = re.compile(r"#{1,6}\s+|\*\*(?=[^*]+\*\*:?$)")
_FENCES = ("```", "~~~")
#: Most characters of a heading that is repeated before what is below it, and of a sentence.
_LEAD_CHARACTERS, _LONGEST = 80, 1_500
#: A longer one is data, and is cut between words where it has any.
_PIECE = re.compile(rf"\S(?:.{{0,{_LONGEST - 1}}}(?= |$)|.{{0,{_LONGEST - 1}}})")


def toggles_code(line: str) -> bool:
    """Whether a block of code begins or ends with it."""
    mark = line.lstrip()[:3]
    return mark in _FENCES and line.count(mark) % 2 == 1


def split_sentences(text: str) -> Iterator[tuple[str, bool]]:
    """(sentence, whether it stands in code) in order. An item of a list has what it stands under before it."""
    lead = ""
    for (is_code, is_item), group in groupby(_lines(text), itemgetter(0)):
        lines = [line for _, line in group]
        if is_code:
            yield from ((line[:_LONGEST], True) for line in lines)
            lead = ""
        elif is_item:
            items = [_ITEM.sub("", line, count=1) for line in lines]
            # What limits something holds only with all of its items.
            for item in ["; ".join(items)] if LIMIT.search(lead) else items:
                yield from ((sentence, False) for sentence in _sentences(f"{lead}: {item}" if lead else item))
            lead = ""
        else:
            for line in lines:
                introduced = line.rstrip(":：")
                if heading := _HEADING.match(line):
                    lead = line[heading.end() :].rstrip("*: ")[:_LEAD_CHARACTERS]
                elif introduced != line and len(introduced) <= _LEAD_CHARACTERS:
                    lead = introduced
                else:
                    yield from ((sentence, False) for sentence in _sentences(f"{lead}: {line}" if lead else line))
                    lead = ""


def _lines(text: str) -> Iterator[tuple[tuple[bool, bool], str]]:
    """((is it code, is it a list item), line) of each line that is not empty."""
    in_code = False
    # Only a line feed ends a line of code: after another sign, quoted code goes on.
    for raw in text.split("\n"):
        if toggles_code(raw):
            in_code = not in_code
            continue
        for line in (" ".join(part.split()) for part in raw.splitlines() if not toggles_code(part)):
            if line:
                is_code = in_code or line.startswith(_FENCES)
                yield (is_code, not is_code and _ITEM.match(line) is not None), line


def _sentences(line: str) -> list[str]:
    end = _END if line.isascii() else _UNSPACED_END
    return [piece for sentence in end.split(line) for piece in _PIECE.findall(sentence)]
