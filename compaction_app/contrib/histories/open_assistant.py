"""Open-Assistant's trees: ``prompt`` is the first message, and ``replies`` nest."""

from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.reading import Json, Rows

_ROLES = {"prompter": "user"}


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Depth first with a stack: a tree may be deeper than Python can recurse."""
    document = Json(given)
    if not (prompt := document.inner("prompt")):
        return None
    rows, items = Rows(), list[dict[str, Any]]()
    waiting: list[tuple[Json, str | None]] = [(prompt, None)]
    while waiting:
        node, parent = waiting.pop()
        node.require("replies", list)
        own, role = node.id("message_id") or f"message {len(items) + 1}", node.text("role")
        waiting += [(reply, own) for reply in reversed(node.rows("replies"))]
        said: dict[str, Any] = {"role": _ROLES.get(role, role), "content": node.said("text")}
        about = {"created_at": node.time("created_date"), "model": node.text("model_name"), "metadata": node.rest()}
        item = {**said, **about, "id": own, "parent": parent}
        rows.add(node, item["role"], [item], rest=item["metadata"])
        items.append(item)
    named = {**document.named("open_assistant", "message_tree_id"), "metadata": document.rest()}
    return {**named, "messages": items, "notes": rows.done(document)}
