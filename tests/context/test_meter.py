"""How full the window is at a tip, by what, and the state of its branch."""

import json
from dataclasses import asdict

import pytest

from compaction_app import chat, tasks
from compaction_app.exceptions import ContextOverflow
from compaction_app.messages.transcript import RECALL_TOOL
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small, talk

pytestmark = pytest.mark.django_db(transaction=True)

TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(autouse=True)
def _small(settings):
    settings.COMPACTION = small()


def due_tip(**session):
    return grow(chat.start_session(model="m", **session), None, "u(90) a(90) " * 40)[-1]


def test_its_parts_are_those_of_the_context():
    tip = due_tip(system_prompt="Be brief.")
    pinned = chat.get_branch(tip)[2]
    chat.pin_message(pinned)
    chat.compact(tip)
    calls = [{"id": "c", "type": "function", "function": {"name": RECALL_TOOL, "arguments": "{}"}}]
    tip = grow(tip.session, tip, "u")[-1]
    tip = chat.append_message(tip.session, tip, role="assistant", content="", tool_calls=calls)
    tip = chat.append_message(
        tip.session, tip, role="tool", name=RECALL_TOOL, tool_call_id="c", content="Found at berth nine."
    )
    given = {"tools": TOOLS, "contributions": [{"role": "developer", "content": "The tide is in."}]}
    meter, context = chat.measure(tip, **given), chat.get_context(tip, **given)
    parts = (meter.summary, meter.pins, meter.recalled, meter.messages)
    assert all(size > 0 for size in (*parts, meter.system_prompt, meter.tools, meter.contributions))
    assert sum(parts) == meter.history == context.history_tokens
    fixed = meter.system_prompt + meter.tools + meter.contributions
    assert fixed == context.tokens - context.history_tokens
    assert fixed + meter.reserved + meter.available == meter.window
    assert meter.recalled == tip.token_count
    assert (meter.threshold, meter.tip_id, meter.state) == (context.threshold, tip.pk, "ok")
    # Numbers and codes: nothing that anybody said.
    assert "berth" not in str(asdict(meter))


class TestState:
    def test_due_running_ok(self, django_capture_on_commit_callbacks):
        tip = due_tip()
        assert chat.measure(grow(tip.session, None, "u a")[-1]).state == "ok"
        assert chat.measure(tip).state == "due"
        run = chat.request_compaction(tip)
        assert (chat.measure(tip).state, chat.measure(tip).run_id) == ("running", run.pk)
        # On a branch that forks above the run's anchor nothing runs.
        fork = grow(tip.session, chat.get_branch(tip)[1], "u a")[-1]
        assert (chat.measure(fork).state, chat.measure(fork).run_id) == ("ok", None)
        chat.compact(grow(tip.session, None, "u(90) a(90) " * 40)[-1])
        assert chat.measure(tip).state == "running", "not the newest run of the session, but of the branch"

    @pytest.mark.parametrize("fallback", [True, False])
    def test_a_failure_and_what_stands_in_for_it(self, settings, monkeypatch, fallback):
        settings.COMPACTION = small(EXTRACT_FALLBACK=fallback, CONTEXT_WINDOW=5_000)
        tip = talk(chat.start_session(model="m"), turns=80)[-1]
        with monkeypatch.context() as broken:
            broken.setattr(FakeSummarizer, "error", ValueError("broken"))
            run = chat.request_compaction(tip)
            tasks.compact_branch(run.pk)
        meter = chat.measure(tip)
        assert (meter.state, meter.run_id) == ("extract" if fallback else "failed", run.pk)
        assert meter.code == "provider_error"
        settings.COMPACTION = small(SUMMARIZER="extractive", CONTEXT_WINDOW=5_000)
        newer = talk(tip.session, tip, turns=60)[-1]
        chat.compact(newer)
        assert (chat.measure(newer).state, chat.measure(newer).code) == ("ok", "")

    def test_a_run_above_the_cutoff_in_use_is_another_branchs(self, settings):
        settings.COMPACTION = small(LOOKAHEAD="none")
        branch = grow(chat.start_session(model="m"), None, "u(90) a(90) " * 50)
        chat.compact(branch[-1])
        run = chat.request_compaction(grow(branch[0].session, branch[77], "u a")[-1], trigger="manual")
        assert run.anchor_id in {one.pk for one in branch}
        assert (chat.measure(branch[-1]).state, chat.measure(branch[-1]).run_id != run.pk) == ("ok", True)

    def test_where_compaction_is_off_nothing_is_due(self, settings):
        settings.COMPACTION = small(MODE="off")
        assert chat.measure(due_tip()).state == "ok"

    def test_a_newest_turn_that_is_too_large_is_no_meter(self):
        with pytest.raises(ContextOverflow):
            chat.measure(grow(chat.start_session(model="m"), None, "u(9000)")[-1])


def test_a_long_branch_takes_no_more_queries(settings, django_assert_num_queries):
    settings.COMPACTION = small(CONTEXT_WINDOW=1_000_000)
    for turns in (2, 400):
        session = chat.start_session(model="m")
        tip = grow(session, None, "u a " * turns)[-1]
        with django_assert_num_queries(2):
            chat.measure(tip)


def test_over_the_api_in_less_than_a_kilobyte(client, django_user_model):
    owner = django_user_model.objects.create_user("ada")
    tip = due_tip(owner=owner)
    client.force_login(owner)
    answer = client.get(f"/api/v1/messages/{tip.pk}/meter")
    assert len(answer.content) < 1_000
    assert json.loads(answer.content) == asdict(chat.measure(tip))
    client.force_login(django_user_model.objects.create_user("bob"))
    assert client.get(f"/api/v1/messages/{tip.pk}/meter").status_code == 404
