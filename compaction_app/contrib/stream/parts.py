"""Messages and replies in the form of the AI SDK: the chunks of its UI message stream, and its ``UIMessage``.

A ``UIMessage`` of the assistant is a whole turn: each reply of the model is a step of it, and results of tools belong
to the calls. In the tree these are messages of their own, so the id of a ``UIMessage`` is that of its last one.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from compaction_app.conf import site_setting
from compaction_app.context.assembly import address_of
from compaction_app.context.meter import state_at
from compaction_app.contrib import sse
from compaction_app.conversation.recall import other_calls
from compaction_app.conversation.stream import ReplyStream
from compaction_app.messages.media import media_type
from compaction_app.messages.openai_format import with_address
from compaction_app.messages.tool_calls import name_and_arguments
from compaction_app.messages.transcript import reasoning_text
from compaction_app.messages.validation import storable
from compaction_app.models import ChatMessage, ChatSession, ReplyClaim
from compaction_app.models.columns import names
from compaction_app.models.database import now_of
from compaction_app.values import MeterState, Role

Part = dict[str, Any]

_COLUMNS = ("id", "parent", "reasoning", *names(ChatMessage, client=True, copied=True))
_SENT = "summary_id cutoff_id dropped tokens history_tokens available_tokens threshold window".split()
#: The SDK refuses any other word.
_ENDINGS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_calls": "tool-calls"}


# -- the stream ------------------------------------------------------------------------------------------


def parts_of_chunks(chunks: Iterable[Any], step: int) -> Iterator[Part]:
    """Text and reasoning, as a provider's chunks bring them; ``step``: makes ids differ from those of other steps."""
    open_kind, number = "", 0
    for kind, text in chain.from_iterable(map(sse.pieces_of, chunks)):
        if kind != open_kind:
            if open_kind:
                yield {"type": f"{open_kind}-end", "id": f"{step}-{number}"}
            open_kind, number = kind, number + 1
            yield {"type": f"{kind}-start", "id": f"{step}-{number}"}
        yield {"type": f"{kind}-delta", "id": f"{step}-{number}", "delta": text}
    if open_kind:
        yield {"type": f"{open_kind}-end", "id": f"{step}-{number}"}


def parts_of_reply(message: ChatMessage | None) -> Iterator[Part]:
    """What is known of a reply when it is whole: files and calls."""
    if message is not None:
        yield from _files(message.attachments)
        yield from ({"type": "tool-input-available", **part} for part in _calls(other_calls(message)))


def finish(message: ChatMessage | None, question: ChatMessage, finish_reason: str = "") -> Part:
    """The end of a reply; None: nothing of it is stored."""
    reason = (message.finish_reason if message else "") or finish_reason
    told = {"id": None, "questionId": str(question.pk), "finishReason": reason}
    if message is not None:
        told |= _told(message.pk, message.created_at, message.model, reason)
    return {"type": "finish", "finishReason": _ENDINGS.get(reason, "other"), "messageMetadata": told}


def compaction_part(stream: ReplyStream, tip: ChatMessage) -> Part:
    """What the reply's prompt had in place of messages, how full the window is, and what compaction does at ``tip``."""
    kept = stream.sent
    sent = {name: kept.get(name) for name in _SENT}
    cutoff = sent["cutoff_id"]
    rows = ChatMessage.objects.in_database_of(tip).filter(pk=cutoff)
    state, code, _ = state_at(tip, sent)
    data = {
        "summaryId": _id(sent["summary_id"]),
        "summarizedTo": _id(cutoff),
        "summarized": (rows.values_list("depth", flat=True).first() or 0) if cutoff else 0,
        "dropped": sent["dropped"] or 0,
        "fallbackUsed": stream.fallback_used,
        "tokens": sent["tokens"],
        "historyTokens": sent["history_tokens"],
        "availableTokens": sent["available_tokens"],
        "threshold": sent["threshold"],
        "window": sent["window"],
        "state": state,
        "code": code,
        "underWay": state == MeterState.RUNNING,
    }
    return {"type": "data-compaction", "id": "compaction", "data": data}


def _id(key: int | None) -> str | None:
    return None if key is None else str(key)


# -- stored messages -------------------------------------------------------------------------------------


def repository(session: ChatSession, under_way: Mapping[int, int]) -> dict[str, Any]:
    """Every message of a session with its parent, as assistant-ui loads them: two queries.

    ``under_way``: questions, and how far their replies are stored. That is left out: their streams begin with it.
    """
    rows = list(ChatMessage.objects.in_database_of(session).in_session(session.pk).messages().values(*_COLUMNS))
    above_of, streamed = {row["id"]: row["parent"] for row in rows}, set[int]()
    for question, newest in under_way.items():
        at: int | None = newest
        while at is not None and at != question:
            streamed.add(at)
            at = above_of.get(at)
    rows = [row for row in rows if row["id"] not in streamed]
    children = Counter(row["parent"] for row in rows)
    #: Of each row the message that it is in. Where the tree forks, a message ends.
    holders: dict[int, Part] = {}
    parents: list[tuple[Part | None, Part]] = []
    calls: dict[int, dict[str, Part]] = defaultdict(dict)
    for row in rows:
        above = holders.get(row["parent"])
        is_of_model = row["role"] in (Role.ASSISTANT, Role.TOOL)
        goes_on = is_of_model and above is not None and above["role"] == "assistant" and children[row["parent"]] == 1
        message = above if goes_on and above is not None else {"role": _role(row["role"]), "parts": []}
        if not goes_on:
            parents.append((above, message))
        holders[row["id"]] = message
        _add(row, message, above, calls)
    claims = ReplyClaim.objects.in_database_of(session)
    claims = claims.filter(message__session=session, lease_expires_at__gt=now_of(session))
    asked = {*under_way, *claims.values_list("pk", flat=True)} - streamed
    return {
        "headId": holders[rows[-1]["id"]]["id"] if rows else None,
        "messages": [{"parentId": above["id"] if above else None, "message": message} for above, message in parents],
        "underWay": [str(key) for key in sorted(asked)],
    }


def _role(role: str) -> str:
    return {Role.USER: "user", Role.ASSISTANT: "assistant", Role.TOOL: "assistant"}.get(Role(role), "system")


def _add(row: Mapping[str, Any], message: Part, above: Part | None, calls: dict[int, dict[str, Part]]) -> None:
    """Add what a stored message has to the message that it is in, whose id it becomes.

    ``calls``: of each message by the ``id`` of its dict, or each of thousands of results would look through the parts.
    """
    message["id"] = str(row["id"])
    parts: list[Part] = message["parts"]
    if row["role"] == Role.TOOL:
        call_id = row["tool_call_id"]
        if call_id not in calls[id(message)]:
            unknown = {"type": "tool-unknown", "toolCallId": call_id, "input": {}}
            calls[id(message)][call_id] = dict(calls[id(above)].get(call_id, unknown))
            parts.append(calls[id(message)][call_id])
        calls[id(message)][call_id] |= {"state": "output-available", "output": _output(row["content"])}
        return
    if row["role"] == Role.ASSISTANT:
        parts.append({"type": "step-start"})
    if thought := reasoning_text(row["reasoning"]):
        parts.append({"type": "reasoning", "text": thought, "state": "done"})
    parts += _files(row["attachments"])
    if row["content"]:
        parts.append({"type": "text", "text": row["content"], "state": "done"})
    for call in _calls(row["tool_calls"]):
        parts.append({"type": f"tool-{call.pop('toolName')}", "state": "input-available", **call})
        calls[id(message)][call["toolCallId"]] = parts[-1]
    message["metadata"] = _told(row["id"], row["created_at"], row["model"], row["finish_reason"])


def _told(pk: int, created_at: Any, model: str, finish_reason: str) -> Part:
    told = {"id": str(pk), "createdAt": created_at.isoformat(), "model": model, "finishReason": finish_reason}
    return {name: value for name, value in told.items() if value}


def _output(text: str) -> Any:
    """An object or a list, as a page's tool gave it; any other text stays one."""
    try:
        return storable(json.loads(text)) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        return text


def _calls(calls: Iterable[Mapping[str, Any]] | None) -> Iterator[Part]:
    for call in calls or ():
        name, arguments = name_and_arguments(call)
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield {"toolCallId": call["id"], "toolName": name or "unknown", "input": _output(given) or {}}


def _files(attachments: Iterable[Mapping[str, Any]] | None) -> Iterator[Part]:
    """Those with an address, at the one that the site gives now."""
    path = site_setting("ATTACHMENT_URL") if attachments else None
    for attachment in attachments or ():
        one = with_address(attachment, address_of(path, attachment)) if path else attachment
        url = str(one.get("url") or "")
        # A page makes a link of it, and anybody may have written it.
        if url.startswith(("https:", "http:", "data:", "/")):
            kind = one.get("mime_type") or media_type(url) or {"image": "image", "audio": "audio"}.get(one["type"], "")
            name = {"filename": one["name"]} if one.get("name") else {}
            yield {"type": "file", "mediaType": kind or "application/octet-stream", "url": url, **name}


#: The last event of a stream.
END: Part = {"type": "done"}
