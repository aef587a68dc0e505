"""Answers in place of a chat model where none is set up: it quotes the conversation.

It is an endpoint in the OpenAI format within this process (:func:`http_client`), so that everything else works as with
a model. Of all statements in the prompt, a summary's too, it quotes the one that best fits the newest question, and
says where it stands, or that there is none. The same prompt gives the same answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import is_question
from compaction_app.memory.words import read_words, stem
from compaction_app.memory.writing import read_back

#: The model name that its replies are stored with.
NAME = "offline-assistant"

_BEGINS = "No model is set up here, so I looked in our conversation."
FOUND = _BEGINS + " The best answer that I found is in {where}:"
NOTHING = _BEGINS + " I found nothing in it that answers this."
ADVICE = "Tell me something, then ask me about it: I quote what was said, also from far above."

_WHERE = {
    "user": "a message of yours",
    "tool": "a tool's result",
    "system": "the instructions",
    "developer": "the instructions",
}
_SUMMARY = re.compile(r"<conversation-summary>\n(.*)\n</conversation-summary>", re.DOTALL)
#: A statement answers if it has this share of the question's words.
_SHARE = 1 / 3
_LONGEST = 600
_SECONDS_PER_WORD = 0.03


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    where: str
    words: frozenset[str]


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The reply to the newest user message of a prompt in the OpenAI chat format."""
    asked = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=0)
    question = _words(_text(messages[asked])) if messages else frozenset()
    said = [one for n, message in enumerate(messages) if n != asked for one in _statements(message)]
    spread = Counter(word for one in said for word in one.words & question)
    weights = {word: math.log(1 + len(said) / count) for word, count in spread.items()}
    best, most = None, 0.0
    for one in said:
        shared = one.words & question
        score = sum(weights[word] for word in shared)
        # Of equal ones the newest; of statements with the same words, one that says more than the question.
        score += 0.001 * bool(one.words - question)
        if len(shared) >= max(1, _SHARE * len(question)) and score >= most:
            best, most = one, score
    if best is None:
        return f"{NOTHING} {ADVICE}"
    quote = best.text if len(best.text) <= _LONGEST else f"{best.text[: _LONGEST - 1].rstrip()}…"
    return "\n> ".join([f"{FOUND.format(where=best.where)}\n", *quote.splitlines()])


def _statements(message: Mapping[str, Any]) -> Iterator[_Statement]:
    """What a message states, without questions and without this assistant's own replies."""
    text = _text(message)
    if message["role"] == "assistant" and text.startswith(_BEGINS):
        return
    if summary := message["role"] == "user" and _SUMMARY.search(text):
        told, where = [one.text for one in read_back(summary[1])], "the summary"
    else:
        told = [sentence for sentence, _ in split_sentences(text)]
        where = _WHERE.get(message["role"], "an earlier reply")
    for one in told:
        if (words := _words(one)) and not is_question(one):
            yield _Statement(one, where, words)


def _words(text: str) -> frozenset[str]:
    return frozenset(map(stem, read_words(text).content))


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part["text"]) for part in parts if part.get("text"))


# -- The endpoint -----------------------------------------------------------------------------------------


class _Paced(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that comes as a model's does: a word at a time."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            time.sleep(_SECONDS_PER_WORD)
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(_SECONDS_PER_WORD)
            yield chunk


def _respond(request: httpx2.Request) -> httpx2.Response:
    asked = json.loads(request.content)
    reply = answer(asked["messages"])
    head = {"id": NAME, "created": 0, "model": NAME}
    if not asked.get("stream"):
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return httpx2.Response(200, json={**head, "object": "chat.completion", "choices": [choice]})
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"content": word}, None) for word in re.findall(r"\s*\S+", reply)
    ] + [({}, "stop")]
    choices = [{"index": 0, "delta": delta, "finish_reason": reason} for delta, reason in deltas]
    chunks = [json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]}) for choice in choices]
    events = [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=_Paced(events))


def http_client() -> httpx2.Client:
    """For ``openai.OpenAI``."""
    return httpx2.Client(transport=httpx2.MockTransport(_respond))


def async_http_client() -> httpx2.AsyncClient:
    """For ``openai.AsyncOpenAI``."""
    return httpx2.AsyncClient(transport=httpx2.MockTransport(_respond))
