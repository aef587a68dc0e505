"""Turns over HTTP: real clients, a scripted provider, and what is in the tree afterwards."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from compaction_app import chat
from compaction_app.contrib.gateway import views
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.messages.transcript import RECALL_TOOL
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.contrib.gateway.site import BY_EITHER, MODELS, ask, branches, post, shown_before_a_stop, talk
from tests.databases import failing
from tests.small import anchored_summary
from tests.steps import chunk_then, error_event, late, stream_of, unauthorized

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]


@BY_EITHER
@pytest.mark.parametrize("stream", [False, True])
def test_turns_an_edit_and_a_regeneration(api, server, users, stream):
    server.script(map(steps.reply, ("one", "two", "three", "edited", "again")))
    brief = {"role": "system", "content": "Be brief."}
    for texts in ("q1", "q1 one q2", "q1 one q2 two q3", "q1 one q2-edited", "q1 one q2 two q3"):
        ask(api, brief, *talk(*texts.split()), stream=stream)
    wanted = ["q1 one q2 two q3 three", "q1 one q2-edited edited", "q1 one q2 two q3 again"]
    assert branches() == [texts.split() for texts in wanted]
    session = ChatSession.objects.get()
    assert (session.owner, session.system_prompt, session.model) == (users[0], "Be brief.", "house-model")
    # "What did the model see?" has an answer in the admin.
    assert all(one.sent_context for one in session.messages.filter(role="assistant"))


@pytest.mark.few
@BY_EITHER
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("window", [500, 100_000])
def test_the_headers_say_whether_the_prompt_was_cut(api, settings, stream, window):
    settings.COMPACTION = {"CONTEXT_WINDOW": window}
    messages = talk(*["word " * 100] * 9)
    create = api.chat.completions.with_raw_response.create
    raw = create(model="house-model", messages=messages, stream=stream)
    assert raw.headers["X-Compaction-Fallback-Used"] == {500: "true", 100_000: "false"}[window]
    assert raw.headers["X-Compaction-State"] in {500: ("due", "running"), 100_000: ("ok",)}[window]
    figures = [int(raw.headers[f"X-Compaction-{name}"]) for name in ("History", "Threshold", "Available", "Window")]
    assert figures[0] <= figures[2] < figures[3] == window
    assert figures[1] < figures[2]
    # To its end: a reply that is still stored while the database is emptied breaks the next test.
    assert [*raw.parse()] != []


def test_what_answers_say(api, server):
    assert [one.id for one in api.models.list()] == list(MODELS)
    assert api.models.retrieve(MODELS[1]).id == MODELS[1]
    with pytest.raises(openai.NotFoundError, match="'unknown' does not exist"):
        api.models.retrieve("unknown")
    with pytest.raises(openai.APIStatusError, match="The method is GET") as refused:
        api.post("/models", cast_to=object)
    assert (refused.value.status_code, refused.value.response.headers["Allow"]) == (405, "GET")
    asked = {"model": "house-model", "messages": talk("q"), "temperature": 0.5, "store": False}
    raw = api.chat.completions.with_raw_response.create(**asked)
    question, reply = ChatMessage.objects.order_by("pk")
    assert raw.headers["X-Compaction-Session"] == str(question.session_id)
    assert raw.headers["X-Compaction-Message"] == str(question.pk)
    [choice], usage = raw.parse().choices, raw.parse().usage
    assert (choice.finish_reason, choice.message.content) == ("stop", reply.content)
    assert usage.total_tokens == reply.usage["total_tokens"]
    assert (server.requests[0]["temperature"], "store" in server.requests[0]) == (0.5, False)
    for wanted in (False, True):
        made = api.chat.completions.create(**asked, stream=True, stream_options={"include_usage": wanted})
        assert any(chunk.usage for chunk in made) == wanted


@BY_EITHER
def test_a_reply_that_is_stopped_is_kept_and_found(api, server):
    """With fewer words than were kept: the last ones were under way when the client hung up."""
    shown = shown_before_a_stop(api, server, messages=talk("q1"))
    server.script(map(steps.reply, ("Noon.", "Two.", "Again.")))
    stopped = ChatMessage.objects.get(role="assistant")
    assert (stopped.finish_reason, stopped.content.startswith(shown)) == ("stopped", True)
    for texts in (("q1", shown, "q2"), ("q1", shown, "q2", "Noon.", "q3"), ("q1",)):
        ask(api, *talk(*texts))
    whole = ["q1", stopped.content, "q2", "Noon.", "q3", "Two."]
    assert branches(*ChatSession.objects.order_by("created_at")) == [whole, ["q1", "Again."]]


def test_a_reply_that_breaks_off_is_not_stored(api, server):
    server.script([stream_of("No", then=error_event())])
    with pytest.raises(openai.APIError, match="broke off"):
        ask(api, *talk("q1"), stream=True)
    assert branches() == [["q1"]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_is_shown_no_search_and_goes_on_below_its_answer(api, server, monkeypatch, stream):
    monkeypatch.setattr(Gateway, "recall", True)
    search = (RECALL_TOOL, {"query": "boat"})
    script = [steps.reply("A sloop."), calls(("c1", *search)), steps.reply("The sloop.")]
    server.script([*script, calls(("c2", *search), ("c3", "look", {})), steps.reply("A sail.")])
    sent = talk("Which boat?")

    def turn(*more):
        sent.extend(more)
        made = {"model": "house-model", "messages": sent}
        if not stream:
            said = api.chat.completions.create(**made).choices[0].message
        else:
            with api.chat.completions.stream(**made) as chunks:
                said = chunks.get_final_completion().choices[0].message
        sent.append(said.to_dict())
        return said

    assert turn().content == "A sloop."
    anchored_summary(*ChatMessage.objects.order_by("-id"))
    assert turn({"role": "user", "content": "Which was it?"}).content == "The sloop."
    asked = turn({"role": "user", "content": "What is there?"})
    assert [one.function.name for one in asked.tool_calls] == ["look"]
    assert turn({"role": "tool", "tool_call_id": "c3", "content": "Sail"}).content == "A sail."
    [tip] = chat.tips(ChatSession.objects.get())
    assert "".join(one.role[0] for one in chat.get_branch(tip)) == "uauatauatta"


@pytest.mark.long
def test_many_turns_fill_the_window(server, settings):
    settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 4000, "RESERVED_TOKENS": 500, "COOLDOWN_SECONDS": 0}
    server.script(default=steps.reply("Noted: " + "berth and dues and cargo of the day are in the book. " * 30))
    texts = []
    for day in range(16):
        texts.append(f"Day {day}: the Ada lies at berth {day % 9}. Note it please. " * 10)
        texts.append(post(*talk(*texts))[1])
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    assert CompactionRun.objects.filter(status="succeeded").count() >= 3
    assert branches() == [texts]
    assert len(server.requests[-1]["messages"]) < 16


def test_several_at_once_and_one_that_is_sent_again(server):
    server.script(default=late(0.3, steps.reply("one")))
    history = talk("q1", "one", "q2")
    post(*talk("q1"))
    with ThreadPoolExecutor(4) as pool:
        assert [status for status, _ in pool.map(lambda _: post(*history), range(4))] == [200] * 4
    assert branches() == [["q1", "one", "q2", "one"]] * 4
    # The openai client sends again what it got no answer to: it gets the reply, and buys none.
    assert post(*history, headers={"X-Stainless-Retry-Count": "1"}, stream=True) == (200, "one")
    assert len(server.requests) == 5


def test_a_first_question_that_is_sent_again_is_stored_once(api, server):
    """Without a conversation's header, as any OpenAI client sends it where the provider fails."""
    server.script([steps.reply("Long ago.")])
    assert ask(api, *talk("q")) == "Long ago."
    server.script([unauthorized()] * 2, default=steps.reply("At last."))
    assert ask(api.with_options(max_retries=2), *talk("q")) == "At last."
    assert [branches(one) for one in ChatSession.objects.order_by("created_at")] == [
        [["q", "Long ago."]],
        [["q", "At last."]],
    ]
    # Two clients with one key and one question: neither waits for the other.
    server.script([unauthorized()] * 2, default=late(0.5, steps.reply("Both.")))
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda _: ask(api.with_options(max_retries=2), *talk("twice")), range(2))
        assert list(made) == ["Both.", "Both."]
    assert ChatMessage.objects.filter(content="Both.").count() == 2


def test_with_the_database_away_the_last_event_says_so(server):
    is_away = threading.Event()
    server.script([chunk_then(is_away.set, "Aye.")])
    headers = {"Authorization": "Bearer tiram"}
    body = {"model": "house-model", "messages": talk("Ready?"), "stream": True}
    response = Client(headers=headers).post("/blocking/chat/completions", body, content_type="application/json")
    with failing(lambda _: is_away.is_set()):
        *_, last = [part.decode() for part in response.streaming_content]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "reply_not_stored"


class TestPrompts:
    """A request is answered under the instructions that it sent."""

    def test_another_request_comes_in_between(self, server, monkeypatch):
        said = steps.reply_with(lambda body: f"as {body['messages'][0]['content']}")
        server.script(default=said)
        about = {"headers": {"X-Conversation-Id": "c1"}}
        first = post({"role": "system", "content": "P0"}, *talk("hello"), **about)[1]
        place, between = views.place, []

        def meanwhile(*args, **options):
            at = place(*args, **options)
            if not between:
                between.append(None)
                between[0] = post({"role": "system", "content": "lawyer"}, *talk("hello", first, "B"), **about)[1]
            return at

        monkeypatch.setattr(views, "place", meanwhile)
        for texts in (["A"], ["hello", first, "A"]):
            between.clear()
            assert post({"role": "system", "content": "pirate"}, *talk(*texts), **about)[1] == "as pirate"
            assert between == ["as lawyer"]

    def test_a_list_that_goes_on_with_no_reply_leaves_the_sessions_prompt(self, server):
        """A request for a title, in words that are not known: it is answered under its own prompt, or under none."""
        about = {"headers": {"X-Conversation-Id": "c1"}}
        roofer, other = ({"role": "system", "content": text} for text in ("A roofer.", "Another roofer."))
        reply = post(roofer, *talk("How old?"), **about)[1]
        session = ChatSession.objects.get()
        for prompt in ([], [{"role": "system", "content": "Titles only."}]):
            for texts in ([f"User: How old?\nAI: {reply}"], ["How old?"]):
                post(*prompt, *talk(*texts), **about)
                assert server.requests[-1]["messages"] == [*prompt, *talk(*texts)]
            session.refresh_from_db()
            assert session.system_prompt == "A roofer."
        post(other, *talk("How old?", reply, "And now?"), **about)
        assert server.requests[-1]["messages"] == [other, *talk("How old?", reply, "And now?")]
        session.refresh_from_db()
        assert session.system_prompt == "Another roofer."

    def test_a_prompt_is_counted_with_the_request_that_has_it(self, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 6000}
        about = {"headers": {"X-Conversation-Id": "c1"}}
        post({"role": "system", "content": "Brief."}, *talk("q"), **about)
        post({"role": "system", "content": "word " * 1500}, *talk("q2"), **about)
        small, large = (one.sent_context["tokens"] for one in ChatMessage.objects.filter(role="assistant"))
        assert large - small > 1400


def test_a_stream_shows_the_ids_of_calls_that_are_stored(server):
    """Whether a provider sends none, one twice, or one too late."""
    piece = {"index": 0, "type": "function", "function": {"name": "f", "arguments": '{"x": '}}
    rest = {"index": 0, "id": "late", "function": {"arguments": "1}"}}
    twice = [{**piece, "index": at, "id": "c", "function": {"name": "f", "arguments": "{}"}} for at in (0, 1)]
    for pieces in ([piece, rest], [{**piece, "id": ""}, rest], [{**piece, "id": "c1"}, rest], twice):
        server.script([stream_of(*({"tool_calls": [one]} for one in pieces), finish_reason="tool_calls")])
        user = get_user_model().objects.first()
        tip = chat.append_message(chat.start_session(owner=user, model="m"), role="user", content="q")
        with chat.stream(tip) as chunks:
            shown = [one for chunk in chunks for choice in chunk.choices for one in choice.delta.tool_calls or ()]
        stored = [call["id"] for call in chunks.message.tool_calls]
        assert [one.id for one in shown if one.id] == stored
        assert len(set(stored)) == len(stored)
