"""A real browser on the real pages: one Chromium and one server for all, a context of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import Client, override_settings
from pytest_django.live_server_helper import LiveServer

from tests.browser.chromium import NoBrowser, is_required, started_chromium
from tests.browser.conversations import PASSWORD
from tests.browser.watch import Watch
from tests.project.chat_page.conftest import endpoint  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOST = "127.0.0.1"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
#: A page that takes longer is broken; the machines of CI are slow.
WAIT_MILLISECONDS = 30_000


# The scope ends with the last test of this folder: while Playwright runs, no other test could start a loop.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    try:
        with started_chromium() as browser:
            from playwright.sync_api import expect

            expect.set_options(timeout=WAIT_MILLISECONDS)
            yield browser
            # Beside a running loop Django opens connections of their own, which nobody else would close.
            connections.close_all()
    except NoBrowser as error:
        if is_required():
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def address(chromium: Browser, django_db_setup: None) -> Iterator[str]:
    """Where the site is served, without a slash at the end."""
    middleware = ["tests.browser.policy.strict_policy", *settings.MIDDLEWARE]
    with override_settings(ALLOWED_HOSTS=[HOST], MIDDLEWARE=middleware):
        # pytest-django's own fixture would read the settings before they are overridden.
        server = LiveServer(HOST)
        try:
            yield server.url
        finally:
            server.stop()


class OpenPage(Protocol):
    def __call__(self, user: Any = None, **options: Any) -> Page: ...


@pytest.fixture
def open_page(chromium: Browser, address: str, transactional_db: None) -> Iterator[OpenPage]:
    """Open a page in a context of its own, signed in as a user: ``open_page(admin, color_scheme="dark")``."""
    watches, contexts = [], []

    def open_one(user: Any = None, *, expected_errors: bool = False, **options: Any) -> Page:
        context = chromium.new_context(**({"base_url": address, "viewport": DESKTOP, "locale": "en-GB"} | options))
        context.set_default_timeout(WAIT_MILLISECONDS)
        contexts.append(context)
        if not expected_errors:
            watches.append(Watch(context, address))
        if user is not None:
            context.add_cookies([session_cookie(user, address)])
        return context.new_page()

    yield open_one
    for context in contexts:
        context.close()
    problems = [problem for watch in watches for problem in watch.problems]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def marit(transactional_db: None) -> Any:
    return get_user_model().objects.create_user("marit", password=PASSWORD)


def session_cookie(user: Any, address: str) -> dict[str, str]:
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": address}
