"""Reading a request: what it asks, or why it is refused.

What the answer would not follow is refused by name, as OpenAI does it, and never left out in silence. A value that asks
for what happens anyway (``n=1``, ``store=false``) is no reason to refuse a client that writes it out. :class:`Form` is
what each address has of its own: how a request is read, and an answer written.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from compaction_app.conf import site_setting
from compaction_app.contrib.gateway.identity import Fields, fields_of
from compaction_app.messages.validation import check_json, check_list_of_dicts, named, validate_message
from compaction_app.models import ChatMessage
from compaction_app.models.columns import checks_of
from compaction_app.values import Role

#: Parameters that reach the provider. What they say passes ``REDACTOR``.
PARAMETERS = frozenset(
    "frequency_penalty logit_bias max_completion_tokens max_tokens parallel_tool_calls presence_penalty"
    " prompt_cache_key reasoning_effort response_format safety_identifier seed stop temperature tool_choice top_p user"
    " verbosity".split()
)
#: What front ends say to themselves, and how a prompt is cached: it is not the one that they wrote.
IGNORED = frozenset(
    "background_tasks chat_id features filter_ids id prompt_cache_options prompt_cache_retention session_id tool_ids"
    " tool_servers variables".split()
)
#: Values that ask for nothing but what happens anyway, at each address.
USUAL: Mapping[str, Collection[Any]] = {
    "top_logprobs": (0,),
    "service_tier": ("auto", "default"),
    "metadata": ({},),
}
#: An address that a provider may open: a model's server beside this one could open a file.
_ADDRESS = re.compile(r"https?://|data:(?![^,]*;base64,)|data:[^,]*,(?P<base64>[\w+/-]*=*)\Z", re.IGNORECASE | re.ASCII)
#: Those who open an address leave these out.
_BLANKS = re.compile(r"[\x00-\x20\x7f-\xa0\u2000-\u200f\u2028-\u202f\ufeff]+")
#: No path of a file is as long; a shorter one is written with the letters of base64, but seldom of its length.
_LONGEST_PATH = 4096
MAX_MESSAGES = 10_000
#: The id of an answer before anything was said: what names it begins a conversation.
NOTHING = f"resp_{0:032x}"
#: Messages in the chat format, with the places in a client's list that errors name.
Numbered = Callable[[Iterable[Any]], Iterable[tuple[int, Mapping[str, Any]]]]
#: The user's own replies by the ids that clients know, as many as there are.
Find = Callable[[Collection[str]], Mapping[str, ChatMessage]]


class GatewayError(Exception):
    """An error to answer with, in OpenAI's shape. ``headers``: of the answer, ``retry_after=1``."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = "",
        **headers: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        if not kind:
            kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
        self.content = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.headers = {name.replace("_", "-"): str(value) for name, value in headers.items() if value}


class Form:
    """What one address takes and gives: a request in its form, and the answer to it, whole or as a stream of events."""

    #: Of a body what is read here, and not sent as it is.
    read: ClassVar[Collection[str]]
    usual: ClassVar[Mapping[str, Collection[Any]]]
    #: What to do in place of a parameter that has no effect.
    instead: ClassVar[Mapping[str, str]] = {}

    def __init__(self, body: Mapping[str, Any]) -> None:
        #: In the parameters of chat completions.
        self.body = body
        #: By which the reply is named in a later request; "": by none.
        self.reply_id = ""
        #: What the new messages follow, by the id of an answer; "": the request has all messages.
        self.previous_id = ""
        #: None: the leading ones of the messages, or with ``previous_id`` those of the session.
        self.instructions: str | None = None

    def messages(self, find: Find) -> list[Fields]:
        """In the keywords of ``append_message``."""
        raise NotImplementedError

    def whole(self, reply: ChatMessage) -> dict[str, Any]:
        """The answer; ``reply`` may not be stored."""
        raise NotImplementedError

    def begun(self) -> str:
        """The events before the first chunk."""
        return ""

    def chunk(self, chunk: Any) -> str:
        raise NotImplementedError

    def ended(self, reply: ChatMessage) -> str:
        raise NotImplementedError

    def failed(self, error: GatewayError) -> str:
        """The last event of a stream that broke off."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that was read and may be answered."""

    form: Form
    user: Any
    model: str
    #: In the keywords of ``append_message``: all, and those behind the leading instructions.
    messages: Sequence[Fields]
    turns: Sequence[Fields]
    instructions: str
    #: What the turns follow, where the request names it.
    below: ChatMessage | None
    #: Of the gateway itself, in place of a question: its name, and the words behind it.
    command: tuple[str, str] | None
    is_task: bool
    external_id: str
    #: For the provider.
    params: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] | None
    is_streamed: bool
    #: The client sends a request again that got no answer.
    is_retry: bool


def read_body(request: HttpRequest) -> dict[str, Any]:
    try:
        body = json.loads(request.body.decode())
    except (ValueError, RecursionError) as error:
        raise GatewayError(400, "The body is not JSON.") from error
    if not isinstance(body, dict):
        raise GatewayError(400, "The body must be an object.")
    check_json(body, "body")
    return body


def read_messages(
    sent: Any, name: str = "messages", numbered: Numbered = enumerate, *, is_told: bool = False
) -> list[Fields]:
    """The list of a request, each message in the keywords of ``append_message``. ``is_told``: beside it, what to do."""
    check_list_of_dicts(sent, name, "messages (dicts in the OpenAI chat format)")
    if not 0 < len(sent) <= MAX_MESSAGES:
        raise GatewayError(400, f"There must be from 1 to {MAX_MESSAGES:,} {name}.", param=name)
    messages = []
    for number, one in numbered(sent):
        with named(number):
            messages.append(fields_of(one))
            validate_message(messages[-1], checks_of(ChatMessage), max_bytes=site_setting("MAX_MESSAGE_BYTES"))
        for file in messages[-1].get("attachments") or ():
            if (url := file.get("url")) and not _is_address(url):
                message = f"{name}[{number}]: the address of a picture, sound or file begins with https: or data:."
                raise GatewayError(400, message, code="invalid_value", param=name)
    last = messages[-1] if messages else None
    if not last or not (is_told or last["role"] != Role.USER or last["content"].strip() or last.get("attachments")):
        raise GatewayError(400, "The last message is empty.", param=name)
    return messages


def _is_address(url: str) -> bool:
    found = _ADDRESS.match(_BLANKS.sub("", url))
    payload = (found["base64"] or "") if found else ""
    return bool(found) and (len(payload) % 4 == 0 or len(payload) > _LONGEST_PATH)


def read_params(form: Form, parameters: Collection[str], ignored: Collection[str]) -> dict[str, Any]:
    """What of a request goes to the provider as it is; :class:`GatewayError` names what would have no effect."""
    params = {}
    for key, value in form.body.items():
        if value is None or key in form.read:
            continue
        if key in parameters:
            params[key] = value
        elif key == "n" and value != 1:
            raise GatewayError(
                400, "A branch has one reply: only n=1 is supported.", code="unsupported_value", param="n"
            )
        elif not (
            key in ignored or any(value == usual for usual in form.usual.get(key, ())) or _names_task(key, value)
        ):
            instead = form.instead.get(key, "leave it out")
            message = f"{key[:255]!r} has no effect here, so it is not accepted: {instead}."
            raise GatewayError(400, message, code="unsupported_parameter", param=key[:255])
    known = CompletionCreateParamsBase.__annotations__
    if others := {key: params.pop(key) for key in list(params) if key not in known}:
        params["extra_body"] = others
    return params


def _names_task(key: str, value: Any) -> bool:
    """Of metadata what :meth:`Gateway.is_task` reads; a provider keeps the rest with what it stores."""
    return key == "metadata" and isinstance(value, Mapping) and bool(value.get("task"))
