"""LangChain: a middleware of ``create_agent`` that keeps a run's messages in the tree.

    tree = TreeMiddleware(chat_session, tip)
    agent = create_agent(model, tools, middleware=[tree])
    agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})
    tree.tip  # the stored reply

The state has the messages of the turn, or with a checkpointer those of its thread; each request of the run is sent the
context at the tip. Messages are stored as they came and go back unchanged. They are known by their ids: what a summary
or a trimming takes out of the state stays in the tree; what is changed, or taken off the end of the state, makes a
branch, and so does a run from an earlier checkpoint. One middleware is for one conversation.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired
from uuid import uuid4

from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.utils.crypto import salted_hmac

from compaction_app.contrib import INSTALL

try:
    import langchain  # noqa: F401
except ImportError as error:
    raise ImportError(INSTALL.format("langchain")) from error
from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command

from compaction_app import chat
from compaction_app.conf import get_settings
from compaction_app.contrib.branch import NEWEST, FrameworkBranch, redacted, refuse_blocked_thread
from compaction_app.conversation.append import OwnKey
from compaction_app.exceptions import InvalidMessage, MessageNotFound
from compaction_app.messages.openai_format import NO_RESULT, made_id, to_openai
from compaction_app.messages.originals import LANGCHAIN
from compaction_app.messages.validation import storable
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.database import atomic
from compaction_app.redaction import redact_parameters, redactor_of
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, without_waiting
from compaction_app.values import ContextMessage, Origin, Role

#: Of a message by its id: the messages above and at its end (0: none), and what it says.
Known = dict[str, tuple[int, int, str]]
#: Ids of its branch that are looked up, and that a state keeps beside those of its messages.
_MOST_IDS, _MOST_KEPT = 500, 50


class TreeState(AgentState[Any]):
    """``tree``: the session, ids down to the tip, the messages of the state that are known, and those of this turn."""

    tree: NotRequired[dict[str, Any]]  # type: ignore[valid-type]  # the framework is not installed there


class TreeMiddleware(AgentMiddleware[Any, Any, Any]):
    """Sends the context at the tip in place of the state's messages, and stores what is new."""

    state_schema = TreeState

    def __init__(
        self,
        session: ChatSession,
        tip: ChatMessage | None = NEWEST,
        *,
        model: str | None = None,
        reserved_tokens: int | None = None,
    ) -> None:
        """``tip``: where the run goes on, by default at the end of the branch that was used last.

        ``model``: its name, by default the agent's; ``reserved_tokens``: as of ``get_context``.
        """
        super().__init__()
        self._options: dict[str, Any] = {"model": model, "reserved_tokens": reserved_tokens}
        #: That of the last run; one that has begun since has its own.
        self._branch = FrameworkBranch(session, tip, **self._options)
        self._session = session
        #: The runs' own messages, which another middleware may take out of the state before they are stored.
        self._asked: dict[str, AnyMessage] = {}
        #: What was stored, by its id and what it says: once deleted, it is not stored again.
        self._kept: dict[tuple[str | None, str], int] = {}

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return self._branch.tip

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        return without_waiting(self._answered(request, handler, BLOCKING))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        return await self._answered(request, handler, AWAITED)

    async def _answered(self, request: ModelRequest[Any], handler: Any, way: Way) -> ExtendedModelResponse[Any]:
        branch, known = await way.do(self._stored, request.state)
        try:
            try:
                response = await way.call(handler, await way.do(self._shown, branch, request))
            except Exception as error:
                if not await way.do(branch.is_too_long, error):
                    raise
                response = await way.call(handler, await way.do(self._shown, branch, request))
            kept: ExtendedModelResponse[Any] = await way.do(self._keep, branch, known, response)
        finally:
            # Not before: a run that begins meanwhile makes a branch.
            self._branch = branch
        return kept

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        # Stored later: a middleware may have to take a secret out first.
        branch, known, new = self._read(state)
        asked = {str(one.id): one for one in new}
        self._asked = dict([*self._asked.items(), *asked.items()][-_MOST_IDS:])
        self._kept = dict([*self._kept.items()][-_MOST_IDS:])
        return {"tree": self._place(branch, known, asked=[*asked])}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        refuse_blocked_thread()
        return await sync_to_async(self.before_agent)(state, runtime)

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        # What ended the run may be in no request: the result of a tool, or the words of another middleware.
        self._branch, known = self._stored(state)
        return {"tree": self._place(self._branch, known)}

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return await sync_to_async(self.after_agent)(state, runtime)

    def _read(self, state: Mapping[str, Any]) -> tuple[FrameworkBranch, Known, list[AnyMessage]]:
        """The branch that the state goes on from, which of its messages are known, and which have to be stored.

        New is what follows the last known message; what a middleware puts before one, its summary for example, is its
        own. From a message that was changed on, all are new.
        """
        messages, place = state["messages"], state.get("tree") or {}
        if not all(one.id for one in messages):
            words = "A message of the state has no id by which to know it: reduce them with langgraph's add_messages."
            raise InvalidMessage(words, field="messages")
        if not place or place["session"] != self._session.pk:
            place = self._found(messages)
        known: Known = {one.id: place["known"][one.id] for one in messages if one.id in place["known"]}
        changed = [at for at, one in enumerate(messages) if one.id in known and known[one.id][2] != _says(one)]
        if changed:
            last = known[messages[changed[0]].id][0]
            new = messages[changed[0] :]
        else:
            last = max((at for _, at, _ in known.values()), default=place["path"][-1])
            asked = {one: self._asked[one] for one in place["asked"] if one in self._asked}
            asked |= {one.id: one for one in messages if one.id in place["asked"]}
            end = max((at for at, one in enumerate(messages) if one.id in known or one.id in asked), default=-1)
            new = [*asked.values(), *messages[end + 1 :]]
        ids = {*place["path"], *(one for above, at, _ in known.values() for one in (above, at))}
        branch = FrameworkBranch(self._session, **self._options)
        branch.go_on_below(sorted(one for one in ids if one <= last)[-_MOST_IDS:])
        new = [one for one in new if one.additional_kwargs.get("lc_source") != "summarization"]
        if not any(isinstance(one, AIMessage) for one in new):
            # Nothing comes between a call and its results, whatever a tool adds to the state.
            new.sort(key=lambda one: not isinstance(one, ToolMessage))
        return branch, known, new

    def _found(self, messages: Sequence[AnyMessage]) -> dict[str, Any]:
        """The place of a state that has none, by the ids of the messages at the middleware's tip."""
        self._branch.begin()
        tip = self._branch.tip
        is_whole = any(isinstance(one, AIMessage) for one in messages)
        rows = [] if tip is None else chat.get_branch(tip) if is_whole else [tip]
        known: Known = {}
        for row in rows:
            above = row.parent_message_id or 0
            if isinstance(row.original, Mapping) and row.original.get("format") == LANGCHAIN:
                data = row.original["data"]
                known[str(data["data"].get("id"))] = (above, row.pk, _says(data))
            elif row.redacted_at:
                same = (one for one in messages if row.idempotency_key in _keys_of(one, above))
                known |= {str(one.id): (above, row.pk, _says(one)) for one in same}
        if rows and is_whole and not any(one.id in known for one in messages):
            raise InvalidMessage(
                "There are replies among these messages, and none of the messages is known by its id: pass those of "
                'this turn only, or result["messages"] of the last run and what is new.',
                field="messages",
            )
        return {"path": self._branch.path, "known": known, "asked": []}

    def _stored(self, state: Mapping[str, Any]) -> tuple[FrameworkBranch, Known]:
        branch, known, new = self._read(state)
        self._store(branch, known, new)
        if new and not any(one.id in known for one in new):
            raise MessageNotFound("What is asked here was deleted meanwhile.")
        return branch, known

    def _store(self, branch: FrameworkBranch, known: Known, new: Iterable[AnyMessage], **reply: Any) -> None:
        rows, kept = ChatMessage.objects.in_database_of(branch.session), dict(self._kept)
        with atomic(branch.session):
            for one in new:
                above, says = branch.path[-1], _says(one)
                keys = _keys_of(one, above)
                # A middleware around this one asks again, or the run before this one failed.
                if before := rows.filter(session_id=self._session.pk, idempotency_key__in=keys).first():
                    branch.tip = before
                elif (one.id, says) in kept and not rows.filter(pk=kept[one.id, says]).exists():
                    continue
                else:
                    branch.store([message_to_dict(one)], key=keys[0], **reply)
                known[str(one.id)] = (above, branch.path[-1], says)
                kept[one.id, says] = branch.path[-1]
        self._kept = kept

    def _place(self, branch: FrameworkBranch, known: Known, asked: Sequence[str] = ()) -> dict[str, Any]:
        path = [*branch.path[-_MOST_KEPT:]]
        return {"session": self._session.pk, "path": path, "known": known, "asked": asked}

    def _shown(self, branch: FrameworkBranch, request: ModelRequest[Any]) -> ModelRequest[Any]:
        made = [one if isinstance(one, dict) else convert_to_openai_tool(one) for one in request.tools]
        # A provider's own tool has keys of the host's.
        tools = [redacted(one) if one.get("type", "custom") in ("custom", "function") else one for one in made]
        given = [one if tool == own else tool for one, own, tool in zip(request.tools, made, tools, strict=True)]
        settings = redact_parameters(request.model_settings, redactor_of(get_settings()))
        if message := request.system_message:
            message = message.model_copy(update={"content": redacted(message.content)})
        named = request.model._get_ls_params().get("ls_model_name")  # noqa: SLF001  # as its own tracing finds it
        url = getattr(request.model, "openai_api_base", None)
        shown = branch.show(message.text if message else "", model=named, url=url, tools=tools)
        system = [one.content for one in shown if one.origin == Origin.SYSTEM]
        if system:
            message = SystemMessage("\n\n".join([*system, message.text] if message else system))
        history = messages_of([one for one in shown if one.origin != Origin.SYSTEM])
        return request.override(messages=history, system_message=message, tools=given, model_settings=settings)

    def _keep(self, branch: FrameworkBranch, known: Known, response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
        for one in response.result:
            # As the state would name it.
            one.id = one.id or str(uuid4())
        reply = next((one for one in response.result if isinstance(one, AIMessage)), None)
        used = reply.usage_metadata if reply else None
        usage = {"prompt_tokens": used["input_tokens"], "completion_tokens": used["output_tokens"]} if used else None
        model = str(reply.response_metadata.get("model_name") or "") if reply else ""
        self._store(branch, known, response.result, usage=usage, model=model)
        branch.compact()
        return ExtendedModelResponse(response, Command(update={"tree": self._place(branch, known)}))


def _says(message: AnyMessage | Mapping[str, Any]) -> str:
    """What tells a message from another one with its id."""
    given = storable(message if isinstance(message, Mapping) else message_to_dict(message))
    kept = [given["data"].get(key) for key in ("content", "tool_calls", "tool_call_id")]
    return made_id(json.dumps([given["type"], kept], sort_keys=True))


def _keys_of(message: AnyMessage, above: int) -> list[OwnKey]:
    """What a stored message is found by, also where its text was erased: its id, its words, and where it is.

    The first is stored; the others are those of ``SECRET_KEY_FALLBACKS``.
    """
    secrets = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
    said = f"{message.id} {_says(message)}"
    made = (salted_hmac(__name__, said, secret=secret, algorithm="sha256") for secret in secrets)
    return [OwnKey(f"langchain-{above}-{one.hexdigest()}") for one in made]


def messages_of(shown: Sequence[ContextMessage]) -> list[AnyMessage]:
    """As they came, where that was kept and nothing was left out, else made of the fields.

    A call without a result, of a tool that raised for example, gets one: providers refuse the prompt otherwise.
    """
    messages: list[AnyMessage] = []
    waiting: dict[str, None] = {}
    for one in shown:
        if one.role == Role.TOOL:
            waiting.pop(one.tool_call_id, None)
        elif not (one.tool_calls and isinstance(messages[-1] if messages else None, AIMessage)):
            messages += [ToolMessage(NO_RESULT, tool_call_id=call_id) for call_id in waiting]
            waiting = {}
        messages.append(_message_of(one))
        # One that could not be parsed is sent, too.
        calls = (*one.tool_calls, *getattr(messages[-1], "invalid_tool_calls", ()))
        waiting |= dict.fromkeys(str(call["id"]) for call in calls)
    return [*messages, *(ToolMessage(NO_RESULT, tool_call_id=call_id) for call_id in waiting)]


def _message_of(shown: ContextMessage) -> Any:
    original = shown.original
    if isinstance(original, Mapping) and original.get("format") == LANGCHAIN:
        return messages_from_dict([original["data"]])[0]
    sent = to_openai([shown]) or [{"role": shown.role, "content": ""}]
    message = convert_to_messages(sent[:1])[0]
    # Beside messages that go back as they came, ids are theirs.
    if isinstance(message, ToolMessage):
        message.tool_call_id = shown.tool_call_id
    for call, one in zip(getattr(message, "tool_calls", ()), shown.tool_calls, strict=False):
        call["id"] = one["id"]
    return message
