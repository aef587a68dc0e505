"""The pages of the admin take a fixed number of queries, however much there is."""

import pytest
from django.contrib.admin import site

from compaction_app.admin import records
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.admin.pages import page_of, queries_of, url
from tests.admin.records import compacted, grow, run_of
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.parametrize(
    ("page", "query", "most"),
    [
        ("chatsession", {}, 16),
        ("chatmessage", {}, 6),
        ("chatmessage", {"kind": "summary"}, 7),
        ("chatmessage", {"session": None}, 7),
        ("compactionrun", {}, 15),
        ("compactionrun", {"status__exact": "failed"}, 14),
        ("compactionrun", {"created_at__year": "2026"}, 15),
        ("compactionrun", {"created_at__year": "2026", "error_code": "timeout"}, 14),
        ("compactionevent", {}, 8),
        ("compactionevent", {"kind__exact": "completed", "created_at__year": "2026"}, 8),
    ],
)
def test_a_list_takes_the_same_few_queries_whatever_its_length(viewer, page, query, most):
    session, nodes, *_ = compacted()
    query = {name: value or session.pk for name, value in query.items()}
    grow(session, nodes[0], 10)
    few = queries_of(viewer, url(f"{page}_changelist", **query))
    grow(session, nodes[0], 300)
    many = queries_of(viewer, url(f"{page}_changelist", **query))
    # Of sessions without messages fewer.
    assert len(many) <= len(few) <= most, many


@pytest.mark.parametrize("query", [{}, {"kind": "summary"}])
def test_a_list_reads_no_texts(viewer, rf, query):
    """A page of fifty messages may hold two hundred megabytes of them."""
    compacted()
    for model in (ChatSession, ChatMessage, CompactionRun, CompactionEvent):
        request = rf.get("/", query if model is ChatMessage else {})
        request.user = viewer.get(url("chatsession_changelist")).wsgi_request.user
        admin = site._registry[model]
        for row in admin.get_changelist_instance(request).result_list:
            own = {name for name in admin.texts if "__" not in name}
            assert own <= row.get_deferred_fields()
            if model is not ChatSession:
                assert "system_prompt" in row.session.get_deferred_fields()


def test_the_page_of_a_message_takes_the_same_queries_with_a_summary_and_many_variants(viewer):
    session, nodes, *_ = compacted()
    few = queries_of(viewer, page_of(nodes[1]))
    grow(session, nodes[0], 300)
    assert len(queries_of(viewer, page_of(nodes[1]))) == len(few)
    assert "and more" in viewer.get(page_of(nodes[1])).text


def test_a_list_counts_and_pages_over_its_first_rows_only(viewer, monkeypatch):
    """Counting a million rows takes longer than showing fifty."""
    monkeypatch.setattr(records.BoundedPaginator, "limit", 5)
    chain(start_session(), 6)
    page = viewer.get(url("chatmessage_changelist"))
    assert page.context["cl"].result_count == 5
    assert "Only the first 5 rows are counted" in page.text


def test_the_pages_of_a_run_and_an_event_take_the_same_queries_at_10_rows_and_at_300(viewer, tip):
    grow(tip.session, tip, 10)
    waiting = run_of(tip, status="ready", anchor=tip)
    pages = [page_of(run) for run in (CompactionRun.objects.first(), waiting)]
    pages.append(page_of(CompactionEvent.objects.first()))
    few = [len(queries_of(viewer, page)) for page in pages]
    grow(tip.session, tip, 290)
    assert [len(queries_of(viewer, page)) for page in pages] == few
    assert max(few) <= 8
