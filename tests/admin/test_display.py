"""Values as people read them: times in one form, numbers with commas, codes as words, long names shortened."""

import re
from datetime import UTC, datetime

import pytest
from django.utils import translation
from django.utils.timezone import override

from compaction_app.admin import display
from tests.admin.pages import MODELS, page_of, url
from tests.admin.records import compacted

WHEN = datetime(2026, 11, 22, 9, 2, 20, tzinfo=UTC)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("language", "zone", "iso", "shown", "number"),
    [
        ("en", "Asia/Tokyo", "2026-11-22T18:02:20+09:00", "Nov. 22, 2026, 18:02:20 JST", "12,345"),
        ("de", "Europe/Berlin", "2026-11-22T10:02:20+01:00", "22.11.2026, 10:02:20 CET", "12.345"),
    ],
)
def test_times_and_numbers_are_written_as_the_language_does_and_times_name_the_zone(language, zone, iso, shown, number):
    with translation.override(language), override(zone):
        assert display.moment(WHEN) == f'<time datetime="{iso}">{shown}</time>'
        assert display.number(12345) == number
    assert display.moment(None) == display.EMPTY


@pytest.mark.pure
def test_what_an_event_carries_is_told_in_words_and_with_commas():
    carried = {"tokens_before": 15162, "retention_after": 0.944, "reason": "cool_down", "declared": True, "models": []}
    told = ["declared yes", "models none", "reason cool down", "retention after 94%", "tokens before 15,162"]
    assert display.figures(carried).split(" · ") == told


@pytest.mark.django_db
@pytest.mark.usefixtures("window_of_4000")
def test_no_page_shows_a_time_in_another_form(viewer):
    session, nodes, summary, run, event = compacted()
    year = f"{run.created_at:%Y}-"
    pages = [page_of(one) for one in (session, nodes[-1], summary, run, event)]
    pages += [url(f"{name}_changelist") for name in MODELS]
    for page in pages:
        text = viewer.get(page).text
        assert f'<time datetime="{year}' in text, page
        assert year not in re.sub(r'(datetime|href)="[^"]*"', "", text), page
