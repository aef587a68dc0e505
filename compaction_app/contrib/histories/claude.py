"""Claude's export: ``chat_messages`` of content blocks, with ``parent_message_uuid`` in the newer ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import (
    Json,
    a_call,
    bridged,
    file_of,
    joined,
    messages_of_turn,
    text_in,
    unused,
)

_NO_PARENT = "00000000-0000-4000-8000-000000000000"


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    if "chat_messages" not in document:
        return None
    document.require("chat_messages", list)
    parents: dict[str, str | None] = {}
    found: dict[str, Json] = {}
    rows, last = document.inners("chat_messages"), None
    is_tree = any(row.id("parent_message_uuid") for row in rows)
    for row in rows:
        own, parent = unused(row.id("uuid"), found), row.id("parent_message_uuid") if is_tree else last
        parents[own], found[own] = None if parent == _NO_PARENT else parent, row
        last = own
    return {
        **document.named("claude", "uuid"),
        "title": document.text("name"),
        "model": document.text("model"),
        "created_at": document.time("created_at", "updated_at"),
        "metadata": {"claude": document.kept("uuid", "project_uuid", "current_leaf_message_uuid")},
        "messages": [one for own, parent in bridged(parents) for one in _turn(own, parent, found[own])],
    }


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    pieces = list(_pieces(own, row))
    if all(kind == "reasoning" for kind, _ in pieces):
        # Beside blocks it repeats them, with notes about those that it cannot show.
        pieces.append(("text", row.text("text")))
    attached = row.inners("attachments")
    pieces += [("text", one.text("extracted_content")) for one in attached]
    files: dict[str, Any] = {}
    for one in [*row.inners("files_v2"), *row.inners("files"), *attached]:
        if name := one.text("file_name"):
            files.setdefault(name, file_of(name, kind="image" if one.get("file_kind") == "image" else "file"))
    cited = [citation for block in row.inners("content") for citation in block.items("citations")]
    message = {
        "role": "user" if row.get("sender") == "human" else "assistant",
        "created_at": row.time("created_at"),
        "attachments": list(files.values()),
        "finish_reason": row.text("stop_reason"),
        "metadata": {"citations": cited} if cited else {},
    }
    return messages_of_turn(own, parent, message, pieces)


def _pieces(own: str, row: Json) -> Iterator[tuple[str, Any]]:
    waiting: list[tuple[str, str]] = []
    for number, block in enumerate(row.inners("content"), start=1):
        name = block.text("name")
        match block.get("type"):
            case "thinking":
                summaries = joined(one.text("summary") for one in block.inners("summaries"))
                yield "reasoning", block.text("thinking") or summaries
            case "tool_use":
                waiting.append((block.id("id") or f"{own}:{number}", name))
                yield "call", a_call(*waiting[-1], block.get("input"))
            case "tool_result":
                # By its id, else by its name, else by the order.
                asked = (block.id("tool_use_id") or own, name)
                call = min(waiting, key=lambda one: (one[0] != asked[0], one[1] != asked[1]), default=asked)
                waiting = [one for one in waiting if one != call]
                yield "result", {"tool_call_id": call[0], "name": name, "content": text_in(block.get("content"))}
            case _:
                if text := block.text("text"):
                    yield "text", text
