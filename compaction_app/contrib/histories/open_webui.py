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
    a_call,
    a_text,
    an_id,
    an_object,
    bridged,
    file_of,
    joined,
    kind_of,
    messages_of_turn,
    objects,
    text_in,
    time_of,
    unused,
)

# What is inside has no tags of its own, but the summary's.
_DETAILS = re.compile(
    r'<details type="(reasoning|tool_calls)"([^<>]*)>((?:(?!</?details\b).)*)</details>\s*', re.DOTALL
)
_ATTRIBUTE = re.compile(r'\b(\w++)="([^"]*)"')
_SUMMARY = re.compile(r"<summary>[^<]*</summary>")


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    chat = an_object(document.get("chat")) or document
    history = an_object(chat.get("history"))
    rows = {str(own): row for own, row in an_object(history.get("messages")).items() if isinstance(row, Mapping)}
    if not rows and "chat" not in document and "history" not in document:
        return None
    last = None
    parents: dict[str, str | None] = {own: an_id(row.get("parentId")) for own, row in rows.items()}
    for row in () if rows else objects(chat.get("messages"), required=True):
        own = unused(row.get("id"), rows)
        parents[own], rows[own] = an_id(row.get("parentId")) or last, row
        last = own
    others = [own for own, row in rows.items() if row.get("role") not in ("user", "assistant")]
    models, params, began = (
        chat.get("models"),
        an_object(chat.get("params")),
        time_of(document.get("created_at"), chat.get("timestamp")),
    )
    messages: list[dict[str, Any]] = []
    for own, parent in bridged(parents, others).items():
        messages += _turn(own, parent, rows[own])
    prompts = [params.get("system"), chat.get("system")]
    prompts += [text_in(rows[own].get("content")) for own in others if rows[own].get("role") == "system"]
    return {
        "title": a_text(document.get("title")) or a_text(chat.get("title")),
        "model": next(filter(a_text, models if isinstance(models, list) else ()), ""),
        "created_at": began,
        "system_prompt": next((prompt for prompt in prompts if isinstance(prompt, str) and prompt.strip()), ""),
        "metadata": {"open_webui": {"id": document.get("id"), "current": history.get("currentId")}},
        "messages": messages,
        "notes": {"messages of other roles: bridged": len(others)} if others else {},
    }


def _turn(own: str, parent: str | None, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = text_in(row.get("content"))
    pieces = list(_of_output(own, row))
    if not any(kind == "text" for kind, _ in pieces):
        found = list(_of_content(own, content))
        pieces = [*pieces, *(piece for piece in found if piece[0] == "text")] if pieces else found
    sources = [{key: one[key] for key in one if key != "document"} for one in objects(row.get("sources"))]
    kept = {"sources": sources, "error": row.get("error"), "modelIdx": row.get("modelIdx")}
    files = [
        file_of(
            "image" if one.get("type") == "image" else kind_of(one.get("content_type")),
            one.get("name"),
            one.get("content_type"),
            one.get("url"),
        )
        for one in objects(row.get("files"))
    ]
    message = {
        "role": row["role"],
        "created_at": time_of(row.get("timestamp")),
        "model": a_text(row.get("model")),
        "attachments": files,
        "usage": dict(an_object(row.get("usage"))) or None,
        "metadata": {key: value for key, value in kept.items() if value not in (None, [], "")},
    }
    return messages_of_turn(own, parent, message, pieces)


def _of_output(own: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, item in enumerate(objects(row.get("output")), start=1):
        call_id = an_id(item.get("call_id")) or f"{own}:{number}"
        match item.get("type"):
            case "message":
                yield "text", text_in(item.get("content"))
            case "reasoning":
                yield "reasoning", text_in(item.get("content") or item.get("summary"))
            case "function_call":
                yield "call", a_call(call_id, item.get("name"), item.get("arguments"))
            case "function_call_output":
                yield "result", {"tool_call_id": call_id, "content": text_in(item.get("output"))}


def _of_content(own: str, content: str) -> Iterator[tuple[str, Any]]:
    """Text, and what older replies have in HTML alone."""
    at = 0
    for number, found in enumerate(_DETAILS.finditer(content), start=1):
        yield "text", content[at : found.start()]
        at, (kind, attributes, inner) = found.end(), found.groups()
        if kind == "reasoning":
            lines = html.unescape(_SUMMARY.sub("", inner)).strip().splitlines()
            yield "reasoning", joined((line.removeprefix(">").strip() for line in lines), "\n")
            continue
        given = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
        call_id = given.get("id") or f"{own}:{number}"
        yield "call", a_call(call_id, given.get("name"), _plain(given.get("arguments", "{}")))
        if "result" in given:
            yield "result", {"tool_call_id": call_id, "content": _plain(given["result"])}
    yield "text", content[at:]


def _plain(value: str) -> str:
    """JSON of a text is that text."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, str) else value
