"""Pages, API endpoints, searches and a turn in a session of 1,000 messages, and in one of 100,000 among a million rows.

Run as ``python -m benchmarks.speed.pages``, with ``DATABASE_URL`` set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.speed import tables
from benchmarks.speed.on_django import OnDjango, turn_calls
from benchmarks.speed.serving import serve

SMALL, LARGE, TABLE = 1_000, 100_000, 1_000_000
#: A variant of every twelfth message, and the same number of summaries at any length, which fills their lists.
FORK_EVERY, SUMMARIES = 12, 60
#: Messages after the newest summary's anchor.
DISTANCE = 60
ADMIN, API = "/admin/compaction_app", "/api/v1"
#: Pages by their names; in braces what is put in.
PAGES = {
    "admin: app": f"{ADMIN}/",
    "admin: sessions": f"{ADMIN}/chatsession/",
    "admin: session": f"{ADMIN}/chatsession/{{session}}/change/",
    "admin: messages of session": f"{ADMIN}/chatmessage/?session={{session}}",
    "admin: message": f"{ADMIN}/chatmessage/{{tip}}/change/",
    "admin: summaries": f"{ADMIN}/chatmessage/?kind=summary",
    "admin: summary": f"{ADMIN}/chatmessage/{{summary}}/change/",
    "admin: runs": f"{ADMIN}/compactionrun/",
    "admin: run": f"{ADMIN}/compactionrun/{{run}}/change/",
    "admin: events": f"{ADMIN}/compactionevent/",
    "API: sessions": f"{API}/sessions",
    "API: tree": f"{API}/sessions/{{session}}/tree",
    "API: compactions": f"{API}/sessions/{{session}}/compactions",
    "API: context": f"{API}/messages/{{tip}}/context",
}
#: Words that are searched for.
SEARCHES = {
    "search: a word of no message": "harbour",
    "search: a word of one message": "500",
    "search: a word of every message": "word",
    "search: all of them": "harbour 500 word",
}


class Pages(OnDjango):
    """A session of ``size`` messages; the large one is in a table of a million."""

    def grow(self, size: int, branches: int) -> None:
        tip = fill(size)
        if size == LARGE:
            for _ in range(9):
                fill_others((TABLE - LARGE) // 9)
        self.grown[size, branches] = tip, tip
        tables.analyze()
        self.stored = tables.stored_bytes()

    def count(self, call: Callable[[], Any]) -> dict[str, int]:
        return super().count(call) | self.stored

    def calls(self, size: int, branches: int) -> dict[str, Callable[[], Any]]:
        from compaction_app import chat

        tip, client = self.grown[size, branches][0], staff_client()
        summary = chat.find_summary(tip)
        run = summary.made_by.first()
        found = {"session": tip.session_id, "tip": tip.pk, "summary": summary.pk, "run": run.pk}
        calls = turn_calls(tip, tip) | {name: reading(client, url.format(**found)) for name, url in PAGES.items()}
        return calls | {name: partial(chat.recall, tip, words) for name, words in SEARCHES.items()}


def staff_client() -> Any:
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def reading(client: Any, url: str) -> Callable[[], None]:
    def read() -> None:
        response = client.get(url)
        if response.status_code != 200:
            raise AssertionError(f"{url} answered {response.status_code}")

    read()
    return read


def fill(size: int) -> Any:
    """A session of ``size`` messages with forks, summaries, runs and events; returns its newest tip."""
    tip = fill_others(size)
    first = tip.pk - tip.depth + 1
    step = (tip.depth - DISTANCE) // SUMMARIES
    for number in range(1, SUMMARIES + 1):
        summarize(number, first + number * step - 1)
    add_runs(tip.session, max(100, size // 50), tip.depth, first)
    return tip


def fill_others(size: int) -> Any:
    """A trunk and a variant of every twelfth of its messages; returns the trunk's tip."""
    variants = size // FORK_EVERY
    return tables.grow(size - variants, variants + 1, length=1, has_summary=False)


def summarize(number: int, anchor_id: int) -> None:
    from compaction_app.models import ChatMessage, CompactionEvent, CompactionRun

    anchor = ChatMessage.objects.get(pk=anchor_id)
    text = f"## Recap {number}\n\nWhat came before.\n" + "It was said that this matters.\n" * 20
    summary = tables.summarize(anchor, anchor_id - 4, text, tokens=200)
    base = CompactionRun.objects.filter(session=anchor.session, generation=number - 1).first()
    run = CompactionRun.objects.create(
        session=anchor.session,
        tip=anchor,
        anchor=anchor,
        cutoff=summary.last_summarized_message,
        summary=summary,
        status="succeeded",
        trigger="threshold",
        generation=number,
        base=base.summary if base else None,
        tokens_before=20_000,
        tokens_after=5_000,
        messages_compacted=60,
        input_tokens=15_000,
        output_tokens=200,
    )
    for kind in ("threshold_hit", "started", "completed"):
        CompactionEvent.objects.create(
            session=anchor.session, run=run, message=anchor, kind=kind, payload={"tokens": 20_000}
        )


def add_runs(session: Any, count: int, trunk: int, first: int) -> None:
    """Failed runs, each with an event."""
    from compaction_app.models import CompactionEvent, CompactionRun

    runs = CompactionRun.objects.bulk_create(
        (
            CompactionRun(
                session=session, tip_id=first + n % trunk, trigger="threshold", status="failed", error_code="timeout"
            )
            for n in range(count)
        ),
        batch_size=2_000,
    )
    CompactionEvent.objects.bulk_create(
        (CompactionEvent(session=session, run=run, kind="failed", payload={"attempt": 1}) for run in runs),
        batch_size=2_000,
    )


if __name__ == "__main__":
    serve(Pages())
