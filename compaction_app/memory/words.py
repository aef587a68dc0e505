"""The words of a text: content words, names and identifiers among them, and values."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from compaction_app.memory.dates import RESOLVED
from compaction_app.memory.word_tables import STOP

#: Letters of the scripts whose text is compared by pairs of signs: those without spaces, from Thai to Tangut and the
#: ideographs of all planes, and Korean, which has its particles in the word. Jamo are Korean taken apart.
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3005-\u3007\u3021-\u302f"
    r"\u3031-\u303c\u3040-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\ua4cf\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf"
    r"\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
UNSPACED_SIGN = re.compile(f"[{UNSPACED}]")
#: Vowel signs and accents that belong to the letter before them.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0dff"
_LETTERS = rf"[^\W_{UNSPACED}]++(?:[{_MARKS}]++[^\W_{UNSPACED}]*+)*+"
_NUMBER = r"\d+(?:[.,:/-]\d+)*(?![^\W_])"
_TOKEN = re.compile(rf"[{UNSPACED}]+|{_NUMBER}|{_LETTERS}(?:[-_./:@#$'’]{_LETTERS})*")
_PART = re.compile(rf"[{UNSPACED}]+|{_NUMBER}|{_LETTERS}")
_COMPOUND = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
#: Letters of a stem: longer words that begin the same are taken for one.
STEM_LETTERS = 6


class Words(NamedTuple):
    """The words of a text, in lower case. A text without spaces gives pairs of signs."""

    content: frozenset[str]
    #: Capitalised inside a sentence, with digits, or spelled like an identifier.
    marked: frozenset[str]
    #: With digits.
    values: frozenset[str]
    #: Capitalised where a sentence begins: a name, or any other word.
    initial: frozenset[str]


@lru_cache(maxsize=5_000)  # A statement is told in many generations, and read in each.
def read_words(text: str) -> Words:
    content, marked, values, initial = set[str](), set[str](), set[str](), set[str]()
    # In "yesterday (2024-05-07)" nobody said the number, so it makes no sentence worth more.
    text = RESOLVED.sub("", text)
    is_first = True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.islower() and token.isalpha():
            if token not in STOP:
                content.add(token)
        elif UNSPACED_SIGN.match(token):
            content.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        else:
            # A capital at the beginning of a sentence marks nothing.
            is_name = token[0].isupper() and not is_first
            is_identifier = not (token.isalpha() or _COMPOUND.fullmatch(token)) or token[1:] != token[1:].lower()
            for part in _PART.findall(token):
                word = part.lower()
                if any(map(str.isdigit, word)):
                    word = re.sub("[.,]", "", word) if _THOUSANDS.fullmatch(word) else word
                    values.add(word)
                elif word in STOP:
                    continue
                content.add(word)
                if is_name or is_identifier:
                    marked.add(word)
                elif is_first:
                    initial.add(word)
        is_first = text[match.end() : match.end() + 1] in {".", "!", "?", ":", ";"}
    return Words(frozenset(content), frozenset(marked), frozenset(values), frozenset(initial))


def stem(word: str) -> str:
    """By which words are compared: a number or ``db7`` as a whole, a word by its first letters."""
    return word if word[0].isdigit() or word[-1].isdigit() else word[:STEM_LETTERS]


def count_words(text: str) -> int:
    """Words with their small ones; in a script without spaces about two signs are one."""
    return len(text) // 2 if UNSPACED_SIGN.search(text) else text.count(" ") + 1
