"""A summary without a model: the statements of a conversation that say the most for each token, in order."""

from __future__ import annotations

from collections.abc import Sequence

from compaction_app.memory.choosing import mark_names
from compaction_app.memory.ledger_text import EXTRACT_HEADING, split_former_ledger
from compaction_app.memory.named_values import NamedValues, values_of
from compaction_app.memory.reading import Reader, read_prose
from compaction_app.memory.relating import relate
from compaction_app.memory.statements import Statement
from compaction_app.memory.words import read_words, stem
from compaction_app.memory.writing import EDGE, compose, read_back
from compaction_app.tokens import Count
from compaction_app.values import EXTRACTIVE_MODEL, Message, SummaryDraft, SummaryRequest


def summarize_extractively(
    *,
    covered: Sequence[Message],
    previous_summary: str,
    target_tokens: int,
    count: Count,
    previous_is_extract: bool = False,
    instructions: str = "",
) -> str:
    """At most ``target_tokens`` of Markdown: statements as they were said, a heading a period, a line a speaker.

    ``previous_summary``: without its ledger. Only where ``previous_is_extract`` its lines are whose they say.
    ``instructions`` are no prompt here, nobody reads them: statements that share a word with them count almost twice.
    The same arguments give the same bytes, on every run and every machine.
    """
    reader, values = read_earlier(previous_summary, is_extract=previous_is_extract)
    reader.read_messages(covered)
    values.read(covered)
    statements = statements_of(reader)
    room = target_tokens - sum(count([EXTRACT_HEADING])) - EDGE
    focus = frozenset(map(stem, read_words(instructions).content))
    text = compose(statements, values, room, count, day_mark="### ", focus=focus)
    return f"{EXTRACT_HEADING}\n{text}" if text else _smallest(statements, covered, target_tokens, count)


def extractive_draft(request: SummaryRequest, count: Count) -> SummaryDraft:
    """The answer of a summarizer that needs no model. An earlier ledger is left to :func:`ledger.complete`."""
    text = summarize_extractively(
        covered=request.covered,
        previous_summary=request.previous_content,
        previous_is_extract=request.previous_is_extract,
        target_tokens=request.target_tokens,
        count=count,
        instructions=request.instructions,
    )
    return SummaryDraft(text=text, model=EXTRACTIVE_MODEL, is_extract=True)


def read_earlier(content: str, ledger: str = "", *, is_extract: bool = False) -> tuple[Reader, NamedValues]:
    """A reader that has read an earlier summary, and what its ledger says; and the named values of both."""
    text, former = split_former_ledger(content)
    earlier = read_back(text.removeprefix(EXTRACT_HEADING)) if is_extract else read_prose(text)
    last = earlier[-1] if is_extract and earlier else None
    # What stands under our heading in the text may be a model's: it is nobody's speech.
    earlier += [*read_prose(former), *read_back(ledger)]
    named = "\n".join([values_of(text) if is_extract else "", values_of(ledger)])
    return Reader(sorted(earlier, key=lambda one: one.day[:10]), last=last), NamedValues(named)


def statements_of(reader: Reader) -> list[Statement]:
    """The statements it has read, with their names marked, and without those that a newer one replaces."""
    mark_names(reader.statements)
    return relate(reader.statements)


def _smallest(statements: Sequence[Statement], covered: Sequence[Message], target: int, count: Count) -> str:
    """Where there is no room for a heading: the last statement that fits alone and needs no other."""
    texts = [f"{one.speaker.label}: {one.text}" for one in statements if not (one.needs or one.joined) and one.size > 1]
    if statements:
        texts.insert(0, "What was said is too long for this summary")
    elif covered:
        texts = [f"{len(covered)} message{'' if len(covered) == 1 else 's'} without any text in them"]
    sizes = count(texts) if texts else []
    return next((text for text, size in zip(reversed(texts), reversed(sizes), strict=True) if size <= target), "")
