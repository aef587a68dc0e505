"""``manage.py compact <session|message>``: compact now and wait for the result."""

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from compaction_app import chat
from compaction_app.compaction.execute import wait_for_end
from compaction_app.context.reading import ResolvedRequest, resolve_request
from compaction_app.exceptions import CompactionFailed, CompactionRefused, ConfigurationError, InvalidMessage
from compaction_app.management.console import FAILED, WrongCall, add_database, add_json, progress
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.summarizers.waiting import BLOCKING, without_waiting
from compaction_app.tree import branches
from compaction_app.values import RunStatus


class Command(BaseCommand):
    help = (
        "Compact a message's branch, or every branch of a session, including queued runs, and wait for the result. "
        "Exit code 0: compacted, or nothing to compact; 1: a branch could not be compacted; 2: there is no such "
        "session or message."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", metavar="session|message", help="the id of a session or a message")
        parser.add_argument(
            "--instructions", default="", metavar="TEXT", help="what the summary should keep or focus on"
        )
        add_database(parser)
        add_json(parser)

    def handle(self, *, target: str, instructions: str, database: str, as_json: bool, **options: Any) -> None:
        tips = _tips(target, database)
        results: list[dict[str, Any]] = []
        try:
            if tips:
                resolved, whole = resolve_request(tips[0].session), not target.isdecimal()
                with progress(tips, label="branches") as bar:
                    results = [_compact(tip, resolved, instructions, whole_session=whole) for tip in bar]
        except InvalidMessage as error:
            raise WrongCall(error) from error
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        if as_json:
            self.stdout.write(json.dumps({"branches": results}, indent=2))
        elif not results:
            self.stdout.write("The session has no messages: nothing to compact.")
        else:
            self.stdout.write(f"threshold {results[0]['threshold']:,} tokens")
            for one in results:
                tokens = f"{one['tokens_before']:,} → {one['tokens_after']:,} tokens"
                made = f" (generation {', '.join(map(str, one['generations']))})" if one["generations"] else ""
                self.stdout.write(f"#{one['tip']}, depth {one['depth']}: {tokens}, {one['outcome']}{made}")
        if any(result["failed"] for result in results):
            raise SystemExit(FAILED)


def _tips(target: str, database: str) -> list[ChatMessage]:
    """Return the message with that number, or the tips of the session, shallow ones first.

    A summary on the part that branches share then serves the deeper ones too.
    """
    if target.isdecimal():
        found = ChatMessage.objects.using(database).select_related("session").filter(pk=int(target)).first()
        if found is None:
            raise WrongCall(f"There is no message {target}.")
        return [found]
    try:
        session = ChatSession.objects.using(database).filter(pk=UUID(target)).first()
    except ValueError as error:
        raise WrongCall(f"{target!r} is neither a message number nor a session id.") from error
    if session is None:
        raise WrongCall(f"There is no session {target}.")
    return sorted(chat.tips(session), key=lambda tip: (tip.depth, tip.pk))


def _compact(tip: ChatMessage, resolved: ResolvedRequest, instructions: str, *, whole_session: bool) -> dict[str, Any]:
    """Compact one branch; the result, as JSON for scripts."""
    before = branches.history_at(tip)
    problem = ""
    # A summary, perhaps of another branch, may already bring this branch to its target: without this a session of
    # five hundred regenerations would get as many. Instructions are for every branch.
    served = before.summary_id is not None and before.tokens <= resolved.budget.target
    if not (served and whole_session and not instructions):
        try:
            _run(tip, instructions)
        except CompactionRefused as refused:
            by = f": a worker is executing run {refused.run_id}" if refused.run_id else ""
            problem = f"{refused.reason}{by}"
        except CompactionFailed as failed:
            problem = ": ".join(filter(None, [failed.error_code, failed.error_detail]))
    # Not by the run that is returned: of several generations the last one may have failed.
    after = branches.history_at(tip)
    is_new = after.summary_id is not None and after.summary_id != before.summary_id
    made = CompactionRun.objects.in_database_of(tip).filter(summary=after.summary_id).first() if is_new else None
    outcome = f"failed: {problem}" if problem else "compacted" if made else "nothing to compact"
    if made and made.error_code:
        outcome += f", an extract instead of a model's summary: {made.error_code}"
    return {
        "tip": tip.pk,
        "depth": tip.depth,
        "tokens_before": before.tokens,
        "tokens_after": after.tokens,
        "threshold": resolved.budget.threshold,
        "generations": [made.generation] if made else [],
        "outcome": outcome,
        "failed": bool(problem),
        "runs": [made.pk] if made else [],
    }


def _run(tip: ChatMessage, instructions: str) -> None:
    """Carry out the runs that compact it, also one that waits in the queue."""
    try:
        chat.compact(tip, instructions=instructions)
    except CompactionRefused as refused:
        in_the_way = CompactionRun.objects.in_database_of(tip).filter(pk=refused.run_id or 0)
        # Do not wait for the delay of a retry either.
        if not in_the_way.filter(status=RunStatus.READY).update(next_attempt_at=None):
            raise
        without_waiting(wait_for_end(in_the_way.get(), BLOCKING))
        if instructions:
            # It was opened without these.
            chat.compact(tip, instructions=instructions)
