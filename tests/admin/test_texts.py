"""Texts in the admin are shown as they are, of any size and kind, and never as markup; values as people read them."""

import json
import re
from datetime import UTC, datetime

import pytest
from django.utils import translation
from django.utils.timezone import override
from django.utils.translation import trans_real

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.conf import Mode
from compaction_app.models.words import words
from tests import catalog
from tests.admin.pages import ARABIC, MARKUP, MODELS, page_of, url
from tests.admin.records import calls, compacted
from tests.browser import admin_pages, conversations
from tests.trees import start_session

pytestmark = pytest.mark.django_db


def test_markup_in_any_text_is_shown_and_never_becomes_markup(client):
    """All of it is untrusted. A browser looks at the same pages, and at each of the texts."""
    user, harbour = conversations.filled_harbour(conversations.marked)
    client.force_login(user)
    asked = [url("compactionrun_changelist", tip=MARKUP), url("chatsession_changelist", q=MARKUP)]
    for page in [*admin_pages.addresses(harbour), *asked]:
        text = client.get(page, follow=True).text
        assert not re.search(r"<script>(window|alert)|<img src=x|<svg onload|<b onclick", text), page
        if "/change/" in page:
            assert "&lt;script&gt;window" in text, page


def test_texts_of_any_script_are_shown_in_their_own_direction(viewer):
    message = chat.append_message(start_session(title=ARABIC), role="user", content=f"{ARABIC}\n\n  🜁 ﷽")
    page = viewer.get(page_of(message)).text
    assert f'dir="auto" tabindex="0">{ARABIC}\n\n  🜁 ﷽</div>' in page
    assert f'<span dir="auto">{ARABIC}</span>' in viewer.get(url("chatmessage_changelist")).text


@pytest.fixture
def marked(monkeypatch):
    """What is translated has a mark, in any language."""
    monkeypatch.setattr(translation._trans, "gettext", lambda text: f"«{trans_real.gettext(text)}»")


@pytest.mark.usefixtures("window_of_4000", "marked")
def test_what_is_stored_as_a_code_and_what_is_logged_is_translated(eraser):
    session, nodes, summary, *_ = compacted()
    page = url("chatmessage_redact", nodes[0].pk)
    assert 'value="«[redacted]»"' in eraser.get(page).text
    assert "«standard»</dd>" in eraser.get(page_of(session)).text
    eraser.post(page, {"replacement": "x"})
    assert "«redaction»" in eraser.get(page_of(summary)).text
    history = eraser.get(url("chatmessage_history", nodes[0].pk)).text
    assert "<td>«Redacted.»</td>" in history
    assert "«Times are in the time zone UTC.»</p>" in history


@pytest.mark.pure
def test_what_events_and_settings_are_made_of_is_in_the_catalog():
    found = {catalog.text_of(message.id)[0] for message in catalog.collected(catalog.PACKAGE) if message.id}
    names = ("compactions", "cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens", "extra_input_tokens")
    codes = {words(name) for name in ("generation", "calibration", "failures", "characters", *names, *Mode)} - {"off"}
    assert codes <= found
    assert {"Redacted.", "Retired.", "Retried as run {}.", "[redacted]"} <= found


def test_a_message_of_four_megabytes_shows_its_beginning_and_leads_to_the_rest(viewer):
    text = "long " * (4 * 1024 * 1024 // 5)
    message = chat.append_message(start_session(), role="user", content=text)
    page = viewer.get(page_of(message)).text
    assert len(page) < 200_000
    assert f"{len(text) - 20_000:,} more characters are not shown" in page
    whole = viewer.get(url("chatmessage_text", message.pk, "content"))
    assert whole.text == text
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in whole.headers["Content-Security-Policy"]


def test_large_calls_and_json_are_cut_and_lead_to_the_rest(viewer):
    arguments = json.dumps({"text": "x" * 100_000})
    many = [{**call, "function": {"name": "write", "arguments": arguments}} for call in calls("c1", "c2", "c3")]
    message = chat.append_message(
        start_session(), role="assistant", tool_calls=many, reasoning=[{"text": "y" * 100_000}], usage={"n": 1}
    )
    page = viewer.get(page_of(message)).text
    assert len(page) < 200_000
    for part in ("tool_calls", "reasoning"):
        link = url("chatmessage_text", message.pk, part)
        assert f'href="{link}"' in page
        assert json.loads(viewer.get(link).text) == getattr(message, part)


def test_other_parts_of_a_row_are_not_to_be_had(viewer):
    message = chat.append_message(start_session(), role="user", content="hi")
    for part in ("session", "__class__", "objects"):
        assert viewer.get(url("chatmessage_text", message.pk, part)).status_code == 404
    assert viewer.get(url("chatmessage_text", 10**9, "content")).status_code == 404


WHEN = datetime(2026, 11, 22, 9, 2, 20, tzinfo=UTC)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("language", "zone", "iso", "shown", "number"),
    [
        ("en", "Asia/Tokyo", "2026-11-22T18:02:20+09:00", "Nov. 22, 2026, 18:02:20 JST", "12,345"),
        ("de", "Europe/Berlin", "2026-11-22T10:02:20+01:00", "22.11.2026, 10:02:20 CET", "12.345"),
    ],
)
def test_times_and_numbers_are_written_as_the_language_does_and_times_name_the_zone(language, zone, iso, shown, number):
    with translation.override(language), override(zone):
        assert display.moment(WHEN) == f'<time datetime="{iso}">{shown}</time>'
        assert display.number(12345) == number
    assert display.moment(None) == display.EMPTY


@pytest.mark.pure
def test_what_an_event_carries_is_told_in_words_and_with_commas():
    carried = {"tokens_before": 15162, "retention_after": 0.944, "reason": "cool_down", "declared": True, "models": []}
    told = ["declared yes", "models none", "reason cool down", "retention after 94%", "tokens before 15,162"]
    assert display.figures(carried).split(" · ") == told


@pytest.mark.usefixtures("window_of_4000")
def test_no_page_shows_a_time_in_another_form(viewer):
    session, nodes, summary, run, event = compacted()
    year = f"{run.created_at:%Y}-"
    pages = [page_of(one) for one in (session, nodes[-1], summary, run, event)]
    pages += [url(f"{name}_changelist") for name in MODELS]
    for page in pages:
        text = viewer.get(page).text
        assert f'<time datetime="{year}' in text, page
        assert year not in re.sub(r'(datetime|href)="[^"]*"', "", text), page
