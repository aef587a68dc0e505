"""``{{ when|moment }}``, ``{{ when|exact_moment }}``, ``{{ count|number }}``: values as the admin shows them."""

from __future__ import annotations

from typing import Any

from django import template

from compaction_app.admin import display

register = template.Library()
register.filter("moment", display.moment)
register.filter("exact_moment", display.exact_moment)


@register.filter
def number(value: Any) -> str:
    # A template passes "" where an attribute on the way to the number is missing.
    return display.number(None if value == "" else value)
