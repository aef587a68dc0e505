"""Who may do what on the chat page: nobody anything in somebody else's conversation."""

import uuid

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from compaction_app import chat
from tests.project.chat_page.pages import grow, stored, text_of, url

pytestmark = pytest.mark.django_db


def addresses(session, message):
    """Every address of the chat, and whether it is posted to."""
    return [
        (url("session", session), False),
        (url("delete", session), False),
        (url("export", session), False),
        (url("rename", session), True),
        (url("branch", session, message), False),
        (url("text", session, message), False),
        (url("post", session), True),
        (reverse("chat:undo", args=[session.pk, message.pk, 1]), True),
        (url("edit", session, message), True),
        (url("regenerate", session, message), True),
    ]


class TestPermissions:
    def test_whoever_is_not_signed_in_is_sent_to_the_sign_in_page(self, session):
        message = grow(session, 1)
        own_pages = [(reverse("chat:sessions"), False), (reverse("chat:new"), True)]
        for address, posted in [*own_pages, *addresses(session, message)]:
            response = Client().post(address, {"content": "x"}) if posted else Client().get(address)
            assert response.status_code == 302, address
            assert response.url == f"{reverse('login')}?next={address}"
        assert stored(session) == 1

    def test_another_user_finds_nothing_and_changes_nothing(self, stranger, session):
        """404 and not 403: whether the conversation exists is nobody's business."""
        message = grow(session, 1)
        for address, posted in addresses(session, message):
            response = stranger.post(address, {"content": "x"}) if posted else stranger.get(address)
            assert response.status_code == 404, address
        assert stored(session) == 1

    def test_a_message_of_another_conversation_is_not_found_through_ones_own(self, stranger, session):
        """The ids of messages count up, so that anyone can guess one."""
        secret = grow(session, 1, content="A secret ")
        own = chat.start_session(owner=get_user_model().objects.get(username="stranger"))
        for address, posted in addresses(own, secret)[4:]:
            data = {"content": "x", "parent": secret.pk}
            response = stranger.post(address, data) if posted else stranger.get(address)
            assert response.status_code == 404, address
        editing = stranger.get(url("branch", own, grow(own, 1)), {"edit": secret.pk})
        assert editing.status_code == 404
        assert stored(session) == 1

    def test_a_conversation_without_an_owner_is_nobodys(self, browser):
        assert browser.get(url("session", chat.start_session())).status_code == 404

    @pytest.mark.parametrize("name", ["new", "post", "rename", "delete", "edit", "regenerate"])
    def test_a_post_without_the_csrf_token_is_refused(self, marit, session, name):
        client = Client(enforce_csrf_checks=True)
        client.force_login(marit)
        message = grow(session, 1)
        arguments = {"new": [], "edit": [session.pk, message.pk], "regenerate": [session.pk, message.pk]}
        address = reverse(f"chat:{name}", args=arguments.get(name, [session.pk]))
        assert client.post(address, {"content": "x"}).status_code == 403
        assert stored(session) == 1

    def test_what_changes_something_is_not_done_by_a_get(self, browser, session):
        """Reloaded from the address of a post, the page of the conversation is shown."""
        message = grow(session, 1)
        for address, posted in addresses(session, message):
            response = browser.get(address)
            assert response.status_code == (302 if posted else 200), address
            if posted:
                assert browser.get(response.url).status_code == 200, address
                assert browser.put(address).status_code == 405, address
        assert stored(session) == 1

    def test_an_unknown_address_is_not_found(self, browser, session, settings):
        settings.DEBUG = True
        missing = browser.get(reverse("chat:session", args=[uuid.uuid4()]))
        assert (missing.status_code, "This page does not exist" in text_of(missing)) == (404, True)
        assert browser.get(reverse("chat:branch", args=[session.pk, 10**9])).status_code == 404
        for parent in ("x", "9" * 30):
            assert browser.post(url("post", session), {"content": "x", "parent": parent}).status_code == 404
        message = grow(session, 1)
        for query in ({"end": "x"}, {"edit": 10**9}):
            assert browser.get(url("branch", session, message), query).status_code == 404
