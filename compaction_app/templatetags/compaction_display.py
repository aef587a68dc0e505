"""Values as the admin shows them, ``{{ when|moment }}``, and links, ``{% message_link pk %}``."""

from collections.abc import Callable
from typing import Any

from django import template

from compaction_app.admin import display, health
from compaction_app.admin.links import Links
from compaction_app.models.words import words

register = template.Library()
for show in (
    *(display.moment, display.figures, display.money, display.place, display.number, display.percent),
    *(display.messages, display.tokens, display.runs, words),
):
    register.filter(show.__name__, show)


def _of_links(method: Callable[..., Any]) -> Callable[..., Any]:
    """A tag for links that the user may follow."""

    def tag(context: Any, *arguments: Any) -> Any:
        return method(context["links"], *arguments)

    return tag


_LINKS: dict[str, Callable[..., Any]] = {
    "message_link": Links.message,
    "summary_link": Links.summary,
    "record_link": Links.to,
    "link_to": Links.record,
    "page_url": Links.url,
}
for name, method in _LINKS.items():
    register.simple_tag(_of_links(method), takes_context=True, name=name)


@register.inclusion_tag("admin/compaction_app/includes/health.html", takes_context=True)
def compaction_health(context: Any) -> dict[str, Any]:
    """What is wrong with the background work, for the page of the app."""
    # From the context itself: a host may not have the request context processor.
    request = getattr(context, "request", None) or context.get("request")
    return {"health": health.health_of(request) if request is not None else None}
