"""Prints the result of the demo: the branch map, the branches, the compactions, and the contexts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compaction_app.exceptions import ContextOverflow
from compaction_app.models import CompactionRun
from compaction_app.values import ChatContext, ContextMessage, Origin, RunStatus
from project.demo.branch_map import MapLine, Mark, draw
from project.demo.reading import SessionView, State, Tip

_LANES = ("cyan", "magenta", "blue", "yellow", "green")
_STATES = {
    State.FITS: Text("✓ fits", "green"),
    State.IRREDUCIBLE: Text("irreducible", "yellow"),
    State.OVER: Text("✗ over", "bold red"),
}
_ORIGINS = {
    Origin.SYSTEM: "blue",
    Origin.CONTRIBUTION: "cyan",
    Origin.SUMMARY: "yellow",
    Origin.SHARED_EXTRACT: "yellow",
    Origin.PINNED: "magenta",
    Origin.VERBATIM: "",
    Origin.PRUNED: "dim",
}
_BAR_CELLS = 20
#: Contexts shown of a session with more branches than the limit.
SHOWN_CONTEXTS = 10
#: Printed before a summary's own text.
_SUMMARY_HEADING = "[Conversation Summary] … "
_LEAST_WORDS = 30

# Around a right-to-left text: without them the rest of the line would be drawn as part of it.
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
#: Joins letters and emoji; without it a family is shown as its members.
_JOINER = "\u200d"
#: Characters that are read for a line: no terminal shows more.
_LINE_CHARACTERS = 2_000


class Report:
    """Prints sessions on a console. ``limit``: branches shown of each session; None shows all."""

    def __init__(self, console: Console, *, limit: int | None, full_file: str = "") -> None:
        self.console = console
        self.limit = limit
        self.full_file = full_file

    def print_session(self, view: SessionView) -> None:
        title = one_line(view.session.title or str(view.session), 80)
        budget = view.resolved.budget
        self.console.print()
        self.console.rule(Text(title, "bold"))
        self.console.print(
            f"window {budget.window:,} · reserved {budget.reserved:,} · available {budget.available:,} · "
            f"threshold {budget.threshold:,} · target {budget.target:,} tokens · session {view.session.pk}"
        )
        self.print_map(view)
        self.print_tips(view)
        self.print_runs(view)
        self.print_contexts(view)

    def print_map(self, view: SessionView) -> None:
        lines = draw(view.nodes)
        self._heading("Branch map", "✂ a summary's cutoff: the last message it covers · ◆ its anchor · ● a tip")
        tips = {tip.message.pk: tip for tip in view.tips}
        shown = lines if self.limit is None else lines[: self.limit * 10]
        for line in shown:
            self.console.print(_map_line(line, view, tips), overflow="ellipsis", no_wrap=True)
        self._left_out(len(lines) - len(shown), "line")

    def print_tips(self, view: SessionView) -> None:
        self._heading("Branches", "tokens of the whole branch, and of its history as it is sent now")
        shown = self._chosen(view.tips)
        table = _table("tip", "depth", "before", "after", "threshold", right=5)
        table.add_column("how full")
        table.add_column("summary")
        table.add_column("")
        for tip in shown:
            table.add_row(
                f"#{tip.message.pk}",
                str(tip.message.depth),
                f"{tip.before:,}",
                f"{tip.after:,}",
                f"{tip.threshold:,}",
                _bar(tip.after, tip.threshold),
                f"#{tip.summary_id}" if tip.summary_id else "none yet",
                _STATES[tip.state],
            )
        self.console.print(table)
        self._left_out(len(view.tips) - len(shown), "branch", "branches", note="the fullest are shown")

    def _chosen(self, tips: Sequence[Tip]) -> list[Tip]:
        """All tips, or the fullest: if those fit, all do."""
        if self.limit is None or len(tips) <= self.limit:
            return list(tips)
        return sorted(tips, key=lambda tip: -tip.after)[: self.limit]

    def print_runs(self, view: SessionView) -> None:
        self._heading("Compactions", "one row a run; # are message ids")
        if not view.runs:
            self.console.print("None: no branch was over its threshold.")
        ordered = sorted(view.runs, key=lambda run: run.pk)
        left = len(ordered) if self.limit is None else self.limit * 3
        for task_id, runs in groupby(ordered, key=lambda run: run.task_id):
            group = list(runs)
            self.console.print(
                Text.assemble("task ", (task_id or "none: run by hand", "bold"), f", {number(len(group), 'run')}")
            )
            self.console.print(_run_table(group[: max(0, left)]))
            left -= len(group)
        self._left_out(-left, "run")

    def print_contexts(self, view: SessionView) -> None:
        self._heading("What the model would be sent now", "at each tip, oldest first, one line a message")
        # Each branch takes a screen here.
        everything = self.limit is None or len(view.tips) <= self.limit
        shown = view.tips if everything else view.tips[:SHOWN_CONTEXTS]
        for tip in shown:
            self._print_context(view, tip)
        self._left_out(len(view.tips) - len(shown), "branch", "branches")

    def _print_context(self, view: SessionView, tip: Tip) -> None:
        self.console.print()
        try:
            context = view.context(tip)
        except ContextOverflow as error:
            self.console.print(Text(f"tip #{tip.message.pk}: {error}", "red"))
            return
        self.console.print(_context_heading(context, view))
        width = max(_LEAST_WORDS, self.console.width - 33)
        table = _table("origin", "role", "tokens", right=0)
        table.columns[2].justify = "right"
        table.add_column("first words", no_wrap=True, overflow="ellipsis")
        for message in context.messages:
            style = _ORIGINS[message.origin]
            words = one_line(_content(message, view), width)
            table.add_row(Text(message.origin, style), message.role, f"{message.tokens:,}", Text(words, style))
        self.console.print(table)

    def _heading(self, title: str, note: str) -> None:
        self.console.print()
        self.console.print(Text.assemble((title, "bold underline"), "  ", (note, "dim")))

    def _left_out(self, count: int, word: str, words: str = "", *, note: str = "") -> None:
        if count <= 0:
            return
        where = f"; the full report is in {self.full_file}" if self.full_file else ""
        self.console.print(Text(f"… and {number(count, word, words)} more{f' ({note})' if note else ''}{where}", "dim"))


def print_totals(console: Console, views: Iterable[SessionView]) -> bool:
    """Print how many branches fit and which do not; returns whether none is left that could still be compacted."""
    tips = [tip for view in views for tip in view.tips]
    by_state = {state: [tip for tip in tips if tip.state == state] for state in State}
    fits, over = len(by_state[State.FITS]), by_state[State.OVER]
    console.print(
        Text(
            f"{fits:,} of {number(len(tips), 'branch', 'branches')} at or under their threshold",
            "bold red" if over else "bold green",
        )
    )
    for state in (State.IRREDUCIBLE, State.OVER):
        if by_state[state]:
            names = ", ".join(f"#{tip.message.pk} ({tip.after:,} > {tip.threshold:,})" for tip in by_state[state])
            console.print(Text(f"{state}: tip {names}", "yellow" if state == State.IRREDUCIBLE else "bold red"))
    return not over


def _map_line(line: MapLine, view: SessionView, tips: dict[int, Tip]) -> Text:
    text = Text()
    for lane in range(line.lane):
        text.append("│ ", _LANES[lane % len(_LANES)])
    colour = _LANES[line.lane % len(_LANES)]
    if line.mark == Mark.FORK:
        return text.append("├─┐ ", colour).append(f"fork below #{line.first}", "dim")
    if line.mark == Mark.SPAN:
        ids = f"#{line.first}" if line.first == line.last else f"#{line.first} … #{line.last}"
        text.append("│ ", colour).append(ids)
        return text.append(f"  {number(line.messages, 'message')}, {line.tokens:,} tokens", "dim")
    if line.mark == Mark.TIP:
        return _tip_line(text.append("● ", "bold " + colour), tips[line.first])
    return _summary_line(text, line, view)


def _tip_line(text: Text, tip: Tip) -> Text:
    text.append(f"tip #{tip.message.pk}", "bold").append(f"  {tip.before:,} → {tip.after:,} of {tip.threshold:,}  ")
    return text.append(_STATES[tip.state])


def _summary_line(text: Text, line: MapLine, view: SessionView) -> Text:
    summary = line.summary
    assert summary is not None
    style = "dim" if summary.is_retired else "yellow"
    retired = ", retired" if summary.is_retired else ""
    if line.mark == Mark.CUTOFF:
        return text.append("✂ ", style).append(f"#{line.first} is the cutoff of summary #{summary.id}{retired}", style)
    run = view.generations.get(summary.id)
    generation = f"generation {run.generation}, " if run else ""
    text.append("◆ ", style).append(f"summary #{summary.id}", f"bold {style}")
    size = f"{summary.tokens:,} tokens{retired}"
    return text.append(f" anchored at #{line.first}: {generation}covers up to #{summary.cutoff_id}, {size}", style)


def _table(*columns: str, right: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index < right else "left", no_wrap=True)
    return table


def _bar(tokens: int, threshold: int) -> Text:
    cells = min(_BAR_CELLS, round(_BAR_CELLS * tokens / threshold)) if threshold else _BAR_CELLS
    return Text.assemble(("█" * cells, "green" if tokens <= threshold else "red"), ("░" * (_BAR_CELLS - cells), "dim"))


def _run_table(runs: Sequence[CompactionRun]) -> Table:
    table = _table("run", "generation", "messages", "before", "", "after", right=6)
    for name in ("trigger", "tip", "cutoff", "anchor", "summary", "model"):
        table.add_column(name, no_wrap=True)
    for run in runs:
        succeeded = run.status == RunStatus.SUCCEEDED
        table.add_row(
            str(run.pk),
            str(run.generation or "–"),
            _known(run.messages_compacted),
            _known(run.tokens_before),
            "→",
            _known(run.tokens_after),
            run.trigger,
            _named(run.tip_id),
            _named(run.cutoff_id),
            _named(run.anchor_id),
            _named(run.summary_id),
            _model(run) if succeeded else Text(f"{run.status}: {run.error_code or run.skip_reason}", "red"),
        )
    return table


def _known(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _named(message_id: int | None) -> str:
    return f"#{message_id}" if message_id else "gone"


def _model(run: CompactionRun) -> str:
    return f"{run.summarizer_model} (offline)" if run.summarizer_model == "extractive" else run.summarizer_model


def _context_heading(context: ChatContext, view: SessionView) -> Text:
    text = Text.assemble((f"tip #{context.tip_id}", "bold"), f"  {number(len(context.messages), 'message')}, ")
    text.append(f"{context.tokens:,} tokens, history {context.history_tokens:,} of {context.threshold:,}")
    text.append(f" · {context.strategy}", "dim")
    if context.summary_id:
        run = view.generations.get(context.summary_id)
        text.append(f" · summary #{context.summary_id}", "yellow")
        text.append(f" (generation {run.generation}), " if run else ", ", "yellow")
        text.append(f"up to #{context.cutoff_id}", "yellow")
    if context.dropped:
        text.append(f" · {number(context.dropped, 'message')} left out", "red")
    return text


def _content(message: ContextMessage, view: SessionView) -> str:
    if message.origin == Origin.SUMMARY and message.message_id:
        # Its own text: the introduction is the same for each summary, and headings say little.
        lines = view.summary_text(message.message_id).splitlines()
        return _SUMMARY_HEADING + " ".join(line for line in lines if not line.startswith("#"))
    if message.content or not message.tool_calls:
        return message.content
    calls = (call.get("function") or {} for call in message.tool_calls)
    return "calls " + ", ".join(f"{call.get('name')}({call.get('arguments')})" for call in calls)


def one_line(text: str, width: int) -> str:
    """The first words of a text, in at most ``width`` columns, without anything that controls the terminal."""
    words = " ".join("".join(map(_harmless, text[:_LINE_CHARACTERS])).split())
    if cell_len(words) > width or len(text) > _LINE_CHARACTERS:
        words = set_cell_size(words, min(width - 1, cell_len(words))).rstrip() + "…"
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in words):
        return f"{_ISOLATE}{words}{_END_OF_ISOLATE}"
    return words


def _harmless(character: str) -> str:
    """Control characters could clear the screen or set a colour; invisible ones could reverse the line."""
    if character == _JOINER or unicodedata.category(character)[0] != "C":
        return character
    return " " if character.isspace() else ""


def number(count: int, word: str, words: str = "") -> str:
    """``1 branch``, ``2 branches``."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"
