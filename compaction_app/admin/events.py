"""Events: what compaction did or noticed, in numbers and codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app.admin.display import column, figures, shortened
from compaction_app.admin.links import Links
from compaction_app.admin.records import SESSION_TEXTS, RecordAdmin, Sections
from compaction_app.models import CompactionEvent


@admin.register(CompactionEvent)
class CompactionEventAdmin(RecordAdmin):
    title, list_title = gettext_lazy("Event"), gettext_lazy("Events")
    texts = SESSION_TEXTS
    date_hierarchy = "created_at"
    list_filter = ("kind",)
    narrowed_by = ("session", "run", "message")
    search_help_text = gettext_lazy("Event ids or session ids.")

    def columns(self, links: Links) -> Sequence[Any]:
        return (
            column("event", _("event"), lambda event: _("Event {id}").format(id=event.pk)),
            *links.columns(CompactionEvent, "kind", "run", "session", "message"),
            column("numbers", _("numbers"), lambda event: shortened(figures(event.payload))),
            *links.columns(CompactionEvent, "created_at"),
        )

    def sections(self, links: Links, obj: CompactionEvent) -> Sections:
        numbers = (_("numbers"), figures(obj.payload))
        return [("", links.facts(obj, "kind", "created_at", "session", "run", "message", numbers, "payload"))]
