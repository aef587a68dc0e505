"""A message as columns and fields: its texts, its place in the tree and what was recorded with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin

from compaction_app.admin import display, long_texts
from compaction_app.admin.records import RecordAdmin
from compaction_app.admin.summaries import state_of
from compaction_app.models import ChatMessage
from compaction_app.values import Kind

COLUMNS = ("message", "role", "begins_with", "in_session", "depth_shown", "own_tokens", "from_root", "created")
SHOWN_IN_LISTS = 80
#: Neighbours that a page links to; a message edited more often says so.
_MOST_NEIGHBOURS = 50

FIELDSETS: tuple[tuple[str | None, tuple[str | tuple[str, ...], ...]], ...] = (
    (None, ("in_session", "role", "text", "calls", "tool_call_id", "name", "attached", "reasoned")),
    (
        "Place",
        (
            ("parent_link", "variants"),
            "following",
            "summaries_here",
            "runs_here",
            ("depth_shown", "own_tokens", "from_root"),
        ),
    ),
    (
        "Record",
        (
            "created",
            "redacted",
            "model",
            "usage_block",
            "sent",
            "metadata_block",
            "external_id",
            "idempotency_key",
        ),
    ),
)
#: Fields that most messages do not have → the column that says whether this one does.
_SHOWN_IF_SET = {
    "calls": "tool_calls",
    "tool_call_id": "tool_call_id",
    "name": "name",
    "attached": "attachments",
    "reasoned": "reasoning",
    "model": "model",
    "usage_block": "usage",
    "sent": "sent_context",
    "metadata_block": "metadata",
    "external_id": "external_id",
    "idempotency_key": "idempotency_key",
    "redacted": "redacted_at",
}


def fieldsets_of(message: ChatMessage | None) -> list[tuple[str | None, dict[str, Any]]]:
    """The fields of a message that say something; the record of it folded, so that the contexts are near."""
    return [
        (
            title,
            {
                "fields": [row for row in rows if _is_shown(row, message)],
                "classes": ["collapse"] if title == "Record" else [],
            },
        )
        for title, rows in FIELDSETS
    ]


def _is_shown(row: str | tuple[str, ...], message: ChatMessage | None) -> bool:
    column = _SHOWN_IF_SET.get(row) if isinstance(row, str) else None
    return column is None or bool(getattr(message, column, None))


class MessageFields(RecordAdmin):
    depth_shown = display.figure("depth")
    own_tokens = display.figure("token_count", "own tokens")
    from_root = display.figure("path_tokens", "tokens from the root")
    created = display.time_of("created_at")
    redacted = display.time_of("redacted_at")

    @admin.display(description="message")
    def message(self, obj: ChatMessage) -> str:
        return f"Message {obj.pk}"

    @admin.display(description="session")
    def in_session(self, obj: ChatMessage) -> str:
        return self.link_to_session(obj.session)

    @admin.display(description="begins with")
    def begins_with(self, obj: ChatMessage) -> str:
        beginning: str = obj.beginning  # annotated by for_list
        return display.line(beginning, is_cut=len(beginning) == SHOWN_IN_LISTS)

    @admin.display(description="text")
    def text(self, obj: ChatMessage) -> str:
        if obj.is_summary and obj.redacted_at and not obj.content:
            return f"Emptied at {display.moment(obj.redacted_at)}: a message that it may have quoted was redacted."
        return long_texts.begins(obj.content, self._text_url(obj, "content"))

    @admin.display(description="tool calls")
    def calls(self, obj: ChatMessage) -> str:
        return long_texts.calls_begin(obj, self._text_url(obj, "tool_calls"))

    @admin.display(description="attachments")
    def attached(self, obj: ChatMessage) -> str:
        return self._json(obj, "attachments")

    @admin.display(description="reasoning")
    def reasoned(self, obj: ChatMessage) -> str:
        return self._json(obj, "reasoning")

    @admin.display(description="usage")
    def usage_block(self, obj: ChatMessage) -> str:
        return self._json(obj, "usage")

    @admin.display(description="sent context")
    def sent(self, obj: ChatMessage) -> str:
        return self._json(obj, "sent_context")

    @admin.display(description="metadata")
    def metadata_block(self, obj: ChatMessage) -> str:
        return self._json(obj, "metadata")

    @admin.display(description="parent")
    def parent_link(self, obj: ChatMessage) -> str:
        return self.link_to_message(obj.parent_message_id)

    @admin.display(description="variants")
    def variants(self, obj: ChatMessage) -> str:
        """This message and its siblings, numbered as people see them."""
        siblings = ChatMessage.objects.get_siblings(obj).filter(kind=Kind.MESSAGE)
        found = list(siblings.values_list("pk", flat=True)[: _MOST_NEIGHBOURS + 1])
        ranked = enumerate(found[:_MOST_NEIGHBOURS], start=1)
        links = [
            display.here(rank) if pk == obj.pk else self.link_to("chatmessage", pk, str(rank)) for rank, pk in ranked
        ]
        return display.joined(links + _more(found))

    @admin.display(description="followed by")
    def following(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.MESSAGE)
        found = list(children.only("id", "kind", "role")[: _MOST_NEIGHBOURS + 1])
        links = [self.link_to("chatmessage", node.pk, str(node)) for node in found[:_MOST_NEIGHBOURS]]
        return display.joined(links + _more(found)) if found else "Nothing: this is a tip"

    @admin.display(description="summaries anchored here")
    def summaries_here(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.SUMMARY)
        found = list(children.only("id", "kind", "last_summarized_message", "retired_at")[: _MOST_NEIGHBOURS + 1])
        links = [
            display.joined((self.link_to("chatmessage", node.pk, str(node)), state_of(node)), " ")
            for node in found[:_MOST_NEIGHBOURS]
        ]
        return display.joined(links + _more(found))

    @admin.display(description="runs from here")
    def runs_here(self, obj: ChatMessage) -> str:
        return display.joined(
            (
                display.link(self.url("compactionrun_changelist", tip=obj.pk), "Runs with this tip"),
                display.link(self.url("compactionrun_changelist", anchor=obj.pk), "with this anchor"),
                display.link(self.url("compactionevent_changelist", message=obj.pk), "Events"),
            )
        )

    def _json(self, obj: ChatMessage, part: str) -> str:
        return long_texts.json_begins(obj, part, self._text_url(obj, part))

    def _text_url(self, obj: ChatMessage, part: str) -> str:
        return self.url("chatmessage_text", obj.pk, part)


def _more(found: Sequence[Any]) -> list[str]:
    """A word about neighbours beyond those that are linked to."""
    return ["and more"] if len(found) > _MOST_NEIGHBOURS else []
