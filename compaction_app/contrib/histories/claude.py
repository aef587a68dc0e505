"""Claude's export: ``chat_messages`` of content blocks, with ``parent_message_uuid`` in the newer ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import (
    Json,
    Rows,
    WaitingCalls,
    a_call,
    bridged,
    file_of,
    joined,
    messages_of_turn,
    repeats,
)

_NO_PARENT = "00000000-0000-4000-8000-000000000000"


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    if "chat_messages" not in document:
        return None
    document.require("chat_messages", list)
    rows, messages, last = Rows(), [], None
    chat = document.rows("chat_messages")
    is_tree = any(row.id("parent_message_uuid") for row in chat)
    for row in chat:
        parent = row.id("parent_message_uuid") if is_tree else last
        last = rows.place(row, row.id("uuid"), None if parent == _NO_PARENT else parent)
    for own, parent in bridged(rows.parents):
        made = _turn(own, parent, rows.placed[own])
        rows.add(rows.placed[own], made[-1]["role"], made)
        messages += made
    return {
        **document.named("claude", "uuid"),
        "title": document.text("name"),
        "model": document.text("model"),
        "created_at": document.time("created_at", "updated_at"),
        # The summary of the conversation, too.
        "metadata": {"claude": document.kept("uuid") | document.rest()},
        "messages": messages,
        "shown": document.given.get("current_leaf_message_uuid"),
        "notes": rows.done(document),
    }


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    pieces, text = list(_pieces(own, row)), row.given.get("text")
    if all(kind == "reasoning" for kind, _ in pieces):
        pieces.append(("text", row.text("text")))
    elif isinstance(text, str) and repeats(text, pieces):
        # Beside blocks it repeats them; notes about those that it cannot show are counted.
        row.get("text")
    attached = row.inners("attachments")
    pieces += [("text", one.text("extracted_content")) for one in attached]
    files: dict[str, Any] = {}
    names: set[str] = set()
    for one in [*row.inners("files_v2"), *row.inners("files"), *attached]:
        name, asset = one.text("file_name"), one.text("file_uuid", "uuid", "id")
        kind = "image" if one.get("file_kind") == "image" else "file"
        if asset or (name and name not in names):
            files.setdefault(asset or name, file_of(name or asset, one.text("file_type"), kind=kind, asset=asset))
            names.add(name)
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
    waiting = WaitingCalls()
    for number, block in enumerate(row.inners("content"), start=1):
        name = block.text("name")
        match block.get("type"):
            case "thinking":
                summaries = (one.text("summary") for one in block.inners("summaries"))
                # Not read, and so counted, beside the thought itself.
                yield "reasoning", block.text("thinking") or joined(summaries)
            case "tool_use":
                call_id = block.id("id") or f"{own}:{number}"
                waiting.add(call_id, name)
                yield "call", a_call(call_id, name, block.get("input"))
            case "tool_result":
                asked = block.id("tool_use_id")
                about = {"name": name, "content": block.said("content")}
                yield "result", {"tool_call_id": waiting.answered(asked, name) or asked or own, **about}
            case _:
                if text := block.text("text"):
                    yield "text", text
