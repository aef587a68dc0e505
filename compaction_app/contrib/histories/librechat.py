"""LibreChat's export of a conversation: ``messages`` with ``parentMessageId``, or nested in ``children``.

A reply has its calls with their results as parts of its ``content``; here each is a message.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from compaction_app.contrib.histories.reading import (
    Json,
    Rows,
    a_call,
    bridged,
    file_of,
    is_address,
    messages_of_turn,
    repeats,
)

_NO_PARENT = "00000000-0000-0000-0000-000000000000"
#: Parts that have a place in our messages; any other stays in the metadata.
_KNOWN = ("text", "think", "tool_call", "image_url", "image_file")


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    key = "messagesTree" if document.given.get("messagesTree") else "messages"
    roots = document.rows(key)
    is_known = "conversationId" in document and not any("role" in row for row in roots)
    if not is_known and not any("isCreatedByUser" in row for row in roots):
        return None
    document.require("messages", list)
    rows, messages, last = Rows(), [], None
    is_tree = any(row.id("parentMessageId") or row.given.get("children") for row in roots)
    waiting: list[tuple[Json, str | None]] = [(row, None) for row in reversed(roots)]
    while waiting:
        row, above = waiting.pop()
        parent = above or (row.id("parentMessageId") if is_tree else last)
        own = last = rows.place(row, row.id("messageId"), None if parent == _NO_PARENT else parent)
        waiting += [(child, own) for child in reversed(row.rows("children"))]
    failed = [own for own, row in rows.placed.items() if row.get("error") or _has_failed(row)]
    rows.notes["errors of the provider, bridged"] += len(failed)
    conversation = document.id("conversationId") or ""
    for own, parent in bridged(rows.parents, failed):
        made = _turn(own, parent, row := rows.placed[own])
        rows.add(row, made[-1]["role"], made, own, conversation, rows.parents[own] or _NO_PARENT)
        messages += made
    options = document.inner("options")
    return {
        **document.named("librechat", "conversationId"),
        "title": document.text("title"),
        "model": options.text("model"),
        "created_at": document.time("createdAt"),
        "system_prompt": options.text("promptPrefix", "system", "instructions"),
        "metadata": {"librechat": {"id": document.get("conversationId")} | document.rest() | options.rest()},
        "messages": messages,
        "notes": rows.done(document),
    }


def _has_failed(row: Json) -> bool:
    kinds = {part.text("type") for part in row.inners("content")}
    return kinds == {"error"} and not row.text("text")


def _turn(own: str, parent: str | None, row: Json) -> list[dict[str, Any]]:
    parts = row.inners("content")
    pieces = list(_pieces(own, parts))
    if not any(kind == "text" for kind, _ in pieces):
        # Beside parts it repeats their texts. An older one may begin with what was thought.
        text = row.text("text")
        if text.startswith(":::thinking\n"):
            thought, _end, text = text.partition("\n")[2].partition("\n:::")
            pieces.append(("reasoning", thought))
        pieces.append(("text", text.lstrip("\n")))
    elif repeats(str(row.given.get("text")), pieces):
        row.get("text")
    others = [part.whole() for part in parts if part.get("type") not in _KNOWN]
    is_user = row.get("isCreatedByUser") if "isCreatedByUser" in row else row.get("sender") == "User"
    message = {
        "role": "user" if is_user else "assistant",
        "created_at": row.time("createdAt"),
        "model": row.text("model"),
        "finish_reason": row.text("finish_reason"),
        "attachments": [*_files(row), *(_image(part) for part in parts if part.get("type") in _KNOWN[3:])],
        "metadata": row.kept("unfinished", "feedback") | ({"parts": others} if others else {}),
    }
    return messages_of_turn(own, parent, message, pieces)


def _pieces(own: str, parts: list[Json]) -> Iterator[tuple[str, Any]]:
    """The results of calls stand behind all the calls that were made at once."""
    results: list[dict[str, Any]] = []
    for number, part in enumerate(parts, start=1):
        kind, call = part.get("type"), part.inner("tool_call")
        if kind != "tool_call":
            yield from (("result", result) for result in results)
            results = []
        if kind == "text":
            yield "text", part.text("text") or part.inner("text").text("value")
        elif kind == "think":
            yield "reasoning", part.text("think")
        elif kind == "tool_call":
            function, call_id = call.inner("function"), call.id("id") or f"{own}:{number}"
            arguments = next(
                (one.get(key) for one in (call, function) for key in ("args", "arguments") if key in one), ""
            )
            yield "call", a_call(call_id, call.text("name") or function.text("name"), arguments)
            if (told := call if call.given.get("output") is not None else function).given.get("output") is not None:
                results.append({"tool_call_id": call_id, "content": told.said("output")})
    yield from (("result", result) for result in results)


def _image(part: Json) -> dict[str, Any]:
    kind = part.text("type")
    image = part.inner(kind)
    url, asset = image.text("url") or part.text(kind), image.text("file_id")
    return file_of(image.text("filename") or asset, url=url, kind="image", asset=asset)


def _files(row: Json) -> list[dict[str, Any]]:
    made = []
    for one in (*row.inners("files"), *row.inners("attachments")):
        asset = one.text("file_id")
        # A path on their server that stands beside an id is counted.
        url = one.text("filepath") if not asset or is_address(one.given.get("filepath")) else ""
        if name := one.text("filename") or asset:
            made.append(file_of(name, one.text("type"), url, asset=asset))
    return made
