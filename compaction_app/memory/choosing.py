"""Chooses the statements to tell: the most new words for each token first, each with the statements it needs."""

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from compaction_app.memory.statements import NOBODY, Statement
from compaction_app.memory.word_tables import FIRST_PERSON
from compaction_app.memory.words import is_unspaced, stem
from compaction_app.values import Role

#: The worth of a name, a number or an identifier, where a plain word has 1.
MARKED = 3.0
#: The worth of two signs of a script without spaces that stand side by side in one statement only: hardly ever a word.
_ONE_PAIR = 0.2
#: A factor on the worth of a word for each time that it is told before.
AGAIN = 0.6
#: Of a person's rule, wish or decision: a factor on its words, what is added, and what is added for a firm one.
_RULE, _RULE_BONUS, _FIRM_BONUS = 1.5, 1.5, 5.0
_QUESTION, _FOCUS = 0.5, 1.8
#: Of what people say of themselves. Where they have names, several take part, and that is what the others remember.
_OWN, _OWN_AMONG_PEOPLE = 1.6, 2.4
#: Worth is divided by tokens to this power.
_LENGTH_POWER = 0.9
#: A statement that needs more others than this is left out.
_MOST_NEEDED = 12
#: So often is a statement priced anew before it is taken as it stands.
_PRICED = 12
#: The share of the room that the last statement may take: what comes next may answer it.
_LAST = 20


def mark_names(statements: Sequence[Statement]) -> None:
    """Mark a word as a name everywhere, if it is marked in half of its uses or capitalised in all of them."""
    said = [one.words for one in statements]
    often = Counter(chain.from_iterable([words.content for words in said]))
    marked = Counter(chain.from_iterable([words.marked for words in said]))
    capital = Counter(chain.from_iterable([words.marked | words.initial for words in said]))
    names = frozenset(
        word for word, count in capital.items() if 2 * marked[word] >= often[word] or count == often[word] > 1
    )
    for one in statements:
        if (found := one.words.content & names) != one.words.marked:
            one.words = one.words._replace(marked=found)


def appraise(statements: Sequence[Statement]) -> Sequence[Statement]:
    """The same, each with the worth of its words where no other statement is chosen. What is not appraised has none."""
    labels = {stem(part.lower()) for speaker in {one.speaker for one in statements} for part in speaker.label.split()}
    # What stands side by side again and again is a word; on average a pair is worth one.
    pairs = Counter(word for one in statements for word in one.words.content if is_unspaced(word))
    often_said = {word: _ONE_PAIR + math.log2(often) for word, often in pairs.items()}
    usual = sum(often_said.values()) / max(1, len(often_said))
    plain = {word: often / usual for word, often in often_said.items()}
    for one in statements:
        # "Keep it up!" cheers somebody on.
        is_rule = (one.is_rule or (one.speaker.role == NOBODY and one.demand > 0)) and "!" not in one.text
        one.worth = dict.fromkeys(one.words.content - labels, 1.0)
        one.worth |= {word: plain[word] for word in one.worth.keys() & plain.keys()}
        one.worth |= dict.fromkeys(one.words.marked - labels, MARKED)
        one.factor = one.weight * (_RULE if is_rule else 1.0) * (_QUESTION if one.asks else 1.0)
        if FIRST_PERSON.search(one.text, one.words.cues):
            one.factor *= _OWN_AMONG_PEOPLE if one.speaker.name and one.speaker.role != Role.TOOL else _OWN
        if is_rule:
            one.bonus = _FIRM_BONUS if one.is_firm else _RULE_BONUS * one.weight
    return statements


class _Chosen:
    """What is chosen of statements, and what the others still tell."""

    def __init__(
        self,
        statements: Sequence[Statement],
        costs: Sequence[int],
        room: int,
        told: Mapping[str, int],
        focus: frozenset[str],
    ) -> None:
        self.statements, self.costs, self.room = statements, costs, room
        self.place = {id(one): i for i, one in enumerate(statements)}
        self.words = [one.worth for one in statements]
        self.bonuses = [0.0 if one.is_told else one.bonus for one in statements]
        in_focus = [bool(focus) and not focus.isdisjoint(one.words.content) for one in statements]
        self.factors = [
            one.factor * (_FOCUS if is_in else 1.0) for one, is_in in zip(statements, in_focus, strict=True)
        ]
        self.faded = {word: AGAIN**often for word, often in told.items()}
        self.taken = set[int]()

    def together(self, i: int) -> list[int]:
        """The statement and what it needs; nothing where it is taken, says nothing or needs too much."""
        one, words = self.statements[i], self.words[i]
        if i in self.taken or not (len(words) > 1 or (words and self.bonuses[i])):
            return []
        if not (one.needs or one.mentions):
            return [i] if self.costs[i] <= self.room else []
        return self._gathered(i, self.room // 2, 1) or self._gathered(i, self.room, 0)

    def _gathered(self, i: int, most: int, mentions: int) -> list[int]:
        """A statement with all that it needs, and all that those need; nothing where they are too many or too long."""
        group, size = [i], 0
        for k in group:
            others = [*self.statements[k].needs, *[*self.statements[k].mentions] * mentions]
            found = (self.place[id(other)] for other in others if id(other) in self.place)
            group += [j for j in found if j not in group and j not in self.taken]
            size += self.costs[k]
            if len(group) > _MOST_NEEDED or size > most:
                return []
        return group

    def gain(self, group: Sequence[int]) -> float:
        """What these tell that is new, for their tokens."""
        faded, price, total = self.faded, 0, 0.0
        for k in group:
            told = sum([value * faded.get(word, 1.0) for word, value in self.words[k].items()])
            price, total = price + self.costs[k], total + self.bonuses[k] + self.factors[k] * told
        return float(round(total / price**_LENGTH_POWER, 6))

    def take(self, group: Sequence[int]) -> None:
        self.taken.update(group)
        for k in group:
            self.faded.update([(word, AGAIN * self.faded.get(word, 1.0)) for word in self.words[k]])


def choose(
    statements: Sequence[Statement],
    costs: Sequence[int],
    room: int,
    *,
    told: Mapping[str, int],
    focus: frozenset[str] = frozenset(),
    first: Collection[int] = (),
) -> list[list[int]]:
    """Groups of places in ``statements`` that cost ``room`` tokens at most, best first: a statement and what it needs.

    ``told``: how often each stem is told elsewhere. ``first``: places that come before any other.
    """
    choice, used = _Chosen(statements, costs, room, told, focus), 0
    groups: list[list[int]] = []
    # (-gain, -place, how often it was priced), so that of equal gains the newer statement comes first. Gains only fall
    # as words are told, so an old gain is an upper bound.
    heap = [(-choice.gain(group), -i, 0) for i in range(len(statements)) if (group := choice.together(i))]
    is_last_kept = costs and _LAST * costs[-1] <= room
    heap += [(-math.inf, -i, _PRICED) for i in [*first, *([len(costs) - 1] if is_last_kept else [])]]
    heapq.heapify(heap)
    while heap:
        _, place, priced = heapq.heappop(heap)
        if used + costs[-place] > room:
            continue
        group = choice.together(-place)
        if group and heap and priced < _PRICED and (now := -choice.gain(group)) > heap[0][0] + 1e-6:
            heapq.heappush(heap, (now, place, priced + 1))
        elif group and used + (price := sum(costs[k] for k in group)) <= room:
            used += price
            groups.append(group)
            choice.take(group)
    return groups
