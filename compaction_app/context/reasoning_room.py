"""Reasoning blocks on their way back to the model: the newest ones, while the prompt has room for them. Pure.

They are not part of a message's count, since most requests leave them out; where they are sent they are counted
here, so a prompt that fits goes on fitting.
"""

from __future__ import annotations

import json
from dataclasses import replace

from compaction_app.tokens import Count
from compaction_app.values import ChatContext, Json


def with_reasoning_that_fits(context: ChatContext, count: Count, *, room: int | None) -> ChatContext:
    """The context with the reasoning that may be sent, counted in; older blocks than the first one too large go.

    ``room``: tokens left for them; None: all of them are sent. A block is sent whole and as it came, or not at all.
    """
    messages = list(context.messages)
    places = [place for place, message in enumerate(messages) if message.reasoning is not None]
    sizes = count([_sent_text(messages[place].reasoning) for place in places])
    used = 0
    fits = True
    for place, size in reversed(list(zip(places, sizes, strict=True))):
        message = messages[place]
        fits = fits and (room is None or used + size <= room)
        if fits:
            used += size
            messages[place] = replace(message, tokens=message.tokens + size)
        else:
            messages[place] = replace(message, reasoning=None)
    return replace(
        context,
        messages=tuple(messages),
        tokens=context.tokens + used,
        history_tokens=context.history_tokens + used,
    )


def _sent_text(reasoning: Json) -> str:
    return reasoning if isinstance(reasoning, str) else json.dumps(reasoning, ensure_ascii=False, sort_keys=True)
