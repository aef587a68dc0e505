"""What a gateway sends back with a reply is kept as the answer to what the model saw, so it has to be true."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app.messages.validation import MAX_REPORTED
from compaction_app.models import ChatMessage
from tests.api.asking import World, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]


@pytest.fixture
def figures(ask, world):
    return ask.get(f"messages/{world.tip.pk}/context").json()["figures"]


@pytest.fixture
def reply(ask, world, figures):
    """Append a reply below the tip, with what is changed of its context or of the rest."""

    def append(context=None, **changed):
        said = {"parent_id": world.tip.pk, "role": "assistant", "content": "at four"}
        return ask.post(f"{world.path}/messages", {**said, "context": {**figures, **(context or {})}, **changed})

    return append


class TestReferences:
    def test_as_they_came_they_are_taken(self, reply, world, figures):
        assert figures["summary_id"] == world.summary.pk
        assert reply().status_code == 201
        kept = ChatMessage.objects.order_by("-id").first().sent_context
        assert (kept["summary_id"], kept["cutoff_id"]) == (world.summary.pk, world.branch[3].pk)

    def test_of_another_session_or_kind_they_are_refused_by_name(self, reply, ann, world):
        other = World(ann)
        elsewhere = {"summary_id": other.summary.pk, "cutoff_id": other.branch[3].pk, "pinned_id": other.branch[0].pk}
        for name, value in elsewhere.items():
            assert problem(reply({name: value}), 422, "invalid").startswith(f"body.context.{name}: ")
            wrong_kind = world.tip.pk if name == "summary_id" else world.summary.pk
            assert problem(reply({name: wrong_kind}), 422, "invalid").startswith(f"body.context.{name}: ")
        assert not ChatMessage.objects.filter(content="at four").exists()

    def test_a_depth_that_is_not_above_the_reply_is_refused(self, reply):
        for depth in (9, 0):
            assert "first_shown_depth" in problem(reply({"first_shown_depth": depth}), 422, "invalid")
        assert reply({"first_shown_depth": 8}).status_code == 201, "the parent's own"

    def test_of_another_message_or_without_a_parent_they_are_refused(self, reply, world):
        for parent_id in (world.branch[0].pk, None):
            assert "tip_id" in problem(reply(parent_id=parent_id), 422, "invalid")

    def test_it_costs_no_query_more_than_the_parent_alone(self, ask, world, figures):
        def queries(body):
            with CaptureQueriesContext(connection) as captured:
                assert ask.post(f"{world.path}/messages", body).status_code == 201
            return len(captured)

        said = {"parent_id": world.tip.pk, "role": "assistant", "content": "at four"}
        assert queries({**said, "context": figures}) == queries(said)


COUNTS = """
    prompt_tokens completion_tokens total_tokens input_tokens output_tokens cache_read_input_tokens
    cache_creation_input_tokens
""".split()


class TestUsage:
    @pytest.mark.parametrize("wrong", [-1, "7", 1.5, True, MAX_REPORTED + 1])
    def test_what_is_no_count_of_tokens_is_refused_by_name(self, reply, world, wrong):
        for name in COUNTS:
            assert problem(reply(usage={name: wrong}), 422, "invalid").startswith(f"body.usage.{name}")
        world.session.refresh_from_db()
        assert world.session.token_calibration == {}
        assert not ChatMessage.objects.filter(content="at four").exists()

    @pytest.mark.parametrize(
        "usage",
        [
            {"prompt_tokens": MAX_REPORTED, "completion_tokens": 0},
            {"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": 60, "audio": -1}, "cost": "0.1"},
            {"input_tokens": 5, "service_tier": "standard", "iterations": [{"type": "message", "input_tokens": 5}]},
            {},
        ],
    )
    def test_a_providers_own_keys_come_back_as_they_were_sent(self, reply, usage):
        assert reply(usage=usage).json()["message"]["usage"] == usage
