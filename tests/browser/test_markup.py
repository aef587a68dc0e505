"""Markup and scripts in every text that is stored are shown as text, on every page, and never do anything.

Each stored text begins with a mark of its own, so that a page tells which of them it has shown.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.browser import admin_pages, conversations

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

#: Texts that no page shows: what they are there for is done by others than people.
NOT_SHOWN: set[str] = set()


def marked(name: str) -> str:
    """A text that does its worst: markup, handlers, ends of elements, templates, an override of direction."""
    worst = (
        f"<script>window.pwned='{name}'</script><img src=x onerror=\"window.pwned='{name}'\">",
        "</textarea></pre></title><svg onload=window.pwned=1>{{ 7|add:7 }}{% now 'Y' %}\u202egnp.exe",
        "\"'><a href=javascript:window.pwned=1>",
    )
    return name + "".join(worst)


#: What any page shows of a marked text, however short it cuts it. In JSON the end of a line may stand before it.
SHOWN = re.compile(r"(?:\\n)?(\w+)<script>", re.IGNORECASE)


def hostile_call(call_id: str) -> dict[str, Any]:
    function = {"name": marked("tool_name"), "arguments": '{"' + marked("tool_key").replace('"', "'") + '": 1}'}
    return {"id": call_id, "type": "function", "function": function}


def hostile_harbour() -> tuple[Any, conversations.Harbour]:
    """Rows whose every text is marked; written past the checks, which might refuse one or the other."""
    user = get_user_model().objects.create_superuser(marked("username")[:150])
    harbour = conversations.harbour(owner=user)
    ChatSession.objects.filter(pk=harbour.session.pk).update(
        title=marked("title")[:255],
        model=marked("session_model")[:255],
        external_id=marked("session_external_id")[:255],
        system_prompt=marked("system_prompt"),
        metadata={marked("session_metadata_key"): marked("session_metadata")},
        token_calibration={marked("calibrated_model"): 1.2},
    )
    message = {
        "content": marked("content"),
        "name": marked("name")[:255],
        "model": marked("message_model")[:255],
        "external_id": marked("external_id")[:255],
        "idempotency_key": marked("idempotency_key")[:255],
        "metadata": {marked("metadata_key"): marked("metadata")},
        "usage": {marked("usage"): 1},
        "attachments": [{"type": marked("attachment_type"), "name": marked("attachment_name"), "url": "javascript:x"}],
    }
    ChatMessage.objects.filter(pk=harbour.tip.pk).update(**message, reasoning=[{"text": marked("reasoning")}])
    result = harbour.tool_result
    ChatMessage.objects.filter(pk=result.pk).update(content=marked("tool_result"), name=marked("result_of")[:255])
    ChatMessage.objects.filter(pk=result.parent_message_id).update(tool_calls=[hostile_call(result.tool_call_id)])
    for summary, name in ((harbour.generations[0], "summary_before"), (harbour.generations[1], "summary")):
        ChatMessage.objects.filter(pk=summary.pk).update(content=marked(name))
    ChatMessage.objects.filter(pk=harbour.retired.pk).update(retired_reason=marked("retired_reason")[:255])
    run = {
        "instructions": marked("instructions"),
        "policy_line": marked("policy_line"),
        "summarizer_model": marked("summarizer_model")[:255],
        "prompt_version": "prompt_version<script>window.pwned=1</script>"[:50],
        "task_id": marked("task_id")[:255],
    }
    CompactionRun.objects.filter(pk=harbour.run.pk).update(**run)
    CompactionRun.objects.filter(pk=harbour.failed.pk).update(error_detail=marked("error_detail"))
    CompactionEvent.objects.filter(pk=harbour.event.pk).update(payload={marked("payload_key"): marked("payload")})
    return user, harbour


#: The marks that :func:`hostile_harbour` leaves.
MARKS = set(
    "username title session_model session_external_id system_prompt session_metadata_key session_metadata "
    "calibrated_model content name message_model external_id idempotency_key metadata_key metadata usage "
    "attachment_type attachment_name reasoning tool_name tool_key tool_result result_of summary summary_before "
    "retired_reason instructions policy_line summarizer_model prompt_version task_id error_detail "
    "payload_key payload".split()
)

SHOWN_TEXTS = """() => [
    document.title,
    document.body.innerText,
    ...[...document.querySelectorAll("input, textarea")].map((field) => field.value),
].join("\\n")"""


def marks_on(page: Any) -> set[str]:
    """Marks that this page shows as text; fails where one of them did something."""
    assert page.evaluate("typeof window.pwned") == "undefined", f"{page.url}: {page.evaluate('window.pwned')}"
    assert page.locator('[href^="javascript:" i], [src^="javascript:" i]').count() == 0, page.url
    assert page.locator("[onload], [onerror], [onclick]").count() == 0, page.url
    return {found.lower() for found in SHOWN.findall(page.evaluate(SHOWN_TEXTS))}


def test_what_is_stored_is_shown_as_text_on_every_page_and_does_nothing(open_page):
    """The admin's pages, folded parts opened, and the chat's."""
    user, harbour = hostile_harbour()
    page = open_page(user)
    seen: dict[str, set[str]] = {}
    more = [admin_pages.url("chatmessage_change", node.pk) for node in (harbour.tool_result, harbour.generations[0])]
    admins = [*admin_pages.addresses(harbour), *more, *admin_pages.plain_texts(harbour)]
    for address in [*admins, *chat_pages(harbour)]:
        assert page.goto(address).status == 200, address
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        seen[address] = marks_on(page)
    assert seen[admin_pages.url("chatsession_changelist")] >= {"username", "title"}
    assert seen[chat_pages(harbour)[0]] >= {"title", "content", "tool_name", "summary", "attachment_name"}
    assert set().union(*seen.values()) == MARKS - NOT_SHOWN


def chat_pages(harbour: conversations.Harbour) -> list[str]:
    branch = reverse("chat:branch", args=[harbour.session.pk, harbour.tip.pk])
    return [branch, f"{branch}?compactions", f"{branch}?edit={harbour.first.pk}", reverse("chat:sessions")]
