"""The tables, their managers and every recursive statement."""

from compaction_app.models.tables import ChatMessage, ChatSession, CompactionEvent, CompactionRun

__all__ = ["ChatMessage", "ChatSession", "CompactionEvent", "CompactionRun"]
