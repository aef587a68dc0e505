"""A message's page: texts of any size and kind, in a fixed number of queries."""

import json

import pytest

from compaction_app import chat
from tests.admin.pages import page_of, url
from tests.admin.records import calls
from tests.trees import start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


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
