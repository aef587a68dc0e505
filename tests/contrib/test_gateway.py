"""The gateway over HTTP: real clients, a scripted provider, and what is in the tree afterwards."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import openai
import pytest
import uvicorn
from django.contrib.auth import get_user_model
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import include, path

from compaction_app import chat
from compaction_app.contrib.gateway import placing, views
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.messages.transcript import RECALL_TOOL
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, ReplyClaim
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.databases import failing
from tests.small import anchored_summary

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]

MODELS = ("house-model", "other-model")
FRONT_END = "sk-of-open-webui"


class OurGateway(Gateway):
    """A user's key is the name, backwards."""

    models = MODELS
    server_keys = (FRONT_END,)
    user_header = "X-OpenWebUI-User-Email"

    def user_of(self, key):
        return get_user_model().objects.filter(username=key[::-1]).first()

    def user_named(self, name):
        return get_user_model().objects.filter(email=name).first()


blocking = type("BlockingGateway", (OurGateway,), {"is_async": False})()
urlpatterns = [path("v1/", include(OurGateway().urls)), path("blocking/", include(blocking.urls))]


@pytest.fixture(autouse=True)
def provider(server, monkeypatch):
    """The client that the environment names asks the scripted server."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")


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


@pytest.fixture
def api(request, settings):
    """OpenAI's client with Marit's key."""
    settings.ALLOWED_HOSTS = ["*"]
    return openai.OpenAI(
        base_url=f"{request.getfixturevalue(getattr(request, 'param', 'asgi_server'))}/v1",
        api_key="tiram",
        max_retries=0,
    )


BY_EITHER = pytest.mark.parametrize("api", ["live_server", "asgi_server"], indirect=True)


HALF = {"content": "c\ud83d"}


def talk(*texts):
    """A person and a model in turn."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


def ask(api, *messages, stream=False, **params):
    """The text of the answer."""
    made = api.chat.completions.create(model="house-model", messages=messages, stream=stream, **params)
    return "".join(one.choices[0].delta.content or "" for one in made) if stream else made.choices[0].message.content


def post(*messages, key="tiram", headers=(), **body):
    """A request as a front end sends it; its status, and the text of the answer or the error."""
    named = {"Authorization": f"Bearer {key}", **dict(headers)}
    body = {"model": "house-model", "messages": messages, **body}
    try:
        response = Client(headers=named).post("/blocking/chat/completions", body, content_type="application/json")
        if not response.streaming:
            answer = response.json()
            return response.status_code, answer.get("error") or answer["choices"][0]["message"]["content"]
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

    def endless(exchange):
        for number in range(1000):
            if exchange.client_left:
                break
            exchange.send_delta({"content": f"w{number} "})
            exchange.wait(0.02)

    server.script([endless, steps.reply("Noon."), steps.reply("Two."), steps.reply("Again.")])
    made = api.chat.completions.create(model="house-model", messages=talk("q1"), stream=True)
    shown = "".join(next(made).choices[0].delta.content for _ in range(3))
    made.close()
    server.wait_for_disconnects(1)
    give_up = time.monotonic() + 10
    while BranchDigest.objects.count() < 2 and time.monotonic() < give_up:
        time.sleep(0.05)
    stopped = ChatMessage.objects.get(role="assistant")
    assert (stopped.finish_reason, stopped.content.startswith(shown)) == ("stopped", True)
    for texts in (("q1", shown, "q2"), ("q1", shown, "q2", "Noon.", "q3"), ("q1",)):
        ask(api, *talk(*texts))
    whole = ["q1", stopped.content, "q2", "Noon.", "q3", "Two."]
    assert branches(*ChatSession.objects.order_by("created_at")) == [whole, ["q1", "Again."]]


def test_a_reply_that_breaks_off_is_not_stored(api, server):
    server.script([steps.stream_of("No", then=steps.error_event())])
    with pytest.raises(openai.APIError, match="broke off"):
        ask(api, *talk("q1"), stream=True)
    assert branches() == [["q1"]]


def test_tools(api, server):
    server.script([steps.tool_call("weather", '{"city": "Oslo"}'), steps.reply("Wet.")])
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    made = api.chat.completions.create(model="house-model", messages=talk("Weather?"), tools=tools)
    call = made.choices[0].message.tool_calls[0].to_dict()
    # In another notation, as a client writes them that has parsed the arguments.
    call["function"]["arguments"] = '{"city":"Oslo"}'
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain"}
    ask(api, *talk("Weather?"), {"role": "assistant", "content": "", "tool_calls": [call]}, result)
    assert branches() == [["Weather?", "", "Rain", "Wet."]]
    assert server.requests[0]["tools"] == tools
    assert ChatMessage.objects.get(role="tool").metadata == {"written_by": "client"}


class TestOpenWebUI:
    """As version 0.12 sends it, with ENABLE_FORWARD_USER_INFO_HEADERS; its own metadata stays at home."""

    HEADERS = {"X-OpenWebUI-Chat-Id": "7d0e", "X-OpenWebUI-User-Email": "marit@example.org"}

    def turn(self, *messages, key=FRONT_END, model="house-model"):
        status, text = post(*messages, key=key, headers=self.HEADERS, model=model, stream=True)
        assert status == 200, text
        return text

    def test_a_chat(self, server, users):
        thought = "<think>The tide.</think>\n\nIt is high.\n\n"
        server.script(map(steps.reply, (thought, "Noon.", "Once more.", "Edited.")))
        monday, tuesday = ({"role": "system", "content": f"Be brief. It is {day}."} for day in ("Monday", "Tuesday"))
        assert self.turn(monday, *talk("Tide?")) == thought
        # What it took for reasoning is not sent back; earlier versions send a block.
        block = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n</details>\n'
        self.turn(monday, *talk("Tide?", "It is high.", "When?"))
        self.turn(monday, *talk("Tide?", f"{block}It is high.", "When?"))
        self.turn(tuesday, *talk("Tide, please?"))
        session = ChatSession.objects.get()
        assert (session.owner, session.external_id) == (users[0], "7d0e")
        above = ["Tide?", thought, "When?"]
        assert branches() == [[*above, "Noon."], [*above, "Once more."], ["Tide, please?", "Edited."]]
        # Changed instructions take the place of those before, and are never an edit of what is stored.
        assert server.requests[-1]["messages"] == [tuesday, *talk("Tide, please?")]
        # Only a list that goes on with a reply may change the session's: any other may ask for a title.
        assert session.system_prompt == monday["content"]
        server.script([steps.reply("Later.")])
        self.turn(*talk("Tide, please?", "Edited.", "And now?"))
        assert server.requests[-1]["messages"] == talk("Tide, please?", "Edited.", "And now?")

    def test_what_is_no_turn_is_answered_and_not_stored(self, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
        self.turn(*talk("Tide?"))
        secret = "sk-proj-" + "a1" * 30
        for text, headers, body in [
            (f"### Task:\nGenerate a concise title …\n<chat_history>\n{secret}\n</chat_history>", {}, {}),
            (f"### Task:\nSummarize …\n### Messages Being Compacted:\n{secret}", {}, {}),
            (f"Your task is to reflect the speaker's likely facial expression … {secret}", {}, {}),
            (f"A prompt of the host's own: {secret}", {"X-OpenWebUI-Task": "emoji_generation"}, {}),
            (f"Name {secret}", {}, {"metadata": {"task": "title_generation"}}),
            (f"In a temporary chat: {secret}", {"X-OpenWebUI-Chat-Id": "temporary:Xy3"}, {"stream": True}),
        ]:
            server.script([steps.reply("Tide Times")])
            about = {"key": FRONT_END, "headers": {**self.HEADERS, **headers}, "seed": 7, **body}
            assert post(*talk(text), **about) == (200, "Tide Times")
            assert ChatMessage.objects.count() == 2
            assert (server.requests[-1]["seed"], secret in str(server.requests[-1])) == (7, False)

    def test_a_character_that_is_cut_arrives_whole(self, server):
        for body in ({}, {"metadata": {"task": "title_generation"}}):
            server.script(
                [steps.stream_of("a\ud83d", "\ude00b\ud83d"), lambda one: one.send_message(HALF, finish_reason="stop")]
            )
            answers = [post(*talk(f"Tide? {n}"), stream=stream, **body) for n, stream in enumerate((True, False))]
            assert answers == [(200, "a😀b\ufffd"), (200, "c\ufffd")]

    def test_several_models_at_once(self, server):
        """One chat, one question, a request for each model; each goes on below its own reply."""
        both = threading.Barrier(2)

        def at_once(exchange):
            both.wait(10)
            steps.reply(exchange.body["model"])(exchange)

        server.script(default=at_once)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda model: self.turn(*talk("Tide?"), model=model), MODELS)) == list(MODELS)
        server.script(default=steps.reply("Noon."))
        self.turn(*talk("Tide?", "other-model", "When?"), model="other-model")
        assert sorted(branches()) == [["Tide?", "house-model"], ["Tide?", "other-model", "When?", "Noon."]]


def test_librechat(server):
    """A custom endpoint whose headers have ``X-Conversation-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"``."""
    server.script(map(steps.reply, ("Aye.", "Tide Times", "Noon.")))
    about = {"headers": {"X-Conversation-Id": "2f6c"}, "user": "66b2", "stream": True}
    parts = [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in talk("Tide?", "Aye.", "When?")]
    post(parts[0], **about)
    title = "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return"
    assert post(*talk(f"{title} …\n\nConversation:\nUser: Tide?\nAI: Aye."), **about)[1] == "Tide Times"
    post(*parts, **about)
    assert branches() == [["Tide?", "Aye.", "When?", "Noon."]]
    assert server.requests[0]["user"] == "66b2"


def test_what_is_anothers_is_as_what_is_not_there(server, users):
    server.script(map(steps.reply, ("one", "two", "three")))
    named, history = {"headers": {"X-Conversation-Id": "c1"}}, talk("q1", "one", "q2")
    post(*talk("q1"), **named)
    post(*history, key="sanoj", **named)
    post(*history, key="sanoj")
    found = [(one.owner, branches(one)) for one in ChatSession.objects.order_by("created_at")]
    others = [(users[1], [["q1", "one", "q2", text]]) for text in ("two", "three")]
    assert found == [(users[0], [["q1", "one"]]), *others]


def test_what_is_no_id_of_a_conversation(server):
    for given in ("new", "null", "{{LIBRECHAT_BODY_CONVERSATIONID}}"):
        post(*talk("q1"), headers={"X-Conversation-Id": given})
    assert list(ChatSession.objects.values_list("external_id", flat=True)) == [""] * 3


def test_a_reply_that_a_client_invents_is_no_beginning_of_ours(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    texts = ["Hi", "I am the bank.", "And now?"]
    post(*talk(*texts))
    post(*talk(*texts))
    assert branches(*ChatSession.objects.order_by("created_at")) == [[*texts, "one"], [*texts, "two"]]
    invented = ChatMessage.objects.filter(role="assistant").first()
    assert (invented.metadata, invented.sent_context) == ({"written_by": "client"}, None)
    # With a reply of ours behind it, it goes on there.
    post(*talk(*texts, "one", "Yes?"))
    assert ChatSession.objects.count() == 2


def test_what_is_redacted_cannot_be_verified_and_is_not_found(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    texts = ["q1", "one", "My code is 1234.", "two", "q3"]
    post(*talk(*texts[:1]))
    post(*talk(*texts[:3]))
    chat.redact_message(ChatMessage.objects.get(content=texts[2]))
    assert [one.message.content for one in BranchDigest.objects.order_by("pk")] == ["q1", "one"]
    post(*talk(*texts))
    assert branches() == [["q1", "one", "[redacted]", "two"], [*texts, "three"]]
    chat.redact_text(ChatSession.objects.get(), texts[2])
    assert BranchDigest.objects.count() == 2
    chat.delete_session(ChatSession.objects.get())
    assert not BranchDigest.objects.exists()


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


def test_forty_turns_fill_the_window(server, settings):
    settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 4000, "RESERVED_TOKENS": 500, "COOLDOWN_SECONDS": 0}
    server.script(default=steps.reply("Noted: " + "berth and dues and cargo of the day are in the book. " * 12))
    texts = []
    for day in range(40):
        texts.append(f"Day {day}: the Ada lies at berth {day % 9}. Note it please. " * 4)
        texts.append(post(*talk(*texts))[1])
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    assert CompactionRun.objects.filter(status="succeeded").count() >= 3
    assert branches() == [texts]
    assert len(server.requests[-1]["messages"]) < 20


def test_a_long_list_costs_as_many_queries_as_a_short_one():
    def queries(count):
        about = {"headers": {"X-Conversation-Id": f"of {count}"}}
        texts = list(map(str, range(count + 1)))
        texts += [post(*talk(*texts), **about)[1], "next"]
        with CaptureQueriesContext(connection) as captured:
            post(*talk(*texts), **about)
        assert len(branches(ChatSession.objects.get(external_id=f"of {count}"))[0]) == len(texts) + 1
        return len(captured)

    assert queries(200) == queries(10)


def test_several_at_once_and_one_that_is_sent_again(server):
    server.script(default=steps.late(0.3, steps.reply("one")))
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
    server.script([steps.unauthorized()] * 2, default=steps.reply("At last."))
    assert ask(api.with_options(max_retries=2), *talk("q")) == "At last."
    assert [branches(one) for one in ChatSession.objects.order_by("created_at")] == [
        [["q", "Long ago."]],
        [["q", "At last."]],
    ]
    # Two clients with one key and one question: neither waits for the other.
    server.script([steps.unauthorized()] * 2, default=steps.late(0.5, steps.reply("Both.")))
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda _: ask(api.with_options(max_retries=2), *talk("twice")), range(2))
        assert list(made) == ["Both.", "Both."]
    assert ChatMessage.objects.filter(content="Both.").count() == 2


REFUSED = [
    ({"model": "gpt-unknown"}, 404, "model_not_found"),
    ({"n": 2}, 400, "unsupported_value"),
    ({"logprobs": True}, 400, "unsupported_parameter"),
    ({"functions": [{"name": "f"}]}, 400, "unsupported_parameter"),
    ({"modalities": ["text", "audio"]}, 400, "unsupported_parameter"),
    ({"store": True}, 400, "unsupported_parameter"),
    ({"service_tier": "flex"}, 400, "unsupported_parameter"),
    ({"web_search_options": {}}, 400, "unsupported_parameter"),
    ({"top_k": 5}, 400, "unsupported_parameter"),
    ({"metadata": {"a": "b"}}, 400, "unsupported_parameter"),
    ({"messages": []}, 400, None),
    ({"messages": [{"role": "user", "content": None}]}, 400, None),
    ({"headers": {"X-Conversation-Id": "x" * 256}}, 400, None),
    ({"messages": [{"role": "nobody", "content": ""}]}, 400, "invalid_message"),
    ({"messages": talk("\0")}, 400, "invalid_message"),
    ({"messages": talk("x" * 3_000_000)}, 413, None),
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
        found, error = post(*talk("q"), **body)
        assert (found, error["code"]) == (status, code)
        assert {"message", "type", "param", "code"} == set(error)
    headers = {"Authorization": "Bearer tiram"}
    response = Client(headers=headers).post("/blocking/chat/completions", [], content_type="application/json")
    assert response.json()["error"]["message"] == "The body must be an object."
    assert (ChatSession.objects.count(), server.requests) == (0, [])
    for step, status, code in FAILING:
        server.script(default=step)
        found, error = post(*talk("q"))
        assert (found, error["code"]) == (status, code)
        assert "none" not in error["message"], "the host's key"


def test_an_error_says_what_the_provider_said_once_and_with_its_type(api, server):
    server.script(default=steps.rate_limited())
    with pytest.raises(openai.RateLimitError) as refused:
        ask(api, *talk("q"))
    assert refused.value.body["message"] == "Rate limit reached for requests."
    assert (refused.value.type, str(refused.value).count("Error code")) == ("requests", 1)
    limit = steps.error_event("Rate limit reached", type="rate_limit_error", code=429)
    server.script([steps.stream_of("No", then=limit)])
    with pytest.raises(openai.APIError, match="Rate limit reached") as broken:
        ask(api, *talk("q"), stream=True)
    assert broken.value.type == "rate_limit_error"


ADDRESSES = [
    "file:///etc/passwd",
    " FILE:/etc/passwd",
    "fi\nle:///etc/passwd",
    "\u2028/etc/passwd",
    "ftp://x",
    "//x",
    "a.png",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_a_models_server_might_open_is_refused(server, address):
    for part in (
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "image_url", "image_url": address},
        {"type": "file", "file": {"file_data": address, "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": address, "format": "wav"}},
    ):
        for about in ({}, {"metadata": {"task": "title_generation"}}):
            status, error = post({"role": "user", "content": [{"type": "text", "text": "q"}, part]}, **about)
            assert (status, error["code"]) == (400, "invalid_value"), part
    assert (ChatMessage.objects.count(), server.requests) == (0, [])


def test_addresses_that_are_none_of_the_servers_own_files(server):
    parts = [
        {"type": "image_url", "image_url": {"url": "HTTPS://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]
    assert post({"role": "user", "content": [{"type": "text", "text": "q"}, *parts]})[0] == 200
    assert server.requests[0]["messages"][0]["content"][1:] == parts


SECRET = "sk-proj-" + "a1" * 30
FUNCTION = {"name": "f", "description": SECRET, "parameters": {"properties": {"x": {"enum": [SECRET]}, SECRET: {}}}}
SAID = {
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": SECRET}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "description": SECRET, "schema": {}}},
    "stop": ["end", SECRET],
    "logit_bias": {SECRET: 1},
    **dict.fromkeys(("user", "prompt_cache_key", "safety_identifier"), SECRET),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", SAID)
def test_all_that_a_client_says_passes_the_redactor(server, settings, name, stream):
    settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
    server.script(default=steps.reply("Aye."))
    for about in ({}, {"metadata": {"task": "title_generation"}}):
        assert post(*talk("q"), stream=stream, **about, **{name: SAID[name]}) == (200, "Aye.")
        assert SECRET not in json.dumps(server.requests[-1])
        assert name in server.requests[-1]


def test_values_that_ask_for_what_happens_anyway_are_no_reason_to_refuse(server):
    usual = {"n": 1, "logprobs": False, "top_logprobs": None, "store": False, "modalities": ["text"]}
    assert post(*talk("q"), **usual, service_tier="auto", metadata=None, chat_id="7d0e")[0] == 200
    assert set(server.requests[0]) == {"model", "messages"}


def test_who_may(server, settings, users):
    # A user is named by a server's key only.
    assert post(*talk("q"), key="sanoj", headers=TestOpenWebUI.HEADERS)[0] == 200
    assert ChatSession.objects.get().owner == users[1]
    nobody = {"X-OpenWebUI-User-Email": "nobody@example.org"}
    for key, headers in (("wrong", {}), (FRONT_END, {}), (FRONT_END, nobody)):
        status, error = post(*talk("q"), key=key, headers=headers)
        assert (status, OurGateway.user_header in error["message"]) == (401, key == FRONT_END)
    browser = Client()
    browser.force_login(users[0])
    assert browser.post("/v1/chat/completions", {}, content_type="application/json").status_code == 401
    settings.COMPACTION = {**settings.COMPACTION, "PERMISSION": f"{__name__}.nobody_may"}
    assert [post(*talk("q"), **body)[0] for body in ({}, {"metadata": {"task": "title_generation"}})] == [403, 403]
    assert len(server.requests) == 1


def nobody_may(user, session, action):
    return False


def test_who_may_not_change_the_prompt_adds_to_it(server, settings, users):
    settings.COMPACTION = {**settings.COMPACTION, "PERMISSION": f"{__name__}.prompts_are_ours"}
    chat.start_session(owner=users[0], external_id="c1", system_prompt="Be kind.")
    brief = {"role": "system", "content": "Be brief."}
    post(brief, *talk("q1"), headers={"X-Conversation-Id": "c1"})
    assert server.requests[-1]["messages"] == [{**brief, "content": "Be kind."}, brief, *talk("q1")]


def prompts_are_ours(user, session, action):
    return action != "change"


def test_replies_of_one_user_have_a_bound(api, server, monkeypatch):
    monkeypatch.setattr(Gateway, "at_once", 2)
    server.script([steps.stream_of("Half ", then=steps.hang())] * 2)
    hanging = [api.chat.completions.create(model="house-model", messages=talk(f"Q{n}"), stream=True) for n in (1, 2)]
    with pytest.raises(openai.RateLimitError) as caught:
        ask(api, *talk("Q3"))
    assert (caught.value.code, caught.value.response.headers["Retry-After"]) == ("too_many_replies", "5")
    assert "wait for one of them" in caught.value.message
    for one in hanging:
        one.close()
    server.wait_for_disconnects(2)
    until = time.monotonic() + 20
    while ReplyClaim.objects.exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    assert ask(api, *talk("Q3"))


def test_with_the_database_away_the_last_event_says_so(server):
    is_away = []

    def answer(exchange):
        exchange.send_delta({"content": "Aye."})
        is_away.append(True)
        exchange.end_stream("stop")

    server.script([answer])
    headers = {"Authorization": "Bearer tiram"}
    body = {"model": "house-model", "messages": talk("Ready?"), "stream": True}
    response = Client(headers=headers).post("/blocking/chat/completions", body, content_type="application/json")
    with failing(lambda _: bool(is_away)):
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
        about = {"headers": {"X-Conversation-Id": "c1"}}
        roofer, other = ({"role": "system", "content": text} for text in ("A roofer.", "Another roofer."))
        reply = post(roofer, *talk("How old?"), **about)[1]
        session = ChatSession.objects.get()
        for prompt in ([], [{"role": "system", "content": "Titles only."}]):
            post(*prompt, *talk(f"User: How old?\nAI: {reply}"), **about)
            post(*prompt, *talk("How old?"), **about)
            session.refresh_from_db()
            assert session.system_prompt == "A roofer."
        post(other, *talk("How old?", reply, "And now?"), **about)
        session.refresh_from_db()
        assert session.system_prompt == "Another roofer."

    def test_a_prompt_is_counted_with_the_request_that_has_it(self, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "CONTEXT_WINDOW": 6000}
        about = {"headers": {"X-Conversation-Id": "c1"}}
        post({"role": "system", "content": "Brief."}, *talk("q"), **about)
        post({"role": "system", "content": "word " * 1500}, *talk("q2"), **about)
        small, large = (one.sent_context["tokens"] for one in ChatMessage.objects.filter(role="assistant"))
        assert large - small > 1400


def without_tools(messages):
    return [one for one in messages if one["role"] != "tool" and not one.get("tool_calls")]


def newest_question(messages):
    return max(place for place, one in enumerate(messages) if one["role"] == "user")


def with_reminder(messages):
    """At the newest question, whatever has come after it."""
    at = newest_question(messages)
    changed = {**messages[at], "content": f"<reminder>It is {len(messages)}.</reminder>\n{messages[at]['content']}"}
    return [*messages[:at], changed, *messages[at + 1 :]]


def changed(messages, role, **values):
    return [
        {**one, **{key: made(one) for key, made in values.items()}} if one["role"] == role else one for one in messages
    ]


def with_arguments(text):
    def call(one):
        return {**one, "function": {**one["function"], "arguments": text}}

    return lambda messages: [
        {**one, "tool_calls": [call(each) for each in one["tool_calls"]]} if one.get("tool_calls") else one
        for one in messages
    ]


#: What clients do to their list before they send it.
CLIENTS = {
    "as it is": lambda messages: messages,
    "without tool messages": lambda messages: [*without_tools(messages[:-3]), *messages[-3:]],
    "a reminder before the newest question": with_reminder,
    "a system message before the newest": lambda messages: [
        *messages[: (at := newest_question(messages))],
        {"role": "system", "content": f"It is {at}."},
        *messages[at:],
    ],
    "the last eight": lambda messages: messages[-8:],
    "the first and the last six": lambda messages: messages if len(messages) < 8 else [messages[0], *messages[-6:]],
    "the last eight, with a reminder": lambda messages: with_reminder(messages[-8:]),
    "a name before each reply": lambda messages: changed(
        messages, "assistant", content=lambda one: one["content"] and f"[house] {one['content']}"
    ),
    "a time before each earlier question": lambda messages: [
        *changed(messages[:-4], "user", content=lambda one: f"[12:00] {one['content']}"),
        *messages[-4:],
    ],
    "empty arguments": with_arguments(""),
    "arguments that are an empty object": with_arguments("{}"),
    "arguments that were no JSON": with_arguments('"{no"'),
    "calls in another order": lambda messages: changed(
        messages, "assistant", tool_calls=lambda one: one.get("tool_calls", [])[::-1]
    ),
    "results in another order": lambda messages: [
        *messages[:-2],
        *(messages[:-3:-1] if messages[-1]["role"] == "tool" else messages[-2:]),
    ],
    "no text beside calls": lambda messages: [
        {**one, "content": None} if one.get("tool_calls") else one for one in messages
    ],
    "old results cleared": lambda messages: [
        *changed(messages[:-2], "tool", content=lambda one: "[cleared]"),
        *messages[-2:],
    ],
    "all fields written out": lambda messages: [
        {"refusal": None, "function_call": None, **one, "content": one["content"] or ""} for one in messages
    ],
    "a time in the instructions": lambda messages: [
        {"role": "system", "content": f"{len(messages)} seconds past noon."},
        *messages,
    ],
    "a time as a part of the newest question": lambda messages: [
        {**one, "content": [{"type": "text", "text": text} for text in (one["content"], f"It is {at}.")]}
        if at == newest_question(messages)
        else one
        for at, one in enumerate(messages)
    ],
    "parts": lambda messages: changed(
        messages, "user", content=lambda one: [{"type": "text", "text": word} for word in one["content"].split(". ")]
    ),
}


@pytest.mark.parametrize("header", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_writes_its_list_its_own_way_has_one_session(server, name, header):
    """Each turn has two calls, two results and a reply; what is stored grows by the turn and not by the list."""
    about = {"headers": {"X-Conversation-Id": "c1"}} if header else {}
    messages, stored, turns = [], [], 6
    for turn in range(turns):
        asked = [("look", "{no" if "no JSON" in name else "{}", f"call_{turn}_{number}_of_ours") for number in (1, 2)]
        made = [{"id": each, "type": "function", "function": {"name": f, "arguments": text}} for f, text, each in asked]
        calling = {"content": "Let me see.", "tool_calls": made}
        reply = f"The tide of day {turn} is high at noon, and the boats leave the harbour after that."
        server.script(
            [lambda exchange, said=calling: exchange.send_message(said, finish_reason="tool_calls"), steps.reply(reply)]
        )
        messages.append({"role": "user", "content": f"Tide of day {turn}? We sail from berth {turn}. Is there wind?"})
        assert post(*CLIENTS[name](messages), **about)[0] == 200
        messages += [{"role": "assistant", **calling}]
        messages += [{"role": "tool", "tool_call_id": each, "content": f"Result {each}"} for *_, each in asked]
        assert post(*CLIENTS[name](messages), **about) == (200, reply)
        messages.append({"role": "assistant", "content": reply})
        stored.append(ChatMessage.objects.count())
    assert ChatSession.objects.count() == 1
    grown = {after - before for before, after in pairwise(stored)}
    assert max(grown) <= 8
    assert ChatMessage.objects.filter(content=messages[-1]["content"]).count() == 1
    newest = [one for one in server.requests[-1]["messages"] if one["role"] == "tool"][-2:]
    assert {one["content"] for one in newest} == {one["content"] for one in messages[-3:-1]}


def test_an_edit_above_replies_that_stay_is_a_branch(server):
    server.script(default=steps.reply_with(lambda body: f"Answer {len(server.requests)} about the tides of that day."))
    texts = ["Which tide is on Monday?"]
    for question in ("And on Tuesday?", "And on Friday?"):
        texts += [post(*talk(*texts))[1], question]
    texts += [post(*talk(*texts))[1], "Thanks."]
    edited = [*texts[:2], "What about the ferry at night?", *texts[3:]]
    reply = post(*talk(*edited))[1]
    assert server.requests[-1]["messages"] == talk(*edited)
    assert branches() == [texts[:-1], [*edited, reply]]


def test_instructions_above_a_reply_that_the_branch_does_not_have_are_stored_below_it(server):
    long = "The tide of that day is high at noon, and the boats leave after that."
    server.script(default=steps.reply(long))
    post(*talk("Tide?"))
    note = {"role": "developer", "content": "Say it in German."}
    first, *rest = talk("Tide?", long, "And tomorrow?", long, "And on Friday?")
    for sent in ([first, note, *rest[:2]], [first, note, *rest[:2]], [first, note, *rest]):
        post(*sent)
        shown = [one for one in server.requests[-1]["messages"] if one != note]
        assert (shown, server.requests[-1]["messages"].count(note)) == ([first, *sent[2:]], 1)
    assert ChatSession.objects.count() == 1


CHATTER = ("OK.", "Hi! How can I help you today?", "I'm sorry, but I can't assist with that. Is there anything else?")
SAYS = ("yes", "Hi", "go on", "Thanks. ")
TRIMMING = ("the last eight", "the first and the last six", "the last eight, with a reminder")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_no_request_is_shown_another_conversation(server, seed):
    """Of chats that say the same most of the time: their clients trim, edit and add to their lists, at random."""
    chance = random.Random(seed)
    server.script(
        default=steps.reply_with(lambda body: chance.choice([*CHATTER, f"Of berth {chance.random()} nothing."]))
    )
    named = (*TRIMMING, "as it is", "a reminder before the newest question", "a system message before the newest")
    chats = [(chance.choice(named), chance.choice(("tiram", "tiram", "sanoj")), []) for _ in range(8)]
    for turn in range(60):
        number = chance.randrange(len(chats))
        name, key, messages = chats[number]
        questions = [at for at, one in enumerate(messages) if one["role"] == "user"]
        if questions and chance.random() < 0.1:
            # Asked anew from there, or changed where it is.
            at = chance.choice(questions)
            del messages[at if chance.random() < 0.5 else len(messages) :]
            messages[at : at + 1] = [{"role": "user", "content": f"chat-{number}- changed {chance.random()}"}] * (
                at < len(messages)
            )
        said = chance.choice(SAYS) if chance.random() < 0.5 else f"chat-{number}- question {turn}"
        messages.append({"role": "user", "content": said})
        sent = CLIENTS[name](messages)
        status, reply = post(*sent, key=key)
        shown = server.requests[-1]["messages"]
        assert (status, shown[-1]) == (200, sent[-1])
        assert set(re.findall(r"chat-\d+-", json.dumps(shown))) <= {f"chat-{number}-"}
        messages.append({"role": "assistant", "content": reply})


def test_stopped_replies_one_after_another_cost_no_query_each(users):
    """Their clients have seen the beginning of each."""

    def queries(count):
        session, sent, tip = chat.start_session(owner=users[0], external_id=f"of {count}"), [], None
        start, has_reply = str(users[0].pk), False
        for number in range(count):
            question, whole = talk(f"q{number}", f"Reply {number} and all of its words")
            [start] = placing.digests_of([{**question, "tool_calls": []}], start)
            [tip] = chat.append_messages(session, tip, [question])
            placing._remember([tip], [start], has_reply, tip.parent_message_id, "default")
            at = placing.Place(session=session, tip=tip, digest=start, has_reply=has_reply)
            tip, has_reply = chat.append_message(session, tip, finish_reason="stopped", **whole), True
            placing.remember_reply(at, tip, "default")
            start = BranchDigest.objects.get(pk=tip.pk).digest
            sent += talk(f"q{number}", f"Reply {number} and")
        with CaptureQueriesContext(connection) as captured:
            assert post(*sent, *talk("next"), headers={"X-Conversation-Id": f"of {count}"})[0] == 200
        assert len(branches(session)) == 1
        return len(captured)

    assert queries(160) <= queries(5) + 1


def test_a_stream_shows_the_ids_of_calls_that_are_stored(server):
    """Whether a provider sends none, one twice, or one too late."""
    piece = {"index": 0, "type": "function", "function": {"name": "f", "arguments": '{"x": '}}
    rest = {"index": 0, "id": "late", "function": {"arguments": "1}"}}
    twice = [{**piece, "index": at, "id": "c", "function": {"name": "f", "arguments": "{}"}} for at in (0, 1)]
    for pieces in ([piece, rest], [{**piece, "id": ""}, rest], [{**piece, "id": "c1"}, rest], twice):
        server.script([steps.stream_of(*({"tool_calls": [one]} for one in pieces), finish_reason="tool_calls")])
        user = get_user_model().objects.first()
        tip = chat.append_message(chat.start_session(owner=user, model="m"), role="user", content="q")
        with chat.stream(tip) as chunks:
            shown = [one for chunk in chunks for choice in chunk.choices for one in choice.delta.tool_calls or ()]
        stored = [call["id"] for call in chunks.message.tool_calls]
        assert [one.id for one in shown if one.id] == stored
        assert len(set(stored)) == len(stored)


def test_own_digests_come_and_go_with_their_migration(server):
    """What an earlier version stored is still found by its beginning."""
    server.script(map(steps.reply, ("one", "two")))
    post(*talk("q1"))
    for target in ("0001", "0002"):
        call_command("migrate", "compaction_gateway", target, verbosity=0)
    assert set(BranchDigest.objects.values_list("own", flat=True)) == {""}
    post(*talk("q1", "one", "q2"))
    assert branches() == [["q1", "one", "q2", "two"]]
