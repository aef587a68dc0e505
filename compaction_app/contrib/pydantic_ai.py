"""pydantic-ai: a capability that keeps a run's messages in the tree.

    history = TreeHistory(chat_session, tip)
    result = await agent.run("Hello", capabilities=[history])
    history.tip  # the stored reply

Each request of the run is sent the context at the tip, each message is stored as it came and goes back unchanged, and
a compaction is asked for after each reply. ``agent.run(None, message_history=await history.history(), …)`` asks
the question at the tip once more. Two runs at once make two branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async

from compaction_app.contrib import INSTALL

try:
    from pydantic_ai import DeferredToolRequests, ModelRetry, RetryModelRequest, RunContext, ToolReturn
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
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.output import OutputContext

from compaction_app.conf import get_settings
from compaction_app.contrib.branch import NEWEST, FrameworkBranch, redacted, refuse_blocked_thread, tool_schema, unknown
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.originals import PYDANTIC_AI
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.redaction import redact_parameters, redactor_of
from compaction_app.values import ContextMessage, Role

#: What an agent says beside the messages. Tools of a provider have the host's own keys.
_SAID = ("function_tools", "output_tools", "output_object", "prompted_output_template", "instruction_parts")
#: What the framework answers to the calls beside which it ended a run.
_IS_RESULT = "Final result processed."
_IS_NO_RESULT = "Output tool not used - a final result was already processed."
_IS_ANOTHER_RESULT = "Output tool processed, but its value will not be the final result of the agent run."
_NOT_EXECUTED = "Tool not executed - a final result was already processed."


class TreeHistory(AbstractCapability[Any]):
    """The messages of a run, stored in and read from a branch."""

    def __init__(
        self, session: ChatSession, tip: ChatMessage | None = NEWEST, *, reserved_tokens: int | None = None
    ) -> None:
        """``tip``: where the run goes on, by default at the end of the branch that was used last.

        ``reserved_tokens``: as of ``get_context``. The model is the agent's.
        """
        self.branch = FrameworkBranch(session, tip, reserved_tokens=reserved_tokens)
        #: The host's own, of which each run has a copy.
        self._of = self
        #: What :meth:`history` gave below the last reply: the next run may have it, in other words than it is stored.
        self._read: list[ModelMessage] = []
        #: Of a run, what was stored since the last reply; None: nothing was asked yet.
        self._asked: list[ModelMessage] | None = None
        #: All of its messages, to which the framework adds.
        self._messages: list[ModelMessage] = []
        #: What its tools returned, by their calls, and what its last request could be answered with.
        self._returned: dict[str, Any] = {}
        self._parameters = ModelRequestParameters()

    @property
    def tip(self) -> ChatMessage | None:
        """The last stored message: where the next run goes on."""
        return self.branch.tip

    async def history(self) -> list[ModelMessage]:
        """The context at the tip, for ``message_history``: without a prompt the model answers what is asked there."""
        await sync_to_async(self.branch.begin)()
        shown = messages_of(await sync_to_async(self.branch.show)())
        self._read = _after_reply(shown)
        return shown

    async def for_run(self, ctx: RunContext[Any]) -> TreeHistory:
        refuse_blocked_thread()
        await sync_to_async(self.branch.begin)()
        run = TreeHistory(self.branch.session)
        run.branch, run._of = copy(self.branch), self._of
        run._read, self._read = self._read, []
        return run

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        # What a run is given as it begins has a list of its own.
        self._messages = ctx.messages
        return node

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        await sync_to_async(self._store_new)(ctx.messages, ctx.run_id)
        request_context.messages[:] = await self._shown(ctx, request_context)
        response = await handler(request_context)
        await sync_to_async(self._store_reply)(response)
        return response

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if request_context.attempt > 1:
            request_context.messages[:] = await self._shown(ctx, request_context)
        # Here all is known that is sent, also what other capabilities and processors of the history made of it.
        return await sync_to_async(_redacted_request)(request_context)

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        if request_context.attempt == 1 and await sync_to_async(self.branch.is_too_long)(error):
            raise RetryModelRequest
        raise error

    async def wrap_tool_execute(self, ctx: RunContext[Any], *, call: ToolCallPart, handler: Any, **options: Any) -> Any:
        try:
            self._returned[call.tool_call_id] = returned = await handler(options["args"])
        except ModelRetry as error:
            self._returned[call.tool_call_id] = error.message
            raise
        return returned

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Any
    ) -> Any:
        processed = await handler(output)
        if output_context.tool_call and not ctx.partial_output:
            self._returned[output_context.tool_call.tool_call_id] = _IS_ANOTHER_RESULT
        return processed

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        # What tools returned before a limit, a failure or a cancellation is in no request either.
        messages = self._messages
        if messages and isinstance(reply := messages[-1], ModelResponse):
            # Of a run that is cancelled the framework adds it later.
            ran = [call for call in reply.tool_calls if call.tool_call_id in self._returned]
            results = _results((call, self._returned[call.tool_call_id]) for call in ran)
            messages = [*messages, ModelRequest(results, run_id=ctx.run_id)]
        await sync_to_async(self._store_last)(messages, ctx.run_id)
        raise error

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        # The result of the tool that ended the run is in no request.
        messages = result.all_messages()
        reply, output = messages[-1], result.output
        if isinstance(reply, ModelResponse) and reply.state == "complete":
            waiting = [*output.calls, *output.approvals] if isinstance(output, DeferredToolRequests) else []
            beside = self._results_beside(reply, {call.tool_call_id for call in waiting})
            messages = [*messages, *([ModelRequest(beside, run_id=ctx.run_id)] if beside else [])]
        await sync_to_async(self._store_last)(messages, ctx.run_id)
        return result

    def _results_beside(self, reply: ModelResponse, waiting: Collection[str]) -> list[Any]:
        """What ``run_stream`` adds to its own messages alone, as its output was read: a result for each other call."""
        outputs = {tool.name for tool in self._parameters.output_tools}
        ends = outputs | {tool.name for tool in self._parameters.function_tools if tool.defer}
        ended = (
            part
            for part in reply.parts
            if (isinstance(part, TextPart) and self._parameters.allow_text_output)
            or (isinstance(part, ToolCallPart) and part.tool_name in ends)
        )
        end = next(ended, None)
        calls = [call for call in reply.tool_calls if call.tool_call_id not in waiting]
        if not any(call.tool_call_id in self._returned for call in calls if call.tool_name not in outputs):
            calls.sort(key=lambda call: call.tool_name not in outputs)
        results = list[tuple[ToolCallPart, Any]]()
        for call in calls:
            unused = _IS_NO_RESULT if call.tool_name in outputs else _NOT_EXECUTED
            results.append((call, _IS_RESULT if call is end else self._returned.get(call.tool_call_id, unused)))
        return _results(results)

    def _store_new(self, messages: Sequence[ModelMessage], run_id: str | None) -> None:
        """What comes after the last reply is new, as far as the run did not ask it before.

        Of what a run is given, and a front end gives all of the conversation, that is without what is stored there.
        """
        new = _after_reply(messages)
        if self._asked is None:
            # A run that is resumed goes on where it called.
            self.branch.go_back_to({part.tool_call_id for one in new for part in one.parts if _is_result(part)})
            given = [one for one in new if one.run_id != run_id]
            new = [*(self._unstored(given) if given else ()), *new[len(given) :]]
            self._asked = given
        new = [one for one in new if not any(one is asked for asked in self._asked)]
        self._store(*new)
        self._asked += new

    def _store_last(self, messages: Sequence[ModelMessage], run_id: str | None) -> None:
        self._store_new(messages, run_id)
        self._of.branch = self.branch

    def _unstored(self, given: Sequence[ModelRequest]) -> list[ModelRequest]:
        """What is given without what is stored below the last reply: the results of its calls, and what was asked."""
        stored = messages_of(self.branch.unanswered())
        known = Counter(_keys(stored)) | Counter(_keys(self._read))
        return [replace(message, parts=unknown(message.parts, known, _key)) for message in given]

    def _store(self, *messages: ModelMessage, **reply: Any) -> None:
        dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        for one in dumped:
            # The agent says its instructions again in each run.
            one.pop("instructions", None)
            one["parts"] = [part for part in one["parts"] if part["part_kind"] != "system-prompt"]
        self.branch.store([one for one in dumped if one["parts"]], **reply)

    async def _shown(self, ctx: RunContext[Any], request: ModelRequestContext) -> list[ModelMessage]:
        system = [part for message in ctx.messages for part in message.parts if isinstance(part, SystemPromptPart)]
        if not system and ctx.agent:
            # The framework gives none to a run that is given messages: it takes them from there.
            system = await ctx.agent.system_prompt_parts(
                deps=ctx.deps, model=request.model, prompt=ctx.prompt, usage=ctx.usage
            )
        parameters = self._parameters = request.model_request_parameters
        instructions = [part.content for part in (*system, *(parameters.instruction_parts or ()))]
        tools = [
            tool_schema(one.name, one.description, one.parameters_json_schema) for one in parameters.function_tools
        ]
        named = {"model": request.model.model_name, "url": request.model.base_url}
        shown = messages_of(await sync_to_async(self.branch.show)(*instructions, **named, tools=tools))
        return [ModelRequest(system), *shown] if system else shown

    def _store_reply(self, response: ModelResponse) -> None:
        usage = response.usage
        counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        self._store(response, usage=counted if usage.input_tokens else None, model=response.model_name or "")
        self._asked, self._of.branch = [], self.branch
        self.branch.compact()


def _redacted_request(request: ModelRequestContext) -> ModelRequestContext:
    parameters, settings = request.model_request_parameters, request.model_settings
    request.messages = redacted(request.messages)
    request.model_request_parameters = replace(
        parameters, **{name: redacted(getattr(parameters, name)) for name in _SAID}
    )
    request.model_settings = settings and redact_parameters(settings, redactor_of(get_settings()))
    return request


def _results(of_calls: Iterable[tuple[ToolCallPart, Any]]) -> list[Any]:
    parts, said = list[Any](), list[Any]()
    for call, returned in of_calls:
        whole = returned if isinstance(returned, ToolReturn) else ToolReturn(returned)
        said += [UserPromptPart(whole.content)] if whole.content else []
        parts.append(ToolReturnPart(call.tool_name, whole.return_value, call.tool_call_id, metadata=whole.metadata))
    return [*parts, *said]


def _after_reply(messages: Sequence[ModelMessage]) -> list[ModelRequest]:
    replies = (at for at, one in enumerate(messages, start=1) if isinstance(one, ModelResponse))
    return [one for one in messages[max(replies, default=0) :] if isinstance(one, ModelRequest)]


def _keys(messages: Iterable[ModelMessage]) -> list[Any]:
    return [_key(part) for message in messages for part in message.parts]


def _key(part: Any) -> Any:
    """What a part of a request is known by: the call of a result, or what was said."""
    if _is_result(part):
        return part.tool_call_id
    said = getattr(part, "content", "")
    return part.part_kind, *(getattr(one, "identifier", one) for one in ([said] if isinstance(said, str) else said))


def _is_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart | RetryPromptPart) and bool(part.tool_name)


def messages_of(shown: Sequence[ContextMessage]) -> list[ModelMessage]:
    """As they came, where that was kept and nothing was left out, else made of the fields.

    The results of one reply are one message: an answer to a call is looked for in that alone.
    """
    messages: list[ModelMessage] = []
    for one in shown:
        message = _message_of(one)
        if messages and one.role == Role.TOOL and isinstance(last := messages[-1], ModelRequest):
            messages[-1] = replace(last, parts=[*last.parts, *message.parts])
        else:
            messages.append(message)
    return messages


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
