"""A stand-in for a chat model where none is configured: it quotes what a model would have been shown.

It looks for the words of the newest question in the very messages of the context and quotes the sentences that
match best, with where they come from: so it shows without a key what a summary has kept. Deterministic: the same
context gives the same answer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from compaction_app.values import ChatContext, ContextMessage, Origin, Role

#: The model's name that its replies are stored with, and the label in the page.
NAME = "offline-assistant"

QUOTES = 3
_QUOTE_CHARACTERS = 400
#: A sentence that matches less than this share of the best one is not worth quoting.
_WORTH = 0.5
_SHORTEST_WORD = 2
_SHORTEST_STEM = 4

FOUND = "I am no model. In what a model would be shown now I find:"
NOTHING = (
    "I am no model: I quote what a model would be shown now, and in its {count} I find nothing that answers "
    "“{question}”."
)
NO_QUESTION = "I am no model: I look for the words of a question, and here is none."

_LABELS = {
    Origin.SYSTEM: "the system prompt",
    Origin.CONTRIBUTION: "what the application added",
    Origin.SUMMARY: "the summary",
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
# Written without spaces, so that a word is looked for by its pairs of characters.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# The wrapper around a summary is the same in every context and answers nothing.
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
    asked = next((m for m in reversed(context.messages) if m.role == Role.USER and m.origin != Origin.SUMMARY), None)
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
    """The sentences that hold the rarest words of the question, best first; of equals the newest."""
    spread = Counter(word for sentence in sentences for word in question if _holds(sentence, word))
    weights = {word: math.log(1 + len(sentences) / count) for word, count in spread.items()}
    scored = []
    for place, sentence in enumerate(sentences):
        score = sum(weight for word, weight in weights.items() if _holds(sentence, word))
        # Of two that hold the same words the longer one tells more, but length alone is no merit.
        scored.append((round(score, 6), len(sentence.words) > len(question), place))
    scored.sort(reverse=True)
    enough = scored[0][0] * _WORTH if scored else 0
    found: dict[str, _Sentence] = {}
    for score, _, place in scored:
        if score > 0 and score >= enough and len(found) < QUOTES:
            found.setdefault(sentences[place].text.casefold(), sentences[place])
    return list(found.values())


def _holds(sentence: _Sentence, word: str) -> bool:
    return word in sentence.words


def label_of(message: ContextMessage) -> str:
    """Where a message of a context comes from, in words."""
    return _LABELS.get(message.origin) or _ROLE_LABELS[Role(message.role)]


def _sentences(message: ContextMessage) -> Iterator[_Sentence]:
    """The sentences of a message, without questions and without what this assistant said before."""
    text = message.content
    if message.role == Role.ASSISTANT and text.startswith(("I am no model:", FOUND)):
        return
    if message.origin == Origin.SUMMARY and (wrapped := _WRAPPED.search(text)):
        text = wrapped[1]
    label = label_of(message)
    for part in _SENTENCE_END.split(text):
        sentence = _LEAD.sub("", part).strip()
        words = frozenset(_words(sentence))
        if words and not sentence.endswith(_QUESTION_ENDS):
            yield _Sentence(_clip(sentence, _QUOTE_CHARACTERS), label, words)


def _words(text: str) -> Iterator[str]:
    """Telling words in one spelling: no case, no accents, no plural."""
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
