"""LangChain: a middleware of ``create_agent`` that keeps a run's messages in the tree.

    tree = TreeMiddleware(chat_session, tip)
    agent = create_agent(model, tools, middleware=[tree])
    agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})
    tree.tip  # the stored reply

The state has the messages of the turn, or with a checkpointer those of its thread; each request of the run is sent the
context at the tip. Messages are stored as they came and go back unchanged. A checkpoint knows its place in the tree, so
a run from an earlier one is a branch. One middleware is for one conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NotRequired

from asgiref.sync import sync_to_async

from compaction_app.contrib import INSTALL

try:
    import langchain  # noqa: F401
except ImportError as error:
    raise ImportError(INSTALL.format("langchain")) from error
from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command

from compaction_app.contrib.branch import NEWEST, FrameworkBranch, refuse_blocked_thread
from compaction_app.messages.openai_format import NO_RESULT, content_with_attachments, parse_arguments
from compaction_app.messages.originals import LANGCHAIN
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ContextMessage, Origin, Role


class TreeState(AgentState[Any]):
    """``tree``: the id of the tip, and how many messages of the state are stored there and above."""

    tree: NotRequired[list[int]]  # type: ignore[valid-type]  # the framework is not installed there


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
        self._session, self._tip = session, tip
        self._options = {"model": model, "reserved_tokens": reserved_tokens}
        #: Ids of the messages that were stored for the request of now.
        self._stored_last: list[str | None] = []

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return FrameworkBranch(self._session, self._tip).tip

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        branch = self._branch_of(request.state)
        try:
            response = handler(self._shown(branch, request))
        except Exception as error:
            if not branch.is_too_long(error):
                raise
            response = handler(self._shown(branch, request))
        return self._keep(request, branch, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        refuse_blocked_thread()
        branch = await sync_to_async(self._branch_of)(request.state)
        try:
            response = await handler(await sync_to_async(self._shown)(branch, request))
        except Exception as error:
            if not await sync_to_async(branch.is_too_long)(error):
                raise
            response = await handler(await sync_to_async(self._shown)(branch, request))
        return await sync_to_async(self._keep)(request, branch, response)

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        # A tool whose result is the answer ends the run without a request.
        branch = self._branch_of(state)
        return {"tree": self._place(branch, state)}

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return await sync_to_async(self.after_agent)(state, runtime)

    def _branch_of(self, state: Mapping[str, Any]) -> FrameworkBranch:
        """The state's place in the tree, with what is new in it stored."""
        tip, stored = self._tip, 0
        if place := state.get("tree"):
            tip, stored = self._session.messages.get(pk=place[0]), place[1]
        branch, new = FrameworkBranch(self._session, tip, **self._options), state["messages"][stored:]
        ids = [one.id for one in new]
        if new and ids == self._stored_last:
            # A middleware around this one asks again.
            branch.tip = self._tip
        else:
            branch.store(list(map(message_to_dict, new)))
        self._tip, self._stored_last = branch.tip, ids
        return branch

    def _place(self, branch: FrameworkBranch, state: Mapping[str, Any], more: int = 0) -> list[int]:
        self._tip = branch.tip
        return [branch.tip.pk, len(state["messages"]) + more] if branch.tip else [0, 0]

    def _shown(self, branch: FrameworkBranch, request: ModelRequest[Any]) -> ModelRequest[Any]:
        tools = [one if isinstance(one, dict) else convert_to_openai_tool(one) for one in request.tools]
        named = request.model._get_ls_params().get("ls_model_name")  # noqa: SLF001  # as its own tracing finds it
        url = getattr(request.model, "openai_api_base", None)
        shown = branch.show(request.system_prompt or "", model=named, url=url, tools=tools)
        system = [one.content for one in shown if one.origin == Origin.SYSTEM]
        if system and request.system_message is not None:
            system.append(request.system_message.text)
        own = {"system_message": SystemMessage("\n\n".join(system))} if system else {}
        history = [one for one in shown if one.origin != Origin.SYSTEM]
        return request.override(messages=messages_of(history), **own)

    def _keep(
        self, request: ModelRequest[Any], branch: FrameworkBranch, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        reply = next((one for one in response.result if isinstance(one, AIMessage)), None)
        used = reply.usage_metadata if reply else None
        usage = {"prompt_tokens": used["input_tokens"], "completion_tokens": used["output_tokens"]} if used else None
        model = str(reply.response_metadata.get("model_name") or "") if reply else ""
        branch.store(list(map(message_to_dict, response.result)), usage=usage, model=model)
        branch.compact()
        place = self._place(branch, request.state, more=len(response.result))
        return ExtendedModelResponse(response, Command(update={"tree": place}))


def messages_of(shown: Sequence[ContextMessage]) -> list[AnyMessage]:
    """As they came, where that was kept and nothing was left out, else made of the fields.

    A call without a result, of a tool that raised for example, gets one: providers refuse the prompt otherwise.
    """
    messages: list[AnyMessage] = []
    waiting: list[str] = []
    for one in shown:
        if one.role == Role.TOOL:
            waiting = [call_id for call_id in waiting if call_id != one.tool_call_id]
        elif not (one.tool_calls and isinstance(messages[-1] if messages else None, AIMessage)):
            messages += [ToolMessage(NO_RESULT, tool_call_id=call_id) for call_id in waiting]
            waiting = []
        messages.append(_message_of(one))
        waiting += [str(call["id"]) for call in one.tool_calls]
    return [*messages, *(ToolMessage(NO_RESULT, tool_call_id=call_id) for call_id in waiting)]


def _message_of(shown: ContextMessage) -> Any:
    original = shown.original
    if isinstance(original, Mapping) and original.get("format") == LANGCHAIN:
        return messages_from_dict([original["data"]])[0]
    if shown.role == Role.TOOL:
        return ToolMessage(shown.content, tool_call_id=shown.tool_call_id, name=shown.name or None)
    if shown.role == Role.ASSISTANT:
        calls = [
            {
                "type": "tool_call",
                "id": call["id"],
                "name": call["function"]["name"],
                "args": parse_arguments(call["function"].get("arguments")) or {},
            }
            for call in shown.tool_calls
        ]
        return AIMessage(shown.content, tool_calls=calls)
    if shown.role == Role.USER:
        return HumanMessage(content_with_attachments(shown), name=shown.name or None)
    return SystemMessage(shown.content)
