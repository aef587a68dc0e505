"""A branch grown to a million tokens: what is summarized, how often, and what it costs (issue: measurements)."""

import os
import re

import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.models import CompactionRun
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import ExactTokenCounter
from tests.small import asks
from tests.steps import fill_target

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

#: The arithmetic is the same on both databases: on PostgreSQL a quarter of the way is enough to see that.
TOKENS = 1_000_000 if os.environ["TEST_DATABASE"] == "sqlite" else 250_000
NUMBER = re.compile(r"message-(\d{6})")
WORDS = "the harbour office keeps tide tables for ships that wait outside until the water is high enough".split()


def text(number):
    filler = " ".join(WORDS[(number + offset) % len(WORDS)] for offset in range(84))
    return f"message-{number:06d} {filler}"


def covered_and_shown(request):
    """Numbers before and after the cutoff marker of one summarizer request; the previous summary's are left out."""
    *_, material = request["messages"][1]["content"].partition("</previous-summary>")
    before, _, after = (material or request["messages"][1]["content"]).partition("<cutoff id=")
    return [int(n) for n in NUMBER.findall(before)], [int(n) for n in NUMBER.findall(after)]


def test_a_million_tokens_are_each_summarized_once_at_a_bounded_price(settings, monkeypatch, record_testsuite_property):
    """Nothing is sent twice except through the summary before it, nothing is missed, and all the summarizer's
    input together is at most 1.35 times the conversation: each request has the summary before it, and the memory that
    is to stand beside the next one."""
    monkeypatch.setattr("compaction_app.tasks.enqueue", lambda run: True)
    count = ExactTokenCounter()
    with ScriptedOpenAIServer(default=fill_target(1.0)) as server:
        model = {"model": "m", "base_url": server.url, "api_key_env": "SCRIPTED_KEY", "max_input_tokens": 200_000}
        settings.COMPACTION = {"CONTEXT_WINDOW": 128_000, "COOLDOWN_SECONDS": 0, **asks(MODELS=[model])}
        monkeypatch.setenv("SCRIPTED_KEY", "none")
        session = chat.start_session(model="m")
        tip, number = None, 0
        while tip is None or tip.path_tokens < TOKENS:
            roles = ("user", "assistant") * 10
            chunk = [{"role": role, "content": text(number + i)} for i, role in enumerate(roles)]
            tip = chat.append_messages(session, tip, chunk)[-1]
            number += len(chunk)
            run = chat.request_compaction(tip)
            if run is not None:
                compact_chat_history(run.pk)
        requests = server.requests

    assert set(CompactionRun.objects.values_list("status", flat=True)) == {"succeeded"}
    covered = [n for request in requests for n in covered_and_shown(request)[0]]
    assert covered == list(range(len(covered)))
    tail = [int(NUMBER.search(m.content)[1]) for m in chat.get_context(tip).messages if m.origin == "verbatim"]
    assert covered + tail == list(range(number))

    sent = sum(sum(count([m["content"] for m in request["messages"]])) for request in requests)
    record_testsuite_property("summarizer input ÷ conversation", round(sent / tip.path_tokens, 3))
    assert sent <= 1.35 * tip.path_tokens
