"""Days, months and years in the lists of runs and events, by the calendar of the time zone."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.utils import timezone

from compaction_app.admin import dates, runs
from compaction_app.admin.dates import Period, last_days, midnight, parts_of
from compaction_app.models import CompactionEvent, CompactionRun
from tests.admin.pages import listed, runs_page, url
from tests.admin.records import NOON, run_of

pytestmark = pytest.mark.django_db

BERLIN = ZoneInfo("Europe/Berlin")


def choices(client, **query):
    """What the date filter offers, and what of it is chosen."""
    [spec] = [s for s in runs_page(client, **query).context["cl"].filter_specs if isinstance(s, dates.DateFilter)]
    offered = list(spec.choices(client.get(url("compactionrun_changelist", **query)).context["cl"]))
    return [c["display"] for c in offered], [c["display"] for c in offered if c["selected"]]


@pytest.mark.pure
class TestCalendar:
    @pytest.mark.parametrize("code", ["2026", "2026-11", "2026-11-03", "2024-02-29", "0999-01"])
    def test_a_period_is_named_by_its_code(self, code):
        assert Period.parse(code).code == code

    @pytest.mark.parametrize(
        "code",
        [
            *("", "26", "x", "99999", "9999", "0001", "-2026", "２０２６", "2026-", "2026/11"),
            *("2026-13", "2026-00", "2026-1", "2026-02-30", "2026-11-3", "2026-11-00", "2026-11-03-04", "2026-11-03 "),
        ],
    )
    def test_what_is_not_on_the_calendar_is_no_period(self, code):
        with pytest.raises(ValueError, match=r"is not a year, month or day|day is out of range"):
            Period.parse(code)

    def test_a_year_has_months_and_a_month_has_days_and_a_day_has_none(self):
        assert [part.code for part in Period(2026).parts()][::11] == ["2026-01", "2026-12"]
        assert len(Period(2026, 2).parts()) == 28
        assert len(Period(2024, 2).parts()) == 29
        assert Period(2026, 2, 3).parts() == []
        assert [above.code for above in Period(2026, 2, 3).within()] == ["2026", "2026-02"]

    @pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 10, 26), 24)])
    def test_a_day_on_which_the_clocks_change_is_an_hour_shorter_or_longer(self, day, hours):
        start, end = Period(*day).bounds(BERLIN)
        assert end - start == timedelta(hours=hours)
        stretches = parts_of(Period(*day), BERLIN)
        assert len(stretches) == hours
        assert (stretches[0].start, stretches[-1].end) == (start, end)

    def test_the_hour_that_comes_twice_is_two_columns(self):
        labels = [stretch.label for stretch in parts_of(Period(2026, 10, 25), BERLIN)]
        assert labels[:5] == ["00:00", "01:00", "02:00", "02:00", "03:00"]

    def test_where_clocks_skip_midnight_the_day_begins_at_the_hour_they_skip_to(self):
        """Cuba's clocks go from 00:00 to 01:00: the first instant of the day is 05:00 UTC, and nothing is lost."""
        havana = ZoneInfo("America/Havana")
        assert midnight(date(2026, 3, 8), havana) == datetime(2026, 3, 8, 5, tzinfo=UTC)
        assert Period(2026, 3, 7).bounds(havana)[1] == Period(2026, 3, 8).bounds(havana)[0]

    @pytest.mark.parametrize("zone", [UTC, BERLIN, ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/St_Johns")])
    def test_stretches_follow_each_other_without_a_gap(self, zone):
        for stretches in (
            last_days(date(2026, 4, 1), 30, zone),
            parts_of(Period(2026), zone),
            parts_of(Period(2026, 10), zone),
        ):
            assert all(one.end == following.start for one, following in pairwise(stretches))

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (0.84, "0.8 s"),
            (59.9, "59.9 s"),
            (60, "1 min 0 s"),
            (3725, "1 h 2 min"),
            (2e5, "2 d 7 h"),
            (-5, "0.0 s"),
        ],
    )
    def test_how_long_something_took_is_said_in_two_units_at_most(self, seconds, shown):
        assert runs.display.lasted(timedelta(seconds=seconds)) == shown


class TestByDate:
    def test_runs_are_narrowed_to_a_year_a_month_and_a_day(self, viewer, tip):
        day, month = run_of(tip, created_at=NOON), run_of(tip, created_at=NOON - timedelta(days=2))
        year, before = (run_of(tip, created_at=NOON - timedelta(days=days)) for days in (90, 400))
        assert listed(viewer, "compactionrun") == [before.pk, year.pk, month.pk, day.pk]
        assert listed(viewer, "compactionrun", date="2026") == [day.pk, month.pk, year.pk]
        assert listed(viewer, "compactionrun", date="2026-11") == [day.pk, month.pk]
        assert listed(viewer, "compactionrun", date="2026-11-03") == [day.pk]
        assert listed(viewer, "compactionrun", date="2026-11-04") == []

    def test_events_are_narrowed_as_runs_are(self, viewer, tip):
        made = [
            CompactionEvent.objects.create(session=tip.session, kind="failed", created_at=NOON - timedelta(days=days))
            for days in (0, 40)
        ]
        assert listed(viewer, "compactionevent", date="2026-11") == [made[0].pk]
        assert listed(viewer, "compactionevent", date="2026-09", kind__exact="failed") == [made[1].pk]

    def test_a_date_and_other_filters_narrow_together(self, viewer, tip):
        failed = run_of(tip, created_at=NOON)
        run_of(tip, created_at=NOON, status="skipped")
        assert listed(viewer, "compactionrun", date="2026-11-03", status__exact="failed", session=tip.session_id) == [
            failed.pk
        ]

    def test_days_begin_and_end_at_the_midnights_of_the_time_zone(self, viewer, tip, settings):
        """In Berlin the 25th of October 2026 lasts from 22:00 UTC to 23:00 UTC, 25 hours."""
        settings.TIME_ZONE = "Europe/Berlin"
        start = datetime(2026, 10, 24, 22, tzinfo=UTC)
        first, last = (
            run_of(tip, created_at=start),
            run_of(tip, created_at=start + timedelta(hours=25, microseconds=-1)),
        )
        run_of(tip, created_at=start - timedelta(microseconds=1))
        run_of(tip, created_at=start + timedelta(hours=25))
        with timezone.override(BERLIN):
            assert listed(viewer, "compactionrun", date="2026-10-25") == [last.pk, first.pk]

    def test_the_choices_lead_from_year_to_month_to_day_and_back(self, viewer, tip):
        run_of(tip, created_at=datetime(2025, 12, 30, 12, tzinfo=UTC))
        run_of(tip, created_at=NOON)
        assert choices(viewer) == (["Any date", "2025", "2026"], ["Any date"])
        assert choices(viewer, date="2025") == (["Any date", "2025", "December"], ["2025"])
        assert choices(viewer, date="2025-12") == (
            ["Any date", "2025", "December 2025", "December 30", "December 31"],
            ["December 2025"],
        )
        assert choices(viewer, date="2025-12-30")[0][-2:] == ["December 2025", "Dec. 30, 2025"]

    def test_without_rows_there_is_any_date_only(self, viewer):
        assert choices(viewer) == (["Any date"], ["Any date"])

    def test_the_list_of_a_day_reads_the_index_alone(self, viewer, tip):
        now = timezone.now()
        CompactionRun.objects.bulk_create(
            CompactionRun(
                session_id=tip.session_id, trigger="manual", status="failed", created_at=now - timedelta(hours=hours)
            )
            for hours in range(2000)
        )
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {CompactionRun._meta.db_table}")
        rows = runs_page(viewer, date=f"{now:%Y}").context["cl"].queryset[:50]
        plan = rows.explain()
        assert "compaction_runs_by_time" in plan
        assert "SCAN compaction_app_compactionrun" not in plan
        assert "Seq Scan" not in plan
