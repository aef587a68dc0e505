"""However long a word, a page is no wider than the screen; on a desktop a list shows what one looks for in it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.browser import admin_pages, conversations
from tests.browser.conftest import PHONE
from tests.browser.test_accessibility import STICKS_OUT

pytestmark = [pytest.mark.browser, pytest.mark.appearance, pytest.mark.long]

WIDE = {"width": 1440, "height": 900}
WORD = "Supercalifragilisticexpialidocious"
LONG = WORD * 6
WIDTH = "document.documentElement.scrollWidth"
#: What is in the cell of a column in the first row, and how much of it is out of the box that it stands in.
CUT = """(column) => {
    const cell = document.querySelector(`#result_list tbody .field-${column}`);
    let box = cell.parentElement;
    while (!["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX) && box !== document.body)
        box = box.parentElement;
    return Math.max(0, cell.getBoundingClientRect().right - box.getBoundingClientRect().right);
}"""


def make_ids_long() -> None:
    """A million rows were there before: the ids of the next ones are as wide as those of a large site."""
    tables = [(model._meta.db_table,) for model in (ChatMessage, CompactionRun, CompactionEvent)]
    with connection.cursor() as cursor:
        cursor.executemany("DELETE FROM sqlite_sequence WHERE name = %s", tables)
        cursor.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, 4444444)", tables)


def harbour_of_long_words() -> tuple[Any, conversations.Harbour]:
    """Rows in which every text is one word that is wider than a phone; written past the checks."""
    # The one who looks is named on every page by Django itself.
    user = conversations.superuser()
    harbour = conversations.harbour(owner=conversations.superuser(WORD * 4))
    ChatSession.objects.filter(pk=harbour.session.pk).update(
        title=LONG, model=LONG, external_id=LONG, system_prompt=LONG * 9, metadata={LONG: [LONG]}
    )
    call = {"id": LONG[:60], "type": "function", "function": {"name": LONG, "arguments": '{"' + LONG + '": 1}'}}
    message = {
        "content": LONG * 9, "name": LONG, "model": LONG, "external_id": LONG, "idempotency_key": LONG,
        "metadata": {LONG: LONG}, "attachments": [{"type": "image_url", "image_url": {"url": f"https://x/{LONG}"}}],
    }  # fmt: skip
    ChatMessage.objects.filter(pk=harbour.tip.pk).update(**message, reasoning=[{"text": LONG}])
    ChatMessage.objects.filter(pk=harbour.tool_result.parent_message_id).update(tool_calls=[call])
    ChatMessage.objects.filter(pk__in=[one.pk for one in harbour.generations]).update(content=LONG * 9)
    ChatMessage.objects.filter(pk=harbour.retired.pk).update(retired_reason=LONG)
    given = {"instructions": LONG, "policy_line": LONG, "summarizer_model": LONG, "task_id": LONG, "error_detail": LONG}
    CompactionRun.objects.filter(pk__in=[harbour.run.pk, harbour.failed.pk]).update(**given)
    CompactionEvent.objects.filter(pk=harbour.event.pk).update(payload={LONG: LONG})
    return user, harbour


def test_no_word_makes_a_page_wider_than_a_phone(open_page):
    """Folded parts opened: what is in them is read on a phone as well."""
    user, harbour = harbour_of_long_words()
    page = open_page(user, viewport=PHONE)
    wide = {}
    for address in admin_pages.addresses(harbour):
        assert page.goto(address).status == 200, address
        closed = page.evaluate(WIDTH)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        width = max(closed, page.evaluate(WIDTH))
        if width > PHONE["width"]:
            wide[address] = width, page.evaluate(STICKS_OUT)
    assert wide == {}


@pytest.mark.parametrize(
    ("name", "query", "columns"),
    [
        ("chatsession", {}, ("session", "branch", "compaction", "owner", "updated_at")),
        ("chatmessage", {}, ("message", "role", "begins_with", "session", "token_count", "created_at")),
        (
            "chatmessage",
            {"kind": "summary"},
            ("summary", "state", "session", "tokens", "last_summarized_message", "created_at"),
        ),
        ("compactionrun", {}, ("run", "outcome", "session", "made", "asked", "created_at")),
        ("compactionevent", {}, ("event", "kind", "run", "session", "numbers", "created_at")),
    ],
)
def test_beside_the_sidebar_of_a_desktop_no_column_that_matters_is_cut(open_page, name, query, columns):
    make_ids_long()
    user, _ = harbour_of_long_words()
    page = open_page(user, viewport=WIDE)
    page.goto(admin_pages.url(f"{name}_changelist", **query))
    assert page.locator("#nav-sidebar").is_visible()
    assert {column: page.evaluate(CUT, column) for column in columns} == dict.fromkeys(columns, 0)
