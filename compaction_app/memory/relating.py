"""Newest mention: an older statement is dropped for a newer one that says it again, or told only together with it."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from compaction_app.memory.statements import Statement
from compaction_app.memory.word_tables import LIMIT, NEGATION, REVERSAL

#: A word is rare in so many statements, or in this share of them.
_RARE, _RARE_SHARE = 3, 0.01
#: Of the places of a rare word the last ones are looked at.
_PLACES = 4
#: Two statements are alike where they share this much of the longer one.
_ALIKE = 0.6
#: Statements within which one of so few words speaks of a name before it; digits of a number that names nothing.
_NEAR, _BRIEF, _SHORT = 6, 4, 3
_COMMENT = re.compile(r"\((?:assistant|tool)\b")


def relate(statements: Sequence[Statement]) -> list[Statement]:
    """Those that are told at all, with what each needs."""
    statements = _without_repeats(statements)
    words = [one.words.content for one in statements]
    often = Counter(chain.from_iterable(words))
    rare = max(_RARE, int(len(statements) * _RARE_SHARE))
    places: dict[str, list[int]] = defaultdict(list)
    for i, said in enumerate(words):
        for word in said:
            if 1 < often[word] <= rare:
                places[word].append(i)
    newer: dict[int, set[int]] = defaultdict(set)
    for found in places.values():
        for at, i in enumerate(found[:-1], start=1):
            newer[i].update(found[max(at, len(found) - _PLACES) :])
    twice = {word for word, number in often.items() if number == 2}
    for i, others in sorted(newer.items()):
        older, marked = statements[i], statements[i].words.marked
        for j in sorted(others):
            shared = words[i] & words[j]
            # One of these says more than that two statements are in one language.
            is_related = len(shared) > 1 or not (shared.isdisjoint(twice) and shared.isdisjoint(marked))
            if is_related and _compare(older, statements[j], shared, often, rare, j - i):
                break
    told = [one for one in statements if one.replaced_by is None]
    for one in told:
        if one.needs or one.mentions:
            one.needs = list(dict.fromkeys(map(_newest, one.needs)))
            one.mentions = list(dict.fromkeys(map(_newest, one.mentions)))
    return told


def _compare(
    older: Statement, newer: Statement, shared: frozenset[str], often: Mapping[str, int], rare: int, distance: int
) -> bool:
    """Whether the newer one, which has these words too, replaces the older; if not, what the older needs of it."""
    mine, values, others = older.words.content, older.words.values, newer.words.values
    has_all, differs, both, plain, other = len(shared) == len(mine), False, shared, mine, newer.words.content
    if values or others:
        # Where more than one value differs, it is another record and no newer state of this one.
        differs = len(values - others) == 1 == len(others - values)
        both, plain, other = shared - values - others, mine - values, other - others
    is_alike = has_all and len(both) >= _ALIKE * max(len(plain), len(other))
    is_state = differs and plain <= other and not older.is_firm
    if len(both) >= 2 and (is_alike or is_state) and not newer.asks and (older.asks or _replaces(newer, older)):
        older.replaced_by = newer
        return True
    named = [word for word in shared if often[word] <= rare]
    in_both = older.words.marked & newer.words.marked
    # "Room 12" and "12 guests" are about two things.
    names = [word for word in named if word in in_both and not (word.isdigit() and len(word) <= _SHORT)]
    # What is named only twice is spoken of again for a reason, in whatever words.
    twice = [word for word in named if often[word] == 2]
    is_about, is_near = len(named) >= 2 or bool(names), newer.size <= _BRIEF and distance <= _NEAR
    changes = differs or is_near or (is_about and not newer.asks and REVERSAL.search(newer.text, newer.words.cues))
    if (len(both) >= 2 and has_all) or (differs and twice) or (is_about and changes):
        older.needs = [*older.needs, newer]
    elif not set(names).isdisjoint(twice):
        older.mentions = [*older.mentions, newer]
    return False


def _without_repeats(statements: Sequence[Statement]) -> list[Statement]:
    """What one speaker said twice is told where it was said last."""
    last = {(one.speaker, one.text): one for one in statements}
    for one in statements:
        if (again := last[one.speaker, one.text]) is not one:
            one.replaced_by = again
    return [one for one in statements if one.replaced_by is None]


def _newest(statement: Statement) -> Statement:
    # Each stands after the one before, so the way ends.
    while statement.replaced_by is not None:
        statement = statement.replaced_by
    return statement


def _replaces(newer: Statement, older: Statement) -> bool:
    """A model, a tool or a condition never replaces what a person said."""
    if older.is_own and (not newer.is_own or _COMMENT.search(newer.text)):
        return False
    limits = (REVERSAL, NEGATION, LIMIT)
    return newer.weight >= older.weight and not any(one.search(newer.text, newer.words.cues) for one in limits)
