"""Every page of the app's admin, taken from the admin's own URL patterns: a page without an address here fails."""

from collections.abc import Iterator

from django.contrib import admin
from django.db.models import Model
from django.urls import URLPattern, URLResolver, reverse

from tests.admin.pages import MODELS, url
from tests.browser.conversations import Harbour

PREFIX = "compaction_app_"

#: Names of patterns that answer with no page that would be new: what the system writes and the record that it keeps are
#: a 403, and a history is Django's own page, as it is for a session.
NO_PAGES = {
    *(f"{model}_add" for model in MODELS),
    *("compactionrun_delete", "compactionevent_delete"),
    *(f"{model}_history" for model in MODELS if model != "chatsession"),
}
#: Parts of a message that have an address of their own. They are answers of plain text, which is no page to look at;
#: what they show must still do nothing. So is a session's export, a file.
TEXTS = ("content", "tool_calls", "reasoning", "attachments", "metadata")
PLAIN_TEXTS = {"chatmessage_text", "chatsession_export"}


def pages(h: Harbour) -> dict[str, tuple[Model, ...]]:
    """Name of a pattern → rows whose pages show what such a page can show."""
    return {
        **{f"chatsession_{page}": (h.session,) for page in ("change", "history", "delete")},
        "chatmessage_change": (h.tip, h.generations[1], h.retired),
        **{f"chatmessage_{page}": (h.tip,) for page in ("transcript", "delete", "compact", "hand_over", "carry_over")},
        "chatmessage_redact": (h.first,),
        **{f"chatmessage_{page}": (h.generations[0],) for page in ("retire", "correct")},
        "compactionrun_change": (h.run, h.failed),
        "compactionrun_retry": (h.failed,),
        "compactionevent_change": (h.event,),
    }


def _names_below(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _names_below(pattern.url_patterns)
        elif pattern.name:
            yield pattern.name


def unknown(harbour: Harbour) -> set[str]:
    """Patterns of this app that are named nowhere here, and names here that no pattern has."""
    names = {name.removeprefix(PREFIX) for name in _names_below(admin.site.get_urls()) if name.startswith(PREFIX)}
    return names ^ {*pages(harbour), *(f"{model}_changelist" for model in MODELS), *PLAIN_TEXTS, *NO_PAGES}


def plain_texts(h: Harbour) -> list[str]:
    return [url("chatmessage_text", message.pk, part) for message in (h.tip, h.first) for part in TEXTS]


def addresses(h: Harbour) -> list[str]:
    """All of them, the app's own index first."""
    lists = [url(f"{model}_changelist") for model in MODELS if model != "chatmessage"]
    lists += [url("chatmessage_changelist", session=h.session.pk), url("chatmessage_changelist", kind="summary")]
    index = reverse("admin:app_list", args=["compaction_app"])
    return [index, *lists, *(url(name, row.pk) for name, rows in pages(h).items() for row in rows)]
