"""Three hundred streamed turns with providers that write oddly, and that refuse whatever is not valid for them.

The client below is a host's: it streams, stores what it got, answers calls, asks again after an error. The providers
check each request as strict ones do and refuse it with 400; such a refusal fails the test.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections import Counter
from typing import Any

import openai
import pytest

from compaction_app import chat
from compaction_app.exceptions import InvalidReply, StreamInterrupted
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import ExactTokenCounter
from compaction_app.tree.verify import verify_session
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

TURNS = 300
#: What the first provider really takes, and what the host believes that it takes.
REAL_WINDOW, CONFIGURED_WINDOW = 24_000, 32_000
#: What a picture costs there.
PICTURE_TOKENS = 1_100
STANDARD = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "id", "type", "function"}
THOUGHT = "c2lnbmF0dXJl"


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x7f" * width for _ in range(height)))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def function(name: str = "look", arguments: Any = '{"at": "sea"}', **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*made: dict[str, Any], **message: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [dict(call) for call in made], **message}


#: Replies that a client must be able to store and answer, as whole messages or as deltas.
ODD: dict[str, list[dict[str, Any]]] = {
    "arguments that are not JSON": [calls(function(arguments='{"at": "sea",}'))],
    "no arguments": [calls(function(arguments=""))],
    "arguments as an object": [calls(function(arguments={"at": "sea"}))],
    "arguments as a list": [calls(function(arguments='["sea"]'))],
    "an empty id": [calls(function(id=""))],
    "an id that is null": [calls(function(id=None))],
    "two calls with one id": [calls(function(index=0), function(index=1, arguments='{"at": "land"}'))],
    "an id of 391 characters": [calls(function(id="call_" + "x" * 386))],
    "all calls have index 0 and no id": [
        {"tool_calls": [{"index": 0, "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}]},
        {"tool_calls": [{"index": 0, "type": "function", "function": {"name": "look", "arguments": '{"at": "b"}'}}]},
    ],
    "pieces of two parallel calls": [
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"at": "b"}'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at": "a"}'}}]},
    ],
    "a signature on a call": [calls(function(extra_content={"google": {"thought_signature": THOUGHT}}))],
    "reasoning under its own name": [{"reasoning_content": "Let me see."}, {"content": "It is the sea."}],
    "reasoning details": [
        {"reasoning_details": [{"type": "reasoning.text", "text": "The sea,"}]},
        {"content": "It is the sea."},
    ],
    "content in parts": [
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
        {"content": [{"type": "text", "text": "It is the sea."}]},
    ],
    "a line end beside calls": [{"content": "\n", **{k: v for k, v in calls(function()).items() if k != "content"}}],
    "annotations": [
        {"content": "It is the sea.", "annotations": [{"type": "url_citation", "url": "https://a.example"}]}
    ],
}
#: Answers after which a client asks again.
FAILED = {
    "finish_reason error": steps.stream_of("Half a", finish_reason="error"),
    "content_filter": steps.stream_of("Half a", finish_reason="content_filter"),
    "an error in a 200": steps.event({"error": {"message": "upstream", "code": 502}}),
    "an error in the middle": steps.stream_of("Half a", then=steps.error_event()),
    "broken off": steps.stream_of("Half a", then=steps.hang(0)),
    "no end": steps.stream_of("Half a", finish_reason=None),
    "nothing": steps.stream_of(),
    "blanks": steps.stream_of(" \n"),
    "a page": steps.malformed(b"<html>502</html>", "text/html"),
    "a 500": steps.server_error(),
    "a 429": steps.rate_limited(retry_after=0),
}


def wrong_with(body: dict[str, Any], own_ids: set[str]) -> str:
    """What a strict provider would refuse in a request; "" if nothing. It takes any id that it made itself."""
    waiting: list[str] = []
    for message in body["messages"]:
        role, content, made = message["role"], message.get("content"), message.get("tool_calls") or []
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return f"a result without its call: {message['tool_call_id']!r}"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"no result for {waiting}"
        if isinstance(content, str) and not content.strip():
            return f"a {role} message of blanks"
        if isinstance(content, list) and not all(wrong_part(part) == "" for part in content):
            return f"parts of a {role} message: {[wrong_part(part) for part in content]}"
        if not content and not made:
            return f"a {role} message of nothing"
        for call in made:
            if wrong := wrong_call(call, own_ids):
                return wrong
        waiting = [call["id"] for call in made]
        if len(set(waiting)) < len(waiting):
            return "two calls with one id"
    return f"no result for {waiting}" if waiting else ""


def wrong_call(call: dict[str, Any], own_ids: set[str]) -> str:
    if call["id"] not in own_ids and not 0 < len(call["id"]) <= 40:
        return f"an id of {len(call['id'] or '')} characters"
    if call["type"] != "function":
        return f"a call of type {call['type']}"
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return "arguments that are not JSON"
    return "" if isinstance(arguments, dict) else "arguments that are no object"


def wrong_part(part: dict[str, Any]) -> str:
    if part["type"] == "image_url":
        return "" if re.match(r"https://|data:image/png;base64,", part["image_url"]["url"]) else "an address"
    if part["type"] in ("thinking", "file", "input_audio"):
        return ""
    return "" if part["type"] == "text" and part["text"].strip() else f"a part of type {part['type']}"


def tokens_of(body: dict[str, Any]) -> int:
    pictures = 0
    texts = []
    for message in body["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        pictures += sum(part["type"] == "image_url" for part in parts)
        texts += [str(part.get("text") or "") for part in parts]
        texts += [json.dumps(call) for call in message.get("tool_calls") or []]
    return sum(ExactTokenCounter()(texts)) + 4 * len(body["messages"]) + PICTURE_TOKENS * pictures


class Provider:
    """One endpoint: takes valid requests that fit its window, and gives the next of its odd answers."""

    def __init__(self, window: int, known: set[str] | None) -> None:
        self.window = window
        #: Keys of messages and calls beyond which it refuses; None: any.
        self.known = known
        self.refused: list[str] = []
        self.overflows = 0
        #: Names of ODD and FAILED in turn.
        self.next: list[str] = []
        self.gave: Counter[str] = Counter()
        self.signatures_sent_back = 0
        self.ids: set[str] = set()

    def __call__(self, exchange: Exchange) -> None:
        body = exchange.body
        wrong = wrong_with(body, self.ids) or self._unknown(body)
        if wrong:
            self.refused.append(wrong)
            exchange.send_error(400, message=f"Invalid request: {wrong}", type="invalid_request_error")
            return
        sent = tokens_of(body)
        if sent > self.window:
            self.overflows += 1
            steps.context_overflow(n_prompt_tokens=sent, n_ctx=self.window)(exchange)
            return
        self.signatures_sent_back += THOUGHT in json.dumps(body["messages"])
        usage = {"prompt_tokens": sent, "completion_tokens": 9, "total_tokens": sent + 9}
        answered = body["messages"][-1]["role"] == "tool"
        name = "" if answered or not self.next else self.next.pop(0)
        self.gave[name] += 1
        if name in FAILED:
            FAILED[name](exchange)
        elif name in ODD:
            made = [call for delta in ODD[name] for call in delta.get("tool_calls") or []]
            self.ids |= {call["id"] for call in made if call.get("id")}
            if self.known is not None:
                self.known |= {key for one in [*ODD[name], *made] for key in one}
            steps.stream_of(*ODD[name], finish_reason="tool_calls" if made else "stop", usage=usage)(exchange)
        else:
            steps.stream_of("Noted: ", "the sea is calm. " * 20, usage=usage)(exchange)

    def _unknown(self, body: dict[str, Any]) -> str:
        """A key that it did not give out itself, where it is strict."""
        if self.known is None:
            return ""
        given = [*body["messages"], *(call for message in body["messages"] for call in message.get("tool_calls") or [])]
        unknown = {key for one in given for key in one} - self.known
        return f"unknown keys {unknown}" if unknown else ""


class Host:
    """A chat product's own loop."""

    def __init__(self, session: ChatSession) -> None:
        self.session = session
        self.tip: ChatMessage | None = None
        self.asked: list[int] = []
        self.replies: list[int] = []

    def use(self, server: ScriptedOpenAIServer, provider: Provider, model: str) -> None:
        self.provider, self.model = provider, model
        self.client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=10)

    def turn(self, number: int) -> None:
        question = f"Question {number}: what of the sea? " + "The wind is from the west, as it was before. " * 25
        content: Any = question
        if number % 6 == 1:
            content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": png(64, 48)}}]
        if number % 6 == 4:
            address = f"https://pictures.example/{number}.png"
            content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": address}}]
        self.tip = chat.append_message(self.session, self.tip, role="user", content=content)
        self.asked.append(self.tip.pk)
        for _ in range(6):
            reply = self.ask()
            if not reply.tool_calls:
                return
            for call in reply.tool_calls:
                self.tip = chat.append_message(
                    self.session, self.tip, role="tool", tool_call_id=call["id"], content=self.run(call)
                )
        pytest.fail("a tool loop that does not end")

    def ask(self) -> ChatMessage:
        """Streams until a reply is stored. A reply that is refused is stored by hand, as the docs say."""
        assert self.tip is not None
        failures: list[Exception] = []
        while len(failures) < 4:
            try:
                stream = chat.stream(self.tip, client=self.client, model=self.model)
                for _chunk in stream:
                    pass
                assert stream.message is not None
                self.tip = stream.message
                self.replies.append(self.tip.pk)
                return self.tip
            except (StreamInterrupted, InvalidReply, openai.APIError) as error:
                failures.append(error)
        pytest.fail(f"four failures for one question: {failures}; {self.provider.refused}")

    def run(self, call: dict[str, Any]) -> str:
        try:
            json.loads(call["function"]["arguments"] or "{}")["at"]
        except (ValueError, KeyError, TypeError) as error:
            return f"Error: bad arguments: {error}"
        return "A long look. " + "Waves, and more waves. " * 60

    def compact(self) -> None:
        """What the workers do meanwhile."""
        for run in CompactionRun.objects.filter(session=self.session).open():
            compact_branch(run.pk)


def test_no_turn_is_lost_and_no_prompt_is_refused(settings: Any) -> None:
    settings.COMPACTION = small(
        CONTEXT_WINDOW=CONFIGURED_WINDOW,
        RESERVED_TOKENS=1_000,
        TOKEN_COUNTER="compaction_app.tokens.ExactTokenCounter",
    )
    lax, strict = Provider(REAL_WINDOW, None), Provider(CONFIGURED_WINDOW, set(STANDARD))
    host = Host(chat.start_session(system_prompt="You watch the sea."))
    names = [*ODD, *FAILED]
    with ScriptedOpenAIServer(default=lax) as first, ScriptedOpenAIServer(default=strict) as second:
        host.use(first, lax, "lax-model")
        for number in range(TURNS):
            if number == TURNS // 2:
                host.use(second, strict, "strict-model")
            host.provider.next = [names[number % len(names)]]
            host.turn(number)
            # Workers are away for a while: the prompt has to be cut to fit.
            if not 60 < number < 90:
                host.compact()
    assert (lax.refused, strict.refused) == ([], [])
    assert all(lax.gave[name] and strict.gave[name] for name in names)
    assert lax.overflows
    assert lax.signatures_sent_back
    # Each question and each reply is there once, on one branch.
    branch = chat.get_branch(host.tip)
    ids = [message.pk for message in branch]
    assert [message.pk for message in branch if message.role == "user"] == host.asked
    assert set(host.replies) <= set(ids)
    assert len(ids) == ChatMessage.objects.filter(session=host.session).messages().count()
    assert ChatMessage.objects.filter(session=host.session).summaries().count() > 5
    assert verify_session(host.session).problems == []
    assert chat.get_context(host.tip).tokens <= CONFIGURED_WINDOW
