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
    Json,
    Rows,
    a_call,
    bridged,
    file_of,
    is_address,
    messages_of_turn,
    repeats,
    text_in,
)

_NO_PARENT = "00000000-0000-0000-0000-000000000000"
#: Parts that have a place in our messages; any other stays in the metadata.
_KNOWN = ("text", "think", "tool_call", "image_url", "image_file")


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    key = "messagesTree" if document.given.get("messagesTree") else "messages"
    roots = document.rows(key)
    is_known = "conversationId" in document and not any("role" in row for row in roots)
    if not is_known and not any("isCreatedByUser" in row for row in roots):
        return None
    document.require("messages", list)
    rows, messages, last = Rows(), [], None
    is_tree = any(row.id("parentMessageId") or row.given.get("children") for row in roots)
    waiting: list[tuple[Json, str | None]] = [(row, None) for row in reversed(roots)]
    while waiting:
        row, above = waiting.pop()
        parent = above or (row.id("parentMessageId") if is_tree else last)
        own = last = rows.place(row, row.id("messageId"), None if parent == _NO_PARENT else parent)
        waiting += [(child, own) for child in reversed(row.rows("children"))]
    failed = [own for own, row in rows.placed.items() if row.get("error") or _has_failed(row)]
    rows.notes["errors of the provider, bridged"] += len(failed)
    conversation = document.id("conversationId") or ""
    for own, parent in bridged(rows.parents, failed):
        made = _turn(own, parent, row := rows.placed[own])
        rows.add(row, made[-1]["role"], made, own, conversation, rows.parents[own] or _NO_PARENT)
        messages += made
    options, ours = document.inner("options"), document.inner("openai")
    return {
        **document.named("librechat", "conversationId"),
        "title": document.text("title"),
        "model": options.text("model"),
        "created_at": document.time("createdAt"),
        "system_prompt": options.text("promptPrefix", "system", "instructions"),
        "settings": ours.get("settings"),
        "metadata": {"librechat": {"id": document.get("conversationId")} | document.rest() | options.rest()},
        "messages": messages,
        "notes": rows.done(document),
    }


def _has_failed(row: Json) -> bool:
    kinds = {part.text("type") for part in row.inners("content")}
    return kinds == {"error"} and not row.text("text")


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    parts = row.inners("content")
    pieces = list(_pieces(own, parts))
    if not any(kind == "text" for kind, _ in pieces):
        # Beside parts it repeats their texts. An older one may begin with what was thought.
        text = row.text("text")
        if text.startswith(":::thinking\n"):
            thought, _end, text = text.partition("\n")[2].partition("\n:::")
            pieces.append(("reasoning", thought))
        pieces.append(("text", text.lstrip("\n")))
    elif repeats(str(row.given.get("text")), pieces):
        row.get("text")
    others = [part.whole() for part in parts if part.get("type") not in _KNOWN]
    is_user = row.get("isCreatedByUser") if "isCreatedByUser" in row else row.get("sender") == "User"
    message = {
        "role": row.text("role") or ("user" if is_user else "assistant"),
        **row.kept("redacted_at", "pinned"),
        "created_at": row.time("createdAt"),
        "model": row.text("model"),
        "finish_reason": row.text("finish_reason"),
        "attachments": [*_files(row), *(_image(part) for part in parts if part.get("type") in _KNOWN[3:])],
        "metadata": row.kept("unfinished", "feedback") | ({"parts": others} if others else {}),
    }
    if message["role"] == "tool":
        text = "\n".join(piece for kind, piece in pieces if kind == "text")
        result = {"tool_call_id": row.text("tool_call_id") or own, "name": row.text("name")}
        return [{**message, **result, "content": text, "id": own, "parent": parent}]
    return messages_of_turn(own, parent, message, pieces)


def _pieces(own: str, parts: list[Json]) -> Iterator[tuple[str, Any]]:
    """The results of calls stand behind all the calls that were made at once."""
    results: list[dict[str, Any]] = []
    for number, part in enumerate(parts, start=1):
        kind, call = part.get("type"), part.inner("tool_call")
        if kind != "tool_call":
            yield from (("result", result) for result in results)
            results = []
        if at := part.time("createdAt"):
            yield "at", at
        if kind == "text":
            yield "text", part.text("text") or part.inner("text").text("value")
        elif kind == "think":
            yield "reasoning", part.text("think")
        elif kind == "tool_call":
            function, call_id = call.inner("function"), call.id("id") or f"{own}:{number}"
            arguments = next(
                (one.get(key) for one in (call, function) for key in ("args", "arguments") if key in one), ""
            )
            yield "call", a_call(call_id, call.text("name") or function.text("name"), arguments)
            if (told := call if call.given.get("output") is not None else function).given.get("output") is not None:
                about = {"created_at": call.time("createdAt"), "attachments": _files(call)}
                results.append({"tool_call_id": call_id, "content": told.said("output"), **about})
    yield from (("result", result) for result in results)


def _image(part: Json) -> dict[str, Any]:
    kind = part.text("type")
    image = part.inner(kind)
    url, asset = image.text("url") or part.text(kind), image.text("file_id")
    return file_of(image.text("filename") or asset, url=url, kind="image", asset=asset)


def _files(row: Json) -> list[dict[str, Any]]:
    made = []
    for one in (*row.inners("files"), *row.inners("attachments")):
        asset = one.text("file_id")
        # A path on their server that stands beside an id is counted.
        url = one.text("filepath") if not asset or is_address(one.given.get("filepath")) else ""
        if name := one.text("filename") or asset:
            made.append(file_of(name, one.text("type"), url, asset=asset))
    return made


# -- writing --------------------------------------------------------------------------------------------


def write(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls, their results and the reply behind them as one message, as far as no branch begins between them."""
    items, about = document["messages"], {"conversationId": document.get("id"), "error": False}
    children = Counter(item["parent"] for item in items)
    #: The row that a message is in, always as its last one, and the calls of the row that have no output.
    rows: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
    for item in items:
        row, waiting = rows.get(item["parent"], ({}, {}))
        if children[item["parent"]] != 1 or not _is_joined(row, waiting, item):
            above, waiting = row.get("messageId", _NO_PARENT), {}
            row = {**about, "parentMessageId": above, "isCreatedByUser": item["role"] == "user", "content": []}
            row |= {"role": item["role"]} if item["role"] in ("tool", "system", "developer") else {}
            row |= {key: item[key] for key in ("tool_call_id", "name", "redacted_at", "pinned") if item.get(key)}
            _add(row, waiting, item)
        rows[item["id"]] = row, waiting
        row["messageId"] = item["id"]
    written = list({id(row): row for row, _ in rows.values()}.values())
    for row in written:
        # A text that is all of a message stands beside no parts.
        if [part["type"] for part in row["content"]] == ["text"]:
            row["text"] = row.pop("content")[0]["text"]
    options = {"model": document.get("model") or None, "promptPrefix": document.get("system_prompt") or None}
    return {
        "conversationId": document.get("id"),
        "title": document.get("title") or "",
        "endpoint": "openAI",
        "createdAt": document.get("created_at"),
        "branches": True,
        "recursive": False,
        "options": options,
        "messages": written,
        "openai": {"settings": document.get("settings")},
    }


def _add(row: dict[str, Any], waiting: dict[str, Any], item: Mapping[str, Any]) -> None:
    at, text, calls = item.get("created_at"), item.get("content") or "", item.get("tool_calls") or ()
    parts: list[dict[str, Any]] = [{"type": "think", "think": said}] if (said := text_in(item.get("reasoning"))) else []
    parts += [{"type": "text", "text": text}] if text or not calls else []
    for call in calls:
        function = call["function"]
        inner = {"id": call["id"], "type": "tool_call", "name": function["name"], "args": function.get("arguments")}
        parts.append({"type": "tool_call", "tool_call": inner})
        waiting[call["id"]] = inner
    row["content"] += [{**part, "createdAt": at} for part in parts]
    row |= {"text": "", "createdAt": at, "model": item.get("model") or None, "files": _written_files(item)}
    row["sender"] = "User" if row["isCreatedByUser"] else row["model"] or "Assistant"
    row |= {"finish_reason": item["finish_reason"]} if item.get("finish_reason") else {}


def _is_joined(row: dict[str, Any], waiting: dict[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether the message went into the row above it: a result into its call, a reply behind results."""
    kept = ("redacted_at", "pinned")
    if not row or row["isCreatedByUser"] or "role" in row or any(key in row or item.get(key) for key in kept):
        return False
    if item["role"] == "tool":
        if (call := waiting.pop(item.get("tool_call_id") or "", None)) is None:
            return False
        about = {"name": item["name"]} if item.get("name") else {}
        call |= {**about, "output": item.get("content") or "", "createdAt": item.get("created_at")}
        call |= {"files": _written_files(item)} if item.get("attachments") else {}
        return True
    is_answered = row["content"][-1]["type"] == "tool_call" and not waiting
    # Without a part between them, two calls are read as made at once.
    is_apart = item.get("content") or (item.get("reasoning") and item.get("tool_calls"))
    is_reply = item["role"] == "assistant" and bool(is_apart)
    if not is_reply or not is_answered or row["files"] or item.get("attachments"):
        return False
    _add(row, waiting, item)
    return True


def _written_files(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            **({"file_id": one["asset_id"]} if one.get("asset_id") else {}),
            "filename": one.get("name") or one.get("type"),
            "type": one.get("mime_type") or one.get("type"),
            "filepath": one.get("url") or "",
        }
        for one in item.get("attachments") or ()
    ]
