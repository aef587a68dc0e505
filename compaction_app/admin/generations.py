"""The line of summaries that one stands in: what it was built on, what was built on it, and what it covers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from django.db import connections

from compaction_app.admin import paths
from compaction_app.models import ChatMessage, CompactionRun, sql
from compaction_app.retention.ledger_text import ledger_of
from compaction_app.retention.sayings import SEPARATOR
from compaction_app.tree import lanes
from compaction_app.tree.branches import database_of
from compaction_app.values import Role

#: Summaries of a line that a page lists in either direction, and tips that it asks for.
MOST_LISTED, MOST_TIPS = 25, 50
#: Entries of a ledger that a page lists.
_MOST_ENTRIES = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One summary of the line."""

    summary: ChatMessage
    #: 0 for the one that is asked about, below it what it was built on.
    level: int
    run: CompactionRun | None

    @property
    def is_here(self) -> bool:
        return self.level == 0

    @property
    def is_base(self) -> bool:
        return self.level == -1


def line_of(summary: ChatMessage) -> list[Generation]:
    """Oldest first. Two queries, no text but that of the one asked about."""
    parameters = {"summary": summary.pk, "levels": MOST_LISTED, "rows": 2 * MOST_LISTED}
    with connections[database_of(summary)].cursor() as cursor:
        cursor.execute(sql.GENERATIONS, parameters)
        levels: dict[int, int] = {}
        for pk, level in cursor.fetchall():
            levels.setdefault(pk, level)
    levels[summary.pk] = 0
    found = CompactionRun.objects.using(database_of(summary)).filter(summary_id__in=levels)
    lean = found.select_related("summary").defer("summary__content", "summary__metadata", "error_detail", "settings")
    runs: dict[int, CompactionRun] = {}
    for run in lean.order_by("id"):
        runs[run.summary_id or 0] = run
    line = [
        Generation(summary=run.summary, level=levels[pk], run=run)
        for pk, run in runs.items()
        if run.summary is not None and pk != summary.pk
    ]
    line.append(Generation(summary=summary, level=0, run=runs.get(summary.pk)))
    # A base that no run made was brought along with its conversation.
    known = {generation.summary.pk for generation in line}
    line += [
        Generation(summary=row, level=levels[row.pk], run=None) for row in _without_run(levels.keys() - known, summary)
    ]
    return sorted(line, key=lambda generation: (generation.level, generation.summary.pk))


def _without_run(ids: Iterable[int], summary: ChatMessage) -> Iterable[ChatMessage]:
    wanted = sorted(ids)
    rows = ChatMessage.objects.using(database_of(summary)).filter(pk__in=wanted)
    return rows.defer("content", "metadata") if wanted else ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a summary stands for, and what it left as it was."""

    #: Messages from the root to the cutoff.
    messages: int
    #: Those that this generation took in, none where its base is gone or it has no cutoff any more.
    taken_in: paths.Stretch | None
    #: Tokens of what it took the place of: its base and the messages it took in.
    replaced: int
    #: Messages after the cutoff, up to the anchor.
    tail: int
    tail_tokens: int


def coverage_of(summary: ChatMessage, base: ChatMessage | None) -> Coverage:
    """One query, two with a base. The summary comes with its cutoff and its anchor."""
    # The database says that a summary has both.
    cutoff, anchor = cast(ChatMessage, summary.last_summarized_message), cast(ChatMessage, summary.parent)
    from_depth, base_tokens = 1, 0
    if base is not None:
        depths = ChatMessage.objects.using(database_of(summary)).filter(pk=base.last_summarized_message_id)
        from_depth = (depths.values_list("depth", flat=True).first() or 0) + 1
        base_tokens = base.token_count
    taken_in = paths.stretch(cutoff.pk, database_of(summary), first=from_depth, last=cutoff.depth)
    return Coverage(
        messages=cutoff.depth,
        taken_in=taken_in,
        replaced=base_tokens + (taken_in.tokens if taken_in else 0),
        tail=anchor.depth - cutoff.depth,
        tail_tokens=anchor.path_tokens - cutoff.path_tokens,
    )


def tips_served(summary: ChatMessage) -> tuple[list[lanes.TipHistory], bool]:
    """Of the newest tips of the session those that this summary applies to; whether there are tips that were not
    asked for. Two queries, whatever the session holds."""
    found = lanes.read_lanes(summary.session, limit=MOST_TIPS + 1)
    tips = [lane.end_id for lane in found[:MOST_TIPS] if lane.is_tip]
    at_tips = lanes.histories_at(tips, database_of(summary))
    served = [filling for tip in tips if (filling := at_tips.get(tip)) and filling.summary_id == summary.pk]
    return served, len(found) > MOST_TIPS


def ledger_entries(text: str) -> list[tuple[str, list[str]]]:
    """(who said it, what) of each line of a summary's ledger."""
    found = []
    left = _MOST_ENTRIES
    for line in filter(None, map(str.strip, ledger_of(text).splitlines())):
        speaker, colon, told = line.partition(": ")
        # "user", or "user Ana" where people have names.
        is_said = bool(colon) and speaker.partition(" ")[0] in set(Role)
        entries = (told if is_said else line).split(SEPARATOR)[:left]
        left -= len(entries)
        if entries:
            found.append((speaker if is_said else "", entries))
    return found
