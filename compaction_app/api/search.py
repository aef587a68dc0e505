"""Searching one's own conversations."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from compaction_app import chat
from compaction_app.api.authentication import user_of
from compaction_app.api.errors import operation
from compaction_app.api.lookup import database, find_session
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.api.schemas import InQuery, RoleName
from compaction_app.models import ChatSession
from compaction_app.values import Found

router = Router(tags=["sessions"])


class FoundOut(Schema):
    message_id: int = Field(examples=[17])
    session_id: UUID
    tip_id: int = Field(description="The newest message at or below it: the branch to open.", examples=[43])
    role: RoleName
    name: str
    created_at: datetime
    excerpt: str = Field(description="Around the words.", examples=["The ferry leaves at nine."])


class FoundList(Schema):
    items: list[FoundOut]


Words = Annotated[str, Query(description="All of these words, in any order.", max_length=1000, examples=["ferry nine"])]
SessionId = Annotated[UUID | None, Query(None, description="Only in this session. By default in all of your own.")]
Most = Annotated[int, InQuery, Query(20, ge=1, le=100, description="How many are returned.")]


@operation(router, "GET", "/search", {200: FoundList}, "configuration invalid_message not_found redaction_failed")
def search(request: HttpRequest, q: Words, session_id: SessionId, limit: Most) -> dict[str, Any]:
    """Messages of every branch with all of the words, newest first. Besides what is summarized, the newest are
    searched; with the setting `RECALL` `all` everything is."""
    if session_id is not None:
        return {"items": chat.search(q, session=find_session(request, session_id, Action.READ), limit=limit)}
    user = user_of(request)
    found: list[Found] = chat.search(q, owner=user, limit=limit)
    sessions = ChatSession.objects.using(database()).in_bulk({one.session_id for one in found})
    may_read = {pk for pk, one in sessions.items() if is_allowed(user, one, Action.READ)}
    return {"items": [one for one in found if one.session_id in may_read]}
