"""Codex CLI's rollouts: JSON lines, whose ``response_item`` is an item of the Responses API.

The items of one answer are one message. A turn that was rolled back stays as a branch, and a summary with which Codex
began anew follows what it replaced. The first versions wrote the items with nothing around them.
"""

from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.files import LinesOfSession
from compaction_app.contrib.histories.reading import TITLE_CHARACTERS, Json, Rows, as_they_came, joined, lines_of
from compaction_app.messages.truncate import one_line

#: With the item in its ``payload``; the others are items themselves.
_ITEMS = frozenset(
    "response_item message reasoning function_call function_call_output local_shell_call custom_tool_call"
    " custom_tool_call_output web_search_call".split()
)


def is_rollout(session: LinesOfSession) -> bool:
    return any("payload" in one or "record_type" in one for one in session["heads"] if isinstance(one, Mapping))


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    if not isinstance(given, LinesOfSession) or not is_rollout(given):
        return None
    rollout, meta = _Rollout(), Json(None)
    for number, kind, row in lines_of(given, rollout.rows.notes, (*_ITEMS, "compacted", "session_meta", "")):
        item = row.inner("payload") or row
        if kind in ("session_meta", ""):
            # A fork repeats that of its parent behind its own.
            meta = meta or item
        elif kind == "turn_context":
            rollout.model = item.text("model") or rollout.model
        elif kind == "event_msg":
            rollout.follow(item)
        elif kind in _ITEMS and item.get("type") == "ghost_snapshot":
            rollout.rows.notes["lines of the type ghost_snapshot, left out"] += 1
        elif kind in (*_ITEMS, "compacted"):
            rollout.keep(f"line {number}", row, item, kind == "compacted")
    return {
        **meta.named("codex", "id"),
        "title": rollout.title or rollout.asked,
        "model": rollout.model,
        "created_at": meta.time("timestamp"),
        "system_prompt": joined([meta.inner("base_instructions").text("text"), meta.text("instructions")]),
        "metadata": {"codex": meta.kept("id") | meta.rest()},
        "messages": as_they_came(rollout.nodes),
        "shown": rollout.nodes[rollout.tip]["id"] if rollout.tip else None,
        "notes": rollout.rows.done(meta),
    }


class _Rollout:
    def __init__(self) -> None:
        self.rows = Rows()
        self.title = self.asked = self.model = ""
        self.nodes: dict[int, dict[str, Any]] = {}
        #: The node that is followed, the one before the last message of a user, and those before each turn.
        self.tip = self._before = 0
        self._turns: list[int] = []

    def follow(self, event: Json) -> None:
        match event.get("type"):
            case "user_message":
                # Behind the message: others of the role are no turns.
                self._turns.append(self._before)
                self.asked = self.asked or one_line(event.text("message"), TITLE_CHARACTERS)
            case "thread_name_updated":
                self.title = event.text("thread_name") or self.title
            case "thread_rolled_back" if self._turns and isinstance(event.get("num_turns"), int):
                back = min(max(event.get("num_turns"), 1), len(self._turns))
                self.tip = self._turns[-back]
                del self._turns[-back:]

    def keep(self, own: str, row: Json, item: Json, is_summary: bool) -> None:
        is_result = str(item.get("type")).endswith("_call_output")
        role = "user" if is_summary else "tool" if is_result else item.text("role") or "assistant"
        given = {"role": role, "content": item.text("message")} if is_summary else item.whole()
        about = {"created_at": row.time("timestamp"), "metadata": {"compacted": True} if is_summary else {}}
        self.rows.add(row, role, [{"content": given}])
        last = self.nodes.get(self.tip, {}) if self.tip == len(self.nodes) else {}
        if is_summary and not given["content"]:
            self.rows.notes["summaries that are sealed, left out"] += 1
        elif role == last.get("role") == "assistant":
            last["items"].append(given)
            last["id"] = own
        else:
            self._before = self.tip if role == "user" else self._before
            about["model"] = self.model if role == "assistant" else ""
            node = {"id": own, "role": role, "parent": self.tip, "items": [given], "about": about}
            self.tip = len(self.nodes) + 1
            self.nodes[self.tip] = node
