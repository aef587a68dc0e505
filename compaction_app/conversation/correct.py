"""A summary that a person corrects: a generation of its own, in the place of the one that was read.

What was wrong in a summary may be in each one that was built on it, so all of them are retired with it. Cutoff, extract
and ledger stay those of the first one, and the anchor, unless its author has read a branch to a tip below it.
"""

import logging
from typing import Any

from compaction_app.conf import get_token_counter
from compaction_app.context.reading import resolve_request
from compaction_app.conversation.compact import check_user
from compaction_app.conversation.erase import retire_summary
from compaction_app.exceptions import InvalidMessage, NotASummary
from compaction_app.messages.transcript import count_summary
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.columns import names
from compaction_app.models.database import locked, now_of
from compaction_app.summarizers.drafts import written_summary
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR
from compaction_app.telemetry import log
from compaction_app.tree import branches
from compaction_app.tree.lanes import tips_at_or_below
from compaction_app.values import PERSON, EventKind, Kind, RunStatus, Trigger, with_ledger

logger = logging.getLogger("compaction_app.compaction")

#: Why the summary before was retired.
CORRECTED = "corrected"


def correct_summary(
    summary: ChatMessage, text: str, *, tip: ChatMessage | None = None, author: Any = None
) -> CompactionRun:
    """Store ``text`` as the summary that applies where ``summary`` did, and retire that one with all built on it.

    ``tip``: the end of the branch that the ``author`` has read: the text applies to branches with it, and may tell of
    all of it. Without one it applies wherever the summary did, so it must tell of nothing that was said after its
    anchor. Returns the run that records it; the next compaction goes on from the corrected text. Raises
    :class:`InvalidMessage` for a text that can be no summary, and a summary that is not in use; :class:`NotASummary`
    for a message.
    """
    branches.check_instance(summary, ChatMessage, "summary")
    if summary.kind != Kind.SUMMARY:
        raise NotASummary(f"Message {summary.pk} is not a summary; only summaries are corrected.")
    check_user(author, "author")
    if tip is not None:
        branches.check_tip(tip)
    count = get_token_counter()
    with locked(summary):
        rows = ChatMessage.objects.in_database_of(summary).select_related("session").live()
        row = rows.filter(pk=summary.pk).first()
        if row is None:
            raise InvalidMessage(f"summary: {summary.pk} is not in use any more.", field="summary")
        place = row.parent_message_id or 0
        if tip is not None and not tips_at_or_below(place, [tip.pk], tip):
            raise InvalidMessage(f"tip: summary {row.pk} does not apply at message {tip.pk}.", field="tip")
        budget = resolve_request(row.session).budget
        # As large as the one before in any case; its ledger stays beside the text.
        most = max(row.token_count, int(OVERSIZE_FACTOR * budget.summary_target))
        text = written_summary(text, most - row.token_count + count_summary(row.content, count), count, row.ledger)
        tokens = count_summary(with_ledger(text, row.ledger), count)
        stored = CompactionRun.objects.in_database_of(row)
        made = stored.filter(summary=row).first()
        anchor = branches.unread_message(row, tip.pk if tip else place)
        before = branches.history_at(anchor).tokens
        retire_summary(row, reason=CORRECTED)
        corrected = ChatMessage(
            session_id=row.session_id,
            kind=Kind.SUMMARY,
            role=row.role,
            content=text,
            token_count=tokens,
            model=PERSON,
            last_summarized_message_id=row.last_summarized_message_id,
            pinned_message_id=row.pinned_message_id,
            **{name: getattr(row, name) for name in names(ChatMessage, said=True, copied=True, exported=False)},
        )
        ChatMessage.objects.append_chain(anchor, [corrected])
        now = now_of(row)
        run = CompactionRun(
            session_id=row.session_id,
            tip_id=anchor.pk if tip or not made else made.tip_id,
            anchor_id=anchor.pk,
            cutoff_id=row.last_summarized_message_id,
            base_id=made.base_id if made else None,
            summary=corrected,
            trigger=Trigger.MANUAL,
            status=RunStatus.SUCCEEDED,
            author=author,
            summarizer_model=PERSON,
            **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "cost"), 0),
            generation=stored.next_generation(row.session_id),
            messages_compacted=made.messages_compacted if made else None,
            tokens_before=before,
            tokens_after=branches.history_at(anchor).tokens,
            created_at=now,
            finished_at=now,
        )
        run._state.db = stored.db
        run.save(force_insert=True)
        numbers = {"generation": run.generation, "messages": run.messages_compacted}
        run.record(EventKind.COMPLETED, {**numbers, "tokens_before": before, "tokens_after": run.tokens_after})
        run.announce_end()
    log(logger, logging.INFO, "done", run=run.pk, session=run.session_id, summary=run.summary_id, **numbers)
    return run
