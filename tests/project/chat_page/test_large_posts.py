"""Three megabytes over real HTTP, to the chat page and to the API."""

import http.client
from urllib.parse import urlencode, urlsplit

import pytest
from django.conf import settings as django_settings

from compaction_app.models import ChatMessage
from tests.project.chat_page.pages import url

MEGABYTES = 3
TEXT = "x" * (MEGABYTES * 1_000_000)


def post(live_server, browser, path, body, content_type):
    """As a browser or a program sends it; its status, type and text."""
    cookie = browser.cookies[django_settings.SESSION_COOKIE_NAME].value
    headers = {"Content-Type": content_type, "Cookie": f"{django_settings.SESSION_COOKIE_NAME}={cookie}"}
    connection = http.client.HTTPConnection(urlsplit(live_server.url).netloc, timeout=20)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read().decode()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("debug", [True, False])
def test_the_chat_page_says_what_is_too_long_and_how_to_go_on(live_server, browser, session, settings, debug):
    settings.DEBUG = debug
    body = urlencode({"content": TEXT})
    form = "application/x-www-form-urlencoded"
    status, kind, text = post(live_server, browser, url("post", session), body, form)
    assert (status, kind) == (413, "text/html; charset=utf-8")
    assert "A message can have at most 200,000 characters" in text
    assert "2.9 MB" in text
    assert not ChatMessage.objects.exists()
