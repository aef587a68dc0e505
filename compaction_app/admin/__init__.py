"""The admin: sessions, messages, summaries, runs and events, linked to each other.

What the system wrote is read-only; only a session's title and settings can be edited. Pages use the functions that a
chat turn uses, so they show what the model sees. Deleting goes through ``chat``, never through Django's collector.
Compacting, retiring, redacting and retrying need permissions of their own.
"""

from compaction_app.admin.messages import ChatMessageAdmin
from compaction_app.admin.runs import CompactionEventAdmin, CompactionRunAdmin
from compaction_app.admin.sessions import ChatSessionAdmin

__all__ = ["ChatMessageAdmin", "ChatSessionAdmin", "CompactionEventAdmin", "CompactionRunAdmin"]
