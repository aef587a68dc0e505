"""ChatGPT's export: ``mapping`` is id → {parent, children, message}, and ``current_node`` the leaf that was shown.

Much of it is no message: placeholders, hidden system messages, custom instructions, thoughts. These are bridged; the
instructions become the system prompt, and thoughts the reasoning of the first reply below them, once. A call is a
message to another ``recipient``, and its result the next one of the role ``tool``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from compaction_app.contrib.histories.reading import Json, Rows, a_call, bridged, file_of, joined
from compaction_app.messages.openai_format import parse_arguments
from compaction_app.transfer.formats import read_moment
from compaction_app.values import MessageFields

#: Citations, and names that the page shows as cards: of these the name stays.
_CITED = re.compile(
    r'\ue200entity\ue202\["[^"\ue200\ue201]*","([^"\ue200\ue201]*)"[^\ue200\ue201]*\ue201'
    r"|\ue200[^\ue200\ue201]*\ue201|【[^【】†]*†[^【】]*】"
)
_CONTEXT, _THOUGHTS = "user_editable_context", ("thoughts", "reasoning_recap")
#: In the metadata of what we write: the keys of our message for which ChatGPT has no place.
_OWN, _PART_OF = "openai", "part_of"
_ITS_KEYS = ("content", "original", "model", "external_id", "created_at")
_OWN_KEYS = [*(key for key in MessageFields.__annotations__ if key not in _ITS_KEYS), "redacted_at", "pinned"]
#: Calls that a result looks at for one of its tool.
_FAR = 100

#: Calls that wait for a result, the nearest first: its id, its tool, and the others.
_Open = tuple[str, str, Any] | None


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    document = Json(given)
    is_shell = "conversation_id" in document and "create_time" in document and "messages" not in document
    if "mapping" not in document and not is_shell:
        return None
    document.require("mapping", dict)
    nodes = {own: Json(node) for own, node in (document.get("mapping") or {}).items() if isinstance(node, Mapping)}
    rows = Rows()
    parents = _parents(nodes, rows.notes)
    kept, skipped, prompts = _sorted_out(nodes, parents, rows)
    messages: dict[str, dict[str, Any]] = {}
    waiting: dict[str | None, _Open] = {}
    for own, parent in bridged({own: parents[own] for own in (*kept, *skipped)}, skipped):
        item, above, calls = _message(own, kept[own], rows.notes), parent, waiting.get(parent)
        if item["role"] == "tool":
            call_id, calls = _answered(item, calls)
            if not call_id:
                # Its call is hidden, or has a result already.
                call_id, call = f"{own}:call", {"role": "assistant", "created_at": item["created_at"]}
                call["tool_calls"] = [a_call(call_id, item["name"], {})]
                messages[call_id] = {**call, "id": call_id, "parent": above}
                above = call_id
            item["tool_call_id"], waiting[own] = call_id, calls
        elif item["role"] == "assistant":
            thoughts: list[str] = []
            at = parents[own]
            while at in skipped:
                # Each is of one reply: what is below is of any number of them.
                thoughts.append(skipped.pop(at))
                at = parents[at]
            item.setdefault("reasoning", joined(reversed(thoughts)))
            for call in item.get("tool_calls") or ():
                waiting[own] = calls = (call["id"], call["function"]["name"], calls)
        messages[own] = {**item, "id": own, "parent": above}
        rows.add(nodes[own], item["role"], [item], own, item["model"])
    rows.notes["thoughts without a reply, left out"] += sum(map(bool, skipped.values()))
    slug, ours = document.text("default_model_slug"), document.inner(_OWN)
    return {
        **document.named("chatgpt", "conversation_id", "id"),
        "title": document.text("title"),
        "model": "" if slug == "auto" else slug,
        "created_at": document.time("create_time", "update_time"),
        "system_prompt": joined(prompts),
        "settings": ours.get("settings"),
        "metadata": {"chatgpt": document.kept("conversation_id") | document.rest()},
        "messages": list(messages.values()),
        "shown": document.given.get("current_node"),
        "notes": rows.done(document),
    }


def _parents(nodes: Mapping[str, Json], notes: Counter[str]) -> dict[str, str | None]:
    """Of each node, from the roots down, children in the order of their parent; rings come last."""
    listed: dict[str, tuple[int, str]] = {}
    for own, node in nodes.items():
        for number, child in enumerate(node.items("children")):
            if isinstance(child, str | int):
                listed.setdefault(str(child), (number, own))
    notes["children that are not in the file"] += sum(child not in nodes for child in listed)
    last = (len(nodes), None)
    parents = {own: node.id("parent") or listed.get(own, last)[1] for own, node in nodes.items()}
    below: dict[str | None, list[str]] = {}
    for own in sorted(nodes, key=lambda own: listed.get(own, last)[0]):
        below.setdefault(parents[own] if parents[own] in nodes else None, []).append(own)
    ordered: dict[str, str | None] = {}
    for start in chain(below.get(None, ()), nodes):
        waiting = [start]
        while waiting:
            if (own := waiting.pop()) not in ordered:
                ordered[own] = parents[own]
                waiting.extend(reversed(below.get(own, ())))
    return ordered


def _sorted_out(
    nodes: Mapping[str, Json], parents: Mapping[str, str | None], rows: Rows
) -> tuple[dict[str, Json], dict[str, str], list[str]]:
    """The messages; what is none, with what was thought there; and what becomes the system prompt."""
    kept: dict[str, Json] = {}
    skipped: dict[str, str] = {}
    prompts: list[str] = []
    for own, parent in parents.items():
        message = nodes[own].inner("message")
        content, metadata, thought, unsaid = message.inner("content"), message.inner("metadata"), "", ""
        kind, text, role = content.text("content_type"), _text(content), _role(message)
        is_hidden = bool(metadata.get("is_visually_hidden_from_conversation"))
        if not message or _PART_OF in metadata.inner(_OWN):
            pass
        elif _OWN in metadata:
            kept[own] = message
            continue
        elif kind == _CONTEXT or metadata.get("is_user_system_message"):
            about = metadata.inner("user_context_message_data")
            prompts.append(content.text("user_profile") or about.text("about_user_message"))
            prompts.append(content.text("user_instructions") or about.text("about_model_message"))
        elif kind in _THOUGHTS:
            thought = joined([one.text("content", "summary") for one in content.inners("thoughts")]) or text
        elif role == "system" and not is_hidden and text and (parent is None or parent in skipped):
            prompts.append(text)
        elif is_hidden or role == "system":
            rows.notes["hidden and system messages, bridged"] += 1
            skipped[own] = ""
            continue
        elif not text and not _files(message) and not _recipient(message) and kind != "execution_output":
            is_known = kind in ("text", "multimodal_text", "code", "")
            rows.notes[f"{'empty messages' if is_known else f'messages of the type {kind[:40]}'}, bridged"] += 1
            unsaid = role
        else:
            kept[own] = message
            continue
        rows.add(nodes[own], unsaid, [], own)
        skipped[own] = thought
    return kept, skipped, prompts


def _role(message: Json) -> str:
    role = message.inner("author").text("role")
    return role if role in ("user", "system", "tool") else "assistant"


def _recipient(message: Json) -> str:
    """The tool that an assistant's message calls."""
    recipient = message.text("recipient")
    return recipient if recipient != "all" and _role(message) == "assistant" else ""


def _text(content: Json) -> str:
    if isinstance(content.given.get("parts"), list):
        return content.said("parts", "\n\n")
    return content.text("text", "result", "output_str", "content")


def _files(message: Json) -> list[dict[str, Any]]:
    """Images and sounds of the parts and other attachments, by the names that the metadata has."""
    content, metadata = message.inner("content"), message.inner("metadata")
    attached = {one.id("id") or one.text("name"): one for one in metadata.inners("attachments")}
    plots, files = metadata.inner("aggregate_result").inners("messages"), []
    for part in (*content.inners("parts"), content.inner("screenshot"), *plots):
        pointer = part.text("asset_pointer", "image_url") or part.inner("audio_asset_pointer").text("asset_pointer")
        if pointer:
            name, is_image = pointer.rpartition("/")[2], "image" in part.text("content_type", "message_type")
            known, kind = attached.pop(name, Json(None)), "image" if is_image else "audio"
            mime = known.text("mime_type", "mimeType")
            files.append(file_of(known.text("name") or name, mime, kind=kind, asset=pointer))
    for own, one in attached.items():
        files.append(file_of(one.text("name"), one.text("mime_type", "mimeType"), asset=own))
    return files


def _message(own: str, message: Json, notes: Counter[str]) -> dict[str, Any]:
    metadata, content = message.inner("metadata"), message.inner("content")
    ours, role, text, tool = metadata.inner(_OWN), _role(message), _text(content), _recipient(message)
    if role == "assistant" and not tool:
        text, cut = _CITED.subn(lambda found: found[1] or "", text)
        notes["marks of citations, cut out"] += cut
    cited = [one.inner("metadata") for one in metadata.inners("citations")]
    cited += [item for one in metadata.inners("content_references") for item in one.inners("items")]
    links = [one.whole() for one in cited if one.given.get("url")]
    item: dict[str, Any] = {
        "role": role,
        "content": "" if tool else text,
        "created_at": message.time("create_time"),
        "attachments": _files(message),
        "model": metadata.text("model_slug") if role == "assistant" else "",
    }
    # Where a result was found, and the like; what we wrote has its own.
    about = {} if _OWN in metadata else message.kept("channel") | ({"links": links} if links else {}) | content.rest()
    if tool:
        item["tool_calls"] = [a_call(own, tool, text if parse_arguments(text) is not None else {"code": text})]
    if role == "tool":
        item["name"] = message.inner("author").text("name")
    return item | {"metadata": about} | {key: ours.get(key) for key in (*_OWN_KEYS, "content") if key in ours}


def _answered(item: Mapping[str, Any], calls: _Open) -> tuple[str | None, _Open]:
    """The call that a result answers, the nearest of its tool or else of any, and the calls that are still open."""
    own_id, at = item.get("tool_call_id"), calls
    passed: list[tuple[str, str, Any]] = []
    while at is not None and len(passed) < _FAR:
        if at[0] == own_id if own_id else at[1] == item["name"]:
            left: _Open = at[2]
            for call_id, name, _ in reversed(passed):
                left = (call_id, name, left)
            return at[0], left
        passed.append(at)
        at = at[2]
    if own_id or calls is None:
        return own_id, calls
    return calls[0], calls[2]


# -- writing --------------------------------------------------------------------------------------------


def write(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node for the text of a message and for each call; what has no place there is in the last one's metadata."""
    prompt = document.get("system_prompt") or ""
    instructions = {"content_type": _CONTEXT, "user_profile": "", "user_instructions": prompt}
    hidden = {"is_visually_hidden_from_conversation": True, "is_user_system_message": True}
    root = "client-created-root"
    mapping: dict[str, dict[str, Any]] = {root: {"id": root, "parent": None, "children": [], "message": None}}
    nodes = chain([("instructions", root, _written("user", instructions, None, hidden))], _nodes(document["messages"]))
    for own, parent, message in nodes:
        mapping[own] = {"id": own, "parent": parent, "children": [], "message": {"id": own, **message}}
        mapping[parent]["children"].append(own)
    began = read_moment(document.get("created_at"))
    return {
        "title": document.get("title") or "",
        "create_time": began and began.timestamp(),
        "mapping": mapping,
        "current_node": next(reversed(mapping)),
        "conversation_id": document.get("id"),
        "id": document.get("id"),
        "default_model_slug": document.get("model") or None,
        _OWN: {"settings": document.get("settings")},
    }


def _written(
    role: str, content: Any, at: Any, metadata: Any, name: Any = None, recipient: str = "all"
) -> dict[str, Any]:
    return {
        "author": {"role": role, "name": name, "metadata": {}},
        "create_time": at and at.timestamp(),
        "content": content,
        "status": "finished_successfully",
        "weight": 1.0,
        "metadata": metadata,
        "recipient": recipient,
    }


def _nodes(messages: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for item in messages:
        own, parent, at = str(item["id"]), str(item["parent"] or "instructions"), read_moment(item.get("created_at"))
        calls, text = item.get("tool_calls") or [], item.get("content") or ""
        attached, parts = [], []
        for number, one in enumerate(item.get("attachments") or (), start=1):
            file_id = f"file-{own}-{number}"
            attached.append({"id": file_id, "name": one.get("name"), "mime_type": one.get("mime_type")})
            if one.get("type") == "image":
                parts.append({"content_type": "image_asset_pointer", "asset_pointer": f"file-service://{file_id}"})
        contents: list[tuple[dict[str, Any], str]] = []
        if text or parts or not calls:
            contents.append(({"content_type": "multimodal_text" if parts else "text", "parts": [*parts, text]}, "all"))
        for function in (call["function"] for call in calls):
            code = {"content_type": "code", "language": "json", "text": function.get("arguments") or ""}
            contents.append((code, function["name"]))
        ours = {key: item[key] for key in _OWN_KEYS if item.get(key)} | ({"content": text} if calls else {})
        for number, (content, recipient) in enumerate(contents, start=1):
            metadata = {"attachments": attached, "model_slug": item.get("model") or None}
            is_last = number == len(contents)
            node = own if is_last else f"{own}-{number}"
            metadata[_OWN] = ours if is_last else {_PART_OF: own}
            yield node, parent, _written(item["role"], content, at, metadata, item.get("name"), recipient)
            parent = node
