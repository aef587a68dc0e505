"""Values as the admin shows them, ``{{ when|moment }}``, and links, ``{% message_link pk %}``."""

from __future__ import annotations

from typing import Any

from django import template

from compaction_app.admin import display, health
from compaction_app.models.words import words

register = template.Library()
for show in (
    *(display.moment, display.figures, display.money, display.place, display.number, display.percent),
    *(display.messages, display.tokens, display.runs, words),
):
    register.filter(show.__name__, show)


# -- links that the user may follow -------------------------------------------------------------------------


@register.simple_tag(takes_context=True)
def message_link(context: Any, pk: int, depth: Any = None) -> Any:
    return context["links"].message(pk, depth)


@register.simple_tag(takes_context=True)
def summary_link(context: Any, pk: int, generation: int | None = None) -> Any:
    return context["links"].summary(pk, generation)


@register.simple_tag(takes_context=True)
def record_link(context: Any, model_name: str, pk: Any, label: Any) -> Any:
    return context["links"].to(model_name, pk, label)


@register.simple_tag(takes_context=True)
def link_to(context: Any, record: Any) -> Any:
    return context["links"].record(record)


@register.simple_tag(takes_context=True)
def page_url(context: Any, page: str, *arguments: Any) -> Any:
    return context["links"].url(page, *arguments)


@register.inclusion_tag("admin/compaction_app/includes/health.html", takes_context=True)
def compaction_health(context: Any) -> dict[str, Any]:
    """What is wrong with the background work, for the page of the app."""
    # From the context itself: a host may not have the request context processor.
    request = getattr(context, "request", None) or context.get("request")
    return {"health": health.health_of(request) if request is not None else None}
