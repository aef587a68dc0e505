"""Tells a summary from what a gateway or a model answers instead of one, with status 200. Pure.

No list of error messages is complete, so a short text has to show that it is a summary: by the headings that were asked
for, or by a name, a number or an identifier of what it replaces. Known by their form are a JSON object that reports an
error, a page of HTML, and an apology that opens the text.
"""

import json
import re

from compaction_app.memory.words import Words, read_words, stem

#: A longer text is a summary. So is a shorter one with a heading and more than a placeholder below it.
_LONGEST, _LONGEST_PLACEHOLDER = 400, 40
_HEADING = re.compile(r"(?m)^#{1,6}[ \t][^\n]*$")
_PAGE = re.compile(r"(?is)(?:event: ?\w+\s)?data: ?[{\[]|<!doctype|<(?:\?xml|html|head|title|body|h1|div)\b.*</\w+>\Z")
_SORRY = re.compile(
    r"(?i)\W{0,9}(?:(?:i|we)(?:['’]m|['’]re| am| are)? |my |our )?(?:\w+ )?(?:sorry|afraid|apolog|unfortunate|an ai "
    r"|(?:i|we)\W(?:ca|wo|will n|am n|am un|['’]?m n|['’]?m un)|tut mir|leider|désol|lo siento|сожал|عذر|抱歉|申し訳)"
)
#: "I" is the model: a summary calls the user "the user", and the assistant "you".
_REFUSAL = re.compile(
    r"(?i)\b(?:i|we|must)\b[^\n.]{0,20}?\b(?:unable|not|cannot|(?:can|won|don|couldn)['’]?t|decline)\b[^\n]{0,60}?"
    r"\b(?:help (?:with|you)|assist|summar|compl[yi]|fulfil|(?:this|your|the) (?:request|conversation|content))"
)


def is_error_text(text: str) -> bool:
    """Whether a draft, stripped, is by its form an error, a gateway's page, or an apology to the reader."""
    opening = _HEADING.sub("", text)[:200]
    apologizes = _SORRY.match(opening) and _REFUSAL.search(opening)
    return bool(apologizes or _PAGE.match(text) or _reports_error(text))


def tells_nothing(text: str, replaced: str) -> bool:
    """Whether a draft, stripped, is too short for a summary of ``replaced`` and has neither its names nor its words."""
    below, headings = _HEADING.subn("", text)
    is_headed = headings > 0 and not _SORRY.match(below)
    # Under several headings a placeholder may be a sentence.
    longest = max(map(len, below.split("\n")))
    if (is_headed or len(below) > _LONGEST) and longest > _LONGEST_PLACEHOLDER * min(2, max(1, headings - 1)):
        return False
    own, known = _read(below), _read(replaced)
    told = own.marked & (known.marked | known.initial) | own.initial & known.marked | own.values & known.values
    # A name is never written small. A small number is in any long text, so it counts half.
    told -= {word for word in set(replaced.split()) & told if word.isalpha()}
    weight = sum(2 if len(word) > 2 or word.isalpha() else 1 for word in told)
    if weight > 1 and 3 * len(told) >= len(own.marked | own.values | told):
        return False
    words, others = ({stem(word) for word in one.content} for one in (own, known))
    shared = len(told) + len(words & others)
    if is_headed:
        return shared < max(2, headings)
    return len(replaced) > 20 * len(text) or shared < max(4, len(words) / 2)


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
    items = {key.lower(): item for key, item in value.items()} if isinstance(value, dict) else {}
    reports = any(item and re.search("error|fault|exception", key) for key, item in items.items())
    beside = [str(i) for key, i in items.items() if not re.search("error|trace|stack|detail|message|msg|title", key)]
    return "summary" not in items and " ".join(beside).count(" ") < 20 and (reports or "error" in items.values())
