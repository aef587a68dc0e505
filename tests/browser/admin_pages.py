"""Every page of the app's admin, taken from the admin's own URL patterns: a page without an address here fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.contrib import admin
from django.urls import URLPattern, URLResolver, reverse

from tests.admin.pages import url
from tests.browser.conversations import Harbour

PREFIX = "compaction_app_"

#: Names of patterns that answer with no page that would be new, and why.
NO_PAGES = {
    "chatsession_add": "the system writes sessions: 403",
    "chatmessage_add": "the system writes messages: 403",
    "compactionrun_add": "the system writes runs: 403",
    "compactionevent_add": "the system writes events: 403",
    "compactionrun_delete": "runs are the record: 403",
    "compactionevent_delete": "events are the record: 403",
    "chatmessage_history": "Django's own page, as it is for a session",
    "compactionrun_history": "Django's own page, as it is for a session",
    "compactionevent_history": "Django's own page, as it is for a session",
}


#: Parts of a message that have an address of their own.
TEXTS = ("content", "tool_calls", "reasoning", "attachments", "metadata")
#: Answers of plain text, which is no page to look at; what they show must still do nothing.
PLAIN_TEXTS: dict[str, Callable[[Harbour], list[str]]] = {
    "chatmessage_context": lambda h: [url("chatmessage_context", h.tip.pk)],
    "chatmessage_text": lambda h: [
        url("chatmessage_text", message.pk, part) for message in (h.tip, h.first) for part in TEXTS
    ],
}

#: Name of a pattern → addresses that show what its page can show.
PAGES: dict[str, Callable[[Harbour], list[str]]] = {
    "chatsession_changelist": lambda h: [url("chatsession_changelist")],
    "chatsession_change": lambda h: [url("chatsession_change", h.session.pk)],
    "chatsession_history": lambda h: [url("chatsession_history", h.session.pk)],
    "chatsession_delete": lambda h: [url("chatsession_delete", h.session.pk)],
    "chatsession_compact": lambda h: [url("chatsession_compact", h.session.pk)],
    "chatmessage_changelist": lambda h: [
        url("chatmessage_changelist", session=h.session.pk),
        url("chatmessage_changelist", kind="summary"),
    ],
    "chatmessage_change": lambda h: [
        url("chatmessage_change", message.pk) for message in (h.tip, h.generations[1], h.retired)
    ],
    "chatmessage_transcript": lambda h: [
        url("chatmessage_transcript", h.tip.pk),
    ],
    "chatmessage_delete": lambda h: [url("chatmessage_delete", h.tip.pk)],
    "chatmessage_compact": lambda h: [url("chatmessage_compact", h.tip.pk)],
    "chatmessage_redact": lambda h: [url("chatmessage_redact", h.first.pk)],
    "chatmessage_retire": lambda h: [url("chatmessage_retire", h.generations[0].pk)],
    "compactionrun_changelist": lambda h: [url("compactionrun_changelist")],
    "compactionrun_change": lambda h: [url("compactionrun_change", run.pk) for run in (h.run, h.failed)],
    "compactionrun_retry": lambda h: [url("compactionrun_retry", h.failed.pk)],
    "compactionevent_changelist": lambda h: [url("compactionevent_changelist")],
    "compactionevent_change": lambda h: [url("compactionevent_change", h.event.pk)],
}


def names() -> set[str]:
    """Names of all patterns of this app's admin, without the prefix."""
    return {name.removeprefix(PREFIX) for name in _names_below(admin.site.get_urls()) if name.startswith(PREFIX)}


def _names_below(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _names_below(pattern.url_patterns)
        elif pattern.name:
            yield pattern.name


def unknown() -> set[str]:
    """Patterns that stand in none of the tables, and entries of the tables that no pattern has."""
    return names() ^ (PAGES.keys() | PLAIN_TEXTS.keys() | NO_PAGES.keys())


def plain_texts(harbour: Harbour) -> list[str]:
    return [address for name in PLAIN_TEXTS for address in PLAIN_TEXTS[name](harbour)]


def addresses(harbour: Harbour) -> list[str]:
    """All of them, the app's own index first."""
    index = reverse("admin:app_list", args=["compaction_app"])
    return [index, *(address for name in PAGES for address in PAGES[name](harbour))]
