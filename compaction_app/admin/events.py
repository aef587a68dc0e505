"""Events: what compaction did or noticed, in numbers and codes."""

from __future__ import annotations

from django.contrib import admin

from compaction_app.admin import display
from compaction_app.admin.records import SESSION_TEXTS, RecordAdmin, message_column, session_column
from compaction_app.models import CompactionEvent


@admin.register(CompactionEvent)
class CompactionEventAdmin(RecordAdmin):
    title, list_title = "Event", "Events"
    texts = SESSION_TEXTS
    list_display = ("event", "kind", "run_link", "in_session", "message_link", "numbers", "created")
    date_hierarchy = "created_at"
    list_filter = ("kind",)
    narrowed_by = ("session", "run", "message")
    search_help_text = "Event ids or session ids."
    sections = ((None, ["kind", "in_session", "run_link", "message_link", "all_numbers", "payload_block", "created"]),)

    event = display.column("event", lambda _, event: f"Event {event.pk}")
    in_session = session_column
    run_link = display.column("run", lambda self, event: self.link_to_run(event.run_id))
    message_link = message_column("message_id", "message")
    numbers = display.column("numbers", lambda _, event: display.shortened(display.figures(event.payload)))
    all_numbers = display.shown("payload", display.figures, "numbers")
    payload_block = display.shown("payload", display.json_block, "as stored")
    created = display.shown("created_at", display.exact_moment)
