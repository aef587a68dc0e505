"""The admin shows what the system wrote and what the model sees, escaped, in a fixed number of queries.

It edits nothing but a session's title and settings; compacting, retiring and deleting go through ``chat``.
"""

import json
import re

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import context_words, filters, records
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.tasks import compact_session
from compaction_app.values import EventKind, Kind, Origin, RunStatus, Strategy
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db

MODELS = ("chatsession", "chatmessage", "compactionrun", "compactionevent")
MARKUP = "<script>alert(1)</script><b onclick='x()'>\"&amp;"
ARABIC = "مرحبا، كيف أغيّر كلمة المرور؟"


@pytest.fixture(autouse=True)
def small_window(settings):
    settings.COMPACTION = {
        "CONTEXT_WINDOW": 4000,
        "SUMMARIZER": "compaction_app.summarizers.ExtractiveSummarizer",
    }


@pytest.fixture
def login(client):
    """Log in as a staff member with these permissions of the app: ``login("view_chatmessage")``."""

    def log_in(*codenames, name="staff"):
        user = get_user_model().objects.create_user(name, is_staff=True)
        permissions = Permission.objects.filter(content_type__app_label="compaction_app", codename__in=codenames)
        assert permissions.count() == len(codenames)
        user.user_permissions.set(permissions)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(login):
    """May see everything and do nothing."""
    return login(*(f"view_{model}" for model in MODELS))


@pytest.fixture
def operator(login):
    """May see everything, compact and retire."""
    return login(*(f"view_{model}" for model in MODELS), "compact_chatsession", "retire_summary")


@pytest.fixture
def superuser(client):
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


def url(page, *arguments, **query):
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


def page_of(record):
    return url(f"{record._meta.model_name}_change", record.pk)


def told(response):
    """What the person was told, as one text without markup."""
    return re.sub("<[^>]*>", "", " ".join(str(message) for message in get_messages(response.wsgi_request)))


def words(count, about="the harbour"):
    return " ".join(f"{about} {n}" for n in range(count))


def conversation(turns=12, size=60, **fields):
    """A session and its tip, over its threshold."""
    session = chat.start_session(title="Harbour", **fields)
    messages = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Question {turn}: {words(size)}?"})
        messages.append({"role": "assistant", "content": f"Answer {turn}: {words(size)}."})
    return session, chat.append_messages(session, None, messages)[-1]


def summarized(length=4, **fields):
    """A session with one summary and the run and event that made it, written straight into the tables."""
    session = start_session(title="Harbour")
    nodes = chain(session, length)
    summary = summarize(nodes[2], nodes[1], **fields)
    run = run_at(nodes[-1], status="succeeded", generation=1, summary=summary, anchor=nodes[2], cutoff=nodes[1])
    event = CompactionEvent.objects.create(session=session, run=run, message=nodes[-1], kind=EventKind.COMPLETED)
    return session, nodes, summary, run, event


def run_at(tip, **fields):
    given = {
        "session_id": tip.session_id,
        "tip": tip,
        "trigger": "threshold",
        "tokens_before": 3000,
        "tokens_after": 1200,
        "messages_compacted": 7,
        "summarizer_model": "quick-model",
        "prompt_version": "p-42",
    }
    return CompactionRun.objects.create(**(given | fields))


def all_pages():
    """One page of every sort, on rows that are there."""
    session, nodes, summary, run, event = summarized()
    pages = [reverse("admin:app_list", args=["compaction_app"])]
    pages += [url(f"{model}_changelist") for model in MODELS]
    pages += [url("chatmessage_changelist", kind="summary")]
    pages += [page_of(record) for record in (session, nodes[-1], summary, run, event)]
    return pages


# -- who may see what ---------------------------------------------------------------------------------------


def test_staff_with_view_permissions_see_every_page(viewer):
    for page in all_pages():
        assert viewer.get(page).status_code == 200, page


def test_staff_without_permissions_see_no_page(login):
    client = login()
    for page in all_pages():
        assert client.get(page).status_code in (403, 404), page


def test_people_who_are_no_staff_are_sent_to_the_login(client):
    for page in all_pages():
        assert client.get(page).status_code == 302, page


@pytest.mark.parametrize("model", MODELS)
def test_each_model_has_its_own_view_permission(login, model):
    client = login(f"view_{model}")
    for other in MODELS:
        assert client.get(url(f"{other}_changelist")).status_code == (200 if other == model else 403), other


def test_empty_lists_are_pages_too(viewer):
    for model in MODELS:
        assert viewer.get(url(f"{model}_changelist")).status_code == 200
    assert "0 chat messages" in viewer.get(url("chatmessage_changelist", kind="summary")).text


def test_an_empty_session_says_that_nothing_has_run_yet(viewer):
    page = viewer.get(page_of(start_session())).text
    assert "None yet" in page
    assert "0 live" in page


def test_a_run_without_events_says_so(viewer):
    run = run_at(chain(start_session(), 1)[0])
    assert "No events yet." in viewer.get(page_of(run)).text


# -- read-only ----------------------------------------------------------------------------------------------


def test_nobody_adds_or_changes_what_the_system_wrote(superuser):
    """Not even a superuser: there is no add page, and a POST to a record's page is refused."""
    _, nodes, summary, run, event = summarized()
    for model in MODELS:
        assert superuser.get(url(f"{model}_add")).status_code == 403
    for record in (nodes[0], summary, run, event):
        assert superuser.post(page_of(record), {"content": "x", "status": "failed"}).status_code == 403
        page = superuser.get(page_of(record)).text
        assert 'name="_save"' not in page
    assert chat.get_branch(nodes[0])[0].content == nodes[0].content


def test_runs_and_events_are_not_deleted(superuser):
    *_, run, event = summarized()
    for record in (run, event):
        assert superuser.post(url(f"{record._meta.model_name}_delete", record.pk), {"post": "yes"}).status_code == 403
        assert type(record).objects.filter(pk=record.pk).exists()
        assert "deletelink" not in superuser.get(page_of(record)).text


def test_no_list_deletes_in_bulk(superuser):
    summarized()
    for model in MODELS:
        assert "delete_selected" not in superuser.get(url(f"{model}_changelist")).text


def test_title_and_settings_of_a_session_are_changed_by_those_who_may(login):
    session = start_session(title="Before")
    client = login("view_chatsession", "change_chatsession")
    changed = client.post(page_of(session), {"title": "After", "settings": '{"MODE": "aggressive"}'})
    session.refresh_from_db()
    assert changed.status_code == 302
    assert (session.title, session.settings) == ("After", {"MODE": "aggressive"})


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


def test_those_who_may_only_view_a_session_can_not_change_it(viewer):
    session = start_session(title="Before")
    assert viewer.post(page_of(session), {"title": "After", "settings": "{}"}).status_code == 403


@pytest.mark.parametrize(
    "overrides",
    ['{"NO_SUCH_KEY": 1}', '{"TRIGGER_RATIO": 7}', "[1]", '"MODE"', "{", '{"SUMMARY_PROMPT": "\\u0000"}', "7"],
)
def test_settings_that_can_not_be_are_refused_with_a_word_and_nothing_is_written(login, overrides):
    session = start_session(title="Before")
    client = login("view_chatsession", "change_chatsession")
    page = client.post(page_of(session), {"title": "After", "settings": overrides})
    assert page.status_code == 200
    assert "errorlist" in page.text
    session.refresh_from_db()
    assert (session.title, session.settings) == ("Before", {})


def test_settings_left_empty_mean_no_overrides(login):
    session = start_session(settings={"MODE": "aggressive"})
    login("view_chatsession", "change_chatsession").post(page_of(session), {"title": "", "settings": ""})
    session.refresh_from_db()
    assert session.settings == {}


# -- texts are shown, and only shown ------------------------------------------------------------------------


def test_markup_in_any_text_is_shown_and_never_becomes_markup(superuser):
    """Content, tool calls, titles, prompts, instructions, summaries, reasons, codes and names: all untrusted."""
    session = start_session(
        title=MARKUP,
        system_prompt=MARKUP,
        model=MARKUP,
        external_id=MARKUP,
        metadata={MARKUP: MARKUP},
        token_calibration={MARKUP: 1.0},
    )
    call = {"id": MARKUP, "type": "function", "function": {"name": MARKUP, "arguments": json.dumps({MARKUP: MARKUP})}}
    user, assistant, tool = chat.append_messages(
        session,
        None,
        [
            {"role": "user", "content": MARKUP, "name": MARKUP, "attachments": [{"type": "file", "name": MARKUP}]},
            {"role": "assistant", "tool_calls": [call], "reasoning": [MARKUP], "model": MARKUP, "usage": {MARKUP: 1}},
            {"role": "tool", "tool_call_id": MARKUP, "content": MARKUP, "external_id": MARKUP},
        ],
    )
    summary = summarize(tool, user, content=MARKUP, retired_at=timezone.now(), retired_reason=MARKUP)
    texts = dict.fromkeys(
        ("error_code", "skip_reason", "error_detail", "instructions", "policy_line", "summarizer_model", "task_id"),
        MARKUP[:30],
    )
    run = run_at(tool, status="failed", settings={MARKUP: MARKUP}, budget={MARKUP: 1}, summary=summary, **texts)
    event = CompactionEvent.objects.create(session=session, run=run, kind="failed", payload={MARKUP: MARKUP})

    records_ = (session, user, assistant, tool, summary, run, event)
    pages = [page_of(record) for record in records_] + [url(f"{model}_changelist") for model in MODELS]
    pages += [
        url("chatmessage_changelist", kind="summary"),
        url("chatmessage_changelist", session=session.pk),
        url("compactionrun_changelist", tip=MARKUP),
        url("chatsession_compact", session.pk),
        url("chatsession_delete", session.pk),
        url("chatmessage_compact", tool.pk),
        url("chatmessage_delete", tool.pk),
        url("compactionrun_retry", run.pk),
        url("chatsession_changelist", q=MARKUP),
    ]
    for page in pages:
        text = superuser.get(page, follow=True).text
        assert "<script>alert" not in text, page
        assert "<b onclick" not in text, page
    for record in records_:
        assert "&lt;script&gt;alert" in superuser.get(page_of(record)).text, record


def test_texts_of_any_script_are_shown_in_their_own_direction(viewer):
    message = chat.append_message(start_session(title=ARABIC), role="user", content=f"{ARABIC}\n\n  🜁 ﷽")
    page = viewer.get(page_of(message)).text
    assert f'dir="auto" tabindex="0">{ARABIC}\n\n  🜁 ﷽</div>' in page
    assert f'<span dir="auto">{ARABIC}</span>' in viewer.get(url("chatmessage_changelist")).text


def test_arguments_that_no_page_can_be_sent_are_shown_as_they_stand():
    """Escaped surrogates are valid JSON and no valid text."""
    call = {"id": "1", "function": {"name": "f", "arguments": '{"a": "\\ud800"}'}}
    assert "\\ud800" in records.display.tool_calls_block([call])


def test_names_of_records_never_hold_their_content(superuser):
    """They end up in breadcrumbs, in logs and in the admin's own history."""
    message = chat.append_message(start_session(title="Harbour"), role="user", content="the secret")
    superuser.post(url("chatmessage_delete", message.pk), {"post": "yes"})
    assert "secret" not in LogEntry.objects.get().object_repr


def test_pages_need_no_inline_script_and_no_inline_style(superuser):
    """So they work under a strict Content-Security-Policy."""
    session, nodes, summary, run, _ = summarized()
    pages = [*all_pages(), url("chatmessage_compact", nodes[0].pk), url("chatmessage_retire", ids=summary.pk)]
    for page in [*pages, url("compactionrun_retry", run.pk), url("chatsession_compact", session.pk)]:
        text = superuser.get(page).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text), page
        assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", text)), page


# -- constant work ------------------------------------------------------------------------------------------


def queries_of(client, page):
    """What a page asks the database for; four of them are the login's and the permissions'."""
    # Kept by Django from the first page on.
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page).status_code == 200
    return [query["sql"] for query in queries]


def grow(session, parent, count):
    """``count`` more messages, summaries, runs and events in a session."""
    last = ChatMessage.objects.get_children(parent).last().sib_order
    rows = ChatMessage.objects.bulk_create(
        ChatMessage(session=session, parent=parent, role="user", content="x", depth=2, sib_order=last + n + 1)
        for n in range(count)
    )
    made = ChatMessage.objects.bulk_create(
        ChatMessage(
            session=session,
            parent=row,
            role="user",
            kind="summary",
            last_summarized_message=row,
            depth=3,
            retired_at=timezone.now() if n % 2 else None,
        )
        for n, row in enumerate(rows)
    )
    first = CompactionRun.objects.filter(session=session).count()
    runs = CompactionRun.objects.bulk_create(
        CompactionRun(session=session, status="succeeded", trigger="manual", generation=first + n + 1, summary=summary)
        for n, summary in enumerate(made)
    )
    CompactionEvent.objects.bulk_create(
        CompactionEvent(session=session, run=run, message=row, kind="completed", payload={"tokens": 1})
        for run, row in zip(runs, rows, strict=True)
    )
    owner = get_user_model().objects.create(username=f"owner-{first}")
    ChatSession.objects.bulk_create(ChatSession(owner=owner, title=f"s{n}") for n in range(count))


@pytest.mark.parametrize(
    ("page", "query", "most"),
    [
        ("chatsession", {}, 9),
        ("chatmessage", {}, 6),
        ("chatmessage", {"kind": "summary"}, 7),
        ("chatmessage", {"place": "tip", "session": None}, 6),
        ("compactionrun", {}, 12),
        ("compactionrun", {"status__exact": "succeeded"}, 11),
        ("compactionevent", {}, 7),
    ],
)
def test_a_list_takes_the_same_few_queries_whatever_its_length(viewer, page, query, most):
    session, nodes, *_ = summarized()
    query = {name: value or session.pk for name, value in query.items()}
    grow(session, nodes[0], 10)
    few = queries_of(viewer, url(f"{page}_changelist", **query))
    grow(session, nodes[0], 300)
    many = queries_of(viewer, url(f"{page}_changelist", **query))
    assert len(few) == len(many) <= most, many


@pytest.mark.parametrize("query", [{}, {"kind": "summary"}])
def test_a_list_reads_no_texts(viewer, rf, query):
    """A page of fifty messages may hold two hundred megabytes of them."""
    summarized()
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
    session, nodes, *_ = summarized()
    few = queries_of(viewer, page_of(nodes[1]))
    grow(session, nodes[0], 300)
    assert len(queries_of(viewer, page_of(nodes[1]))) == len(few)
    assert "and more" in viewer.get(page_of(nodes[1])).text


def test_the_pages_of_run_and_event_take_the_same_queries_in_a_long_session(viewer):
    session, nodes, _, run, event = summarized()
    before = {record: queries_of(viewer, page_of(record)) for record in (run, event)}
    grow(session, nodes[0], 300)
    for record, few in before.items():
        many = queries_of(viewer, page_of(record))
        assert len(few) == len(many) <= 9, (record, many)


def test_a_list_counts_and_pages_over_its_first_rows_only(viewer, monkeypatch):
    """Counting a million rows takes longer than showing fifty."""
    monkeypatch.setattr(records.BoundedPaginator, "limit", 5)
    chain(start_session(), 6)
    page = viewer.get(url("chatmessage_changelist"))
    assert page.context["cl"].result_count == 5
    assert "Only the first 5 are counted" in page.text


# -- lists --------------------------------------------------------------------------------------------------


def listed(client, page, **query):
    return [row.pk for row in client.get(url(f"{page}_changelist", **query)).context["cl"].result_list]


def test_messages_and_summaries_are_two_lists(viewer):
    _, nodes, summary, *_ = summarized()
    assert listed(viewer, "chatmessage") == [node.pk for node in reversed(nodes)]
    assert listed(viewer, "chatmessage", kind="summary") == [summary.pk]


def test_lists_are_narrowed_to_what_belongs_to_one_record(viewer):
    session, nodes, summary, run, event = summarized()
    summarized()
    assert listed(viewer, "chatmessage", session=session.pk) == [node.pk for node in reversed(nodes)]
    assert listed(viewer, "chatmessage", session=session.pk, kind="summary") == [summary.pk]
    assert listed(viewer, "chatmessage", session=session.pk, place="tip") == [nodes[-1].pk]
    assert listed(viewer, "compactionrun", session=session.pk) == [run.pk]
    assert listed(viewer, "compactionrun", tip=nodes[-1].pk) == [run.pk]
    assert listed(viewer, "compactionrun", base=summary.pk) == []
    assert listed(viewer, "compactionevent", run=run.pk) == [event.pk]
    assert listed(viewer, "compactionevent", message=nodes[-1].pk) == [event.pk]


def test_a_narrowed_list_says_to_what_and_can_be_widened_again(viewer):
    *_, run, _ = summarized()
    page = viewer.get(url("compactionevent_changelist", run=run.pk)).text
    assert f"run {run.pk}" in page
    assert "By run" in page
    assert "By run" not in viewer.get(url("compactionevent_changelist")).text


def test_summaries_are_filtered_by_live_and_retired(viewer):
    _, nodes, live, *_ = summarized()
    retired = summarize(nodes[3], nodes[1], retired_at=timezone.now())
    assert listed(viewer, "chatmessage", kind="summary", state="live") == [live.pk]
    assert listed(viewer, "chatmessage", kind="summary", state="retired") == [retired.pk]


def test_roles_and_tips_are_looked_for_within_one_session(viewer):
    """No index knows them, so in the whole table a rare role would mean reading all of it."""
    session = start_session()
    assistant = chat.append_message(session, role="assistant", content="hi")
    chat.append_message(session, role="user", content="hi")
    assert listed(viewer, "chatmessage", session=session.pk, role__exact="assistant") == [assistant.pk]
    assert "By role" in viewer.get(url("chatmessage_changelist", session=session.pk)).text
    assert "By role" not in viewer.get(url("chatmessage_changelist")).text


def test_runs_are_filtered_by_status_trigger_strategy_skip_reason_and_error_code(viewer):
    tip = chain(start_session(), 1)[0]
    failed = run_at(tip, status="failed", error_code="timeout", strategy="truncated")
    skipped = run_at(tip, status="skipped", skip_reason="branch_gone", trigger="manual")
    assert listed(viewer, "compactionrun", status__exact="failed") == [failed.pk]
    assert listed(viewer, "compactionrun", trigger__exact="manual") == [skipped.pk]
    assert listed(viewer, "compactionrun", strategy__exact="truncated") == [failed.pk]
    assert listed(viewer, "compactionrun", skip_reason="branch_gone") == [skipped.pk]
    assert listed(viewer, "compactionrun", error_code="timeout") == [failed.pk]


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("chatmessage", {"session": "no-uuid"}),
        ("compactionrun", {"tip": "x"}),
        ("compactionrun", {"tip": "9" * 30}),
        ("compactionevent", {"run": "-"}),
        ("chatmessage", {"no_such_field": "1"}),
    ],
)
def test_an_address_that_makes_no_sense_shows_the_whole_list(viewer, page, query):
    assert viewer.get(url(f"{page}_changelist", **query)).headers["Location"].endswith("?e=1")


def test_search_finds_ids_and_nothing_else(viewer):
    session, nodes, _, run, event = summarized()
    summarized()
    named = start_session(external_id="crm-7")
    assert listed(viewer, "chatsession", q=str(session.pk)) == [session.pk]
    assert listed(viewer, "chatsession", q="crm-7") == [named.pk]
    assert listed(viewer, "chatmessage", q=f"{nodes[0].pk}, {nodes[1].pk}") == [nodes[1].pk, nodes[0].pk]
    assert listed(viewer, "compactionrun", q=str(run.pk)) == [run.pk]
    assert listed(viewer, "compactionrun", q=str(session.pk)) == [run.pk]
    assert listed(viewer, "compactionevent", q=str(event.pk)) == [event.pk]
    for nonsense in ("m0", "9" * 5000, "٣" * 5000, "'; --"):
        assert listed(viewer, "chatmessage", q=nonsense) == []


def test_in_the_list_of_a_session_external_ids_are_found(viewer):
    session = start_session()
    message = chat.append_message(session, role="user", content="hi", external_id="m-1")
    assert listed(viewer, "chatmessage", session=session.pk, q="m-1") == [message.pk]
    assert listed(viewer, "chatmessage", q="m-1") == []


def test_summaries_are_linked_from_the_app_index(viewer):
    assert (
        url("chatmessage_changelist", kind="summary")
        in viewer.get(reverse("admin:app_list", args=["compaction_app"])).text
    )


# -- pages and their links ----------------------------------------------------------------------------------


def test_a_session_leads_to_all_that_belongs_to_it(viewer):
    session, *_ = summarized()
    page = viewer.get(page_of(session)).text.replace("&amp;", "&")
    for link in (
        url("chatmessage_changelist", session=session.pk),
        url("chatmessage_changelist", session=session.pk, place="tip"),
        url("chatmessage_changelist", kind="summary", session=session.pk, state="live"),
        url("compactionrun_changelist", session=session.pk, status__exact="succeeded"),
        url("compactionevent_changelist", session=session.pk),
    ):
        assert f'href="{link}"' in page, link


def test_a_summary_leads_to_cutoff_anchor_base_run_session_and_events(viewer):
    session, nodes, summary, run, event = summarized()
    base = summarize(nodes[1], nodes[0])
    CompactionRun.objects.filter(pk=run.pk).update(base=base)
    page = viewer.get(page_of(summary)).text
    for record in (session, nodes[1], nodes[2], base, run, event):
        assert f'href="{page_of(record)}"' in page, record
    for shown in ("What was said.", "3,000 → 1,200", "quick-model", "p-42", "Live", "Threshold", "Auto compact"):
        assert shown in page, shown


def test_a_retired_summary_says_when_and_why(viewer):
    _, _, summary, *_ = summarized(retired_at=timezone.now(), retired_reason="It was wrong.")
    page = viewer.get(page_of(summary)).text
    assert "Retired" in page
    assert "It was wrong." in page


def test_a_summary_that_no_run_made_has_a_page(viewer):
    nodes = chain(start_session(), 3)
    page = viewer.get(page_of(summarize(nodes[2], nodes[1])))
    assert page.status_code == 200
    assert "No events yet." in page.text


def test_a_run_leads_to_tip_anchor_cutoff_base_summary_and_events(viewer):
    session, nodes, summary, run, event = summarized()
    later = run_at(nodes[-1], base=summary, previous_run=run)
    page = viewer.get(page_of(run)).text
    for record in (session, nodes[-1], nodes[2], nodes[1], summary, event):
        assert f'href="{page_of(record)}"' in page, record
    page = viewer.get(page_of(later)).text
    for record in (summary, run):
        assert f'href="{page_of(record)}"' in page, record


def test_a_message_leads_to_its_parent_variants_children_and_summaries(viewer):
    session, nodes, summary, *_ = summarized()
    variant = chat.append_message(session, nodes[1], role="user", content="again")
    page = viewer.get(page_of(nodes[2])).text
    for record in (nodes[1], variant, nodes[3], summary):
        assert f'href="{page_of(record)}"' in page, record
    assert '<strong aria-current="page">1</strong>' in page
    assert "Nothing: this is a tip" in viewer.get(page_of(variant)).text


def test_tool_calls_are_set_out(viewer):
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a","deep":{"b":[1]}}'}}
    message = chat.append_message(start_session(), role="assistant", tool_calls=[call])
    page = viewer.get(page_of(message)).text
    assert "<strong>read</strong> <code>c1</code>" in page
    assert "  &quot;path&quot;: &quot;a&quot;,\n" in page


# -- what the model sees ------------------------------------------------------------------------------------


def test_the_context_here_is_what_the_model_would_be_sent(viewer):
    session, nodes, *_ = summarized()
    ChatSession.objects.filter(pk=session.pk).update(system_prompt="Be kind.")
    here = viewer.get(page_of(nodes[-1])).context["here"]
    context = chat.get_context(nodes[-1])
    assert here.context == context
    assert [(row.origin, row.message_id, row.tokens) for row in here.rows] == [
        (message.origin, message.message_id, message.tokens) for message in context.messages
    ]
    assert [row.origin for row in here.rows] == ["system", "summary", "verbatim", "verbatim"]


def test_the_context_here_compares_with_available_threshold_and_target(viewer):
    _, tip = conversation()
    context = chat.get_context(tip)
    page = viewer.get(page_of(tip)).text
    for figure in (context.history_tokens, context.available_tokens, context.threshold, context.target):
        assert f"{figure:,}" in page
    assert "over the threshold" in page


def test_what_was_pruned_says_how_much_is_missing(viewer, settings):
    settings.COMPACTION |= {"PRUNE": "always", "PRUNE_KEEP_TURNS": 1, "PRUNE_TOOL_RESULT_BYTES": 200}
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * 1200},
        {"role": "user", "content": "and?"},
        {"role": "user", "content": "well?"},
    ]
    tip = chat.append_messages(start_session(), None, messages)[-1]
    page = viewer.get(page_of(tip))
    [row] = [row for row in page.context["here"].rows if row.origin == "pruned"]
    assert row.left_out_bytes > 0
    assert f"{row.left_out_bytes:,} bytes left out" in page.text


def test_a_context_that_does_not_fit_is_told_and_not_a_crash(viewer):
    message = chat.append_message(start_session(), role="user", content=words(4000))
    page = viewer.get(page_of(message))
    assert page.status_code == 200
    assert "errornote" in page.text


def test_settings_that_leave_no_room_are_told_and_not_a_crash(viewer, settings):
    message = chat.append_message(start_session(), role="user", content="hi")
    settings.COMPACTION = {"NO_SUCH_KEY": 1}
    page = viewer.get(page_of(message))
    assert page.status_code == 200
    assert "NO_SUCH_KEY" in page.text


def test_every_origin_strategy_and_kind_has_its_words():
    assert set(context_words.ORIGIN_WORDS) == set(Origin)
    assert set(context_words.STRATEGY_WORDS) == set(Strategy)
    assert set(filters.KIND_WORDS) == set(Kind)


# -- compacting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codenames", "compact", "retire"),
    [
        ((), False, False),
        (("compact_chatsession",), True, False),
        (("retire_summary",), False, True),
        (("change_chatsession", "delete_chatmessage"), False, False),
    ],
)
def test_actions_have_permissions_of_their_own(login, codenames, compact, retire):
    """On lists, as buttons and as pages: who may not, sees no button and gets no page."""
    session, nodes, summary, *_ = summarized()
    failed = run_at(nodes[-1], status="failed")
    client = login(*(f"view_{model}" for model in MODELS), *codenames)
    for allowed, record, name, page, listing in (
        (compact, session, "Compact every branch", url("chatsession_compact", session.pk), {}),
        (compact, nodes[-1], "Compact now", url("chatmessage_compact", nodes[-1].pk), {}),
        (compact, failed, "Retry", url("compactionrun_retry", failed.pk), {}),
        (retire, summary, "Retire", url("chatmessage_retire", ids=summary.pk), {"kind": "summary"}),
    ):
        listed_page = client.get(url(f"{record._meta.model_name}_changelist", **listing))
        assert (name in listed_page.text.replace("Retired", "")) == allowed, name
        assert (f'href="{page}"' in client.get(page_of(record)).text) == allowed, name
        assert client.get(page).status_code == (200 if allowed else 403), name
        assert client.post(page, {"reason": "x"}).status_code == (302 if allowed else 403), name


def test_pages_of_actions_need_the_view_permission_too(login):
    session, nodes, summary, run, _ = summarized()
    client = login("compact_chatsession", "retire_summary")
    for page in (
        url("chatsession_compact", session.pk),
        url("chatmessage_compact", nodes[0].pk),
        url("compactionrun_retry", run.pk),
        url("chatmessage_retire", ids=summary.pk),
    ):
        assert client.post(page).status_code == 403


def test_pages_of_actions_on_what_is_not_there_are_not_found(operator):
    session = start_session()
    for page in (
        url("chatsession_compact", "00000000-0000-4000-8000-000000000000"),
        url("chatmessage_compact", 10**9),
        url("compactionrun_retry", 10**9),
    ):
        assert operator.post(page).status_code == 404
    assert session.runs.count() == 0


@pytest.mark.django_db(transaction=True)
def test_compact_now_opens_a_manual_run_with_the_instructions(operator):
    session, tip = conversation()
    response = operator.post(url("chatmessage_compact", tip.pk), {"instructions": "Keep the prices."})
    run = session.runs.get()
    assert (run.tip_id, run.trigger, run.status, run.instructions) == (tip.pk, "manual", "ready", "Keep the prices.")
    assert told(response) == f"Started in the background: Run {run.pk}."
    assert LogEntry.objects.get().change_message == f"Compaction requested: run {run.pk}."


@pytest.mark.django_db(transaction=True)
def test_compact_now_says_what_became_of_each_selected_message(operator):
    """A run for one, one that is open already, nothing to do, and one whose session has it switched off."""
    session, tip = conversation()
    short = chat.append_message(start_session(), role="user", content="hi")
    off = chat.append_message(start_session(settings={"MODE": "off"}), role="user", content="hi")
    busy, busy_tip = conversation()
    chat.request_compaction(busy_tip, trigger="manual")
    before = busy.runs.count()

    chosen = {"action": "compact_now", "_selected_action": [tip.pk, short.pk, off.pk, busy_tip.pk], "index": 0}
    response = operator.post(url("chatmessage_changelist"), chosen)

    assert response.status_code == 302
    said = told(response)
    assert f"Started in the background: Run {session.runs.get().pk}." in said
    assert f"Nothing to compact: Message {short.pk}." in said
    assert f"A compaction of this branch is open already: Message {busy_tip.pk}." in said
    assert f"Compaction is switched off in this session: Message {off.pk}." in said
    assert busy.runs.count() == before


@pytest.mark.django_db(transaction=True)
def test_compact_now_in_deterministic_mode_compacts_before_it_answers(operator, settings):
    settings.COMPACTION |= {"MODE": "deterministic"}
    session, tip = conversation()
    operator.post(url("chatmessage_compact", tip.pk))
    assert session.runs.filter(status="succeeded").exists()


def test_a_summary_is_no_tip_to_compact(operator):
    _, _, summary, *_ = summarized()
    assert "A summary is no tip" in told(operator.post(url("chatmessage_compact", summary.pk)))


def test_instructions_that_are_too_long_are_asked_for_again(operator):
    session, tip = conversation(turns=1)
    page = operator.post(url("chatmessage_compact", tip.pk), {"instructions": "x" * 2001})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert session.runs.count() == 0


def test_more_than_a_hundred_at_once_are_refused(operator):
    nodes = chain(start_session(), 101)
    chosen = {"action": "compact_now", "_selected_action": [nodes[0].pk], "select_across": 1, "index": 0}
    response = operator.post(url("chatmessage_changelist"), chosen)
    assert "at most 100" in told(response)
    assert not CompactionRun.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_every_branch_of_the_selected_sessions_is_enqueued(operator, broker):
    session, _ = conversation(turns=1)
    other, _ = conversation(turns=1)
    chosen = {"action": "compact_every_branch", "_selected_action": [session.pk, other.pk], "index": 0}
    said = told(operator.post(url("chatsession_changelist"), chosen))
    assert "in 2 sessions: Harbour, Harbour." in said
    assert "in 1 session: Harbour." in told(operator.post(url("chatsession_compact", session.pk)))
    assert LogEntry.objects.count() == 3


def test_a_broker_that_is_away_is_told_after_one_try(operator, monkeypatch):
    tried = []
    monkeypatch.setattr("compaction_app.tasks.enqueue_session", lambda session: bool(tried.append(session)))
    sessions = [start_session() for _ in range(3)]
    chosen = {
        "action": "compact_every_branch",
        "_selected_action": [session.pk for session in sessions],
        "index": 0,
    }
    said = told(operator.post(url("chatsession_changelist"), chosen))
    assert "The broker did not answer: 3 of 3 sessions not enqueued." in said
    assert len(tried) == 1


@pytest.mark.django_db(transaction=True)
def test_retry_opens_a_new_run_for_the_tip_of_the_failed_one(operator):
    session, tip = conversation()
    failed = run_at(tip, status="failed", error_code="timeout", instructions="Keep the prices.")
    said = told(operator.post(url("compactionrun_retry", failed.pk)))
    new = session.runs.exclude(pk=failed.pk).get()
    assert (new.tip_id, new.trigger, new.status, new.instructions) == (tip.pk, "manual", "ready", "Keep the prices.")
    assert said == f"Started in the background: Run {new.pk}."
    failed.refresh_from_db()
    assert failed.status == RunStatus.FAILED


def test_retry_refuses_runs_that_did_not_fail_and_tips_that_are_gone(operator):
    _, nodes, _, succeeded, _ = summarized()
    orphan = run_at(nodes[-1], status="failed")
    CompactionRun.objects.filter(pk=orphan.pk).update(tip=None)
    chosen = {"action": "retry", "_selected_action": [succeeded.pk, orphan.pk], "index": 0}
    said = told(operator.post(url("compactionrun_changelist"), chosen))
    assert f"Run {succeeded.pk} (succeeded): Only a failed run can be retried." in said
    assert f"Run {orphan.pk} (failed): Its tip has been deleted." in said
    assert CompactionRun.objects.count() == 2


# -- retiring -----------------------------------------------------------------------------------------------


@pytest.fixture
def generations():
    """Two summaries, the second built on the first, and a third that is not."""
    session = start_session(title="Harbour")
    nodes = chain(session, 6)
    first, second = summarize(nodes[1], nodes[0]), summarize(nodes[3], nodes[2])
    other = summarize(chain(session, 2)[-1], nodes[0])
    run_at(nodes[-1], status="succeeded", generation=1, summary=first)
    run_at(nodes[-1], status="succeeded", generation=2, summary=second, base=first)
    return first, second, other


def test_retiring_says_first_which_summaries_go(operator, generations):
    first, second, other = generations
    chosen = {"action": "retire", "_selected_action": [first.pk], "index": 0}
    page = operator.post(url("chatmessage_changelist", kind="summary"), chosen, follow=True)
    assert f"{first}</a></th>" in page.text
    assert f"{second}</a></th>" in page.text
    assert f"{other}</a></th>" not in page.text
    assert page.text.count("built on a selected one") == 1
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()


def test_retiring_takes_a_reason_and_goes_through_the_app(operator, generations):
    first, second, _ = generations
    response = operator.post(url("chatmessage_retire", ids=first.pk), {"reason": "It was wrong."})
    retired = ChatMessage.objects.filter(retired_at__isnull=False)
    assert {(row.pk, row.retired_reason) for row in retired} == {
        (first.pk, "It was wrong."),
        (second.pk, "It was wrong."),
    }
    assert told(response) == f"Retired 2: Summary {first.pk}, Summary {second.pk}."
    assert CompactionEvent.objects.filter(kind=EventKind.RETIRED).count() == 1
    logged = {entry.change_message for entry in LogEntry.objects.all()}
    assert logged == {"Retired."}, "this log outlives an erasure: the reason stands with the summary"


@pytest.mark.parametrize("reason", ["", "  ", "x" * 256, "\x00"])
def test_retiring_without_a_proper_reason_asks_again(operator, generations, reason):
    page = operator.post(url("chatmessage_retire", ids=generations[0].pk), {"reason": reason})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert not ChatMessage.objects.filter(retired_at__isnull=False).exists()


@pytest.mark.parametrize("ids", ["", "x", "0", "9" * 40, "1,,x"])
def test_retiring_what_is_no_live_summary_is_told(operator, ids):
    response = operator.post(url("chatmessage_retire", ids=ids), {"reason": "x"})
    assert "Nothing to retire" in told(response)


def test_messages_are_not_retired(operator):
    _, nodes, *_ = summarized()
    assert "Nothing to retire" in told(operator.post(url("chatmessage_retire", ids=nodes[0].pk), {"reason": "x"}))


# -- deleting -----------------------------------------------------------------------------------------------


def test_a_message_is_deleted_through_the_app_with_all_below_it(login):
    """The erasure is counted, so that a run which saw the text can not commit."""
    session, nodes, *_ = summarized()
    client = login("view_chatmessage", "delete_chatmessage")
    page = client.get(url("chatmessage_delete", nodes[1].pk)).text
    assert "2 messages below it" in page
    assert "1 live summary" in page
    assert client.post(url("chatmessage_delete", nodes[1].pk), {"post": "yes"}).status_code == 302
    session.refresh_from_db()
    assert session.erasures == 1
    assert list(session.messages.values_list("pk", flat=True)) == [nodes[0].pk]
    assert CompactionEvent.objects.filter(kind=EventKind.INVALIDATED).count() == 1


def test_a_summary_is_not_deleted_and_the_way_out_is_told(superuser):
    _, _, summary, *_ = summarized()
    response = superuser.post(url("chatmessage_delete", summary.pk), {"post": "yes"})
    assert "retire it" in told(response)
    assert ChatMessage.objects.filter(pk=summary.pk).exists()
    assert "deletelink" not in superuser.get(page_of(summary)).text


def test_a_session_is_deleted_through_the_app(login, monkeypatch):
    session, *_ = summarized()
    deleted = []
    delete_session = chat.delete_session
    monkeypatch.setattr(chat, "delete_session", lambda row: (deleted.append(row.pk), delete_session(row)))
    client = login("view_chatsession", "delete_chatsession")
    page = client.get(url("chatsession_delete", session.pk)).text
    for part in ("4 messages", "1 summaries", "1 runs", "1 events"):
        assert part in page
    client.post(url("chatsession_delete", session.pk), {"post": "yes"})
    assert deleted == [session.pk]
    assert not ChatSession.objects.exists()
    assert not CompactionRun.objects.exists()


def test_the_page_before_a_deletion_takes_the_same_queries_at_any_size(superuser):
    """Django's own would load every row below to list it, and recurse once a level."""
    small, large = chain(start_session(), 10), chain(start_session(), 500)
    for page, of in (("chatmessage", lambda nodes: nodes[0].pk), ("chatsession", lambda nodes: nodes[0].session_id)):
        few = queries_of(superuser, url(f"{page}_delete", of(small)))
        assert len(queries_of(superuser, url(f"{page}_delete", of(large)))) == len(few)


def test_deleting_needs_the_permission(viewer):
    session, nodes, *_ = summarized()
    assert viewer.post(url("chatmessage_delete", nodes[0].pk), {"post": "yes"}).status_code == 403
    assert viewer.post(url("chatsession_delete", session.pk), {"post": "yes"}).status_code == 403


def test_a_user_whose_sessions_go_along_can_be_deleted_in_the_admin(superuser):
    owner = get_user_model().objects.create_user("owner")
    ChatSession.objects.filter(pk=summarized()[0].pk).update(owner=owner)
    response = superuser.post(reverse("admin:auth_user_delete", args=[owner.pk]), {"post": "yes"})
    assert response.status_code == 302
    assert not ChatSession.objects.exists()


# -- the whole way ------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_compacted_conversation_is_shown_on_every_page(operator):
    """Nothing made by hand: the rows that a real compaction leaves."""
    session, tip = conversation(turns=20)
    compact_session(str(session.pk))
    summary = chat.find_summary(tip)
    run = session.runs.get(summary=summary)
    page = operator.get(page_of(summary)).text
    assert f"{run.tokens_before:,} → {run.tokens_after:,}" in page
    here = operator.get(page_of(tip)).context["here"]
    assert not here.over_threshold
    assert here.rows[0].origin == Origin.SUMMARY
    for record in (session, run, run.events.first()):
        assert operator.get(page_of(record)).status_code == 200
