"""A question has one reply under way, whoever else asks; what is stored is not bought again."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.compaction import leases
from compaction_app.exceptions import InvalidMessage, MessageNotFound, ReplyNotStored, ReplyUnderWay, TooManyReplies
from compaction_app.models import ChatMessage, ChatSession, ReplyClaim
from compaction_app.models.runs import LEASE_SECONDS
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from tests.builders import grow
from tests.conversation.asking import EACH, aclient_of, client_of, closing, completed
from tests.databases import failing
from tests.steps import late, stream_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


def while_answering(then: Callable[[], Any], step: Step) -> tuple[Step, list[Any]]:
    """A step that calls ``then`` before it answers, and what that returned or raised."""
    outcomes: list[Any] = []

    def answer(exchange: Exchange) -> None:
        try:
            outcomes.append(closing(then)())
        except Exception as error:
            outcomes.append(error)
        step(exchange)

    return answer, outcomes


@EACH
class TestOneUnderWay:
    def test_the_second_caller_is_told(self, tip, server, ask):
        second, outcomes = while_answering(lambda: completed(tip, server), steps.reply("Aye."))
        server.script([second])
        reply = ask(tip, server)
        [error] = outcomes
        assert isinstance(error, ReplyUnderWay)
        assert (error.code, error.message_id) == ("reply_under_way", tip.pk)
        assert timedelta(seconds=30) < error.expires_at - timezone.now() <= timedelta(seconds=LEASE_SECONDS)
        assert (reply.content, len(server.requests)) == ("Aye.", 1)
        assert not ReplyClaim.objects.exists()

    def test_who_comes_later_gets_the_stored_reply(self, tip, server, ask):
        first = completed(tip, server)
        changed_at = ChatSession.objects.get().updated_at
        assert ask(tip, server) == first
        assert ChatSession.objects.get().updated_at == changed_at
        assert len(server.requests) == 1
        assert not ReplyClaim.objects.exists()

    def test_regenerate_makes_another_one_and_one_at_a_time(self, tip, server, ask):
        first = completed(tip, server)
        second, outcomes = while_answering(lambda: completed(tip, server, regenerate=True), steps.reply("Nay."))
        server.script([second])
        another = ask(tip, server, regenerate=True)
        assert [type(error) for error in outcomes] == [ReplyUnderWay]
        assert chat.variants(first) == [first, another]
        # The newest is the reply now.
        assert ask(tip, server) == another
        assert len(server.requests) == 2

    def test_a_lease_that_ended_is_taken_over(self, tip, server, ask):
        """Its process was killed."""
        now = timezone.now()
        ReplyClaim.objects.create(message=tip, token=uuid.uuid4(), lease_expires_at=now + timedelta(seconds=5))
        with pytest.raises(ReplyUnderWay):
            ask(tip, server)
        ReplyClaim.objects.update(lease_expires_at=now)
        assert ask(tip, server).content == "Aye."
        assert not ReplyClaim.objects.exists()

    def test_an_error_leaves_no_claim(self, tip, server, ask):
        server.script([steps.server_error()])
        with pytest.raises(openai.InternalServerError):
            ask(tip, server)
        with pytest.raises(InvalidMessage):
            ask(tip, server, messages=[])
        assert not ReplyClaim.objects.exists()
        assert ask(tip, server).content == "Aye."

    def test_a_tip_that_is_deleted_meanwhile_takes_its_claim_with_it(self, tip, server, ask):
        deletes, outcomes = while_answering(
            lambda: (ReplyClaim.objects.count(), chat.delete_message(tip)), steps.reply("Aye.")
        )
        server.script([deletes])
        with pytest.raises(MessageNotFound) as caught:
            ask(tip, server)
        assert caught.value.reply["content"] == "Aye."
        assert outcomes == [(1, 1)]
        with pytest.raises(MessageNotFound):
            ask(tip, server)
        assert not ReplyClaim.objects.exists()


class TestWhatIsAReply:
    def test_what_a_host_appended_does_not_count(self, session, tip, server):
        by_hand = chat.append_message(session, tip, role="assistant", content="By hand")
        reply = completed(tip, server)
        assert chat.variants(reply) == [by_hand, reply]

    def test_a_reply_with_calls_streams_them_again(self, tip, server):
        server.script([steps.tool_call("look", '{"at": "the tide"}')])
        stored = completed(tip, server)
        with chat.stream(tip, client=client_of(server)) as stream:
            first, last = stream
        [call] = first.choices[0].delta.tool_calls
        assert (call.index, call.id, call.function.name) == (0, stored.tool_calls[0]["id"], "look")
        assert (call.function.arguments, last.choices[0].finish_reason) == ('{"at": "the tide"}', "tool_calls")
        assert (stream.context, stream.fallback_used) == (None, False)


class TestStreams:
    def test_one_that_is_read_by_nobody_has_the_claim_until_it_is_closed(self, tip, server):
        server.script([stream_of("Aye", ", aye")])
        stream = chat.stream(tip, client=client_of(server))
        with pytest.raises(ReplyUnderWay):
            completed(tip, server)
        assert leases.is_under_way(tip)
        stream.close()
        stream.close()
        assert not leases.is_under_way(tip)
        assert not ReplyClaim.objects.exists()

    def test_one_that_is_dropped_frees_the_question_a_moment_later(self, tip, server):
        """``__del__`` may run inside a query of another thread, so it does no database work itself."""
        server.script([stream_of("Aye", ", aye", then=steps.hang())])
        client = client_of(server)
        with CaptureQueriesContext(connection) as queries:
            stream = chat.stream(tip, client=client, on_stop="keep")
            next(stream)
            asked = len(queries)
            del stream
            assert len(queries) == asked
        server.wait_for_disconnects(1)
        assert ChatMessage.objects.count() == 1
        deadline = time.monotonic() + 5
        while ReplyClaim.objects.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert completed(tip, server).content == "Aye."

    def test_cancelled_before_it_is_open(self, tip, server):
        async def cancel() -> None:
            async with aclient_of(server) as client:
                for opening in (chat.acomplete(tip, client=client), chat.astream(tip, client=client)):

                    async def wait(opening: Any = opening) -> None:
                        await opening

                    task = asyncio.create_task(wait())
                    await asyncio.sleep(0.3)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task

        server.script([steps.hang(5), steps.hang(5)])
        async_to_sync(cancel)()
        assert not ReplyClaim.objects.exists()


def test_a_lease_is_renewed_while_a_model_answers(tip, server, monkeypatch):
    # Every tenth of a second.
    monkeypatch.setattr(leases, "_RENEWALS", 10 * LEASE_SECONDS)

    def ask_once_it_is_renewed() -> None:
        began, give_up = ReplyClaim.objects.get().lease_expires_at, time.monotonic() + 20
        while ReplyClaim.objects.get().lease_expires_at == began:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        completed(tip, server)

    answer, outcomes = while_answering(ask_once_it_is_renewed, steps.reply("Aye."))
    server.script([answer])
    assert completed(tip, server).content == "Aye."
    assert [type(error) for error in outcomes] == [ReplyUnderWay]
    assert not ReplyClaim.objects.exists()


@contextmanager
def held_claim(tip: ChatMessage) -> Iterator[leases.Claim]:
    held = leases.Claim(tip)
    try:
        yield held
    finally:
        held.release()


def test_what_killed_processes_left_does_not_pile_up(session):
    old, kept = grow(session, None, "u u")
    for message, hours in ((old, 25), (kept, 0)):
        ends = timezone.now() - timedelta(hours=hours)
        ReplyClaim.objects.create(message=message, token=uuid.uuid4(), lease_expires_at=ends)
    tasks.recover_compactions()
    assert ReplyClaim.objects.get().message_id == kept.pk


def test_one_that_is_deleted_while_it_is_taken_over(tip, monkeypatch):
    """By its holder, who ends at last, or by the sweep: "Forced update did not affect any rows"."""
    ends = timezone.now() - timedelta(hours=2)
    ReplyClaim.objects.create(message=tip, token=uuid.uuid4(), lease_expires_at=ends)

    def delete(execute: Any, sql: str, *arguments: Any) -> Any:
        if sql.startswith("UPDATE") and "replyclaim" in sql:
            ReplyClaim.objects.filter(lease_expires_at=ends).delete()
        return execute(sql, *arguments)

    with held_claim(tip) as held, connection.execute_wrapper(delete):
        assert held.take(regenerate=False) is None
        assert leases.is_under_way(tip)


def test_many_at_once_buy_one(tip, server):
    """``complete(q)`` three times at once bought three replies."""
    server.script([late(0.5, steps.reply("Aye."))])

    def ask() -> Any:
        try:
            return completed(tip, server).pk
        except ReplyUnderWay:
            return None

    with ThreadPoolExecutor(4) as pool:
        outcomes = [future.result() for future in [pool.submit(closing(ask)) for _ in range(4)]]
    assert len(server.requests) == 1
    assert {pk for pk in outcomes if pk} == {ChatMessage.objects.get(role="assistant").pk}


@pytest.mark.twice
@EACH
def test_a_database_that_is_away_when_the_reply_comes_loses_neither_it_nor_the_question(tip, server, ask):
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    is_away = []

    def answer(exchange: Exchange) -> None:
        is_away.append(True)
        steps.reply("Aye.", usage=usage)(exchange)

    server.script([answer])
    with failing(lambda _: bool(is_away)), pytest.raises(ReplyNotStored) as caught:
        ask(tip, server)
    came = caught.value.reply
    assert (came["content"], came["usage"]["prompt_tokens"], caught.value.code) == ("Aye.", 9, "reply_not_stored")
    assert isinstance(caught.value.__cause__, OperationalError)
    # The lease is a minute.
    until = time.monotonic() + 20
    while ReplyClaim.objects.exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    assert chat.append_message(tip.session, tip, role="assistant", **came).content == "Aye."
    assert ask(tip, server).content == "Aye."
    assert len(server.requests) == 2


class TestRepliesAtOnce:
    @pytest.mark.twice
    def test_of_one_user_so_many_are_under_way(self, server):
        marit, other = (get_user_model().objects.create_user(name) for name in ("marit", "other"))
        mine = [question_of(marit) for _ in range(3)]
        server.script([stream_of("A", then=steps.hang())] * 2)
        with client_of(server) as client, ExitStack() as stack:
            for one in mine[:2]:
                stack.enter_context(chat.stream(one, client=client, at_once=2))
            with pytest.raises(TooManyReplies) as caught:
                completed(mine[2], server, at_once=2)
            assert (caught.value.at_once, caught.value.retry_after) == (2, 5)
            assert completed(question_of(other), server, at_once=2).content == "Aye."
            assert completed(question_of(None), server, at_once=0).content == "Aye."
            assert completed(question_of(marit), server).content == "Aye."
        assert completed(mine[2], server, at_once=2).content == "Aye."

    @pytest.mark.twice
    def test_however_many_come_at_once(self, server):
        marit = get_user_model().objects.create_user("marit")
        questions = [question_of(marit) for _ in range(8)]
        server.script([late(2)] * 8)

        def ask(question: ChatMessage) -> bool:
            try:
                return bool(completed(question, server, at_once=3))
            except TooManyReplies:
                return False

        with ThreadPoolExecutor(8) as pool:
            outcomes = [one.result() for one in [pool.submit(closing(lambda q=q: ask(q))) for q in questions]]
        assert outcomes.count(True) == len(server.requests) == 3


def question_of(owner: Any) -> ChatMessage:
    return chat.append_message(chat.start_session(owner=owner, model="house-model"), role="user", content="Well?")
