"""Tells a summary from what a gateway or a model answers instead of one, with status 200. Pure.

No list of error messages is complete, so a short text has to show that it is a summary: by prose under a heading, or by
the names, numbers and words of what it replaces. Known by their form are a JSON object that reports an error, a page of
HTML, and a model that says first of all that it does not summarize.
"""

import json
import re

from compaction_app.memory.words import Words, read_words, stem

#: A longer text is a summary; so is a shorter one with headings and a line that is longer than a placeholder.
_LONGEST, _LONGEST_PLACEHOLDER = 400, 40
_HEADING = re.compile(r"(?m)^#{1,6}[ \t][^\n]*$")
_PAGE = re.compile(r"(?is)(?:event: ?\w+\s)?data: ?[{\[]|<!doctype|<(?:\?xml|html)\b.*</\w+>\Z")
_SORRY = re.compile(r"(?i)\W{0,9}(?:\w+ ){0,2}(?:sorry|apolog|unfortunate|leider|leid\b|désol|lo siento)")
#: In its first sentence "I" is the model: a summary calls the user "the user", and the assistant "you".
_REFUSAL = re.compile(
    r"(?i)[^\n.]{0,60}?\b(?:i|we)\b[^\n.]{0,20}?\b(?:unable|not able|cannot|can['’]t|won['’]t|will not|decline)\b"
    r"[^\n]{0,60}?\b(?:help (?:with|you)|assist|summar|(?:this|your) (?:request|conversation|content))"
)


def is_error_text(text: str) -> bool:
    """Whether a draft, stripped, is by its form an error, a gateway's page, or a refusal."""
    return bool(_REFUSAL.match(_HEADING.sub("", text).strip()) or _PAGE.match(text) or _reports_error(text))


def tells_nothing(text: str, replaced: str) -> bool:
    """Whether a draft, stripped, is too short for a summary of ``replaced`` and has neither its names nor its words."""
    below, headings = _HEADING.subn("", text)
    is_long = len(below) > _LONGEST or (headings > 0 and not _SORRY.match(below))
    if is_long and max(map(len, below.split("\n"))) > _LONGEST_PLACEHOLDER:
        return False
    own, known = _read(below), _read(replaced)
    # A name is never written small.
    names = (own.marked | own.initial) & (known.marked | known.initial) - set(replaced.split())
    told = names | own.values & known.values
    # A small number is in any long text, and among many other names a single one is there by chance.
    weight = sum(2 if len(word) > 2 or word.isalpha() else 1 for word in told)
    if weight > 1 and 3 * len(told) >= len(own.marked | own.values | told):
        return False
    words, others = ({stem(word) for word in one.content} for one in (own, known))
    # In a text that is far longer nearly any word is found.
    return len(told) + len(words & others) < 4 or len(replaced) > 20 * len(text)


def _read(text: str) -> Words:
    lines = [line.split() for line in ("", *text.splitlines())]
    # Of one piece the first 400 words are read.
    parts = [read_words(" ".join(line[i : i + 200])) for line in lines for i in range(0, len(line) or 1, 200)]
    return Words(*(frozenset[str]().union(*column) for column in zip(*parts, strict=True)))


def _reports_error(text: str) -> bool:
    try:
        value = json.JSONDecoder().raw_decode(text)[0] if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(value, dict) and "summary" not in value and not {"error", "errors"}.isdisjoint(value)
