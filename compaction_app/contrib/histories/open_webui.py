"""Open WebUI's export: ``chat.history.messages`` by id, or a flat ``chat.messages`` in older ones.

One reply holds reasoning, calls, results and text: in ``output``, as items of the Responses API, and again in
``content``, as HTML. Replies of several models that were asked at once are siblings.
"""

from __future__ import annotations

import html
import json
import re
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

# Not in a block of code. What is inside has no tags of its own, but the summary's.
_DETAILS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)|\Z)"
    r'|<details type="(reasoning|tool_calls|code_interpreter)"([^<>]*)>((?:(?!</?details\b).)*)</details>\s*',
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE = re.compile(r'\b(\w++)="([^"]*)"')
_SUMMARY = re.compile(r"<summary>[^<]*</summary>|^`{3,}\w*$", re.MULTILINE)


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    chat = document.inner("chat") or document
    history = chat.inner("history")
    if "chat" not in document and not history:
        return None
    chat.require("history", dict)
    found = {own: Json(row) for own, row in history.inner("messages").given.items() if isinstance(row, Mapping)}
    parents = {own: row.id("parentId") for own, row in found.items()}
    if not found:
        chat.require("messages", list)
        last = None
        for row in chat.inners("messages"):
            own = unused(row.id("id"), found)
            parents[own], found[own] = row.id("parentId") or last, row
            last = own
    others = [own for own, row in found.items() if row.get("role") not in ("user", "assistant")]
    failed = [own for own, row in found.items() if row.get("error") and not row.kept("content", "output")]
    notes = {"messages of other roles, bridged": len(others), "errors of the provider, bridged": len(failed)}
    messages = (one for own, parent in bridged(parents, others + failed) for one in _turn(own, parent, found[own]))
    systems = (text_in(found[own].get("content")) for own in others if found[own].get("role") == "system")
    return {
        **document.named("open_webui", "id"),
        "title": document.text("title") or chat.text("title"),
        "model": next((name for name in chat.items("models") if name and isinstance(name, str)), ""),
        "created_at": document.time("created_at") or chat.time("timestamp"),
        "system_prompt": chat.inner("params").text("system") or chat.text("system") or next(systems, ""),
        "metadata": {"open_webui": {"id": document.get("id"), "current": history.get("currentId")}},
        "messages": list(messages),
        "notes": notes,
    }


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    pieces, text = list(_of_output(own, row)), text_in(row.get("content"))
    in_html = list(_of_content(own, text)) if row.get("role") == "assistant" else [("text", text)]
    if not any(kind == "text" for kind, _ in pieces):
        pieces += [piece for piece in in_html if piece[0] == "text"] if pieces else in_html
    pieces += [("text", one.inner("file").inner("data").text("content")) for one in row.inners("files")]
    sources = [{key: one.get(key) for key in one.given if key != "document"} for one in row.inners("sources")]
    message = {
        "role": row.get("role"),
        "created_at": row.time("timestamp"),
        "model": row.text("model"),
        "attachments": [
            file_of(one.text("name"), one.text("content_type"), one.text("url"), "image" * (one.get("type") == "image"))
            for one in row.inners("files")
        ],
        "usage": row.inner("usage").given or None,
        "metadata": row.kept("error", "modelIdx") | ({"sources": sources} if sources else {}),
    }
    return messages_of_turn(own, parent, message, pieces)


def _of_output(own: str, row: Json) -> Iterator[tuple[str, Any]]:
    for number, item in enumerate(row.inners("output"), start=1):
        call_id = item.id("call_id") or f"{own}:{number}"
        result = "result", {"tool_call_id": call_id, "content": text_in(item.get("output"))}
        match item.get("type"):
            case "message":
                yield "text", text_in(item.get("content"))
            case "reasoning":
                yield "reasoning", text_in(item.get("content") or item.get("summary"))
            case "function_call":
                yield "call", a_call(call_id, item.text("name"), item.get("arguments"))
            case "function_call_output":
                yield result
            case "open_webui:code_interpreter":
                yield from (("call", a_call(call_id, "code_interpreter", item.kept("lang", "code"))), result)


def _of_content(own: str, content: str) -> Iterator[tuple[str, Any]]:
    """Text, and what older replies have in HTML alone."""
    at = 0
    for number, found in enumerate((one for one in _DETAILS.finditer(content) if not one["fence"]), start=1):
        yield "text", content[at : found.start()]
        at, (_, kind, attributes, inner) = found.end(), found.groups()
        inner = _SUMMARY.sub("", inner).strip()
        if kind == "reasoning":
            lines = (line.removeprefix(">").strip() for line in html.unescape(inner).splitlines())
            yield "reasoning", joined(lines, "\n")
            continue
        given = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
        call_id, code = given.get("id") or f"{own}:{number}", {"code": inner} if kind == "code_interpreter" else {}
        yield "call", a_call(call_id, given.get("name", kind), _plain(given.get("arguments", "")) or code)
        if result := given.get("result") or given.get("output"):
            yield "result", {"tool_call_id": call_id, "content": _plain(result)}
    yield "text", content[at:]


def _plain(value: str) -> str:
    """JSON of a text is that text."""
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, str) else value
