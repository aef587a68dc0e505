"""Two hosts whose clocks differ: what one writes and the other compares goes by the clock of their database."""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.compaction.leases import Claim, is_under_way
from compaction_app.exceptions import ReplyUnderWay
from compaction_app.models import CompactionRun
from compaction_app.spending import find_overspending
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

AHEAD, BEHIND = timedelta(seconds=700), timedelta(seconds=-700)


@pytest.fixture(params=[AHEAD, BEHIND], ids=["ahead", "behind"])
def on_another_host(request, monkeypatch):
    own = timezone.now
    return lambda: monkeypatch.setattr(timezone, "now", lambda: own() + request.param)


def test_a_live_claim_of_a_reply_is_not_taken(branch, on_another_host) -> None:
    claim = Claim(branch[-1])
    assert claim.take(regenerate=True) is None
    on_another_host()
    assert is_under_way(branch[-1])
    with pytest.raises(ReplyUnderWay):
        Claim(branch[-1]).take(regenerate=True)
    tasks.recover_compactions()
    assert is_under_way(branch[-1])
    claim.release()


@pytest.mark.usefixtures("small_window")
def test_a_live_run_is_neither_taken_nor_swept(branch, on_another_host) -> None:
    run = chat.request_compaction(branch[-1])
    claimed = CompactionRun.objects.claim(run.pk)
    on_another_host()
    assert CompactionRun.objects.claim(run.pk) is None
    assert tasks.recover_compactions()["runs"] == 0
    claimed.release(delay_seconds=60)
    assert CompactionRun.objects.claim(run.pk) is None
    assert tasks.recover_compactions()["runs"] == 0


def test_a_limit_counts_what_was_used_in_its_time(branch, settings, on_another_host) -> None:
    settings.COMPACTION = small(SPENDING_LIMITS={"session": ["1 runs/h"]})
    on_another_host()
    chat.compact(branch[-1])
    used = find_overspending(branch[0].session)
    assert used is not None
    assert used["seconds"] in range(3_590, 3_601)
