"""What is compared: each takes the text so far, new messages and a number of tokens, and returns a text.

Ours are called as the app calls them. The others are given lines: those of the text so far, then a line for each of the
new messages, with its speaker.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from benchmarks.evaluate.conversations import Fact, Turn, content_words, messages_of

System = Callable[[str, Sequence[Turn], int], str]

#: What a model that forgets everything writes.
_EMPTY_DRAFT = "The user and you went on with their conversation."
#: How much of the tokens a model's own summary is asked for, where a ledger has the rest.
_PROSE_SHARE = 0.7
_ROOM = 1_000_000
#: Of each summary with a ledger: as the app stores it beside the text.
_extracts: dict[str, str] = {}
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@cache
def counter() -> Any:
    from compaction_app.tokens import ExactTokenCounter

    return ExactTokenCounter()


def cheapest(turns: Sequence[Turn], facts: Sequence[Fact], budget: int) -> str:
    """The sentences of as many facts as fit."""
    told = set()
    for fact in facts:
        sentences = re.split(rf"{_SENTENCE_END.pattern}|\n", turns[fact.place].text)
        told.add(next((sentence for sentence in sentences if fact.text in sentence), fact.text))
    lines = sorted(told, key=lambda line: (size_of(line), line))
    ends = list(accumulate(size + 1 for size in counter()(lines)))
    return "\n".join(line for line, end in zip(lines, ends, strict=True) if end <= budget)


def size_of(text: str) -> int:
    return int(counter()([text])[0])


def in_rounds(system: System, turns: Sequence[Turn], budget: int, rounds: int, previous: str = "") -> str:
    """Parts of about the same number of characters, each summarized with what came of those before."""
    total = sum(len(turn.text) + 20 for turn in turns)
    text, size, begun = previous, 0, 0
    for number, turn in enumerate(turns, start=1):
        size += len(turn.text) + 20
        following = turns[number] if number < len(turns) else None
        # A tool's result stays with its call.
        if following is None or (size * rounds >= total and following.role != "tool"):
            text = system(text, turns[begun:number], budget)
            size, begun = size - total // rounds, number
    return text


# --- Ours ---


def _extract(previous: str, turns: Sequence[Turn], budget: int) -> str:
    from compaction_app.memory.extractive import summarize_extractively

    return summarize_extractively(
        covered=messages_of(turns),
        previous_summary=previous,
        previous_is_extract=True,
        target_tokens=budget,
        count=counter(),
    )


def _ledger(previous: str, turns: Sequence[Turn], budget: int) -> str:
    """After a model that forgets everything."""
    return completed(_EMPTY_DRAFT, *plan_of(messages_of(list(turns)), previous, budget), budget)


def plan_of(messages: Sequence[Any], previous: str, budget: int) -> tuple[Any, Any]:
    """The plan that covers all of this, and the request for its summary."""
    from compaction_app.conf import settings_from_snapshot
    from compaction_app.summarizers.prompts import request_for
    from compaction_app.values import LEDGER_HEADING, CompactionPlan, Summary

    _configure()
    base = None
    if previous:
        place = {"anchor_id": 0, "anchor_depth": 0, "cutoff_id": 0, "cutoff_depth": 0, "cutoff_path_tokens": 0}
        content, _, ledger = previous.partition(f"\n\n{LEDGER_HEADING}\n")
        told = {"content": content, "ledger": ledger, "extract": _extracts.get(previous, "")}
        base = Summary(id=0, tokens=size_of(previous), **told, **place)
    covered = tuple(messages)
    plan = CompactionPlan(
        covered=covered,
        lookahead=(),
        kept=(),
        base=base,
        pinned=None,
        cutoff=covered[-1],
        anchor_id=covered[-1].id,
        anchor_depth=covered[-1].depth,
        target_tokens=budget,
        replaced_tokens=_ROOM,
    )
    return plan, request_for(plan, settings_from_snapshot({}), nonce="5d1f0c62b7a94e38")


def completed(draft: str, plan: Any, request: Any, target: int) -> str:
    """The draft with what it leaves out, in as many tokens as both may have."""
    from dataclasses import replace

    from compaction_app.conf import settings_from_snapshot
    from compaction_app.memory import ledger as engine
    from compaction_app.values import Budget, SummaryDraft, with_ledger

    budget = Budget(
        window=_ROOM,
        reserved=0,
        available=_ROOM,
        threshold=_ROOM,
        target=_ROOM,
        summary_target=target,
        recent_ratio=0.2,
        recent_cap=40_000,
    )
    plan = replace(plan, target_tokens=target)
    kept = engine.complete(SummaryDraft(text=draft), request, plan, budget, settings_from_snapshot({}), counter())
    text = with_ledger(draft, kept.ledger)
    _extracts[text] = kept.extract
    return text


@cache
def _configure() -> None:
    from django.conf import settings

    if not settings.configured:
        settings.configure(CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}})


# --- A model, where one is configured ---


def model_name() -> str:
    """As the example project's settings read it; "" where no model is configured."""
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        return ""
    names = os.environ.get("COMPACTION_SUMMARIZER_MODELS", "").replace(",", " ").split()
    return (names or [os.environ.get("CHAT_MODEL", "")])[0]


def _draft(previous: str, turns: Sequence[Turn], budget: int) -> tuple[str, Any, Any]:
    from compaction_app.conf import settings_from_snapshot
    from compaction_app.exceptions import SummarizerError
    from compaction_app.summarizers import OpenAISummarizer
    from compaction_app.summarizers.base import run_summarizer

    plan, request = plan_of(messages_of(list(turns)), previous, budget)
    summarizer = OpenAISummarizer(settings_from_snapshot({"SUMMARIZERS": {"default": {"MODELS": [model_name()]}}}))
    try:
        return run_summarizer(summarizer, request).text, plan, request
    except SummarizerError as error:
        # It counts as a model that wrote nothing; the others are measured all the same.
        print(f"{model_name()}: {error}", file=sys.stderr)
        return _EMPTY_DRAFT, plan, request


def _model(previous: str, turns: Sequence[Turn], budget: int) -> str:
    return _cut(_draft(previous, turns, budget)[0].splitlines(), budget)


def _model_with_ledger(previous: str, turns: Sequence[Turn], budget: int) -> str:
    prose = int(budget * _PROSE_SHARE)
    draft, plan, request = _draft(previous, turns, prose)
    draft = _cut(draft.splitlines(), budget)
    return completed(draft, plan, request, budget)


# --- Others ---


def _lines(previous: str, turns: Sequence[Turn]) -> list[str]:
    told = previous.splitlines()
    for turn in turns:
        text = turn.text or (f"[{turn.call[0]} {turn.call[1]}]" if turn.call else "")
        told += [f"{turn.role}: {line}" for line in text.splitlines() if line.strip()]
    return told


def _cut(lines: Sequence[str], budget: int) -> str:
    """As many of the first lines as fit."""
    kept, left = [], budget
    for line, size in zip(lines, counter()([line + "\n" for line in lines]) if lines else [], strict=True):
        if size > left:
            break
        left -= size
        kept.append(line)
    return "\n".join(kept)


def _tail(previous: str, turns: Sequence[Turn], budget: int) -> str:
    return "\n".join(_cut(_lines(previous, turns)[::-1], budget).splitlines()[::-1])


def _head_and_tail(previous: str, turns: Sequence[Turn], budget: int) -> str:
    lines = _lines(previous, turns)
    head = _cut(lines, budget // 2).splitlines()
    tail = _cut(lines[len(head) :][::-1], budget // 2).splitlines()
    return "\n".join([*head, *tail[::-1]])


def _lede(previous: str, turns: Sequence[Turn], budget: int) -> str:
    """The first sentence of each message, of as many words as fit."""
    said = [turn for turn in turns if turn.text.strip()]
    lines = previous.splitlines() + [
        f"{t.role}: {_SENTENCE_END.split(t.text.strip())[0].splitlines()[0]}" for t in said
    ]
    for longest in (60, 40, 30, 20, 15, 12, 10, 8, 6):
        short = [" ".join(line.split()[:longest]) for line in lines]
        if size_of("\n".join(short)) <= budget:
            return "\n".join(short)
    return "\n".join(_cut(short[::-1], budget).splitlines()[::-1])


def _library(previous: str, turns: Sequence[Turn], budget: int) -> str:
    """SumBasic of ``sumy``, which keeps more of a conversation than its LexRank, TextRank, LSA and Luhn do."""
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.summarizers.sum_basic import SumBasicSummarizer

    class Words:
        def to_words(self, sentence: str) -> list[str]:
            return re.findall(r"\w+", sentence)

    sentences = list(dict.fromkeys(one for line in _lines(previous, turns) for one in _SENTENCE_END.split(line) if one))
    document = ObjectDocumentModel([Paragraph([Sentence(one, Words()) for one in sentences])])
    number = min(len(sentences), budget // 8)
    for _ in range(3):
        found = [str(one) for one in SumBasicSummarizer()(document, number)]
        size = size_of("\n".join(found))
        if 0.95 * budget <= size <= budget or (size <= budget and number == len(sentences)):
            break
        number = min(len(sentences), max(1, int(number * 0.97 * budget / size)))
    return _cut(found, budget)


def _distinct_words(previous: str, turns: Sequence[Turn], budget: int) -> str:
    """No statement at all, the most words: what it scores is worth nothing."""
    counted = Counter(word for line in _lines(previous, turns) for word in content_words(line))
    told = sorted(counted, key=lambda word: (counted[word], word))
    return _cut_words(told, budget)


def _cut_words(told: Sequence[str], budget: int) -> str:
    low, high = 0, len(told)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(" ".join(told[:middle])) <= budget else (low, middle - 1)
    return " ".join(told[:low])


def _rarest_lines(previous: str, turns: Sequence[Turn], budget: int) -> str:
    lines = list(dict.fromkeys(_lines(previous, turns)))
    counted = Counter(word for line in lines for word in content_words(line))

    def commonness(line: str) -> float:
        found = content_words(line)
        return sum(counted[word] for word in found) / len(found) if found else float("inf")

    chosen = set(_cut(sorted(lines, key=lambda line: (commonness(line), line)), budget).splitlines())
    return "\n".join(line for line in lines if line in chosen)


#: By the name that the table shows.
SYSTEMS: dict[str, System] = {
    "extract": _extract,
    "ledger": _ledger,
    "tail": _tail,
    "head and tail": _head_and_tail,
    "lede": _lede,
    "sumy": _library,
    "null: distinct words": _distinct_words,
    "null: rarest lines": _rarest_lines,
    "model": _model,
    "model with ledger": _model_with_ledger,
}
OURS = ("extract", "ledger")
#: No system: it knows which facts are asked for, and tells what costs least of them. So it is what the best could do.
CEILING = "ceiling"
MODELS = ("model", "model with ledger")


def available() -> tuple[dict[str, System], list[str]]:
    """The systems that can run here, and why the others cannot."""
    found, missing = dict(SYSTEMS), []
    if not model_name():
        missing.append("a model: none is configured (OPENAI_API_KEY or OPENAI_BASE_URL, COMPACTION_SUMMARIZER_MODELS)")
        found = {name: system for name, system in found.items() if name not in MODELS}
    try:
        import sumy  # noqa: F401  # only whether it is there
    except ImportError:
        missing.append("sumy: not installed (pip install 'sumy>=0.13')")
        del found["sumy"]
    return found, missing
