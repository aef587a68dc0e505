"""Compacting from the admin: who may, what is opened, and what is told where it is not."""

from itertools import pairwise

import pytest
from django.contrib.admin.models import LogEntry

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import RunStatus
from tests.admin.pages import MODELS, page_of, told, url
from tests.admin.records import compacted, conversation, run_at
from tests.builders import grow
from tests.small import anchored_summary, small
from tests.some import some

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


@pytest.mark.parametrize(
    "codename",
    some(
        "compact_chatsession retire_summary redact_chatmessage change_chatsession delete_chatmessage".split(),
        *("compact_chatsession", "redact_chatmessage", "change_chatsession"),
    ),
)
def test_actions_have_permissions_of_their_own(login, codename):
    """As buttons and as pages: who may not, sees no button and gets no page."""
    _, nodes, summary, *_ = compacted()
    failed = run_at(nodes[-2], status="failed")
    client = login(*(f"view_{model}" for model in MODELS), codename)
    for needed, record, page in (
        ("compact_chatsession", nodes[-1], url("chatmessage_compact", nodes[-1].pk)),
        ("compact_chatsession", failed, url("compactionrun_retry", failed.pk)),
        ("retire_summary", summary, url("chatmessage_retire", summary.pk)),
        ("redact_chatmessage", nodes[0], url("chatmessage_redact", nodes[0].pk)),
        ("delete_chatmessage", nodes[0], url("chatmessage_delete", nodes[0].pk)),
    ):
        allowed, given = codename == needed, {"reason": "x", "replacement": "x", "post": "yes"}
        assert (f'href="{page}' in client.get(page_of(record)).text) == allowed, page
        assert client.get(page).status_code == (200 if allowed else 403), page
        assert client.post(page, given).status_code == (302 if allowed else 403), page


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", ["chatmessage_compact", "compactionrun_retry"])
def test_compact_now_and_retry_open_a_manual_run_with_the_instructions(operator, broker, page):
    session, tip = conversation()
    about, given = tip, {"instructions": "Keep the prices."}
    if page == "compactionrun_retry":
        about, given = run_at(tip, status="failed", error_code="timeout", **given), {}
    response = operator.post(url(page, about.pk), given)
    run = session.runs.latest("pk")
    assert (run.tip_id, run.trigger, run.status, run.instructions) == (tip.pk, "manual", "ready", "Keep the prices.")
    assert told(response).startswith(f"Opened: Run {run.pk} (waiting).")
    assert response.headers["Location"] == page_of(about)
    [entry] = LogEntry.objects.all()
    assert (entry.object_id, str(run.pk) in entry.change_message) == (str(about.pk), True)
    assert set(session.runs.exclude(pk=run.pk).values_list("status", flat=True)) <= {RunStatus.FAILED}


@pytest.mark.django_db(transaction=True)
def test_a_run_is_no_link_for_those_who_may_not_see_runs(login, broker):
    _, tip = conversation()
    answer = login("view_chatmessage", "compact_chatsession").post(url("chatmessage_compact", tip.pk), follow=True)
    run = CompactionRun.objects.get()
    assert f"Opened: Run {run.pk} (waiting)." in answer.text
    assert page_of(run) not in answer.text


def test_a_compaction_that_is_open_already_is_named_with_its_run(operator):
    session, tip = conversation()
    chat.request_compaction(tip, trigger="manual")
    run = session.runs.get()
    answer = operator.post(url("chatmessage_compact", tip.pk), follow=True).text
    assert f'already open: <a href="{page_of(run)}">Run {run.pk}</a>' in answer
    assert f"Message {tip.pk}" in answer


@pytest.mark.django_db(transaction=True)
class TestByPeople:
    def test_a_cut_and_a_text_of_their_own(self, operator, broker):
        session, tip = conversation()
        branch = chat.get_branch(tip)
        until = next(one for one, after in pairwise(branch[8:]) if after.role == "user")
        page = url("chatmessage_compact", tip.pk)
        refused = operator.post(page, {"until": until.parent_id, "text": "Ida keeps the tables."})
        assert f"Its turn ends at message {until.pk}." in refused.text
        assert "Ida keeps the tables.</textarea>" in refused.text, "what was written is not lost"
        assert "is not on the branch that ends at message" in operator.post(page, {"until": 2**63 - 1}).text
        operator.post(page, {"until": until.pk, "text": "Ida keeps the tables."})
        run = session.runs.get()
        assert (run.cutoff_id, run.written, run.author.username) == (until.pk, "Ida keeps the tables.", "staff")
        assert tasks.compact_branch(run.pk) == "succeeded"
        page = operator.get(page_of(chat.find_summary(tip))).text
        assert "Ida keeps the tables." in page
        assert "<bdi>staff</bdi>" in page or ">staff<" in page

    def test_a_summary_is_corrected(self, operator, login, broker):
        _, nodes, summary, *_ = compacted()
        page = url("chatmessage_correct", summary.pk)
        assert f'href="{page}' in operator.get(page_of(summary)).text
        assert summary.content in operator.get(page).text
        refused = operator.post(page, {"text": "word " * 90_000})
        assert "it is too long for a summary" in refused.text
        answer = operator.post(page, {"text": "<b>Ida</b> keeps the tables."}, follow=True)
        assert "&lt;b&gt;Ida&lt;/b&gt; keeps the tables." in answer.text
        corrected = chat.find_summary(nodes[-1])
        assert corrected.content == "<b>Ida</b> keeps the tables."
        german = {"Accept-Language": "de"}
        assert "berichtigt" in operator.get(page_of(summary), headers=german).text
        shown = operator.get(page_of(corrected), headers=german).text
        assert (">Person<" in shown, ">person<" in shown) == (True, False)
        assert "Ida" not in LogEntry.objects.get().change_message
        assert operator.get(page).status_code == 404, "it is retired"
        for codename, status in (("retire_summary", 403), ("compact_chatsession", 403)):
            few = login("view_chatmessage", codename)
            assert few.get(url("chatmessage_correct", corrected.pk)).status_code == status

    def test_a_retry_is_of_the_same_text_and_cut(self, operator, broker):
        session, tip = conversation()
        until = next(one for one, after in pairwise(chat.get_branch(tip)[2:]) if after.role == "user")
        with pytest.raises(CompactionFailed):
            chat.compact(tip, until=until, text="Ida keeps the tables. " * 40)
        failed = session.runs.get()
        page = operator.get(page_of(failed)).text
        assert "Ida keeps the tables." in page
        operator.post(url("compactionrun_retry", failed.pk))
        run = session.runs.latest("pk")
        assert (run.written, run.cutoff_id, run.is_cut_given) == (failed.written, until.pk, True)
        # Once it is erased there is nothing to try again: no model writes in its place.
        CompactionRun.objects.update(status="failed", written="")
        assert url("compactionrun_retry", run.pk) not in operator.get(page_of(run)).text

    def test_whoever_comes_second_keeps_their_text(self, operator, broker):
        *_, summary = compacted()[:3]
        chat.correct_summary(summary, "Ida keeps the tables.")
        answer = operator.post(url("chatmessage_correct", summary.pk), {"text": "Ola keeps them."})
        assert "is not in use any more" in answer.text
        assert "Ola keeps them.</textarea>" in answer.text


@pytest.mark.django_db(transaction=True)
class TestHandingOver:
    def test_a_branch_goes_on_in_a_new_session(self, eraser, login):
        session, nodes, *_ = compacted()
        page = url("chatmessage_hand_over", nodes[-1].pk)
        assert f'href="{page}"' in eraser.get(page_of(nodes[-1])).text
        assert "erased there too" in eraser.get(page).text
        answer = eraser.post(page)
        new = ChatSession.objects.get(continues=nodes[1])
        assert (answer.headers["Location"], new.owner) == (page_of(new), session.owner)
        shown = eraser.get(page_of(new)).text
        assert page_of(nodes[1]) in shown, "where it continues"
        assert page_of(nodes[1]) in eraser.get(page_of(new.messages.get(kind="summary"))).text
        # The pages that ask before an erasure say which sessions it reaches.
        for before in ("chatmessage_redact", "chatmessage_delete"):
            assert "Sessions that continue it" in eraser.get(url(before, nodes[0].pk)).text
        # Not of another branch.
        fork = chat.append_message(session, nodes[0], role="user", content="And then?")
        assert "Sessions that continue it" not in eraser.get(url("chatmessage_redact", fork.pk)).text
        assert login("view_chatmessage").get(page).status_code == 403

    def test_without_a_summary_nobody_waits_for_one(self, operator):
        _, tip = conversation()
        answer = operator.post(url("chatmessage_hand_over", tip.pk))
        assert "does not begin with a summary of this branch yet: compact it first." in answer.text
        assert ChatSession.objects.count() == 1

    def test_where_the_prompt_has_an_older_summary_nobody_waits_for_a_newer_one(self, operator, settings):
        nodes = grow(chat.start_session(), None, "u a " * 30)
        anchored_summary(nodes[1], nodes[1], tokens=30)
        anchored_summary(nodes[9], nodes[9], tokens=3_000)
        settings.COMPACTION = small(CONTEXT_WINDOW=3_000)
        answer = operator.post(url("chatmessage_hand_over", nodes[-1].pk))
        assert "does not begin with a summary of this branch yet: compact it first." in answer.text
        assert ChatSession.objects.count() == 1


@pytest.mark.django_db(transaction=True)
class TestCarryingOver:
    def test_what_another_branch_found_is_summarized_first_and_then_a_message(self, operator, login, broker):
        session, nodes, *_ = compacted()
        other = grow(session, nodes[0], "a u a")
        page = url("chatmessage_carry_over", nodes[-1].pk)
        assert f'href="{page}"' in operator.get(page_of(nodes[-1])).text
        assert "erased here too" in operator.get(page).text
        told_first = told(operator.post(page, {"source": other[-1].pk}))
        run = session.runs.get(trigger="carry_over")
        assert (f"Run {run.pk}" in told_first, run.status) == (True, "ready")
        tasks.compact_branch(run.pk)
        answer = operator.post(page, {"source": other[-1].pk})
        carried = ChatMessage.objects.get(copy_of=session.runs.get(pk=run.pk).summary_id)
        assert (answer.headers["Location"], carried.parent_id) == (page_of(carried), nodes[-1].pk)
        assert "Herüberholen" in operator.get(page_of(run), headers={"Accept-Language": "de"}).text
        refused = operator.post(page, {"source": nodes[0].pk})
        assert "source must be on another branch" in refused.text
        assert "no such message in this session" in operator.post(page, {"source": 2**40}).text
        assert login("view_chatmessage").get(page).status_code == 403
        # The pages that ask before an erasure there say how many it reaches.
        copy, viewing = chat.copy_branch(carried), (f"view_{model}" for model in MODELS)
        asking = login(*viewing, "redact_chatmessage", "delete_chatmessage", "delete_chatsession")
        pages = {url(f"chatmessage_{how}", pk): 2 for how in ("redact", "delete") for pk in (other[0].pk, other[-1].pk)}
        pages |= {url("chatmessage_delete", nodes[0].pk): 1, url("chatsession_delete", session.pk): 1}
        pages |= {url("chatmessage_redact", nodes[-1].pk): 0, url("chatsession_delete", copy.pk): 0}
        assert {one: asking.get(one).context["carried"] for one in pages} == pages
