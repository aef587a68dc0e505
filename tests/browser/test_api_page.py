"""The page about the JSON API works from this site's own files alone, under the strictest policy."""

import pytest

from tests.browser import conversations

pytestmark = [pytest.mark.browser, pytest.mark.appearance]


def test_the_page_lists_the_calls(open_page):
    """No more of it is opened: an arrow of Swagger's own style is a ``data:`` image, which the policy leaves out."""
    page = open_page(conversations.superuser())
    assert page.goto("/api/v1/docs").status == 200
    page.get_by_text("/api/v1/sessions/{session_id}/compact", exact=True).wait_for()
    page.get_by_text("/api/v1/runs/{run_id}", exact=True).wait_for()
