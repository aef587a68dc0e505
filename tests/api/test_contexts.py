"""What a model would be sent, over HTTP: every figure, every message with its origin."""

import dataclasses

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.values import ChatContext, ContextMessage
from tests.api.asking import World, problem
from tests.builders import grow, words
from tests.small import small

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_window")]


def figures_of(context):
    return {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}


def test_every_figure_and_every_message_of_a_context_is_there(ask, ann):
    """A field that is added to ChatContext or to its messages is added here too, or this fails."""
    world = World(ann, system_prompt="You know the harbour.")
    said = ask.get(f"messages/{world.tip.pk}/context").json()
    expected = figures_of(chat.get_context(world.tip))
    assert len(expected.pop("messages")) == len(said["messages"])
    # How `openai` is written, which server is asked, and what a reply keeps to know it again are no figures.
    written = {"alternate_roles", "include_reasoning", "address_of", "tool_names", "endpoint", "prompt"}
    expected["pin_ids"] = list(expected["pin_ids"])
    assert said["figures"] == {name: figure for name, figure in expected.items() if name not in written}
    no_figures = {"messages", *written}
    assert set(said["figures"]) == {f.name for f in dataclasses.fields(ChatContext)} - no_figures
    assert said["fallback_used"] is False
    said = said["messages"]
    assert [message["origin"] for message in said] == ["system", "summary"] + ["verbatim"] * 4
    # What a model wrote goes back whole in `openai`.
    fields = {field.name for field in dataclasses.fields(ContextMessage)}
    assert set(said[0]) == fields - {"id", "original"} | {"message_id"}
    assert said[1]["message_id"] == world.summary.pk
    assert said[1]["role"] == "user"
    assert said[-1]["content"] == world.tip.content


def test_openai_is_what_a_client_takes_as_it_is_with_reasoning_on_request(ask, ann):
    session = chat.start_session(owner=ann)
    first = chat.append_message(session, role="assistant", content="x", reasoning=[{"text": "hm"}])
    tip = grow(session, first, "u c t")[-1]
    closed = chat.append_message(session, ChatMessage.objects.get(pk=tip.parent_id), role="user", content="never mind")
    said = ask.get(f"messages/{closed.pk}/context").json()["openai"]
    assert said == chat.get_context(closed).to_openai()
    assert said[-2]["content"] == "[no result]"
    assert "reasoning" not in said[0]
    said = ask.get(f"messages/{closed.pk}/context?include_reasoning=true").json()["openai"]
    assert said[0]["reasoning"] == [{"text": "hm"}]


def test_it_is_fitted_to_the_model_and_the_reserve_that_are_named(ask, ann, settings):
    settings.COMPACTION = small(CONTEXT_WINDOW=None)
    tip = World(ann).tip
    figures = ask.get(f"messages/{tip.pk}/context?model=gpt-4-x&reserved_tokens=1000").json()["figures"]
    assert (figures["model"], figures["window"], figures["reserved_tokens"]) == ("gpt-4-x", 8_192, 1_000)


def test_what_does_not_fit_is_said_with_the_numbers(ask, ann):
    session = chat.start_session(owner=ann)
    tip = chat.append_message(session, role="user", content=words(20_000))
    detail = problem(ask.get(f"messages/{tip.pk}/context"), 422, "context_overflow")
    assert "20,0" in detail or "200" in detail


def test_a_reserve_that_leaves_nothing_is_refused(ask, ann):
    tip = World(ann).tip
    problem(ask.get(f"messages/{tip.pk}/context?reserved_tokens=20000"), 422, "configuration")
    problem(ask.get(f"messages/{tip.pk}/context?reserved_tokens=-1"), 422, "invalid")


def explode(text):
    raise ValueError(text)


def test_where_the_redactor_fails_no_text_is_given_out(ask, ann, settings, caplog):
    tip = World(ann).tip
    settings.COMPACTION = small(REDACTOR="tests.api.test_contexts.explode")
    detail = problem(ask.get(f"messages/{tip.pk}/context"), 503, "redaction_failed")
    assert "word" not in detail
    assert "word word" not in caplog.text
