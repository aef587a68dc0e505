"""A provider's own summary in a reply: OpenAI's items and Anthropic's blocks of the type ``compaction``. Pure.

The model that made it reads it in place of all that came before, at the address where it was made. So there that is not
sent again. For any other model it is cut out, and the messages or this app's summary stand. It is a part of the reply,
so it holds below that alone, and until this app's summary covers the reply; an erasure above removes it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compaction_app.context.pruning import call_groups
from compaction_app.messages.originals import text_without, without_compactions
from compaction_app.redaction import Redact, apply_redactor
from compaction_app.values import Branch, Message, Origin


def with_own_summary(
    branch: Branch, *, made_here: Mapping[str, str], redact: Redact | None = None, is_used: bool = True
) -> Branch:
    """The branch as a model is to be shown it. ``made_here``: what is said in ``original`` of what came from it, in
    the format that goes out.

    Pins stay, and the newest user message. Without ``is_used``, as any other model is.
    """
    holding = {one.id for one in (*branch.pins, *branch.tail) if _cut(one, made_here["format"])}
    if not holding:
        return branch
    # A pin stands for itself.
    branch = replace(branch, pins=tuple(_without(pin) if pin.id in holding else pin for pin in branch.pins))
    own = next((one for one in reversed(branch.tail) if one.id in holding and _is_from(one, made_here, redact)), None)
    first = next((group[0] for group in call_groups(branch.tail) if any(one is own for one in group)), None)
    tail = [one for one in branch.tail if first and one.depth >= first.depth]
    # It stands for what is above it, and for nothing below that was not read.
    if own is None or first is None or not is_used or len(tail) <= branch.tip_depth - first.depth:
        return replace(branch, tail=tuple(_without(one) if one.id in holding else one for one in branch.tail))
    pins = {pin.id: pin for pin in branch.pins}
    if not any(one.starts_turn for one in tail):
        asked = (one for one in reversed(branch.tail) if one.starts_turn)
        if user := next(asked, branch.turn_request):
            pins.setdefault(user.id, replace(user, reasoning=None, origin=Origin.PIN))
    return replace(
        branch,
        base=None,
        tail=tuple(_without(one) if one.id in holding and one is not own else one for one in tail),
        pins=tuple(sorted(pins.values(), key=lambda pin: pin.depth)),
        unread=0,
        unread_tokens=0,
        is_without_newest_summary=False,
        own_summary_id=own.id,
    )


def _is_from(message: Message, made_here: Mapping[str, str], redact: Redact | None) -> bool:
    """Whether it goes back as it came: it came from there, and nothing of it is redacted."""
    is_same = all(str(message.original.get(key)).rstrip("/") == value for key, value in made_here.items())
    return is_same and apply_redactor(message, redact).original is not None


def _cut(message: Message, form: str) -> list[Any]:
    """Those in what came, where that is in the format that goes out: in another one it does not."""
    found: list[Any] = []
    if message.original is not None and message.original.get("format") == form:
        without_compactions(message.original.get("data"), found)
    return found


def _without(message: Message) -> Message:
    """The message without it; its text alone where nothing else would be left."""
    found = _cut(message, message.original["format"])
    content = text_without(message.content, found)
    if not (content or message.tool_calls or message.attachments):
        return replace(message, original=None)
    data = without_compactions(message.original["data"], [])
    return replace(message, content=content, original={**message.original, "data": data})
