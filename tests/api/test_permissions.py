"""Who may do what: every operation of the OpenAPI document for everybody who may come by."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from ninja.security import HttpBasicAuth

from compaction_app import chat
from compaction_app.api.authentication import SessionUser, challenge_for
from compaction_app.api.permissions import STAFF_PERMISSIONS, Action, owner_or_staff
from tests.api.asking import MOUNT, Asker, problem, user
from tests.api.operations import OPERATIONS, ROWS, send
from tests.small import small
from tests.token_urls import NameAsToken

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]

#: What belongs to nobody yet, or is one's own whoever asks.
FOR_EVERYBODY = {"POST sessions", "GET sessions"}


def permissions_for(operation):
    """Codenames that staff need for it."""
    return [name.partition(".")[2] for name in STAFF_PERMISSIONS.get(ROWS[operation][2], ())]


def all_permissions_but(names):
    ours = Permission.objects.filter(content_type__app_label="compaction_app")
    return ours.exclude(codename__in=names).values_list("codename", flat=True)


def test_every_operation_has_a_row(document):
    """A new operation without a row fails here, before it is open to anybody."""
    paths = document["paths"].items()
    assert {f"{name.upper()} {path.removeprefix(MOUNT)}" for path, methods in paths for name in methods} == set(ROWS)


@pytest.mark.parametrize("operation", OPERATIONS)
class TestTable:
    def test_others_find_nothing(self, world, operation):
        """Not another user, nor staff with every other permission, nor its permission without being staff."""
        response = send(Asker(), operation, world)
        problem(response, 401, "unauthenticated")
        assert "WWW-Authenticate" not in response, "a cookie has no name there"
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

    def test_the_owner_may(self, world, operation):
        assert send(Asker(world.owner), operation, world).status_code == ROWS[operation][1]

    def test_staff_with_just_its_permission_may(self, world, operation):
        staff = user("sue", *permissions_for(operation))
        assert send(Asker(staff), operation, world).status_code == ROWS[operation][1]

    def test_the_hosts_rule_decides_and_is_told_the_action(self, world, operation, settings, monkeypatch):
        asked, session_id = [], world.session.pk
        monkeypatch.setattr(
            Rule, "says", lambda user, session, action: asked.append((user, session and session.pk, action)) or True
        )
        settings.COMPACTION = small(PERMISSION="tests.api.test_permissions.Rule")
        bob = user("bob")
        assert send(Asker(bob), operation, world).status_code == ROWS[operation][1]
        action = ROWS[operation][2]
        if operation != "GET sessions":
            assert asked == [(bob, None if action == Action.CREATE else session_id, action)]

    def test_what_the_hosts_rule_refuses_the_owner_does_not_find(self, world, operation, settings):
        settings.COMPACTION = small(PERMISSION="tests.api.test_permissions.nobody_may")
        response = send(Asker(world.owner), operation, world)
        if operation == "GET sessions":
            assert response.json()["items"] == []
        elif operation == "POST sessions":
            problem(response, 403, "forbidden")
        else:
            problem(response, 404, "not_found")


class Rule:
    """A host's rule as a class whose instances are called."""

    says = staticmethod(lambda *arguments: True)

    def __call__(self, user, session, action):
        return type(self).says(user, session, action)


def nobody_may(user, session, action):
    return False


def test_every_action_has_its_permissions():
    assert set(STAFF_PERMISSIONS) == set(Action) - {Action.CREATE}
    known = {
        f"{found.content_type.app_label}.{found.codename}"
        for found in Permission.objects.filter(content_type__app_label="compaction_app").select_related("content_type")
    }
    assert {name for names in STAFF_PERMISSIONS.values() for name in names} <= known


def test_a_session_without_an_owner_is_for_staff_only():
    session = chat.start_session()
    assert not owner_or_staff(user("bob"), session, Action.VIEW)
    assert owner_or_staff(user("sue", "view_chatsession"), session, Action.VIEW)


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

    def test_who_is_nobody_is_told_what_is_taken(self, ask, world):
        assert ask.get(world.path)["WWW-Authenticate"] == "Bearer"
        assert "WWW-Authenticate" not in ask("GET", world.path, headers={"Authorization": "Bearer nna"})
        # A place of no operation asks for nothing.
        assert "WWW-Authenticate" not in ask.get("openapi.json")

    def test_all_that_http_has_a_name_for_is_asked_for_once(self):
        class ByPassword(HttpBasicAuth):
            def authenticate(self, request, username, password):
                return None

        taken = [ByPassword(), NameAsToken(), SessionUser(), NameAsToken(), lambda request: None]
        assert challenge_for(taken) == 'Basic realm="api", Bearer'
        assert challenge_for([SessionUser()]) == ""

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
