"""The list of runs: by date, by what occurs, by a part of the error details; and one line of totals."""

import re
from datetime import timedelta

import pytest

from compaction_app.admin import runs
from compaction_app.models import CompactionEvent
from tests.admin.pages import listed, runs_page
from tests.admin.records import NOON, run_at

pytestmark = pytest.mark.django_db


def totals(client, **query):
    found = re.search(r'<p class="compaction-totals">(.*?)</p>', runs_page(client, **query).text, re.DOTALL)
    return " ".join(found[1].split())


def test_runs_and_events_are_narrowed_to_a_year_a_month_and_a_day(viewer, tip):
    day, month, before = (run_at(tip, created_at=NOON - timedelta(days=days)) for days in (0, 2, 400))
    assert listed(viewer, "compactionrun") == [before.pk, month.pk, day.pk]
    narrowed = {"created_at__year": 2026, "created_at__month": 11}
    assert listed(viewer, "compactionrun", **narrowed) == [day.pk, month.pk]
    assert listed(viewer, "compactionrun", **narrowed, created_at__day=3) == [day.pk]
    event = CompactionEvent.objects.create(session=tip.session, kind="failed", created_at=NOON)
    assert listed(viewer, "compactionevent", **narrowed, kind__exact="failed") == [event.pk]


def test_one_line_counts_what_the_date_and_the_filters_leave(viewer, tip):
    run_at(tip, status="succeeded", generation=1, cost="0.0125", input_tokens=1000, output_tokens=10, created_at=NOON)
    run_at(tip, status="succeeded", generation=2, cost="0.01", input_tokens=500, output_tokens=5, created_at=NOON)
    run_at(tip, input_tokens=7, created_at=NOON)
    run_at(tip, created_at=NOON - timedelta(days=400))
    assert totals(viewer, created_at__year="2026") == (
        "3 runs, 1 failed; 1,507 tokens in, 15 out; cost 0.0225 (1 run without a price)."
    )
    assert totals(viewer, status__exact="failed").startswith("2 runs, 2 failed; 7 tokens in, 0 out; no cost known")
    assert totals(viewer, status__exact="running") == "0 runs, 0 failed; 0 tokens in, 0 out; no cost known."


def test_more_runs_than_it_counts_are_said_to_be_the_newest(viewer, tip, monkeypatch):
    monkeypatch.setattr(runs, "MOST_RUNS", 2)
    monkeypatch.setattr(runs.records.BoundedPaginator, "limit", 2)
    for _ in range(3):
        run_at(tip)
    assert totals(viewer).endswith("Only the newest 2 are counted.")


def test_error_details_are_searched_by_those_who_may_read_what_they_quote(viewer, login, tip):
    failed = run_at(tip, error_detail="503 from the model's endpoint")
    run_at(tip, error_detail="no answer")
    assert listed(viewer, "compactionrun", q="ENDPOINT") == [failed.pk]
    assert listed(login("view_compactionrun", "view_chatsession"), "compactionrun", q="endpoint") == []


@pytest.mark.parametrize(
    ("fields", "english", "german"),
    [
        ({"error_code": "error_text"}, "Failed: error text", "Fehlertext"),
        ({"status": "skipped", "skip_reason": "mode_off"}, "Skipped: mode off", "ausgeschaltet"),
    ],
)
def test_a_code_is_found_by_what_the_list_says_of_it(viewer, tip, settings, fields, english, german):
    run_at(tip, error_code="timeout")
    run = run_at(tip, **fields)
    assert english in re.sub("<[^>]*>", "", runs_page(viewer).text)
    settings.LANGUAGE_CODE = "de"
    assert german in runs_page(viewer).text
    assert listed(viewer, "compactionrun", q=german.upper()) == [run.pk]
