"""The days and dates of a summary are those of ``TIME_ZONE``, on both databases and whatever zone is active."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.models import CompactionRun
from compaction_app.transfer.rebuild import rebuild, succeeded_runs
from tests.some import some

pytestmark = pytest.mark.django_db(transaction=True)

AUCKLAND = ZoneInfo("Pacific/Auckland")


def talk(session):
    """In the morning of the 31st in Auckland, which is the 30th in UTC."""
    tip = None
    for n in range(14):
        said = "Yesterday I paid Lena Ortiz 4,300 EUR." if n == 2 else f"Question {n} " + "apples and pears " * 60
        for role, content in (("user", said), ("assistant", f"Answer {n}.")):
            moment = datetime(2026, 3, 31, 9, n, tzinfo=AUCKLAND)
            tip = chat.append_message(session, tip, role=role, content=content, created_at=moment)
    return tip


#: The zone that is active, that of the project, the app's own, the session's; and the day.
ZONES = {
    "the project's": (None, "Pacific/Auckland", None, None, "2026-03-31"),
    "whatever is active": ("America/Los_Angeles", "Pacific/Auckland", None, None, "2026-03-31"),
    "UTC": (None, "UTC", None, None, "2026-03-30"),
    "the app's own": ("America/Los_Angeles", "UTC", "Pacific/Auckland", None, "2026-03-31"),
    "the session's": (None, "Asia/Tokyo", "UTC", "Pacific/Auckland", "2026-03-31"),
}


@pytest.mark.parametrize("which", some(ZONES, "whatever is active", "the session's"))
def test_headings_and_days_of_relative_dates_are_those_of_the_time_zone(settings, which):
    active, zone, own, of_session, day = ZONES[which]
    settings.TIME_ZONE = zone
    settings.COMPACTION = {"MODE": "deterministic", "CONTEXT_WINDOW": 3000, "COOLDOWN_SECONDS": 0, "TIME_ZONE": own}
    tip = talk(chat.start_session(model="gpt-4o-mini", settings={"TIME_ZONE": of_session} if of_session else None))
    with timezone.override(active):
        text = chat.compact(tip).summary.content
    assert next(line for line in text.splitlines() if line.startswith("### ")) == f"### {day}"
    assert f"Yesterday [said {day}] I paid Lena Ortiz 4,300 EUR" in text


@pytest.mark.parametrize(
    ("own", "time"), [(None, "Mon 2026-03-30 20:02 UTC"), ("Pacific/Auckland", "Tue 2026-03-31 09:02")]
)
def test_a_model_reads_local_days_and_is_told_of_utc(settings, server, monkeypatch, own, time):
    """MemTensor/MemOS#2369: UTC was taken for the local time, eight hours off. The bundle has the same prompt."""
    settings.TIME_ZONE = "UTC"
    settings.COMPACTION = {"CONTEXT_WINDOW": 3000, "COOLDOWN_SECONDS": 0, "TIME_ZONE": own}
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    run = chat.compact(talk(chat.start_session()))
    assert f'<user time="{time}">Yesterday I paid' in server.requests[0]["messages"][1]["content"]
    rebuilt = rebuild(succeeded_runs(CompactionRun.objects.all()).get(pk=run.pk))
    assert [rebuilt.request.system, rebuilt.request.user] == [m["content"] for m in server.requests[0]["messages"]]


@pytest.mark.parametrize("active", [None, "America/Los_Angeles"])
@pytest.mark.filterwarnings("error")
def test_a_moment_without_a_zone_is_in_that_of_the_project(settings, active):
    settings.TIME_ZONE = "Pacific/Auckland"
    session = chat.start_session()
    naive = datetime(2026, 3, 31, 9)  # noqa: DTZ001
    with timezone.override(active):
        one = chat.append_message(session, role="user", content="Hello", created_at=naive)
        other = chat.append_messages(session, None, [{"role": "user", "content": "Hi", "created_at": naive}])[-1]
    for stored in (one, other):
        assert stored.created_at == datetime(2026, 3, 31, 9, tzinfo=AUCKLAND)
        stored.refresh_from_db()
        assert stored.created_at == datetime(2026, 3, 31, 9, tzinfo=AUCKLAND)
