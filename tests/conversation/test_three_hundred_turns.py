"""Three hundred streamed turns with tools, pictures and reasoning, where providers write oddly, fail and refuse.

The client below is a host's: it streams, answers calls, and asks again after an error. The providers check each request
as strict ones do and refuse it with 400, which fails the test.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import openai
import pytest

from compaction_app import chat
from compaction_app.exceptions import InvalidReply, StreamInterrupted
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import ExactTokenCounter
from compaction_app.tree.verify import verify_session
from tests.conversation.test_odd_replies import ODD, message
from tests.small import small, tool_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

#: What the first provider really takes, and what the host believes that it takes.
REAL_WINDOW, CONFIGURED_WINDOW = 24_000, 32_000
STANDARD = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "id", "type", "function"}
SIGNED_CALL = tool_call(extra_content={"google": {"thought_signature": "c2lnbmF0dXJl"}})
#: A sound is understood only by who made it.
WRITTEN = {name: parts for name, parts in ODD.items() if "audio" not in parts} | {
    "signed": {"tool_calls": [SIGNED_CALL]},
    "reasoning": {"content": "Aye.", "reasoning_content": "Let me see."},
    "details of reasoning": {"content": "Aye.", "reasoning_details": [{"type": "reasoning.text", "text": "The sea"}]},
}
PICTURES = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==",
    "https://pictures.example/sea.png",
)
ANSWERS: dict[str, Step] = {name: message(**{"content": None, **parts}) for name, parts in WRITTEN.items()} | {
    "finish_reason error": steps.stream_of("Half a", finish_reason="error"),
    "content_filter": steps.stream_of("Half a", finish_reason="content_filter"),
    "an error in a 200": steps.event({"error": {"message": "upstream", "code": 502}}),
    "an error in the middle": steps.stream_of("Half a", then=steps.error_event()),
    "broken off": steps.stream_of("Half a", then=steps.hang(0)),
    "no end": steps.stream_of("Half a", finish_reason=None),
    "nothing": steps.stream_of(),
    "a page": steps.malformed(b"<html>502</html>", "text/html"),
    "a 429": steps.rate_limited(retry_after=0),
}


def keys_of(one: dict[str, Any]) -> set[str]:
    """Of a message and of its calls."""
    made = one.get("tool_calls")
    return {key for part in (one, *(made if isinstance(made, list) else ())) for key in part}


def wrong_with(messages: list[dict[str, Any]], known: set[str] | None) -> str:
    """What a strict provider would refuse in a request; "" if nothing. ``known``: the only keys that it takes."""
    waiting: list[str] = []
    for one in messages:
        content, made = one.get("content"), one.get("tool_calls") or []
        if known and (unknown := keys_of(one) - known):
            return f"unknown keys {unknown}"
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                return f"a result without its call: {one['tool_call_id']!r}"
            waiting.remove(one["tool_call_id"])
            continue
        if waiting:
            return f"no result for {waiting}"
        if (isinstance(content, str) and not content.strip()) or not (content or made):
            return f"a {one['role']} message of nothing"
        waiting = [call["id"] for call in made]
        if len(set(waiting)) < len(waiting) or not all(waiting):
            return f"ids {waiting}"
        for call in made:
            if call["type"] == "function" and not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments that are no object"
    return f"no result for {waiting}" if waiting else ""


class Provider:
    """One endpoint: takes valid requests that fit its window, and gives the next of its odd answers."""

    def __init__(self, window: int, known: set[str] | None) -> None:
        self.window, self.known = window, known
        self.refused: list[str] = []
        self.overflows = self.signatures_sent_back = 0
        self.pictures: set[str] = set()
        #: A name of ANSWERS.
        self.next = ""
        self.gave: Counter[str] = Counter()

    def __call__(self, exchange: Exchange) -> None:
        messages = exchange.body["messages"]
        if wrong := wrong_with(messages, self.known):
            self.refused.append(wrong)
            exchange.send_error(400, message=f"Invalid request: {wrong}", type="invalid_request_error")
            return
        sent = sum(ExactTokenCounter()([json.dumps(one) for one in messages]))
        if sent > self.window:
            self.overflows += 1
            steps.context_overflow(n_prompt_tokens=sent, n_ctx=self.window)(exchange)
            return
        parts = (part for one in messages if isinstance(one["content"], list) for part in one["content"])
        self.pictures.update(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
        self.signatures_sent_back += "thought_signature" in json.dumps(messages)
        name, self.next = self.next, ""
        self.gave[name] += 1
        if self.known:
            self.known |= keys_of(WRITTEN.get(name, {}))
        usual = steps.stream_of(
            "Noted: ", "the sea is calm. " * 20, usage={"prompt_tokens": sent, "total_tokens": sent}
        )
        ANSWERS.get(name, usual)(exchange)


def ask(tip: ChatMessage, client: openai.OpenAI, model: str, provider: Provider) -> ChatMessage:
    """Streams until a reply is stored."""
    failures: list[Exception] = []
    while len(failures) < 4:
        try:
            stream = chat.stream(tip, client=client, model=model)
            list(stream)
            assert stream.message is not None
            return stream.message
        except (StreamInterrupted, InvalidReply, openai.APIError) as error:
            failures.append(error)
    pytest.fail(f"four failures for one question: {failures}; {provider.refused}")


def test_no_turn_is_lost_and_no_prompt_is_refused(settings: Any) -> None:
    settings.COMPACTION = small(
        CONTEXT_WINDOW=CONFIGURED_WINDOW,
        RESERVED_TOKENS=1_000,
        TOKEN_COUNTER="compaction_app.tokens.ExactTokenCounter",
    )
    session, tip = chat.start_session(system_prompt="You watch the sea."), None
    asked, replies = [], []
    for model, provider in (("lax", Provider(REAL_WINDOW, None)), ("strict", Provider(CONFIGURED_WINDOW, {*STANDARD}))):
        with ScriptedOpenAIServer(default=provider) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=10)
            for number, provider.next in enumerate([*ANSWERS] * 5):
                question = (
                    f"Question {number}: what of the sea? " + "The wind is from the west, as it was before. " * 25
                )
                shown = (
                    [{"type": "image", "name": "sea", "url": PICTURES[number // 5 % 2]}] if number % 5 == 0 else None
                )
                tip = chat.append_message(session, tip, role="user", content=question, attachments=shown)
                asked.append(tip.pk)
                while not replies or replies[-1] != tip.pk:
                    tip = ask(tip, client, model, provider)
                    replies.append(tip.pk)
                    for call in tip.tool_calls or ():
                        result = {"tool_call_id": call["id"], "content": "Waves, and more waves. " * 60}
                        tip = chat.append_message(session, tip, role="tool", **result)
                # Workers are away for a while: the prompt has to be cut to fit.
                if not 40 < number < 80:
                    for run in CompactionRun.objects.filter(session=session).open():
                        compact_branch(run.pk)
        assert provider.refused == []
        assert all(provider.gave[name] for name in ANSWERS)
        assert provider.signatures_sent_back
        assert provider.pictures == {*PICTURES}
        assert provider.overflows or model == "strict"
    assert len(asked) >= 300
    # Each question and each reply is there once, on one branch.
    ids = {row.pk: row.role for row in chat.get_branch(tip)}
    assert [pk for pk, role in ids.items() if role == "user"] == asked
    assert set(replies) <= ids.keys()
    assert len(ids) == ChatMessage.objects.filter(session=session).messages().count()
    assert ChatMessage.objects.filter(session=session).summaries().count() > 5
    assert verify_session(session).problems == []
    assert chat.get_context(tip).tokens <= CONFIGURED_WINDOW
