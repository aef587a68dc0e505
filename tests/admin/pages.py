"""The admin as its tests ask for it: who is logged in, pages by name, what they ask the database for."""

import html
import re
from types import SimpleNamespace
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun

MODELS = ("chatsession", "chatmessage", "compactionrun", "compactionevent")
VIEW = tuple(f"view_{model}" for model in MODELS)
MARKUP = "<script>alert(1)</script><b onclick='x()'>\"&amp;</details></textarea><!--"
ARABIC = "مرحبا، كيف أغيّر كلمة المرور؟"


def log_in(client: Client, *codenames: str) -> Client:
    """The staff member, now with these permissions of the app and no others."""
    user, _ = get_user_model().objects.get_or_create(username="staff", is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label="compaction_app", codename__in=codenames)
    assert permissions.count() == len(codenames)
    user.user_permissions.set(permissions)
    client.force_login(user)
    return client


def url(page: str, *arguments: Any, **query: Any) -> str:
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


def page_of(record: Any, **query: Any) -> str:
    return url(f"{record._meta.model_name}_change", record.pk, **query)


def told(response: Any) -> str:
    """What the person was told, as one text without markup."""
    return re.sub("<[^>]*>", "", " ".join(str(message) for message in get_messages(response.wsgi_request)))


def queries_of(client: Client, page: str) -> list[str]:
    # Kept by Django from the first page on.
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page).status_code == 200
    return [query["sql"] for query in queries]


def listed(client: Client, page: str, **query: Any) -> list[Any]:
    """Primary keys of the rows that a list shows, in its order."""
    return [row.pk for row in client.get(url(f"{page}_changelist", **query)).context["cl"].result_list]


def runs_page(client: Client, **query: Any) -> Any:
    return client.get(url("compactionrun_changelist", **query))


def figures_of(page: str, section: str = "") -> dict[str, str]:
    """Name → text of the numbers on a page, or in the section with this id."""
    page = page[page.index(f'id="{section}"') :].split("</section>", maxsplit=1)[0] if section else page
    found = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", page)
    return {name: html.unescape(re.sub("<[^>]*>", "", value)) for name, value in found}


def shown(client: Client, summary: ChatMessage) -> Any:
    """What a summary's page shows of it."""
    return SimpleNamespace(**client.get(page_of(summary)).context["summary"])


def table_of(client: Client, message: ChatMessage, **query: Any) -> Any:
    """The context of a message's page, as the template is given it: a dict, and dicts in its ``rows``."""
    table = client.get(page_of(message, **query)).context["table"]
    return SimpleNamespace(**table | {"rows": [SimpleNamespace(**row) for row in table.get("rows", ())]})


def ids(row: Any) -> tuple[int, ...]:
    """The messages that a row of a context leads to."""
    return tuple(pk for pk, _ in row.places)


def branches_of(client: Client, session: ChatSession, **query: Any) -> list[Any]:
    """The branches that a session's page shows."""
    return [SimpleNamespace(**one) for one in client.get(page_of(session, **query)).context["branches"]]
