"""The pages of the admin take a fixed number of queries, however much there is."""

import re

import pytest
from django.contrib.admin import site
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app.admin import branches, contexts, records, sessions
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.columns import names
from tests.admin.pages import MODELS, page_of, queries_of, url
from tests.admin.records import compacted, reply_to, run_at, run_for
from tests.trees import chain, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.parametrize("query", [{}, {"kind": "summary"}])
def test_a_list_reads_no_texts(viewer, rf, query):
    """A page of fifty messages may hold two hundred megabytes of them."""
    compacted()
    ChatSession.objects.update(system_prompt="x" * (sessions.MOST_PROMPT + 1))
    for model in (ChatSession, ChatMessage, CompactionRun, CompactionEvent):
        request = rf.get("/", query if model is ChatMessage else {})
        request.user = viewer.get(url("chatsession_changelist")).wsgi_request.user
        admin = site._registry[model]
        for row in admin.get_changelist_instance(request).result_list:
            # Of a system prompt the beginning is read, to count it; settings and counts tell how full a session is.
            read = {"system_prompt", "settings", "token_calibration"} if model is ChatSession else set()
            assert {*names(model, listed=False)} - read <= row.get_deferred_fields()
            if model is ChatSession:
                assert len(row.system_prompt) == sessions.MOST_PROMPT
            else:
                assert "system_prompt" in row.session.get_deferred_fields()


def test_a_list_counts_and_pages_over_its_first_rows_only(viewer, monkeypatch):
    """Counting a million rows takes longer than showing fifty."""
    monkeypatch.setattr(records.BoundedPaginator, "limit", 5)
    chain(start_session(), 6)
    page = viewer.get(url("chatmessage_changelist"))
    assert page.context["cl"].result_count == 5
    assert "Only the first 5 rows are counted" in page.text


def pages_with(length, forks, generations):
    """Name → address: every list, and every page about one conversation of the given size."""
    session = start_session()
    nodes = chain(session, length)
    for n in range(forks):
        chain(session, 1, nodes[n % 3])
        chain(start_session(owner=get_user_model().objects.create(username=f"{length}-{n}")), 1)
    made = [summarize(nodes[n + 1], nodes[n], token_count=5) for n in range(generations)]
    for n, summary in enumerate(made):
        run = run_for(summary, nodes[-1], n + 1, base=made[n - 1] if n else None)
        run_at(nodes[-1], error_code="timeout")
        event = CompactionEvent.objects.create(session=session, run=run, message=nodes[-1], kind="completed")
    first, reply = nodes[0], reply_to(nodes[-1])
    found = {
        "session": page_of(session),
        "session_delete": url("chatsession_delete", session.pk),
        "list": url("chatmessage_changelist", session=session.pk, q="m"),
        "first": page_of(first),
        "tip": page_of(nodes[-1]),
        "reply": page_of(reply),
        "summary": page_of(made[-1]),
        "run": page_of(run),
        "event": page_of(event),
        "retire": url("chatmessage_retire", made[-1].pk),
    }
    for page in ("redact", "delete", "compact"):
        found[page] = url(f"chatmessage_{page}", first.pk)
    found["transcript"] = url("chatmessage_transcript", reply.pk, end=15)
    year = {"created_at__year": nodes[0].created_at.year}
    for model, query in (
        *((model, {}) for model in MODELS),
        ("chatmessage", {"kind": "summary"}),
        *(("compactionrun", {**year, **query}) for query in ({}, {"q": "timeout"}, {"status__exact": "failed"})),
        ("compactionevent", {**year, "kind__exact": "completed"}),
    ):
        found[f"{model} {query}"] = url(f"{model}_changelist", **query)
    return found


@pytest.mark.twice
@pytest.mark.parametrize(
    "window", [400, pytest.param(100_000, marks=pytest.mark.long)], ids=["left out", "all is sent"]
)
def test_every_page_takes_the_same_few_queries_whatever_there_is(superuser, settings, monkeypatch, window):
    """Django's own page before a deletion would load every row below to list it, and recurse once a level."""
    settings.COMPACTION |= {"CONTEXT_WINDOW": window}
    monkeypatch.setattr(contexts, "MOST_LISTED", 40)
    monkeypatch.setattr(branches, "LANES", 5)
    few, many = (
        {name: len(queries_of(superuser, page)) for name, page in pages_with(*size).items()}
        for size in ((60, 3, 3), (90, 12, 30))
    )
    assert many == few
    assert max(few.values()) <= 18, few


def test_a_user_is_deleted_by_the_admin_with_all_conversations(superuser):
    """Django's page lists the conversations, not what is in them."""
    counted = []
    for length in (5, 300):
        owner = get_user_model().objects.create_user(f"ann{length}")
        summary = summarize(*chain(start_session(owner=owner), length)[-1:-3:-1])
        for n in range(length // 5):
            run = run_for(summary, summary.parent, n + 1)
            CompactionEvent.objects.create(session=summary.session, run=run, kind="completed")
        page = reverse("admin:auth_user_delete", args=[owner.pk])
        counted.append(len(queries_of(superuser, page)))
        assert superuser.post(page, {"post": "yes"}).status_code == 302
        assert not ChatSession.objects.exists()
    assert counted[0] == counted[1]


def test_of_a_session_only_the_beginnings_of_texts_are_read(viewer, tip):
    [reading] = [sql for sql in queries_of(viewer, page_of(tip.session)) if '"content"' in sql]
    assert re.search(r'(SUBSTR|LEFT)\("compaction_app_chatmessage"."content"', reading)
