"""``{% compaction_warnings %}``: what is wrong with the background work, at the top of a page of the admin.

``{% compaction_counts as counts %}``: how many runs wait, run and failed, for the page of the app.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.http import HttpRequest

from compaction_app.admin import health

register = template.Library()


@register.inclusion_tag("admin/compaction_app/includes/warnings.html", takes_context=True)
def compaction_warnings(context: Any, counts: health.Counts | None = None) -> dict[str, Any]:
    """Given ``counts``, the page says that all is well where it is."""
    request = _request_of(context)
    return {"warnings": health.warnings(request) if request is not None else [], "counts": counts}


@register.simple_tag(takes_context=True)
def compaction_counts(context: Any) -> health.Counts | None:
    """For people who may view runs."""
    request = _request_of(context)
    return health.counts() if request is not None and health.may_see(request) else None


def _request_of(context: Any) -> HttpRequest | None:
    # From the context itself: a host may not have the request context processor.
    request: HttpRequest | None = getattr(context, "request", None) or context.get("request")
    return request
