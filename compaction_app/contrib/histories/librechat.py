"""LibreChat's export of a conversation: ``messages`` with ``parentMessageId``, or nested in ``children``.

A reply has its calls with their results as parts of its ``content``; here each is a message. What is written has more
keys where LibreChat has no place: ``role``, ``tool_call_id`` and ``name`` of a message that it does not know, and
``createdAt`` and ``files`` of a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import (
    a_call,
    a_text,
    an_id,
    an_object,
    bridged,
    file_of,
    kind_of,
    messages_of_turn,
    objects,
    text_in,
    time_of,
    unused,
)

_NO_PARENT = "00000000-0000-0000-0000-000000000000"
#: Of a message, for what has no place in its metadata here.
_KEPT = ("unfinished", "feedback")


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    rows = objects(document.get("messagesTree")) or objects(document.get("messages"))
    if "conversationId" not in document and not (rows and "isCreatedByUser" in rows[0]):
        return None
    given: dict[str, Mapping[str, Any]] = {}
    parents: dict[str, str | None] = {}
    waiting: list[tuple[Mapping[str, Any], str | None]] = [(row, None) for row in reversed(rows)]
    while waiting:
        row, above = waiting.pop()
        own = unused(row.get("messageId"), given)
        parent = above or an_id(row.get("parentMessageId"))
        given[own] = row
        parents[own] = None if parent == _NO_PARENT else parent
        waiting += [(child, own) for child in reversed(objects(row.get("children")))]
    failed = [own for own, row in given.items() if row.get("error")]
    messages: list[dict[str, Any]] = []
    for own, parent in bridged(parents, failed).items():
        messages += _turn(own, parent, given[own])
    options = an_object(document.get("options"))
    prompts = (options.get(key) for key in ("promptPrefix", "system", "instructions"))
    return {
        "title": a_text(document.get("title")),
        "model": a_text(options.get("model")),
        "created_at": time_of(document.get("createdAt"), *(row.get("createdAt") for row in given.values())),
        "system_prompt": next(filter(None, map(a_text, prompts)), ""),
        "metadata": {"librechat": {"id": document.get("conversationId"), "endpoint": document.get("endpoint")}},
        "messages": messages,
        "notes": {"errors of the provider: bridged": len(failed)} if failed else {},
    }


def _turn(own: str, parent: str | None, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = objects(row.get("content"))
    pieces = list(_pieces(own, parts))
    if not any(kind == "text" for kind, _ in pieces):
        # Beside parts it repeats their texts.
        pieces.append(("text", a_text(row.get("text"))))
    known = ("text", "think", "tool_call", "image_url", "image_file")
    others = [part for part in parts if part.get("type") not in known]
    images = [_image(part) for part in parts if str(part.get("type")).startswith("image_")]
    is_user = row.get("isCreatedByUser", row.get("sender") == "User")
    message = {
        "role": a_text(row.get("role")) or ("user" if is_user else "assistant"),
        "created_at": time_of(row.get("createdAt")),
        "model": a_text(row.get("model")),
        "finish_reason": a_text(row.get("finish_reason")),
        "attachments": [*_files(row), *images],
        "metadata": {key: row[key] for key in _KEPT if row.get(key)} | ({"parts": others} if others else {}),
    }
    if message["role"] == "tool":
        text = "\n".join(piece for kind, piece in pieces if kind == "text")
        result = {"tool_call_id": a_text(row.get("tool_call_id")) or own, "name": a_text(row.get("name"))}
        return [{**message, **result, "content": text, "id": own, "parent": parent}]
    return messages_of_turn(own, parent, message, pieces)


def _pieces(own: str, parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The results of calls stand behind all the calls that were made at once."""
    results: list[dict[str, Any]] = []
    for number, part in enumerate(parts, start=1):
        kind, inner = part.get("type"), an_object(part.get("tool_call"))
        if kind != "tool_call":
            yield from (("result", result) for result in results)
            results = []
        if part.get("createdAt"):
            yield "at", time_of(part["createdAt"])
        if kind == "text":
            text = part.get("text")
            yield "text", a_text(an_object(text).get("value")) or a_text(text)
        elif kind == "think":
            yield "reasoning", a_text(part.get("think"))
        elif kind == "tool_call":
            function = {**an_object(inner.get("function")), **inner}
            call_id = an_id(inner.get("id")) or f"{own}:{number}"
            arguments = function.get("args", function.get("arguments"))
            yield "call", a_call(call_id, function.get("name"), arguments)
            if function.get("output") is not None:
                about = {"created_at": time_of(inner.get("createdAt")), "attachments": _files(inner)}
                content = text_in(function["output"])
                results.append({"tool_call_id": call_id, "content": content, **about})
    yield from (("result", result) for result in results)


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    inner = part.get(str(part.get("type")))
    if isinstance(inner, str):
        return file_of("image", "", url=inner)
    given = an_object(inner)
    return file_of("image", given.get("filename") or given.get("file_id"), url=given.get("url"))


def _files(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        file_of(kind_of(one.get("type")), one.get("filename"), one.get("type"), one.get("filepath"))
        for one in [*objects(row.get("files")), *objects(row.get("attachments"))]
        if a_text(one.get("filename"))
    ]


# -- writing --------------------------------------------------------------------------------------------


def write(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls, their results and the reply behind them as one message, as far as no branch begins between them."""
    items, about = document["messages"], {"conversationId": document.get("id"), "error": False}
    children = Counter(item["parent"] for item in items)
    #: The row that a message is in, always as its last one.
    rows: dict[Any, dict[str, Any]] = {}
    for item in items:
        row = rows.get(item["parent"]) if children[item["parent"]] == 1 else None
        if row is None or not _is_joined(row, item):
            above = rows[item["parent"]]["messageId"] if item["parent"] in rows else _NO_PARENT
            row = {**about, "parentMessageId": above, "isCreatedByUser": item["role"] == "user", "content": []}
            row |= {"role": item["role"]} if item["role"] in ("tool", "system") else {}
            row |= {key: item[key] for key in ("tool_call_id", "name") if item.get(key)}
            _add(row, item)
        rows[item["id"]] = row
        row["messageId"] = item["id"]
    options = {"model": document.get("model") or None, "promptPrefix": document.get("system_prompt") or None}
    return {
        "conversationId": document.get("id"),
        "title": document.get("title") or "",
        "endpoint": "openAI",
        "createdAt": document.get("created_at"),
        "branches": True,
        "recursive": False,
        "options": options,
        "messages": list({id(row): row for row in rows.values()}.values()),
    }


def _add(row: dict[str, Any], item: Mapping[str, Any]) -> None:
    at, text, calls = item.get("created_at"), item.get("content") or "", item.get("tool_calls") or ()
    parts: list[dict[str, Any]] = [{"type": "think", "think": said}] if (said := text_in(item.get("reasoning"))) else []
    parts += [{"type": "text", "text": text}] if text or not calls else []
    for call in calls:
        function = call["function"]
        inner = {"id": call["id"], "type": "tool_call", "name": function["name"], "args": function.get("arguments")}
        parts.append({"type": "tool_call", "tool_call": inner})
    row["content"] += [{**part, "createdAt": at} for part in parts]
    row |= {"text": text, "createdAt": at, "model": item.get("model") or None, "files": _written_files(item)}
    row["sender"] = "User" if row["isCreatedByUser"] else row["model"] or "Assistant"
    row |= {"finish_reason": item["finish_reason"]} if item.get("finish_reason") else {}


def _is_joined(row: dict[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether the message went into the row above it: a result into its call, a reply behind results."""
    if row["isCreatedByUser"] or "role" in row:
        return False
    calls = [part["tool_call"] for part in row["content"] if part["type"] == "tool_call"]
    if item["role"] == "tool":
        call = next((one for one in reversed(calls) if one["id"] == item.get("tool_call_id")), {"output": ""})
        if "output" in call:
            return False
        about = {"name": item["name"]} if item.get("name") else {}
        call |= {**about, "output": item.get("content") or "", "createdAt": item.get("created_at")}
        call |= {"files": _written_files(item)} if item.get("attachments") else {}
        return True
    is_answered = row["content"][-1]["type"] == "tool_call" and all("output" in call for call in calls)
    is_reply = item["role"] == "assistant" and bool(item.get("content") or item.get("tool_calls"))
    if not is_reply or not is_answered or row["files"] or item.get("attachments"):
        return False
    _add(row, item)
    return True


def _written_files(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "file_id": f"{item['id']}-{number}",
            "filename": one.get("name") or one.get("type"),
            "type": one.get("mime_type") or one.get("type"),
            "filepath": one.get("url") or "",
        }
        for number, one in enumerate(item.get("attachments") or (), start=1)
    ]
