"""The gateway over HTTP: real clients, a scripted provider, and what is in the tree afterwards."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
import uvicorn
from django.contrib.auth import get_user_model
from django.core.asgi import get_asgi_application
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import include, path

from compaction_app import chat
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.conversation import chat_model
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]

MODELS = ("house-model", "other-model")
FRONT_END = "sk-of-open-webui"


class OurGateway(Gateway):
    """A user's key is the name, backwards."""

    models = MODELS
    server_keys = (FRONT_END,)

    def user_of(self, key):
        return get_user_model().objects.filter(username=key[::-1]).first()

    def user_named(self, request):
        return get_user_model().objects.filter(email=request.headers.get("X-OpenWebUI-User-Email", "")).first()


class BlockingGateway(OurGateway):
    is_async = False


urlpatterns = [path("v1/", include(OurGateway().urls)), path("blocking/", include(BlockingGateway().urls))]


@pytest.fixture(autouse=True)
def provider(server, monkeypatch):
    """The client that the environment names asks the scripted server."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield server
    chat_model._client_for.cache_clear()


@pytest.fixture(autouse=True)
def users():
    return [get_user_model().objects.create_user(name, email=f"{name}@example.org") for name in ("marit", "jonas")]


@pytest.fixture
def asgi_server():
    server = uvicorn.Server(uvicorn.Config(get_asgi_application(), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(params=["live_server", "asgi_server"])
def api(request, settings):
    """OpenAI's client with Marit's key."""
    settings.ALLOWED_HOSTS = ["*"]
    return openai.OpenAI(base_url=f"{request.getfixturevalue(request.param)}/v1", api_key="tiram", max_retries=0)


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def ask(api, *messages, stream=False, **params):
    """The text of the answer."""
    made = api.chat.completions.create(model="house-model", messages=list(messages), stream=stream, **params)
    return "".join(one.choices[0].delta.content or "" for one in made) if stream else made.choices[0].message.content


def post(*messages, key="tiram", headers=(), **body):
    """A request as a front end sends it; its status and answer, of a stream the text."""
    named = {"Authorization": f"Bearer {key}", **dict(headers)}
    body = {"model": "house-model", "messages": messages, **body}
    try:
        response = Client(headers=named).post("/blocking/chat/completions", body, content_type="application/json")
        if not response.streaming:
            return response.status_code, response.json()
        lines = b"".join(response.streaming_content).decode().splitlines()
    finally:
        if threading.current_thread() is not threading.main_thread():
            connection.close()
    assert lines[-2] == "data: [DONE]"
    deltas = [one["choices"][0]["delta"] for line in lines if line[6:7] == "{" for one in [json.loads(line[6:])]]
    return response.status_code, "".join(delta.get("content") or "" for delta in deltas)


def branches(*sessions):
    """The texts of every branch, by default of the only session."""
    sessions = sessions or [ChatSession.objects.get()]
    return [[one.content for one in chat.get_branch(tip)] for session in sessions for tip in chat.tips(session)]


@pytest.mark.parametrize("stream", [False, True])
def test_turns_an_edit_and_a_regeneration(api, server, users, stream):
    server.script(map(steps.reply, ("one", "two", "three", "edited", "again")))
    history = [{"role": "system", "content": "Be brief."}]
    for question in ("q1", "q2", "q3"):
        history += [user(question)]
        history += [assistant(ask(api, *history, stream=stream))]
    assert ask(api, *history[:3], user("q2, edited"), stream=stream) == "edited"
    assert ask(api, *history[:-1], stream=stream) == "again"
    assert branches() == [
        ["q1", "one", "q2", "two", "q3", "three"],
        ["q1", "one", "q2, edited", "edited"],
        ["q1", "one", "q2", "two", "q3", "again"],
    ]
    session = ChatSession.objects.get()
    assert (session.owner, session.system_prompt, session.model) == (users[0], "Be brief.", "house-model")
    # "What did the model see?" has an answer in the admin.
    assert all(one.sent_context for one in session.messages.filter(role="assistant"))


def test_what_answers_say(api, server):
    assert [one.id for one in api.models.list()] == list(MODELS)
    asked = {"model": "house-model", "messages": [user("q")], "temperature": 0.5, "store": True}
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


def test_a_stream_that_the_client_leaves_stores_nothing(api, server, users):
    def endless(exchange):
        while not exchange.client_left:
            exchange.send_delta({"content": "Ay"})
            exchange.wait(0.05)

    server.script([endless, steps.reply("Aye.")])
    named = {"X-Conversation-Id": "c1"}
    asked = {"model": "house-model", "messages": [user("q1")], "extra_headers": named}
    made = api.chat.completions.create(**asked, stream=True)
    assert next(made).choices[0].delta.content == "Ay"
    made.close()
    server.wait_for_disconnects(1)
    assert branches() == [["q1"]]
    assert ask(api, user("q1"), extra_headers=named) == "Aye."
    # What the client kept of it is the client's.
    ask(api, user("q1"), assistant("Ay"), user("q2"), extra_headers=named)
    assert branches()[1][:3] == ["q1", "Ay", "q2"]


def test_an_error_in_mid_stream_is_told_in_it(api, server):
    server.script([steps.stream_of("Ay", then=steps.error_event())])
    with pytest.raises(openai.APIError, match="broke off"):
        ask(api, user("q"), stream=True)
    assert branches() == [["q"]]


def test_tools(server):
    server.script([steps.tool_call("weather", '{"city": "Oslo"}'), steps.reply("Wet.")])
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    [call] = post(user("Weather?"), tools=tools)[1]["choices"][0]["message"]["tool_calls"]
    # In another notation, as a client writes them that has parsed the arguments.
    call["function"]["arguments"] = '{"city":"Oslo"}'
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain"}
    post(user("Weather?"), assistant("", tool_calls=[call]), result)
    assert branches() == [["Weather?", "", "Rain", "Wet."]]
    assert server.requests[0]["tools"] == tools
    assert ChatMessage.objects.get(role="tool").metadata == {"written_by": "client"}


class TestOpenWebUI:
    """As version 0.12 sends it, with ENABLE_FORWARD_USER_INFO_HEADERS; its own metadata stays at home."""

    HEADERS = {"X-OpenWebUI-Chat-Id": "7d0e", "X-OpenWebUI-User-Email": "marit@example.org"}

    def turn(self, *messages, key=FRONT_END, model="house-model", **headers):
        status, text = post(*messages, key=key, headers={**self.HEADERS, **headers}, model=model, stream=True)
        assert status == 200, text
        return text

    def test_a_chat(self, server, users):
        thought = "<think>The tide.</think>\n\nIt is high.\n\n"
        server.script(map(steps.reply, (thought, "Noon.", "Once more.", "Edited.")))
        monday, tuesday = ({"role": "system", "content": f"Be brief. It is {day}."} for day in ("Monday", "Tuesday"))
        assert self.turn(monday, user("Tide?")) == thought
        # What it took for reasoning is not sent back; earlier versions send a block.
        block = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n</details>\n'
        self.turn(monday, user("Tide?"), assistant("It is high."), user("When?"))
        self.turn(monday, user("Tide?"), assistant(f"{block}It is high."), user("When?"))
        self.turn(tuesday, user("Tide, please?"))
        session = ChatSession.objects.get()
        assert (session.owner, session.external_id) == (users[0], "7d0e")
        above = ["Tide?", thought, "When?"]
        assert branches() == [[*above, "Noon."], [*above, "Once more."], ["Tide, please?", "Edited."]]
        # Changed instructions are this turn's, and never an edit of what is stored.
        assert server.requests[-1]["messages"][:2] == [monday, tuesday]
        assert session.system_prompt == monday["content"]

    def test_what_is_no_turn_is_answered_and_not_stored(self, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
        self.turn(user("Tide?"))
        secret = "sk-proj-" + "a1" * 30
        for text, headers, body in [
            (f"### Task:\nGenerate a concise title …\n<chat_history>\n{secret}\n</chat_history>", {}, {}),
            (f"The facial expression of {secret}", {"X-OpenWebUI-Task": "emoji_generation"}, {}),
            (f"Name {secret}", {}, {"metadata": {"task": "title_generation"}}),
            (f"In a temporary chat: {secret}", {"X-OpenWebUI-Chat-Id": "temporary:Xy3"}, {}),
        ]:
            server.script([steps.reply("Tide Times")])
            status, answer = post(user(text), key=FRONT_END, headers={**self.HEADERS, **headers}, seed=7, **body)
            assert (status, answer["choices"][0]["message"]["content"]) == (200, "Tide Times")
            assert ChatMessage.objects.count() == 2
            assert (server.requests[-1]["seed"], secret in str(server.requests[-1])) == (7, False)

    def test_several_models_at_once(self, server):
        """One chat, one question, a request for each model; each goes on below its own reply."""
        both = threading.Barrier(2)

        def at_once(exchange):
            both.wait(10)
            steps.reply(exchange.body["model"])(exchange)

        server.script(default=at_once)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda model: self.turn(user("Tide?"), model=model), MODELS)) == list(MODELS)
        server.script(default=steps.reply("Noon."))
        self.turn(user("Tide?"), assistant("other-model"), user("When?"), model="other-model")
        assert sorted(branches()) == [["Tide?", "house-model"], ["Tide?", "other-model", "When?", "Noon."]]

    def test_a_user_is_named_by_a_servers_key_only(self, users):
        self.turn(user("Tide?"), key="sanoj")
        assert ChatSession.objects.get().owner == users[1]
        unknown = {"X-OpenWebUI-User-Email": "nobody@example.org"}
        assert post(user("q"), key=FRONT_END, headers=unknown)[0] == 401


def test_librechat(server):
    """A custom endpoint whose headers have ``X-Conversation-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"``."""
    server.script(map(steps.reply, ("Aye.", "Tide Times", "Noon.")))
    about = {"headers": {"X-Conversation-Id": "2f6c"}, "user": "66b2", "stream": True}
    question, said = user([{"type": "text", "text": "Tide?"}]), assistant([{"type": "text", "text": "Aye."}])
    post(question, **about)
    title = "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return"
    assert post(user(f"{title} …\n\nConversation:\nUser: Tide?\nAI: Aye."), **about)[1] == "Tide Times"
    post(question, said, user("When?"), **about)
    assert branches() == [["Tide?", "Aye.", "When?", "Noon."]]
    assert server.requests[0]["user"] == "66b2"


def test_what_is_anothers_is_as_what_is_not_there(server, users):
    server.script(map(steps.reply, ("one", "two", "three")))
    post(user("q1"), headers={"X-Conversation-Id": "c1"})
    history = [user("q1"), assistant("one"), user("q2")]
    post(*history, key="sanoj", headers={"X-Conversation-Id": "c1"})
    post(*history, key="sanoj")
    first, *others = ChatSession.objects.order_by("created_at")
    assert branches(first) == [["q1", "one"]]
    assert [(one.owner, branches(one)[0][2:]) for one in others] == [
        (users[1], ["q2", "two"]),
        (users[1], ["q2", "three"]),
    ]


def test_a_reply_that_a_client_invents_is_no_beginning_of_ours(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    history = [user("Hi"), assistant("I am the bank."), user("And now?")]
    post(*history)
    post(*history)
    texts = [one["content"] for one in history]
    assert branches(*ChatSession.objects.order_by("created_at")) == [[*texts, "one"], [*texts, "two"]]
    invented = ChatMessage.objects.filter(role="assistant").first()
    assert (invented.metadata, invented.sent_context) == ({"written_by": "client"}, None)
    # With a reply of ours behind it, it goes on there.
    post(*history, assistant("one"), user("Yes?"))
    assert ChatSession.objects.count() == 2


def test_what_is_redacted_cannot_be_verified_and_is_not_found(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    history = [user("q1"), assistant("one"), user("My code is 1234."), assistant("two"), user("q3")]
    post(history[0])
    post(*history[:3])
    chat.redact_message(ChatMessage.objects.get(content="My code is 1234."))
    assert [one.message.content for one in BranchDigest.objects.order_by("pk")] == ["q1", "one"]
    post(*history)
    texts = [one["content"] for one in history]
    assert branches() == [["q1", "one", "[redacted]", "two"], [*texts, "three"]]
    chat.redact_text(ChatSession.objects.get(), "My code is 1234.")
    assert BranchDigest.objects.count() == 2
    chat.delete_session(ChatSession.objects.get())
    assert not BranchDigest.objects.exists()


def test_forty_turns_fill_the_window(server, settings):
    settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 4000, "RESERVED_TOKENS": 500, "COOLDOWN_SECONDS": 0}
    server.script(default=steps.reply("Noted: " + "berth and dues and cargo of the day are in the book. " * 12))
    history = []
    for day in range(40):
        history.append(user(f"Day {day}: the Ada lies at berth {day % 9}. Note it please. " * 4))
        history.append(post(*history)[1]["choices"][0]["message"])
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    assert CompactionRun.objects.filter(status="succeeded").count() >= 3
    assert [len(one) for one in branches()] == [80]
    assert len(server.requests[-1]["messages"]) < 20


def test_a_long_list_costs_as_many_queries_as_a_short_one():
    def queries(count):
        about = {"headers": {"X-Conversation-Id": f"of {count}"}}
        history = [one for number in range(count) for one in (user(f"q{number}"), assistant(f"a{number}"))]
        history += [user("q"), post(*history, user("q"), **about)[1]["choices"][0]["message"], user("next")]
        with CaptureQueriesContext(connection) as captured:
            post(*history, **about)
        assert len(branches(ChatSession.objects.get(external_id=f"of {count}"))[0]) == len(history) + 1
        return len(captured)

    assert queries(500) == queries(5)


def test_several_at_once_and_one_that_is_sent_again(server):
    server.script(default=steps.late(0.3, steps.reply("one")))
    history = [user("q1"), assistant("one"), user("q2")]
    post(user("q1"))
    with ThreadPoolExecutor(4) as pool:
        assert [status for status, _ in pool.map(lambda _: post(*history), range(4))] == [200] * 4
    assert branches() == [["q1", "one", "q2", "one"]] * 4
    # The openai client sends again what it got no answer to: it gets the reply, and buys none.
    again = {"headers": {"X-Stainless-Retry-Count": "1"}, "stream": True}
    assert post(*history, **again) == (200, "one")
    assert len(server.requests) == 5


REFUSED = [
    ({"model": "gpt-unknown"}, 404, "model_not_found"),
    ({"n": 2}, 400, "unsupported_value"),
    ({"messages": []}, 400, None),
    ({"messages": [{"role": "nobody", "content": ""}]}, 400, "invalid_message"),
    ({"messages": [user("\0")]}, 400, "invalid_message"),
    ({"messages": [user("x" * 3_000_000)]}, 413, None),
]
FAILING = [
    (steps.context_overflow(), 400, "context_length_exceeded"),
    (steps.bad_request("temperature must be at most 2."), 400, None),
    (steps.rate_limited(retry_after=2), 429, "rate_limit_exceeded"),
    (steps.unauthorized(), 502, None),
    (steps.empty(), 502, "empty_reply"),
]


def test_errors_have_openais_shape(server):
    for body, status, code in REFUSED:
        found, answer = post(user("q"), **body)
        assert (found, answer["error"]["code"]) == (status, code)
        assert {"message", "type", "param", "code"} == set(answer["error"])
    assert (ChatSession.objects.count(), server.requests) == (0, [])
    for step, status, code in FAILING:
        server.script(default=step)
        found, answer = post(user("q"))
        assert (found, answer["error"]["code"]) == (status, code)
        assert "none" not in answer["error"]["message"], "the host's key"


def test_who_may(server, settings, users):
    assert post(user("q"), key="wrong")[0] == 401
    browser = Client()
    browser.force_login(users[0])
    assert browser.post("/v1/chat/completions", {}, content_type="application/json").status_code == 401
    settings.COMPACTION = {**settings.COMPACTION, "PERMISSION": f"{__name__}.nobody_may"}
    assert [post(user("q"), **body)[0] for body in ({}, {"metadata": {"task": "title_generation"}})] == [403, 403]
    assert server.requests == []


def nobody_may(user, session, action):
    return False
