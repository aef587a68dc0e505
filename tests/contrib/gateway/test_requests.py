"""Requests that are refused, what is sent to the provider, and permissions."""

from __future__ import annotations

import json
import time

import openai
import pytest
from django.test import Client

from compaction_app import chat
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.models import ChatMessage, ChatSession, ReplyClaim
from compaction_app.testing import steps
from tests.contrib.gateway.site import FRONT_END, OurGateway, ask, post, talk
from tests.steps import error_event, stream_of, unauthorized

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]


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
    (steps.rate_limited(retry_after=0.1), 429, "rate_limit_exceeded"),
    (unauthorized(), 502, None),
    (steps.reply(""), 502, "empty_reply"),
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
    server.script(default=steps.rate_limited(retry_after=0.1))
    with pytest.raises(openai.RateLimitError) as refused:
        ask(api, *talk("q"))
    assert refused.value.body["message"] == "Rate limit reached for requests."
    assert (refused.value.type, str(refused.value).count("Error code")) == ("requests", 1)
    limit = error_event("Rate limit reached", type="rate_limit_error", code=429)
    server.script([stream_of("No", then=limit)])
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


@pytest.mark.few
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
    assert post(*talk("q"), key="sanoj", headers={OurGateway.user_header: "marit@example.org"})[0] == 200
    assert ChatSession.objects.get().owner == users[1]
    nobody = {OurGateway.user_header: "nobody@example.org"}
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


@pytest.mark.long
def test_replies_of_one_user_have_a_bound(api, server, monkeypatch):
    monkeypatch.setattr(Gateway, "at_once", 2)
    server.script([stream_of("Half ", then=steps.hang())] * 2)
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
