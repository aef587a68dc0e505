"""The gateway over HTTP: real clients, a real provider's answers, and what is in the tree afterwards."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

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
def marit():
    return get_user_model().objects.create_user("marit", email="marit@example.org")


@pytest.fixture(autouse=True)
def jonas():
    return get_user_model().objects.create_user("jonas", email="jonas@example.org")


@contextmanager
def asgi_server():
    config = uvicorn.Config(get_asgi_application(), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(params=["wsgi", "asgi"])
def door(request, settings):
    settings.ALLOWED_HOSTS = ["*"]
    if request.param == "wsgi":
        yield request.getfixturevalue("live_server").url
    else:
        with asgi_server() as url:
            yield url


def client(door, key="tiram", **headers):
    return openai.OpenAI(base_url=f"{door}/v1", api_key=key, max_retries=0, default_headers=headers)


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def ask(client, *messages, stream=False, **params):
    """The text of the answer."""
    made = client.chat.completions.create(model="house-model", messages=list(messages), stream=stream, **params)
    if stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in made)
    return made.choices[0].message.content


def post(body, key="tiram", **headers):
    """A request of a front end, in the process of the test; its status and answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "house-model", **body}
    response = Client(headers={"Authorization": f"Bearer {key}", **named}).post(
        "/blocking/chat/completions", body, content_type="application/json"
    )
    if response.streaming:
        return response.status_code, b"".join(response.streaming_content).decode()
    return response.status_code, response.json()


def branches(session=None):
    """The texts of every branch of the only session."""
    session = session or ChatSession.objects.get()
    return [[one.content for one in chat.get_branch(tip)] for tip in chat.tips(session)]


def sent(server, number=-1):
    return [(one["role"], one["content"]) for one in server.requests[number]["messages"]]


@pytest.mark.parametrize("stream", [False, True])
def test_turns_an_edit_and_a_regeneration(door, server, marit, stream):
    server.script(map(steps.reply, ("one", "two", "three", "edited", "again")))
    api, brief = client(door), {"role": "system", "content": "Be brief."}
    history = [brief]
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
    assert (session.owner, session.system_prompt, session.model) == (marit, "Be brief.", "house-model")
    assert sent(server)[:2] == [("system", "Be brief."), ("user", "q1")]
    # "What did the model see?" has an answer in the admin.
    assert all(one.sent_context for one in session.messages.filter(role="assistant"))


def test_what_the_answers_say(door, server):
    api = client(door)
    assert [one.id for one in api.models.list()] == list(MODELS)
    raw = api.chat.completions.with_raw_response.create(
        model="house-model", messages=[user("q")], temperature=0.5, store=True, seed=7
    )
    question, reply = ChatMessage.objects.order_by("pk")
    assert raw.headers["X-Compaction-Session"] == str(question.session_id)
    assert raw.headers["X-Compaction-Message"] == str(question.pk)
    answer = raw.parse()
    assert (answer.choices[0].finish_reason, answer.choices[0].message.content) == ("stop", reply.content)
    assert answer.usage.total_tokens == reply.usage["total_tokens"]
    request = server.requests[0]
    assert (request["temperature"], request["seed"], "store" in request) == (0.5, 7, False)
    for wanted in (False, True):
        made = api.chat.completions.create(
            model="house-model", messages=[user("q")], stream=True, stream_options={"include_usage": wanted}
        )
        assert any(chunk.usage for chunk in made) == wanted


def test_tools(door, server):
    server.script([steps.tool_call("weather", '{"city": "Oslo"}'), steps.reply("Wet.")])
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    api, question = client(door), user("Weather?")
    message = api.chat.completions.create(model="house-model", messages=[question], tools=tools).choices[0].message
    # In another notation, as a client writes it that has parsed the arguments.
    call = {**message.tool_calls[0].to_dict(), "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain"}
    assert ask(api, question, assistant("", tool_calls=[call]), result) == "Wet."
    assert branches() == [["Weather?", "", "Rain", "Wet."]]
    assert server.requests[0]["tools"] == tools
    assert ChatMessage.objects.get(role="tool").metadata == {"written_by": "client"}


def endless(exchange):
    while not exchange.client_left:
        exchange.send_delta({"content": "Ay"})
        exchange.wait(0.05)


def test_a_stream_that_the_client_leaves_stores_nothing(door, server):
    server.script([endless, steps.reply("Aye.")])
    api, question = client(door), [user("q1")]
    session = chat.start_session(owner=get_user_model().objects.get(username="marit"), external_id="c1")
    named = {"X-Conversation-Id": "c1"}
    made = api.chat.completions.create(model="house-model", messages=question, stream=True, extra_headers=named)
    assert next(made).choices[0].delta.content == "Ay"
    made.close()
    server.wait_for_disconnects(1)
    assert branches(session) == [["q1"]]
    assert ask(api, *question, extra_headers=named) == "Aye."
    # What the client kept of it is the client's.
    ask(api, *question, assistant("Ay"), user("q2"), extra_headers=named)
    assert branches(session)[1][:3] == ["q1", "Ay", "q2"]


def test_an_error_in_mid_stream_is_told_in_it(door, server):
    server.script([steps.stream_of("Ay", then=steps.error_event())])
    with pytest.raises(openai.APIError, match="broke off"):
        ask(client(door), user("q"), stream=True)
    assert branches() == [["q"]]


class TestOpenWebUI:
    """As version 0.12 sends it, with ENABLE_FORWARD_USER_INFO_HEADERS."""

    def headers(self, **more):
        who = {"X_OpenWebUI_User_Email": "marit@example.org", "X_OpenWebUI_User_Id": "0b9f", "key": FRONT_END}
        return {**who, "X_OpenWebUI_Chat_Id": "7d0e", "X_OpenWebUI_User_Role": "user", **more}

    def turn(self, *messages, model="house-model", **more):
        # Its own metadata stays at home; stream_options come from the model's settings.
        body = {"model": model, "stream": True, "messages": messages, "stream_options": {"include_usage": True}}
        status, text = post(body, **self.headers(**more))
        assert status == 200, text
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        assert text.endswith("data: [DONE]\n\n")
        return "".join(one["choices"][0]["delta"].get("content") or "" for one in events if one["choices"])

    def test_a_chat(self, server, marit):
        thought = "<think>The tide.</think>\n\nIt is high.\n\n"
        server.script([steps.reply(thought), *map(steps.reply, ("Noon.", "Once more.", "Edited."))])
        brief = {"role": "system", "content": "Be brief. It is Monday."}
        assert self.turn(brief, user("Tide?")) == thought
        # What it took for reasoning is not sent back; earlier versions send it as a block.
        block = '<details type="reasoning" done="true" duration="1">\n<summary>Thought</summary>\n</details>\n'
        self.turn(brief, user("Tide?"), assistant("It is high."), user("When?"))
        self.turn(brief, user("Tide?"), assistant(f"{block}It is high."), user("When?"))
        tuesday = {"role": "system", "content": "Be brief. It is Tuesday."}
        self.turn(tuesday, user("Tide, please?"))
        session = ChatSession.objects.get()
        assert (session.owner, session.external_id) == (marit, "7d0e")
        assert branches() == [
            ["Tide?", thought, "When?", "Noon."],
            ["Tide?", thought, "When?", "Once more."],
            ["Tide, please?", "Edited."],
        ]
        # Changed instructions are this turn's, and never an edit of what is stored.
        assert session.system_prompt == brief["content"]
        assert sent(server)[:2] == [("system", brief["content"]), ("system", tuesday["content"])]

    @pytest.mark.parametrize("task", ["title", "tags", "by its header", "by its body"])
    def test_a_task_is_answered_and_not_stored(self, server, settings, task):
        settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
        self.turn(user("Tide?"))
        before, secret = list(ChatMessage.objects.values_list("pk")), "sk-proj-" + "a1" * 30
        said = f"<chat_history>\nUSER: {secret}\n</chat_history>"
        texts = {
            "title": f"### Task:\nGenerate a concise title.\n{said}",
            "tags": f"### Task:\nGenerate 1-3 tags.\n{said}",
        }
        body = {"messages": [user(texts.get(task, said))], "stream": False, "max_tokens": 1000}
        declared = {"X_OpenWebUI_Task": "emoji_generation"} if task == "by its header" else {}
        if task == "by its body":
            body["metadata"] = {"task": "title_generation", "chat_id": "7d0e"}
        server.script([steps.reply('{"title": "Tide"}')])
        status, answer = post(body, **self.headers(**declared))
        assert (status, answer["choices"][0]["message"]["content"]) == (200, '{"title": "Tide"}')
        assert list(ChatMessage.objects.values_list("pk")) == before
        assert secret not in json.dumps(server.requests[-1])
        assert server.requests[-1]["max_tokens"] == 1000

    def test_a_temporary_chat_is_not_stored(self):
        assert self.turn(user("Tide?"), X_OpenWebUI_Chat_Id="temporary:Xy3")
        assert not ChatSession.objects.exists()

    def test_several_models_at_once(self, server):
        """One chat, one question, a request for each model; each goes on below its own reply."""
        waiting = threading.Barrier(2)

        def at_once(exchange):
            waiting.wait(10)
            steps.reply(exchange.body["model"])(exchange)

        server.script(default=at_once)
        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda model: self.in_thread(user("Tide?"), model=model), MODELS))
        assert said == list(MODELS)
        server.script(default=steps.reply("Noon."))
        self.turn(user("Tide?"), assistant("other-model"), user("When?"), model="other-model")
        assert sorted(branches()) == [["Tide?", "house-model"], ["Tide?", "other-model", "When?", "Noon."]]

    def in_thread(self, *messages, **more):
        try:
            return self.turn(*messages, **more)
        finally:
            connection.close()

    def test_a_user_is_named_by_a_servers_key_only(self, marit, jonas):
        self.turn(user("Tide?"), key="sanoj")
        assert ChatSession.objects.get().owner == jonas
        assert post({"messages": [user("q")]}, **self.headers(X_OpenWebUI_User_Email="no@example.org"))[0] == 401


class TestLibreChat:
    """A custom endpoint whose headers have ``X-Conversation-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"``."""

    def test_a_chat_its_title_and_its_stop(self, server, marit):
        server.script(map(steps.reply, ("Aye.", "Tide Times", "Noon.")))
        named = {"X_Conversation_Id": "2f6c"}
        parts = user([{"type": "text", "text": "Tide?"}])
        body = {"user": "66b2", "temperature": 1, "stream": True}
        assert post({**body, "messages": [parts]}, **named)[0] == 200
        title = "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only"
        _, answer = post({"messages": [user(f"{title} …\n\nConversation:\nUser: Tide?\nAI: Aye.")]}, **named)
        assert answer["choices"][0]["message"]["content"] == "Tide Times"
        said = assistant([{"type": "text", "text": "Aye."}])
        post({**body, "messages": [parts, said, user("When?")]}, **named)
        assert branches() == [["Tide?", "Aye.", "When?", "Noon."]]
        assert server.requests[0]["user"] == "66b2"


def test_what_is_anothers_is_as_what_is_not_there(server, marit, jonas):
    server.script(map(steps.reply, ("one", "two", "three")))
    post({"messages": [user("q1")]}, X_Conversation_Id="c1")
    history = [user("q1"), assistant("one"), user("q2")]
    post({"messages": history}, key="sanoj", X_Conversation_Id="c1")
    post({"messages": history}, key="sanoj")
    mine, named, found = ChatSession.objects.order_by("created_at")
    assert branches(mine) == [["q1", "one"]]
    assert [one.owner for one in (named, found)] == [jonas, jonas]
    assert branches(named) == [["q1", "one", "q2", "two"]]


def test_a_reply_that_a_client_invents_is_no_beginning_of_ours(server):
    history = [user("Hi"), assistant("I am the bank."), user("And now?")]
    server.script(map(steps.reply, ("one", "two", "three")))
    post({"messages": history})
    post({"messages": history})
    assert [branches(one) for one in ChatSession.objects.order_by("created_at")] == [
        [["Hi", "I am the bank.", "And now?", "one"]],
        [["Hi", "I am the bank.", "And now?", "two"]],
    ]
    invented = ChatMessage.objects.filter(content="I am the bank.").first()
    assert (invented.metadata, invented.sent_context) == ({"written_by": "client"}, None)
    # With a reply of ours in it, it goes on there.
    post({"messages": [*history, assistant("one"), user("Yes?")]})
    assert ChatSession.objects.count() == 2


def test_what_is_redacted_cannot_be_verified_and_is_not_found(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    history = [user("q1"), assistant("one"), user("My code is 1234."), assistant("two"), user("q3")]
    for end in (1, 3):
        post({"messages": history[:end]})
    above, secret = ChatMessage.objects.filter(content__in=["one", "My code is 1234."]).order_by("pk")
    chat.redact_message(secret)
    assert BranchDigest.objects.order_by("-pk").first().message == above
    post({"messages": history})
    assert branches() == [["q1", "one", "[redacted]", "two"], [one["content"] for one in history] + ["three"]]
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
        status, answer = post({"messages": history})
        assert status == 200
        history.append(answer["choices"][0]["message"])
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    assert CompactionRun.objects.filter(status="succeeded").count() >= 3
    assert [len(one) for one in branches()] == [80]
    assert len(server.requests[-1]["messages"]) < 20
    assert history[0]["content"] not in str(server.requests[-1]["messages"][1:])


def test_a_turn_costs_as_many_queries_in_a_long_list_as_in_a_short_one():
    def queries(count):
        history = [one for number in range(count) for one in (user(f"q{number}"), assistant(f"a{number}"))]
        named = {"X_Conversation_Id": f"of {count}"}
        _, answer = post({"messages": [*history, user("q")]}, **named)
        history += [user("q"), answer["choices"][0]["message"], user("next")]
        with CaptureQueriesContext(connection) as captured:
            assert post({"messages": history}, **named)[0] == 200
        assert len(branches(ChatSession.objects.get(external_id=f"of {count}"))[0]) == len(history) + 1
        return len(captured)

    assert queries(500) == queries(5)


def test_two_at_once_and_one_that_is_sent_again(server):
    server.script(default=steps.late(0.3, steps.reply("one")))
    history = [user("q1"), assistant("one"), user("q2")]
    post({"messages": history[:1]})

    def once(number):
        try:
            return post({"messages": history})[0]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(once, range(4))) == {200}
    assert branches() == [["q1", "one", "q2", "one"]] * 4
    # The openai client sends a request again that it got no answer to: it gets the reply, and buys none.
    before = len(server.requests)
    assert post({"messages": history}, X_Stainless_Retry_Count="1")[0] == 200
    assert len(server.requests) == before
    assert post({"messages": history})[0] == 200
    assert len(server.requests) == before + 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "gpt-unknown"}, 404, "model_not_found"),
        ({"n": 2}, 400, "unsupported_value"),
        ({"messages": []}, 400, None),
        ({"messages": [{"role": "nobody", "content": ""}]}, 400, "invalid_message"),
        ({"messages": [user("\0")]}, 400, "invalid_message"),
        ({"messages": [user("x" * 3_000_000)]}, 413, None),
    ],
)
def test_what_is_refused_as_openai_refuses_it(server, body, status, code):
    found, answer = post({"messages": [user("q")], **body})
    assert (found, answer["error"]["code"]) == (status, code)
    assert {"message", "type", "param", "code"} == set(answer["error"])
    assert not ChatSession.objects.exists()
    assert server.requests == []


@pytest.mark.parametrize(
    ("step", "status", "code"),
    [
        (steps.context_overflow(), 400, "context_length_exceeded"),
        (steps.bad_request("temperature must be at most 2."), 400, None),
        (steps.rate_limited(retry_after=2), 429, "rate_limit_exceeded"),
        (steps.unauthorized(), 502, None),
        (steps.empty(), 502, "empty_reply"),
    ],
)
def test_what_the_provider_says(server, step, status, code):
    server.script(default=step)
    found, answer = post({"messages": [user("q")]})
    assert (found, answer["error"]["code"]) == (status, code)
    assert "none" not in answer["error"]["message"], "the host's key"


def test_who_may(server, settings, marit):
    body = {"messages": [user("q")]}
    assert post(body, key="wrong")[0] == 401
    browser = Client()
    browser.force_login(marit)
    assert browser.post("/blocking/chat/completions", body, content_type="application/json").status_code == 401
    settings.COMPACTION = {**settings.COMPACTION, "PERMISSION": f"{__name__}.nobody_may"}
    for task in ({}, {"metadata": {"task": "title_generation"}}):
        assert post({**body, **task})[0] == 403
    assert server.requests == []


def nobody_may(user, session, action):
    return False
