"""The words of a text: content words, names and identifiers among them, and values."""

from __future__ import annotations

import re
from typing import NamedTuple

from compaction_app.memory.dates import RESOLVED
from compaction_app.memory.word_tables import STOP

#: Scripts without spaces: Thai to Khmer, Japanese, Chinese and Korean.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
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
