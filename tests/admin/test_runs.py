"""The lists of runs and events: what no index knows, their filters, a fixed number of queries."""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app.admin import dates
from compaction_app.models import CompactionEvent, CompactionRun
from tests.admin.pages import listed, queries_of, runs_page, url
from tests.admin.records import NOON, grow, run_of

pytestmark = pytest.mark.django_db


class TestLookingThrough:
    @pytest.fixture(autouse=True)
    def ten(self, monkeypatch):
        monkeypatch.setattr(dates, "LOOKED_THROUGH", 10)

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
        assert "Only the newest 10 were searched" in page.text

    def test_a_date_leads_to_the_older_ones(self, viewer, tip, runs):
        older = run_of(tip, trigger="manual", created_at=NOON - timedelta(days=40))
        assert listed(viewer, "compactionrun", trigger__exact="manual", date="2026-09") == [older.pk]
        page = runs_page(viewer, trigger__exact="manual", date="2026-11-03")
        assert "Only the newest 10 of this date were searched" in page.text

    @pytest.mark.parametrize("query", [{}, {"date": "2026-11"}, {"q": "1"}, {"p": "1"}])
    def test_nothing_is_left_out_where_nothing_is_looked_for(self, viewer, runs, query):
        assert "were searched" not in runs_page(viewer, **query).text

    def test_runs_that_wait_are_found_however_old_they_are(self, viewer, runs):
        """They have an index of their own, and they are what one looks for when nothing moves."""
        assert listed(viewer, "compactionrun", status__exact="ready") == [runs.pk]

    def test_the_runs_of_one_session_are_looked_through_to_the_last(self, viewer, tip, runs):
        assert len(listed(viewer, "compactionrun", session=tip.session_id, trigger__exact="manual")) == 1

    def test_events_are_looked_through_alike(self, viewer, tip):
        CompactionEvent.objects.bulk_create(
            CompactionEvent(session_id=tip.session_id, kind="retired" if n == 0 else "started") for n in range(12)
        )
        page = viewer.get(url("compactionevent_changelist", kind__exact="retired"))
        assert page.context["cl"].result_count == 0
        assert "Only the newest 10 were searched" in page.text


def test_runs_are_filtered_by_the_models_that_made_them(viewer, tip, settings):
    settings.COMPACTION = {"SUMMARIZER_MODELS": ["never-asked"]}
    quick = run_of(tip, summarizer_model="quick")
    old = run_of(tip, summarizer_model="retired-model")
    assert listed(viewer, "compactionrun", model="quick") == [quick.pk]
    assert listed(viewer, "compactionrun", model="retired-model") == [old.pk]
    page = runs_page(viewer, model="retired-model").text
    for name, is_there in {"quick": True, "retired-model": True, "never-asked": False}.items():
        assert (f">{name}</a>" in page) == is_there, name


def test_the_filters_are_there_where_the_settings_are_wrong(viewer, tip, settings):
    settings.COMPACTION = {"SUMMARIZER_MODELS": 7}
    assert runs_page(viewer).status_code == 200


@pytest.mark.parametrize(("page", "said"), [("compactionrun", "No runs yet."), ("compactionevent", "No events yet.")])
def test_an_empty_list_says_what_will_stand_there(viewer, page, said):
    assert said in viewer.get(url(f"{page}_changelist")).text
    narrowed = viewer.get(url(f"{page}_changelist", date="2026")).text
    assert "Nothing matches." in narrowed
    assert "Show all" in narrowed


def test_the_pages_of_a_run_and_an_event_take_the_same_queries_at_10_rows_and_at_300(viewer, tip):
    grow(tip.session, tip, 10)
    waiting = run_of(tip, status="ready", anchor=tip)
    pages = [url("compactionrun_change", run.pk) for run in (CompactionRun.objects.first(), waiting)]
    pages.append(url("compactionevent_change", CompactionEvent.objects.first().pk))
    few = [len(queries_of(viewer, page)) for page in pages]
    grow(tip.session, tip, 290)
    assert [len(queries_of(viewer, page)) for page in pages] == few
    assert few[0] <= 8
    assert few[1] <= 11


def test_no_list_computes_a_day_of_a_row(viewer, tip):
    """That is what makes Django's own date hierarchy read every row."""
    grow(tip.session, tip, 10)
    for page in ("compactionrun", "compactionevent"):
        for query in queries_of(viewer, url(f"{page}_changelist", date=f"{timezone.now():%Y}")):
            assert "trunc" not in query.lower(), query
            assert "extract" not in query.lower(), query
