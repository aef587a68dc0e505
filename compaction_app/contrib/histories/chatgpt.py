"""ChatGPT's export: ``mapping`` is id → {parent, children, message}, and ``current_node`` the leaf that was shown.

Much of it is no message: placeholders, hidden system messages, custom instructions, thoughts. These are bridged; the
instructions become the system prompt, and thoughts the reasoning of the reply below them. A call is a message to
another ``recipient``, and its result the next one of the role ``tool``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
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
    objects,
    time_of,
)
from compaction_app.transfer.formats import moment

#: Citations, and names that the page shows as cards: of these the name stays.
_CITED = re.compile(
    r'\ue200entity\ue202\["[^"\ue200\ue201]*","([^"\ue200\ue201]*)"[^\ue200\ue201]*\ue201'
    r"|\ue200[^\ue200\ue201]*\ue201|【[^【】†]*†[^【】]*】"
)
_CONTEXT, _THOUGHTS = "user_editable_context", ("thoughts", "reasoning_recap")
#: Where contents without parts have their text.
_TEXTS = ("text", "result", "output_str", "content")
#: In the metadata of what we write: the keys of our message for which ChatGPT has no place.
_OWN, _PART_OF = "openai", "part_of"
_OWN_KEYS = ("tool_calls", "tool_call_id", "name", "reasoning", "attachments", "usage", "finish_reason", "metadata")


def read(document: Mapping[str, Any]) -> dict[str, Any] | None:
    if "mapping" not in document and not ("conversation_id" in document and "create_time" in document):
        return None
    mapping = an_object(document.get("mapping"), required=True)
    nodes = {own: node for own, node in mapping.items() if isinstance(node, Mapping)}
    notes: Counter[str] = Counter()
    parents = _parents(nodes)
    kept, skipped, thoughts, prompts = _sorted_out(nodes, parents, notes)
    messages: dict[str, dict[str, Any]] = {}
    for own, parent in bridged({own: parents[own] for own in (*kept, *skipped)}, skipped).items():
        item = _message(own, kept[own])
        if item["role"] == "tool":
            item.setdefault("tool_call_id", _call_above(item, parent, messages) or own)
        elif item["role"] == "assistant":
            reasons, above, seen = [], parents[own], set()
            while above in skipped and above not in seen:
                seen.add(above)
                reasons.append(thoughts.get(above, ""))
                above = parents[above]
            item.setdefault("reasoning", joined(reversed(reasons)))
        messages[own] = {**item, "id": own, "parent": parent}
    slug = a_text(document.get("default_model_slug"))
    about = {"id": document.get("conversation_id") or document.get("id"), "current": document.get("current_node")}
    return {
        "title": a_text(document.get("title")),
        "model": "" if slug == "auto" else slug,
        "created_at": time_of(document.get("create_time"), document.get("update_time")),
        "system_prompt": joined(prompts),
        "metadata": {"chatgpt": about},
        "messages": list(messages.values()),
        "notes": notes,
    }


def _parents(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Of each node, from the roots down, children in the order of their parent; rings come last."""
    listed: dict[str, tuple[int, str]] = {}
    for own, node in nodes.items():
        children = node.get("children")
        for number, child in enumerate(children if isinstance(children, list) else ()):
            listed.setdefault(str(child), (number, own))
    last = (len(nodes), "")
    parents = {own: an_id(node.get("parent")) or listed.get(own, (0, None))[1] for own, node in nodes.items()}
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
    nodes: Mapping[str, Mapping[str, Any]], parents: Mapping[str, str | None], notes: Counter[str]
) -> tuple[dict[str, Mapping[str, Any]], set[str], dict[str, str], list[Any]]:
    """The messages, what is none, the thoughts among these, and what becomes the system prompt."""
    kept: dict[str, Mapping[str, Any]] = {}
    skipped: set[str] = set()
    thoughts: dict[str, str] = {}
    prompts: list[Any] = []
    for own, parent in parents.items():
        message = an_object(nodes[own].get("message"))
        content, metadata = an_object(message.get("content")), an_object(message.get("metadata"))
        kind, text = content.get("content_type"), _text(content)
        is_hidden = bool(metadata.get("is_visually_hidden_from_conversation")) or message.get("weight") == 0
        if _OWN in metadata and _PART_OF not in an_object(metadata[_OWN]):
            kept[own] = message
            continue
        if not message or _OWN in metadata:
            pass
        elif kind == _CONTEXT or metadata.get("is_user_system_message"):
            about = an_object(metadata.get("user_context_message_data"))
            profile = content.get("user_profile") or about.get("about_user_message")
            prompts += [profile, content.get("user_instructions") or about.get("about_model_message")]
        elif kind in _THOUGHTS:
            said = [
                a_text(one.get("content")) or a_text(one.get("summary")) for one in objects(content.get("thoughts"))
            ]
            thoughts[own] = joined(said) or text
        elif _role(message) == "system" and not is_hidden and text and (parent is None or parent in skipped):
            prompts.append(text)
        elif is_hidden or _role(message) == "system":
            notes["hidden and system messages: bridged"] += 1
        elif not text and not _files(message) and not _recipient(message):
            notes["empty messages: bridged"] += 1
        else:
            kept[own] = message
            continue
        skipped.add(own)
    return kept, skipped, thoughts, prompts


def _role(message: Mapping[str, Any]) -> str:
    role = a_text(an_object(message.get("author")).get("role"))
    return role if role in ("user", "system", "tool") else "assistant"


def _recipient(message: Mapping[str, Any]) -> str:
    """The tool that an assistant's message calls."""
    recipient = a_text(message.get("recipient"))
    return recipient if recipient != "all" and _role(message) == "assistant" else ""


def _text(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if isinstance(parts, list):
        return joined(part if isinstance(part, str) else an_object(part).get("text") for part in parts)
    return next(filter(None, (a_text(content.get(key)) for key in _TEXTS)), "")


def _files(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images and sounds of the parts and other attachments, by the names that the metadata has."""
    attached = objects(an_object(message.get("metadata")).get("attachments"))
    named = {an_id(one.get("id")) or a_text(one.get("name")): one for one in attached}
    files = []
    for part in objects(an_object(message.get("content")).get("parts")):
        kind = "image" if "image" in a_text(part.get("content_type")) else "audio"
        pointer = a_text(part.get("asset_pointer") or an_object(part.get("audio_asset_pointer")).get("asset_pointer"))
        if pointer:
            name = pointer.rpartition("/")[2]
            known = named.pop(name, {})
            files.append(file_of(kind, known.get("name") or name, known.get("mime_type"), pointer))
    for one in named.values():
        mime = one.get("mime_type") or one.get("mimeType")
        files.append(file_of(kind_of(mime), one.get("name"), mime))
    return files


def _message(own: str, message: Mapping[str, Any]) -> dict[str, Any]:
    content, metadata = an_object(message.get("content")), an_object(message.get("metadata"))
    role, text, tool = _role(message), _text(content), _recipient(message)
    if role == "assistant" and not tool:
        text = _CITED.sub(lambda found: found[1] or "", text)
    cited = [an_object(one.get("metadata")) for one in objects(metadata.get("citations"))]
    cited += [item for one in objects(metadata.get("content_references")) for item in objects(one.get("items"))]
    about = {"channel": message.get("channel"), "links": [one for one in cited if one.get("url")]}
    item: dict[str, Any] = {
        "role": role,
        "content": "" if tool else text,
        "created_at": time_of(message.get("create_time")),
        "attachments": _files(message),
        "model": a_text(metadata.get("model_slug")) if role == "assistant" else "",
        "metadata": {key: value for key, value in about.items() if value},
    }
    if tool:
        item["tool_calls"] = [a_call(own, tool, text if _is_object(text) else {"code": text})]
    if role == "tool":
        item["name"] = a_text(an_object(message.get("author")).get("name"))
    ours = an_object(metadata.get(_OWN))
    return item | {key: ours[key] for key in (*_OWN_KEYS, "content") if key in ours}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _call_above(item: Mapping[str, Any], at: str | None, messages: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The nearest call that this result may answer: of its tool, and not answered between; else of any tool."""
    answered, other = set(), None
    while (above := messages.get(at or "")) is not None and (above["role"] == "tool" or above.get("tool_calls")):
        answered.add(above.get("tool_call_id"))
        for call in above.get("tool_calls") or ():
            if call["id"] not in answered:
                if call["function"]["name"] == item["name"]:
                    return str(call["id"])
                other = other or str(call["id"])
        at = above["parent"]
    return other


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
    began = moment(document.get("created_at"))
    return {
        "title": document.get("title") or "",
        "create_time": began and began.timestamp(),
        "mapping": mapping,
        "current_node": next(reversed(mapping)),
        "conversation_id": document.get("id"),
        "id": document.get("id"),
        "default_model_slug": document.get("model") or None,
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
        own, parent, at = str(item["id"]), str(item["parent"] or "instructions"), moment(item.get("created_at"))
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
