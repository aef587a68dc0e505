"""How long a statement is meant to hold: rules, decisions and preferences stand, exclamations and requests of the
moment pass.

Under pressure a ledger tells standing ones first, whatever else there is. What is taken for one here pushes facts out,
so a cue word alone is not enough: "he never does" has one, and nothing in it could be kept to.
"""

from __future__ import annotations

import re
from enum import IntEnum

from compaction_app.retention import facts


class Standing(IntEnum):
    #: "Don't let me order fish tonight", "he never does".
    PASSING = 0
    #: How things are or are done: "the couple sleeps in the blue room", "she always laughs at that".
    STATE = 1
    #: "It can't come alongside above 14 m/s", "Sunday is booked".
    FIRM = 2
    #: "Never push to main", "we decided to keep the dome", "I prefer tea": said to be kept to.
    RULE = 3


#: Cues of rules that :func:`facts.find_cues` leaves alone, since they may also begin small talk.
_RULES = (
    r"\b(?:decision|rule|condition)s?: |\bno [\w-]+ing\b|\bno (?:[\w-]+ ){1,4}(?:anywhere|above|below|before|after|on|"
    r"into|without|ever|unless|at all)\b|\bhands off\b|\bnobody\b.{1,40}\b(?:before|until|without)\b|\bunless\b|"
    r"\bnot\b.{1,60}\b(?:before|until)\b|\bonly \w+ing\b|"
    r"\bonly (?:\w+ ){1,2}(?:before|after|when|while|if)\b|\bas \w+, never\b|\bno (?:[\w-]+ ){0,5}[\w-]+, ever\b|"
    r"\b(?:stays?|remains?) \w+ (?:until|unless|before)\b|\b(?:and|but) only [^,]{3,40}, no [\w-]+|必ず|ألا "
)
_STATES = (
    r"\b(?:stays?|remains?) (?:closed|open|where|with|as|at|in)\b|\b(?:for good|from \w+ on|as of|instead|any ?more|"
    r"forget)\b|\b(?:goes|moves|moved|leaves|comes|sleeps?|runs|belongs?|sits|stands|lives) "
    r"(?:in|into|to|at|on|out|under|with)\b|\bwants? [\w ]{1,24}\bas\b|"
    r"\b(?:is|are|it['’]s|says) .{1,40} now\b|\bneeds? (?:at|\d)|\bnot \w+, \w+\b"
)
_MORE_CUES = re.compile(f"{_RULES}|{_STATES}", re.IGNORECASE)
_FIRM_CUES = re.compile(_RULES, re.IGNORECASE)
#: Said for the moment.
_ONCE = re.compile(
    r"\b(?:let me|remind me|tell me|tonight|this (?:morning|afternoon|evening|time|once|minute)|right now|just now|"
    r"for a (?:moment|minute|second)|never mind|heute abend|ce soir|esta noche|stasera)\b"
    r"|(?<!from )(?<!as of )\b(?:today|yesterday)\b",
    re.IGNORECASE,
)
_WANTED_NOW = re.compile(
    r"\W*(?:(?:and|but|so|now|ok|okay|well|please|just|oh)\W+)*(?:let|remind|tell|show) me\b", re.IGNORECASE
)
#: Of others, and of what was: nobody is asked to keep to it.
_NEVER_DID = re.compile(
    r"\b(?:he|she|it|they|who)(?:['’]\w+)? (?:\w+ )?(?:never|always)\b|\b(?:had|has|have|['’](?:d|s|ve)) never\b"
    r"|\bnever (?:\w{2,}[^e]ed|seen|saw|knew|got|heard|met|came|went|had|was|were|did|does|says?|said|told|thought)\b",
    re.IGNORECASE,
)
_TOLD_OF = re.compile(
    r"\b(?:was|were|had|did|didn['’]t|wasn['’]t|couldn['’]t|said|went|told|looked|walked|asked|thought|forgot|forget)\b",
    re.IGNORECASE,
)
#: In so many words: a rule, a decision, a wish of the speaker's.
_EXPLICIT = re.compile(
    r"\b(?:rules?|decisions?|conditions?|constraints?|decided|agreed|hands off|under no circumstances|forbidden|"
    r"prohibited|(?<!was )(?<!were )not allowed|off[- ]limits|from now on|allergic|allergy|intolerant|"
    r"i prefer|we prefer|prefers|call me|(?:stays?|remains?) \w+ (?:until|unless|before)|"
    r"nobody .{1,40} (?:before|until|without)|not .{1,60} (?:before|until|unless)|"
    r"niemals|nie|auf keinen fall|darf nicht|muss|müssen|jamais|toujours|il faut|nunca|siempre|sempre|mai|nooit|altijd|"
    r"(?:deadline|budget) (?:is|stays|remains))\b|\b(?:always|must|never) (?:as|in|with|use|write|be)\b",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(
    r"(?:\A|[,;:.] )(?:please |and |but |so |also )*(?:never|always|no|not|don['’]t|only)\b", re.IGNORECASE
)
#: Words that a statement has at least, beside its cue; a command has one.
_FEWEST_WORDS = 2


def find_cues(text: str) -> list[tuple[int, int]]:
    """Where a clause states a rule, decision, preference or how things are."""
    return facts.find_cues(text) or [match.span() for match in _MORE_CUES.finditer(text)]


def is_of_the_moment(text: str) -> bool:
    """Whether a sentence begins with what somebody wants to do or to be told right then."""
    return _WANTED_NOW.match(text) is not None


def is_told_of(stated: str) -> bool:
    """Whether it tells what somebody does or did, and not how things are."""
    return _NEVER_DID.search(stated) is not None or _TOLD_OF.search(stated) is not None


def standing_of(stated: str) -> Standing:
    """``stated``: the part of a clause around a cue."""
    is_shouted = stated.isupper() and stated.lower() != stated and not any(map(str.isdigit, stated))
    words = _words_besides(stated)
    if is_shouted or not words or _ONCE.search(stated):
        return Standing.PASSING
    if not (facts.find_cues(stated) or _FIRM_CUES.search(stated)):
        return Standing.STATE
    if stated.isascii() and words < _FEWEST_WORDS and not _IMPERATIVE.search(stated):
        return Standing.STATE
    has_figures = any(map(str.isdigit, stated))
    if _NEVER_DID.search(stated) and not has_figures:
        return Standing.STATE
    if _IMPERATIVE.search(stated) or _EXPLICIT.search(stated) or not stated.isascii():
        return Standing.RULE
    return Standing.STATE if _TOLD_OF.search(stated) and not has_figures else Standing.FIRM


def _words_besides(stated: str) -> int:
    """How many words say what a statement is about."""
    if facts.is_unspaced(stated):
        return len(stated)
    words = map(facts.weigh, stated.split())
    return sum(
        word.strength in (facts.CONTENT, facts.NEAR, facts.TELLING) and not facts.is_negation(word.norm)
        for word in words
    )
