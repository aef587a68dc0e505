"""Which texts say something else, or nothing, with words left out.

Leaving words out is safe where a sentence only states: what stays is still true. It is not where one word turns
the others round ("no longer", "unless", "cancelled"), where a bracket or a quotation would lose its other half or
its middle, and in a language of which no small word is known, since nobody can tell there which words those are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from compaction_app.retention import facts

_PAIRS = {"(": ")", "[": "]", "{": "}", "（": "）", "【": "】", "「": "」", "『": "』", "《": "》", "«": "»", "‹": "›"}
_CLOSING = {closing: opening for opening, closing in _PAIRS.items()}
#: Marks that open and close alike, or open in one language and close in another.
_TOGGLES = {'"': '"', "`": "`", "“": "”", "„": "“”"}
_MARKS = re.compile(r"[()\[\]{}（）【】「」『』《》«»‹›\"`“”„]")
#: "a)" before an item and ":)" close nothing.
_NO_BRACKET = re.compile(r"(?:(?<![^\s(])\w{1,2}|[:;=8][-']?)\Z")
#: A name in brackets that stands for something else: a redaction mark, a placeholder, a state.
_MARKED = re.compile(r"[\[{【]|<[^\s<>][^<>]*>|‹[^\s‹›][^‹›]*›")
#: Negations inside a text without spaces.
_UNSPACED_NEGATION = re.compile(r"[不没沒无無非别別勿未]|禁止|ない|ません|なく|ずに|안|않|못|없|말|마세요|금지")
#: Of the words, so many are small ones of one language where it is written in that language.
_SMALL_SHARE = 0.15
_FEWEST_WORDS = 4
#: What reads like prose has so many plain words at least, and of all its words such a share.
_PROSE_WORDS, _PROSE_SHARE = 4, 0.6
#: Calls with arguments, assignments and pipes: "weights = fit$weights", "f(x, y = 2)".
_CODE = re.compile(r"\w\([^()]*[=$\[<][^()]*|\w ?= ?\w[\w$.]*[,;)]|\w\$\w|\|>|(?<=\s)<-(?=\s)|\w\(\w+\(")
#: The label of a value, of several plain words: "Hand-in of the bound copy: 3 May".
_FIELD = re.compile(r"(?P<label>[A-ZÀ-Þ][\w'’-]+(?: [\w'’+&/-]+){1,11}): (?=[^\s{\[<=])")


def enclosed(text: str) -> tuple[list[tuple[int, int]], bool]:
    """(Spans of brackets and quotations, outermost only, and whether each has both its ends.)"""
    pairs: list[tuple[int, int]] = []
    open_marks: list[tuple[str, int]] = []
    whole = True
    for match in _MARKS.finditer(text):
        mark, at = match.group(), match.start()
        if open_marks and mark in _closes(open_marks[-1][0]):
            _, start = open_marks.pop()
            pairs.append((start, at + 1))
        elif mark in _PAIRS or mark in _TOGGLES:
            open_marks.append((mark, at))
        elif not (mark == ")" and _NO_BRACKET.search(text[max(at - 4, 0) : at])):
            whole = whole and mark not in _CLOSING
    if len(pairs) < 2:
        return pairs, whole and not open_marks
    spans: list[tuple[int, int]] = []
    for pair in sorted(pairs):
        if not spans or pair[0] >= spans[-1][1]:
            spans.append(pair)
    return spans, whole and not open_marks


def _closes(mark: str) -> str:
    return _PAIRS.get(mark) or _TOGGLES[mark]


def turns_round(text: str, norms: Sequence[str]) -> bool:
    """Whether a word in it denies, reserves or takes back what the others say."""
    if any(facts.is_negation(norm) or facts.is_reversal(norm) for norm in norms):
        return True
    return not text.isascii() and _UNSPACED_NEGATION.search(text) is not None


def keeps_all_words(text: str, norms: Sequence[str]) -> bool:
    """Whether a clause is told word for word or not at all. ``norms`` are its words in lower case, bare."""
    if turns_round(text, norms) or _MARKED.search(text) or not enclosed(text)[1]:
        return True
    return not is_understood(text, norms)


def is_understood(text: str, norms: Sequence[str]) -> bool:
    """Whether it is written in a language whose small words are known. What has hardly a word is in none."""
    if facts.is_unspaced(text):
        return facts.has_known_signs(text)
    words = [norm for norm in norms if norm.replace("'", "").replace("’", "").isalpha()]
    if len(words) < _FEWEST_WORDS:
        return True
    return facts.most_small_words(words) >= _SMALL_SHARE * len(words) and not facts.has_foreign_letters(text)


def reads_like_prose(text: str) -> bool:
    """Whether it is written to be read: in plain words with small ones among them. A command, a row and a log line
    are not."""
    if facts.is_unspaced(text):
        return True
    if _CODE.search(text):
        return False
    tokens = text.split()
    if is_field(text):
        return True
    words = [facts.weigh(token) for token in tokens if len(token) == 1 or not token.isupper()]
    plain = [word for word in words if word.norm.replace("'", "").replace("’", "").isalpha()]
    if len(plain) < max(_PROSE_WORDS, _PROSE_SHARE * len(tokens)):
        return False
    return not text.isascii() or any(word.strength <= facts.FUNCTION for word in plain)


def is_field(text: str) -> bool:
    """Whether it is a value behind what it is the value of, in words."""
    field = _FIELD.match(text)
    return field is not None and _is_label(field["label"])


def _is_label(label: str) -> bool:
    """Whether it is written in words, with a small one among them: "Keys for the boat house", not "HTTP Status"."""
    words = [facts.weigh(token) for token in label.split()]
    return any(word.norm and word.strength == facts.FUNCTION for word in words) and not facts.has_digit(label)


def reach(text: str, start: int, end: int) -> tuple[int, int]:
    """The span grown until it cuts no bracket and no quotation in two."""
    for left, right in enclosed(text)[0]:
        if left < end and start < right:
            start, end = min(start, left), max(end, right)
    return start, end
