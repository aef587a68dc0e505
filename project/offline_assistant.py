"""Replies in place of a chat model if none is configured: it quotes from the context that a model would be sent.

It searches the messages of the context for the words of the newest question, and quotes the sentences that match best
with their source. So it shows without a key what a summary has kept. The same context gives the same answer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from compaction_app.values import ChatContext, ContextMessage, Origin, Role

#: The model name that its replies are stored with.
NAME = "offline-assistant"

QUOTES = 3
_QUOTE_CHARACTERS = 400
#: A sentence is quoted if its score is at least this share of the best one's.
_WORTH = 0.5
_SHORTEST_WORD = 2
_SHORTEST_STEM = 4

_NO_MODEL = "No model configured."
FOUND = f"{_NO_MODEL} Found in the current context:"
NOTHING = _NO_MODEL + " Nothing in the {count} of the current context answers “{question}”."
NO_QUESTION = f"{_NO_MODEL} This message has no words to search the current context for."

_LABELS = {
    Origin.SYSTEM: "the system prompt",
    Origin.CONTRIBUTION: "content added by the application",
    Origin.SUMMARY: "the summary",
    Origin.SHARED_EXTRACT: "the summary",
    Origin.PINNED: "the pinned message",
}
_ROLE_LABELS = {
    Role.USER: "an earlier message of yours",
    Role.ASSISTANT: "an earlier reply",
    Role.TOOL: "a tool's result",
    Role.SYSTEM: "a system message",
    Role.DEVELOPER: "a developer message",
}

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？؟۔।])\s*|\s·\s|\n+")
_LEAD = re.compile(r"\A(?:[#>*•\-–|\s]+|(?:user|assistant|tool [\w.-]+|tool|system|developer): )+")
_WORD = re.compile(r"[^\W_]+")
# Written without spaces: words are searched for by pairs of characters.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# The wrapper around a summary is the same in every context, so it is not searched.
_WRAPPED = re.compile(r"<conversation-summary>\n(.*)\n</conversation-summary>", re.DOTALL)
_QUESTION_ENDS = ("?", "？", "؟")

_COMMON = frozenset(
    "a about again all also am an and any are as ask at be been but by can could did do does for from get give had has "
    "have he her him his how i if in into is it its just know let like many me more much my need no not now of on one "
    "or our out please remember said say she should so some tell than that the their them then there these they this "
    "those to us was we were what when where which who whom whose why will with would you your".split()
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    label: str
    words: frozenset[str]


def answer(context: ChatContext) -> str:
    """The reply to the newest user message of the context."""
    asked = next((m for m in reversed(context.messages) if m.role == Role.USER and not m.origin.is_summary), None)
    question = list(dict.fromkeys(_words(asked.content))) if asked else []
    if asked is None or not question:
        return NO_QUESTION
    sentences = [s for message in context.messages if message is not asked for s in _sentences(message)]
    best = _best(sentences, question)
    if not best:
        count = f"{len(context.messages)} message{'s' * (len(context.messages) != 1)}"
        return NOTHING.format(count=count, question=_clip(" ".join(asked.content.split()), 200))
    return "\n\n".join([FOUND, *(f"“{sentence.text}”\n— {sentence.label}" for sentence in best)])


def _best(sentences: list[_Sentence], question: list[str]) -> list[_Sentence]:
    """The sentences with the rarest words of the question, best first; the newest of equal ones."""
    spread = Counter(word for sentence in sentences for word in question if _contains(sentence, word))
    weights = {word: math.log(1 + len(sentences) / count) for word, count in spread.items()}
    scored = []
    for place, sentence in enumerate(sentences):
        score = sum(weight for word, weight in weights.items() if _contains(sentence, word))
        # Of two sentences with the same words, one longer than the question says more.
        scored.append((round(score, 6), len(sentence.words) > len(question), place))
    scored.sort(reverse=True)
    enough = scored[0][0] * _WORTH if scored else 0
    found: dict[str, _Sentence] = {}
    for score, _, place in scored:
        if score > 0 and score >= enough and len(found) < QUOTES:
            found.setdefault(sentences[place].text.casefold(), sentences[place])
    return list(found.values())


def _contains(sentence: _Sentence, word: str) -> bool:
    return word in sentence.words


def label_of(message: ContextMessage) -> str:
    """The source of a message of the context, in words."""
    return _LABELS.get(message.origin) or _ROLE_LABELS[Role(message.role)]


def _sentences(message: ContextMessage) -> Iterator[_Sentence]:
    """The sentences of a message, without questions and without this assistant's own replies."""
    text = message.content
    if message.role == Role.ASSISTANT and text.startswith(_NO_MODEL):
        return
    if message.origin.is_summary and (wrapped := _WRAPPED.search(text)):
        text = wrapped[1]
    label = label_of(message)
    for part in _SENTENCE_END.split(text):
        sentence = _LEAD.sub("", part).strip()
        words = frozenset(_words(sentence))
        if words and not sentence.endswith(_QUESTION_ENDS):
            yield _Sentence(_clip(sentence, _QUOTE_CHARACTERS), label, words)


def _words(text: str) -> Iterator[str]:
    """Distinctive words in one spelling: no case, no accents, no plural."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    folded = "".join(c for c in folded if not unicodedata.combining(c))
    for word in _WORD.findall(folded):
        if _UNSPACED.search(word):
            yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
        elif (len(word) >= _SHORTEST_WORD or word.isdigit()) and word not in _COMMON:
            yield _stem(word)


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word.rstrip("e") if len(word) > _SHORTEST_STEM else word


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
