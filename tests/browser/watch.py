"""What no page may do, whatever a test looks at: each of it is noted, and fails the test at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Request, Response, WebError

#: Addresses that stand for their own content.
_NOWHERE = ("data", "blob", "about")


class Watch:
    """Errors on the console (a violated Content-Security-Policy is one), uncaught errors, dialogs, requests to
    elsewhere and answers of 500 and above."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origin = origin
        self.problems: list[str] = []
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("dialog", self._dialog)
        context.on("request", self._request)
        context.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        # The browser asks for this one of its own accord; whether it is there is the host's business.
        if message.type == "error" and where != f"{self.origin}/favicon.ico":
            self.problems.append(f"console, at {where}: {message.text}")

    def _error(self, error: WebError) -> None:
        self.problems.append(f"uncaught, at {error.page.url if error.page else '?'}: {error.error}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"a dialog opened: {dialog.type} {dialog.message!r}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in _NOWHERE and not request.url.startswith(self.origin + "/"):
            self.problems.append(f"a request left for {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.problems.append(f"{response.status} for {response.request.method} {response.url}")
