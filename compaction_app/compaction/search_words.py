"""The words by which summarized messages are found. Pure.

Letters are compared in lower case and without accents, words by their first six letters and without a plural's s.
Scripts without spaces, and Korean, have signs and their pairs for words. A query has a sign only where it stands alone.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache

from compaction_app.memory.word_tables import STOP
from compaction_app.memory.words import UNSPACED, stem

# 1,299 is one number. The names of a few languages are a letter and signs.
_WORD = re.compile(
    rf"(?P<signs>[{UNSPACED}]+)|(?<![^\W_])(?:\d{{1,3}}(?:[.,'’]\d{{3}})+(?!\d)|[^\W\d_](?:\+\+|#))|[^\W_{UNSPACED}]+"
)
#: The same where all is ASCII and small; most words are tried for nothing else.
_PLAIN = re.compile(
    r"[a-z]{2}[a-z0-9]*|(?<![a-z0-9])(?:[0-9]{1,3}(?:[.,'][0-9]{3})+(?![0-9])|[a-z](?:\+\+|#))|[a-z0-9]+"
)
#: Unfolded, a syllable of Korean is two or three jamo.
_SIGN = re.compile("[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?|.")
_SEPARATORS = str.maketrans("", "", ".,'’")
_PLURAL = re.compile(r"(?:(?<=[sxz])es|(?<=[cs]h)es|(?<=\w\w[^\W\ds])s)$")


def words_in(text: str, *, of_query: bool = False) -> Iterator[tuple[int, str]]:
    """The words of a text as they are compared, each with the place where it begins."""
    # One letter may unfold to eighteen, so no list has an item for each.
    is_plain, folded = text.isascii(), _folded(text)
    place = end = 0
    for match in _WORD.finditer(folded):
        for start, word in _signs(match, of_query) if match["signs"] else [(match.start(), _word(match[0]))]:
            if is_plain:
                place = start
            else:
                while end + (width := len(_letters(text[place]))) <= start:
                    place, end = place + 1, end + width
            yield place, word


def distinct_words(text: str) -> set[str]:
    """The words of a text; each run of letters is read once."""
    if text.isascii():
        return set(map(_word, set(_PLAIN.findall(text.lower()))))
    runs = {run[0]: run for run in _WORD.finditer(_folded(text))}.values()
    signs = {word for run in runs if run["signs"] for _, word in _signs(run, of_query=False)}
    return signs | {_word(run[0]) for run in runs if not run["signs"]}


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_letters, text))


def _signs(run: re.Match[str], of_query: bool) -> Iterator[tuple[int, str]]:
    """The pairs of a run of signs, and each sign."""
    last = ""
    for match in _SIGN.finditer(run[0]):
        sign, start = match[0], run.start() + match.start()
        if last:
            yield start - len(last), last + sign
        if not of_query or len(sign) == len(run[0]):
            yield start, sign
        last = sign


def _word(word: str) -> str:
    word = word if word.isalnum() else word.translate(_SEPARATORS)
    return stem(_PLURAL.sub("", word) if word.endswith("s") else word)


def words_of_query(text: str) -> set[str]:
    """The words that are searched for: without small ones such as "the", where it has any others."""
    words = {word for _, word in words_in(text, of_query=True)}
    return words - _small_words() or words


@cache
def _small_words() -> set[str]:
    return {word for small in STOP for _, word in words_in(small, of_query=True)}


@lru_cache(maxsize=10_000)
def _letters(sign: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFKD", sign.casefold()) if not unicodedata.combining(one))
