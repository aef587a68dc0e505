"""What tests of the ledger share: a draft, completed by what must survive of what was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_app.conf import settings_from_snapshot
from compaction_app.memory.ledger import Remembered
from compaction_app.messages.transcript import largest_saving_summary
from compaction_app.summarizers.drafts import prose_draft
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import Budget, CompactionPlan, Message, Role, SummaryDraft, with_ledger
from tests.summarizers.summarizing import NONCE
from tests.summarizers.summarizing import request_of as request

COUNT = ExactTokenCounter()
DRAFT = "## Boats\n\nThe user spoke of boats, and you listened."


class Completed(str):
    """A summary as it is read, and the columns that it has."""

    content: str
    ledger: str
    extract: str
    is_extract: bool
    before: float | None
    after: float | None


def made_of(content: str, ledger: str = "", extract: str = "", *, is_extract: bool = False) -> Completed:
    summary = Completed(with_ledger(content, ledger))
    summary.content, summary.ledger, summary.is_extract = content, ledger, is_extract
    summary.extract = extract
    return summary


def message(number: int, content: str, role: str = Role.USER, **fields: Any) -> Message:
    return Message(id=number, depth=number, role=role, tokens=50, content=content, **fields)


def keep(
    *told: str | Message,
    draft: str | SummaryDraft = DRAFT,
    previous: str = "",
    kept: Sequence[Message] = (),
    anchor_depth: int = 1000,
    pinned: Message | None = None,
    target: int = 1000,
    replaced: int = 10_000,
    budget: int = 100_000,
    redact: Any = None,
    **changes: Any,
) -> Completed:
    """The draft completed by what must survive of these messages. ``previous``: one like it, or nothing but prose."""
    before = previous if isinstance(previous, Completed) else made_of(previous)
    covered = tuple(message(n, text) if isinstance(text, str) else text for n, text in enumerate(told, start=1))
    settings = settings_from_snapshot(changes)
    plan = CompactionPlan(
        covered=covered,
        lookahead=(),
        kept=tuple(kept),
        base=None,
        turn_request=pinned,
        cutoff=covered[-1] if covered else message(1, ""),
        anchor_id=1,
        anchor_depth=anchor_depth,
        target_tokens=target,
        replaced_tokens=replaced,
        most_tokens=largest_saving_summary(replaced, settings.min_saving_ratio),
    )
    asked = request(
        covered=covered,
        lookahead=tuple(kept),
        pinned=pinned,
        base_text=before.content,
        base_columns={"ledger": before.ledger, "is_extract": before.is_extract, "extract": before.extract},
        target_tokens=target,
        nonce=NONCE,
        redact=redact,
    )
    allowances = Budget(
        window=200_000,
        reserved=0,
        available=200_000,
        threshold=budget,
        target=budget,
        summary_target=target,
        recent_ratio=0.2,
        recent_cap=40_000,
    )
    written = prose_draft(SummaryDraft(text=draft) if isinstance(draft, str) else draft)
    kept = Remembered(asked, plan, allowances, settings, COUNT).kept(written)
    summary = made_of(written.text, kept.ledger, kept.extract, is_extract=written.is_extract)
    summary.before, summary.after = kept.before, kept.after
    return summary


def tell(*told: str | tuple[str, str], previous: str = "", **changes: Any) -> Completed:
    """The summary of a conversation in which a model answers small talk; a pair is said by the model."""
    messages: list[Message] = []
    for said in told:
        if isinstance(said, str):
            messages.append(message(len(messages) + 1, said))
            messages.append(message(len(messages) + 1, "All right, here is some more of it.", Role.ASSISTANT))
        else:
            messages.append(message(len(messages) + 1, "Go on with it then."))
            messages.append(message(len(messages) + 1, said[1], Role.ASSISTANT))
    return keep(*messages, previous=previous, **{"LEDGER_TOKENS": 300, **changes})


def entries(*told: str | tuple[str, str], **changes: Any) -> str:
    return tell(*told, **changes).ledger
