"""A gateway as a host mounts it, and requests as front ends send them."""

from __future__ import annotations

import json
import threading
import time

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.urls import include, path

from compaction_app import chat
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.models import ChatSession

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

#: It loads the middleware once.
HANDLER = Client().handler
BY_EITHER = pytest.mark.parametrize("api", ["live_server", "asgi_server"], indirect=True)


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
    client = Client(headers=named)
    client.handler = HANDLER
    try:
        response = client.post("/blocking/chat/completions", body, content_type="application/json")
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


def shown_before_a_stop(api, server, said=None, **asked):
    """What a client has of a reply that it stops; the server may have more of it."""

    def endless(exchange):
        if said:
            named = {"index": 0, "id": "call_x", "type": "function", "function": {"name": "look", "arguments": ""}}
            exchange.send_delta({"tool_calls": [named]})
        while not exchange.client_left:
            exchange.send_delta(said or {"content": "word "})
            exchange.wait(0.02)

    server.script([endless])
    chunks = api.chat.completions.create(model=MODELS[0], stream=True, **asked)
    shown = "".join(next(chunks).choices[0].delta.content or "" for _ in range(3))
    chunks.close()
    server.wait_for_disconnects(1)
    give_up = time.monotonic() + 10
    while shown and not BranchDigest.objects.filter(message__finish_reason="stopped") and time.monotonic() < give_up:
        time.sleep(0.05)
    return shown


def branches(*sessions):
    """The texts of every branch, by default of the only session."""
    sessions = sessions or [ChatSession.objects.get()]
    return [[one.content for one in chat.get_branch(tip)] for session in sessions for tip in chat.tips(session)]
