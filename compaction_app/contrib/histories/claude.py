"""Claude's export: ``chat_messages`` of content blocks, with ``parent_message_uuid`` in the newer ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import (
    a_call,
    a_text,
    an_id,
    an_object,
    bridged,
    file_of,
    joined,
    messages_of_turn,
    objects,
    text_in,
    time_of,
    unused,
)

_NO_PARENT = "00000000-0000-4000-8000-000000000000"


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    if "chat_messages" not in document:
        return None
    rows = objects(document["chat_messages"], required=True)
    is_tree = any(an_id(row.get("parent_message_uuid")) for row in rows)
    parents: dict[str, str | None] = {}
    given: dict[str, Mapping[str, Any]] = {}
    last = None
    for row in rows:
        own = unused(row.get("uuid"), given)
        parent = an_id(row.get("parent_message_uuid")) if is_tree else last
        parents[own] = None if parent == _NO_PARENT else parent
        given[own] = row
        last = own
    messages: list[dict[str, Any]] = []
    for own, parent in bridged(parents).items():
        messages += _turn(own, parent, given[own])
    return {
        "title": a_text(document.get("name")),
        "model": a_text(document.get("model")),
        "created_at": time_of(document.get("created_at"), document.get("updated_at")),
        "metadata": {"claude": {key: document[key] for key in ("uuid", "project_uuid") if document.get(key)}},
        "messages": messages,
    }


def _turn(own: str, parent: str | None, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    pieces = list(_pieces(own, row))
    if not any(kind != "reasoning" for kind, _ in pieces):
        # Beside blocks it repeats them, with notes about those that it cannot show.
        pieces.append(("text", a_text(row.get("text"))))
    attached = objects(row.get("attachments"))
    pieces += [("text", one["extracted_content"]) for one in attached if a_text(one.get("extracted_content"))]
    files: dict[str, dict[str, Any]] = {}
    for one in [*objects(row.get("files_v2")), *objects(row.get("files")), *attached]:
        if name := a_text(one.get("file_name")):
            files.setdefault(name, file_of("image" if one.get("file_kind") == "image" else "file", name))
    cited = [block["citations"] for block in objects(row.get("content")) if block.get("citations")]
    message = {
        "role": "user" if row.get("sender") == "human" else "assistant",
        "created_at": time_of(row.get("created_at")),
        "attachments": list(files.values()),
        "finish_reason": a_text(row.get("stop_reason")),
        "metadata": {"citations": [one for ones in cited for one in ones]} if cited else {},
    }
    return messages_of_turn(own, parent, message, pieces)


def _pieces(own: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, block in enumerate(objects(row.get("content")), start=1):
        kind = block.get("type")
        call_id = an_id(block.get("tool_use_id" if kind == "tool_result" else "id")) or f"{own}:{number}"
        if kind == "thinking":
            said = [an_object(one).get("summary") for one in objects(block.get("summaries"))]
            yield "reasoning", a_text(block.get("thinking")) or joined(said)
        elif kind == "tool_use":
            yield "call", a_call(call_id, block.get("name"), block.get("input"))
        elif kind == "tool_result":
            result = {"tool_call_id": call_id, "name": a_text(block.get("name"))}
            yield "result", {**result, "content": text_in(block.get("content"))}
        elif text := a_text(block.get("text")):
            yield "text", text
