"""Acting on what one may see, and on what one may not: 403 tells only those who know that the thing is there."""

import pytest

from compaction_app import chat
from compaction_app.api.permissions import STAFF_PERMISSIONS, Action, shows
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.models.managers import lock_session
from tests.api.asking import Asker, problem, user
from tests.api.operations import OPERATIONS, ROWS, send
from tests.small import small

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]

ACTED = [name for name in OPERATIONS if ROWS[name][2] not in (None, Action.CREATE, Action.VIEW, Action.READ)]


def codenames(action):
    return [name.partition(".")[2] for name in STAFF_PERMISSIONS[action]]


class Only:
    """A host's rule that allows some actions to everybody."""

    allowed = frozenset()

    def __call__(self, user, session, action):
        return action in self.allowed


@pytest.fixture
def only(settings, monkeypatch):
    def allow(*actions):
        monkeypatch.setattr(Only, "allowed", frozenset(actions))

    settings.COMPACTION = small(PERMISSION="tests.api.test_acting.Only")
    return allow


@pytest.mark.parametrize("operation", ACTED)
class TestTable:
    def test_staff_who_see_and_may_not_act_are_told_so_and_those_who_do_not_see_find_nothing(self, world, operation):
        action = ROWS[operation][2]
        seeing = {name for shown in (Action.VIEW, Action.READ, Action.INSPECT) for name in codenames(shown)}
        acting = [name for name in codenames(action) if name not in seeing]
        blind, idle = user("sue", *acting, "add_chatsession"), user("tom", *codenames(shows(action)))
        problem(send(Asker(blind), operation, world), 404, "not_found")
        assert action in problem(send(Asker(idle), operation, world), 403, "forbidden")
        assert not CompactionRun.objects.filter(status="ready").exists()
        assert chat.tips(world.session) == [world.tip]
        world.session.refresh_from_db()
        assert world.session.title == "Tides"

    def test_so_is_an_owner_whom_the_hosts_rule_refuses(self, world, operation, only):
        only(Action.VIEW, Action.READ)
        problem(send(Asker(world.owner), operation, world), 403, "forbidden")
        only(*(set(Action) - {ROWS[operation][2], Action.VIEW, Action.READ}))
        problem(send(Asker(world.owner), operation, world), 404, "not_found")


def test_who_may_ask_for_a_compaction_may_poll_it(world):
    """The run that a 202 names is one that the same user can read."""
    sue = Asker(user("sue", *codenames(Action.COMPACT)))
    run = sue.post(f"{world.path}/compact", {"wait": False, "instructions": "again"}).json()
    assert sue.get(f"runs/{run['run_id']}").status_code == 200


class TestConfigure:
    """What decides how dear a session's compactions are is not its owner's to set."""

    @pytest.mark.django_db(transaction=True)
    def test_a_compaction_runs_inside_a_request_only_where_somebody_with_configure_says_so(self, ask, ann, branch):
        sue = Asker(user("sue", "change_chatsession", "view_chatsession"))
        session = branch[-1].session
        ChatSession.objects.filter(pk=session.pk).update(owner=ann)
        body = {"role": "user", "content": "x", "parent_id": branch[-1].pk}
        path = f"sessions/{session.pk}"
        problem(ask("PATCH", path, {"settings": {"MODE": "deterministic"}}), 403, "forbidden")
        ask.post(f"{path}/messages", body)
        run = CompactionRun.objects.get()
        assert run.status == "ready"
        run.delete()
        assert sue("PATCH", path, {"settings": {"MODE": "deterministic"}}).status_code == 200
        ask.post(f"{path}/messages", body)
        assert CompactionRun.objects.get().status == "succeeded"

    def test_what_the_staff_have_set_an_owner_leaves_as_it_is(self, ask, ann):
        session = chat.start_session(owner=ann, settings={"CONTEXT_WINDOW": 5_000})
        path = f"sessions/{session.pk}"
        for taken_back in ({}, {"MODE": "off"}, {"CONTEXT_WINDOW": 5_001}):
            assert "CONTEXT_WINDOW" in problem(ask("PATCH", path, {"settings": taken_back}), 403, "forbidden")
        kept = {"CONTEXT_WINDOW": 5_000}
        assert ask("PATCH", path, {"settings": kept, "title": "Winds"}).json()["settings"] == kept
        detail = problem(ask.post("sessions", {"settings": {"MODE": "off"}}), 403, "forbidden")
        assert detail == "body.settings: Setting MODE needs the permission `configure`."

    def test_what_the_staff_set_meanwhile_stays_too(self, ask, ann, monkeypatch):
        """Between the reading of the session and its change; the check is made under the session's lock."""
        session = chat.start_session(owner=ann)

        def locking(pk, using):
            ChatSession.objects.filter(pk=pk).update(settings={"CONTEXT_WINDOW": 5_000})
            lock_session(pk, using)

        monkeypatch.setattr("compaction_app.api.sessions.lock_session", locking)
        detail = problem(ask("PATCH", f"sessions/{session.pk}", {"settings": {"MODE": "off"}}), 403, "forbidden")
        assert "CONTEXT_WINDOW" in detail

    def test_a_hosts_rule_may_let_owners(self, ask, only):
        only(Action.CREATE, Action.CONFIGURE)
        assert ask.post("sessions", {"settings": {"COOLDOWN_SECONDS": 5}}).status_code == 201
        only(Action.CREATE)
        problem(ask.post("sessions", {"settings": {"COOLDOWN_SECONDS": 5}}), 403, "forbidden")

    def test_a_key_that_no_session_has_is_named_with_the_nearest(self):
        ask = Asker(user("sue", "change_chatsession", "view_chatsession"))
        detail = problem(ask.post("sessions", {"settings": {"mode": "off"}}), 422, "configuration")
        assert "unknown keys: mode. Did you mean MODE?" in detail
        detail = problem(
            ask.post("sessions", {"settings": {"SUMMARIZERS": {"default": {"BACKEND": "os.system"}}}}),
            422,
            "configuration",
        )
        assert detail == "A session may not override SUMMARIZERS. Set it in settings.COMPACTION instead."
