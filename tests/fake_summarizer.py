"""A summarizer for tests: no network, no model, and the same draft every time."""

import time
from typing import Any, ClassVar

from compaction_app.conf import Settings
from compaction_app.messages.transcript import neutralize_tags
from compaction_app.summarizers import Summarizer
from compaction_app.values import SummaryDraft, SummaryRequest


class FakeSummarizer(Summarizer):
    """``SUMMARIZERS = {"default": {"BACKEND": "tests.fake_summarizer.FakeSummarizer"}}``.

    The app makes a new instance for each run, so its behavior is set on the class: use ``monkeypatch.setattr``, or call
    :meth:`reset` afterwards. That does not reach another process, such as a Celery worker: give that
    the address of a :class:`compaction_app.testing.server.ScriptedOpenAIServer`.
    """

    #: The draft's text. None: a short recap with the number of covered messages and their first words.
    text: ClassVar[str | None] = None
    #: Raised instead of returning a draft.
    error: ClassVar[Exception | None] = None
    #: In seconds, before the draft is returned.
    delay: ClassVar[float] = 0.0
    #: It needs no room.
    smallest_target = 1
    #: The requests to all instances, oldest first.
    requests: ClassVar[list[SummaryRequest]] = []

    def __init__(self, settings: Settings | None = None, **options: Any) -> None:
        super().__init__(settings or Settings(), **options)

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.requests.append(request)
        time.sleep(self.delay)
        if self.error is not None:
            raise self.error
        return SummaryDraft(text=self._write(request), finish_reason="stop", model="fake")

    def _write(self, request: SummaryRequest) -> str:
        if self.text is not None:
            return self.text
        words = " ".join(message.content for message in request.covered[:20]).split()[:8]
        before = "The previous summary is carried on. " if request.previous_summary else ""
        return (
            f"## Recap\n\n{before}{len(request.covered)} messages, beginning with: {neutralize_tags(' '.join(words))}"
        )

    @classmethod
    def reset(cls) -> None:
        cls.text = None
        cls.error = None
        cls.delay = 0.0
        cls.requests.clear()
