"""pydantic-ai: a capability that keeps a run's messages in the tree.

    history = TreeHistory(chat_session, tip)
    result = await agent.run("Hello", capabilities=[history])
    history.tip  # the stored reply

Each request of the run is sent the context at the tip, each message is stored as it came and goes back unchanged, and
a compaction is asked for after each reply. ``agent.run(None, message_history=await history.history(), …)`` asks
the question at the tip once more. Two runs at once make two branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import sync_to_async

from compaction_app.contrib import INSTALL

try:
    from pydantic_ai import RetryModelRequest, RunContext
except ImportError as error:
    raise ImportError(INSTALL.format("pydantic-ai")) from error
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from compaction_app.contrib.branch import NEWEST, FrameworkBranch, refuse_blocked_thread, tool_schema
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.originals import PYDANTIC_AI
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import ContextMessage, Role


class TreeHistory(AbstractCapability[Any]):
    """The messages of a run, stored in and read from a branch."""

    def __init__(
        self, session: ChatSession, tip: ChatMessage | None = NEWEST, *, reserved_tokens: int | None = None
    ) -> None:
        """``tip``: where the run goes on, by default at the end of the branch that was used last.

        ``reserved_tokens``: as of ``get_context``. The model is the agent's.
        """
        self.branch = FrameworkBranch(session, tip, reserved_tokens=reserved_tokens)
        self._reserved = reserved_tokens
        #: The host's own, of which each run has a copy.
        self._of = self
        #: The messages that the next run is given are those of :meth:`history`.
        self._is_read = False
        #: How many of the messages that the run has are stored, or were not its own.
        self._stored = 0

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return self.branch.tip

    async def history(self) -> list[ModelMessage]:
        """The context at the tip, for ``message_history``: without a prompt the model answers what is asked there."""
        self._is_read = True
        return messages_of(await sync_to_async(self.branch.show)())

    async def for_run(self, ctx: RunContext[Any]) -> TreeHistory:
        refuse_blocked_thread()
        run = TreeHistory(self.branch.session, await sync_to_async(lambda: self.tip)(), reserved_tokens=self._reserved)
        run._of, run._is_read, self._is_read = self._of, self._is_read, False
        return run

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        await sync_to_async(self._store_new)(ctx.messages, ctx.run_id)
        request_context.messages[:] = await sync_to_async(self._shown)(ctx, request_context)
        response = await handler(request_context)
        await sync_to_async(self._store_reply)(response)
        return response

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if request_context.attempt > 1:
            request_context.messages[:] = await sync_to_async(self._shown)(ctx, request_context)
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        if request_context.attempt == 1 and await sync_to_async(self.branch.is_too_long)(error):
            raise RetryModelRequest
        raise error

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        # The result of the tool that ended the run is in no request.
        await sync_to_async(self._store_new)(result.all_messages(), ctx.run_id)
        return result

    def _store_new(self, messages: Sequence[ModelMessage], run_id: str | None) -> None:
        """Of what a front end sends along, which has all of the conversation, only what has no reply yet is new."""
        if self._stored == 0:
            own = next((at for at, one in enumerate(messages) if one.run_id == run_id), len(messages))
            while not self._is_read and own and isinstance(messages[own - 1], ModelRequest):
                own -= 1
            self._stored = own
        self._store(*messages[self._stored :])
        self._stored = len(messages)

    def _store(self, *messages: ModelMessage, **reply: Any) -> None:
        dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        for one in dumped:
            # The agent says its instructions again in each run.
            one.pop("instructions", None)
            one["parts"] = [part for part in one["parts"] if part["part_kind"] != "system-prompt"]
        self.branch.store([one for one in dumped if one["parts"]], **reply)
        self._of.branch.tip = self.branch.tip

    def _shown(self, ctx: RunContext[Any], request: ModelRequestContext) -> list[ModelMessage]:
        system = [part for message in ctx.messages for part in message.parts if isinstance(part, SystemPromptPart)]
        parameters = request.model_request_parameters
        instructions = [part.content for part in (*system, *(parameters.instruction_parts or ()))]
        tools = [
            tool_schema(one.name, one.description, one.parameters_json_schema) for one in parameters.function_tools
        ]
        named = {"model": request.model.model_name, "url": request.model.base_url}
        shown = messages_of(self.branch.show(*instructions, **named, tools=tools))
        return [ModelRequest(system), *shown] if system else shown

    def _store_reply(self, response: ModelResponse) -> None:
        usage = response.usage
        counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        self._store(response, usage=counted if usage.input_tokens else None, model=response.model_name or "")
        self._stored += 1
        self.branch.compact()


def messages_of(shown: Sequence[ContextMessage]) -> list[ModelMessage]:
    """As they came, where that was kept and nothing was left out, else made of the fields."""
    return [_message_of(one) for one in shown]


def _message_of(shown: ContextMessage) -> ModelMessage:
    original = shown.original
    if isinstance(original, Mapping) and original.get("format") == PYDANTIC_AI:
        return ModelMessagesTypeAdapter.validate_python([original["data"]])[0]
    if shown.role == Role.ASSISTANT:
        functions = [(call["function"], call["id"]) for call in shown.tool_calls]
        calls = [ToolCallPart(one["name"], one.get("arguments") or "{}", call_id) for one, call_id in functions]
        return ModelResponse([*([TextPart(shown.content)] if shown.content else []), *calls])
    if shown.role == Role.TOOL:
        return ModelRequest([ToolReturnPart(shown.name or "tool", shown.content, shown.tool_call_id)])
    if shown.role == Role.USER:
        return ModelRequest([UserPromptPart(_content_of(shown))])
    return ModelRequest([SystemPromptPart(shown.content)])


def _content_of(shown: ContextMessage) -> Any:
    lines, pictures = [shown.content] if shown.content else [], list[Any]()
    for attachment in shown.attachments:
        url = str(attachment.get("url") or "")
        if attachment.get("type") == "image" and url:
            pictures.append(BinaryContent.from_data_uri(url) if url.startswith("data:") else ImageUrl(url))
        else:
            lines.append(attachment_line(attachment))
    text = "\n".join(lines)
    return [*([text] if text else []), *pictures] if pictures else text
