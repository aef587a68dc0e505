"""Pins over HTTP. Who may is in ``test_permissions``."""

import pytest

from compaction_app.models import MessagePin
from tests.api.asking import problem
from tests.builders import grow

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]


def test_a_message_is_pinned_listed_as_pinned_shown_and_unpinned(ask, world):
    message, tip = world.branch[1], world.tip
    path = f"messages/{message.pk}/pin"
    for _ in range(2):
        assert ask.post(path).status_code == 204
    assert ask.get(f"messages/{message.pk}").json()["pinned"] is True
    branch = ask.get(f"messages/{tip.pk}/branch").json()["items"]
    assert [item["id"] for item in branch if item["pinned"]] == [message.pk]
    nodes = ask.get(f"{world.path}/tree").json()["items"]
    assert [node["id"] for node in nodes if node["pinned"]] == [message.pk]
    context = ask.get(f"messages/{tip.pk}/context").json()
    assert [m["message_id"] for m in context["messages"]][:2] == [world.summary.pk, message.pk]
    assert context["messages"][1]["origin"] == "pin"
    assert context["figures"]["pin_ids"] == [message.pk]
    reply = {"parent_id": tip.pk, "role": "assistant", "content": "At six.", "context": context["figures"]}
    assert ask.post(f"{world.path}/messages", reply).status_code == 201
    context["figures"]["pin_ids"] = [world.summary.pk]
    problem(ask.post(f"{world.path}/messages", reply | {"context": context["figures"]}), 422, "invalid")
    assert ask("DELETE", path).status_code == 204
    assert ask.get(f"messages/{message.pk}").json()["pinned"] is False


def test_what_cannot_be_pinned_is_told(ask, world):
    problem(ask.post(f"messages/{world.summary.pk}/pin"), 422, "invalid_message")
    large = grow(world.session, world.tip, "u(2001)")[0]
    detail = problem(ask.post(f"messages/{large.pk}/pin"), 422, "pins_too_large")
    assert "2001 tokens; 2000 are allowed" in detail
    assert not MessagePin.objects.exists()
