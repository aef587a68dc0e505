"""``/compact`` and ``/compactions``, typed into a client: the gateway answers, and no model."""

from __future__ import annotations

import json

import openai
import pytest
from django.core.cache import cache
from django.utils.formats import date_format
from django.utils.timezone import localtime

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing import steps
from tests.contrib.gateway.site import BY_EITHER, ask, branches, post, talk
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]

LONG = [f"Day {day}: the Ada lies at berth {day}. " * 40 for day in range(6)]


@pytest.fixture(autouse=True)
def site(settings, server):
    settings.COMPACTION = small(CONTEXT_WINDOW=100_000)
    settings.TIME_ZONE = "Asia/Tokyo"
    cache.clear()
    server.script(default=steps.reply("Noted."))


@pytest.fixture
def told(server):
    """A list with some turns, as a client has it."""
    texts = []
    for text in LONG:
        texts += [text, "Noted."]
        post(*talk(*texts[:-1]))
    return texts


@BY_EITHER
@pytest.mark.parametrize("stream", [False, True])
def test_it_compacts_and_is_no_message_of_the_tree(api, server, told, stream):
    before = len(server.requests)
    line = ask(api, *talk(*told, "/compact Keep the berths."), stream=stream)
    run = CompactionRun.objects.get()
    assert (run.status, run.trigger, run.instructions) == ("succeeded", "manual", "Keep the berths.")
    made = date_format(localtime(run.created_at), "SHORT_DATETIME_FORMAT")
    assert line.startswith(f"Compacted. Summary 1 of {made}: ")
    assert f"{run.messages_compacted} messages, {run.tokens_before} → {run.tokens_after} tokens." in line
    assert "\n" not in line
    listed = ask(api, *talk(*told, "/compact Keep the berths.", line, " /compactions\n"), stream=stream)
    assert listed == f"- {line.removeprefix('Compacted. ')}"
    asked = [body["model"] for body in server.requests[before:]]
    assert "house-model" not in asked
    pairs = ["/compact Keep the berths.", line, "/compactions", listed]
    # One that got no answer, too.
    assert ask(api, *talk(*told, *pairs), *talk("/compact"), *talk("And today?"), stream=stream) == "Noted."
    assert branches() == [[*told, "And today?", "Noted."]]
    # The summary is sent, and no command.
    sent = server.requests[-1]["messages"]
    assert len(sent) < len(told)
    assert "/compact" not in json.dumps(sent)


def test_before_anything_was_said_and_where_nothing_is_new(server):
    for text, line in (("/compact", "Nothing to compact."), ("/compactions", "Nothing to compact.")):
        assert post(*talk(text)) == (200, line)
        kept = {"X-OpenWebUI-Chat-Id": "temporary:1"}
        assert post(*talk("q", "a", text), headers=kept) == (200, line)
    assert (ChatSession.objects.count(), server.requests) == (0, [])
    post(*talk("q"))
    assert post(*talk("q", "Noted.", "/compact")) == (200, "Nothing to compact.")
    assert post(*talk("q", "Noted.", "/compactions")) == (200, "Nothing of this branch is summarized.")
    status, error = post(*talk("/compact", "Nothing to compact."))
    assert (status, error["message"]) == (400, "There is no message behind the gateway's own answer.")
    assert ChatMessage.objects.count() == 2


def test_while_a_worker_compacts_it_says_so(server, told):
    tip = ChatMessage.objects.latest("id")
    run = chat.request_compaction(tip, trigger="manual")
    assert CompactionRun.objects.claim(run.pk)
    assert post(*talk(*told, "/compact")) == (200, "This branch is being compacted already.")


def test_words_that_are_no_command(server):
    for text in ("/compactly", "Say /compact", "/compactions of today"):
        assert post(*talk(text)) == (200, "Noted.")
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert post({"role": "user", "content": [{"type": "text", "text": "/compact"}, picture]}) == (200, "Noted.")


def test_who_may_and_how_often(api, server, settings, told):
    settings.COMPACTION = {**settings.COMPACTION, "MANUAL_THROTTLE": "1/h"}
    assert post(*talk(*told, "/compact"))[0] == 200
    with pytest.raises(openai.RateLimitError, match="1/h requests") as refused:
        ask(api, *talk(*told, "/compact"))
    assert int(refused.value.response.headers["Retry-After"]) > 0
    settings.COMPACTION = {**settings.COMPACTION, "PERMISSION": f"{__name__}.only_turns"}
    for command in ("/compact", "/compactions"):
        assert post(*talk(*told, command))[0] == 403
    assert CompactionRun.objects.count() == 1


def only_turns(user, session, action):
    return action not in ("compact", "inspect")


def test_a_summary_that_cannot_be_made_is_an_error(server, settings, told):
    server.script(model="summarizer", default=steps.bad_request("No."))
    settings.COMPACTION = small(asked={"MODELS": ["summarizer"]})
    status, error = post(*talk(*told, "/compact"))
    assert (status, "The summary could not be made" in error["message"]) == (502, True)
    assert branches() == [told]
