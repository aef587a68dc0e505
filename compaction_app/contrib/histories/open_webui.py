"""Open WebUI's export: ``chat.history.messages`` by id, or a flat ``chat.messages`` in older ones. Qwen's has its form.

One reply holds reasoning, calls, results and text: in ``output``, as items of the Responses API, and again in
``content``, as HTML; Qwen's as phases in ``content_list``. Replies of several models that were asked at once are
siblings.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from compaction_app.contrib.histories.reading import (
    Json,
    Rows,
    a_call,
    bridged,
    file_of,
    joined,
    messages_of_turn,
    repeats,
    text_in,
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
    nodes, rows = history.get("messages"), Rows()
    nodes = nodes if isinstance(nodes, Mapping) else {}
    for own, row in ((own, Json(node)) for own, node in nodes.items() if isinstance(node, Mapping)):
        rows.place(row, own, row.id("parentId"))
    if not (is_tree := bool(found := rows.placed)):
        chat.require("messages", list)
    last = None
    for row in chat.rows("messages"):
        if is_tree and (known := found.get(row.id("id") or "")):
            # The branch that was shown, once more.
            rows.notes["other forms of a message, left out"] += row.given != known.given
            continue
        own = rows.place(row, row.id("id"), row.id("parentId") or last)
        last = None if is_tree else own
    others = [own for own, row in found.items() if row.get("role") not in ("user", "assistant")]
    failed = [
        own for own, row in found.items() if row.get("error") and not any(map(row.given.get, ("content", "output")))
    ]
    rows.notes["messages of other roles, bridged"] += len(others)
    rows.notes["errors of the provider, bridged"] += len(failed)
    messages: list[dict[str, Any]] = []
    for own, parent in bridged(rows.parents, others + failed):
        made = _turn(own, parent, found[own])
        rows.add(found[own], str(found[own].get("role")), made, own)
        messages += made
    # Asked at once, there are several: all are in the metadata.
    models = chat.given["models"] if isinstance(chat.given.get("models"), list) else []
    systems = (found[own].said("content") for own in others if found[own].get("role") == "system")
    return {
        **document.named("open_webui", "id"),
        "title": document.text("title") or chat.text("title"),
        "model": next((name for name in models if name and isinstance(name, str)), ""),
        "created_at": document.time("created_at") or chat.time("timestamp"),
        "system_prompt": chat.inner("params").text("system") or chat.text("system") or next(systems, ""),
        "metadata": {
            "open_webui": {"current": history.get("currentId"), "id": document.get("id")}
            | document.rest()
            | chat.rest()
        },
        "messages": messages,
        "shown": history.get("currentId"),
        "notes": rows.done(document),
    }


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    row.items("childrenIds")
    pieces, text = [*_of_output(own, row), *_of_phases(own, row)], text_in(row.given.get("content"))
    in_html = list(_of_content(own, text)) if row.get("role") == "assistant" else [("text", text)]
    said = [piece for piece in in_html if piece[0] == "text"]
    if not any(kind == "text" for kind, _ in pieces):
        pieces += said if pieces else in_html
        row.said("content")
    elif repeats(joined([text for _, text in said]), pieces):
        row.get("content")
    pieces += [("text", one.inner("file").inner("data").text("content")) for one in row.inners("files")]
    sources = [{key: one.get(key) for key in one.given if key != "document"} for one in row.inners("sources")]
    message = {
        "role": row.get("role"),
        "created_at": row.time("timestamp"),
        "model": row.text("model"),
        "attachments": [_file(one) for one in row.inners("files")],
        "usage": row.inner("usage").whole() or None,
        "metadata": row.kept("error", "modelIdx") | ({"sources": sources} if sources else {}),
    }
    return messages_of_turn(own, parent, message, pieces)


def _file(file: Json) -> dict[str, Any]:
    kind = "image" if file.get("type") == "image" else ""
    return file_of(file.text("name"), file.text("content_type"), file.text("url", "id"), kind)


def _of_output(own: str, row: Json) -> Iterator[tuple[str, Any]]:
    for number, item in enumerate(row.inners("output"), start=1):
        call_id = item.id("call_id") or f"{own}:{number}"
        result = "result", {"tool_call_id": call_id, "content": item.said("output")}
        match item.get("type"):
            case "message":
                yield "text", item.said("content")
            case "reasoning":
                yield "reasoning", item.said("content" if item.given.get("content") else "summary")
            case "function_call":
                yield "call", a_call(call_id, item.text("name"), item.get("arguments"))
            case "function_call_output":
                yield result
            case "open_webui:code_interpreter":
                yield from (("call", a_call(call_id, "code_interpreter", item.kept("lang", "code"))), result)


def _of_phases(own: str, row: Json) -> Iterator[tuple[str, Any]]:
    """What it searched for and made with other tools is a call, whose result is what is known of it."""
    parts = row.inners("content_list")
    has_thoughts = any(str(part.given.get("phase")).startswith("think") for part in parts)
    if not has_thoughts and (thought := row.said("reasoning_content")):
        yield "reasoning", thought
    for number, part in enumerate(parts, start=1):
        phase, call_id, extra = part.text("phase"), f"{own}:{number}", part.inner("extra")
        if phase == "thinking_summary":
            titles, thoughts = (extra.inner(key).items("content") for key in ("summary_title", "summary_thought"))
            yield from (("reasoning", joined(pair, "\n")) for pair in zip_longest(titles, thoughts))
        elif phase in ("think", "answer", ""):
            yield "reasoning" if phase == "think" else "text", part.said("content")
        else:
            yield "call", a_call(call_id, phase, part.inner("function_call").text("arguments"))
            yield "result", {"tool_call_id": call_id, "content": part.said("content") or text_in(dict(extra.whole()))}


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
