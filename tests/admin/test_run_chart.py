"""The chart above the list of runs: what it counts, by what stretches of time, and its table."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from compaction_app.admin import charts
from compaction_app.admin.dates import Period, parts_of
from compaction_app.models import CompactionRun
from tests.admin.pages import runs_page, url
from tests.admin.records import NOON, run_of, succeeded
from tests.trees import chain, start_session

pytestmark = pytest.mark.django_db


def chart(client, **query):
    return runs_page(client, **query).context["cl"].chart


def figures(client, **query):
    """Label → runs, failed and saved, of what the chart counted something for."""
    columns = chart(client, **query).columns
    return {c.label: (c.figures.runs, c.figures.failed, c.figures.saved) for c in columns if c.figures.runs}


class TestChart:
    def test_it_counts_runs_failures_and_tokens_saved_by_day(self, viewer, tip):
        now = timezone.now()
        succeeded(tip, 1, 3000, 1200, created_at=now)
        succeeded(tip, 2, 2000, 1900, created_at=now)
        run_of(tip, created_at=now)
        run_of(tip, created_at=now, status="skipped", tokens_before=5000)
        run_of(tip, created_at=now - timedelta(days=3), tokens_before=900, tokens_after=100)
        run_of(tip, created_at=now - timedelta(days=45))
        counted = figures(viewer)
        assert list(counted.values()) == [(1, 1, 0), (4, 1, 1900)]
        total = chart(viewer).total
        assert (total.runs, total.failed, total.saved) == (5, 2, 1900)
        assert len(chart(viewer).columns) == 30

    def test_a_chosen_year_month_or_day_is_shown_by_months_days_and_hours(self, viewer, tip):
        run_of(tip, created_at=NOON)
        run_of(tip, created_at=NOON - timedelta(days=2))
        assert figures(viewer, date="2026") == {"November": (2, 2, 0)}
        assert figures(viewer, date="2026-11") == {"November 1": (1, 1, 0), "November 3": (1, 1, 0)}
        assert figures(viewer, date="2026-11-03") == {"12:00": (1, 1, 0)}

    def test_days_are_those_of_the_time_zone_on_both_databases(self, viewer, tip, settings):
        """23:30 UTC is the next day in Kathmandu, five and three quarter hours ahead."""
        settings.TIME_ZONE = "Asia/Kathmandu"
        run_of(tip, created_at=datetime(2026, 11, 3, 18, 14, tzinfo=UTC))
        run_of(tip, created_at=datetime(2026, 11, 3, 18, 15, tzinfo=UTC))
        assert figures(viewer, date="2026-11") == {"November 3": (1, 1, 0), "November 4": (1, 1, 0)}

    def test_a_column_leads_to_its_month_and_its_day_and_keeps_the_session(self, viewer, tip):
        run_of(tip, created_at=NOON)
        [column] = [c for c in chart(viewer, date="2026-11", session=tip.session_id).columns if c.url]
        assert column.url == url("compactionrun_changelist", session=tip.session_id, date="2026-11-03")
        assert [c.url for c in chart(viewer, date="2026-11-03").columns if c.url] == []

    def test_the_chart_of_a_session_counts_its_runs_alone(self, viewer, tip):
        run_of(tip, created_at=NOON)
        run_of(chain(start_session(), 1)[0], created_at=NOON)
        assert figures(viewer, date="2026", session=tip.session_id) == {"November": (1, 1, 0)}

    def test_a_list_narrowed_by_anything_else_has_no_chart(self, viewer, tip):
        """It would count other runs than the list below it shows."""
        run_of(tip)
        assert chart(viewer, status__exact="failed") is None
        assert "compaction-chart" not in runs_page(viewer, q="1").text

    def test_cost_is_shown_where_one_is_known_and_what_is_not_known_is_counted(self, viewer, tip):
        succeeded(tip, 1, 10, 5, cost="0.0125", input_tokens=10, created_at=NOON)
        succeeded(tip, 2, 10, 5, cost="0.01", input_tokens=10, created_at=NOON)
        run_of(tip, input_tokens=7, created_at=NOON)
        total = chart(viewer, date="2026").total
        assert (total.cost_shown, total.unpriced) == ("0.0225", 1)
        page = runs_page(viewer, date="2026").text
        assert "<dt>Cost</dt><dd>0.0225</dd>" in page
        CompactionRun.objects.update(cost=None)
        assert "<dt>Cost</dt>" not in runs_page(viewer, date="2026").text

    def test_every_number_of_the_picture_stands_in_the_table_below_it(self, viewer, tip):
        succeeded(tip, 1, 3000, 1200, created_at=NOON)
        run_of(tip, created_at=NOON)
        page = runs_page(viewer, date="2026-11").text
        table = page[page.index("Show as table") : page.index("</details>")]
        row = re.search(r"<tr>\s*<th[^>]*><a[^>]*>November 3</a></th>(.*?)</tr>", table, re.DOTALL)[1]
        assert re.findall(r">([\d,]+)</td>", row) == ["2", "1", "1,800"]
        assert 'aria-label="November 3: 2 runs, 1 failed, 1,800 tokens saved"' in page

    def test_bars_are_as_high_as_their_numbers_and_what_is_there_is_seen(self, monkeypatch):
        counted = [charts.Figures(runs=1000, failed=1, saved=-5), charts.Figures(runs=500), None]
        monkeypatch.setattr(charts, "_counted", lambda runs, ranges: counted)
        ranges = parts_of(Period(2026, 11), UTC)[:3]
        drawn = charts.chart_of("Runs", CompactionRun.objects.all(), ranges, lambda period: "")
        heights = [(column.x, column.runs, column.failed, column.saved) for column in drawn.columns]
        assert heights == [(0, charts.HEIGHT, 6, 0), (10, charts.HEIGHT // 2, 0, 0), (20, 0, 0, 0)]

    def test_a_time_without_runs_says_so(self, viewer, tip):
        run_of(tip, created_at=timezone.now() - timedelta(days=31))
        assert "No runs were opened in this period." in runs_page(viewer).text

    def test_more_runs_than_it_counts_are_left_out_by_whole_days_from_the_oldest(self, viewer, tip, monkeypatch):
        """A day that is counted is counted whole; no number is a part of one."""
        monkeypatch.setattr(charts, "MOST_RUNS", 5)
        for day, count in ((1, 2), (2, 2), (3, 2)):
            for _ in range(count):
                run_of(tip, created_at=datetime(2026, 11, day, 12, tzinfo=UTC))
        shown = chart(viewer, date="2026-11")
        assert [c.figures.runs if c.figures else None for c in shown.columns[:4]] == [None, 2, 2, 0]
        assert (shown.total.runs, shown.not_counted) == (4, 1)
        page = runs_page(viewer, date="2026-11").text
        assert "Only the newest 5 runs are counted" in page
        assert "not counted" in page

    def test_where_not_even_the_newest_day_can_be_counted_it_says_so(self, viewer, tip, monkeypatch):
        monkeypatch.setattr(charts, "MOST_RUNS", 1)
        for _ in range(3):
            run_of(tip, created_at=datetime(2026, 11, 30, 12, tzinfo=UTC))
        assert "Too many runs to count" in runs_page(viewer, date="2026-11").text
