"""A summary's page: how it was made, what it covers, its generations, what changed, its ledger, the tips that use it.

Everything is bounded and takes a fixed number of queries, whatever the length of the session and of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from compaction_app.tree import lanes
from compaction_app.tree.branches import TipHistory, database_of
from compaction_app.values import LEDGER_HEADING, EventKind

COLUMNS = ("summary", "state", "in_session", "generation", "tokens", "created", "cutoff", "anchor")
SECTIONS: Sections = (
    (None, ["state", "in_session", "text"]),
    ("Place", ["cutoff anchor pin", "messages_compacted tokens own_tokens"]),
    (
        "How it was made",
        [
            *("run generation base", "trigger", "summarizer prompt", "instructions_text"),
            *("paid_tokens cost time_taken", "found_again", "built_on_it"),
        ],
    ),
    ("Record", ["created redacted", "retired", "metadata_block"]),
    ("Technical", ["strategy", "policy_text", "asked_for", "shortened", "reasoning_turns"]),
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
#: A retirement writes its event within this time: an erasure may empty many summaries first.
_RETIRING = timedelta(minutes=1)
#: Messages that a field links to.
_MOST_LINKS = 50
#: Generations that a page lists in either direction, and tips that it checks.
MOST_LISTED, MOST_TIPS = 25, 50
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


def _events_of_run(summary: ChatMessage) -> list[CompactionEvent]:
    run = run_of(summary)
    return list(run.events.all()) if run else []


def events_of(summary: ChatMessage) -> list[CompactionEvent]:
    """Those of its run, and the one that retired it: one more query, for a retired summary only."""
    made, retired_at = _events_of_run(summary), summary.retired_at
    if retired_at is None:
        return made
    # The event names another row where a base of this summary was retired, or a message redacted. It is written
    # under the session's lock right after the summary was, so it is the first one from that moment.
    moment = {"created_at__gte": retired_at, "created_at__lte": retired_at + _RETIRING}
    retirements = CompactionEvent.objects.using(database_of(summary)).filter(
        session_id=summary.session_id, kind__in=(EventKind.RETIRED, EventKind.INVALIDATED), **moment
    )
    return [*made, *retirements.order_by("created_at", "id")[:1]]


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
    strategy = _of_run("strategy")(lambda _, run: display.strategy_of(run))
    prompt = _of_run("prompt version")(lambda _, run: run.prompt_version)
    instructions_text = _of_run("instructions")(lambda _, run: display.text_block(run.instructions))
    policy_text = _of_run("policy line")(lambda _, run: display.text_block(run.policy_line))
    cost = _of_run("cost")(lambda _, run: "" if run.cost is None else display.money(run.cost))
    found_again = _of_run(display.FOUND_AGAIN)(lambda _, run: display.found_again(run))
    asked_for = _of_run("request")(lambda self, run: display.joined(self.request_parts(run.request), "; "))

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

    @_of_run("tokens used")
    def paid_tokens(self, run: CompactionRun) -> str:
        if run.input_tokens is None:
            return ""
        cached = f" ({number(run.cached_tokens)} cached)" if run.cached_tokens else ""
        return f"{number(run.input_tokens)} in{cached}, {number(run.output_tokens)} out"

    @_of_run("time taken")
    def time_taken(self, run: CompactionRun) -> str:
        if run.started_at is None or run.finished_at is None:
            return ""
        seconds = (run.finished_at - run.started_at).total_seconds()
        attempts = f" in attempt {run.attempts}" if run.attempts > 1 else ""
        return f"{seconds:,.1f} s{attempts}"

    def request_parts(self, request: dict[str, Any]) -> Iterable[str]:
        if request.get("target_tokens"):
            yield f"{request['target_tokens']:,} tokens"
        if request.get("tightened"):
            yield "answered by the second, stricter request"
        if lookahead := request.get("lookahead"):
            ends = dict.fromkeys((lookahead[0], lookahead[-1]))
            yield format_html("look-ahead {}", display.joined((self.link_to_message(pk) for pk in ends), " to "))
        if request.get("shown_bytes"):
            yield f"long messages shortened to {request['shown_bytes']:,} bytes"

    @_of_run("shortened inputs")
    def shortened(self, run: CompactionRun) -> str:
        ids = run.shortened_inputs
        more = [f"and {len(ids) - _MOST_LINKS:,} more"] if len(ids) > _MOST_LINKS else []
        return display.joined([*(self.link_to_message(pk) for pk in ids[:_MOST_LINKS]), *more], ", ")

    @admin.display(description="reasoning by turn")
    def reasoning_turns(self, obj: ChatMessage) -> str:
        """The rule applied to the reasoning of each turn, as the completed event counts them."""
        done = [event.payload for event in _events_of_run(obj) if event.kind == EventKind.COMPLETED]
        turns = (done[-1].get("reasoning_turns") or {}) if done else {}
        return (
            ", ".join(f"{count} {display.words(rule)}" for rule, count in sorted(turns.items()) if count)
            or display.EMPTY
        )

    @admin.display(description="retired")
    def retired(self, obj: ChatMessage) -> str:
        if obj.retired_at is None:
            return display.EMPTY
        reason = format_html('<span dir="auto">{}</span>', obj.retired_reason or "no reason given")
        return display.joined((display.moment(obj.retired_at), reason))


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


# -- coverage and tips --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a summary covers, and what follows it verbatim."""

    #: Messages from the root to the cutoff.
    messages: int
    #: Those that the base does not cover; None where the base is gone, or the summary has no cutoff any more.
    new: contexts.Stretch | None
    #: Tokens of what it replaced: its base and the new messages.
    replaced: int
    #: Messages after the cutoff, up to the anchor.
    tail: int
    tail_tokens: int


def coverage_of(summary: ChatMessage, base: ChatMessage | None) -> Coverage:
    """One query, two with a base. The summary comes with its cutoff and its anchor."""
    using = database_of(summary)
    # A constraint says that a summary has both.
    cutoff, anchor = cast(ChatMessage, summary.last_summarized_message), cast(ChatMessage, summary.parent)
    from_depth, base_tokens = 1, 0
    if base is not None:
        depths = ChatMessage.objects.using(using).filter(pk=base.last_summarized_message_id)
        from_depth = (depths.values_list("depth", flat=True).first() or 0) + 1
        base_tokens = base.token_count
    new = contexts.stretch(cutoff.pk, using, first=from_depth, last=cutoff.depth)
    return Coverage(
        messages=cutoff.depth,
        new=new,
        replaced=base_tokens + (new.tokens if new else 0),
        tail=anchor.depth - cutoff.depth,
        tail_tokens=anchor.path_tokens - cutoff.path_tokens,
    )


def tips_served(summary: ChatMessage) -> tuple[list[TipHistory], bool]:
    """Those of the session's newest tips where this summary is used; whether there are older tips. Two queries."""
    found = lanes.read_lanes(summary.session, limit=MOST_TIPS + 1)
    tips = [lane.end_id for lane in found[:MOST_TIPS] if lane.is_tip]
    at_tips = lanes.histories_at(tips, database_of(summary))
    served = [tip for pk in tips if (tip := at_tips.get(pk)) and tip.summary_id == summary.pk]
    return served, len(found) > MOST_TIPS


# -- the page -----------------------------------------------------------------------------------------------


def page_of(summary: ChatMessage) -> dict[str, Any]:
    """Everything below the fields."""
    generations = generations_of(summary)
    base = next((generation.summary for generation in generations if generation.level == -1), None)
    coverage, run = coverage_of(summary, base), run_of(summary)
    history_bars = None
    if run is not None and run.tokens_before is not None and run.tokens_after is not None:
        history_bars = display.before_and_after(run.tokens_before, run.tokens_after)
    changed, no_difference = _changed(summary, base)
    tips, has_older_tips = tips_served(summary)
    return {
        "coverage": coverage,
        "saved": 1 - summary.token_count / coverage.replaced if coverage.replaced else None,
        "replaced_bars": display.before_and_after(coverage.replaced, summary.token_count, "Replaced", "own"),
        # Of its branch; None where no run measured it.
        "history_bars": history_bars,
        "generations": generations,
        "base": base,
        "changed": changed,
        "no_difference": no_difference,
        "most_lines": MOST_LINES,
        "ledger": ledger_entries(summary.ledger),
        "no_ledger": _no_ledger(summary, run),
        "tips": tips,
        "has_older_tips": has_older_tips,
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


def _no_ledger(summary: ChatMessage, run: CompactionRun | None) -> str:
    if summary.redacted_at and not summary.content:
        return "Erased with the summary's text."
    if LEDGER_HEADING in summary.content:
        return "At the end of the text: the summary is older than ledgers of their own."
    if run is None:
        return "None: this summary was imported, no run made it."
    if run.settings.get("LEDGER_TOKENS") == 0:
        return "Off: LEDGER_TOKENS was 0."
    return "This summary has no ledger."
