"""The chat's own last prompt as the request for a summary, since its provider has it in its cache: option ``WARM``.

A reply keeps a mark of what was sent for it. A run reads the context at the same message again, and uses it only where
it has the same mark, byte for byte. So nothing more of a conversation is stored, and whatever changes a prompt needs no
case of its own: contributions, another system prompt, a signed address, a pin, a redaction. What a run keeps, while it
is open, are the tools of the turn and how it was measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils.crypto import salted_hmac

from compaction_app.context.budget import ContextRequest
from compaction_app.context.reading import context_at, resolve_request_at
from compaction_app.context.windows import endpoint_of
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.database import now_of
from compaction_app.summarizers.base import Summarizer
from compaction_app.tree import branches
from compaction_app.values import Branch, ChatPrompt, Cold, CompactionPlan, Message, Role

#: Of a :class:`ContextRequest`, what is no text of a conversation.
_KEPT = ("model", "reserved_tokens", "endpoint", "window", "include_reasoning", "reply_tokens")
#: What a provider's cache goes by.
_CACHED = ("messages", "tools", "response_format")
#: With it a provider finds the cache.
_KEY = "prompt_cache_key"


def mark_of(arguments: Mapping[str, Any], place: Sequence[str]) -> dict[str, str]:
    """What a reply keeps of the arguments that its model was called with, at this address and with this name.

    Keyed, so that nobody who reads it can try what an erased text was.
    """
    sent = json.dumps([*place, *map(arguments.get, _CACHED)], ensure_ascii=False, default=str)
    value = sent.encode("utf-8", "surrogatepass")
    mark = {"mark": salted_hmac(__name__, value, algorithm="sha256").hexdigest()}
    return mark | ({_KEY: str(arguments[_KEY])} if arguments.get(_KEY) else {})


def kept_of(request: ContextRequest) -> dict[str, Any]:
    """What a run keeps of how its turn was asked. Tools as a text: their order is part of the prompt, and JSON columns
    have none."""
    return {**{name: getattr(request, name) for name in _KEPT}, "tools": request.tools and json.dumps(request.tools)}


def last_prompt(
    run: CompactionRun, branch: Branch, plan: CompactionPlan, summarizer: Summarizer
) -> tuple[ChatPrompt, Message] | Cold:
    """The prompt of the newest reply, and the last message that was in it; or why it is not used. Four queries."""
    if run.is_for_another_branch or not (kept := run.request):
        # It has more than is carried over; or an erasure has left nothing of it.
        return Cold.OTHER_PROMPT
    request = ContextRequest(**{**kept, "tools": kept["tools"] and json.loads(kept["tools"])})
    model, endpoint = request.model or run.session.model, request.endpoint or endpoint_of()
    if not summarizer.asks(model, endpoint):
        return Cold.OTHER_MODEL
    reply = next((one.id for one in reversed(branch.tail) if one.role == Role.ASSISTANT), None)
    rows = ChatMessage.objects.in_database_of(run).filter(pk=reply)
    row = rows.only("parent_message_id", "sent_context", "created_at").first()
    mark = (row.sent_context or {}).get("prompt") if row else None
    tip = next((one for one in branch.tail if row and one.id == row.parent_message_id), None)
    if row is None or tip is None or not mark:
        return Cold.NO_PROMPT
    if now_of(run) - row.created_at > timedelta(seconds=summarizer.settings.summarizer_entry.warm_seconds):
        return Cold.CACHE_ENDED
    asked_at = branches.unread_message(run, tip.id)
    sent = row.sent_context or {}
    try:
        resolved = resolve_request_at(asked_at, request)
        # The reply has taught how its model counts; what was shortened was measured before.
        then = {"available": sent["available_tokens"], "threshold": sent["threshold"]}
        context = context_at(asked_at, replace(resolved, budget=replace(resolved.budget, **then))).with_addresses()
    except CompactionError:
        return Cold.OTHER_PROMPT
    arguments = {"messages": context.to_openai(endpoint=endpoint), _KEY: mark.get(_KEY)}
    if request.tools:
        arguments["tools"] = request.tools
    base = plan.base.id if plan.base else None
    is_whole = not context.fallback_used and (context.summary_id, context.own_summary_id) == (base, None)
    if not is_whole or tip.depth <= plan.cutoff.depth or mark_of(arguments, (endpoint, model)) != mark:
        return Cold.OTHER_PROMPT
    parameters = {_KEY: arguments[_KEY]} if arguments[_KEY] else {}
    prompt = ChatPrompt(
        model=model,
        endpoint=endpoint,
        messages=arguments["messages"],
        tools=tuple(request.tools or ()),
        alternate_roles=context.alternate_roles,
        parameters=parameters,
    )
    return prompt, tip
