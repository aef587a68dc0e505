"""DeepSeek's export: ``mapping`` as ChatGPT's, of messages of fragments."""

from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import Json, Rows, a_call, bridged, file_of, messages_of_turn, text_in


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    mapping = document.get("mapping")
    nodes = {own: Json(node) for own, node in mapping.items()} if isinstance(mapping, Mapping) else {}
    if not any("fragments" in node.inner("message") for node in nodes.values()):
        return None
    rows, messages = Rows(), []
    for own, node in nodes.items():
        rows.place(node, own, node.id("parent"))
        node.items("children")
    empty = [own for own, node in nodes.items() if not node.inner("message")]
    for own, parent in bridged(rows.parents, empty):
        made = _turn(own, parent, nodes[own].inner("message"))
        rows.add(nodes[own], made[-1]["role"], made, own)
        messages += made
    return {
        **document.named("deepseek", "id"),
        "title": document.text("title"),
        "created_at": document.time("inserted_at", "updated_at"),
        "metadata": {"deepseek": document.kept("id") | document.rest()},
        "messages": messages,
        "notes": rows.done(document),
    }


def _turn(own: str, parent: str | None, message: Json) -> list[dict[str, Any]]:
    fragments = message.inners("fragments")
    files = [one for part in (message, *fragments) for one in part.inners("files")]
    is_user = any(one.get("type") in ("REQUEST", "FILE") for one in fragments)
    about = {
        "role": "user" if is_user else "assistant",
        "created_at": message.time("inserted_at"),
        "model": "" if is_user else message.text("model"),
        "attachments": [
            file_of(one.text("file_name", "name"), asset=one.id("file_id") or one.id("id") or "") for one in files
        ],
    }
    return messages_of_turn(own, parent, about, _pieces(own, fragments))


def _pieces(own: str, fragments: list[Json]) -> Iterator[tuple[str, Any]]:
    """What it searched for or opened is a call, and what was found its result."""
    for number, one in enumerate(fragments, start=1):
        kind, found = one.text("type"), one.kept("results", "result")
        yield "reasoning" if kind == "THINK" else "text", one.text("content")
        if found:
            call_id = f"{own}:{number}"
            yield "call", a_call(call_id, kind.lower(), one.kept("queries", "reference"))
            yield "result", {"tool_call_id": call_id, "name": kind.lower(), "content": text_in(found)}
