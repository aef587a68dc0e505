"""The operations of a session of the Agents SDK."""

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from compaction_app import chat
from tests.plugin import NO_FRAMEWORKS

pytest.importorskip("agents", reason=NO_FRAMEWORKS)
pytestmark = pytest.mark.django_db(transaction=True)

from compaction_app.contrib.openai_agents import TreeSession  # noqa: E402

QUESTION = {"role": "user", "content": "q"}
CALLS = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in (1, 2)]
RESULTS = [{"type": "function_call_output", "call_id": f"c{n}", "output": str(n)} for n in (1, 2)]


@pytest.fixture
def kept(session):
    return TreeSession(session, None)


def added(kept, *items):
    async_to_sync(kept.add_items)(list(items))


def items(kept, limit=None):
    return async_to_sync(kept.get_items)(limit)


def test_calls_that_are_added_one_by_one(kept):
    for item in (QUESTION, *CALLS, *RESULTS):
        added(kept, item)
    assert items(kept) == [QUESTION, *CALLS, *RESULTS]
    sent = chat.get_context(kept.tip).to_openai()
    assert [len(one.get("tool_calls", ())) for one in sent] == [0, 2, 0, 0]


def test_an_item_is_popped(kept, session):
    added(kept, QUESTION, *CALLS)
    assert async_to_sync(kept.pop_item)() == CALLS[1]
    added(kept, RESULTS[0])
    assert items(kept) == [QUESTION, CALLS[0], RESULTS[0]]
    assert session.messages.count() == 3
    for _ in range(4):
        popped = async_to_sync(kept.pop_item)()
    assert (popped, kept.tip, session.messages.count()) == (None, None, 0)


def test_what_was_erased_meanwhile_is_not_stored_again(kept, session, monkeypatch):
    added(kept, QUESTION, {**CALLS[0], "arguments": '{"of": "zanzibar"}'}, CALLS[1])
    own = transaction.Atomic.__enter__

    def begin(atomic):
        if not erased and not connection.in_atomic_block:
            erased.append(None)
            erased.append(chat.redact_message(kept.tip))
        return own(atomic)

    erased = []
    monkeypatch.setattr(transaction.Atomic, "__enter__", begin)
    async_to_sync(kept.pop_item)()
    assert erased
    assert "zanzibar" not in str(list(session.messages.values()))


def test_nothing_is_taken_from_another_branch(kept, session):
    added(kept, QUESTION, {"role": "assistant", "content": "a"})
    other = TreeSession(session, kept.tip)
    added(other, {"role": "user", "content": "other"})
    async_to_sync(kept.pop_item)()
    assert len(items(kept)) == 1
    added(kept, {"role": "user", "content": "mine"}, {"role": "assistant", "content": "own"})
    async_to_sync(kept.clear_session)()
    assert (items(kept), kept.tip) == ([], None)
    assert [one["content"] for one in items(other)] == ["q", "a", "other"]
    assert session.messages.count() == 3
    async_to_sync(other.clear_session)()
    assert session.messages.count() == 0


def test_a_compaction_may_be_waited_for(kept, session):
    session.settings = {"CONTEXT_WINDOW": 16_000, "SUMMARIZER": "extractive"}
    session.save()
    told = [{"role": "user", "content": f"The Ada lies at berth {number}. " * 50} for number in range(18)]
    added(kept, *told)
    async_to_sync(kept.run_compaction)({"force": True})
    shown = items(kept)
    assert "<conversation-summary>" in shown[0]["content"]
    assert len(shown) < len(told)
