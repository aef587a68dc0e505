"""Files that are sent with a message: kept with it, sent to the model, shown to their owner alone."""

import base64
import http.client
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from django.core.files.uploadedfile import SimpleUploadedFile

from compaction_app import chat
from project.chat import uploads
from tests.project.chat_page.pages import newest, stored, text_of, url

pytestmark = pytest.mark.django_db

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def send(browser, session, *files, content=""):
    attached = [SimpleUploadedFile(name, data, content_type="x/y") for name, data in files]
    return browser.post(url("post", session), {"content": content, "parent": "", "attached": attached})


@pytest.mark.django_db(transaction=True)
def test_a_text_is_part_of_the_message_and_a_picture_goes_with_it(browser, stranger, session, endpoint):
    text = "Tide at 6.\r\nשלום 潮汐 🌊".encode()
    response = send(browser, session, ('a "<b>".txt', text), ("roof.exe", PNG), content="Look.")
    page = text_of(browser.get(response.url))
    sent = endpoint.requests[0]["messages"][0]["content"]
    assert sent[0]["text"] == 'Look.\n\n<file name="a _b_.txt">\nTide at 6.\nשלום 潮汐 🌊\n</file>'
    assert sent[1]["image_url"]["url"].startswith("data:image/png;base64,")
    question = newest(session).parent
    assert question.token_count > 255, "the picture is counted"
    address = f"{url('branch', session, question)}picture/0"
    assert f'<img src="{address}" alt="roof.exe"' in page
    picture = browser.get(address)
    assert (picture["Content-Type"], picture.content) == ("image/png", PNG)
    assert picture["X-Content-Type-Options"] == "nosniff"
    assert stranger.get(address).status_code == 404
    assert browser.get(f"{url('branch', session, question)}picture/1").status_code == 404


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([("a.png", b"\x00\x01")], "“a.png” is neither a text nor a picture (PNG, JPEG, GIF, WebP)."),
        ([("a.svg", PNG[:4])], "“a.svg” is neither a text nor a picture"),
        ([("a.txt", b"x" * (uploads.MAX_BYTES + 1))], "Files may have 2.9 MB together; these have more."),
        ([("a.txt", b"x")] * (uploads.MAX_FILES + 1), "Send at most 10 files with a message."),
        ([("a.txt", b"x" * 200_000)], "With its files this message has 200,"),
    ],
)
def test_what_is_no_text_and_no_picture_or_too_much_is_refused(browser, session, files, reason):
    response = send(browser, session, *files, content="Here")
    assert response.status_code == 422
    assert reason in text_of(response)
    assert "Here</textarea>" in text_of(response)
    assert stored(session) == 0


def test_an_svg_is_a_text(browser, session):
    """It could hold a script, so it is never shown as a picture."""
    assert uploads.picture_in({"url": "data:image/svg+xml;base64,PHN2Zz4="}) is None
    message = chat.append_message(
        session, role="user", content="", attachments=[{"type": "image", "url": "data:image/png;base64,###"}]
    )
    assert browser.get(f"{url('branch', session, message)}picture/0").status_code == 404


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
