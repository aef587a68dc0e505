"""Newest mention: an older statement is dropped for a newer one that says it again, or told only together with it."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from compaction_app.memory.statements import Statement
from compaction_app.memory.word_tables import LIMIT, NEGATION, REVERSAL
from compaction_app.memory.words import stems_of

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
    stems = [stems_of(one.words.content) for one in statements]
    values = [stems_of(one.words.values) for one in statements]
    marks = [stems_of(one.words.marked) for one in statements]
    often = Counter(word for words in stems for word in words)
    rare = max(_RARE, int(len(statements) * _RARE_SHARE))
    #: One of these says more than that two statements are in one language.
    weighty = [names | {word for word in words if often[word] == 2} for words, names in zip(stems, marks, strict=True)]
    reverses = [not one.asks and REVERSAL.search(one.text, one.words.cues) is not None for one in statements]
    places: dict[str, list[int]] = defaultdict(list)
    for i, words in enumerate(stems):
        for word in words:
            if often[word] <= 2 * rare:
                places[word].append(i)
    last = {word: found[-_PLACES:] for word, found in places.items()}
    for i, older in enumerate(statements):
        for j in sorted({j for word in stems[i] for j in last.get(word, ()) if j > i}):
            shared = stems[i] & stems[j]
            if len(shared) < 2 and shared.isdisjoint(weighty[i]):
                continue
            newer = statements[j]
            named = [word for word in shared if often[word] <= rare]
            # "Room 12" and "12 guests" are about two things.
            names = [w for w in named if w in marks[i] and w in marks[j] and not (w.isdigit() and len(w) <= _SHORT)]
            # What is named only twice is spoken of again for a reason, in whatever words.
            twice = [word for word in named if often[word] == 2]
            both = len(shared - values[i] - values[j])
            # Where more than one value differs, it is another record and no newer state of this one.
            differs = len(values[i] - values[j]) == 1 == len(values[j] - values[i])
            if both >= 2 and not newer.asks and (older.asks or _replaces(newer, older)):
                plain, other = stems[i] - values[i], stems[j] - values[j]
                is_alike = both >= _ALIKE * max(len(plain), len(other))
                if (stems[i] <= stems[j] and is_alike) or (differs and plain <= other and not older.is_firm):
                    older.replaced_by = newer
                    break
            changes = reverses[j] or differs or (newer.size <= _BRIEF and j - i <= _NEAR)
            is_about = len(named) >= 2 or bool(names)
            is_part = both >= 2 and stems[i] <= stems[j]
            if is_part or (changes and is_about) or (differs and twice):
                older.needs.append(newer)
            elif not set(names).isdisjoint(twice):
                older.mentions.append(newer)
    told = [one for one in statements if one.replaced_by is None]
    for one in told:
        one.needs = list(dict.fromkeys(map(_newest, one.needs)))
        one.mentions = list(dict.fromkeys(map(_newest, one.mentions)))
    return told


def _without_repeats(statements: Sequence[Statement]) -> list[Statement]:
    """What one speaker said twice is told where it was said last."""
    last = {(one.speaker.label, one.text): one for one in statements}
    for one in statements:
        if (again := last[one.speaker.label, one.text]) is not one:
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
