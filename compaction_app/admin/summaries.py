"""A summary's page: how it was made, what it covers, its generations, what changed, its ledger and extract.

Everything is bounded and takes a fixed number of queries, whatever the length of the session and of its texts.
"""

from collections.abc import Mapping, Sequence, Set
from difflib import unified_diff
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, cast

from django.db.models import F, Prefetch
from django.utils.html import format_html
from django.utils.translation import gettext as _

from compaction_app.admin import contexts, display
from compaction_app.admin.display import column
from compaction_app.admin.links import Links
from compaction_app.admin.records import Sections
from compaction_app.conversation.correct import CORRECTED
from compaction_app.memory.statements import NOBODY
from compaction_app.memory.writing import told_in, work_of
from compaction_app.models import ChatMessage, CompactionRun, sql
from compaction_app.models.columns import lean
from compaction_app.models.database import fetch
from compaction_app.models.words import why_it_failed, words
from compaction_app.values import EXTRACT_HEADING, Trigger

#: The runs that made the summaries of a list, in one query and without their texts.
RUNS = Prefetch("made_by", lean(CompactionRun.objects.order_by("-id")))
#: What a summary's own page needs: its run with everything stored, its cutoff and its anchor.
OF_PAGE: tuple[Any, ...] = (
    Prefetch("made_by", CompactionRun.objects.order_by("-id")),
    *(Prefetch(name, lean(ChatMessage.objects.all())) for name in ("last_summarized_message", "parent")),
)
#: Generations that a page lists in either direction.
MOST_LISTED = 25
#: Of each of two texts that are compared: characters, and lines. ``difflib`` takes more than quadratic time.
MOST_CHARACTERS, MOST_LINES = 60_000, 500
_SIGNS = {" ": "same", "-": "removed", "+": "added", "@": "between"}
#: Entries of a ledger, and of an extract, that a page lists.
_MOST_ENTRIES = 500
#: So few words of a sentence may stand in the order of the alphabet.
_FEW = 4


def run_of(summary: ChatMessage) -> CompactionRun | None:
    """The run that made it; None where the summary was imported."""
    return next(iter(summary.made_by.all()), None)


def state_of(summary: ChatMessage) -> str:
    state = display.badge("retired", _("Retired")) if summary.retired_at else display.badge("live", _("Live"))
    return display.joined([state, _("extract")]) if summary.is_extract else state


def columns(links: Links) -> Sequence[Any]:
    def name_of(summary: ChatMessage) -> str:
        run = run_of(summary)
        return display.summary_name(summary.pk, run.generation if run else None)

    return (
        column("summary", _("summary"), name_of),
        column("state", _("state"), state_of),
        *links.columns(ChatMessage, "session", "token_count", "created_at"),
    )


def sections(links: Links, summary: ChatMessage, text: str, stored: str) -> Sections:
    run, made = run_of(summary), list[tuple[Any, str]]()
    if run is None:
        # With its branch: what it was made in stays with the first session.
        made = links.facts(summary.session, "copied_from", "continues")
    if run is not None:
        history = (_("history tokens"), display.history_tokens(run))
        found_again = (display.FOUND_AGAIN, display.found_again(run))
        failed = (_("why no model wrote it"), why_it_failed(run.error_code))
        model = (_("model"), display.model_name(run.summarizer_model))
        by_run = ("base", "generation", "trigger", model, "author", failed, "instructions", "cost")
        made = links.facts(run, (_("run"), links.run(run.pk)), *by_run, history, found_again)
    # Of an erasure and of a correction it is a code; others are a person's words.
    is_code = summary.redacted_at or summary.retired_reason in (CORRECTED, Trigger.CARRY_OVER)
    why = words(summary.retired_reason) if is_code else summary.retired_reason
    reason = format_html('<span dir="auto">{}</span>', why or _("no reason given"))
    retired = display.joined((display.moment(summary.retired_at), reason)) if summary.retired_at else ""
    anchor = (_("anchor"), links.message(summary.parent_message_id, summary.depth - 1))
    request = (_("the turn's request"), links.message(summary.pinned_message_id))
    built_on = (_("built on it"), links.to_list("compactionrun", _("Runs with this base"), base=summary.pk))
    facts = partial(links.facts, summary)
    return [
        ("", facts((_("state"), state_of(summary)), (_("retired"), retired), "session", (_("text"), text))),
        (_("Place"), facts("last_summarized_message", anchor, request, "token_count")),
        (_("How it was made"), [*made, built_on]),
        (_("Record"), facts("created_at", "redacted_at", (_("as stored"), stored))),
    ]


def generations_of(summary: ChatMessage) -> list[tuple[int, ChatMessage, CompactionRun | None]]:
    """This summary, those that it was built on and those built on it, oldest first, each with its run.

    The level is 0 for this one, below it for those that it was built on. Two queries, no text but that of this one.
    """
    parameters = {"summary": summary.pk, "levels": MOST_LISTED, "rows": 2 * MOST_LISTED}
    levels: dict[int, int] = {}
    for pk, level in fetch(sql.GENERATIONS, parameters, summary):
        levels.setdefault(pk, level)
    levels[summary.pk] = 0
    found = CompactionRun.objects.in_database_of(summary).filter(summary_id__in=levels).order_by("id")
    found = found.annotate(cutoff_depth=F("summary__last_summarized_message__depth"))
    found = lean(found.select_related("summary"), summary=ChatMessage)
    runs = {run.summary_id or 0: run for run in found}
    summaries = {pk: run.summary for pk, run in runs.items() if run.summary is not None}
    summaries[summary.pk] = summary
    return [(level, summaries[pk], runs.get(pk)) for level, pk in sorted((levels[pk], pk) for pk in summaries)]


def page_of(summary: ChatMessage, other: int | None = None) -> dict[str, Any]:
    """Everything below the fields. The summary comes with its cutoff and its anchor.

    ``other``: of its generations the one that it is compared with; None: the one that it was built on.
    """
    generations, run = generations_of(summary), run_of(summary)
    base = next((found for level, found, _run in generations if level == -1), None)
    # A constraint says that a summary has both.
    cutoff, anchor = cast(ChatMessage, summary.last_summarized_message), cast(ChatMessage, summary.parent)
    of_base = base.last_summarized_message if base else None
    new_from = of_base.depth + 1 if of_base else 1
    new = contexts.stretch(cutoff, first=new_from, last=cutoff.depth) if run else None
    compared = next((found for _level, found, _run in generations if found.pk == other), base)
    texts = ChatMessage.objects.in_database_of(summary).filter(pk=compared and compared.pk).only("content", "ledger")
    # The earlier one first, whichever page this is.
    pair = sorted([*texts, summary], key=lambda one: one.pk)
    return {
        "events": run.events.order_by("id") if run else [],
        "covered": cutoff.depth,
        # The messages that the base does not cover; None where the base is gone, and for a copy's summary.
        "new": new,
        "new_from": new_from,
        # What follows it verbatim, up to the anchor.
        "tail": anchor.depth - cutoff.depth,
        "tail_tokens": anchor.path_tokens - cutoff.path_tokens,
        "generations": generations,
        "compared": compared,
        "changed": difference(*(one.text for one in pair)) if len(pair) == 2 and all(one.text for one in pair) else [],
        "most_lines": MOST_LINES,
        "ledger": entries_of(summary.ledger),
        # Where it is the text, it is shown already.
        "extract": entries_of(summary.extract.removeprefix(EXTRACT_HEADING)) if summary.extract != summary.text else [],
    }


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """("same", "removed", "added" or "between", line) of what changed, with a line around each change."""
    # An entry of a ledger is a line here: a ledger has one line for each speaker and day, which all may change.
    texts = (text[:MOST_CHARACTERS].replace(" · ", "\n· ") for text in (before, after))
    old, new = (text.splitlines()[:MOST_LINES] for text in texts)
    named = [{label: set(values) for label, values in map(_list_in, lines)} for lines in (old, new)]
    old, new = _unlike(old, named[1]), _unlike(new, named[0])
    # Without the two lines that name the files.
    found = list(unified_diff(old, new, n=1, lineterm=""))[2:]
    return [(_SIGNS[line[0]], line[1:]) for line in found]


def _list_in(line: str) -> tuple[str, list[str]]:
    """(name, values) of a line of a working memory, which sorts them: "edited: a.py b.py c.py"."""
    label, _, told = line.partition(": ")
    values = told.split()
    return (label, values) if values == sorted(values) and len(values) > _FEW else ("", [])


def _unlike(lines: Sequence[str], others: Mapping[str, Set[str]]) -> list[str]:
    """Without the values that both have: what changed in a list of hundreds would not be seen."""
    found = [(line, *_list_in(line)) for line in lines]
    return [
        f"{label}: {' '.join(one for one in values if one not in others.get(label, ()))}" if values else line
        for line, label, values in found
    ]


def entries_of(quoted: str) -> list[tuple[str, list[str]]]:
    """(who said it, and when, entries) of each line of a summary's ledger or extract, and its working memory."""
    told = (
        ("" if speaker.role == NOBODY else speaker.label, day, text)
        for day, speaker, text in islice(told_in(quoted), _MOST_ENTRIES)
    )
    found = [
        (", ".join(filter(None, who)), [text for *_, text in entries])
        for who, entries in groupby(told, itemgetter(0, 1))
    ]
    named = work_of(quoted).splitlines()[:_MOST_ENTRIES]
    return [*found, (_("Working memory"), named)] if named else found
