"""What tests of the ledger share: a draft, completed by what must survive of what was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_app.conf import settings_from_snapshot
from compaction_app.retention.ledger import Kept, complete
from compaction_app.retention.ledger_text import ledger_of
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import Budget, CompactionPlan, Message, Role
from tests.summarizers.summarizing import NONCE
from tests.summarizers.summarizing import request_of as request

COUNT = ExactTokenCounter()
DRAFT = "## Boats\n\nThe user spoke of boats, and you listened."


def message(number: int, content: str, role: str = Role.USER, **fields: Any) -> Message:
    return Message(id=number, depth=number, role=role, tokens=50, content=content, **fields)


def keep(
    *told: str | Message,
    draft: str = DRAFT,
    previous: str = "",
    kept: Sequence[Message] = (),
    anchor_depth: int = 1000,
    pinned: Message | None = None,
    target: int = 1000,
    replaced: int = 10_000,
    budget: int = 100_000,
    redact: Any = None,
    **changes: Any,
) -> Kept:
    """The draft completed by what must survive of these messages."""
    covered = tuple(message(n, text) if isinstance(text, str) else text for n, text in enumerate(told, start=1))
    plan = CompactionPlan(
        covered=covered,
        lookahead=(),
        kept=tuple(kept),
        base=None,
        pinned=pinned,
        cutoff=covered[-1] if covered else message(1, ""),
        anchor_id=1,
        anchor_depth=anchor_depth,
        target_tokens=target,
        replaced_tokens=replaced,
    )
    asked = request(
        covered=covered, pinned=pinned, base_text=previous, target_tokens=target, nonce=NONCE, redact=redact
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
    return complete(draft, asked, plan, allowances, settings_from_snapshot(changes), COUNT)


def tell(*told: str | tuple[str, str], previous: str = "", **changes: Any) -> str:
    """The ledger of a conversation in which a model answers small talk; a pair is said by the model."""
    messages: list[Message] = []
    for said in told:
        if isinstance(said, str):
            messages.append(message(len(messages) + 1, said))
            messages.append(message(len(messages) + 1, "All right, here is some more of it.", Role.ASSISTANT))
        else:
            messages.append(message(len(messages) + 1, "Go on with it then."))
            messages.append(message(len(messages) + 1, said[1], Role.ASSISTANT))
    return keep(*messages, previous=previous, **{"LEDGER_TOKENS": 300, **changes}).text


def entries(*told: str | tuple[str, str], **changes: Any) -> str:
    return ledger_of(tell(*told, **changes))
