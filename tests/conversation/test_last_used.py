"""``updated_at`` of a session is when its newest message or summary was stored: lists are sorted by it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.compaction.leases import Claim
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatSession
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)


def fail(tip):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeSummarizer, "error", RuntimeError())
        with pytest.raises(CompactionFailed):
            chat.compact(tip, instructions="Keep it.")


def claim(tip):
    claim = Claim(tip)
    claim.take(regenerate=True)
    claim.release()


@pytest.mark.few
@pytest.mark.parametrize(
    ("write", "moves"),
    [
        (lambda tip: chat.append_message(tip.session, tip, role="user", content="x"), True),
        (lambda tip: chat.append_message(tip.session, role="user", content="x"), True),
        (lambda tip: chat.compact(tip, instructions="Keep it."), True),
        (chat.compact, False),
        (fail, False),
        (lambda tip: chat.request_compaction(tip, trigger="manual"), False),
        (lambda tip: chat.retire_summary(chat.find_summary(tip)), False),
        (chat.redact_message, False),
        (chat.delete_message, False),
        (lambda tip: chat.redact_text(tip.session, "word word"), False),
        (chat.pin_message, False),
        (chat.unpin_message, False),
        (lambda tip: chat.annotate_message(tip, rating="up"), False),
        (lambda tip: chat.recall(tip, "word"), False),
        (chat.copy_branch, False),
        (claim, False),
    ],
)
def test_only_a_message_or_a_summary_that_is_stored_moves_it(settings, write, moves):
    settings.COMPACTION = small(ENQUEUE="builtins.print")
    session = chat.start_session()
    tip = grow(session, None, "u a " * 10)[-1]
    chat.compact(tip)
    before = timezone.now() - timedelta(days=1)
    ChatSession.objects.update(updated_at=before)
    write(tip)
    assert (ChatSession.objects.get(pk=session.pk).updated_at > before) is moves
