"""What the tests of compactions look at, and how they get in between."""

from compaction_app.models import CompactionEvent
from tests.fake_summarizer import FakeSummarizer


def kinds(session):
    return list(CompactionEvent.objects.filter(session=session).order_by("id").values_list("kind", flat=True))


def suppressed(**where):
    """What the events say of compactions that were held back."""
    events = CompactionEvent.objects.filter(kind="suppressed", **where).order_by("id")
    return list(events.values_list("payload", flat=True))


class Interfering(FakeSummarizer):
    """Does something else while the model is being called."""

    action = None

    def summarize(self, request):
        action, type(self).action = type(self).action, None
        if action:
            action()
        return super().summarize(request)
