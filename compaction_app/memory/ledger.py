"""The extract of a summary, and its ledger: what of the extract the summary lost, word for word.

The extract is made of the covered messages and the base's own extract alone, so it is true on every branch that
contains the cutoff. The ledger is the choice from it that neither the summary tells nor the messages that stay beside
it. Each has a column of its own. The next summary replaces both.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from compaction_app.conf import Settings
from compaction_app.context.pruning import pins_and_room
from compaction_app.exceptions import RedactionFailed
from compaction_app.memory.extractive import Material, read_replaced
from compaction_app.memory.score import Told, share_kept
from compaction_app.memory.statements import Statement
from compaction_app.memory.symbols import parts_in
from compaction_app.memory.writing import EDGE, compose
from compaction_app.messages.transcript import count_summary, escape, leaks_wrapper
from compaction_app.redaction import apply_redactor, redactor_of
from compaction_app.tokens import Count
from compaction_app.values import (
    LEDGER_HEADING,
    Budget,
    CompactionPlan,
    Message,
    SummaryDraft,
    SummaryRequest,
    with_ledger,
)

#: The share of a summary's target that is the ledger's, whatever the draft takes.
LEDGER_SHARE = 1 / 3
#: So many content words make a sentence worth keeping that has no name, number or rule: "Flights are fine too."
_FULL_SENTENCE = 2
#: So many tokens behind the cutoff are read, or as many as are covered.
_LEAST_FOLLOWING = 8_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What is stored beside a draft, and the share of facts kept without and with the ledger: 0–1, None if off."""

    extract: str
    memory: str
    ledger: str
    before: float | None
    after: float | None


@dataclass
class Remembered:
    """The extract of a request's messages, which have passed the redactor, and the ledger of any text about them."""

    request: SummaryRequest
    plan: CompactionPlan
    budget: Budget
    settings: Settings
    count: Count
    #: What stands beside any draft: its model is shown it, so nothing of it goes for what the draft tells.
    shown: str = field(default="", init=False)

    @cached_property
    def material(self) -> Material:
        return read_replaced(self.request)

    @cached_property
    def extract(self) -> str:
        return self.material.extract(_extract_target(self.plan, self.budget, self.settings), self.count)

    @cached_property
    def beside(self) -> tuple[Told, set[str]]:
        """What the messages that stay tell, and the parts of their symbols."""
        texts = [message.content for message in _following_messages(self.plan, self.settings)]
        return Told(texts), self._parts_of(texts)

    @property
    def room(self) -> int:
        """Tokens for the entries of the ledger that no draft may take."""
        return ledger_room(self.plan.target_tokens, self.settings) - self.count([LEDGER_HEADING])[0]

    def show(self) -> tuple[str, int]:
        """The ledger that a model is shown before it writes, and how many tokens of the target it takes."""
        room = self.room - 2 * EDGE
        self.shown = self._composed("", room, lambda texts: self.count([escape(text) for text in texts]))
        return self.shown, self.count([with_ledger("", self.shown)])[0] if self.shown else 0

    def kept(self, draft: SummaryDraft) -> Kept:
        """What is stored beside a draft. Never fails one that was accepted."""
        prose, self.material = draft.text, draft.material or self.material
        if self.settings.ledger_tokens == 0:
            return Kept(self.extract, self.material.working.state(), "", None, None)
        before = share_kept(self.material.statements, Told([prose]))
        size = count_summary(with_ledger(prose, "\n"), self.count)
        # An extract was made for the whole target.
        own = 0 if draft.is_extract else ledger_room(self.plan.target_tokens, self.settings)
        room = _room(own, prose, size, self.plan, self.budget, self.settings, self.count)
        limit, ledger = size + room, self._ledger(draft, room)
        # In one text with the prose it may have more tokens than alone.
        while ledger and (over := count_summary(with_ledger(prose, ledger), self.count) - limit) > 0:
            room -= over
            ledger = self._ledger(draft, room)
        after = share_kept(self.material.statements, Told([prose, ledger])) if ledger else before
        return Kept(self.extract, self.material.working.state(), ledger, before, after)

    def _ledger(self, draft: SummaryDraft, room: int) -> str:
        """What was shown, and in more room what else the draft lost."""
        if self.shown and self.count([self.shown])[0] <= room <= self.room:
            return self.shown
        return self._composed(draft.text, room, self.count, is_prose=not draft.is_extract)

    def _parts_of(self, texts: Sequence[str]) -> set[str]:
        return parts_in(texts) if self.material.working.calls else set()

    def _composed(self, prose: str, room: int, count: Count, *, is_prose: bool = True) -> str:
        statements, (told, said) = self.material.of_text(self.extract), self.beside
        if prose:
            told, said = Told([prose], told), said | self._parts_of([prose])
        lost = _lost(statements, told, self.request.nonce, is_prose=is_prose)
        first = {id(one) for one in self.material.of_text(self.shown)}
        working = self.material.working
        return compose(lost, working, room, count, told=told.stems, said=said, first=first)


def ledger_room(target_tokens: int, settings: Settings) -> int:
    """The tokens of a summary's target that are the ledger's, whatever the draft takes."""
    own = int(LEDGER_SHARE * target_tokens)
    return own if settings.ledger_tokens is None else min(own, settings.ledger_tokens)


def _following_messages(plan: CompactionPlan, settings: Settings) -> list[Message]:
    """What stays verbatim after the summary on every branch that shares it, as a model is shown it.

    What follows the anchor is unknown to some of them. No context can hold a message that the redactor fails on.
    """
    redact = redactor_of(settings)
    shared = [message for message in plan.kept if message.depth <= plan.anchor_depth]
    # A history that takes many generations to catch up with would be read as a whole in each of them.
    room = max(_LEAST_FOLLOWING, sum(message.tokens for message in plan.covered))
    sizes = accumulate(message.tokens for message in shared)
    near = [message for message, size in zip(shared, sizes, strict=True) if size <= room]
    shown: list[Message] = []
    for message in [*([plan.turn_request] if plan.turn_request else []), *near]:
        with suppress(RedactionFailed):
            shown.append(apply_redactor(message, redact))
    return shown


def _lost(statements: Sequence[Statement], told: Told, nonce: str, *, is_prose: bool) -> list[Statement]:
    """The statements that the summary leaves out and a reader would miss, and those that they need."""
    lost = []
    for one in statements:
        one.is_told = told.holds(one)
        is_missed = one.words.marked or one.words.values or one.size >= _FULL_SENTENCE or one.is_rule
        # A rule that prose tells is nobody's in the next generation, unless it is quoted as well.
        if (is_prose and one.is_firm) or (is_missed and not one.is_told):
            lost.append(one)
    wanted = {id(other) for one in lost for other in one.needs} | {id(one) for one in lost}
    return [one for one in statements if id(one) in wanted and not leaks_wrapper(one.text, nonce)]


def _extract_target(plan: CompactionPlan, budget: Budget, settings: Settings) -> int:
    """The summary's target, and what ``LEDGER_TOKENS`` adds to it where the branch's target leaves room."""
    spare = min(budget.target - plan.staying_tokens, plan.most_tokens) - plan.target_tokens
    return plan.target_tokens + max(0, min(settings.ledger_tokens or 0, spare))


def _room(
    own: int, prose: str, size: int, plan: CompactionPlan, budget: Budget, settings: Settings, count: Count
) -> int:
    """Tokens for the entries of the ledger: its own share and what the draft left of the target, or what
    ``LEDGER_TOKENS`` says, as far as the branch's target, the saving and the prompt leave room."""
    heading = count([LEDGER_HEADING])[0]
    wanted = max(own, plan.target_tokens - sum(count([prose]))) - heading
    if settings.ledger_tokens is not None:
        wanted = min(settings.ledger_tokens - heading, max(wanted, budget.target - plan.staying_tokens - size))
    # More would leave the whole summary out of the prompt.
    shown = pins_and_room(plan.kept, plan.turn_request, budget.available, plan.pins)[1] - size
    return min(wanted, plan.most_tokens - size, shown)
