"""A summary's page: how it was made, what it covers, its generations, what changed, its ledger.

Everything is bounded and takes a fixed number of queries, whatever the length of the session and of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import groupby, islice
from typing import Any, NamedTuple, cast

from django.contrib import admin
from django.db import connections
from django.db.models import F, Prefetch
from django.utils.html import format_html

from compaction_app.admin import contexts, display
from compaction_app.admin.display import number
from compaction_app.admin.records import EVENTS, RUN_TEXTS, RecordAdmin, Sections, message_column
from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun, sql
from compaction_app.retention.statements import NOBODY
from compaction_app.retention.writing import read_back
from compaction_app.tree.branches import database_of
from compaction_app.values import EventKind

COLUMNS = ("summary", "state", "in_session", "generation", "tokens", "created", "cutoff", "anchor")
SECTIONS: Sections = (
    (None, ["state", "retired", "in_session", "text"]),
    ("Place", ["cutoff anchor pin", "messages_compacted tokens own_tokens"]),
    (
        "How it was made",
        [
            *("run generation base", "trigger", "summarizer", "instructions_text"),
            *("cost", "found_again", "built_on_it"),
        ],
    ),
    ("Record", ["created redacted", "stored"]),
)
#: The runs that made the summaries of a list, in one query and without their texts.
RUNS = Prefetch("made_by", CompactionRun.objects.defer(*RUN_TEXTS).order_by("-id"))
_WITHOUT_TEXTS = ChatMessage.objects.defer(
    "content", "ledger", "tool_calls", "reasoning", "original", "attachments", "usage", "metadata"
)
#: What a summary's own page needs: its run with everything stored, its cutoff and its anchor.
OF_PAGE = (
    Prefetch("made_by", CompactionRun.objects.order_by("-id").prefetch_related(EVENTS)),
    Prefetch("last_summarized_message", _WITHOUT_TEXTS),
    Prefetch("parent", _WITHOUT_TEXTS),
)
#: Generations that a page lists in either direction.
MOST_LISTED = 25
#: Of each of two texts that are compared: characters, and lines. ``difflib`` takes more than quadratic time.
MOST_CHARACTERS, MOST_LINES = 60_000, 500
#: Words of each side of a changed passage that are compared one by one, and of all passages together.
MOST_WORDS, MOST_WORDS_IN_ALL = 200, 2000
#: Characters at both ends of a longer passage that is the same.
_SHOWN_SAME = 250
#: Entries of a ledger that a page lists.
_MOST_ENTRIES = 500


# -- fields -------------------------------------------------------------------------------------------------


def run_of(summary: ChatMessage) -> CompactionRun | None:
    """The run that made it; None where the summary was imported."""
    return next(iter(summary.made_by.all()), None)


def events_of(summary: ChatMessage) -> list[CompactionEvent]:
    """Those of its run, and the one that retired it: one more query, for a retired summary only."""
    run, retired_at = run_of(summary), summary.retired_at
    made = list(run.events.all()) if run else []
    if retired_at is None:
        return made
    # The event names another row where a base was retired, or a message redacted. It is written under the session's
    # lock right after the summary was, so it is the first one from that moment; an erasure may empty many before.
    found = CompactionEvent.objects.using(database_of(summary)).filter(
        session_id=summary.session_id,
        kind__in=(EventKind.RETIRED, EventKind.INVALIDATED),
        created_at__range=(retired_at, retired_at + timedelta(minutes=1)),
    )
    return [*made, *found.order_by("created_at", "id")[:1]]


def state_of(summary: ChatMessage) -> str:
    return display.badge("retired", "Retired") if summary.retired_at else display.badge("live", "Live")


def _of_run(description: str) -> Callable[[Callable[[Any, CompactionRun], Any]], Any]:
    """A field that shows something of the run that made the summary: ``shown(model_admin, run)``."""

    def decorate(shown: Callable[[Any, CompactionRun], Any]) -> Any:
        def value(model_admin: Any, summary: ChatMessage) -> Any:
            run = run_of(summary)
            return (shown(model_admin, run) if run else "") or display.EMPTY

        return display.column(description, value)

    return decorate


class SummaryFields(RecordAdmin):
    summary = display.column("summary", lambda _, summary: f"Summary {summary.pk}")
    state = display.column("state", lambda _, summary: state_of(summary))
    cutoff = message_column("last_summarized_message_id", "cutoff")
    anchor = message_column("parent_message_id", "anchor")
    pin = message_column("pinned_message_id", "pinned message")
    built_on_it = display.column(
        "built on it",
        lambda self, summary: self.link_to_list("compactionrun", "Runs with this base", base=summary.pk),
    )
    run = _of_run("run")(lambda self, run: self.link_to_run(run.pk))
    base = _of_run("base")(lambda self, run: self.link_to_message(run.base_id, "Summary"))
    generation = _of_run("compaction")(lambda _, run: number(run.generation))
    messages_compacted = _of_run("messages compacted")(lambda _, run: number(run.messages_compacted))
    trigger = _of_run("trigger")(lambda _, run: run.get_trigger_display())
    instructions_text = _of_run("instructions")(lambda _, run: display.text_block(run.instructions))
    cost = _of_run("cost")(lambda _, run: "" if run.cost is None else display.money(run.cost))
    found_again = _of_run(display.FOUND_AGAIN)(lambda _, run: display.found_again(run))

    @_of_run("history tokens")
    def tokens(self, run: CompactionRun) -> str:
        """Of its branch, before and after."""
        if run.tokens_before is None or run.tokens_after is None:
            return ""
        return f"{number(run.tokens_before)} → {number(run.tokens_after)}"

    @admin.display(description="model")
    def summarizer(self, obj: ChatMessage) -> str:
        run = run_of(obj)
        return (run.summarizer_model if run else obj.model) or display.EMPTY

    def _retired(self, obj: ChatMessage) -> str:
        reason = format_html('<span dir="auto">{}</span>', obj.retired_reason or "no reason given")
        return display.joined((display.moment(obj.retired_at), reason))

    retired = display.column("retired", _retired, "retired_at")


# -- generations --------------------------------------------------------------------------------------------


class Generation(NamedTuple):
    """A summary that this one was built on, this one, or one that was built on it."""

    #: 0 for this one, below it for those that it was built on.
    level: int
    summary: ChatMessage
    run: CompactionRun | None


def generations_of(summary: ChatMessage) -> list[Generation]:
    """Oldest first. Two queries, no text but that of this one."""
    using = database_of(summary)
    parameters = {"summary": summary.pk, "levels": MOST_LISTED, "rows": 2 * MOST_LISTED}
    with connections[using].cursor() as cursor:
        cursor.execute(sql.GENERATIONS, parameters)
        levels: dict[int, int] = {}
        for pk, level in cursor.fetchall():
            levels.setdefault(pk, level)
    levels[summary.pk] = 0
    found = CompactionRun.objects.using(using).filter(summary_id__in=levels).order_by("id")
    found = found.annotate(cutoff_depth=F("summary__last_summarized_message__depth"))
    lean = found.select_related("summary").defer(
        "summary__content", "summary__ledger", "summary__metadata", "error_detail", "settings"
    )
    runs = {run.summary_id or 0: run for run in lean}
    summaries = {pk: run.summary for pk, run in runs.items() if run.summary is not None}
    summaries[summary.pk] = summary
    # A base without a run was imported with its conversation.
    if imported := levels.keys() - summaries.keys():
        rows = ChatMessage.objects.using(using).filter(pk__in=sorted(imported)).defer("content", "ledger", "metadata")
        summaries |= {row.pk: row for row in rows}
    in_order = sorted((levels[pk], pk) for pk in summaries)
    return [Generation(level, summaries[pk], runs.get(pk)) for level, pk in in_order]


# -- coverage --------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """What a summary covers, and what follows it verbatim."""

    #: Messages from the root to the cutoff.
    messages: int
    #: Those that the base does not cover; None where the base is gone.
    new: contexts.Stretch | None
    #: Tokens of what it replaced: its base and the new messages.
    replaced: int
    #: Messages after the cutoff, up to the anchor.
    tail: int
    tail_tokens: int


def coverage_of(summary: ChatMessage, base: ChatMessage | None) -> Coverage:
    """One query, two with a base. The summary comes with its cutoff and its anchor."""
    # A constraint says that a summary has both.
    cutoff, anchor = cast(ChatMessage, summary.last_summarized_message), cast(ChatMessage, summary.parent)
    of_base = base.last_summarized_message if base else None
    new = contexts.stretch(
        cutoff.pk, database_of(summary), first=of_base.depth + 1 if of_base else 1, last=cutoff.depth
    )
    replaced = (base.token_count if base else 0) + (new.tokens if new else 0)
    tail_tokens = anchor.path_tokens - cutoff.path_tokens
    return Coverage(cutoff.depth, new, replaced, anchor.depth - cutoff.depth, tail_tokens)


# -- the page -----------------------------------------------------------------------------------------------


def page_of(summary: ChatMessage) -> dict[str, Any]:
    """Everything below the fields."""
    generations = generations_of(summary)
    base = next((generation.summary for generation in generations if generation.level == -1), None)
    coverage, run = coverage_of(summary, base), run_of(summary)
    changed, no_difference = _changed(summary, base)
    return {
        "coverage": coverage,
        "saved": 1 - summary.token_count / coverage.replaced if coverage.replaced else None,
        "generations": generations,
        "base": base,
        "changed": changed,
        "no_difference": no_difference,
        "most_lines": MOST_LINES,
        "ledger": ledger_entries(summary.ledger),
        "is_ledger_off": run is not None and run.settings.get("LEDGER_TOKENS") == 0,
    }


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """("same", "removed" or "added", text) in the order of the new text: by lines, and by words where these are few."""
    old, new = (text[:MOST_CHARACTERS].splitlines(keepends=True)[:MOST_LINES] for text in (before, after))
    found: list[tuple[str, str]] = []
    left = MOST_WORDS_IN_ALL
    for operation, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
        was, becomes = (re.findall(r"\s*\S+|\s+\Z", "".join(lines)) for lines in (old[i:j], new[k:m]))
        longest = max(len(was), len(becomes))
        if operation == "replace" and longest <= min(MOST_WORDS, left):
            left -= longest
            for inner, a, b, c, d in SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes():
                found += _pieces(inner, was[a:b], becomes[c:d])
        else:
            found += _pieces(operation, old[i:j], new[k:m])
    return found


def _pieces(operation: str, old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    text = "".join(new)
    if operation != "equal":
        return [piece for piece in (("removed", "".join(old)), ("added", text)) if piece[1]]
    return [("same", text if len(text) <= 3 * _SHOWN_SAME else f"{text[:_SHOWN_SAME]} […] {text[-_SHOWN_SAME:]}")]


def _changed(summary: ChatMessage, base: ChatMessage | None) -> tuple[list[tuple[str, str]], str]:
    """What changed since the previous generation, or why that is not known."""
    if base is None:
        return [], "This is the first generation: there is no earlier summary."
    before = ChatMessage.objects.using(database_of(summary)).filter(pk=base.pk).only("content", "ledger").first()
    if not (before and before.text and summary.text):
        return [], "One of the two texts has been erased."
    if before.text == summary.text:
        return [], "None: the texts are the same."
    return difference(before.text, summary.text), ""


def ledger_entries(ledger: str) -> list[tuple[str, list[str]]]:
    """(who said it, and when, entries) of each line of a summary's ledger."""
    told = islice(read_back(ledger), _MOST_ENTRIES)
    return [
        (", ".join(filter(None, who)), [one.text for one in entries])
        for who, entries in groupby(
            told, lambda one: ("" if one.speaker.role == NOBODY else one.speaker.label, one.day)
        )
    ]
