"""What is being compacted now, in one line with links: on a session's page, and after an erasure that requested it."""

from __future__ import annotations

from collections.abc import Collection

from django.utils.html import format_html

from compaction_app.admin.compacting import is_off
from compaction_app.admin.display import joined
from compaction_app.admin.records import RecordAdmin
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import RunStatus

#: Of more runs than this the list is linked.
_MOST_NAMED = 3


def being_compacted(admin: RecordAdmin, sessions: Collection[ChatSession]) -> str:
    """Like "Being compacted now: Run 162 (running)."; "" where no run is open, or the user may not view runs.

    One query. The sessions are of one database, and at least one.
    """
    if not admin.may_view("compactionrun"):
        return ""
    runs = CompactionRun.objects.using(database_of(next(iter(sessions)))).filter(session__in=sessions).open()
    found = list(runs.only("status").order_by("pk")[: _MOST_NAMED + 1])
    is_running = any(run.status == RunStatus.RUNNING for run in found)
    words = "Being compacted now" if is_running else "Waiting for a worker"
    if len(found) > _MOST_NAMED:
        return format_html("{}: {}.", words, _runs_of(admin, sessions, f"more than {_MOST_NAMED} runs"))
    named = joined(map(admin.link_to_run_with_status, found), ", ")
    return format_html("{}: {}.", words, named) if found else ""


def requested_after(admin: RecordAdmin, sessions: Collection[ChatSession]) -> str:
    """The same after an erasure. Where a broker took the request, no run is open before a worker has looked at it."""
    if (found := being_compacted(admin, sessions)) or all(is_off(session) for session in sessions):
        return found
    runs = _runs_of(admin, sessions, "see the runs")
    return format_html("If a branch is over its threshold now, it is compacted in the background: {}.", runs)


def _runs_of(admin: RecordAdmin, sessions: Collection[ChatSession], label: str) -> str:
    """A link to the list; of one session its own runs."""
    narrowed = {"session": next(iter(sessions)).pk} if len(sessions) == 1 else {}
    return admin.link_to_list("compactionrun", label, **narrowed)
