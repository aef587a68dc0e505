"""``{% compaction_health %}``: what is wrong with the background work, for the page of the app."""

from __future__ import annotations

from typing import Any

from django import template

from compaction_app.admin import health

register = template.Library()


@register.inclusion_tag("admin/compaction_app/includes/health.html", takes_context=True)
def compaction_health(context: Any) -> dict[str, Any]:
    # From the context itself: a host may not have the request context processor.
    request = getattr(context, "request", None) or context.get("request")
    return {"health": health.health_of(request) if request is not None else None}
