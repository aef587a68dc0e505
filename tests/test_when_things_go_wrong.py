"""What goes wrong, what happens then, and who sees it: one story for each fault.

With a real HTTP server in the model's place, a real broker, and the pages of the admin as a person reads them. Two
rows are shown elsewhere: a worker that dies in the middle of a call in ``test_tasks``
(``test_workers_carry_out_what_was_requested_missed_and_left_by_a_killed_one``), and that nothing of an erased text is
left anywhere in ``test_erased_text``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import translation

from compaction_app import chat, tasks
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tree.verify import verify_session
from tests.small import asks
from tests.steps import fill_target
from tests.summarizers.summarizing import KEY, KEY_VARIABLE

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Vineta lies under the sea"
GOOD = "## Recap\n\nBerth 3 is taken and berth 4 is taken, says Ida; both are on the board, and all is well."
RUN_LIST = "admin:compaction_app_compactionrun_changelist"
#: At most, for what takes a fraction of it on an idle machine. Below the summarizer's time-out.
WAIT_SECONDS = 20


@pytest.fixture
def server(monkeypatch, settings):
    """Two models behind one address."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with ScriptedOpenAIServer(default=steps.reply(GOOD)) as running:
        entry = {"base_url": running.url, "api_key_env": KEY_VARIABLE}
        settings.COMPACTION = {
            "CONTEXT_WINDOW": 4_000,
            "COOLDOWN_SECONDS": 0,
            "SUMMARIZERS": {
                "default": {"TIMEOUT": 30, "MODELS": [{"model": "first", **entry}, {"model": "second", **entry}]}
            },
        }
        yield running


def talk(session: ChatSession, parent: ChatMessage | None = None, turns: int = 60) -> list[ChatMessage]:
    """More than a prompt can hold, unless fewer turns are asked for; the first message tells a secret."""
    messages = []
    for number in range(turns):
        told = "All is well" if number else SECRET
        question = f"{told}, says Ida, and berth {number} is taken. What do the tide tables say for {number}? " * 2
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": f"Noted: {number} is on the board."})
    return chat.append_messages(session, parent, messages)


def page_of(client: Client, row: Any) -> str:
    """What the admin's page of a row says, as a person reads it."""
    name = f"admin:compaction_app_{row._meta.model_name}_change"
    return text_of(client.get(reverse(name, args=[row.pk])))


def event_list(client: Client, session: ChatSession) -> str:
    return text_of(client.get(reverse("admin:compaction_app_compactionevent_changelist"), {"session": session.pk}))


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", response.text)).split())


def events(session: ChatSession, kind: str) -> list[dict[str, Any]]:
    found = CompactionEvent.objects.filter(session=session, kind=kind).order_by("id")
    return list(found.values_list("payload", flat=True))


def requested(tip: ChatMessage) -> CompactionRun:
    run = chat.request_compaction(tip)
    assert run is not None
    return run


@contextmanager
def carried_out_meanwhile(run: CompactionRun, server: ScriptedOpenAIServer) -> Iterator[None]:
    """The body runs while another thread waits for the model that it asked about the run."""
    asked, gate = len(server.requests), Event()

    def answer(exchange: Exchange) -> None:
        gate.wait(WAIT_SECONDS)
        steps.reply(GOOD)(exchange)

    server.script([answer])

    def carry_out() -> None:
        try:
            tasks.compact_branch(run.pk)
        finally:
            connections.close_all()

    thread = Thread(target=carry_out)
    thread.start()
    server.wait_for(asked + 1)
    try:
        yield
    finally:
        gate.set()
        thread.join(WAIT_SECONDS)
    run.refresh_from_db()


class TestEveryModelFails:
    def test_for_now_it_is_tried_again_later_and_the_prompt_fits_meanwhile(self, server, broker, admin_client, caplog):
        """A provider asks for a minute: the same run, one summary. The minute is not waited for."""
        server.script([steps.rate_limited(retry_after=60)], model="first")
        server.script([steps.server_error()], model="second")
        tip = talk(chat.start_session())[-1]
        run = requested(tip)
        caplog.set_level("INFO", "compaction_app")
        assert tasks.compact_branch(run.pk) == "ready"
        [countdown] = re.findall(rf"enqueued run={run.pk} .*countdown=([\d.]+)", caplog.text)
        assert 55 < float(countdown) < 65
        assert f"retry run={run.pk} code=provider_error" in caplog.text
        run.refresh_from_db()
        assert (run.status, run.attempts) == ("ready", 1)
        context = chat.get_context(tip)
        assert (context.strategy, context.summary_id) == ("truncated", None)
        assert context.dropped > 0
        assert context.history_tokens <= context.available_tokens
        page = page_of(admin_client, run)
        assert "first: provider_error" in page
        assert "second: provider_error" in page
        CompactionRun.objects.filter(pk=run.pk).update(next_attempt_at=None)
        assert tasks.compact_branch(run.pk) == "succeeded"
        run.refresh_from_db()
        assert (run.attempts, run.error_code, run.error_detail) == (2, "", "")
        assert [server.count(model) for model in ("first", "second")] == [2, 1]
        assert [payload["attempt"] for payload in events(tip.session, "started")] == [1, 2]
        assert events(tip.session, "failed") == []
        assert chat.get_context(tip).strategy == "auto_compact"
        assert CompactionRun.objects.count() == ChatMessage.objects.summaries().count() == 1

    def test_for_good_an_extract_stands_in_and_everybody_is_told_why(self, server, admin_client, settings, caplog):
        server.script(model="first", default=steps.unauthorized())
        server.script(model="second", default=steps.bad_request("No such model."))
        session = chat.start_session()
        tip = talk(session)[-1]
        run = requested(tip)
        planned = run.anchor_id, run.cutoff_id
        assert tasks.compact_branch(run.pk) == "succeeded"
        run.refresh_from_db()
        assert (run.error_code, run.attempts, run.generation) == ("authentication", 1, 1)
        assert "second: bad_request (HTTP 400: No such model.)" in run.error_detail
        assert KEY not in run.error_detail
        assert (run.anchor_id, run.cutoff_id) == planned
        assert (run.summary.is_extract, run.summary.model, run.summarizer_model) == (True, *["extractive"] * 2)
        assert run.summary.content.count("is taken") >= 10
        assert events(session, "model_failed") == [{"model": "first", "code": "authentication", "instead": "extract"}]
        assert (events(session, "failed"), len(events(session, "completed"))) == ([], 1)
        assert f"failed run={run.pk} code=authentication attempts=1 session={session.pk} instead=extract" in caplog.text
        context = chat.get_context(tip)
        assert (context.strategy, context.summary_id, context.dropped) == ("auto_compact", run.summary_id, 0)
        for page in (page_of(admin_client, run), text_of(admin_client.get(reverse(RUN_LIST)))):
            assert "Succeeded : extract instead of a model's summary: authentication" in page
        assert "No such model." in page_of(admin_client, run)
        for listed in (f"sessions/{session.pk}/compactions", f"sessions/{session.pk}/compactions/1"):
            said = admin_client.get(f"/api/v1/{listed}").json()
            assert (said["items"][0] if "items" in said else said)["error_code"] == "authentication"
        with translation.override("de"):
            admin_client.cookies[django_settings.LANGUAGE_COOKIE_NAME] = "de"
            assert "Auszug statt der Zusammenfassung eines Modells: Anmeldung" in page_of(admin_client, run)
        assert verify_session(session).problems == []
        # The next generation asks a model again.
        for model in ("first", "second"):
            server.script(model=model, default=steps.reply(GOOD))
        tip = talk(session, tip)[-1]
        again = requested(tip)
        assert tasks.compact_branch(again.pk) == "succeeded"
        again.refresh_from_db()
        assert (again.error_code, again.base_id, again.summary.is_extract) == ("", run.summary_id, False)


def test_a_summary_that_does_not_shrink_twice_in_a_row_opens_the_breaker(server, settings, admin_client):
    """Where the target is most of what is replaced, a draft can be as long as was asked for and gain nothing."""
    settings.COMPACTION = {
        **settings.COMPACTION,
        "CONTEXT_WINDOW": 10_000,
        "TRIGGER_TOKENS_CAP": 1_600,
        "RECENT_TOKENS_CAP": 300,
        "EXTRACT_FALLBACK": False,
        **asks(MODELS=settings.COMPACTION["SUMMARIZERS"]["default"]["MODELS"][:1]),
    }
    server.script(default=fill_target(1.3))
    session = chat.start_session()
    tip = talk(session, turns=26)[-1]
    for _ in range(2):
        run = requested(tip)
        assert tasks.compact_branch(run.pk) == "failed"
    asked = len(server.requests)
    assert chat.request_compaction(tip) is None
    assert len(server.requests) == asked == 2
    assert len(events(session, "no_progress")) == 2
    assert events(session, "suppressed") == [{"reason": "breaker", "failures": 2}]
    listed = event_list(admin_client, session)
    assert listed.count("code no progress") == 2
    assert "reason breaker" in listed
    server.script([steps.reply(GOOD)])
    assert chat.compact(tip).status == "succeeded", "a person may still try"


class TestRedaction:
    def test_every_summary_that_may_hold_the_text_is_retired_and_emptied(self, server, admin_client):
        """Transitively, an earlier retired one too, with the runs' texts; a summary above it stays."""
        server.script(default=steps.reply(f"## Recap\n\nIda told you that {SECRET}."))
        session = chat.start_session(title="A talk")
        above = talk(session, turns=10)
        first = chat.compact(above[-1]).summary
        messages = talk(session, above[-1], turns=10)
        second = chat.compact(messages[-1], instructions=SECRET).summary
        third = chat.compact(talk(session, messages[-1], turns=10)[-1]).summary
        chat.retire_summary(third, reason="too short")
        redacted = chat.redact_message(messages[0])
        for summary in (second, third):
            summary.refresh_from_db()
            assert (summary.content, summary.retired_at is None) == ("", False)
        first.refresh_from_db()
        assert (SECRET in first.content, first.retired_at) == (True, None)
        assert chat.find_summary(messages[-1]) == first
        run = second.made_by.get()
        assert run.instructions == ""
        assert redacted.content == "[redacted]"
        assert events(session, "invalidated") == [{"summaries": 2, "erasure": "redaction"}]
        assert "redaction" in page_of(admin_client, second)
        assert SECRET not in page_of(admin_client, second)
        session.refresh_from_db()
        assert session.erasures == 1
        assert verify_session(session).problems == []


def test_a_tip_deleted_while_compacting_leaves_nothing_and_the_record_says_why(server, admin_client, caplog):
    caplog.set_level("INFO", "compaction_app")
    session = chat.start_session()
    messages = talk(session)
    run = requested(messages[-1])
    with carried_out_meanwhile(run, server):
        chat.delete_message(messages[-1])
        before = list(ChatMessage.objects.order_by("id").values())
    assert (run.status, run.skip_reason, run.summary_id) == ("skipped", "branch_gone", None)
    assert (run.generation, run.claim_token, run.tip_id) == (None, None, None)
    assert list(ChatMessage.objects.order_by("id").values()) == before
    assert [(event.kind, event.payload.get("reason")) for event in run.events.order_by("id")][-1] == (
        "suppressed",
        "branch_gone",
    )
    assert events(session, "invalidated") == [{"messages": 1, "erasure": "deletion"}]
    assert "Skipped : branch gone" in page_of(admin_client, run)
    assert f"skip run={run.pk} session={session.pk} reason=branch_gone attempts=1" in caplog.text
    assert tasks.compact_branch(requested(messages[-2]).pk) == "succeeded"
