"""Events: what compaction did or noticed, in numbers and codes."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from compaction_app.admin import display
from compaction_app.admin.dated import DatedAdmin, DateFilter
from compaction_app.admin.filters import related_filters
from compaction_app.models import CompactionEvent


@admin.register(CompactionEvent)
class CompactionEventAdmin(DatedAdmin):
    texts = ("session__system_prompt", "session__settings", "session__token_calibration", "session__metadata")
    change_list_template = "admin/compaction_app/dated_list.html"
    title, list_title = "Event", "Events"
    empty_text = "No event yet. What compaction does, notices or is kept from is written here, in numbers and codes."
    list_display = ("event", "kind", "run_link", "in_session", "message_link", "numbers", "created")
    list_filter = (
        DateFilter,
        "kind",
        *related_filters(session="session", run="run", message="message"),
    )
    list_select_related = ("session",)
    raw_id_fields = ("session", "run", "message")
    search_help_text = "Ids of events or sessions."
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "kind",
                    "in_session",
                    "run_link",
                    "message_link",
                    "all_numbers",
                    "payload_block",
                    "created",
                )
            },
        ),
    )
    created = display.time_of("created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[CompactionEvent]:
        return super().get_queryset(request).select_related("session")

    @admin.display(description="event")
    def event(self, obj: CompactionEvent) -> str:
        return f"Event {obj.pk}"

    @admin.display(description="session")
    def in_session(self, obj: CompactionEvent) -> str:
        return self.link_to_session(obj.session)

    @admin.display(description="run")
    def run_link(self, obj: CompactionEvent) -> str:
        return self.link_to_run(obj.run_id)

    @admin.display(description="message")
    def message_link(self, obj: CompactionEvent) -> str:
        return self.link_to_message(obj.message_id)

    @admin.display(description="numbers")
    def numbers(self, obj: CompactionEvent) -> str:
        return display.shortened(display.figures(obj.payload))

    @admin.display(description="numbers")
    def all_numbers(self, obj: CompactionEvent) -> str:
        return display.figures(obj.payload)

    @admin.display(description="as stored")
    def payload_block(self, obj: CompactionEvent) -> str:
        return display.json_block(obj.payload)
