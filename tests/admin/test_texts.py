"""Texts of people and models in the admin: shown as they stand, and never as markup."""

import json
import re

import pytest
from django.utils import timezone

from compaction_app import chat
from compaction_app.models import CompactionEvent
from tests.admin.pages import ARABIC, MARKUP, MODELS, page_of, url
from tests.admin.records import all_pages, compacted, reply_to, run_at
from tests.trees import start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


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
        url("chatmessage_redact", user.pk),
        url("chatmessage_transcript", tool.pk),
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


def test_pages_need_no_inline_script_and_no_inline_style(superuser):
    """So they work under a strict Content-Security-Policy."""
    session, nodes, summary, run, _ = compacted()
    pages = [*all_pages(), page_of(reply_to(nodes[-1]))]
    pages += [url("chatmessage_compact", nodes[0].pk), url("chatmessage_retire", summary.pk)]
    for page in [*pages, url("compactionrun_retry", run.pk), url("chatsession_compact", session.pk)]:
        text = superuser.get(page).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), page
        assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", text)), page
