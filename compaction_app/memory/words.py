"""The words of a text: content words, names and identifiers among them, and values."""

from __future__ import annotations

import re
from typing import NamedTuple

from compaction_app.memory.dates import RESOLVED
from compaction_app.memory.word_tables import FIRST_UNSPACED, STOP

#: Scripts without spaces: Thai to Khmer, Japanese, Chinese and Korean.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
#: Vowel signs and accents that belong to the letter before them.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0dff"
_LETTERS = rf"[^\W_{UNSPACED}]++(?:[{_MARKS}]++[^\W_{UNSPACED}]*+)*+"
_NUMBER = r"\d+(?:[.,:/-]\d+)*(?![^\W_])"
_TOKEN = re.compile(rf"[{UNSPACED}]+|{_NUMBER}|{_LETTERS}(?:[-_./:@#$'’]{_LETTERS})*")
_PART = re.compile(rf"[{UNSPACED}]+|{_NUMBER}|{_LETTERS}")
_COMPOUND = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
UNSPACED_SIGN = re.compile(f"[{UNSPACED}]")
_DIGIT = re.compile(r"\d")
#: Letters of a stem: longer words that begin the same are taken for one.
STEM_LETTERS = 6
#: Tokens of one sentence that are read. No sentence has more; a line of data may.
_MOST_TOKENS = 400


class Words(NamedTuple):
    """The words of a text, in lower case. A text without spaces gives pairs of signs."""

    content: frozenset[str]
    #: Capitalised inside a sentence, with digits, or spelled like an identifier.
    marked: frozenset[str]
    #: With digits.
    values: frozenset[str]
    #: Capitalised where a sentence begins: a name, or any other word.
    initial: frozenset[str] = frozenset()


def read_words(text: str) -> Words:
    content: set[str] = set()
    marked: set[str] = set()
    values: set[str] = set()
    initial: set[str] = set()
    is_first = True
    # In "yesterday (2024-05-07)" nobody said the number, so it makes no sentence worth more.
    text = RESOLVED.sub("", text) if "(" in text else text
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == _MOST_TOKENS:
            break
        token = match[0]
        if token[0] < FIRST_UNSPACED and token.isalpha() and token.islower():
            if token not in STOP:
                content.add(token)
        elif token[0] >= FIRST_UNSPACED and UNSPACED_SIGN.match(token):
            content.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        else:
            _read_marked(token, is_first, content, marked, values)
            if is_first and token.isalpha() and (word := token.lower()) not in STOP:
                initial.add(word)
        is_first = text[match.end() : match.end() + 1] in {".", "!", "?", ":", ";"}
    return Words(frozenset(content), frozenset(marked), frozenset(values), frozenset(initial))


def _read_marked(token: str, is_first: bool, content: set[str], marked: set[str], values: set[str]) -> None:
    # A capital at the beginning of a sentence marks nothing.
    is_name = token[0].isupper() and not is_first
    is_identifier = (not token.isalpha() and not _COMPOUND.fullmatch(token)) or token[1:] != token[1:].lower()
    for part in _PART.findall(token):
        word = part.lower()
        if _DIGIT.search(part):
            word = re.sub("[.,]", "", word) if _THOUSANDS.fullmatch(word) else word
            values.add(word)
        elif word in STOP:
            continue
        content.add(word)
        if is_name or is_identifier:
            marked.add(word)


def stem(word: str) -> str:
    """By which words are compared: a number or ``db7`` as a whole, a word by its first letters."""
    return word if word[0].isdigit() or word[-1].isdigit() else word[:STEM_LETTERS]


def count_words(text: str) -> int:
    """Words with their small ones; in a script without spaces about two signs are one."""
    is_spaced = text.isascii() or UNSPACED_SIGN.search(text) is None
    return text.count(" ") + 1 if is_spaced else len(text) // 2
