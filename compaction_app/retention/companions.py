"""Which clauses are told only together, since one alone would say what nobody said.

- What begins with "he" or "it" speaks of what stands right before it.
- What takes back ("It's cancelled", "I mixed up the digits") and what it takes back: neither without the other, also
  where it answers what the other side said.
- What follows "Imagine the following" is imagined.
- "Turn it off" is told only with the "Turn it on" that came after it.

A summary is read back by the same rules, from its lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from compaction_app.retention import facts
from compaction_app.retention.cautions import is_cautioned, takes_back
from compaction_app.retention.choosing import Unit
from compaction_app.retention.facts import CONTENT, is_negation
from compaction_app.values import Role

#: How many units of what was said before are bound to what takes it back.
_LOOK_BACK = 12
#: What a turn says in so few words, or characters of a script without spaces, acknowledges or reacts to another.
_SHORT_WORDS, _SHORT_CHARS = 6, 48
_REACTION_WORDS = 5
#: A sentence of more words tells more than a state that may be reversed.
STATE_WORDS = 12
#: "Did you really?" asks about what was said right before; so its answer speaks of that too.
_ASKED_WORDS = 4
_PERSONS = frozenset(
    "he she they his her their him them er sie ihm ihn elle ils elles él ella ellos ellas lui lei loro egli essa ele "
    "ela eles elas hij zij ze он она они هو هي هم".split()
)
_THINGS = frozenset("it its es il это оно".split())
_UNSPACED_PERSON = re.compile(r"[他她它彼]|그는|그녀")
_WORD = re.compile(r"\W*([^\W\d_]+)")
#: What comes after it is not said of the world.
_FRAME = re.compile(
    r"\A\W*(?:(?:now|please|so|ok|okay)\W+)*(?:imagine|suppose|assume|pretend|hypothetically|"
    r"let['’]s (?:say|pretend|imagine|assume|suppose)|"
    r"in (?:this|my|the|a) (?:scenario|dream|film|movie|novel|story|book|play|game|exercise)\b|"
    r"i (?:had a dream|dreamt|dreamed)|here(?:['’]s| is) (?:the plot|a story|my story|a scenario|a joke|the scene)|"
    r"stell dir vor|stellen sie sich vor|angenommen|nehmen wir an|im (?:film|roman|traum)\b|imaginez?|imaginons|"
    r"supposons|dans (?:le film|le roman|mon rêve)|imagina|imagine[ms]os|supongamos|en la (?:película|novela)|immagina|"
    r"supponiamo|nel (?:film|romanzo|sogno)|suponhamos|no (?:filme|romance)|stel je voor|stel dat|in de (?:film|roman)|"
    r"представь|допустим|предположим|تخيل|افترض|假设|假設|想象|想像|仮に|想像して|가정)"
)
#: A frame of so many words announces what follows, and is nothing without it.
_FRAME_WORDS = 10
_FRAME_CHARS = 60
#: What says whether, and not what: two sentences that differ in these alone may be opposites.
_WHETHER = frozenset(
    "on off in out up down open closed start stop again now longer anymore allowed forbidden yes enabled disabled "
    "please".split()
)
#: What an article or a courtesy adds makes no other sentence.
_ARTICLES = frozenset("the a an please".split())

Bonds = dict[int, list[int]]


def find_companions(units: Sequence[Unit]) -> Bonds:
    """For each unit the others without which it would mislead. Two may need each other."""
    bonds: Bonds = {}
    #: Where the message of the unit began, and those before it.
    starts: list[int] = []
    frame = -1
    for i, unit in enumerate(units):
        if not _is_speech(unit):
            continue
        if unit.opens or not starts:
            starts.append(i)
            frame = -1
        if unit.answered_by:
            if unit.opens and unit.clause.text.split("\n")[0].count(" ") < _ASKED_WORDS:
                _bind_back(bonds, units, i, starts)
            continue
        if frame >= 0:
            _bind_to_frame(bonds, units, i, frame)
        if _is_frame(unit.clause.text):
            frame = i
        _bind_by_words(bonds, units, i, starts)
    return bonds


def _bind_by_words(bonds: Bonds, units: Sequence[Unit], i: int, starts: Sequence[int]) -> None:
    """To what its first word speaks of, and to what it takes back."""
    unit, text = units[i], units[i].clause.text
    word = _first_word(text)
    is_person = word in _PERSONS or (not text.isascii() and _UNSPACED_PERSON.match(text) is not None)
    if not unit.opens and (is_person or word in _THINGS):
        _bind_to_subject(bonds, units, i, word)
    if text.endswith(facts.QUESTION_MARKS):
        return
    if takes_back(text):
        _bind_back(bonds, units, i, starts)
    elif unit.opens and (is_person or _reacts(unit) or (word in _THINGS and (unit.first or is_cautioned(text)))):
        _bind_back(bonds, units, i, starts, mutual=text.count(" ") < _REACTION_WORDS)


def bind_opposites(units: Sequence[Unit], bonds: Bonds) -> None:
    """An older state needs the newer one that differs from it only in what says whether it holds."""
    newest: dict[tuple[str, frozenset[str]], int] = {}
    for i in range(len(units) - 1, -1, -1):
        unit = units[i]
        if len(unit.clause.words) > STATE_WORDS or unit.answered_by or not _is_speech(unit):
            continue
        topic = frozenset(
            word.norm
            for word in unit.clause.words
            if word.strength >= CONTENT and word.norm not in _WHETHER and not is_negation(word.norm)
        )
        if len(topic) < 2:
            continue
        key = (unit.speaker, topic)
        if key in newest and said_of(units[newest[key]]) != said_of(unit):
            _bind(bonds, i, newest[key])
        newest.setdefault(key, i)


def said_of(unit: Unit) -> tuple[str, str]:
    """What makes two units the same: who speaks, and all words but articles."""
    norms = [word.norm for word in unit.clause.words]
    return unit.speaker, " ".join([norm for norm in norms if norm and norm not in _ARTICLES])


def share_topic(one: Unit, other: Unit) -> bool:
    """Whether two sentences have half of their telling words in common, or of their signs where no spaces are."""
    if abs(len(one.clause.words) - len(other.clause.words)) > len(one.clause.words):
        return False
    left, right = _telling(one), _telling(other)
    return 2 * len(left & right) >= max(min(len(left), len(right)), 1)


def _telling(unit: Unit) -> frozenset[str]:
    norms = [word.norm for word in unit.clause.words if word.strength >= CONTENT]
    return frozenset(norms if len(norms) > 1 else "".join(norms))


def _is_speech(unit: Unit) -> bool:
    return not unit.clause.whole and not unit.speaker.startswith(Role.TOOL)


def _first_word(text: str) -> str:
    found = _WORD.match(text[:_FRAME_CHARS])
    return found[1].lower() if found else ""


def _is_frame(text: str) -> bool:
    return _FRAME.match(text[:_FRAME_CHARS].lower()) is not None


def _bind(bonds: Bonds, i: int, needed: int) -> None:
    if i != needed:
        found = bonds.setdefault(i, [])
        if needed not in found:
            found.append(needed)


def _bind_to_frame(bonds: Bonds, units: Sequence[Unit], i: int, frame: int) -> None:
    _bind(bonds, i, frame)
    if frame == i - 1 and units[frame].clause.text.count(" ") < _FRAME_WORDS:
        _bind(bonds, frame, i)


def _bind_to_subject(bonds: Bonds, units: Sequence[Unit], i: int, word: str) -> None:
    """To the clause before; where that says "he" as well, to what that one needs."""
    for before in range(i - 1, max(i - 1 - _LOOK_BACK, -1), -1):
        unit = units[before]
        if unit.last_speaker != units[i].speaker:
            continue
        if before in bonds and _first_word(unit.clause.text) == word and not unit.opens:
            for needed in bonds[before]:
                if needed < before:
                    _bind(bonds, i, needed)
        else:
            _bind(bonds, i, before)
        return


def _bind_back(bonds: Bonds, units: Sequence[Unit], i: int, starts: Sequence[int], *, mutual: bool = True) -> None:
    """What takes back, and what it takes back: the clause before it; or, where it begins a turn, the turn before, and
    the one before that too where that one only acknowledges."""
    if not units[i].opens:
        before = next((k for k in range(i - 1, max(i - _LOOK_BACK, -1), -1) if _is_speech(units[k])), i)
        spans = [range(before, i)]
    else:
        spans = []
        end = i
        for start in starts[-2:-4:-1]:
            spans.append(range(max(start, end - _LOOK_BACK), end))
            end = start
            if not _is_short(units, spans[-1]):
                break
    for span in spans:
        spoken = [k for k in span if _is_speech(units[k])]
        for needed in spoken[-1:]:
            _bind(bonds, i, needed)
        for k in spoken if mutual else ():
            _bind(bonds, k, i)


def _is_short(units: Sequence[Unit], span: range) -> bool:
    spoken = [units[k].clause.text for k in span if _is_speech(units[k])]
    return sum(text.count(" ") + 1 for text in spoken) <= _SHORT_WORDS and sum(map(len, spoken)) <= _SHORT_CHARS


def _reacts(unit: Unit) -> bool:
    """A few words with a "not" or a doubt and hardly anything else say something only of what came before them."""
    text = unit.clause.text
    if text.count(" ") >= _REACTION_WORDS or not is_cautioned(text):
        return False
    words = unit.clause.words
    if not text.isascii() and len(words) == 1:
        return len(text) <= _REACTION_WORDS
    telling = [word for word in words if word.strength >= CONTENT and not is_negation(word.norm)]
    return len(telling) < 2 and not any(word.weight >= 1.0 for word in telling)
