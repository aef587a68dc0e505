"""Runs and events in the admin: lists by date, the chart above them, and the page of a run."""

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compaction_app.admin import charts, dated, run_fields
from compaction_app.admin.days import Period, last_days, midnight, parts_of
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import ErrorCode, EventKind, RunStatus
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture
def viewer(client):
    """May see everything and do nothing."""
    user = get_user_model().objects.create_user("staff", is_staff=True)
    codenames = [f"view_{model}" for model in ("chatsession", "chatmessage", "compactionrun", "compactionevent")]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    return client


@pytest.fixture
def tip():
    return chain(start_session(title="Harbour"), 1)[0]


def url(page, *arguments, **query):
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


def run_of(tip, **fields):
    given = {"session_id": tip.session_id, "tip": tip, "trigger": "threshold", "status": "failed"}
    return CompactionRun.objects.create(**given | fields)


def succeeded(tip, generation, before, after, **fields):
    done = {"status": "succeeded", "generation": generation, "tokens_before": before, "tokens_after": after}
    return run_of(tip, **done | fields)


def runs_page(client, **query):
    return client.get(url("compactionrun_changelist", **query))


def listed(client, page="compactionrun", **query):
    return [row.pk for row in client.get(url(f"{page}_changelist", **query)).context["cl"].result_list]


def chart(client, **query):
    return runs_page(client, **query).context["compaction_chart"]()


def figures(client, **query):
    """Label → runs, failed and saved, of what the chart counted something for."""
    columns = chart(client, **query).columns
    return {c.label: (c.figures.runs, c.figures.failed, c.figures.saved) for c in columns if c.figures.runs}


def choices(client, **query):
    """What the date filter offers, and what of it is chosen."""
    [spec] = [s for s in runs_page(client, **query).context["cl"].filter_specs if isinstance(s, dated.DateFilter)]
    offered = list(spec.choices(client.get(url("compactionrun_changelist", **query)).context["cl"]))
    return [c["display"] for c in offered], [c["display"] for c in offered if c["selected"]]


def queries_of(client, page):
    # Kept by Django from the first page on.
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page).status_code == 200
    return [query["sql"] for query in queries]


# -- the calendar -------------------------------------------------------------------------------------------


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
        with pytest.raises(ValueError, match=r"is no year, month or day|day is out of range"):
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
            (200_000, "2 d 7 h"),
            (-5, "0.0 s"),
        ],
    )
    def test_how_long_something_took_is_said_in_two_units_at_most(self, seconds, shown):
        assert run_fields.display.lasted(timedelta(seconds=seconds)) == shown


# -- by date ------------------------------------------------------------------------------------------------


class TestByDate:
    def test_runs_are_narrowed_to_a_year_a_month_and_a_day(self, viewer, tip):
        day, month = run_of(tip, created_at=NOON), run_of(tip, created_at=NOON - timedelta(days=2))
        year, before = (
            run_of(tip, created_at=NOON - timedelta(days=90)),
            run_of(tip, created_at=NOON - timedelta(days=400)),
        )
        assert listed(viewer) == [before.pk, year.pk, month.pk, day.pk]
        assert listed(viewer, date="2026") == [day.pk, month.pk, year.pk]
        assert listed(viewer, date="2026-11") == [day.pk, month.pk]
        assert listed(viewer, date="2026-11-03") == [day.pk]
        assert listed(viewer, date="2026-11-04") == []

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
        assert listed(viewer, date="2026-11-03", status__exact="failed", session=tip.session_id) == [failed.pk]

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
            assert listed(viewer, date="2026-10-25") == [last.pk, first.pk]

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

    @pytest.mark.parametrize("page", ["compactionrun", "compactionevent"])
    @pytest.mark.parametrize("code", ["2026-02-30", "yesterday", "2026-13", "99999999999999999999", "%00", "\0"])
    def test_a_date_that_is_none_shows_the_whole_list(self, viewer, page, code):
        assert viewer.get(url(f"{page}_changelist", date=code)).headers["Location"].endswith("?e=1")

    def test_the_list_of_a_day_reads_the_index_alone(self, viewer, tip):
        """No walk through the table, however many rows stand before those of the day."""
        now = timezone.now()
        CompactionRun.objects.bulk_create(
            CompactionRun(
                session_id=tip.session_id,
                trigger="manual",
                status="failed",
                created_at=now - timedelta(hours=hours),
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


# -- what no index knows ------------------------------------------------------------------------------------


class TestLookingThrough:
    @pytest.fixture(autouse=True)
    def ten(self, monkeypatch):
        monkeypatch.setattr(dated, "LOOKED_THROUGH", 10)

    @pytest.fixture
    def runs(self, tip):
        """Twelve runs of one a minute, the oldest of which alone is manual, and one that waits since then."""
        start = NOON - timedelta(minutes=13)
        run_of(tip, trigger="manual", created_at=start)
        waits = run_of(tip, status="ready", anchor=tip, created_at=start)
        for minute in range(11):
            run_of(tip, created_at=start + timedelta(minutes=minute + 1))
        return waits

    def test_a_rare_value_is_looked_for_among_the_newest_and_the_page_says_so(self, viewer, runs):
        page = runs_page(viewer, trigger__exact="manual")
        assert page.context["cl"].result_count == 0
        assert "Only the newest 10 were looked through" in page.text

    def test_a_date_leads_to_the_older_ones(self, viewer, tip, runs):
        older = run_of(tip, trigger="manual", created_at=NOON - timedelta(days=40))
        assert listed(viewer, trigger__exact="manual", date="2026-09") == [older.pk]
        page = runs_page(viewer, trigger__exact="manual", date="2026-11-03")
        assert "Only the newest 10 of this date were looked through" in page.text

    @pytest.mark.parametrize("query", [{}, {"date": "2026-11"}, {"q": "1"}, {"p": "1"}])
    def test_nothing_is_left_out_where_nothing_is_looked_for(self, viewer, runs, query):
        assert "were looked through" not in runs_page(viewer, **query).text

    def test_runs_that_wait_are_found_however_old_they_are(self, viewer, runs):
        """They have an index of their own, and they are what one looks for when nothing moves."""
        assert listed(viewer, status__exact="ready") == [runs.pk]

    def test_the_runs_of_one_session_are_looked_through_to_the_last(self, viewer, tip, runs):
        assert len(listed(viewer, session=tip.session_id, trigger__exact="manual")) == 1

    def test_events_are_looked_through_alike(self, viewer, tip):
        CompactionEvent.objects.bulk_create(
            CompactionEvent(session_id=tip.session_id, kind="retired" if n == 0 else "started") for n in range(12)
        )
        page = viewer.get(url("compactionevent_changelist", kind__exact="retired"))
        assert page.context["cl"].result_count == 0
        assert "Only the newest 10 were looked through" in page.text


# -- filters ------------------------------------------------------------------------------------------------


def test_runs_are_filtered_by_model(viewer, tip, settings):
    settings.COMPACTION = {"SUMMARIZER_MODELS": ["quick", {"model": "large", "base_url": "http://127.0.0.1:1"}]}
    quick = run_of(tip, summarizer_model="quick")
    old = run_of(tip, summarizer_model="retired-model")
    assert listed(viewer, model="quick") == [quick.pk]
    assert listed(viewer, model="retired-model") == [old.pk]
    page = runs_page(viewer, model="retired-model").text
    for name in ("quick", "large", "extractive", "retired-model"):
        assert f">{name}</a>" in page


def test_the_filters_are_there_where_the_settings_are_wrong(viewer, tip, settings):
    settings.COMPACTION = {"SUMMARIZER_MODELS": 7}
    assert runs_page(viewer).status_code == 200


@pytest.mark.parametrize("name", ["model", "skip_reason", "error_code", "status__exact", "session", "q"])
@pytest.mark.parametrize("page", ["compactionrun", "chatsession"])
def test_a_character_that_no_text_can_hold_is_no_server_error(viewer, page, name):
    assert viewer.get(url(f"{page}_changelist") + f"?{name}=%00").headers["Location"].endswith("?e=1")


@pytest.mark.parametrize(("page", "said"), [("compactionrun", "No run yet."), ("compactionevent", "No event yet.")])
def test_an_empty_list_says_what_will_stand_there(viewer, page, said):
    assert said in viewer.get(url(f"{page}_changelist")).text
    narrowed = viewer.get(url(f"{page}_changelist", date="2026")).text
    assert "Nothing matches." in narrowed
    assert "Show all" in narrowed


# -- the chart ----------------------------------------------------------------------------------------------


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
        assert (total.shown["cost"], total.unpriced) == ("0.0225", 1)
        page = runs_page(viewer, date="2026").text
        assert "<dt>Cost</dt><dd>0.0225</dd>" in page
        CompactionRun.objects.update(cost=None)
        assert "<dt>Cost</dt>" not in runs_page(viewer, date="2026").text

    def test_every_number_of_the_picture_stands_in_the_table_below_it(self, viewer, tip):
        succeeded(tip, 1, 3000, 1200, created_at=NOON)
        run_of(tip, created_at=NOON)
        page = runs_page(viewer, date="2026-11").text
        table = page[page.index("The same numbers as a table") : page.index("</details>")]
        row = re.search(r"<tr>\s*<th[^>]*><a[^>]*>November 3</a></th>(.*?)</tr>", table, re.DOTALL)[1]
        assert re.findall(r">([\d,]+)</td>", row) == ["2", "1", "1,800"]
        assert 'aria-label="November 3: 2 runs, 1 failed, 1,800 tokens saved"' in page

    def test_bars_are_as_high_as_their_numbers_and_what_is_there_is_seen(self):
        stretches = parts_of(Period(2026, 11), UTC)[:3]
        counted = [charts.Figures(runs=1000, failed=1, saved=-5), charts.Figures(runs=500), None]
        column = charts._column(0, stretches[0], counted[0], lambda period: "", 1000, 0)
        assert (column.runs.height, column.runs.y) == (charts.HEIGHT, 0)
        assert column.failed.height == 6
        assert column.saved is None
        assert charts._column(1, stretches[1], counted[1], lambda period: "", 1000, 0).runs.height == charts.HEIGHT // 2
        assert charts._column(2, stretches[2], None, lambda period: "", 1000, 0).runs is None

    def test_a_time_without_runs_says_so(self, viewer, tip):
        run_of(tip, created_at=timezone.now() - timedelta(days=31))
        assert "No run was opened in this time." in runs_page(viewer).text

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
        assert "Too many runs to count here" in runs_page(viewer, date="2026-11").text


# -- a run's page -------------------------------------------------------------------------------------------


def page_text(client, run):
    """The page of a run without markup, white space evened out."""
    page = client.get(url("compactionrun_change", run.pk)).text
    return " ".join(re.sub("<[^>]*>", " ", page).split())


class TestPage:
    def test_it_shows_everything_that_is_stored(self, viewer):
        """Every column of a run's row, filled with what is found nowhere else on the page."""
        nodes = chain(start_session(title="Harbour"), 5)
        summary, base = summarize(nodes[3], nodes[2]), summarize(nodes[1], nodes[0])
        before = run_of(nodes[4], status="skipped")
        opened = datetime(2026, 11, 3, 8, 0, 0, tzinfo=UTC)
        run = succeeded(
            nodes[4],
            17,
            96_210,
            41_208,
            anchor=nodes[3],
            cutoff=nodes[2],
            base=base,
            summary=summary,
            previous_run=before,
            skip_reason="base_changed",
            error_code=ErrorCode.TIMEOUT,
            error_detail="no answer within 31 s",
            instructions="Keep the prices.",
            policy_line="Keep the names.",
            summarizer_model="quick-model",
            prompt_version="p-42",
            nonce="a1b2c3d4",
            settings={"MODE": "aggressive"},
            budget={"window": 128_111},
            shortened_inputs=[nodes[0].pk],
            request={"digest": "abc123"},
            reserved_tokens=8191,
            input_tokens=60_211,
            output_tokens=2_217,
            cached_tokens=11_003,
            cost="0.01480000",
            messages_compacted=113,
            retention_before=0.621,
            retention_after=0.944,
            attempts=3,
            erasures_seen=4321,
            task_id="task-77",
            created_at=opened,
            enqueued_at=opened + timedelta(seconds=1),
            started_at=opened + timedelta(seconds=61),
            finished_at=opened + timedelta(seconds=73.4),
            next_attempt_at=opened + timedelta(seconds=90),
            lease_expires_at=opened + timedelta(seconds=361),
        )
        after = run_of(nodes[4], previous_run=run)
        page = page_text(viewer, run)
        for shown in (
            *("Succeeded", "base changed", "timeout", "no answer within 31 s", "Threshold", "Auto compact", "17"),
            *(f"Message {nodes[4].pk}", f"Message {nodes[3].pk}", f"Message {nodes[2].pk}"),
            *(f"Summary {base.pk}", f"Summary {summary.pk}", f"Run {before.pk} → Run {run.pk} → Run {after.pk}"),
            *("96,210 → 41,208", "55,002 (57%)", "113", "62%", "94%", f"Inputs shown shortened: Message {nodes[0].pk}"),
            *("quick-model", "p-42", "Keep the prices.", "Keep the names.", "60,211", "2,217", "11,003", "0.0148"),
            *("12.4 s", "3 of 8 at most", "2026-11-03 08:00:00", "08:00:01", "08:01:01", "08:01:13", "08:01:30"),
            *("ran out at 2026-11-03 08:06:01", "task-77", "8191", "4321", "a1b2c3d4"),
            *("&quot;MODE&quot;: &quot;aggressive&quot;", "128111", "abc123"),
        ):
            assert shown in page, shown

    def test_no_column_of_a_run_is_forgotten(self):
        """Those that stand for themselves under another name are named here."""
        named = {
            "status": "outcome", "session": "in_session", "error_detail": "error_text", "skip_reason": "why",
            "error_code": "why", "tip": "tip_link", "anchor": "anchor_link", "cutoff": "cutoff_link",
            "base": "base_link", "summary": "summary_link", "previous_run": "runs_around",
            "instructions": "instructions_text", "policy_line": "policy_text", "summarizer_model": "summarizer",
            "settings": "settings_block", "budget": "budget_block", "request": "request_block",
            "shortened_inputs": "shortened", "input_tokens": "input_tokens_shown", "cost": "price",
            "output_tokens": "output_tokens_shown", "cached_tokens": "cached_tokens_shown",
            "tokens_before": "tokens", "tokens_after": "tokens", "retention_before": "retained_before",
            "retention_after": "retained_after", "attempts": "attempts_shown", "next_attempt_at": "next_attempt",
            "lease_expires_at": "lease", "enqueued_at": "enqueued", "started_at": "begun", "finished_at": "ended",
            "created_at": "opened",
        }  # fmt: skip
        shown = set()
        for _, group in run_fields.FIELDSETS:
            for row in group["fields"]:
                shown |= {row} if isinstance(row, str) else set(row)
        # The id is in the title; the claim's token is of no use to anybody but its holder.
        stored = {field.name for field in CompactionRun._meta.concrete_fields} - {"id", "claim_token"}
        assert {named.get(name, name) for name in stored} <= shown

    def test_how_long_it_waited_is_counted_to_its_first_attempt(self, viewer, tip):
        opened = timezone.now() - timedelta(hours=1)
        run = run_of(tip, created_at=opened, attempts=2, started_at=opened + timedelta(minutes=20))
        CompactionEvent.objects.create(
            session=tip.session, run=run, kind=EventKind.STARTED, created_at=opened + timedelta(seconds=5)
        )
        assert "Waited: 5.0 s" in page_text(viewer, run)

    def test_a_run_that_waits_says_for_how_long_and_for_whom(self, viewer, tip):
        late = run_of(tip, status="ready", created_at=timezone.now() - timedelta(hours=2), enqueued_at=timezone.now())
        assert "It has been due for 2 h 0 min, and no worker took it." in page_text(viewer, late)
        CompactionRun.objects.update(enqueued_at=None)
        assert "and no broker took it." in page_text(viewer, late)

    def test_a_run_that_is_put_off_says_until_when_and_what_the_attempt_before_met(self, viewer, tip):
        due = timezone.now() + timedelta(minutes=2)
        run = run_of(tip, status="ready", next_attempt_at=due, attempts=1, error_code="timeout")
        page = page_text(viewer, run)
        assert "It is tried again at" in page
        assert "The attempt before: timeout." in page

    def test_a_claim_that_died_is_told(self, viewer, tip):
        run = run_of(tip, status="running", lease_expires_at=timezone.now() - timedelta(hours=1))
        assert "Its worker is gone" in page_text(viewer, run)

    def test_a_cost_that_is_not_known_says_why(self, viewer, tip):
        assert "Not known: PRICES does not have the model" in page_text(viewer, run_of(tip, input_tokens=5))

    def test_every_status_has_its_words(self):
        assert set(run_fields._STATUS_WORDS) == set(RunStatus)

    def test_a_run_with_many_follow_ups_names_some_and_leads_to_the_rest(self, viewer, tip):
        run = run_of(tip)
        for _ in range(7):
            run_of(tip, previous_run=run)
        page = viewer.get(url("compactionrun_change", run.pk)).text
        assert "and more" in page
        assert f'href="{url("compactionrun_changelist", previous_run=run.pk)}"' in page


# -- constant work ------------------------------------------------------------------------------------------


def grow(tip, count):
    """``count`` more runs, of all statuses and over many days, with an event each."""
    first, now = CompactionRun.objects.count(), timezone.now()
    statuses = ("succeeded", "failed", "skipped", "failed")
    runs = CompactionRun.objects.bulk_create(
        CompactionRun(
            session_id=tip.session_id,
            tip=tip,
            trigger="threshold",
            status=statuses[n % 4],
            generation=first + n + 1,
            tokens_before=100,
            tokens_after=50,
            created_at=now - timedelta(hours=n),
            finished_at=now - timedelta(hours=n),
        )
        for n in range(count)
    )
    CompactionEvent.objects.bulk_create(
        CompactionEvent(session_id=tip.session_id, run=run, message=tip, kind="completed", created_at=run.created_at)
        for run in runs
    )


@pytest.mark.parametrize(
    ("page", "query", "most"),
    [
        ("compactionrun", {}, 12),
        ("compactionrun", {"status__exact": "failed"}, 11),
        ("compactionrun", {"date": "year"}, 12),
        ("compactionrun", {"date": "year", "error_code": "timeout"}, 11),
        ("compactionevent", {}, 7),
        ("compactionevent", {"kind__exact": "completed", "date": "year"}, 8),
    ],
)
def test_a_list_takes_the_same_queries_at_ten_rows_and_at_a_thousand(viewer, tip, page, query, most):
    query = query | ({"date": f"{timezone.now():%Y}"} if "date" in query else {})
    grow(tip, 10)
    few = queries_of(viewer, url(f"{page}_changelist", **query))
    grow(tip, 990)
    many = queries_of(viewer, url(f"{page}_changelist", **query))
    assert len(few) == len(many) <= most, many


def test_the_pages_of_a_run_and_an_event_take_the_same_queries_at_ten_rows_and_at_a_thousand(viewer, tip):
    grow(tip, 10)
    waiting = run_of(tip, status="ready", anchor=tip)
    pages = [url("compactionrun_change", run.pk) for run in (CompactionRun.objects.first(), waiting)]
    pages.append(url("compactionevent_change", CompactionEvent.objects.first().pk))
    few = [len(queries_of(viewer, page)) for page in pages]
    grow(tip, 990)
    assert [len(queries_of(viewer, page)) for page in pages] == few
    assert few[0] <= 8
    assert few[1] <= 11


def test_no_list_computes_a_day_of_a_row(viewer, tip):
    """That is what makes Django's own date hierarchy read every row."""
    grow(tip, 10)
    for page in ("compactionrun", "compactionevent"):
        for query in queries_of(viewer, url(f"{page}_changelist", date=f"{timezone.now():%Y}")):
            assert "trunc" not in query.lower(), query
            assert "extract" not in query.lower(), query
