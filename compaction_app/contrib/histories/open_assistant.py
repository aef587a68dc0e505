"""Open-Assistant's trees: ``prompt`` is the first message, and ``replies`` nest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.reading import Json
from compaction_app.exceptions import ImportFailed

_ROLES = {"prompter": "user"}
_KEYS = frozenset({"text", "role", "replies", "message_id", "parent_id", "created_date", "model_name"})


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Depth first with a stack: a tree may be deeper than Python can recurse."""
    if not isinstance(document.get("prompt"), dict):
        return None
    items: list[dict[str, Any]] = []
    waiting: list[tuple[Any, str | None]] = [(document["prompt"], None)]
    while waiting:
        node, parent = waiting.pop()
        replies = (node.get("replies") or []) if isinstance(node, dict) else None
        if not isinstance(replies, list):
            raise ImportFailed("a message of a tree must be an object, and its 'replies' a list.")
        own_id = Json(node).id("message_id") or f"message {len(items) + 1}"
        others = {key: node[key] for key in node if key not in _KEYS}
        read = {"role": _ROLES.get(str(node.get("role")), node.get("role")), "content": node.get("text")}
        about = {"created_at": node.get("created_date"), "model": node.get("model_name")}
        items.append({**others, **read, **about, "id": own_id, "parent": parent})
        waiting.extend((reply, own_id) for reply in reversed(replies))
    tree = Json(document)
    tree.get("prompt")
    return {**tree.named("open_assistant", "message_tree_id"), "metadata": tree.rest(), "messages": items}
