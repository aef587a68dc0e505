"""What stands above a line: the headings, and the lead of the list it is in.

An item says what it says under its heading: "rain on 200 days" under "Cons of Bergen:", "push to main" under
"Never:". So an item is told with the short text above it, and a paragraph with the headings that turn it round
("Rejected"). A heading ends where another of its level begins, a lead where the list ends or another lead begins.
"""

from __future__ import annotations

import re

from compaction_app.retention.cautions import is_cautioned

#: A text of more words above an item is a sentence of its own, unless it turns round what follows.
LEAD_WORDS = 8
_TURNING_WORDS = 20
_COLONS = (":", "：")
_HEADING = re.compile(r"\s*(#{1,6})\s+\S")
_PRINTED_BOLD = re.compile(r"\s*\*\*[^*]+\*\*[:：]?\s*\Z")
_ITEM = re.compile(r"\s*(?:[*+\-–•·▪]\s|\(?\d{1,2}[.)]\s|\[[ xX]\]\s|>|\|)")
#: Levels below the six of headings: a line of bold print, a line that ends with a colon, an item with items of its own.
_BOLD, _LEAD, _ITEMS = 7, 8, 9
_ENDS = ("?", "!", ".", "？", "！", "。")


def is_item(line: str) -> bool:
    return _ITEM.match(line) is not None


def is_heading(line: str) -> bool:
    return line.lstrip().startswith("#") and _HEADING.match(line) is not None


class Outline:
    """The headings and leads above the line that is read."""

    def __init__(self) -> None:
        #: (level, text, whether it turns round what stands under it), the outermost first.
        self._above: list[tuple[int, str, bool]] = []

    def begins(self, line: str, prose: str, following: str, *, apart: bool) -> bool:
        """Take a line as a heading or a lead, if it is one; whether it is told only with what stands under it.

        ``following`` is the next line that is not empty, ``apart`` says that an empty one stands between.
        """
        level = self._level(line, prose, following)
        if not level:
            return False
        self._leave(level)
        turns = is_cautioned(prose)
        words = prose.count(" ") + 1
        under = bool(following) and not (is_heading(following) and _level_of(following) <= level)
        if not prose or words > (_TURNING_WORDS if turns else LEAD_WORDS) or not under:
            return False
        if not turns and prose.endswith(_ENDS):
            return False
        # A comment in a shell script or a program is written like a heading.
        if level == 1 and not apart and not is_item(following):
            return False
        self._above.append((level, prose.rstrip(" :："), turns))
        return is_item(following) or turns

    def above(self, line: str) -> str:
        """What is told before an item or a paragraph, with a colon at its end; "" for nothing."""
        if not self._above:
            return ""
        of_list = is_item(line) or (line[:2].isspace() and self._above[-1][0] >= _LEAD)
        if of_list:
            self._leave(_ITEMS + _indentation(line))
        else:
            self._leave(_BOLD)
        last = len(self._above) - 1
        told = [text for i, (_, text, turns) in enumerate(self._above) if turns or (of_list and i == last)]
        return f"{': '.join(told)}:" if told else ""

    def turning(self) -> str:
        """The lead right above a block of code, if it turns the code round."""
        return f"{self._above[-1][1]}:" if self._above and self._above[-1][2] else ""

    def _level(self, line: str, prose: str, following: str) -> int:
        if is_heading(line):
            return _level_of(line)
        if not following or not (is_item(following) or following.lstrip().startswith(("```", "~~~"))):
            return 0
        if is_item(line):
            if not prose.endswith(_COLONS):
                return 0
            return _ITEMS + _indentation(line) if _indentation(following) > _indentation(line) else _LEAD
        if prose.endswith(_COLONS):
            return _LEAD
        return _BOLD if _PRINTED_BOLD.match(line) else 0

    def _leave(self, level: int) -> None:
        while self._above and self._above[-1][0] >= level:
            self._above.pop()


def _level_of(heading: str) -> int:
    return len(heading.lstrip().split(maxsplit=1)[0])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
