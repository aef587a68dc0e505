"""``POST chat/completions``, ``POST responses`` and ``GET models`` in front of the tree: :class:`Gateway`.

A host subclasses it. The steps of a request are written once: for each :class:`Form`, and under ASGI the model is
awaited, under WSGI the same steps block. Errors have OpenAI's shape; what a provider says goes on only as far as its
words are known, since it may quote the host's key.
"""

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import dropwhile
from typing import Any, Literal

import openai
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import router, transaction
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.csrf import csrf_exempt

from compaction_app import chat, exceptions
from compaction_app.api.codes import Code, problem_of, report
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.conf import get_settings
from compaction_app.context.meter import state_at
from compaction_app.contrib import sse
from compaction_app.contrib.gateway import commands
from compaction_app.contrib.gateway.asked import (
    IGNORED,
    NOTHING,
    PARAMETERS,
    Asked,
    Form,
    GatewayError,
    read_body,
    read_params,
)
from compaction_app.contrib.gateway.chat_completions import ChatCompletions
from compaction_app.contrib.gateway.identity import INSTRUCTIONS, fields_of
from compaction_app.contrib.gateway.placing import (
    Place,
    messages_named,
    name_message,
    place,
    place_beside,
    remember_reply,
)
from compaction_app.contrib.gateway.responses import Responses
from compaction_app.conversation.chat_model import END, PartialReply, ask, endpoint_of_client, open_stream
from compaction_app.conversation.recall import other_calls
from compaction_app.conversation.stream import chunks_of
from compaction_app.messages.openai_format import to_openai
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.database import give_back_connection
from compaction_app.redaction import apply_redactor, redact_parameters, redactor_of
from compaction_app.summarizers.error_details import safe_code, safe_message
from compaction_app.summarizers.waiting import AWAITED, BLOCKING, Way, without_waiting
from compaction_app.telemetry import log_error
from compaction_app.values import ContextMessage, Role

Step = Callable[[], Awaitable[Any]]
logger = logging.getLogger("compaction_app.gateway")

#: How Open WebUI and LibreChat ask for titles, tags and the like where they do not say that they do.
TASKS = re.compile(
    r"### Task:\n(?=[\s\S]*(?:<chat_history>|### Messages Being Compacted))|Your task is to reflect the speaker's"
    r"|Provide a concise, 5-word-or-less title|Analyze this conversation and provide:\n1\. The detected language"
)
#: Ids of Open WebUI for chats that it does not keep.
UNSAVED = ("temporary:", "local:")
#: What clients send before a conversation has an id; so is a placeholder that was not filled in.
NO_IDS = ("", "new", "null", "undefined")
MAX_ID = 255
#: Of what was sent for a reply, what its headers say.
_FIGURES = {"History": "history_tokens", "Threshold": "threshold", "Available": "available_tokens", "Window": "window"}


class Gateway:
    """To subclass and mount: the keys, the models, and what clients send beside the chat format."""

    #: Under WSGI the same views block, but for gevent: its workers have no event loop of their own for each request.
    is_async = True
    #: Names that are offered. Any other is refused as OpenAI refuses it.
    models: Sequence[str] = ()
    #: The provider's clients, of ``openai``; None: made from the environment.
    client: openai.OpenAI | None = None
    async_client: openai.AsyncOpenAI | None = None
    #: Of these the first that a request has names its conversation, among those of its user.
    conversation_headers: Sequence[str] = ("X-OpenWebUI-Chat-Id", "X-Conversation-Id")
    #: With any value in this header a request is no turn of a conversation.
    task_header = "X-OpenWebUI-Task"
    #: Keys of front ends, and the header in which they say who of their users asks. With other keys it does not count.
    server_keys: Collection[str] = ()
    user_header = "X-OpenWebUI-User-Id"
    #: The model may search what is summarized.
    recall: bool | Literal["prefetch"] = False
    #: Replies to one user that may be under way at once, counted in the database with those of all other doors.
    at_once = 20
    #: What a client may say to the provider. Parameters that ``openai`` does not know may be added.
    parameters: Collection[str] = PARAMETERS
    #: What clients say to themselves: left out. All else is refused.
    ignored: Collection[str] = IGNORED

    def user_of(self, key: str) -> Any:
        """The user whose key this is; None: nobody's. Keys of ``server_keys`` do not come here."""
        return None

    def user_named(self, name: str) -> Any:
        """The user whom a front end names so; None: nobody."""
        return None

    def models_of(self, user: Any) -> Sequence[str]:
        return self.models

    def authenticate(self, request: HttpRequest) -> Any:
        """The user by the bearer token; never by a cookie, since no form's token is checked."""
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            return None
        if any(constant_time_compare(key.strip(), one) for one in self.server_keys):
            name = request.headers.get(self.user_header)
            if name and (user := self.user_named(name)):
                return user
            raise GatewayError(401, f"The header {self.user_header} must name a user.", code="invalid_api_key")
        return self.user_of(key.strip())

    def is_task(self, request: HttpRequest, body: Mapping[str, Any]) -> bool:
        """Whether the request is for a title, tags and the like: it is answered, and nothing is stored.

        The client says so, or it asks in the words of one that does not. So is a chat that Open WebUI does not keep.
        """
        metadata = body.get("metadata")
        if request.headers.get(self.task_header) or (isinstance(metadata, Mapping) and metadata.get("task")):
            return True
        if self.conversation_of(request).startswith(UNSAVED):
            return True
        turns = [one for one in body["messages"] if one.get("role") not in INSTRUCTIONS]
        text = fields_of(turns[0])["content"] if len(turns) == 1 else ""
        return not turns or TASKS.match(text) is not None

    def conversation_of(self, request: HttpRequest) -> str:
        for name in self.conversation_headers:
            given = request.headers.get(name, "").strip()
            if len(given) > MAX_ID:
                raise GatewayError(400, f"The header {name} has more than {MAX_ID} characters.", param=name)
            if given.lower() not in NO_IDS and "{{" not in given:
                return given
        return ""

    @property
    def urls(self) -> list[URLPattern]:
        """For ``include()``."""
        return [
            path("chat/completions", self._view(self._complete), {"form": ChatCompletions}),
            path("responses", self._view(self._complete), {"form": Responses}),
            path("responses/<path:rest>", self._view(self._refuse)),
            path("models", self._view(self._show_models)),
            path("models/<path:name>", self._view(self._show_models)),
        ]

    def _view(self, answer: Callable[..., Awaitable[HttpResponseBase]]) -> Any:
        async def answered(request: HttpRequest, way: Way, **named: Any) -> HttpResponseBase:
            try:
                response = await answer(request, way, **named)
            except Exception as error:
                told = _refusal_of(error, request)
                response = JsonResponse(told.content, status=told.status, headers=told.headers)
            response.setdefault("Cache-Control", "no-store")
            return response

        def blocking(request: HttpRequest, **named: Any) -> HttpResponseBase:
            return without_waiting(answered(request, BLOCKING, **named))

        async def awaited(request: HttpRequest, **named: Any) -> HttpResponseBase:
            if isinstance(request, ASGIRequest):
                return await answered(request, AWAITED, **named)
            return await sync_to_async(blocking)(request, **named)

        view: Any = awaited if self.is_async else blocking
        # No transaction may be open while a model is called.
        for alias in settings.DATABASES:
            view = transaction.non_atomic_requests(using=alias)(view)
        return csrf_exempt(view)

    def _user(self, request: HttpRequest, method: str) -> Any:
        if request.method != method:
            raise GatewayError(405, f"The method is {method}.", allow=method)
        user = self.authenticate(request)
        if user is None or not user.is_active:
            raise GatewayError(401, "Incorrect API key provided.", code="invalid_api_key")
        return user

    async def _show_models(self, request: HttpRequest, way: Way, name: str = "") -> HttpResponseBase:
        names = await way.do(lambda: list(self.models_of(self._user(request, "GET"))))
        listed = {one: {"id": one, "object": "model", "created": 0, "owned_by": "site"} for one in names}
        if name:
            _check_model(name, names)
        return JsonResponse(listed[name] if name else {"object": "list", "data": list(listed.values())})

    async def _refuse(self, request: HttpRequest, way: Way, rest: str) -> HttpResponseBase:
        await way.do(self._user, request, str(request.method))
        message = "Here only POST responses is answered: name an earlier response as previous_response_id."
        raise GatewayError(404, message, code="unknown_url")

    async def _complete(self, request: HttpRequest, way: Way, form: type[Form]) -> HttpResponseBase:
        asked = await way.do(self._read, request, form)
        client = self.async_client if way.is_awaited else self.client
        if asked.command:
            return await self._answer_command(asked, asked.command, way)
        answer = self._answer_task if asked.is_task else self._answer_turn
        return await answer(asked, client, way)

    async def _answer_turn(self, asked: Asked, client: Any, way: Way) -> HttpResponseBase:
        found: Place = await way.do(self._place, asked)
        options = {**asked.params, "client": client, "model": asked.model, "tools": asked.tools, "recall": self.recall}
        options |= {"system_prompt": found.system_prompt, "contributions": found.contributions}
        options["at_once"] = self.at_once
        call: Any = chat.acomplete if way.is_awaited else chat.complete
        if asked.is_streamed:
            # The client sends back what it was shown of a reply that it stops.
            call, options["on_stop"] = chat.astream if way.is_awaited else chat.stream, "keep"

        async def answer_at(at: Place) -> Any:
            regenerate = at.is_known and not asked.is_retry
            return await way.call(call, at.tip, regenerate=regenerate, **options)

        try:
            reply = await answer_at(found)
        except exceptions.ReplyUnderWay:
            # Several models at once, or the same question twice.
            if asked.is_retry and (asked.external_id or found.has_reply):
                raise
            found = await way.do(place_beside, found)
            reply = await answer_at(found)
        headers = {"X-Compaction-Session": str(found.session.pk), "X-Compaction-Message": str(found.tip.pk)}
        # What is sent is known once a stream is open: an awaited one is by its first chunk.
        opened = [await anext(reply, END)] if asked.is_streamed and way.is_awaited else []
        headers |= await way.do(_meter_headers, found.tip, reply)
        remembered: ChatMessage | None = None

        async def remember(stored: ChatMessage | None) -> None:
            nonlocal remembered
            if stored is not None and stored is not remembered:
                await way.do(remember_reply, found, stored, asked.form.reply_id)
                remembered = stored
                if self.recall is True:
                    stored.tool_calls = other_calls(stored)

        # A request that is sent again gets the reply that is stored, under the id that it has.
        earlier = reply if isinstance(reply, ChatMessage) else reply.message
        asked.form.reply_id = (earlier and earlier.external_id) or asked.form.reply_id
        if not asked.is_streamed:
            await remember(reply)
            return JsonResponse(asked.form.whole(reply), headers=headers)

        async def read() -> Any:
            chunk = opened.pop() if opened else (await anext(reply, END) if way.is_awaited else next(reply, END))
            # Before the last chunk is sent: the client's next request may follow at once.
            await remember(reply.message)
            return chunk

        async def close() -> None:
            await way.call(reply.aclose if way.is_awaited else reply.close)
            await remember(reply.message)

        return _streamed(read, close, lambda: reply.message, asked.form, way, headers)

    def _read(self, request: HttpRequest, form: type[Form]) -> Asked:
        user = self._user(request, "POST")
        body = read_body(request)
        model = str(body.get("model"))
        _check_model(model, self.models_of(user))
        read = form(body)
        params = read_params(read, self.parameters, self.ignored)
        messages = read.messages(partial(messages_named, user))
        above = messages_named(user, [read.previous_id]).get(read.previous_id)
        if read.previous_id not in ("", NOTHING) and above is None:
            message = f"Previous response with id {read.previous_id[:MAX_ID]!r} not found."
            raise GatewayError(400, message, code="previous_response_not_found", param="previous_response_id")
        prompt, turns = read.instructions, messages
        if prompt is None and above is None:
            turns = list(dropwhile(lambda one: one["role"] in INSTRUCTIONS, messages))
            leading = messages[: len(messages) - len(turns)]
            prompt = "\n\n".join(one["content"] for one in leading if one["content"])
        turns, command = commands.without_commands(turns), commands.command_in(messages[-1])
        is_task = self.is_task(request, {"messages": messages, **read.body})
        if not (turns or command or is_task):
            raise GatewayError(400, "There is no message behind the gateway's own answer.")
        return Asked(
            form=read,
            user=user,
            model=model,
            messages=[*([{"role": Role.SYSTEM, "content": prompt}] if read.instructions else []), *messages],
            turns=turns,
            instructions=above.session.system_prompt if prompt is None and above else str(prompt),
            below=(chat.answer_recalls(above) or above) if above else None,
            command=command,
            is_task=is_task,
            external_id=self.conversation_of(request),
            params=params,
            tools=read.body.get("tools") or None,
            is_streamed=bool(body.get("stream")),
            is_retry=request.headers.get("X-Stainless-Retry-Count", "0") != "0",
        )

    def _place(self, asked: Asked) -> Place:
        using = router.db_for_write(ChatSession)
        new = {"model": asked.model, "system_prompt": asked.instructions, "using": using}
        return place(asked.user, asked.turns, asked.external_id, asked.is_retry, asked.below, **new)

    async def _answer_command(self, asked: Asked, command: tuple[str, str], way: Way) -> HttpResponseBase:
        """In place of a model, at the end of the branch, of which a later request goes on as if it had not been."""
        has_place = not asked.is_task and (asked.turns or asked.below)
        found: Place | None = await way.do(self._place, asked) if has_place else None
        text = await commands.answer(command, found.tip if found else None, asked.user, way)
        if asked.form.reply_id and found:
            await way.do(name_message, found.tip, asked.form.reply_id)
        if asked.form.reply_id:
            asked.form.reply_id = found.tip.external_id if found else NOTHING
        return _given(asked, way, _unstored({"content": text, "model": asked.model}))

    async def _answer_task(self, asked: Asked, client: Any, way: Way) -> HttpResponseBase:
        """Ask without a place in the tree."""
        arguments = await way.do(_task_arguments, asked, client)
        if not asked.is_streamed:
            return _given(asked, way, _unstored((await ask(client, arguments, way)).fields))
        opened, draft = await open_stream(client, arguments, way), PartialReply()

        async def read() -> Any:
            if (chunk := await opened.read()) is not END:
                draft.add(chunk)
            return chunk

        return _streamed(read, opened.close, lambda: _unstored(draft.so_far().fields), asked.form, way, {})


def _meter_headers(tip: ChatMessage, reply: Any) -> dict[str, str]:
    """How full the window was for a reply, or for a stream of one, and what compaction does there."""
    sent = reply.sent_context or {} if isinstance(reply, ChatMessage) else reply.sent
    figures = {f"X-Compaction-{name}": str(sent[key]) for name, key in _FIGURES.items() if key in sent}
    state, code, _ = state_at(tip, sent)
    told = {"State": str(state), "Code": code, "Fallback-Used": str(reply.fallback_used).lower()}
    return figures | {f"X-Compaction-{name}": value for name, value in told.items() if value}


def _check_model(name: str, names: Collection[str]) -> None:
    if name not in names:
        message = f"The model {name[:255]!r} does not exist or you do not have access to it."
        raise GatewayError(404, message, code="model_not_found", param="model")


def _task_arguments(asked: Asked, client: Any) -> dict[str, Any]:
    if not is_allowed(asked.user, None, Action.CREATE):
        raise PermissionDenied
    redact = redactor_of(get_settings({}))
    params = redact_parameters({**asked.params, **({"tools": asked.tools} if asked.tools else {})}, redact)
    shown = [apply_redactor(ContextMessage(tokens=0, **one), redact) for one in asked.messages]
    give_back_connection(ChatSession())
    messages = to_openai(shown, endpoint=endpoint_of_client(client), model=asked.model)
    return {**params, "model": asked.model, "messages": messages}


def _unstored(fields: Mapping[str, Any]) -> ChatMessage:
    return ChatMessage(role=Role.ASSISTANT, created_at=timezone.now(), **fields)


def _given(asked: Asked, way: Way, reply: ChatMessage) -> HttpResponseBase:
    """A reply that is whole and not stored."""
    if not asked.is_streamed:
        return JsonResponse(asked.form.whole(reply))
    chunks = iter(chunks_of(reply))

    async def read() -> Any:
        return next(chunks, END)

    async def close() -> None:
        pass

    return _streamed(read, close, lambda: reply, asked.form, way, {})


def _streamed(
    read: Step, close: Step, reply: Callable[[], ChatMessage], form: Form, way: Way, headers: Mapping[str, str]
) -> StreamingHttpResponse:
    """``read``: the next chunk, or ``END``. ``close``: called however it ends, also where the client hangs up.

    ``reply``: what it was, at its end.
    """

    async def events() -> AsyncGenerator[str]:
        try:
            if begun := form.begun():
                yield begun
            while (chunk := await read()) is not END:
                # An empty piece would end the body.
                if said := form.chunk(chunk):
                    yield said
            yield form.ended(reply())
        except Exception as error:
            yield form.failed(_refusal_of(error))
        finally:
            try:
                await close()
            except Exception as error:
                # Raised here, it would follow the last event, which the client has read.
                log_error(logger, error, step="close")

    return sse.response(events() if way.is_awaited else _blocking(events()), headers)


def _blocking(events: AsyncGenerator[str]) -> Iterator[str]:
    """The events of a generator that waits for nothing."""
    try:
        while True:
            yield without_waiting(anext(events))
    except StopAsyncIteration:
        return
    finally:
        without_waiting(events.aclose())


def _refusal_of(error: Exception, request: HttpRequest | None = None) -> GatewayError:
    """The answer to an error, in the words of OpenAI's clients."""
    if isinstance(error, GatewayError):
        return error
    broke_off = isinstance(error, exceptions.StreamInterrupted)
    if said := _said_by_provider(error.__cause__ if broke_off else error):
        return said
    problem = problem_of(error)
    step = "provider" if isinstance(error, openai.OpenAIError) else "gateway"
    report(error, problem, logger, request, step=step, status=getattr(error, "status_code", None))
    # They know no 422, and ask again at 409: what was deleted meanwhile is stored anew.
    status = 400 if problem.code.status == 422 or problem.code is Code.DUPLICATE else problem.code.status
    status = 409 if isinstance(error, exceptions.MessageNotFound) else status
    own = error if isinstance(error, exceptions.CompactionError) else None
    known = {Code.CONTEXT_OVERFLOW: "context_length_exceeded", Code.FORBIDDEN: "forbidden"}
    code = known.get(problem.code) or getattr(own, "code", None)
    return GatewayError(status, problem.detail, code=code, param=getattr(own, "field", None), **problem.headers)


def _said_by_provider(error: BaseException | None) -> GatewayError | None:
    """Where it is the client's mistake, or too much; what else a provider refuses is a matter of the host's."""
    if not isinstance(error, openai.APIError):
        return None
    said = error.body if isinstance(error.body, Mapping) else {}
    code, kind = safe_code(error.code), safe_code(error.type)
    status = getattr(error, "status_code", None) or (429 if "rate_limit" in code + kind else said.get("code"))
    if status not in (400, 413, 422, 429):
        return None
    # The client's own message has the whole body in it.
    message = safe_message(str(said.get("message") or ""), "") or "The model's provider refused the request."
    after = error.response.headers.get("Retry-After") if isinstance(error, openai.APIStatusError) else None
    return GatewayError(status, message, code=code or None, kind=kind, retry_after=after)
