"""OpenAI's Agents SDK: a session that is a branch.

    session = TreeSession(chat_session, tip)
    result = await Runner.run(agent, "Hello", session=session, run_config=session.run_config())

The SDK reads a session once, when a run begins. ``run_config`` has an input filter beside it, so that each request of
the run is what the tree shows then: redacted, pruned and within the window. Items are stored as they came and go back
unchanged, reasoning and hosted tools among them, to Responses as to Chat Completions. ``pop_item`` and
``clear_session`` take nothing from another branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agents import FunctionTool, RunConfig
from agents.memory import SessionSettings
from agents.run_config import CallModelData, ModelInputData
from asgiref.sync import sync_to_async
from django.db import transaction

from compaction_app import chat
from compaction_app.contrib.branch import NEWEST, FrameworkBranch
from compaction_app.messages.openai_format import content_with_attachments, sent_arguments
from compaction_app.messages.originals import RESPONSES
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.managers import lock_session
from compaction_app.tree.branches import load_path, path_ids
from compaction_app.values import ContextMessage, Role

Item = dict[str, Any]

#: Of an item, what the SDK and providers change on the way.
_UNSTABLE = frozenset({"id", "status", "provider_data"})


class TreeSession:
    """The SDK's ``Session`` of a branch."""

    def __init__(
        self,
        session: ChatSession,
        tip: ChatMessage | None = NEWEST,
        *,
        model: str | None = None,
        reserved_tokens: int | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """``tip``: where the run goes on, by default at the end of the branch that was used last.

        ``model`` and ``reserved_tokens``: as of ``get_context``. ``session_settings.limit``: only so many of the newest
        items are sent, and no summary.
        """
        self.branch = FrameworkBranch(session, tip, model=model, reserved_tokens=reserved_tokens)
        self.session_id = session.external_id or str(session.pk)
        self.session_settings = session_settings
        #: What the SDK has of this session, from the last reading on.
        self._known: list[Any] = []
        #: Of that, what is stored and will be added once more.
        self._early: list[str] = []

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return self.branch.tip

    def run_config(self, **options: Any) -> RunConfig:
        """A ``RunConfig`` of these options whose input filter is this session's."""
        return RunConfig(call_model_input_filter=self.fit, **options)

    async def get_items(self, limit: int | None = None, wrapper: Any = None) -> list[Item]:
        """The items of the context at the tip; with a ``limit`` the newest that are stored."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await sync_to_async(self._newest)(limit)
        self._known = [*items]
        return items

    async def add_items(self, items: Sequence[Any], wrapper: Any = None) -> None:
        await sync_to_async(self._add)(list(items))

    async def pop_item(self, wrapper: Any = None) -> Item | None:
        """Take the last item off this branch; its message is deleted where no other branch has it."""
        return await sync_to_async(self._pop)()

    async def clear_session(self, wrapper: Any = None) -> None:
        """Begin anew. What no other branch shares is deleted."""
        await sync_to_async(self._clear)()
        self._known, self._early = [], []

    async def run_compaction(self, args: Mapping[str, Any] | None = None, wrapper: Any = None) -> None:
        """Ask for a compaction in the background; with ``force`` it is waited for, as :func:`chat.acompact` does."""
        if not (args or {}).get("force"):
            await sync_to_async(self.branch.compact)()
        elif tip := await sync_to_async(lambda: self.tip)():
            await chat.acompact(tip)

    async def fit(self, data: CallModelData[Any]) -> ModelInputData:
        """An input filter: what is new in the run is stored, and the context at the tip, as it is now, is sent.

        So redaction, pruning and the window are those of the app for each request. Where a handoff or a callback took
        something out, the run's own list is sent.
        """
        given, instructions = data.model_data.input, data.model_data.instructions
        known = Counter(map(_key, self._known))
        new = _without(given, known)
        limit = self.session_settings and self.session_settings.limit
        if known.total() or limit is not None:
            return ModelInputData(input=given, instructions=instructions)
        tools = [
            {"name": one.name, "description": one.description, "parameters": one.params_json_schema}
            for one in data.agent.tools
            if isinstance(one, FunctionTool)
        ]
        shown = await sync_to_async(self._store_and_show)(new, instructions or "", tools)
        return ModelInputData(input=shown, instructions=instructions)

    def _store_and_show(self, new: list[Any], instructions: str, tools: list[Item]) -> list[Item]:
        self._add(new)
        # The SDK adds them when the turn ends.
        self._early += map(_key, new)
        return items_of(self.branch.show(instructions, tools=tools))

    def _newest(self, limit: int | None) -> list[Item]:
        if limit is None:
            return items_of(self.branch.show())
        tip = self.tip
        if tip is None or limit <= 0:
            return []
        # Each message has one item at least.
        return items_of(load_path(tip.pk, self.branch.using, max(1, tip.depth - limit + 1)))[-limit:]

    def _add(self, items: list[Any]) -> None:
        early = Counter(self._early)
        new = _without(items, early)
        self._early = list(early.elements())
        self.branch.store([_as_stored(item) for item in new])
        self._known += new
        # A model that asks for a tool is asked again at once.
        if self.tip and self.tip.role == Role.ASSISTANT and not self.tip.tool_calls:
            self.branch.compact()

    def _pop(self) -> Item | None:
        tip = self.tip
        if tip is None:
            return None
        *kept, item = items_of(load_path(tip.pk, self.branch.using, tip.depth)) or [{}]
        with transaction.atomic(using=self.branch.using):
            lock_session(tip.session_id, self.branch.using)
            self.branch.tip = tip.parent
            if not ChatMessage.objects.using(self.branch.using).messages().filter(parent=tip).exists():
                chat.delete_message(tip)
            if kept:
                # A message is never changed: what is left of it is another one.
                self.branch.store(kept)
        return item

    def _clear(self) -> None:
        tip, using = self.tip, self.branch.using
        if tip is not None:
            with transaction.atomic(using=using):
                lock_session(tip.session_id, using)
                rows = ChatMessage.objects.using(using).messages().filter(session_id=tip.session_id)
                own: int | None = None
                parents = Counter(rows.filter(parent__isnull=False).values_list("parent_message_id", flat=True))
                for place, message_id in enumerate(path_ids(tip.pk, using)):
                    if parents[message_id] > (place > 0):
                        break
                    own = message_id
                if own is not None:
                    chat.delete_message(rows.get(pk=own))
        self.branch.tip = None


def items_of(messages: Sequence[ContextMessage]) -> list[Item]:
    """Responses items: as they came, where that was kept and nothing was left out, else made of the fields."""
    items: list[Item] = []
    custom: set[str] = set()
    for message in messages:
        custom.update(str(call["id"]) for call in message.tool_calls if call.get("type") == "custom")
        original = message.original
        if isinstance(original, Mapping) and original.get("format") == RESPONSES:
            data = original["data"]
            is_parts = message.role != Role.TOOL and not any(
                one.get("type") == "message" or message.role == Role.ASSISTANT for one in data
            )
            items += [{"role": message.role, "content": data}] if is_parts else [dict(one) for one in data]
            continue
        if message.role == Role.TOOL:
            kind = "custom_tool_call_output" if message.tool_call_id in custom else "function_call_output"
            items.append({"type": kind, "call_id": message.tool_call_id, "output": message.content})
            continue
        if content := _content_of(message):
            items.append({"role": str(message.role), "content": content})
        for call in message.tool_calls:
            function = call.get("function") or {}
            arguments = sent_arguments(str(function.get("arguments", "")))
            named = {"call_id": call["id"], "name": function.get("name", "")}
            items.append({"type": "function_call", **named, "arguments": arguments})
    return items


def _content_of(message: ContextMessage) -> Any:
    """The text, or where something is attached the content parts of the chat format in the form of this one."""
    content = content_with_attachments(message) if message.attachments else message.content
    return content if isinstance(content, str) else list(map(_input_part, content))


def _input_part(part: Mapping[str, Any]) -> Item:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    if part["type"] == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail") or "auto"}
    return {"type": "input_file", **part["file"]} if part["type"] == "file" else dict(part)


def _without(items: Sequence[Any], known: Counter[str]) -> list[Any]:
    """The items that are not among the known ones; each that is counts them down."""
    others = []
    for item in items:
        if known[key := _key(item)]:
            known[key] -= 1
        else:
            others.append(item)
    return others


def _plain(item: Any) -> Item:
    return dict(item) if isinstance(item, Mapping) else dict(item.model_dump(exclude_unset=True))


def _as_stored(item: Any) -> Item:
    """An item whose keys are all kept: without a type it would be read as a message of a chat."""
    given = _plain(item)
    return given if given.keys() <= {"role", "content"} else {"type": "message", **given}


def _key(item: Any) -> str:
    kept = {key: value for key, value in _plain(item).items() if key not in _UNSTABLE}
    return json.dumps({"type": "message", **kept}, sort_keys=True, default=str)
