"""``{% compaction_warnings %}``: what is wrong with the background work, at the top of a page of the admin."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import HttpRequest

from compaction_app.admin import health

register = template.Library()


@register.inclusion_tag("admin/compaction_app/includes/warnings.html", takes_context=True)
def compaction_warnings(context: Any) -> dict[str, Any]:
    # From the context itself: a host may not have the request context processor.
    request: HttpRequest | None = getattr(context, "request", None) or context.get("request")
    return {"warnings": health.warnings(request) if request is not None else []}
