"""What a summary's page adds to its fields: coverage, generations, what changed, the ledger, the tips it serves."""

from __future__ import annotations

from dataclasses import dataclass

from compaction_app.admin import bars, generations
from compaction_app.admin.contexts import UrlOf
from compaction_app.admin.differences import Difference, Piece, difference
from compaction_app.admin.display import number
from compaction_app.admin.summaries import run_of, share
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tree.branches import database_of

Links = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRow:
    url: str
    name: str
    is_here: bool
    is_retired: bool
    generation: str
    cutoff_url: str
    cutoff: str
    messages: str
    tokens: str
    kept: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryPage:
    """Everything below the fields, ready to be shown."""

    coverage: generations.Coverage
    #: Where what it took in begins and ends.
    taken_in: Links
    figures: tuple[tuple[str, str], ...]
    #: The tokens that it took the place of, and its own.
    replaced_bar: bars.Bar
    own_bar: bars.Bar
    #: The branch's history before and after; None where no run measured it.
    before_bar: bars.Bar | None
    after_bar: bars.Bar | None
    line: tuple[GenerationRow, ...]
    base_name: str
    changed: Difference | None
    pieces: tuple[Piece, ...]
    #: Why there is no difference to show.
    no_difference: str
    ledger: list[tuple[str, list[str]]]
    #: Why there is none.
    no_ledger: str
    tips: tuple[tuple[str, str, str], ...]
    #: There are older tips, which were not asked for.
    has_older_tips: bool

    @property
    def added(self) -> str:
        return number(self.changed.added if self.changed else 0)

    @property
    def removed(self) -> str:
        return number(self.changed.removed if self.changed else 0)

    @property
    def uncompared(self) -> str:
        """Empty where all of both was compared."""
        return number(self.changed.uncompared) if self.changed and self.changed.uncompared else ""


def page_of(summary: ChatMessage, url_of: UrlOf) -> SummaryPage:
    """Bounded rows and a fixed number of queries, whatever the length of the session and of its texts."""
    line = generations.line_of(summary)
    base = next((generation.summary for generation in line if generation.is_base), None)
    coverage = generations.coverage_of(summary, base)
    run = run_of(summary)
    measured = run is not None and run.tokens_before is not None and run.tokens_after is not None
    before, after = bars.before_and_after(run.tokens_before or 0, run.tokens_after or 0) if run else (None, None)
    replaced_bar, own_bar = bars.before_and_after(coverage.replaced, summary.token_count, "Replaced", "its own")
    changed, no_difference = _changed(summary, base)
    served, has_older_tips = generations.tips_served(summary)
    return SummaryPage(
        coverage=coverage,
        taken_in=_ends(coverage, url_of),
        figures=_figures(coverage, summary),
        replaced_bar=replaced_bar,
        own_bar=own_bar,
        before_bar=before if measured else None,
        after_bar=after if measured else None,
        line=tuple(_row(generation, url_of) for generation in line),
        base_name=f"Summary {base.pk}" if base else "",
        changed=changed,
        pieces=changed.shortened() if changed else (),
        no_difference=no_difference,
        ledger=generations.ledger_entries(summary.content),
        no_ledger=_no_ledger(summary, run),
        tips=tuple((url_of(tip.tip_id), f"Message {tip.tip_id}", number(tip.history_tokens)) for tip in served),
        has_older_tips=has_older_tips,
    )


def _changed(summary: ChatMessage, base: ChatMessage | None) -> tuple[Difference | None, str]:
    """What changed since the summary before; or why that can not be told."""
    if base is None:
        return None, "It is the first of its line: there is no summary before it."
    text = ChatMessage.objects.using(database_of(summary)).filter(pk=base.pk).values_list("content", flat=True).first()
    if not text or not summary.content:
        return None, "One of the two texts has been erased."
    return difference(text, summary.content), ""


def _no_ledger(summary: ChatMessage, run: CompactionRun | None) -> str:
    """What to say where the text holds no ledger."""
    if summary.redacted_at and not summary.content:
        return "Erased together with the summary's text."
    if run is None:
        return "None: no run made this summary, its text was brought along."
    if run.settings.get("LEDGER_TOKENS") == 0:
        return "Off: LEDGER_TOKENS was 0."
    return "None: nothing that must survive was missing."


def _ends(coverage: generations.Coverage, url_of: UrlOf) -> Links:
    if coverage.taken_in is None:
        return ()
    ends = dict.fromkeys((coverage.taken_in.first.id, coverage.taken_in.last.id))
    return tuple((url_of(pk), f"Message {pk}") for pk in ends)


def _figures(coverage: generations.Coverage, summary: ChatMessage) -> tuple[tuple[str, str], ...]:
    taken_in = coverage.taken_in.messages if coverage.taken_in else 0
    saved = f" ({1 - summary.token_count / coverage.replaced:.0%} less)" if coverage.replaced else ""
    return (
        ("Stands for", f"{number(coverage.messages)} messages"),
        ("Taken in by this generation", f"{number(taken_in)} messages"),
        ("Tokens replaced", number(coverage.replaced)),
        ("Its own tokens", number(summary.token_count) + saved),
        ("From cutoff to anchor, verbatim", f"{number(coverage.tail)} messages, {number(coverage.tail_tokens)} tokens"),
    )


def _row(generation: generations.Generation, url_of: UrlOf) -> GenerationRow:
    row, run = generation.summary, generation.run
    cutoff = row.last_summarized_message_id or 0
    return GenerationRow(
        url=url_of(row.pk),
        name=f"Summary {row.pk}",
        is_here=generation.is_here,
        is_retired=row.retired_at is not None,
        generation=number(run.generation if run else None),
        cutoff_url=url_of(cutoff),
        cutoff=f"Message {cutoff}",
        messages=number(run.messages_compacted if run else None),
        tokens=number(row.token_count),
        kept=share(run.retention_after if run else None),
    )
