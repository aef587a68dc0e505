"""What ``REDACTOR`` does to a message before it is sent to any model, whole and before anything is shortened.

It applies to what the chat model is sent (``get_context``, so also ``complete``, ``stream`` and a host's own client)
and to what a summarizer is sent. These are copies; what is stored stays as it is. Tools and parameters of a request
are redacted too: a client may have written them. ``redact_secrets`` ships with the app: see ``messages.secrets``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from compaction_app.conf import Settings, load_function
from compaction_app.exceptions import RedactionFailed
from compaction_app.messages.openai_format import made_id, strings
from compaction_app.messages.secrets import redact_secrets as redact_secrets
from compaction_app.messages.transcript import count_summary
from compaction_app.messages.validation import is_storable, make_storable
from compaction_app.tokens import TOKENS_PER_MESSAGE, Count, count_messages
from compaction_app.values import Branch, ContextMessage, Json, Summary

Redact = Callable[[str], str]

AnyMessage = TypeVar("AnyMessage", bound=ContextMessage)

#: Replaces an argument that the redactor changed into something that is not JSON.
UNREADABLE = "[removed]"


def redactor_of(settings: Settings) -> Redact | None:
    """The host's redactor, None if there is none. What it raises becomes :class:`RedactionFailed`, without any text."""
    path = settings.redactor
    if path is None:
        return None
    loaded: list[Redact] = []

    def redact(text: str) -> str:
        try:
            # Loaded at the first use: importing it, or making an instance of a class, may raise too.
            if not loaded:
                loaded.append(load_function(path))
            result = loaded[0](shown := make_storable(text))
        except Exception as error:
            raise RedactionFailed(f"REDACTOR raised {type(error).__name__}; nothing was sent.") from error
        if not isinstance(result, str):
            raise RedactionFailed(f"REDACTOR must return a string, not {type(result).__name__}; nothing was sent.")
        if not is_storable(result):
            # A summary would quote it, and no database could store that.
            raise RedactionFailed("REDACTOR returned a string with a NUL or a lone surrogate; nothing was sent.")
        # In arguments, JSON may escape what is not storable; only what is redacted is written anew.
        return text if result == shown else result

    return redact


def redact_branch(branch: Branch, redact: Redact, count: Count) -> Branch:
    """The branch as it may be shown, counted again: a replacement may be longer than what it replaces."""
    base = branch.base
    if base is not None:
        redacted = redact_summary(base, redact)
        if redacted != base:
            grown = count_summary(redacted.text, count) - count_summary(base.text, count)
            base = replace(redacted, tokens=max(base.tokens + grown, TOKENS_PER_MESSAGE))
        if base.turn_request is not None:
            base = replace(base, turn_request=redact_and_recount(base.turn_request, redact, count))
    pins, tail = (
        tuple(redact_and_recount(message, redact, count) for message in part) for part in (branch.pins, branch.tail)
    )
    return replace(branch, base=base, pins=pins, tail=tail)


def redact_summary(summary: Summary, redact: Redact) -> Summary:
    texts = (summary.content, summary.ledger, summary.extract)
    content, ledger, extract = map(redact, texts)
    memory = _redact_arguments(summary.memory, redact)
    return replace(summary, content=content, ledger=ledger, extract=extract, memory=memory)


def redact_and_recount(message: AnyMessage, redact: Redact, count: Count) -> AnyMessage:
    redacted = apply_redactor(message, redact)
    if redacted == message:
        return message
    counted = ("role", "content", "name", "tool_calls", "attachments", "original")
    texts = [{name: getattr(one, name) for name in counted} for one in (message, redacted)]
    before, after = count_messages(texts, count)
    # The difference only: a message's count may also include results supplied for unanswered calls.
    return replace(redacted, tokens=max(message.tokens - before + after, TOKENS_PER_MESSAGE))


def apply_redactor(message: AnyMessage, redact: Redact | None) -> AnyMessage:
    """Every text of the message redacted. An id of a call becomes another one, the same for the call and its result.

    All of what came is read too, keys and ids as well. If anything in it or in the fields is redacted, it is not sent
    as it came.
    """
    if redact is None:
        return message
    redacted = replace(
        message,
        content=redact(message.content),
        name=redact(message.name),
        tool_calls=tuple(_redact_call(call, redact) for call in message.tool_calls),
        tool_call_id=_redact_id(message.tool_call_id, redact),
        reasoning=redact_json(message.reasoning, redact),
        attachments=tuple(_redact_values(attachment, redact) for attachment in message.attachments),
    )
    if message.original is None:
        return redacted
    came = set(strings(message.original["data"]))
    is_clean = redacted == message and all(redact(text) == text for text in came)
    return redacted if is_clean else replace(redacted, original=None)


def redact_parameters(params: Mapping[str, Any], redact: Redact | None) -> dict[str, Any]:
    """What goes to a provider beside the messages. Headers and query have the host's own keys."""
    kept = ("extra_headers", "extra_query")
    return {key: params[key] if redact is None or key in kept else redact_json(params[key], redact) for key in params}


def redact_json(value: Json, redact: Redact, *, pair: Callable[[str, Json, Redact], Any] | None = None) -> Any:
    """Every string in ``value``, keys too. ``pair``: redacts a value that has a name."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        named = pair or (lambda _, item, redact: redact_json(item, redact))
        return {redact(key): named(key, item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_json(item, redact, pair=pair) for item in value]
    return value


def _redact_values(value: Mapping[str, Json], redact: Redact) -> dict[str, Any]:
    """Its keys are those of a format."""
    return {key: redact_json(item, redact) for key, item in value.items()}


def _redact_id(call_id: Json, redact: Redact) -> Any:
    is_kept = not call_id or not isinstance(call_id, str) or redact(call_id) == call_id
    return call_id if is_kept else made_id(call_id)


def _redact_call(call: Mapping[str, Json], redact: Redact) -> dict[str, Json]:
    result = {**_redact_values(call, redact), "id": _redact_id(call.get("id"), redact)}
    source, target = call, result
    if isinstance(function := call.get("function"), Mapping):
        source, target = function, _redact_values(function, redact)
        result["function"] = target
    if isinstance(arguments := source.get("arguments"), str):
        target["arguments"] = _redact_arguments(arguments, redact)
    return result


def _redact_arguments(arguments: str, redact: Redact) -> str:
    """Arguments that were JSON are JSON afterwards; others are redacted as text."""
    try:
        parsed = json.loads(arguments)
        redacted = redact_json(parsed, redact, pair=_redact_pair)
        return arguments if redacted == parsed else make_storable(json.dumps(redacted, ensure_ascii=False))
    except (ValueError, RecursionError):
        return redact(arguments)


def _redact_pair(key: str, value: Json, redact: Redact) -> Any:
    """Each string alone, because JSON's escapes would hide a key that spans lines; then together with its name,
    because only ``"password": "…"`` shows that it is secret."""
    value = redact_json(value, redact, pair=_redact_pair)
    if isinstance(value, dict | list):
        return value
    text = json.dumps({key: value}, ensure_ascii=False)
    redacted = redact(text)
    if redacted == text:
        return value
    try:
        [(_, changed)] = json.loads(redacted).items()
    except (ValueError, RecursionError, AttributeError):
        # A number has no quotes: its replacement is not JSON.
        return UNREADABLE
    return changed
