"""A host may take a model of this app out of its admin: the other pages do without its links."""

import pytest
from django.contrib import admin
from django.test import override_settings
from django.urls import path, reverse

from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.admin.pages import page_of, url
from tests.admin.records import compacted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


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
