"""Newest mention: an older statement is dropped for a newer one that says it again, or told only together with it."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
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
            if often[word] <= 2 * rare:
                places[word].append(i)
    last = {word: found[-_PLACES:] for word, found in places.items()}
    for i, older in enumerate(statements):
        mine, values, marked = older.words.content, older.words.values, older.words.marked
        found = [last[word] for word in mine if word in last and last[word][-1] > i]
        # One of these says more than that two statements are in one language.
        weighty = marked.union([word for word in mine if often[word] == 2]) if found else marked
        for j in sorted({j for where in found for j in where if j > i}):
            shared = mine & words[j]
            if len(shared) < 2 and shared.isdisjoint(weighty):
                continue
            newer = statements[j]
            others = newer.words.values
            has_all, differs, plain, both = len(shared) == len(mine), False, mine, shared
            if values or others:
                # Where more than one value differs, it is another record and no newer state of this one.
                differs = len(values - others) == 1 == len(others - values)
                plain, both = mine - values, shared - values - others
            if len(both) >= 2 and (has_all or (differs and plain <= words[j] - others and not older.is_firm)):
                is_alike = len(both) >= _ALIKE * max(len(plain), len(words[j] - others))
                if (differs or is_alike) and not newer.asks and (older.asks or _replaces(newer, older)):
                    older.replaced_by = newer
                    break
            named = [word for word in shared if often[word] <= rare]
            # "Room 12" and "12 guests" are about two things.
            names = [
                word
                for word in named
                if word in marked and word in newer.words.marked and not (word.isdigit() and len(word) <= _SHORT)
            ]
            # What is named only twice is spoken of again for a reason, in whatever words.
            twice = [word for word in named if often[word] == 2]
            is_part, is_about = len(both) >= 2 and has_all, len(named) >= 2 or names
            if is_part or (differs and twice) or (is_about and (differs or _changes(newer, j - i))):
                older.needs = [*older.needs, newer]
            elif not set(names).isdisjoint(twice):
                older.mentions = [*older.mentions, newer]
    told = [one for one in statements if one.replaced_by is None]
    for one in told:
        if one.needs or one.mentions:
            one.needs = list(dict.fromkeys(map(_newest, one.needs)))
            one.mentions = list(dict.fromkeys(map(_newest, one.mentions)))
    return told


def _without_repeats(statements: Sequence[Statement]) -> list[Statement]:
    """What one speaker said twice is told where it was said last."""
    last = {(one.speaker, one.text): one for one in statements}
    for one in statements:
        if (again := last[one.speaker, one.text]) is not one:
            one.replaced_by = again
    return [one for one in statements if one.replaced_by is None]


def _changes(newer: Statement, distance: int) -> bool:
    """Whether it takes something back, or is so brief that it goes on from what was said right before."""
    is_near = newer.size <= _BRIEF and distance <= _NEAR
    return is_near or (not newer.asks and REVERSAL.search(newer.text, newer.words.cues) is not None)


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
