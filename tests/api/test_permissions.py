"""Who may do what: every operation of the OpenAPI document for everybody who may come by.

403 tells only those who know that the thing is there.
"""

from typing import ClassVar

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from compaction_app import chat
from compaction_app.api.permissions import STAFF_PERMISSIONS, Action, owner_or_staff, shows
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.models.database import lock_session
from tests.api.asking import MOUNT, Asker, problem, user
from tests.api.operations import ALSO, OPERATIONS, ROWS, send
from tests.small import small

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]

#: What belongs to nobody yet, or is one's own whoever asks.
FOR_EVERYBODY = {"POST sessions", "GET sessions", "GET search"}


#: What is only for who may act on what they see.
ACTED = [name for name in OPERATIONS if ROWS[name][2] not in (None, Action.CREATE, Action.VIEW, Action.READ)]


def codenames(action):
    """The permissions that staff need for it."""
    return [name.partition(".")[2] for name in STAFF_PERMISSIONS.get(action, ())]


def permissions_for(operation):
    return {*codenames(ROWS[operation][2]), *(name for one in ALSO.get(operation, ()) for name in codenames(one))}


def all_permissions_but(names):
    ours = Permission.objects.filter(content_type__app_label="compaction_app")
    return ours.exclude(codename__in=names).values_list("codename", flat=True)


def test_every_operation_has_a_row(document):
    """A new operation without a row fails here, before it is open to anybody."""
    paths = document["paths"].items()
    assert {f"{name.upper()} {path.removeprefix(MOUNT)}" for path, methods in paths for name in methods} == set(ROWS)


@pytest.mark.parametrize("operation", OPERATIONS)
class TestTable:
    def test_others_find_nothing_and_staff_with_just_its_permission_may(self, world, operation):
        """Not another user, nor staff with every other permission, nor its permission without being staff."""
        problem(send(Asker(), operation, world), 401, "unauthenticated")
        permitted = user("jim", *permissions_for(operation))
        permitted.is_staff = False
        permitted.save()
        for other in (user("bob"), user("sue", *all_permissions_but(permissions_for(operation))), permitted):
            response = send(Asker(other), operation, world)
            if operation in FOR_EVERYBODY:
                assert response.status_code == ROWS[operation][1], other
                assert str(world.session.pk) not in response.content.decode() or other.username == "sue"
            else:
                problem(response, 404, "not_found")

        staff = user("tom", *permissions_for(operation))
        assert send(Asker(staff), operation, world).status_code == ROWS[operation][1]

    def test_the_hosts_rule_decides_and_is_told_the_action(self, world, operation, only, monkeypatch):
        """What it refuses the owner does not find, or may not do where they may see the thing."""
        only()
        response = send(Asker(world.owner), operation, world)
        if operation in ("GET sessions", "GET search"):
            assert response.json()["items"] == []
        elif operation == "POST sessions":
            problem(response, 403, "forbidden")
        else:
            problem(response, 404, "not_found")
        if operation in ACTED:
            only(*(set(Action) - {ROWS[operation][2], Action.VIEW, Action.READ}))
            problem(send(Asker(world.owner), operation, world), 404, "not_found")
            only(Action.VIEW, Action.READ)
            problem(send(Asker(world.owner), operation, world), 403, "forbidden")
        only(*Action)
        monkeypatch.setattr(Only, "asked", asked := [])
        session_id, bob, action = world.session.pk, user("bob"), ROWS[operation][2]
        assert send(Asker(bob), operation, world).status_code == ROWS[operation][1]
        if operation not in ("GET sessions", "GET search"):
            created = [(bob, None, Action.CREATE)] if action == Action.COPY else []
            also = [(bob, session_id, one) for one in ALSO.get(operation, ())]
            assert asked == [(bob, None if action == Action.CREATE else session_id, action), *also, *created]


@pytest.mark.parametrize("operation", ACTED)
def test_staff_who_see_and_may_not_act_are_told_so_and_those_who_do_not_see_find_nothing(world, operation):
    action = ROWS[operation][2]
    seeing = {name for shown in (Action.VIEW, Action.READ, Action.INSPECT) for name in codenames(shown)}
    acting = [name for name in codenames(action) if name not in seeing]
    blind, idle = user("sue", *acting, "add_chatsession"), user("tom", *codenames(shows(action)))
    problem(send(Asker(blind), operation, world), 404, "not_found")
    assert action in problem(send(Asker(idle), operation, world), 403, "forbidden")
    assert not CompactionRun.objects.filter(status="ready").exists()
    assert world.tip in chat.tips(world.session)
    world.session.refresh_from_db()
    assert world.session.title == "Tides"


class Only:
    """A host's rule, as a class whose instances are called: it allows some actions to everybody."""

    allowed = frozenset()
    asked: ClassVar = []

    def __call__(self, user, session, action):
        self.asked.append((user, session and session.pk, action))
        return action in self.allowed


@pytest.fixture
def only(settings, monkeypatch):
    def allow(*actions):
        monkeypatch.setattr(Only, "allowed", frozenset(actions))

    settings.COMPACTION = small(PERMISSION="tests.api.test_permissions.Only")
    return allow


def test_every_action_has_its_permissions():
    assert set(STAFF_PERMISSIONS) == set(Action) - {Action.CREATE}
    known = {
        f"{found.content_type.app_label}.{found.codename}"
        for found in Permission.objects.filter(content_type__app_label="compaction_app").select_related("content_type")
    }
    assert {name for names in STAFF_PERMISSIONS.values() for name in names} <= known


def test_who_may_copy_and_not_create_gets_no_copy(world, only):
    only(*(set(Action) - {Action.CREATE}))
    body = {"message_id": world.tip.pk}
    problem(Asker(world.owner).post(f"{world.path}/copy", body), 403, "forbidden")
    assert ChatSession.objects.count() == 1


def test_a_session_without_an_owner_is_for_staff_only():
    session = chat.start_session()
    assert not owner_or_staff(user("bob"), session, Action.VIEW)
    assert owner_or_staff(user("sue", "view_chatsession"), session, Action.VIEW)


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

        def locking(row):
            ChatSession.objects.filter(pk=row.pk).update(settings={"CONTEXT_WINDOW": 5_000})
            lock_session(row)

        monkeypatch.setattr("compaction_app.models.database.lock_session", locking)
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


class TestCookies:
    """Signed in by cookie, a request that changes something needs the token that another site can not know."""

    @pytest.fixture
    def ask(self, world):
        return Asker(world.owner, enforce_csrf_checks=True)

    def test_without_the_token_nothing_is_changed(self, ask, world):
        for method, path in (("POST", "sessions"), ("PATCH", world.path), ("DELETE", world.path)):
            problem(ask(method, path, {}), 403, "csrf_failed")

    def test_with_it_a_change_is_made(self, ask, world):
        ask.get("docs")  # the page sets the cookie
        token = ask.client.cookies["csrftoken"].value
        assert ask("PATCH", world.path, {"title": "Winds"}, headers={"X-CSRFToken": token}).status_code == 200

    def test_reading_needs_none(self, ask, world):
        assert ask.get(world.path).status_code == 200


@pytest.mark.urls("tests.token_urls")
class TestTokens:
    """A host plugs in its own authentication, at a place and in a namespace of its own."""

    MOUNT = "/of/acme/chats/v1/"

    @pytest.fixture
    def ask(self):
        return Asker(mount=self.MOUNT, enforce_csrf_checks=True)

    def test_a_token_is_enough_also_to_change_something(self, ask, world):
        headers = {"Authorization": "Bearer nna"}
        assert ask("GET", world.path, headers=headers).json()["title"] == "Tides"
        assert ask("PATCH", world.path, {"title": "Winds"}, headers=headers).status_code == 200

    @pytest.mark.parametrize("header", ["Bearer boo", "Bearer", "Basic YW5uOng=", "nna"])
    def test_a_wrong_one_is_none(self, ask, world, header):
        problem(ask("GET", world.path, headers={"Authorization": header}), 401, "unauthenticated")

    def test_a_session_is_asked_next(self, world):
        assert Asker(world.owner, mount=self.MOUNT).get(world.path).status_code == 200

    def test_a_user_who_was_switched_off_is_nobody(self, ask, world):
        type(world.owner).objects.update(is_active=False)
        problem(ask("GET", world.path, headers={"Authorization": "Bearer nna"}), 401, "unauthenticated")

    def test_the_document_names_the_place_and_the_way_in(self, ask):
        document = ask.get("openapi.json").json()
        assert f"{self.MOUNT}sessions" in document["paths"]
        assert set(document["components"]["securitySchemes"]) == {"NameAsToken", "SessionUser"}
        assert document["paths"][f"{self.MOUNT}sessions"]["get"]["security"] == [
            {"NameAsToken": []},
            {"SessionUser": []},
        ]

    def test_an_authentication_that_gives_no_user_is_a_fault_and_is_logged(self, world, caplog):
        client = Client(raise_request_exception=False)
        response = client.get(f"/mistaken/{world.path}", headers={"Authorization": "Bearer hush-hush"})
        problem(response, 500, "internal")
        assert "ImproperlyConfigured" in caplog.text
        assert "hush" not in caplog.text
