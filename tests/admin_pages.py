"""The admin as its tests ask for it: who is logged in, pages by name, what they ask the database for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.trees import chain, start_session, summarize

VIEW = tuple(f"view_{model}" for model in ("chatsession", "chatmessage", "compactionrun", "compactionevent"))
MARKUP = "<script>alert(1)</script><b onclick='x()'>\"&amp;</details></textarea><!--"
ARABIC = "مرحبا، كيف أغيّر كلمة المرور؟"


def log_in(client: Client, *codenames: str) -> Client:
    """A staff member with these permissions of the app."""
    user = get_user_model().objects.create_user("staff", is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label="compaction_app", codename__in=codenames)
    assert permissions.count() == len(codenames)
    user.user_permissions.set(permissions)
    client.force_login(user)
    return client


def url(page: str, *arguments: Any, **query: Any) -> str:
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


def page_of(record: Any) -> str:
    return url(f"{record._meta.model_name}_change", record.pk)


def told(response: Any) -> str:
    """What the person was told, as one text without markup."""
    return re.sub("<[^>]*>", "", " ".join(str(message) for message in get_messages(response.wsgi_request)))


def queries_of(client: Client, page: str) -> list[str]:
    # Kept by Django from the first page on.
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page).status_code == 200
    return [query["sql"] for query in queries]


def run_for(summary: ChatMessage, tip: ChatMessage, generation: int, **fields: Any) -> CompactionRun:
    """The run that made a summary, written straight into its table."""
    given = {
        "session_id": summary.session_id,
        "tip": tip,
        "anchor_id": summary.parent_message_id,
        "cutoff_id": summary.last_summarized_message_id,
        "summary": summary,
        "status": "succeeded",
        "generation": generation,
        "trigger": "threshold",
    }
    return CompactionRun.objects.create(**(given | fields))


def summarized(length: int = 6, *, content: str = "What was said.") -> tuple[list[ChatMessage], ChatMessage]:
    """A chain, and a summary of its first two messages anchored at the third."""
    nodes = chain(start_session(title="Harbour"), length)
    summary = summarize(nodes[2], nodes[1], content=content, token_count=8)
    run_for(summary, nodes[-1], 1, tokens_before=60, tokens_after=48, messages_compacted=2)
    return nodes, summary


def talk(session: ChatSession, contents: Iterable[str], parent: ChatMessage | None = None) -> list[ChatMessage]:
    """Messages of user and assistant by turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]
    return chat.append_messages(session, parent, messages)
