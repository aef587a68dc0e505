"""What the model would be sent at a message: the one call that a gateway makes before it asks its model."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router

from compaction_app import chat
from compaction_app.api.answers import answers
from compaction_app.api.context_schemas import ContextOut, Figures
from compaction_app.api.fields import MAX_NUMBER, SHORT_TEXT, Id, InQuery
from compaction_app.api.finding import find_tip
from compaction_app.api.problems import Code
from compaction_app.messages.validation import check_text

router = Router(tags=["messages"])

Model = Annotated[
    str | None,
    Query(None, max_length=SHORT_TEXT, description="Fit it to this model's window; left out: the session's model."),
]
ReservedTokens = Annotated[
    int | None,
    InQuery,
    Query(None, ge=0, le=MAX_NUMBER, description="Kept free for the reply, and for what you add, such as tools."),
]
IncludeReasoning = Annotated[
    bool, Query(False, description="Give the reasoning blocks of the tail's messages to `openai` too.")
]


@router.get(
    "/messages/{int:message_id}/context",
    summary="What the model would be sent here",
    **answers(
        {200: ContextOut},
        Code.NOT_FOUND,
        Code.INVALID_MESSAGE,
        Code.INVALID_PARENT,
        Code.CONTEXT_OVERFLOW,
        Code.REDACTION_FAILED,
    ),
)
def get_context(
    request: HttpRequest,
    message_id: Id,
    model: Model,
    reserved_tokens: ReservedTokens,
    include_reasoning: IncludeReasoning,
) -> dict[str, Any]:
    """Writes nothing and starts nothing. Send `openai` to your model, then append its reply with `figures`."""
    tip = find_tip(request, message_id)
    check_text(model or "", "model")
    context = chat.get_context(tip, model=model, reserved_tokens=reserved_tokens)
    return {
        "figures": {name: getattr(context, name) for name in Figures.model_fields},
        "messages": context.messages,
        "openai": context.to_openai(include_reasoning=include_reasoning),
    }
