"""OpenAI's Agents SDK: a session that is a branch.

    session = TreeSession(chat_session, tip)
    result = await Runner.run(agent, "Hello", session=session, run_config=session.run_config())

The SDK reads a session once, when a run begins. ``run_config`` has an input filter beside it, so that each request of
the run is what the tree shows then: redacted, pruned and within the window. Items are stored as they came and go back
unchanged, reasoning and hosted tools among them, to Responses as to Chat Completions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asgiref.sync import sync_to_async

from compaction_app.contrib import INSTALL

try:
    from agents import FunctionTool, ModelRetrySettings, ModelSettings, RunConfig, retry_policies
except ImportError as error:
    raise ImportError(INSTALL.format("openai-agents")) from error
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from agents.models.default_models import get_default_model
from agents.retry import RetryDecision, RetryPolicyContext
from agents.run_config import CallModelData, ModelInputData
from agents.usage import RequestUsage

from compaction_app import chat
from compaction_app.contrib.branch import NEWEST, FrameworkBranch, redacted, refuse_blocked_thread, tool_schema, unknown
from compaction_app.messages.openai_format import content_with_attachments, sent_arguments
from compaction_app.messages.originals import RESPONSES
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.database import locked
from compaction_app.tree.branches import load_path
from compaction_app.values import ContextMessage, Origin, Role

Item = dict[str, Any]

#: Of an item, what the SDK and providers change on the way.
_UNSTABLE = frozenset({"id", "status", "provider_data", "created_by", "_agents_tool_description", "_agents_tool_title"})


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

        ``model``: its name, by default the agent's; ``reserved_tokens``: as of ``get_context``.
        ``session_settings.limit``: only so many of the newest items are sent, and no summary.
        """
        self.branch = FrameworkBranch(session, tip, model=model, reserved_tokens=reserved_tokens)
        self.session_id = session.external_id or str(session.pk)
        self.session_settings = session_settings
        #: What the SDK goes on with: what a run read when it began, and what was added since. None: another object's
        #: run began, and is resumed here.
        self._known: list[Any] | None = None
        #: A run has begun, and its input was not added yet: a streamed one is asked first. What is stored of it.
        self._is_begun = False
        self._early: list[str] = []
        #: Of the run of now: its options, the usage of each request; of the last request: how many were before it, what
        #: fits it once more, its agent's own retries.
        self._run: Mapping[str, Any] = {}
        self._counted: list[RequestUsage] = []
        self._requests = 0
        self._fit_again: Callable[[], Any] | None = None
        self._retry: ModelRetrySettings | None = None

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return self.branch.tip

    def run_config(self, model_settings: ModelSettings | None = None, **options: Any) -> RunConfig:
        """A ``RunConfig`` of these options whose input filter and policy of retries are this session's."""
        self._run = options
        # As many as an agent's own policy may want.
        own = ModelSettings(retry=ModelRetrySettings(max_retries=10, policy=self.retry))
        return RunConfig(call_model_input_filter=self.fit, model_settings=own.resolve(model_settings), **options)

    async def get_items(self, limit: int | None = None, wrapper: Any = None) -> list[Item]:
        """The items of the context at the tip; with a ``limit`` the newest that are stored.

        With a limit the SDK also looks at the end, when it resumes a run for example, and goes on with what it has.
        """
        refuse_blocked_thread()
        limit = resolve_session_limit(limit, self.session_settings)
        items = await sync_to_async(self._items)(limit)
        if wrapper is not None and limit is None:
            self._known, self._is_begun, self._early = [*items], True, []
        self._count(wrapper)
        return items

    async def add_items(self, items: Sequence[Any], wrapper: Any = None) -> None:
        self._count(wrapper)
        self._is_begun = False
        await sync_to_async(self._add)(items)

    async def pop_item(self, wrapper: Any = None) -> Item | None:
        """Take the last item off this branch; its message is deleted where no other branch has it."""
        item = await sync_to_async(self._pop)()
        if item and self._known:
            self._known = unknown(self._known[::-1], Counter([_key(item)]), _key)[::-1]
        return item

    async def clear_session(self, wrapper: Any = None) -> None:
        """Begin anew. What no other branch shares is deleted."""
        await sync_to_async(self.branch.clear)()
        self._known, self._early = [], []

    async def run_compaction(self, args: Mapping[str, Any] | None = None, wrapper: Any = None) -> None:
        """Ask for a compaction in the background; with ``force`` it is waited for, as ``chat.acompact`` does."""
        if not (args or {}).get("force"):
            await sync_to_async(self.branch.compact)()
        else:
            await sync_to_async(self.branch.begin)()
            if self.tip is not None:
                await chat.acompact(self.tip)

    async def fit(self, data: CallModelData[Any]) -> ModelInputData:
        """An input filter: the context at the tip, as it is now, is sent, with the input of a run that begins stored.

        Where the run's own list is another one, since a handoff or a callback changed it for example, that is sent,
        redacted as the context is.
        """
        given = list(map(_plain, data.model_data.input))
        sent = ModelInputData(input=given, instructions=None)
        self._fit_again, self._retry = None, data.agent.model_settings.retry
        settings = SessionSettings().resolve(self.session_settings).resolve(self._run.get("session_settings"))
        functions = [one for one in data.agent.tools if isinstance(one, FunctionTool)]
        tools = [tool_schema(one.name, one.description, one.params_json_schema) for one in functions]
        asked = self._run.get("model") or data.agent.model or get_default_model()
        model = asked if isinstance(asked, str) else getattr(asked, "model", None)
        url = getattr(getattr(asked, "_client", None), "base_url", None)

        def show() -> list[ContextMessage]:
            self._requests = len(self._counted)
            shown = self.branch.show(sent.instructions or "", model=model, url=url, tools=tools)
            items = _answered(items_of(shown))
            is_same = Counter(map(_key, items)) == Counter(map(_key, given))
            sent.input = redacted(given) if is_same else items
            return shown

        def is_the_context() -> bool:
            if self._known is None:
                self.branch.begin()
                own = _answered(items_of([one for one in show() if one.origin != Origin.SUMMARY]))
                marks = Counter(map(_mark, given))
                is_same = bool(own) and _mark(given[-1]) in map(_mark, own) and Counter(map(_mark, own)) <= marks
                self._known = [*given] if is_same else None
                return is_same
            known = Counter(map(_key, _answered(self._known)))
            before = set(known)
            new = unknown(given, known, _key)
            # What a callback repeats is not added.
            is_repeated = "session_input_callback" in self._run and not before.isdisjoint(map(_key, new))
            if known.total() or (new and (is_repeated or not self._is_begun)):
                return False
            if new:
                self._add(new)
                # The SDK adds them when its request is on the way.
                self._early += map(_key, new)
            show()
            return True

        def fit_now() -> None:
            sent.instructions = redacted(data.model_data.instructions)
            if settings.limit is None and is_the_context():
                self._fit_again = show
            else:
                sent.input = redacted(given)
            self._is_begun = False

        await sync_to_async(fit_now)()
        return sent

    async def retry(self, failed: RetryPolicyContext) -> Any:
        """A policy of retries: a prompt that was too long is sent once more, fitted; else the agent's own decides."""
        again, own = self._fit_again, self._retry
        is_fitted = again and failed.attempt == 1 and await sync_to_async(self.branch.is_too_long)(failed.error)
        policy = own.policy if own and failed.attempt <= (own.max_retries or 0) else None
        if again and (is_fitted or policy):
            # Without what was erased meanwhile.
            await sync_to_async(again)()
        if is_fitted:
            return RetryDecision(retry=True, delay=0)
        return await retry_policies.any(policy)(failed) if policy else False

    def _count(self, wrapper: Any) -> None:
        """The requests of this run. Those that a resumed one has were before."""
        if wrapper is not None and wrapper.usage.request_usage_entries is not self._counted:
            self._counted = wrapper.usage.request_usage_entries
            self._requests = len(self._counted)

    def _items(self, limit: int | None) -> list[Item]:
        self.branch.begin()
        if limit is None:
            return items_of(self.branch.show())
        if (tip := self.tip) is None or limit <= 0:
            return []
        # Each message has one item at least.
        newest = items_of(load_path(tip.pk, tip, max(1, tip.depth - limit + 1)))
        return list(redacted(newest[-limit:]))

    def _add(self, items: Sequence[Any]) -> None:
        early = Counter(self._early)
        new = unknown(items, early, _key)
        self._early = list(early.elements())
        # Those of agents that are tools of this one come after it, and a request that failed has none.
        used = next((one for one in self._counted[self._requests :] if one.total_tokens), None)
        usage = used and {"prompt_tokens": used.input_tokens, "completion_tokens": used.output_tokens}
        self.branch.store([_as_stored(item) for item in new], usage=usage)
        if self._known is not None:
            self._known += new
        # A model that asks for a tool is asked again at once.
        if self.tip and self.tip.role == Role.ASSISTANT and not self.tip.tool_calls:
            self.branch.compact()

    def _pop(self) -> Item | None:
        branch = self.branch
        # First the lock: what is erased meanwhile must not be stored again.
        with locked(branch.session):
            branch.begin()
            if (tip := branch.tip) is None:
                return None
            *kept, item = items_of(load_path(tip.pk, tip, tip.depth))
            branch.take_off()
            # A message is never changed: what is left of it is another one.
            branch.store(kept)
        return item


def items_of(messages: Sequence[ContextMessage]) -> list[Item]:
    """Responses items: as they came, where that was kept and nothing was left out, else made of the fields."""
    items: list[Item] = []
    custom: set[str] = set()
    for message in messages:
        custom.update(str(call["id"]) for call in message.tool_calls if call.get("type") == "custom")
        original = message.original
        if isinstance(original, Mapping) and original.get("format") == RESPONSES:
            data = original["data"]
            items += [{"role": message.role, "content": data}] if all(map(_is_part, data)) else map(dict, data)
            continue
        if message.role == Role.TOOL:
            kind = "custom_tool_call_output" if message.tool_call_id in custom else "function_call_output"
            items.append({"type": kind, "call_id": message.tool_call_id, "output": message.content})
            continue
        if (content := content_with_attachments(message)) or message.role == Role.USER:
            parts = content if isinstance(content, str) else list(map(_input_part, content))
            items.append({"role": str(message.role), "content": parts})
        for call in message.tool_calls:
            function = call.get("function") or {}
            arguments = sent_arguments(str(function.get("arguments", "")))
            named = {"call_id": call["id"], "name": function.get("name", "")}
            items.append({"type": "function_call", **named, "arguments": arguments})
    return items


def _input_part(part: Mapping[str, Any]) -> Item:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    if part["type"] == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail") or "auto"}
    return {"type": "input_file", **part["file"]} if part["type"] == "file" else dict(part)


def _is_part(item: Mapping[str, Any]) -> bool:
    """A part of a message's content, and no item."""
    kind = str(item.get("type"))
    return kind.startswith("input_") or kind in ("output_text", "refusal", "text")


def _answered(items: Sequence[Any]) -> list[Any]:
    """Without the calls that have no result, and the reasoning before them: the SDK sends none of them."""
    results = {(str(one.get("type")), one.get("call_id")) for one in map(_plain, items)}
    kept: list[Any] = []
    for item in items:
        kind, call_id = str(_plain(item).get("type")), _plain(item).get("call_id")
        outputs = {(f"{kind}_output", call_id), (f"{kind.removesuffix('_call')}_output", call_id)}
        if not call_id or not kind.endswith("_call") or outputs & results:
            kept.append(item)
        else:
            while kept and _plain(kept[-1]).get("type") == "reasoning":
                kept.pop()
    return kept


def _mark(item: Any) -> tuple[Any, ...]:
    """What an item is known by where its words may be others by now: redacted, or left out."""
    plain = _plain(item)
    return plain.get("type", "message"), plain.get("role"), plain.get("call_id")


def _plain(item: Any) -> Item:
    return dict(item) if isinstance(item, Mapping) else dict(item.model_dump(exclude_unset=True))


def _as_stored(item: Any) -> Item:
    """An item whose keys are all kept: without a type it would be read as a message of a chat."""
    given = _plain(item)
    return given if given.keys() <= {"role", "content"} else {"type": "message", **given}


def _key(item: Any) -> str:
    kept = {key: value for key, value in _plain(item).items() if key not in _UNSTABLE}
    return json.dumps({"type": "message", **kept}, sort_keys=True, default=str)
