"""A summarizer for the tests of apps that use this one: no network, no model, the same draft every time."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any, ClassVar

from compaction_app.messages.transcript import neutralize_tags
from compaction_app.testing.steps import text_of_tokens
from compaction_app.values import SummaryDraft, SummaryRequest


class FakeSummarizer:
    """``SUMMARIZER = "compaction_app.testing.summarizers.FakeSummarizer"``.

    The app makes a new instance for each run, so what steers it stands on the class. Set it with
    ``monkeypatch.setattr`` or call :meth:`reset` afterwards. Another process (a Celery worker) has a class of
    its own: there use ``compaction_app.testing.server``.
    """

    #: The draft's text. None: a short recap that names how many messages were covered and quotes their first
    #: words.
    text: ClassVar[str | None] = None
    #: Instead of the recap, fill this share of the target: 1.0 fills it, 2.0 is refused as too long.
    fill: ClassVar[float | None] = None
    #: Raised instead of answering.
    error: ClassVar[Exception | None] = None
    #: Seconds before it answers.
    delay: ClassVar[float] = 0.0
    finish_reason: ClassVar[str] = "stop"
    #: What it was asked, by all instances, oldest first.
    requests: ClassVar[list[SummaryRequest]] = []

    max_input_tokens: int | None = None

    _lock: ClassVar[Lock] = Lock()
    _quoted_words = 8

    def __init__(self, settings: Any = None) -> None:
        self.settings = settings

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        with self._lock:
            self.requests.append(request)
        time.sleep(self.delay)
        if self.error is not None:
            raise self.error
        return SummaryDraft(text=self._write(request), finish_reason=self.finish_reason, model="fake")

    def _write(self, request: SummaryRequest) -> str:
        if self.text is not None:
            return self.text
        if self.fill is not None:
            return text_of_tokens(int(request.target_tokens * self.fill))
        words = " ".join(message.content for message in request.covered[:20]).split()[: self._quoted_words]
        before = "The previous summary is carried on. " if request.previous_summary else ""
        return (
            f"## Recap\n\n{before}{len(request.covered)} messages, beginning with: {neutralize_tags(' '.join(words))}"
        )

    @classmethod
    def reset(cls) -> None:
        cls.text = None
        cls.fill = None
        cls.error = None
        cls.delay = 0.0
        cls.finish_reason = "stop"
        with cls._lock:
            cls.requests.clear()
