"""Values as the admin shows them, ``{{ when|moment }}``, and links: ``{% message_link pk %}``."""

from __future__ import annotations

from typing import Any

from django import template

from compaction_app.admin import display

register = template.Library()
register.filter("moment", display.moment)
register.filter("exact_moment", display.exact_moment)
register.filter("figures", display.figures)
register.filter("money", display.money)
register.filter("place", display.place)
register.filter("reserved", display.reserved)
register.filter("calibration", display.calibration)


# A template passes "" where an attribute on the way to the number is missing.


@register.filter
def number(value: Any) -> str:
    return display.number(None if value == "" else value)


@register.filter
def percent(value: Any, digits: int = 0) -> str:
    return display.percent(None if value == "" else value, digits)


@register.filter
def plural(count: int, words: str) -> str:
    """``{{ count|plural:"summary is,summaries are" }}``"""
    return display.plural(count, *words.split(","))


# -- links that the user may follow -------------------------------------------------------------------------


@register.simple_tag(takes_context=True)
def message_link(context: Any, pk: int, label: str = "Message", depth: Any = None) -> Any:
    return context["records"].link_to_message(pk, label, depth)


@register.simple_tag(takes_context=True)
def record_link(context: Any, page: str, pk: Any, label: Any) -> Any:
    return context["records"].link_to(page, pk, label)


@register.simple_tag(takes_context=True)
def list_link(context: Any, page: str, label: str, **query: Any) -> Any:
    """To a list, narrowed."""
    return context["records"].link_to_list(page, label, **query)
