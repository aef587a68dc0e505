"""The public API: everything a chat product calls.

A turn appends the user's message, calls a model with ``get_context(tip).to_openai()`` (or lets :func:`complete` or
:func:`stream` do it), appends the reply and calls :func:`request_compaction`, which decides, opens a run and enqueues
it after the commit. Only :func:`compact` waits for a summary, and :func:`complete` and :func:`stream` where the
provider rejects the prompt as too long; in the mode ``deterministic`` whatever requests one.

Each function that does I/O has an async twin with the same name and the prefix ``a``.
"""

from __future__ import annotations

from asgiref.sync import sync_to_async

from compaction_app.conf import warm_up
from compaction_app.context.reading import get_context, should_compact
from compaction_app.conversation.append import annotate_message, append_message, append_messages, start_session
from compaction_app.conversation.compact import acompact, compact, request_compaction
from compaction_app.conversation.complete import acomplete, complete
from compaction_app.conversation.copy import copies_of, copy_branch
from compaction_app.conversation.erase import (
    delete_message,
    delete_owner,
    delete_session,
    redact_message,
    redact_text,
    retire_summary,
)
from compaction_app.conversation.pins import pin_message, unpin_message
from compaction_app.conversation.recall import answer_recalls, recall, recall_text, recall_tool
from compaction_app.conversation.stream import AsyncReplyStream, ReplyStream, astream, stream
from compaction_app.summarizers.prompts import MAX_INSTRUCTIONS
from compaction_app.tree.branches import find_summary_for_branch as find_summary
from compaction_app.tree.branches import get_branch, tips, variants
from compaction_app.tree.lanes import newest_tip

# Each database step is whole in one sync_to_async: a transaction belongs to one thread.
astart_session = sync_to_async(start_session)
aappend_message = sync_to_async(append_message)
aappend_messages = sync_to_async(append_messages)
aannotate_message = sync_to_async(annotate_message)
acopy_branch = sync_to_async(copy_branch)
acopies_of = sync_to_async(copies_of)
aget_branch = sync_to_async(get_branch)
aget_context = sync_to_async(get_context)
afind_summary = sync_to_async(find_summary)
ashould_compact = sync_to_async(should_compact)
apin_message = sync_to_async(pin_message)
aunpin_message = sync_to_async(unpin_message)
aretire_summary = sync_to_async(retire_summary)
aredact_message = sync_to_async(redact_message)
aredact_text = sync_to_async(redact_text)
adelete_message = sync_to_async(delete_message)
adelete_owner = sync_to_async(delete_owner)
adelete_session = sync_to_async(delete_session)
atips = sync_to_async(tips)
anewest_tip = sync_to_async(newest_tip)
avariants = sync_to_async(variants)
arecall = sync_to_async(recall)
arecall_text = sync_to_async(recall_text)
aanswer_recalls = sync_to_async(answer_recalls)
arequest_compaction = sync_to_async(request_compaction)

__all__ = [
    "MAX_INSTRUCTIONS",
    "AsyncReplyStream",
    "ReplyStream",
    "aannotate_message",
    "aanswer_recalls",
    "aappend_message",
    "aappend_messages",
    "acompact",
    "acomplete",
    "acopies_of",
    "acopy_branch",
    "adelete_message",
    "adelete_owner",
    "adelete_session",
    "afind_summary",
    "aget_branch",
    "aget_context",
    "anewest_tip",
    "annotate_message",
    "answer_recalls",
    "apin_message",
    "append_message",
    "append_messages",
    "arecall",
    "arecall_text",
    "aredact_message",
    "aredact_text",
    "arequest_compaction",
    "aretire_summary",
    "ashould_compact",
    "astart_session",
    "astream",
    "atips",
    "aunpin_message",
    "avariants",
    "compact",
    "complete",
    "copies_of",
    "copy_branch",
    "delete_message",
    "delete_owner",
    "delete_session",
    "find_summary",
    "get_branch",
    "get_context",
    "newest_tip",
    "pin_message",
    "recall",
    "recall_text",
    "recall_tool",
    "redact_message",
    "redact_text",
    "request_compaction",
    "retire_summary",
    "should_compact",
    "start_session",
    "stream",
    "tips",
    "unpin_message",
    "variants",
    "warm_up",
]
