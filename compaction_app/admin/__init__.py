"""The admin: sessions, messages, summaries, runs and events, linked to each other.

What the system wrote is shown and never edited; the title and the settings of a session are the exception.
Pages read through the functions that a chat turn reads through, so they show what the model sees. Deleting
goes through ``chat``, never through Django's collector. Compacting, retiring and retrying are actions with
permissions of their own.
"""

from compaction_app.admin.events import CompactionEventAdmin
from compaction_app.admin.messages import ChatMessageAdmin
from compaction_app.admin.runs import CompactionRunAdmin
from compaction_app.admin.sessions import ChatSessionAdmin

__all__ = ["ChatMessageAdmin", "ChatSessionAdmin", "CompactionEventAdmin", "CompactionRunAdmin"]
