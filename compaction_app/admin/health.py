"""What is wrong with the background work right now, in one block on the app's page.

Runs that wait without a worker, as they do where the broker is down, claims of dead workers that no sweep has
reassigned, models that write no summary: each with what to do. What failed is counted by the list of runs. Three
queries, each bounded.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings as django_settings
from django.db.models import Count, F, Min, Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.http import urlencode

from compaction_app.models import CompactionRun
from compaction_app.models.words import why_it_failed, words
from compaction_app.values import RunStatus

#: Open runs of each status that are counted.
MOST_OPEN = 1000
#: An older failure is no problem of now.
RECENT = timedelta(days=7)


def health_of(request: HttpRequest) -> dict[str, Any] | None:
    """The ``problems``; None for people who may not view runs.

    Of each its ``kind``, what the template says of it, and the query of the ``runs`` whose list has it.
    """
    user = getattr(request, "user", None)
    if user is None or not user.has_perm("compaction_app.view_compactionrun"):
        return None
    problems = list(_open_runs(timezone.now()))
    # A key that is missing or a model that is gone fails no run: an extract is stored instead. A model that hangs does.
    ended = CompactionRun.objects.filter(status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED))
    newest = ended.filter(created_at__gte=timezone.now() - RECENT).order_by("-created_at")
    status, code = newest.values_list("status", "error_code").first() or ("", "")
    if code:
        alike = f"status__exact={status}&error_code__isempty=0"
        problems.append({"kind": status, "why": why_it_failed(code) or words(code), "runs": alike})
    return {"problems": problems}


def _configured(name: str) -> Any:
    """As the site has it: what is wrong with its settings other pages say."""
    return getattr(django_settings, "COMPACTION", {}).get(name)


def _open_runs(now: datetime) -> Iterator[dict[str, Any]]:
    late = Q(due__lt=now - CompactionRun.objects.late_after())
    # Most overdue first, in the order of the index: those are counted where not all are.
    waiting = CompactionRun.objects.waiting().order_by("next_attempt_at")
    claimed = CompactionRun.objects.open().filter(status=RunStatus.RUNNING).annotate(due=F("lease_expires_at"))
    for status, rows in ((RunStatus.READY, waiting), (RunStatus.RUNNING, claimed)):
        found = rows[: MOST_OPEN + 1].aggregate(late=Count("pk", filter=late), since=Min("due", filter=late))
        if not found["late"]:
            continue
        queue, name = _configured("TASK_QUEUE"), current_app.main or "yourproject"
        worker = f"celery -A {name} worker" + (f" -Q {queue}" if queue else "") + " --beat"
        yield {
            "kind": status,
            "count": min(found["late"], MOST_OPEN),
            "is_more": found["late"] > MOST_OPEN,
            "since": found["since"],
            "start": "manage.py recover_compactions" if _configured("ENQUEUE") else worker,
            "runs": urlencode({"status__exact": status}),
        }
