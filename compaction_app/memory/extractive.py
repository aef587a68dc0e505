"""A summary without a model: the statements of a conversation that say the most for each token, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compaction_app.memory.choosing import appraise, mark_names
from compaction_app.memory.reading import Reader, read_prose
from compaction_app.memory.relating import relate
from compaction_app.memory.statements import Statement
from compaction_app.memory.words import content_stems
from compaction_app.memory.working import WorkingMemory
from compaction_app.memory.writing import EDGE, compose, read_back, told_in
from compaction_app.tokens import Count
from compaction_app.values import EXTRACT_HEADING, EXTRACTIVE_MODEL, Message, SummaryDraft, SummaryRequest


@dataclass(frozen=True, slots=True)
class Material:
    """What was read once: for an extract, for the score, and for a ledger."""

    #: In order, with their names marked, and without those that a newer one replaces.
    statements: Sequence[Statement]
    working: WorkingMemory
    covered: Sequence[Message] = ()
    #: Extracts that were made of it, by target and instructions.
    made: dict[tuple[int, str], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reader: Reader,
        working: WorkingMemory,
        covered: Sequence[Message] = (),
        turn_request: Message | None = None,
    ) -> Material:
        reader.read_messages(covered)
        working.read(covered, turn_request)
        mark_names(reader.statements)
        return cls(appraise(relate(reader.statements)), working, covered)

    def of_text(self, extract: str) -> list[Statement]:
        """Those that an extract of them tells."""
        told = {(speaker, text) for _, speaker, text in told_in(extract)}
        return [one for one in self.statements if (one.speaker, one.text) in told]

    def extract(self, target_tokens: int, count: Count, instructions: str = "") -> str:
        if (found := self.made.get((target_tokens, instructions))) is not None:
            return found
        room = target_tokens - sum(count([EXTRACT_HEADING])) - EDGE
        focus = content_stems(instructions)
        text = compose(self.statements, self.working, room, count, day_mark="### ", focus=focus)
        text = f"{EXTRACT_HEADING}\n{text}" if text else self._smallest(target_tokens, count)
        return self.made.setdefault((target_tokens, instructions), text)

    def _smallest(self, target: int, count: Count) -> str:
        """Where there is no room for a heading: the last statement that fits alone and needs no other."""
        alone = [one for one in reversed(self.statements) if not (one.needs or one.joined) and one.size > 1]
        texts = [f"{one.speaker.label}: {one.text}" for one in alone]
        if self.statements:
            texts.append("What was said is too long for this summary")
        elif self.covered:
            texts = [f"Messages without any text in them: {len(self.covered)}"]
        return next((text for text in texts if count([text])[0] <= target), "")


def extractive_draft(request: SummaryRequest, count: Count) -> SummaryDraft:
    """It goes on from the base's extract, or where there is none from the model's text, whose lines are nobody's.

    What a person wrote stands before it, in at most half of the room, and so in each that follows.
    ``instructions`` are no prompt here: statements that share a word with them count almost twice.
    """
    goes_on = bool(request.previous_extract) or not request.previous_content
    said, most = _written_by_person(request) if goes_on else "", request.target_tokens // 2
    if said and count([said])[0] > most:
        said = compose(appraise(read_prose(said)), WorkingMemory(), most, count)
    earlier = None if goes_on else read_earlier(request.previous_content)
    material = Material.of(*earlier, request.covered, request.turn_request) if earlier else read_replaced(request)
    room = request.target_tokens - (count([said])[0] + EDGE if said else 0)
    text = "\n".join(filter(None, [said, material.extract(room, count, request.instructions)]))
    return SummaryDraft(text=text, model=EXTRACTIVE_MODEL, is_extract=True, material=None if earlier else material)


def _written_by_person(request: SummaryRequest) -> str:
    """What a person wrote of the base: all of its text, or in an extract the part above the extract's heading.

    The column ``extract`` has none of it: other branches are shown that, and the author may have read past the cutoff.
    """
    text = request.previous_content
    if request.previous_by_person:
        return text
    return f"\n{text}".rpartition(f"\n{EXTRACT_HEADING}\n")[0].strip() if request.previous_is_extract else ""


def read_replaced(request: SummaryRequest) -> Material:
    """What a summary takes the place of: the covered messages, and what the base's extract says."""
    earlier = read_earlier(request.previous_extract, request.previous_memory, is_extract=True)
    return Material.of(*earlier, request.covered, request.turn_request)


def read_earlier(text: str, state: str = "", *, is_extract: bool = False) -> tuple[Reader, WorkingMemory]:
    """A reader that has read an earlier summary, and its working memory. A model's text is nobody's words."""
    earlier = read_back(text.removeprefix(EXTRACT_HEADING)) if is_extract else read_prose(text)
    # A cut lies before what a person says next: where a person's words stand last, what answered them is not told.
    last = earlier[-1] if is_extract and earlier and not earlier[-1].speaker.is_person else None
    return Reader(earlier, last), WorkingMemory.of(state)
