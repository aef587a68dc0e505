"""``manage.py compact <session|message>``: compact now and wait for it, as a person would ask for it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from tqdm import tqdm

from compaction_app import chat
from compaction_app.compaction.execute import CLAIMED, finish_now
from compaction_app.context.reading import is_over_threshold
from compaction_app.context.request import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionFailed, CompactionRefused, ConfigurationError, InvalidMessage
from compaction_app.management.arguments import FAILED, NOT_FOUND, add_database, add_json
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree import branches
from compaction_app.tree.branches import History
from compaction_app.values import Kind, RunStatus

# Each compaction must raise the cutoff, so this only ends a defect.
_MAX_COMPACTIONS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """What came of one branch."""

    tip: int
    depth: int
    tokens_before: int
    tokens_after: int
    threshold: int
    #: Numbers of the summaries that were made.
    generations: tuple[int, ...] = ()
    #: "compacted", "nothing to compact", "shared" (a summary of another branch serves it), or why not.
    outcome: str
    failed: bool = False
    runs: tuple[int, ...] = ()


class Command(BaseCommand):
    help = (
        "Compact the branch that ends at a message, or every branch of a session, and wait for it. A compaction of the "
        "branch that only waits for a worker is carried out here. Exit code 0: "
        "done, or nothing to compact; 1: a branch could not be compacted; 2: there is no such session or message."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", metavar="session|message", help="the id of a session or of a message")
        parser.add_argument(
            "--instructions", default="", metavar="TEXT", help="what the summary is to keep or to focus on"
        )
        add_database(parser)
        add_json(parser)

    def handle(self, *, target: str, instructions: str, database: str, as_json: bool, **options: Any) -> None:
        tips = _tips(target, database)
        try:
            work = _Work(tips[0].session, instructions, whole_session=not target.isdecimal()) if tips else None
            with tqdm(tips, unit=" branches", disable=None, leave=False) as bar:
                lines = [work.compact(tip) for tip in bar] if work else []
        except InvalidMessage as error:
            raise CommandError(str(error), returncode=NOT_FOUND) from error
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        if as_json:
            self.stdout.write(json.dumps({"branches": [asdict(line) for line in lines]}, indent=2))
        else:
            _print_table(lines, self.stdout.write)
        if any(line.failed for line in lines):
            raise SystemExit(FAILED)


def _tips(target: str, database: str) -> list[ChatMessage]:
    """The message that a number names, or the tips of a session, from shallow to deep.

    Shallow first: a summary on the part that branches share serves the deeper ones too.
    """
    if target.isdecimal():
        found = ChatMessage.objects.using(database).select_related("session").filter(pk=int(target)).first()
        if found is None:
            raise CommandError(f"There is no message {target}.", returncode=NOT_FOUND)
        if found.kind == Kind.SUMMARY:
            anchor = found.parent_message_id
            raise CommandError(
                f"Message {target} is a summary; name the message whose branch is meant, such as its anchor {anchor}.",
                returncode=NOT_FOUND,
            )
        return [found]
    try:
        session = ChatSession.objects.using(database).filter(pk=UUID(target)).first()
    except ValueError as error:
        raise CommandError(
            f"{target!r} is neither the number of a message nor the id of a session.", returncode=NOT_FOUND
        ) from error
    if session is None:
        raise CommandError(f"There is no session {target}.", returncode=NOT_FOUND)
    return sorted(chat.tips(session), key=lambda tip: (tip.depth, tip.pk))


class _Work:
    """Compacting the branches of one session, one after the other."""

    def __init__(self, session: ChatSession, instructions: str, *, whole_session: bool) -> None:
        self.resolved: ResolvedRequest = resolve_request(session)
        self.using = branches.database_of(session)
        self.instructions = instructions
        self.whole_session = whole_session
        self.made: set[int] = set()

    def compact(self, tip: ChatMessage) -> Line:
        before = branches.history_at(tip.pk, self.using)
        runs: list[CompactionRun] = []
        problem = ""
        if not self._is_served(before):
            try:
                self._compact_until_it_fits(tip, runs)
            except (CompactionFailed, CompactionRefused) as error:
                problem = _told(error)
        shared = not runs and before.summary_id in self.made
        return self._line(tip, before.tokens, runs, problem, shared)

    def _is_served(self, history: History) -> bool:
        """Whether a summary serves this branch well enough, be it one of another branch.

        Else a session of five hundred regenerations would get as many summaries. Instructions are for each branch,
        and a message that is named is compacted in any case.
        """
        served = history.summary_id is not None and history.tokens <= self.resolved.budget.target
        return served and self.whole_session and not self.instructions

    def _compact_until_it_fits(self, tip: ChatMessage, runs: list[CompactionRun]) -> None:
        for _ in range(_MAX_COMPACTIONS):
            try:
                run, is_ours = chat.compact(tip, instructions=self.instructions), True
            except CompactionRefused as refused:
                run, is_ours = self._carry_out_waiting(refused), False
            if run.status == RunStatus.SUCCEEDED:
                runs.append(run)
                self.made.add(run.summary_id or 0)
                # What waited was opened without these instructions, which are for a summary of their own.
                if (is_ours or not self.instructions) and not self._is_over(tip):
                    return
            elif is_ours:
                return

    def _carry_out_waiting(self, refused: CompactionRefused) -> CompactionRun:
        """The run in the way, carried out here and now if no worker has it; else the refusal again."""
        if refused.run_id is None:
            raise refused
        in_the_way = CompactionRun.objects.using(self.using).filter(pk=refused.run_id)
        # Whoever waits for this command does not wait for a retry's delay as well.
        in_the_way.filter(status=RunStatus.READY).update(next_attempt_at=None)
        waiting = in_the_way.claimable(timezone.now()).first()
        if waiting is None:
            raise refused
        try:
            return finish_now(waiting)
        except CompactionFailed as failed:
            # A worker was faster: it is at work on the run now.
            raise refused if failed.error_code == CLAIMED else failed from None

    def _is_over(self, tip: ChatMessage) -> bool:
        return is_over_threshold(tip, self.resolved)

    def _line(self, tip: ChatMessage, before: int, runs: Sequence[CompactionRun], problem: str, shared: bool) -> Line:
        outcome = "shared" if shared else "compacted" if runs else "nothing to compact"
        if not problem and not runs and not shared and self._is_over(tip):
            outcome = "irreducible"
        return Line(
            tip=tip.pk,
            depth=tip.depth,
            tokens_before=before,
            tokens_after=branches.history_at(tip.pk, self.using).tokens,
            threshold=self.resolved.budget.threshold,
            generations=tuple(run.generation for run in runs if run.generation),
            outcome=f"failed: {problem}" if problem else outcome,
            failed=bool(problem),
            runs=tuple(run.pk for run in runs),
        )


def _told(error: CompactionFailed | CompactionRefused) -> str:
    if isinstance(error, CompactionRefused):
        return f"{error.reason}: a worker has run {error.run_id}" if error.run_id else error.reason
    return f"{error.error_code}: {error.error_detail}" if error.error_detail else error.error_code


def _print_table(lines: Sequence[Line], write: Callable[[str], object]) -> None:
    if not lines:
        write("The session has no messages: nothing to compact.")
        return
    write(f"threshold {lines[0].threshold:,} tokens")
    rows = [("tip", "depth", "before", "after", "")]
    rows += [(f"#{n.tip}", str(n.depth), f"{n.tokens_before:,}", f"{n.tokens_after:,}", _words(n)) for n in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        write("  ".join([*cells, row[4]]).rstrip())


def _words(line: Line) -> str:
    if not line.generations:
        return line.outcome
    numbers = ", ".join(map(str, line.generations))
    return f"{line.outcome} (generation {numbers})"
