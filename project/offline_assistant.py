"""Answers in place of a chat model where none is set up: it quotes the conversation.

It is an endpoint in the OpenAI format within this process (:func:`http_client`), so that everything else works as with
a model. Of all statements in the prompt, a summary's and a file's too, it quotes the one that best fits the newest
question, and says where it stands. A wrong quote is worse than none: a statement answers only if it has most of what
is rare in the question, its names, and what is asked for: a date, a number, a name. The same prompt gives the same
answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import chain
from typing import Any

import httpx2

from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import is_question
from compaction_app.memory.words import read_words, stem
from compaction_app.memory.writing import read_back, work_of
from project.chat.uploads import split_files

#: The model name that its replies are stored with.
NAME = "offline-assistant"

_BEGINS = "No model is set up here, so I "
FOUND = _BEGINS + "looked in our conversation. The best answer that I found is in {where}:"
NOTHING = _BEGINS + "looked in our conversation. I found nothing in it that answers this."
ADVICE = (
    "I look in what a model would be sent: the newest messages, a summary of the older ones, and what a search finds."
)
NOTED = _BEGINS + "can only quote. Noted: ask me about it."

_WHERE = {"user": "a message of yours", "tool": "a tool's result"}
_SUMMARY = re.compile(r"<conversation-summary>\n(.*)\n</conversation-summary>", re.DOTALL)
_RECALLED = re.compile(r"<recalled message=(\d+)[^>]*>\n(.*?)\n</recalled>", re.DOTALL)
_ASKS = re.compile(
    r"(?:and |so |but )?(?:what|which|who|whose|when|where|why|how|tell|show|give|find|list|name|explain)\b"
    r"|.*\b(?:asks?|wonders?|wants? to know) (?:for|about|what|which|who|when|where|how|whether|if)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"(?:its?|he|she|they|that|this|there|his|her|their)\b", re.IGNORECASE)
_ENDING = re.compile(r"(?<=...)(?:ing|ed|s)$")
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_SMALL = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBER = (
    rf"(?:\d(?:[\d.,]*\d)?|\b(?:{_SMALL}|\w+teen|\w+ty-\w+|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred)\b)"
)
_DATE = (
    rf"\b\d\d?\.? {_MONTH}\b|\b{_MONTH} \d|\b\d{{4}}-\d\d|\b\d\d?:\d\d\b|\b(?:in|since|until) [12]\d{{3}}\b|\b(?:mon"
    r"|tues|wednes|thurs|fri|satur|sun|yester)days?\b|\b(?:today|tonight|tomorrow|noon|midnight)\b"
    rf"|\b(?:at|before|after|until) (?:half past )?(?:\d\d?|one|{_SMALL})(?! ?\w+s\b)\b"
)
#: What a question asks for: the words that say so, which are not looked for, and what a statement must hold.
_KINDS = (
    (r"\bwhen\b|\b(?:what|which) (?:time|date|day)\b", _DATE),
    (r"\bhow (?:many|much|old|long|far|high|deep|wide|big|tall|heavy|often|full)\b", _NUMBER),
    (r"\bcosts?\b|\bprices?\b", r"\d[\d.,]*\d\d\b|\d (?:kroner|dollars?|euros?|pounds?)|[$€£¥] ?\d|\d円"),
    (r"\bcode\b|\bnumber\b", r"\b(?=[\w/.-]*\d)[\w/.-]*(?:[A-Za-z_/-]|\d\d)[\w/.-]*|\b(?:code|number)\b"),
    (r"\b(?:name|named|called)\b", r"\b(?:names?|named|called)\b"),
    (r"\bcolou?r\b", r"\b(?:red|green|blue|yellow|white|black|gr[ae]y|brown|orange|pink|purple|amber|colou?r)\b"),
    (r"\bwho\b", r"\b[^\W\d_a-z]\w+|\bI\b"),
)
#: What it is asked about must occur: "the envelope's number", "which circuit".
_ABOUT = re.compile(r"(\w+)['’]s\b|\b(?:which|what) (\w+)", re.IGNORECASE)
_HOW_MANY = re.compile(r"\bhow many (\w{3,})", re.IGNORECASE)
#: A statement answers if it has this share of the weight of the question's words. Those of what it follows count less.
_SHARE, _FOLLOWS = 0.5, 0.75
_LONGEST = 600
_SECONDS_PER_WORD = 0.03


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    where: str
    words: frozenset[str]
    #: Of the question that it answers, or of the sentence that its pronoun speaks of.
    follows: frozenset[str]
    #: That sentence: it is quoted too.
    before: str


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The reply to the newest user message of a prompt in the OpenAI chat format."""
    asked = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=0)
    questions = list(filter(_asks, _sentences(split_files(_text(messages[asked]))[0]))) if messages else []
    if not questions:
        return NOTED
    said = list(_statements(messages, asked))
    for question in questions:
        if best := _best(question, said):
            text = f"{best.before} {best.text}".strip()
            quote = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"
            return "\n> ".join([f"{FOUND.format(where=best.where)}\n", *quote.splitlines()])
    return f"{NOTHING} {ADVICE}"


def _best(question: str, said: Sequence[_Statement]) -> _Statement | None:
    """The newest of those that have most of the question."""
    cue, held = next((kind for kind in _KINDS if re.search(kind[0], question, re.IGNORECASE)), ("$^", ""))
    read = read_words(re.sub(cue, "", question, flags=re.IGNORECASE))
    wanted = _stems(read.content)
    names = _stems(read.marked) | wanted & _stems(filter(None, chain(*_ABOUT.findall(question.lower()))))
    if counted := _HOW_MANY.search(question):
        held = rf"{_NUMBER}[\s-]+(?:\w+[\s-]+){{0,2}}{re.escape(_stem(counted[1].lower()))}"
    spread = Counter(word for one in said for word in one.words & wanted)
    weights = {word: math.log(1 + len(said) / (spread[word] or 0.5)) for word in wanted}
    best, most = None, _SHARE * sum(weights.values())
    for one in said:
        near, far = wanted & one.words, (wanted & one.follows) - one.words
        score = sum(map(weights.__getitem__, near)) + _FOLLOWS * sum(map(weights.__getitem__, far))
        # What says no more than the question, answers nothing.
        if near | far and score >= most and names <= near | far and one.words - wanted and _holds(held, one, wanted):
            best, most = one if far else replace(one, before=""), score
    return best


def _holds(held: str, one: _Statement, wanted: frozenset[str]) -> bool:
    """Whether it has what is asked for; a name of the question is no answer to "who"."""
    found = re.finditer(held, one.text, 0 if held == _KINDS[-1][1] else re.IGNORECASE)
    return any(not held or _stem(match[0].lower()) not in wanted for match in found)


def _statements(messages: Sequence[Mapping[str, Any]], asked: int) -> Iterator[_Statement]:
    """What was said, oldest first: without instructions, questions and this assistant's own replies."""
    answers = frozenset[str]()
    for n, message in enumerate(messages):
        role, text = message["role"], _text(message)
        if role in {"system", "developer"} or (role == "assistant" and text.startswith(_BEGINS)):
            answers = frozenset()
            continue
        typed, files = split_files(text) if role == "user" else (text, [])
        parts = [(f"the file {file.name}", _sentences(file.text)) for file in files]
        if summary := role == "user" and _SUMMARY.search(text):
            told = [*(one.text for one in read_back(summary[1])), *work_of(summary[1]).splitlines()]
            parts = [("the summary", told)]
        elif found := role == "user" and n != asked and _RECALLED.findall(text):
            parts = [(f"message {number}", _sentences(unescape(one))) for number, one in found]
        elif n != asked:
            parts.append((_WHERE.get(role, "an earlier reply"), _sentences(typed)))
        for where, told in parts:
            before = ""
            for one in told:
                if (words := _stems(read_words(one).content)) and not _asks(one):
                    speaks_of = before if _PRONOUN.match(one) and not summary else ""
                    follows = answers if role == "assistant" else frozenset()
                    follows = _stems(read_words(speaks_of).content) if speaks_of else follows
                    yield _Statement(one, where, words, follows, speaks_of)
                    before, answers = one, answers if role == "tool" else frozenset()
        if role == "user":
            answers = frozenset().union(*(_stems(read_words(one).content) for one in _sentences(typed) if _asks(one)))


def _sentences(text: str) -> list[str]:
    return [sentence for sentence, _ in split_sentences(text)]


def _asks(sentence: str) -> bool:
    return is_question(sentence) or _ASKS.match(sentence) is not None


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_stem, words))


def _stem(word: str) -> str:
    return stem(_ENDING.sub("", word) or word)


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
