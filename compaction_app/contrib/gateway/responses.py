"""``POST responses``: items, and a response or its events. The provider is asked for chat completions.

An item of an answer has the response's id in its own. The id is kept with the stored reply, as its ``external_id``:
by it a client may go on below the reply (``previous_response_id``), or name the reply's items instead of sending them.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from openai import BaseModel
from openai.types.responses import Response, ResponseStreamEvent

from compaction_app.contrib import sse
from compaction_app.contrib.gateway.asked import NOTHING, USUAL, Find, Form, GatewayError, read_messages
from compaction_app.contrib.gateway.identity import Fields, Said
from compaction_app.conversation.recall import other_calls
from compaction_app.messages.transcript import reasoning_text
from compaction_app.models import ChatMessage
from compaction_app.values import Role

_ENCRYPTED = "reasoning.encrypted_content"
#: What a response repeats of its request, and what stands there otherwise.
_REPEATED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
}
#: Of each kind of event its type.
_EVENTS: Mapping[str, type[BaseModel]] = {
    get_args(event.model_fields["type"].annotation)[0]: event for event in get_args(get_args(ResponseStreamEvent)[0])
}


@dataclass(frozen=True, kw_only=True)
class _Streamed:
    """How text comes: an item with one part, and the names of its events."""

    item: dict[str, Any]
    part: dict[str, Any]
    #: Of the item the list of its parts, and what the place in that is called.
    parts: str
    index: str
    prefix: str
    part_event: str
    text_event: str
    beside_text: dict[str, Any]


_STREAMED = {
    "text": _Streamed(
        item={"type": "message", "role": "assistant", "status": "in_progress"},
        part={"type": "output_text", "annotations": []},
        parts="content",
        index="content_index",
        prefix="msg",
        part_event="response.content_part",
        text_event="response.output_text",
        beside_text={"logprobs": []},
    ),
    "reasoning": _Streamed(
        item={"type": "reasoning"},
        part={"type": "summary_text"},
        parts="summary",
        index="summary_index",
        prefix="rs",
        part_event="response.reasoning_summary_part",
        text_event="response.reasoning_summary_text",
        beside_text={},
    ),
}


class Responses(Form):
    read = frozenset(("input", "instructions", "model", "previous_response_id", "stream", "stream_options", "tools"))
    usual = {
        **USUAL,
        "background": (False,),
        # Every turn is kept, and what a model wrote is sent back to it as it came.
        "store": (True, False),
        "include": ([], [_ENCRYPTED]),
        # Compaction makes it fit.
        "truncation": ("auto", "disabled"),
    }
    instead = {"conversation": "pass previous_response_id, or name the conversation in a header"}

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(_in_chat_words(body))
        self.reply_id = f"resp_{uuid.uuid4().hex}"
        self.previous_id = str(body.get("previous_response_id") or "")
        self.instructions = str(body["instructions"]) if body.get("instructions") else None
        self._sent = body
        self._created = int(time.time())
        self._number = -1
        self._output: list[dict[str, Any]] = []
        #: Of the text and of reasoning that is under way: its place in the output, and what came of it.
        self._growing: dict[str, tuple[int, list[str]]] = {}

    def messages(self, find: Find) -> list[Fields]:
        given = self._sent.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        # With instructions alone an agent's question is empty.
        return read_messages(items, "input", lambda sent: _messages_of(sent, find), is_told=bool(self.instructions))

    def whole(self, reply: ChatMessage) -> dict[str, Any]:
        for kind, text in (("reasoning", reasoning_text(reply.reasoning)), ("text", reply.content)):
            if text:
                "".join(self._grow(kind, text))
        "".join(self._end(reply))
        return self._response(reply).to_dict(mode="json", exclude_unset=True, warnings=False)

    def begun(self) -> str:
        return "".join(self._say(f"response.{kind}", response=self._response()) for kind in ("created", "in_progress"))

    def chunk(self, chunk: Any) -> str:
        return "".join(event for kind, text in sse.pieces_of(chunk) for event in self._grow(kind, text))

    def ended(self, reply: ChatMessage) -> str:
        events = "".join(self._end(reply))
        response = self._response(reply)
        return events + self._say(f"response.{response.status}", response=response)

    def failed(self, error: GatewayError) -> str:
        said = error.content["error"]
        # Clients that know no event of this type read it as that of chat completions.
        return self._say("error", **{key: said[key] for key in ("message", "code", "param")}, error=said)

    def _say(self, kind: str, **fields: Any) -> str:
        """One event, if ``openai`` knows it so."""
        self._number += 1
        made = _EVENTS[kind](**{"type": kind, "sequence_number": self._number, **fields})
        return sse.event(made.model_dump_json(exclude_unset=True, warnings=False), kind)

    def _add(self, prefix: str, item: dict[str, Any]) -> str:
        number = len(self._output)
        self._output.append({"id": f"{prefix}_{self.reply_id.removeprefix('resp_')}_{number}", **item})
        return self._say("response.output_item.added", output_index=number, item=self._output[-1])

    def _done(self, number: int) -> str:
        return self._say("response.output_item.done", output_index=number, item=self._output[number])

    def _in(self, number: int, kind: str, **fields: Any) -> str:
        return self._say(kind, item_id=self._output[number]["id"], output_index=number, **fields)

    def _grow(self, kind: str, text: str) -> Iterator[str]:
        """A reply has one text, whatever comes in between: the client sends back one message."""
        form = _STREAMED[kind]
        if kind == "text":
            yield from self._close("reasoning")
        if kind not in self._growing:
            self._growing[kind] = len(self._output), []
            yield self._add(form.prefix, {**form.item, form.parts: []})
            part = {**form.part, "text": ""}
            yield self._in(len(self._output) - 1, f"{form.part_event}.added", part=part, **{form.index: 0})
        number, texts = self._growing[kind]
        texts.append(text)
        yield self._in(number, f"{form.text_event}.delta", delta=text, **form.beside_text, **{form.index: 0})

    def _close(self, kind: str, status: str = "completed") -> Iterator[str]:
        if kind not in self._growing:
            return
        form, (number, texts) = _STREAMED[kind], self._growing.pop(kind)
        item, text = self._output[number], "".join(texts)
        item[form.parts] = [part := {**form.part, "text": text}]
        if "status" in item:
            item["status"] = status
        yield self._in(number, f"{form.text_event}.done", text=text, **form.beside_text, **{form.index: 0})
        yield self._in(number, f"{form.part_event}.done", part=part, **{form.index: 0})
        if not self._waits_for_seal(item):
            yield self._done(number)

    def _end(self, reply: ChatMessage) -> Iterator[str]:
        """What is known of a reply when it is whole: its calls, and the blocks of its reasoning that are sealed."""
        yield from self._close("reasoning")
        yield from self._close("text", "incomplete" if reply.finish_reason == "length" else "completed")
        sealed = _sealed(reply) if self._is_sealed else ""
        if sealed and not any(map(self._waits_for_seal, self._output)):
            yield self._add("rs", {"type": "reasoning", "summary": []})
        for number, item in enumerate(self._output):
            if self._waits_for_seal(item):
                self._output[number] = {**item, "encrypted_content": sealed or None}
                sealed = ""
                yield self._done(number)
        for call in reply.tool_calls or ():
            arguments = {"arguments": call["function"]["arguments"]}
            item = {"type": "function_call", "call_id": call["id"], "name": call["function"]["name"]}
            number = len(self._output)
            yield self._add("fc", {**item, "arguments": "", "status": "in_progress"})
            yield self._in(number, "response.function_call_arguments.delta", delta=arguments["arguments"])
            yield self._in(number, "response.function_call_arguments.done", name=item["name"], **arguments)
            self._output[number] |= {**arguments, "status": "completed"}
            yield self._done(number)

    @property
    def _is_sealed(self) -> bool:
        return _ENCRYPTED in (self._sent.get("include") or ())

    def _waits_for_seal(self, item: Mapping[str, Any]) -> bool:
        return self._is_sealed and item["type"] == "reasoning"

    def _response(self, reply: ChatMessage | None = None) -> Response:
        given = {key: self._sent[key] for key in _REPEATED if self._sent.get(key) is not None}
        is_cut = reply is not None and reply.finish_reason == "length"
        status = "incomplete" if is_cut else "completed" if reply else "in_progress"
        return Response.construct(
            id=self.reply_id,
            object="response",
            created_at=self._created,
            status=status,
            error=None,
            incomplete_details={"reason": "max_output_tokens"} if is_cut else None,
            model=(reply and reply.model) or self._sent["model"],
            output=list(self._output),
            usage=_usage(reply.usage or {}) if reply else None,
            **{**_REPEATED, **given},
        )


def _sealed(reply: ChatMessage) -> str:
    """The blocks of a reply's reasoning that only its provider can read."""
    came = (reply.original or {}).get("data") or {}
    blocks = [one for key in ("thinking_blocks", "reasoning_details") for one in came.get(key) or ()]
    sealed = [one for one in blocks if isinstance(one, Mapping) and (one.get("signature") or one.get("data"))]
    return json.dumps(sealed) if sealed else ""


def _usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    if not usage:
        return None
    read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    of_prompt, of_reply = (usage.get(f"{name}_tokens_details") or {} for name in ("prompt", "completion"))
    cached = {f"{name}_tokens": of_prompt.get(f"{name}_tokens") or 0 for name in ("cached", "cache_write")}
    return {
        "input_tokens": read,
        "input_tokens_details": cached,
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": of_reply.get("reasoning_tokens") or 0},
        "total_tokens": usage.get("total_tokens") or read + written,
    }


# -- a request in the words of chat completions -------------------------------------------------------------


def _messages_of(items: Iterable[Mapping[str, Any]], find: Find) -> list[tuple[int, dict[str, Any]]]:
    """Items of one answer are one message. What the tree has of its reasoning is not read again."""
    items = list(items)
    named = find({_reply_id(item) for item in items if item.get("type") == "item_reference"})
    named = {NOTHING: ChatMessage(content="-"), **named}
    messages: list[tuple[int, dict[str, Any]]] = []
    above = ""
    for number, item in enumerate(items):
        is_told = item.get("type") == "item_reference" and above == (above := _reply_id(item))
        if is_told or (made := _message_of(item, number, named)) is None:
            continue
        last = messages[-1][1] if messages else {}
        if made["role"] == last.get("role") == Role.ASSISTANT:
            for key in ("content", "tool_calls"):
                last[key].extend(made[key])
        else:
            messages.append((number, made))
    return messages


def _message_of(item: Mapping[str, Any], number: int, named: Mapping[str, ChatMessage]) -> dict[str, Any] | None:
    kind = item.get("type") or "message"
    if kind == "reasoning" or str(item.get("id")).startswith("rs_"):
        return None
    if kind == "message":
        content = item.get("content")
        parts = [*content] if isinstance(content, list) else [{"type": "text", "text": content}]
        if any(isinstance(part, Mapping) and part.get("file_url") for part in parts):
            message = f"input[{number}]: a file's bytes are taken (file_data), and no address of one (file_url)."
            raise GatewayError(400, message, code="unsupported_value", param="input")
        if item.get("role") != Role.ASSISTANT:
            return {"role": item.get("role"), "content": parts}
        # pydantic-ai writes a thought without an id as a message.
        is_thought = (
            isinstance(content, str) and content and not Said({"role": Role.ASSISTANT, "content": content}).text
        )
        return None if is_thought else {"role": Role.ASSISTANT, "content": parts, "tool_calls": []}
    if kind == "function_call":
        function = {key: str(item.get(key) or "") for key in ("name", "arguments")}
        call = {"id": str(item.get("call_id") or ""), "type": "function", "function": function}
        return {"role": Role.ASSISTANT, "content": [], "tool_calls": [call]}
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    if kind == "item_reference":
        if (reply := named.get(_reply_id(item))) is None:
            raise GatewayError(404, f"Item with id {str(item.get('id'))[:255]!r} not found.", param="input")
        text = {"type": "text", "text": reply.content}
        return {"role": Role.ASSISTANT, "content": [text], "tool_calls": other_calls(reply)}
    message = f"input[{number}]: items of the type {str(kind)[:255]!r} are not supported."
    raise GatewayError(400, message, code="unsupported_value", param="input")


def _reply_id(item: Mapping[str, Any]) -> str:
    """Of a response by one of its items."""
    return "resp_" + str(item.get("id")).partition("_")[2].partition("_")[0]


def _in_chat_words(body: Mapping[str, Any]) -> dict[str, Any]:
    chat = dict(body)
    reasoning, text = (_object(chat, name) for name in ("reasoning", "text"))
    chat["max_completion_tokens"] = chat.pop("max_output_tokens", None)
    chat["reasoning_effort"], chat["verbosity"] = reasoning.get("effort"), text.get("verbosity")
    form = _object(dict(text), "format")
    if form.get("type") == "json_schema":
        schema = {key: one for key, one in form.items() if key != "type"}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form.get("type") != "text":
        chat["response_format"] = form or None
    chat["tools"] = _tools(chat.get("tools"))
    if isinstance(choice := chat.get("tool_choice"), Mapping):
        if choice.get("type") == "allowed_tools":
            allowed = {"mode": choice.get("mode"), "tools": _tools(choice.get("tools"))}
            chat["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
        else:
            chat["tool_choice"] = _tool(choice)
    return chat


def _object(body: dict[str, Any], name: str) -> Mapping[str, Any]:
    value = body.pop(name, None) or {}
    if not isinstance(value, Mapping):
        raise GatewayError(400, f"{name} must be an object.", param=name)
    return value


def _tools(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given or [], list):
        raise GatewayError(400, "tools must be a list.", param="tools")
    return list(map(_tool, given or ()))


def _tool(tool: Any) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, Mapping) else tool
    if kind != "function":
        message = f"Tools of the type {str(kind)[:255]!r} are not supported: only functions are."
        raise GatewayError(400, message, code="unsupported_value", param="tools")
    named = ("name", "description", "parameters", "strict")
    return {"type": kind, "function": {key: tool[key] for key in named if tool.get(key) is not None}}
