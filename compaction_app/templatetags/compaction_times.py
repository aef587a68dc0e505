"""``{{ when|moment }}`` and ``{{ when|exact_moment }}``: times as every page of the admin writes them."""

from __future__ import annotations

from django import template

from compaction_app.admin import display

register = template.Library()
register.filter("moment", display.moment)
register.filter("exact_moment", display.exact_moment)
