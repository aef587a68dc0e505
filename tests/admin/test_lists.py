"""The lists of the admin: narrowed, filtered and searched."""

import pytest
from django.urls import reverse
from django.utils import timezone

from compaction_app import chat
from tests.admin.pages import listed, url
from tests.admin.records import compacted, run_at
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_messages_and_summaries_are_two_lists(viewer):
    _, nodes, summary, *_ = compacted()
    assert listed(viewer, "chatmessage") == [node.pk for node in reversed(nodes)]
    assert listed(viewer, "chatmessage", kind="summary") == [summary.pk]
    index = viewer.get(reverse("admin:app_list", args=["compaction_app"])).text
    assert url("chatmessage_changelist", kind="summary") in index


def test_lists_are_narrowed_to_what_belongs_to_one_record(viewer):
    session, nodes, summary, run, event = compacted()
    compacted()
    assert listed(viewer, "chatmessage", session=session.pk) == [node.pk for node in reversed(nodes)]
    assert listed(viewer, "chatmessage", session=session.pk, kind="summary") == [summary.pk]
    assert listed(viewer, "compactionrun", session=session.pk) == [run.pk]
    assert listed(viewer, "compactionrun", tip=nodes[-1].pk) == [run.pk]
    assert listed(viewer, "compactionrun", base=summary.pk) == []
    assert listed(viewer, "compactionevent", run=run.pk) == [event.pk]
    assert listed(viewer, "compactionevent", message=nodes[-1].pk) == [event.pk]


def test_summaries_are_filtered_by_live_and_retired(viewer):
    _, nodes, live, *_ = compacted()
    retired = summarize(nodes[3], nodes[1], retired_at=timezone.now())
    assert listed(viewer, "chatmessage", kind="summary", retired_at__isempty=1) == [live.pk]
    assert listed(viewer, "chatmessage", kind="summary", retired_at__isempty=0) == [retired.pk]
    page = viewer.get(url("chatmessage_changelist", kind="summary")).text
    assert '?kind=summary&amp;retired_at__isempty=1">Live</a>' in " ".join(page.split())


def test_roles_are_looked_for_within_one_session(viewer):
    """No index knows them, so in the whole table a rare role would mean reading all of it."""
    session = start_session()
    assistant = chat.append_message(session, role="assistant", content="hi")
    chat.append_message(session, role="user", content="hi")
    assert listed(viewer, "chatmessage", session=session.pk, role__exact="assistant") == [assistant.pk]
    assert "By role" in viewer.get(url("chatmessage_changelist", session=session.pk)).text
    assert "By role" not in viewer.get(url("chatmessage_changelist")).text


def test_runs_are_filtered_by_status_and_trigger_and_found_by_error_code_and_model(viewer):
    tip = chain(start_session(), 1)[0]
    failed = run_at(tip, status="failed", error_code="timeout", summarizer_model="quick")
    skipped = run_at(tip, status="skipped", skip_reason="branch_gone", trigger="manual")
    assert listed(viewer, "compactionrun", status__exact="failed") == [failed.pk]
    assert listed(viewer, "compactionrun", trigger__exact="manual") == [skipped.pk]
    assert listed(viewer, "compactionrun", q="timeout") == [failed.pk]
    assert listed(viewer, "compactionrun", q="QUICK") == [skipped.pk, failed.pk]


NUMBERED = [("chatmessage", "id__in"), ("chatmessage", "p"), ("compactionrun", "tip"), ("compactionevent", "run")]
NO_DATES = [{"created_at__year": "2026", "created_at__month": "13"}, {"created_at__year": "\0"}]
NO_TEXTS = [{name: "\0"} for name in ("status__exact", "session", "q")]


@pytest.mark.parametrize(
    ("page", "queries"),
    [
        ("chatsession", NO_TEXTS),
        ("chatmessage", [{"session": "no-uuid"}]),
        ("compactionrun", [{"tip": "x"}, *NO_DATES, *NO_TEXTS]),
        ("compactionevent", [{"run": "-"}, *NO_DATES]),
    ],
)
def test_an_address_that_makes_no_sense_shows_the_whole_list(viewer, page, queries):
    for query in ({"no_such_column": "1"}, *queries):
        answer = viewer.get(url(f"{page}_changelist", **query))
        # SQLite looks for a text that PostgreSQL refuses, and finds none.
        is_empty = "\0" in query.values() and answer.status_code == 200
        assert is_empty or answer.headers["Location"].endswith("?e=1"), query


@pytest.mark.parametrize("number", [str(2**63), "9" * 30, "9" * 5000])
def test_a_number_that_is_no_id_is_no_error(superuser, number):
    _, nodes, *_ = compacted()
    pages = [url(f"{page}_changelist", **{name: number}) for page, name in NUMBERED]
    pages += [url("chatmessage_change", 7777777).replace("7777777", number)]
    pages += [url("chatmessage_transcript", nodes[-1].pk, end=number)]
    pages += [url("chatsession_change", nodes[0].session_id, before=number)]
    for page in pages:
        assert superuser.get(page).status_code in (200, 302, 400, 404), page


def test_search_finds_ids_and_nothing_else(viewer):
    session, nodes, _, run, event = compacted()
    compacted()
    named = start_session(external_id="crm-7")
    assert listed(viewer, "chatsession", q=str(session.pk)) == [session.pk]
    assert listed(viewer, "chatsession", q="crm-7") == [named.pk]
    assert listed(viewer, "chatmessage", q=f"{nodes[0].pk}, {nodes[1].pk}") == [nodes[1].pk, nodes[0].pk]
    assert listed(viewer, "compactionrun", q=str(run.pk)) == [run.pk]
    assert listed(viewer, "compactionrun", q=str(session.pk)) == [run.pk]
    assert listed(viewer, "compactionevent", q=str(event.pk)) == [event.pk]
    for nonsense in ("m0", "9" * 5000, "٣" * 5000, "'; --"):
        assert listed(viewer, "chatmessage", q=nonsense) == []
