"""Copies of a branch: which columns are copied, that later changes stay apart, and the number of queries."""

import asyncio
from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage, InvalidParent, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, MessagePin
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.small import anchored_summary, tool_call, turns_with_results
from tests.trees import deep_chain, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]

#: What the host, the provider or this app noted of the first message, by its empty value.
LEFT = {
    "reasoning": None,
    "original": None,
    "usage": None,
    "metadata": {},
    "sent_context": None,
    "external_id": "",
    "idempotency_key": "",
}
#: Of the text of a summary here.
COUNTED = 58
GOES_ALONG = (
    "role content tool_calls tool_call_id name attachments depth token_count path_tokens model finish_reason"
    " redacted_at created_at"
).split()


SEEN = datetime(2020, 2, 2, tzinfo=UTC)


def delete_message(branch):
    chat.delete_message(branch[1])


def delete_session(branch):
    chat.delete_session(branch[0].session)


def delete_owner(branch):
    chat.delete_owner(branch[0].session.owner)


def user_delete(branch):
    branch[0].session.owner.delete()


def delete_in_sql(branch):
    """As a host does it that knows nothing of copies."""
    ChatSession.objects.update(copied_from=None)
    rows = ChatMessage.objects.filter(session=branch[0].session)
    rows._raw_delete(rows.db)


GOING = [delete_message, delete_session, delete_owner, user_delete, delete_in_sql]


def branch_of(session):
    """The messages of a session without a fork."""
    return list(session.messages.messages().order_by("depth"))


def shown(tip):
    """What a model is sent there, and in how many tokens."""
    context = chat.get_context(tip)
    return context.to_openai(), context.tokens, context.strategy, context.dropped


def assert_sound(*sessions):
    for session in sessions:
        assert verify_session(session).problems == []


def test_a_copy_has_the_branch_and_nothing_of_others(session):
    owner = get_user_model().objects.create_user("ann")
    session.model, session.system_prompt, session.settings = "gpt-4o", "You are brief.", {"COOLDOWN_SECONDS": 5}
    session.external_id, session.metadata, session.owner = "crm-7", {"team": "harbour"}, owner
    session.save()
    branch = chat.append_messages(session, None, turns_with_results("flood at noon", "ebb at six"))
    grow(session, branch[2], "a u a")
    told = {"role": "assistant", "content": "It ebbs."}
    original = {"format": "openai", "endpoint": "", "data": {**told, "odd": 1}}
    told |= {"reasoning": {"text": "think"}, "usage": {"prompt_tokens": 5}, "original": original}
    told |= {"metadata": {"rated": "up"}, "external_id": "m-1", "model": "gpt-4o-2024", "finish_reason": "stop"}
    seen = {"role": "user", "content": "See.", "name": "Ann", "created_at": SEEN}
    seen["attachments"] = [{"type": "file", "name": "tides.pdf"}]
    fork = chat.append_messages(session, branch[4], [told, seen])
    chat.append_message(session, fork[-1], role="user", content="later", idempotency_key="k-1")
    copy = chat.copy_branch(chat.newest_tip(fork[0]))
    source, copied = chat.get_branch(chat.newest_tip(fork[0])), branch_of(copy)
    assert len(copied) == len(source) == 8
    for first, one in zip(source, copied, strict=True):
        assert {name: getattr(one, name) for name in LEFT} == LEFT
        assert {name: getattr(one, name) for name in GOES_ALONG} == {name: getattr(first, name) for name in GOES_ALONG}
        assert one.sib_order == 1
    assert len({one.lane_id or one.pk for one in copied}) == 1, "one lane"
    assert copy.copied_from == source[-1]
    for name in ("title", "model", "system_prompt", "settings", "owner"):
        assert getattr(copy, name) == getattr(session, name)
    assert (copy.external_id, copy.metadata, copy.erasures) == ("", {}, 0)
    assert chat.copy_branch(branch[0], owner=(bob := get_user_model().objects.create_user("bob"))).owner == bob
    assert_sound(session, copy)


def test_what_an_original_counted_more_than_its_fields_is_not_counted(session):
    """Thinking in Anthropic's blocks is sent back to its provider; the copy has none."""
    blocks = [
        {"type": "thinking", "thinking": "so many words " * 30, "signature": "s"},
        {"type": "text", "text": "Yes."},
    ]
    grow(session, None, "u")
    tip = chat.tips(session)[0]
    original = {"format": "anthropic", "endpoint": "", "data": blocks}
    reply = chat.append_message(session, tip, role="assistant", original=original)
    tip = grow(session, reply, "u a")[-1]
    copy = chat.copy_branch(tip)
    tokens = [one.token_count for one in branch_of(copy)]
    assert reply.token_count > 90
    assert tokens == [100, 5, 100, 100]
    assert branch_of(copy)[-1].path_tokens == 305
    assert_sound(copy)


@pytest.mark.parametrize("at", ["anchor", "below it"])
def test_the_summary_that_applies_goes_along_with_its_places(session, at):
    branch = grow(session, None, "u a u c t a u a u a")
    grow(session, branch[1], "u a")
    pinned = anchored_summary(branch[5], branch[4], pinned=branch[2], extract="It was said.", tokens=COUNTED)
    anchored_summary(branch[8], branch[6], tokens=COUNTED)
    until = branch[5 if at == "anchor" else 7]
    copy = chat.copy_branch(branch[-1], until=until)
    messages, summary = branch_of(copy), copy.messages.get(kind="summary")
    assert len(messages) == until.depth
    assert (summary.parent, summary.last_summarized_message, summary.pinned_message) == (
        messages[5],
        messages[4],
        messages[2],
    )
    for name in ("content", "extract", "ledger", "is_extract", "token_count", "created_at", "path_tokens"):
        assert getattr(summary, name) == getattr(pinned, name)
    assert chat.find_summary(messages[-1]) == summary
    assert shown(messages[-1]) == shown(until)
    tip = chat.append_message(copy, messages[-1], role="user", content="and on")
    assert chat.find_summary(tip) == summary
    assert not CompactionRun.objects.filter(session=copy).exists()
    assert_sound(session, copy)


def test_until_is_on_the_branch(session):
    branch = grow(session, None, "u a u a")
    beside, other = grow(session, branch[1], "u")[0], grow(chat.start_session(), None, "u")[0]
    summary = anchored_summary(branch[1], branch[0])
    before = ChatSession.objects.count()
    for wrong in (beside, other, summary):
        with pytest.raises(
            InvalidMessage, match=f"until must be a message of the branch that ends at message {branch[3].pk}"
        ):
            chat.copy_branch(branch[3], until=wrong)
    with pytest.raises(InvalidMessage):
        chat.copy_branch(branch[2], until=branch[3])
    with pytest.raises(InvalidParent):
        chat.copy_branch(summary)
    chat.delete_message(branch[2])
    with pytest.raises(MessageNotFound):
        chat.copy_branch(branch[3])
    assert ChatSession.objects.count() == before


@pytest.mark.twice
@pytest.mark.parametrize("length", [10, 1_200])
def test_its_length_makes_no_difference_to_its_queries(length):
    nodes = deep_chain(chat.start_session(), length)
    anchored_summary(nodes[length // 2], nodes[length // 2 - 1])
    with CaptureQueriesContext(connection) as queries:
        copy = chat.copy_branch(nodes[-1])
    assert len([one for one in queries if "SAVEPOINT" not in one["sql"]]) == 9
    copied = branch_of(copy)
    assert len(copied) == length
    assert chat.copies_of(nodes[length // 3]) == [copied[length // 3]]


def test_pins_go_along(session):
    nodes = grow(session, None, "u a " * 4)
    for pinned in (nodes[0], nodes[2]):
        chat.pin_message(pinned)
    other = grow(session, nodes[1], "u")[0]
    chat.pin_message(other)
    copied = branch_of(chat.copy_branch(nodes[7], until=nodes[5]))
    pins = MessagePin.objects.filter(session=copied[0].session)
    assert set(pins.values_list("message", "lane", "depth", "tokens")) == {
        (copied[at].pk, copied[0].pk, at + 1, copied[at].token_count) for at in (0, 2)
    }


def test_what_a_search_quotes_is_erased_with_its_source_in_the_copy_too(session):
    """Its source is named by its place on the branch, which a copy keeps."""
    nodes = grow(session, None, "u a u a", word="rope")
    summarize(nodes[3], nodes[1])
    calls = [tool_call("c1", name="recall_earlier_messages", arguments='{"query": "rope"}')]
    reply = chat.append_message(session, nodes[3], role="assistant", tool_calls=calls)
    copied = branch_of(chat.copy_branch(chat.answer_recalls(reply)))
    assert "<recalled message=1 " in copied[-1].content
    chat.redact_message(copied[0])
    copied[-1].refresh_from_db()
    assert copied[-1].content == "[redacted]"


class TestCopiesOf:
    def test_copies_and_their_copies(self, session):
        branch = grow(session, None, "u a u a u")
        fork = grow(session, branch[1], "u a")
        first, second = chat.copy_branch(branch[-1]), chat.copy_branch(fork[0])
        inner = branch_of(first)
        own = grow(first, inner[1], "u")
        third, fourth = chat.copy_branch(own[0]), chat.copy_branch(inner[-1], until=inner[2])
        of = [inner, *map(branch_of, (second, third, fourth))]
        assert chat.copies_of(branch[1]) == [one[1] for one in of]
        assert chat.copies_of(branch[2]) == [of[0][2], of[3][2]]
        assert chat.copies_of(fork[0]) == [of[1][2]]
        assert chat.copies_of(own[0]) == [of[2][2]]
        assert chat.copies_of(branch[-1]) == [of[0][4]]
        assert chat.copies_of(fork[1]) == chat.copies_of(anchored_summary(branch[1], branch[0])) == []
        with CaptureQueriesContext(connection) as queries:
            chat.copies_of(branch[0])
        assert len(queries) == 1
        # Of a copy, the one that was copied, too.
        assert chat.copies_of(of[2][1]) == [branch[1], of[0][1], of[1][1], of[3][1]]

    def test_what_took_the_place_of_a_deleted_copy_is_none(self, session):
        """Of the same time, as a host gives it, and by the same role."""
        written = [{"role": role, "content": "told", "created_at": SEEN} for role in ("user", "assistant", "user")]
        branch = chat.append_messages(session, None, written)
        copied = branch_of(chat.copy_branch(branch[-1]))
        chat.delete_message(copied[1])
        chat.append_messages(copied[0].session, copied[0], written[1:])
        assert chat.copies_of(branch[0]) == [copied[0]]
        assert chat.copies_of(branch[1]) == chat.copies_of(branch[2]) == []

    @pytest.mark.twice
    def test_a_strangers_message_with_the_id_of_one_that_is_gone_is_none(self, session):
        """As ``loaddata`` brings it from another database. The copies still know each other."""
        branch = grow(session, None, "u a u a")
        copied = [branch_of(chat.copy_branch(branch[-1])) for _ in range(2)]
        chat.delete_session(session)
        stranger = get_user_model().objects.create_user("ann")
        other = chat.start_session(owner=stranger)
        at = ChatMessage(id=branch[0].pk, session=other, role="user", content="Mine.")
        ChatMessage.objects.add_root(instance=at)
        assert chat.copies_of(at) == []
        assert chat.copies_of(copied[0][0]) == [copied[1][0]]
        chat.redact_message(at, copies=lambda copy: True)
        chat.redact_message(copied[0][1], copies=lambda copy: True)
        assert [one.redacted_at is None for one in branch_of(copied[1][0].session)] == [True, False, True, True]
        assert chat.delete_owner(stranger) == []

    @pytest.mark.twice
    @pytest.mark.few
    @pytest.mark.parametrize("which", ["first", "middle"])
    @pytest.mark.parametrize("gone", GOING, ids=lambda way: way.__name__)
    def test_the_others_are_found_when_one_is_gone(self, session, gone, which):
        session.owner = get_user_model().objects.create_user("ann")
        session.save()
        chain = [grow(session, None, "u a u a")]
        for name in ("ben", "cid", "dan"):
            copy = chat.copy_branch(chain[-1][-1], owner=get_user_model().objects.create_user(name))
            chain.append(branch_of(copy))
        gone(chain.pop(0 if which == "first" else 1))
        for branch in chain:
            assert chat.copies_of(branch[1]) == [other[1] for other in chain if other is not branch]
        chat.redact_message(chain[1][1], copies=lambda copy: True)
        assert {one.content for branch in chain for one in branch_of(branch[0].session)[1:2]} == {"[redacted]"}


class TestRedactingCopies:
    def test_those_that_are_named_are_redacted_too(self, session):
        branch = grow(session, None, "u a u a")
        copies = [chat.copy_branch(branch[-1]) for _ in range(3)]
        anchored_summary(branch_of(copies[0])[2], branch_of(copies[0])[1], extract="quoted")
        first, second, third = chat.copies_of(branch[1])
        chat.redact_message(branch[1], replacement="[gone]", copies=[second, first])
        rows = ChatMessage.objects.in_bulk([branch[1].pk, first.pk, second.pk, third.pk])
        assert [rows[one.pk].content for one in (branch[1], first, second)] == ["[gone]"] * 3
        assert rows[third.pk].content == branch[1].content
        summary = copies[0].messages.get(kind="summary")
        assert (summary.content, summary.extract, summary.retired_at is None) == ("", "", False)
        copies[0].refresh_from_db()
        assert copies[0].erasures == 1
        assert_sound(session, *copies)

    def test_all_or_none(self, session):
        branch = grow(session, None, "u a u a")
        copied = branch_of(chat.copy_branch(branch[-1]))
        with pytest.raises(InvalidMessage, match=f"Message {copied[2].pk} is not a copy of message {branch[1].pk}"):
            chat.redact_message(branch[1], copies=[copied[1], copied[2]])
        assert not ChatMessage.objects.exclude(redacted_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_the_async_twins_do_the_same(session):
    branch = grow(session, None, "u a u a")

    async def copied():
        copy = await chat.acopy_branch(branch[3], until=branch[1])
        return copy, await chat.acopies_of(branch[0])

    copy, copies = asyncio.run(copied())
    assert [one.session for one in copies] == [copy]
    assert len(branch_of(copy)) == 2
