"""The public API: everything a chat product calls.

A turn appends the user's message, calls a model with ``get_context(tip).to_openai()`` (or lets :func:`complete` or
:func:`stream` do it), appends the reply and calls :func:`request_compaction`, which decides, opens a run and enqueues
it after the commit. Only :func:`compact` waits for a summary, and :func:`complete` and :func:`stream` where the
provider rejects the prompt as too long; in the mode ``deterministic`` whatever requests one.

Each function that does I/O has an async twin with the same name and the prefix ``a``. A name that is imported as itself
is passed on, as type checkers read it.
"""

from asgiref.sync import sync_to_async as _awaited

from compaction_app.conf import warm_up as warm_up
from compaction_app.context.meter import measure as measure
from compaction_app.context.reading import get_context as get_context
from compaction_app.context.reading import should_compact as should_compact
from compaction_app.conversation.append import annotate_message as annotate_message
from compaction_app.conversation.append import append_message as append_message
from compaction_app.conversation.append import append_messages as append_messages
from compaction_app.conversation.append import start_session as start_session
from compaction_app.conversation.carry_over import acarry_over as acarry_over
from compaction_app.conversation.carry_over import carry_over as carry_over
from compaction_app.conversation.carry_over import request_carry_over as request_carry_over
from compaction_app.conversation.compact import acompact as acompact
from compaction_app.conversation.compact import compact as compact
from compaction_app.conversation.compact import request_compaction as request_compaction
from compaction_app.conversation.complete import acomplete as acomplete
from compaction_app.conversation.complete import complete as complete
from compaction_app.conversation.copy import copies_of as copies_of
from compaction_app.conversation.copy import copy_branch as copy_branch
from compaction_app.conversation.correct import correct_summary as correct_summary
from compaction_app.conversation.erase import delete_message as delete_message
from compaction_app.conversation.erase import delete_owner as delete_owner
from compaction_app.conversation.erase import delete_session as delete_session
from compaction_app.conversation.erase import redact_message as redact_message
from compaction_app.conversation.erase import redact_text as redact_text
from compaction_app.conversation.erase import retire_summary as retire_summary
from compaction_app.conversation.hand_over import ahand_over as ahand_over
from compaction_app.conversation.hand_over import hand_over as hand_over
from compaction_app.conversation.pins import pin_message as pin_message
from compaction_app.conversation.pins import unpin_message as unpin_message
from compaction_app.conversation.recall import answer_recalls as answer_recalls
from compaction_app.conversation.recall import open_tool as open_tool
from compaction_app.conversation.recall import recall as recall
from compaction_app.conversation.recall import recall_message as recall_message
from compaction_app.conversation.recall import recall_text as recall_text
from compaction_app.conversation.recall import recall_tool as recall_tool
from compaction_app.conversation.search import search as search
from compaction_app.conversation.stream import AsyncReplyStream as AsyncReplyStream
from compaction_app.conversation.stream import ReplyStream as ReplyStream
from compaction_app.conversation.stream import astream as astream
from compaction_app.conversation.stream import stream as stream
from compaction_app.summarizers.prompts import MAX_INSTRUCTIONS as MAX_INSTRUCTIONS
from compaction_app.tree.branches import find_summary_for_branch as _find_summary
from compaction_app.tree.branches import get_branch as get_branch
from compaction_app.tree.branches import tips as tips
from compaction_app.tree.branches import variants as variants
from compaction_app.tree.lanes import newest_tip as newest_tip

find_summary = _find_summary

# Each database step is whole in one call: a transaction belongs to one thread.
astart_session = _awaited(start_session)
aappend_message = _awaited(append_message)
aappend_messages = _awaited(append_messages)
aannotate_message = _awaited(annotate_message)
acopy_branch = _awaited(copy_branch)
acopies_of = _awaited(copies_of)
aget_branch = _awaited(get_branch)
aget_context = _awaited(get_context)
afind_summary = _awaited(find_summary)
ameasure = _awaited(measure)
ashould_compact = _awaited(should_compact)
apin_message = _awaited(pin_message)
aunpin_message = _awaited(unpin_message)
acorrect_summary = _awaited(correct_summary)
aretire_summary = _awaited(retire_summary)
aredact_message = _awaited(redact_message)
aredact_text = _awaited(redact_text)
adelete_message = _awaited(delete_message)
adelete_owner = _awaited(delete_owner)
adelete_session = _awaited(delete_session)
atips = _awaited(tips)
anewest_tip = _awaited(newest_tip)
avariants = _awaited(variants)
arecall = _awaited(recall)
arecall_message = _awaited(recall_message)
arecall_text = _awaited(recall_text)
aanswer_recalls = _awaited(answer_recalls)
asearch = _awaited(search)
arequest_compaction = _awaited(request_compaction)
arequest_carry_over = _awaited(request_carry_over)

__all__ = [name for name in sorted(globals()) if not name.startswith("_")]
