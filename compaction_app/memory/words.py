"""The words of a text: content words, names and identifiers among them, and values."""

import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from compaction_app.memory.word_tables import STOP, STOP_SIGNS, cues_of

#: Letters of the scripts whose text is compared by pairs of signs: those without spaces, from Thai to Tangut and the
#: ideographs of all planes, and Korean, which has its particles in the word. Jamo are Korean taken apart.
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3005-\u3007\u3021-\u302f"
    r"\u3031-\u303c\u3040-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\ua4cf\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf"
    r"\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
UNSPACED_SIGN, _BETWEEN = re.compile(f"[{UNSPACED}]"), re.compile(f"[^《》{STOP_SIGNS}]+")
#: Vowel signs and accents that belong to the letter before them.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0dff"
_LETTERS = rf"[^\W_{UNSPACED}]++(?:[{_MARKS}]++[^\W_{UNSPACED}]*+)*+"
_NUMBER = r"\d+(?:[.,:/-]\d+)*(?![^\W_])"


def _tokens(letters: str) -> str:
    """Or the sign behind one, where a sentence or a part of one ends."""
    return rf"{_NUMBER}|{letters}(?:[-_./:@#$'’]{letters})*|(?<=[^\W_])[.!?:;]"


#: In ASCII in half of the time.
_PLAIN_TOKEN = re.compile(_tokens("[A-Za-z0-9]++"))
_TOKEN = re.compile(rf"《[{UNSPACED}]+》|[{UNSPACED}]+(?:·[{UNSPACED}]+)*|{_tokens(_LETTERS)}|(?<=》)[.!?:;]")
_PART, _PLAIN_PART = re.compile(rf"[{UNSPACED}]+|{_NUMBER}|{_LETTERS}"), re.compile(rf"{_NUMBER}|[A-Za-z0-9]++")
_RUN, _ENDS = re.compile(r"\w+"), frozenset(".!?:;")
_COMPOUND = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
#: Behind "yesterday"; with the brackets of a statement that is part of another.
_SAID_ON = re.compile(r" [(\[]said \d{4}-\d\d-\d\d[)\]]")
_Stems = tuple[str, ...]
#: Letters of a stem: longer words that begin the same are taken for one.
STEM_LETTERS = 6


class Words(NamedTuple):
    """The words of a text by their stems, in lower case. A text without spaces gives pairs of signs."""

    content: frozenset[str]
    #: Capitalised inside a sentence, with digits, or spelled like an identifier.
    marked: frozenset[str] = frozenset()
    #: With digits.
    values: frozenset[str] = frozenset()
    #: Capitalised where a sentence begins: a name, or any other word.
    initial: frozenset[str] = frozenset()
    #: Of all of them, small ones too: see :func:`word_tables.cues_of`.
    cues: int = 0


def read_words(text: str) -> Words:
    content, cues, is_first = set[str](), cues_of("*") if text.startswith("*") else 0, True
    marked = values = initial = frozenset[str]()
    # Nobody said the day that we put there, so it makes no sentence worth more.
    text = _SAID_ON.sub("", text) if "said" in text else text
    for token in (_PLAIN_TOKEN if text.isascii() else _TOKEN).findall(text):
        stems, found, names, is_first = _read_token(token, is_first)
        content.update(stems)
        cues |= found
        if names:
            marked, values, initial = map(frozenset.union, (marked, values, initial), names)
    return Words(frozenset(content), marked, values, initial, cues)


def content_stems(text: str) -> frozenset[str]:
    """The content words alone, which a text in ASCII tells at once."""
    if not text.isascii():
        return read_words(text).content
    parts = set(_PLAIN_PART.findall(_SAID_ON.sub("", text).lower())) - STOP
    return frozenset([stem(_whole(one)) for one in parts])


@lru_cache(maxsize=20_000)  # Most texts have the same words.
def _read_token(token: str, is_first: bool) -> tuple[_Stems, int, tuple[_Stems, ...], bool]:
    """(content, cues, those that are marked, values and initial if there are any, whether a sentence begins behind it).

    In plain tuples, at which the collector of cycles need not look again. ``is_first``: whether a sentence begins here.
    """
    if token in _ENDS:
        return (), 0, (), True
    cues = reduce(or_, map(cues_of, _RUN.findall(token)), 0)
    if token[0] == "《" or UNSPACED_SIGN.match(token):
        runs = _BETWEEN.findall(token)
        # 《…》 is a title, and 尼克·卡索维茨 a foreign name.
        names = [run for run in runs if token[0] == "《" or "·" in run]
        return _pairs(runs), cues, (_pairs(names), (), ()) if names else (), False
    # A capital at the beginning of a sentence marks nothing.
    is_name = token[0].isupper() and not is_first
    is_identifier = not (token.isalpha() or _COMPOUND.fullmatch(token)) or token[1:] != token[1:].lower()
    parts = [_whole(part.lower()) for part in _PART.findall(token)]
    words = tuple(stem(one) for one in parts if one not in STOP)
    if is_name or is_identifier:
        values = tuple(stem(one) for one in parts if any(map(str.isdigit, one)))
        return words, cues, (words, values, ()), False
    return words, cues, ((), (), words) if words and token[0].isupper() else (), False


def _pairs(runs: Sequence[str]) -> _Stems:
    """Signs that stand side by side."""
    parts = (part for run in runs for part in run.split("·"))
    return tuple({part[i : i + 2] for part in parts for i in range(len(part) - 1)} - STOP)


def _whole(part: str) -> str:
    """A number without the signs between its thousands."""
    return re.sub("[.,]", "", part) if not part.isalnum() and _THOUSANDS.fullmatch(part) else part


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """By which words are compared: a number or ``db7`` as a whole, a word by its first letters."""
    return word if word[0].isdigit() or word[-1].isdigit() else word[:STEM_LETTERS]


def is_unspaced(word: str) -> bool:
    """Whether it is of a script without spaces, and so a pair of signs."""
    return not word.isascii() and UNSPACED_SIGN.match(word) is not None


def count_words(text: str) -> int:
    """Words with their small ones; in a script without spaces about three signs are two."""
    is_spaced = text.isascii() or not UNSPACED_SIGN.search(text)
    return text.count(" ") + 1 if is_spaced else 2 * len(text) // 3
