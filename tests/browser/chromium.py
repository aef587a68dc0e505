"""A Chromium that drives the pages: which one, how it is started, and what is said where there is none.

Also a program that says whether there is one: ``python -m tests.browser.chromium``.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Names the program to use.
CHROMIUM_VARIABLE = "CHROMIUM"
#: Set to "required" where the tests have to run: a browser that is missing is a failure there, and no skip.
REQUIRED_VARIABLE = "BROWSER_TESTS"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

HOW_TO_INSTALL = (
    "install Chromium (Debian, Ubuntu: apt-get install chromium; elsewhere: python -m playwright install chromium), "
    f"or name one: {CHROMIUM_VARIABLE}=/path/to/chrome"
)
NO_PLAYWRIGHT = "no browser test runs here: Playwright is not installed. Run: pip install -r requirements-dev.txt"

#: Nothing but this machine has an address, whatever a page asks for.
_NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
_START_MILLISECONDS = 30_000


class NoBrowser(Exception):
    """No browser test can run here; the message says what to do about it."""


def is_required() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get(REQUIRED_VARIABLE) == "required"


def find_program() -> str | None:
    """The program to start; None leaves the choice to Playwright, which may have installed one itself."""
    if named := os.environ.get(CHROMIUM_VARIABLE):
        found = shutil.which(named)
        if found is None:
            raise NoBrowser(f"{CHROMIUM_VARIABLE}={named!r} names no program: {HOW_TO_INSTALL}")
        return found
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """A running Chromium; raises :class:`NoBrowser` where there is none, or where it does not start.

    While it runs, Playwright's event loop counts as running in this thread, so Django takes the tests' own
    queries for queries from a coroutine; Django's switch for that case is set for as long, and no longer.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NoBrowser(NO_PLAYWRIGHT) from error
    program = find_program()
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    with sync_playwright() as playwright:
        browser = _launch(playwright, program)
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        try:
            yield browser
        finally:
            browser.close()
            if before is None:
                del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
            else:
                os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


def _launch(playwright, program: str | None) -> Browser:
    from playwright.sync_api import Error

    try:
        return playwright.chromium.launch(
            executable_path=program,
            args=[_NO_OTHER_HOST],
            # Chromium refuses to run in its sandbox as root.
            chromium_sandbox=os.geteuid() != 0,
            timeout=_START_MILLISECONDS,
        )
    except Error as error:
        if program is None:
            raise NoBrowser(f"there is no Chromium here: {HOW_TO_INSTALL}") from error
        raise NoBrowser(f"{program} does not start ({_first_line(error)}): {HOW_TO_INSTALL}") from error


def _first_line(error: Exception) -> str:
    """What went wrong, without the call log and the drawing around it."""
    lines = [line.strip(" ║╔╗╚╝═") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def main() -> int:
    """Start one and name it; 1 and what to do about it where there is none."""
    try:
        with started_chromium() as browser:
            sys.stdout.write(f"Chromium {browser.version}\n")
    except NoBrowser as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
