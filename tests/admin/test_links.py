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
