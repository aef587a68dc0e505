"""An edit anywhere in a compacted chat: what the model still sees of what was summarized."""

import re
import sys
from typing import NamedTuple

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.summarizers import Summarizer
from compaction_app.values import SummaryDraft, SummaryRequest
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

#: How many messages before the tip the edited one stands; 44 places between 1 and 60.
BACK = (*range(1, 35), *range(36, 56, 2), 60)
MESSAGES = 121
_NAME = re.compile(r"Zq\d+x")


class Forgetful(Summarizer):
    """A model that tells next to nothing of what was said, beside its ledger."""

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return SummaryDraft(text="## Guests\n\nYou and the user spoke of a guest at berth 0, Zq0x.", model="forgetful")


def compacted_chat(window: int, *, at_once: bool) -> list[ChatMessage]:
    """A chat of several windows, compacted whenever it was over its threshold, or once at its end, as an import is."""
    session, tip = chat.start_session(settings={"CONTEXT_WINDOW": window}), None
    filler = "and the rope is as long as ever " * (window // 350)
    for number in range(MESSAGES):
        text = f"Guest Zq{number}x of Oslo has berth {number}. {filler}"
        tip = chat.append_message(session, tip, role=("user", "assistant")[number % 2], content=text)
        is_turns_end = not at_once and number % 2 == 1
        if number == MESSAGES - 1 or (is_turns_end and chat.should_compact(tip)):
            chat.compact(tip)
    assert tip is not None
    assert tip.path_tokens > 2 * window
    assert (session.runs.filter(status="succeeded").count() > 3) is not at_once
    return chat.get_branch(tip)


class Row(NamedTuple):
    """What is shown at a fork."""

    back: int
    strategy: str
    left_out: int
    #: Names of messages that are not shown verbatim, and how many of them are told.
    gone: int
    told: int


def row_of(path: list[ChatMessage], back: int) -> Row:
    at = len(path) - 1 - back
    fork = chat.append_message(path[0].session, path[at - 1], role=path[at].role, content="Once more.")
    context = chat.get_context(fork)
    shown = {message.message_id for message in context.messages}
    gone = {name for one in path[:at] if one.pk not in shown for name in _NAME.findall(one.content)}
    told = gone & {name for message in context.messages for name in _NAME.findall(message.content)}
    return Row(back, str(context.strategy), context.dropped, len(gone), len(told))


@pytest.mark.parametrize("window", [4_000, pytest.param(32_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("summarizer", ["forgetful", "extractive"])
@pytest.mark.parametrize(
    "at_once", [pytest.param(False, marks=pytest.mark.long), True], ids=["turn by turn", "at once"]
)
def test_an_edit_below_a_cutoff_leaves_nothing_out_and_keeps_what_was_summarized(settings, window, summarizer, at_once):
    settings.COMPACTION = {
        "COOLDOWN_SECONDS": 0,
        "SUMMARIZER": summarizer,
        "SUMMARIZERS": {"forgetful": {"BACKEND": "tests.compaction.test_forks.Forgetful"}},
    }
    path = compacted_chat(window, at_once=at_once)
    summary = chat.find_summary(path[-1])
    assert summary is not None
    assert summary.last_summarized_message is not None
    table = [row_of(path, back) for back in BACK]
    # Above the only cutoff there is nothing to borrow; an earlier generation's may stand there.
    below = [row for row in table if not at_once or len(path) - 1 - row.back >= summary.last_summarized_message.depth]
    for row in below:
        assert row.left_out == 0
        assert row.strategy in ("auto_compact", "shared_extract")
        assert row.told >= 15
    assert all(row.strategy == "truncated" for row in table if row not in below)
    borrowed = [row for row in below if row.strategy == "shared_extract"]
    assert bool(borrowed) is (at_once and summarizer == "forgetful")
    assert not borrowed or len(borrowed) >= len(below) - 2
    sys.stdout.write("\n".join(["", f"{window} {summarizer} at_once={at_once}", *map(str, table), ""]))


def test_without_a_lookahead_the_anchor_is_the_cutoff(settings, branch):
    """So every fork below shares the summary."""
    settings.COMPACTION = small(SUMMARIZER="extractive")
    summary = chat.compact(branch[-1]).summary
    assert summary.parent_message_id == summary.last_summarized_message_id
    assert (summary.extract, summary.ledger) == (summary.content, "")
