"""Who may see what in the admin, and that it edits nothing but a session's title and settings."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.models import ChatSession
from tests.admin.pages import MODELS, log_in, page_of, url
from tests.admin.records import compacted
from tests.browser import admin_pages, conversations
from tests.trees import start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.long
def test_people_who_are_no_staff_are_sent_to_the_login_and_staff_without_permissions_see_no_page(client):
    pages = admin_pages.addresses(conversations.harbour())
    assert {client.get(page).status_code for page in pages} == {302}
    log_in(client)
    assert {client.get(page).status_code for page in pages} <= {403, 404}


def test_nobody_adds_or_changes_what_the_system_wrote(superuser):
    """Not even a superuser: there is no add page, and a POST to a record's page is refused."""
    _, nodes, summary, run, event = compacted()
    for model in MODELS:
        assert superuser.get(url(f"{model}_add")).status_code == 403
    for record in (nodes[0], summary, run, event):
        assert superuser.post(page_of(record), {"content": "x", "status": "failed"}).status_code == 403
        page = superuser.get(page_of(record)).text
        assert 'name="_save"' not in page
        assert "<textarea" not in page
    assert chat.get_branch(nodes[0])[0].content == nodes[0].content


def test_runs_and_events_are_not_deleted_and_no_list_deletes_in_bulk(superuser):
    *_, run, event = compacted()
    for record in (run, event):
        assert superuser.post(url(f"{record._meta.model_name}_delete", record.pk), {"post": "yes"}).status_code == 403
        assert type(record).objects.filter(pk=record.pk).exists()
        assert "deletelink" not in superuser.get(page_of(record)).text
    for model in MODELS:
        assert "delete_selected" not in superuser.get(url(f"{model}_changelist")).text


def test_title_and_settings_of_a_session_are_changed_by_those_who_may(viewer):
    session = start_session(title="Before")
    given = {"title": "After", "settings": '{"MODE": "aggressive"}'}
    assert viewer.post(page_of(session), given).status_code == 403
    assert log_in(viewer, "view_chatsession", "change_chatsession").post(page_of(session), given).status_code == 302
    session.refresh_from_db()
    assert (session.title, session.settings) == ("After", {"MODE": "aggressive"})
    viewer.post(page_of(session), {"title": "", "settings": ""})
    session.refresh_from_db()
    assert (session.title, session.settings) == ("", {})


def test_the_rest_of_a_session_stays_as_it_is(login):
    """A whole row would set back the counters that workers move meanwhile."""
    session = start_session(title="Before", system_prompt="Be kind.")
    client = login("view_chatsession", "change_chatsession")
    with CaptureQueriesContext(connection) as queries:
        client.post(page_of(session), {"title": "After", "settings": "{}", "system_prompt": "Be rude.", "erasures": 9})
    [update] = [q["sql"] for q in queries if q["sql"].startswith('UPDATE "compaction_app_chatsession"')]
    assert "erasures" not in update
    assert "token_calibration" not in update
    session.refresh_from_db()
    assert (session.title, session.system_prompt, session.erasures) == ("After", "Be kind.", 0)


def test_a_title_that_is_erased_while_settings_are_saved_stays_erased(login, monkeypatch):
    """The form wrote it again, with a key to the message that was deleted."""
    session = start_session(title="A harbour")
    session.title_of = chat.append_message(session, None, role="user", content="Which?")
    session.save()
    client = login("view_chatsession", "change_chatsession")
    # Between the form's reading of the row and its writing.
    monkeypatch.setattr(ChatSession, "clean", lambda row: chat.delete_message(session.title_of))
    client.post(page_of(session), {"title": "A harbour", "settings": '{"MODE": "off"}'})
    session.refresh_from_db()
    assert (session.title, session.title_of, session.settings) == ("", None, {"MODE": "off"})


@pytest.mark.parametrize("typed", ["A harbour", "A harbour at night"])
def test_a_page_from_before_an_erasure_does_not_bring_a_title_back(login, typed):
    session = start_session(title="A harbour")
    asked = chat.append_message(session, None, role="user", content="A harbour, please")
    client = login("view_chatsession", "change_chatsession")

    def opened():
        page = client.get(page_of(session)).text
        return {"title": typed, "settings": "{}", "erased": re.search(r'name="erased" value="(\d+)"', page)[1]}

    before = opened()
    chat.redact_message(asked)
    for given in (before, {"title": typed, "settings": '{"MODE": "off"}'}):
        answer = client.post(page_of(session), given)
        assert (answer.status_code, "was erased since" in answer.text) == (200, True)
        session.refresh_from_db()
        assert (session.title, session.settings) == ("", {})
    # Of their own accord, on a page that shows what is so.
    assert client.post(page_of(session), opened()).status_code == 302
    session.refresh_from_db()
    assert session.title == typed


@pytest.mark.parametrize("overrides", ['{"NO_SUCH_KEY": 1}', '{"TRIGGER_RATIO": 7}', "[1]", "{"])
def test_settings_that_can_not_be_are_refused_with_a_word_and_nothing_is_written(login, overrides):
    session = start_session(title="Before")
    client = login("view_chatsession", "change_chatsession")
    page = client.post(page_of(session), {"title": "After", "settings": overrides})
    assert page.status_code == 200
    assert "errorlist" in page.text
    session.refresh_from_db()
    assert (session.title, session.settings) == ("Before", {})
