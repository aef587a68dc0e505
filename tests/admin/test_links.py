"""A record's page leads to all that belongs to it, of what a host has not taken out of its admin."""

import pytest
from django.contrib import admin
from django.test import override_settings
from django.urls import path, reverse

from compaction_app import chat
from compaction_app.admin import messages
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.admin.pages import page_of, url
from tests.admin.records import compacted, run_at
from tests.trees import summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def test_a_summary_leads_to_cutoff_anchor_base_run_session_and_events(viewer):
    session, nodes, summary, run, event = compacted()
    base = summarize(nodes[1], nodes[0])
    CompactionRun.objects.filter(pk=run.pk).update(base=base)
    page = viewer.get(page_of(summary)).text
    for record in (session, nodes[1], nodes[2], base, run, event):
        assert f'href="{page_of(record)}"' in page, record
    for shown in ("What was said.", "3,000 → 1,200", "quick-model", "Live", "Threshold"):
        assert shown in page, shown
    chat.retire_summary(summary, reason="It was wrong.")
    page = viewer.get(page_of(summary)).text
    assert "Retired" in page
    assert "It was wrong." in page


def test_a_run_leads_to_tip_anchor_cutoff_base_summary_and_events(viewer):
    session, nodes, summary, run, event = compacted()
    later = run_at(nodes[-1], base=summary, previous_run=run)
    page = viewer.get(page_of(run)).text
    for record in (session, nodes[-1], nodes[2], nodes[1], summary, event):
        assert f'href="{page_of(record)}"' in page, record
    page = viewer.get(page_of(later)).text
    for record in (summary, run):
        assert f'href="{page_of(record)}"' in page, record


def test_a_message_leads_to_its_parent_variants_children_and_summaries(viewer, monkeypatch):
    session, nodes, summary, *_ = compacted()
    variant = chat.append_message(session, nodes[1], role="user", content="again")
    page = viewer.get(page_of(nodes[2])).text
    for record in (nodes[1], variant, nodes[3], summary):
        assert f'href="{page_of(record)}"' in page, record
    assert "Other variants</dt>" not in viewer.get(page_of(nodes[3])).text
    chat.append_message(session, nodes[1], role="user", content="and again")
    monkeypatch.setattr(messages, "_MOST_NAMED", 1)
    assert "and more</dd>" in viewer.get(page_of(nodes[2])).text


# -- without a model -------------------------------------------------------------------------------------------


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
