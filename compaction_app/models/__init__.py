"""The tables, their managers, and all recursive SQL."""

from compaction_app.models.runs import CompactionEvent, CompactionRun
from compaction_app.models.tables import ChatMessage, ChatSession, MessagePin, ReplyClaim, SearchEntry

__all__ = ["ChatMessage", "ChatSession", "CompactionEvent", "CompactionRun", "MessagePin", "ReplyClaim", "SearchEntry"]
