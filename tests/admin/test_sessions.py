"""A session's page: the numbers below its branches, and compacting from there; the list of sessions."""

import html
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import sessions
from compaction_app.contrib import histories
from compaction_app.models import ChatSession, CompactionEvent
from compaction_app.transfer import importing
from tests.admin.pages import branches_of, figures_of, listed, log_in, page_of, url
from tests.admin.records import conversation, forked, run_at, words
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_the_numbers_are_those_of_the_tables(viewer):
    session, _, side, live, _ = forked()
    used = {"input_tokens": 1200, "output_tokens": 300, "cached_tokens": 200, "cost": "0.01250000"}
    run = run_at(side[-1], status="succeeded", generation=1, summary=live, **used)
    run_at(side[-1], input_tokens=10, output_tokens=1)
    CompactionEvent.objects.create(session=session, run=run, kind="completed")
    response = viewer.get(page_of(session))
    expected = {
        "Messages": "8",
        "Summaries": "2",
        "Runs": "2",
        "Failed runs": "1",
        "Events": "1",
        "Tokens used": "1,210 in (200 cached), 301 out, by 2 runs",
        "Cost (currency of MODELS, else US dollars)": "0.0125, without 1 run",
    }
    shown = figures_of(response.text)
    assert shown | expected == shown
    budget = response.context["resolved"].budget
    for name in ("window", "threshold", "target"):
        assert shown[name.capitalize()] == f"{getattr(budget, name):,} tokens"


def test_a_sessions_page_counts_the_runs_that_are_open_and_leads_to_them(viewer, tips):
    opened = [run_at(tips[n], anchor=tips[n], status=status).pk for n, status in enumerate(("ready", "running"))]
    run_at(tips[2])
    page = viewer.get(page_of(tips[0].session)).text
    assert figures_of(page)["Open runs"] == "2"
    [address] = re.findall('href="([^"]*status__in[^"]*)"', page)
    rows = viewer.get(html.unescape(address)).context["cl"].result_list
    assert [row.pk for row in rows] == opened[::-1]


@pytest.mark.parametrize("overrides", [{"NO_SUCH_KEY": 1}, {"CONTEXT_WINDOW": 10, "RESERVED_TOKENS": 0}])
def test_settings_that_can_not_be_used_are_told_and_the_branches_are_there(viewer, overrides):
    session = start_session(system_prompt=words(50, "harbour"))
    chain(session, 3)
    ChatSession.objects.filter(pk=session.pk).update(settings=overrides)
    response = viewer.get(page_of(session))
    assert response.status_code == 200
    assert "errornote" in response.text
    assert figures_of(response.text)["History tokens"] == "30 tokens"
    assert "<meter" not in response.text


def test_a_session_without_a_title_is_named_by_its_first_user_message_for_people_who_may_read_it(viewer, client):
    session = start_session()
    greeting = chat.append_message(session, role="assistant", content="Welcome.")
    chat.append_message(session, greeting, role="user", content="Where does\nthe Anna lie? " + "x" * 100)
    run_at(greeting, status="failed")
    for page in (url("chatsession_changelist"), url("compactionrun_changelist"), page_of(session), page_of(greeting)):
        assert "Where does the Anna lie?" in viewer.get(page).text, page
    page = log_in(client, "view_chatsession").get(url("chatsession_changelist")).text
    assert "Anna" not in page
    assert f"Session {session.pk}" in page


def test_sessions_are_found_by_a_part_of_the_title_or_owners_name_and_old_ones_by_the_whole_name(viewer, monkeypatch):
    ada, adam = (get_user_model().objects.create_user(name) for name in ("ada", "adam"))
    old = start_session(owner=ada, title="The old pier")
    newer, _ = start_session(owner=adam, title="A pier, and a lamp"), start_session()
    for part in ("AD", "PIER"):
        assert listed(viewer, "chatsession", q=part) == [newer.pk, old.pk]
    monkeypatch.setattr(sessions, "TITLES", 2)
    for part in ("AD", "PIER"):
        assert listed(viewer, "chatsession", q=part) == [newer.pk]
    assert listed(viewer, "chatsession", q="ada") == [newer.pk, old.pk]


class TestDashboard:
    """What the list says of each session."""

    def row(self, client, session):
        page = client.get(url("chatsession_changelist")).text
        (row,) = [one for one in page.split("<tr") if str(session.pk) in one]
        return " ".join(re.sub("<[^>]*>", " ", row.partition(">")[2]).split())

    def test_how_long_its_newest_branch_is_as_on_its_page_and_how_its_newest_run_ended(self, viewer):
        session, tip = conversation(turns=20)
        [branch] = branches_of(viewer, session)
        for shown in (f"{branch.percent} Over threshold", "40 messages", " – "):
            assert shown in self.row(viewer, session)
        run_at(tip, error_code="timeout", finished_at=timezone.now())
        assert "Failed timeout" in self.row(viewer, session)
        run_at(tip, status="ready")
        assert "Waiting" in self.row(viewer, session)

    def test_a_session_whose_settings_are_wrong(self, viewer):
        session = chain(start_session(), 2)[0].session
        ChatSession.objects.filter(pk=session.pk).update(settings={"TRIGGER_RATIO": 7})
        assert "wrong settings 2 messages" in self.row(viewer, session)
        assert "no messages" in self.row(viewer, start_session())

    def test_runs_are_not_told_to_people_who_may_not_view_them(self, login, tip):
        run_at(tip)
        page = login("view_chatsession").get(url("chatsession_changelist")).text
        assert "last compaction" not in page.lower(), "neither the column nor the filter"
        assert "compaction-failed" not in page


def test_where_compaction_is_off_both_pages_say_so_and_leave_away_what_does_not_apply(operator):
    """The branch is over its threshold, if there were one."""
    session, tip = conversation(settings={"MODE": "off"})
    for record in (session, tip):
        page = operator.get(page_of(record)).text
        assert "Compaction is off in this session (MODE)" in page
        assert not {"Threshold", "Target"} & set(figures_of(page))


def test_a_conversation_is_exported_as_it_is_imported(viewer, client):
    session = start_session(title="Harbour")
    nodes = chain(session, 3)
    page = viewer.get(page_of(session)).text
    for form in ("openai", "chatgpt"):
        address = url("chatsession_export", session.pk, form)
        assert address in page
        answer = viewer.get(address)
        assert answer["Content-Disposition"] == f'attachment; filename="{session.pk}.json"'
        [read] = importing.read([("file", answer.json())], histories.READERS)
        assert [one.fields["content"] for one in read.messages] == [node.content for node in nodes]
    assert viewer.get(url("chatsession_export", session.pk, "pdf")).status_code == 404
    staff = get_user_model().objects.create_user("support", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_chatsession"))
    client.force_login(staff)
    assert client.get(url("chatsession_export", session.pk, "openai")).status_code == 403
    assert url("chatsession_export", session.pk, "openai") not in client.get(page_of(session)).text
