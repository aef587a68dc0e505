"""The lists of the admin, narrowed, filtered and searched, what no address may ask for, and where records lead."""

import html
import json
import re

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import override_settings
from django.urls import path, reverse

from compaction_app import chat
from compaction_app.admin import messages
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.admin.pages import listed, page_of, queries_of, url
from tests.admin.records import compacted, run_at
from tests.small import tool_call
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_lists_are_of_one_kind_narrowed_filtered_and_searched_by_ids(viewer):
    session, nodes, summary, run, event = compacted()
    all_nodes, named = ids([*nodes, *compacted()[1]]), start_session(external_id="crm-7")
    of_summaries = listed(viewer, "chatmessage", kind="summary")
    assert (listed(viewer, "chatmessage"), summary.pk in of_summaries, len(of_summaries)) == (all_nodes, True, 2)
    failed = run_at(named_tip := chain(named, 1)[0], error_code="timeout", summarizer_model="quick")
    skipped = run_at(named_tip, status="skipped", trigger="manual", summarizer_model="quicker")
    for page, query, found in (
        ("chatmessage", {"session": session.pk}, ids(nodes)),
        ("chatmessage", {"session": session.pk, "kind": "summary"}, [summary.pk]),
        ("compactionrun", {"session": session.pk}, [run.pk]),
        ("compactionrun", {"tip": nodes[-1].pk}, [run.pk]),
        ("compactionrun", {"base": summary.pk}, []),
        ("compactionrun", {"status__exact": "failed"}, [failed.pk]),
        ("compactionrun", {"trigger__exact": "manual"}, [skipped.pk]),
        ("compactionrun", {"error_code__isempty": 0}, [failed.pk]),
        ("compactionevent", {"run": run.pk}, [event.pk]),
        ("compactionevent", {"message": nodes[-1].pk}, [event.pk]),
        ("chatsession", {"q": str(session.pk)}, [session.pk]),
        ("chatsession", {"q": "crm-7"}, [named.pk]),
        ("chatmessage", {"q": f"{nodes[0].pk}, {nodes[1].pk}"}, [nodes[1].pk, nodes[0].pk]),
        ("chatmessage", {"q": "m0"}, []),
        ("compactionrun", {"q": str(run.pk)}, [run.pk]),
        ("compactionrun", {"q": str(session.pk)}, [run.pk]),
        ("compactionevent", {"q": str(event.pk)}, [event.pk]),
    ):
        assert listed(viewer, page, **query) == found, (page, query)


@pytest.mark.parametrize(
    "query", [{"session": "no-uuid"}, {"q": "9" * 30}, {"created_at__year": "2026", "created_at__month": "13"}]
)
def test_an_address_that_somebody_cut_short_or_typed_is_no_error(viewer, query):
    for page in ("chatsession", "chatmessage", "compactionrun", "compactionevent"):
        assert viewer.get(url(f"{page}_changelist", **query), follow=True).status_code in (200, 400), page


def ids(nodes):
    return sorted((node.pk for node in nodes), reverse=True)


def test_texts_and_external_ids_are_found_within_their_session_only(viewer):
    session, other = start_session(), start_session()
    said = chat.append_message(session, role="user", content="Where does the Ship lie at anchor?", external_id="m-1")
    reply = chat.append_message(session, said, role="assistant", content="In the harbour.", external_id="m-2")
    elsewhere = chat.append_message(other, role="user", content="Where does the ship lie at anchor?")
    found_by = {"ship lie": [said], "lie ship": [said], "m-1, m-2": [said, reply], str(said.pk): [said]}
    # A number among words is no id: a support person searched for "140,000 ramp" and found message 140.
    found_by[f"{said.pk} harbour"] = []
    for query, found in found_by.items():
        assert listed(viewer, "chatmessage", session=session.pk, q=query) == ids(found), query
    assert listed(viewer, "chatmessage", session=other.pk, q="ship lie") == [elsewhere.pk]
    for query in ("ship lie", "m-1"):
        assert listed(viewer, "chatmessage", q=query) == []


NOT_SEARCHED = "<strong>Texts were not searched.</strong>"


def test_a_search_that_reads_no_texts_says_so(viewer):
    """ "0 results" alone reads as if the word were nowhere stored."""
    (node,) = chain(start_session(), 1)
    page = viewer.get(url("chatmessage_changelist", q="insulin")).text
    assert NOT_SEARCHED in page
    for query in ({}, {"q": f"{node.pk}, 12"}, {"q": "insulin", "session": node.session_id}):
        assert NOT_SEARCHED not in viewer.get(url("chatmessage_changelist", **query)).text, query


def test_a_further_word_only_narrows_sessions_and_one_search_finds_the_chat_about_the_tanker(viewer):
    """ "demo xyz" found all sessions of demo, and two words of one title none where another stood between them."""
    demo, other = (get_user_model().objects.create_user(name) for name in ("demo", "other"))
    titled = start_session(owner=demo, title="Berths at the summer regatta", external_id="crm-7")
    said = start_session(owner=demo)
    nodes = chain(said, 4)
    chat.append_message(said, nodes[-1], role="user", content="When does the Tanker leave?")
    theirs = start_session(owner=other, title="Tanker")
    # On a site that is used, they are not the newest for long.
    for _ in range(20):
        start_session()
    for query, found in {
        "Berths regatta": [titled],
        "regatta demo": [titled],
        "demo xyz": [],
        "demo": [said, titled],
        "tanker": [theirs, said],
        "tanker demo": [said],
        "leave tanker": [said],
        nodes[0].content: [said],
        "crm-7": [titled],
        f"{titled.pk}, {theirs.pk}": [theirs, titled],
        f"{titled.pk} tanker": [],
    }.items():
        shown = listed(viewer, "chatsession", q=query)
        assert sorted(shown) == sorted(one.pk for one in found), query
    page = viewer.get(url("chatsession_changelist"))
    assert url("chatsession_changelist", owner=demo.pk) in page.text
    narrowed = viewer.get(url("chatsession_changelist", owner=demo.pk))
    assert {one.pk for one in narrowed.context["cl"].result_list} == {titled.pk, said.pk}
    assert "Only owner demo" in " ".join(narrowed.text.split())
    # In a session that was found, its words are looked for next.
    page = viewer.get(url("chatsession_change", said.pk, _changelist_filters="q=leave+tanker"))
    assert 'size="30" value="leave tanker"' in page.text


def test_who_may_not_read_messages_finds_no_session_by_what_they_say(client):
    session = start_session(title="Regatta")
    chat.append_message(session, role="user", content="When does the tanker leave?")
    staff = get_user_model().objects.create_user("staff", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_chatsession"))
    client.force_login(staff)
    assert listed(client, "chatsession", q="tanker") == []
    assert listed(client, "chatsession", q="regatta") == [session.pk]


@pytest.mark.parametrize("text", ["insulin", 'she said "no" in C:\\temp\tfor 100 %_ of كلمة المرور and 🜁'])
def test_every_text_that_a_redaction_erases_is_found(viewer, text):
    session = start_session()

    said = f"before {text} after"
    places = [
        {"role": "user", "content": said},
        {"role": "user", "content": "x", "name": said},
        {"role": "assistant", "tool_calls": [tool_call("1", json.dumps({"deep": [said]}))]},
        {"role": "assistant", "tool_calls": [tool_call("2", json.dumps({"deep": [said]}, ensure_ascii=False))]},
        {"role": "assistant", "content": "x", "reasoning": [{"text": said}]},
        {"role": "user", "content": "x", "attachments": [{"type": "file", "name": said}]},
        {"role": "user", "content": "x", "metadata": {"a": {said: [said]}}},
    ]
    nodes = [chat.append_message(session, **fields) for fields in places]
    chat.append_message(session, role="user", content="before", metadata={"a": "after"})
    assert listed(viewer, "chatmessage", session=session.pk, q=text) == ids(nodes)
    for node in nodes:
        chat.redact_message(node)
    assert listed(viewer, "chatmessage", session=session.pk, q=text) == []


def test_texts_are_read_by_a_search_within_a_session_only_and_bounded_by_it(viewer):
    session, *_ = compacted()
    everywhere, here = (
        [sql for sql in queries_of(viewer, url("chatmessage_changelist", q="said", **query)) if "LIKE" in sql.upper()]
        for query in ({}, {"session": session.pk})
    )
    assert (everywhere, bool(here)) == ([], True)
    assert all('"session_id" >= ' in sql and '"session_id" <= ' in sql for sql in here)


def test_every_filter_beside_a_narrowed_list_leads_to_a_list(viewer):
    """What only summaries can be filtered by, the other list refuses."""
    session, *_ = compacted()
    words = {"q": "keeper"}
    for query in ({"session": session.pk, **words}, {"kind": "summary", "retired_at__isempty": "1"}):
        page = viewer.get(url("chatmessage_changelist", **query)).text
        sidebar = page[page.index('id="changelist-filter"') :]
        links = [html.unescape(link) for link in re.findall(r'<a href="(\?[^"]*)"', sidebar)]
        assert len(links) > 3
        assert [link for link in links if viewer.get(url("chatmessage_changelist") + link).status_code != 200] == []
        # No text is found there: left are Django's clearing of the filters, and the other kind.
        assert [link for link in links if "q=" in link and "session=" not in link] == ["?q=keeper"] * ("q" in query)


@pytest.mark.parametrize(
    ("page", "lookups"),
    [
        ("chatmessage", ["content", "content__contains", "metadata__note", "retired_reason__icontains"]),
        ("chatmessage", ["role__exact", "session__title__contains"]),
        ("chatsession", ["system_prompt__contains", "title__contains"]),
        ("compactionrun", ["instructions__contains", "error_detail__regex", "tip__content__contains"]),
        ("compactionevent", ["payload__contains", "run__instructions__contains"]),
    ],
)
def test_no_address_searches_a_column_that_no_filter_has(viewer, page, lookups):
    compacted()
    for lookup in lookups:
        assert viewer.get(url(f"{page}_changelist", **{lookup: "a"})).status_code == 400, lookup


@pytest.mark.django_db(transaction=True)
def test_the_sessions_of_an_owner_are_searched_by_words_in_any_order(operator):
    ida, bo = (get_user_model().objects.create_user(name) for name in ("ida", "bo"))
    said = [{"role": "user", "content": "The boat is red."}, {"role": "user", "content": "A red pier."}]
    mine = chat.append_messages(chat.start_session(owner=ida), None, said)
    chat.append_messages(chat.start_session(owner=bo), None, said)
    page = operator.get(page_of(mine[0].session)).text
    address = url("chatmessage_changelist", owner=ida.pk)
    assert f'<a href="{address}">Search all sessions of this owner</a>' in page
    assert listed(operator, "chatmessage", owner=ida.pk, q="RED boats") == [mine[0].pk]
    assert listed(operator, "chatmessage", owner=ida.pk, q="red") == [mine[1].pk, mine[0].pk]
    assert listed(operator, "chatmessage", owner=ida.pk, q="x") == []
    assert sorted(listed(operator, "chatmessage", owner=ida.pk)) == [one.pk for one in mine]
    assert operator.get(url("chatmessage_changelist", owner="nobody", q="red")).status_code == 302


def test_a_records_page_leads_to_all_that_belongs_to_it(viewer, monkeypatch):
    session, nodes, summary, run, event = compacted()
    variant = chat.append_message(session, nodes[1], role="user", content="again")
    base, later = summarize(nodes[1], nodes[0]), run_at(nodes[-1], base=summary, previous_run=run)
    CompactionRun.objects.filter(pk=run.pk).update(base=base)
    for record, others in (
        (summary, (session, nodes[1], nodes[2], base, run, event)),
        (run, (session, nodes[-1], nodes[2], nodes[1], base, summary, event)),
        (later, (summary, run)),
        (nodes[2], (nodes[1], variant, nodes[3], summary)),
    ):
        page = viewer.get(page_of(record)).text
        assert [other for other in others if f'href="{page_of(other)}"' not in page] == [], record
    assert "Other variants</dt>" not in viewer.get(page_of(nodes[3])).text
    chat.append_message(session, nodes[1], role="user", content="and again")
    monkeypatch.setattr(messages, "_MOST_NAMED", 1)
    assert "and more</dd>" in viewer.get(page_of(nodes[2])).text


class Urls:
    """An URLconf whose admin has all models of this app but one."""

    def __init__(self, removed):
        site = admin.AdminSite()
        for model in {ChatMessage, ChatSession, CompactionEvent, CompactionRun} - {removed}:
            site.register(model, type(admin.site.get_model_admin(model)))
        self.urlpatterns = [path("admin/", site.urls)]


@pytest.mark.parametrize("removed", [ChatMessage, CompactionRun, CompactionEvent])
def test_the_other_pages_do_without_a_model_that_was_unregistered(superuser, removed):
    session, nodes, summary, run, event = compacted()
    with override_settings(ROOT_URLCONF=Urls(removed)):
        pages = [reverse("admin:app_list", args=["compaction_app"])]
        for record in (session, nodes[-1], summary, run, event):
            if not isinstance(record, removed):
                pages += [page_of(record), url(f"{record._meta.model_name}_changelist")]
        for page in pages:
            response = superuser.get(page)
            assert response.status_code == 200, page
            assert f"/compaction_app/{removed._meta.model_name}/" not in response.text, page


def test_a_retry_is_offered_for_what_failed_only(superuser):
    _, nodes, _, succeeded, _ = compacted()
    orphan = run_at(nodes[-1])
    orphan.tip = None
    orphan.save()
    for run in (succeeded, orphan):
        assert superuser.get(url("compactionrun_retry", run.pk)).status_code == 404
        assert url("compactionrun_retry", run.pk) not in superuser.get(page_of(run)).text
