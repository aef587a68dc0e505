"""Where an appended node goes, and whether it can stand there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from compaction_app.exceptions import InvalidMessage, InvalidParent, MessageNotFound
from compaction_app.messages.validation import open_calls_after
from compaction_app.models import sql
from compaction_app.tokens import TOKENS_PER_MISSING_RESULT
from compaction_app.values import Kind, Role

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage

#: The most that the column ``token_count`` holds on PostgreSQL; SQLite would take more.
MAX_TOKENS = 2**31 - 1


class Place:
    """Where the next node goes: read once under the lock, then carried down the chain."""

    def __init__(
        self,
        *,
        parent_id: int | None,
        depth: int,
        path_tokens: int,
        last_order: int,
        open_calls: list[str],
        lane_id: int | None,
        has_messages: bool,
    ) -> None:
        self.parent_id = parent_id
        self.depth = depth
        self.path_tokens = path_tokens
        self.last_order = last_order
        self.open_calls = open_calls
        #: The parent's lane; None above a root.
        self.lane_id = lane_id
        #: Whether a message stands here already: whatever comes now begins a lane.
        self.has_messages = has_messages

    @classmethod
    def root(cls, node: ChatMessage, using: str) -> Place:
        roots = type(node).objects.using(using).filter(session_id=node.session_id, parent__isnull=True)
        last = roots.aggregate(last=models.Max("sib_order"))["last"] or 0
        return cls(
            parent_id=None, depth=0, path_tokens=0, last_order=last, open_calls=[], lane_id=None, has_messages=False
        )

    @classmethod
    def below(cls, parent: ChatMessage, node: ChatMessage, using: str) -> Place:
        group = sorted(
            type(node).objects.using(using).raw(sql.CALL_GROUP, {"parent": parent.pk}), key=lambda row: row.depth
        )
        if not group:
            raise MessageNotFound(f"Message {parent.pk} does not exist any more.")
        row = group[-1]
        if row.session_id != node.session_id:
            raise InvalidParent("The parent belongs to another session.", field="parent")
        if row.kind == Kind.SUMMARY:
            raise InvalidParent("A summary is a leaf: append below the message it is anchored at.", field="parent")
        open_calls: list[str] = []
        for member in group:
            open_calls = open_calls_after(open_calls, vars(member))
        return cls(
            parent_id=row.pk,
            depth=row.depth,
            path_tokens=row.path_tokens,
            last_order=row.last_order,
            open_calls=open_calls,
            lane_id=row.lane_id or row.pk,
            has_messages=bool(row.has_messages),
        )

    def take(self, node: ChatMessage) -> None:
        """Give ``node`` its position; raises where it can not stand here."""
        node.parent_message_id = self.parent_id
        node.sib_order = self.last_order + 1
        node.depth = self.depth + 1
        if node.kind == Kind.SUMMARY:
            node.path_tokens = self.path_tokens
            node.lane_id = self.lane_id
            return
        node.lane_id = None if self.has_messages else self.lane_id
        waiting = self.open_calls
        self.open_calls = open_calls_after(waiting, vars(node))
        if node.role != Role.TOOL:
            # The context supplies a result for each of these calls; this message is what closes them.
            node.token_count += len(waiting) * TOKENS_PER_MISSING_RESULT
        if not 0 <= node.token_count <= MAX_TOKENS:
            raise InvalidMessage(f"token_count must be from 0 to {MAX_TOKENS:,}.", field="token_count")
        node.path_tokens = self.path_tokens + node.token_count

    def under(self, node: ChatMessage) -> Place:
        return Place(
            parent_id=node.pk,
            depth=node.depth,
            path_tokens=node.path_tokens,
            last_order=0,
            open_calls=self.open_calls,
            lane_id=node.lane_id or node.pk,
            has_messages=False,
        )
