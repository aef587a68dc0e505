"""A summarizer that hangs where the conversation says so, for worker processes."""

import time
from typing import Any

from compaction_app.values import SummaryDraft, SummaryRequest
from tests.fake_summarizer import FakeSummarizer

WORD = "quicksand"


class HangingSummarizer(FakeSummarizer):
    def summarize(self, request: SummaryRequest) -> Any:
        if WORD not in request.user:
            return SummaryDraft(text="## Recap\n\nAll of it is on the board, and nothing is open.", model="fake")
        while True:
            time.sleep(1)
