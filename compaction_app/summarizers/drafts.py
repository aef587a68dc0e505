"""What of an answer is a summary, and whether it may become one. Pure.

Servers without a parser for a model's reasoning leave it in the reply, between the model's own marks, or before the
closing one alone where the prompt ended with the opening one; models copy the material's tags. :func:`mended` cuts both
out. Marks and tags in code are spoken of and stay.

Gateways and models answer with an error instead, with status 200. No list of their messages is complete, so a short
text has to show that it is a summary: by prose under a heading, or by the names, numbers and words of what it replaces.
:func:`refuse_draft` is the verdict.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from compaction_app.memory.extractive import Material, read_earlier
from compaction_app.memory.score import Told, facts_kept
from compaction_app.memory.words import Words, read_words, stem
from compaction_app.messages.transcript import count_summary, cut_leaks, leaks_wrapper, without_code
from compaction_app.messages.validation import is_storable, visible
from compaction_app.summarizers.prompts import END_OF_MATERIAL, OVERSIZE_FACTOR, OWN_WORDS
from compaction_app.tokens import Count
from compaction_app.values import ErrorCode, SummaryDraft, SummaryRequest, with_ledger

#: A draft with more characters a token than any text has is refused before it is read.
CHARACTERS_A_TOKEN = 20
#: Finish reasons of a complete reply; "" is a provider that gives none.
NORMAL_ENDS = frozenset({"stop", "end_turn", ""})
#: Visible characters. Less is no summary: "Done.", or a mark that the model has nothing to say.
MIN_SUMMARY_CHARS = 30

_NAMES = r"(?:\w{1,9}:)?(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|antthinking|longcat_think)"
#: Of most models; Mistral's; Kimi's; Cohere's; Gemma's; those of gpt-oss, also where a server left out their signs.
_MARK = re.compile(
    rf"(?i)(?P<opens><{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel>thought|\A(?-i:analysis(?=[A-Z]))"
    r"|<\|channel\|>(?!final)[^<\n]{0,80}<\|message\|>)"
    rf"|</{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>|assistantfinal"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final(?:<\|message\|>)?"
)
#: Signs of a model's format before and after its answer.
_SIGNS = r"(?:<\|[a-zA-Z_]{1,20}\|>|<end_of_turn>|</?s>)"
_RUN_OF_SIGNS = re.compile(rf"{_SIGNS}+")
#: In what models like to put a whole answer.
_WRAPPED = re.compile(
    r"(?s)<(answer|summary|response|output|final|assistant|message)>(?P<tagged>.*)</\1>"
    r"|```(?:markdown|md|text)?\n(?P<fenced>(?:(?!```).)*)```"
)
#: Of them around one another.
_MOST_WRAPPERS = 5

#: A longer text is a summary; so is a shorter one with headings and a line that is longer than a placeholder.
_LONGEST, _LONGEST_PLACEHOLDER = 400, 40
_HEADING = re.compile(r"(?m)^#{1,6}[ \t][^\n]*$")
_PAGE = re.compile(r"(?is)(?:event: ?\w+\s)?data: ?[{\[]|<!doctype|<(?:\?xml|html)\b.*</\w+>\Z")
_SORRY = re.compile(r"(?i)\W{0,9}(?:\w+ ){0,2}(?:sorry|apolog|unfortunate|leider|leid\b|désol|lo siento)")
#: In its first sentence "I" is the model: a summary calls the user "the user", and the assistant "you".
_REFUSAL = re.compile(
    r"(?i)[^\n.]{0,60}?\b(?:i|we)\b[^\n.]{0,20}?\b(?:unable|not able|cannot|can['’]t|won['’]t|will not|decline)\b"
    r"[^\n]{0,60}?\b(?:help (?:with|you)|assist|summar|(?:this|your) (?:request|conversation|content))"
)
_WORD = re.compile(r"\w+")
_SENTENCE_ENDS = re.compile(r"\n+|(?<=[.!?。！？])\s*(?=\S)")
#: A shorter text with a refrain is no loop.
_FEWEST_PARTS = 10
#: So many words in a row are ours and nobody else's.
_RUN = 8
#: How words begin that are of the request for a summary.
_OF_THE_REQUEST = ("material", "summar", "instruction", "token", "cutoff")
#: A draft that is far below its target is looked at for facts, unless it is too short to have some. Of 264 short true
#: summaries of real talks each passes; of 468 empty ones all but 25 are refused, and what a model of 135 million
#: parameters wrote.
_FAR_BELOW, _LEAST_TOKENS = 1 / 2, 50
_FEWEST_FACTS, _FACTS_A_TOKEN = 20, 0.03
#: All angle brackets in the material are those of its tags.
_TAG = re.compile("<[^<>]*>")


def wrong_draft(answer: Any) -> str:
    """What a host's summarizer returned instead of a :class:`SummaryDraft`, without quoting it; "" if it is one."""
    if not isinstance(answer, SummaryDraft):
        return type(answer).__name__
    # A provider leaves None there where it refused, or called a tool.
    text: Any = answer.text
    return "" if isinstance(text, str) else f"one whose text is of the type {type(text).__name__}"


def mended(draft: SummaryDraft, most_tokens: int) -> SummaryDraft:
    """The draft with the answer alone. An extract quotes the conversation, so all of it is kept.

    What is longer than any reply of ``most_tokens`` is cut: it is refused, and no pattern need read it.
    """
    if draft.is_extract:
        return draft
    longest = CHARACTERS_A_TOKEN * most_tokens
    if len(draft.text) > longest:
        return replace(draft, text=draft.text[: longest + 1])
    text = _without_signs(_without_thinking(draft.text.strip()).strip())
    for _ in range(_MOST_WRAPPERS):
        if wrapped := _WRAPPED.fullmatch(text):
            text = (wrapped["tagged"] or wrapped["fenced"] or "").strip()
    if leaks_wrapper(text, ""):
        # Where nothing else is left it was no answer, and is refused as what it is.
        text = cut_leaks(text) or text
    return replace(draft, text=text)


def _without_signs(text: str) -> str:
    """Without those at both ends: each run is read once, wherever it ends."""
    at_an_end = (0, len(text))
    return _RUN_OF_SIGNS.sub(
        lambda run: "" if run.start() in at_an_end or run.end() in at_an_end else run[0], text
    ).strip()


def _without_thinking(text: str) -> str:
    """An opening mark counts at the beginning of the answer or of a line, a closing one wherever thought may end."""
    prose = without_code(text)
    marks = list(_MARK.finditer(prose))
    last_end = max((mark.start() for mark in marks if not mark["opens"]), default=-1)
    kept, start, is_thinking = list[str](), 0, False
    for mark in marks:
        before = prose[mark.start() - 1 : mark.start()] if mark.start() else "\n"
        if mark["opens"]:
            if not is_thinking and (mark.start() == 0 or (before == "\n" and mark.start() < last_end)):
                kept.append(text[start : mark.start()])
                is_thinking = True
        elif is_thinking or not (before == " " and prose[mark.end() : mark.end() + 1] in (*" ,.;:)",)):
            kept = kept if is_thinking else []
            start, is_thinking = mark.end(), False
    return "".join(kept) + ("" if is_thinking else text[start:])


def refuse_draft(draft: SummaryDraft, request: SummaryRequest, most_tokens: int, count: Count) -> ErrorCode | None:
    """Why a draft cannot become a summary, or None if it can. Checked in order, from broken to merely too long.

    The request's target is for the text alone; ``most_tokens`` are those of the message that will contain it, wrapper
    included, if it is to save enough of what it replaces.
    """
    text, longest = draft.text.strip(), OVERSIZE_FACTOR * request.target_tokens
    if len(draft.text) > CHARACTERS_A_TOKEN * longest:
        return ErrorCode.OVERSIZE
    if draft.refused:
        return ErrorCode.REFUSED
    if draft.tool_called:
        return ErrorCode.TOOL_CALL
    if (draft.finish_reason or "") not in NORMAL_ENDS:
        # One that had room enough is asked for again, tighter.
        is_long = is_storable(text) and count([text])[0] > longest
        return ErrorCode.OVERSIZE if is_long else ErrorCode.TRUNCATED
    seen = visible(text)
    if not any(character.isalnum() for character in seen):
        return ErrorCode.EMPTY
    if leaks_wrapper(text, request.nonce):
        return ErrorCode.LEAKED_WRAPPER
    # An extract quotes the conversation, in which errors and apologies are material.
    if not draft.is_extract and is_error_text(seen):
        return ErrorCode.ERROR_TEXT
    if len(seen) < MIN_SUMMARY_CHARS:
        return ErrorCode.TOO_SHORT
    # Before anything is counted: a tokenizer cannot read lone surrogates, and no database stores them.
    if not (is_storable(text) and is_storable(draft.model)):
        return ErrorCode.INVALID_TEXT
    size = count([text])[0]
    if not draft.is_extract and (code := _why_it_says_nothing(seen, size, request)):
        return code
    if size > longest:
        return ErrorCode.OVERSIZE
    return ErrorCode.NO_PROGRESS if count_summary(text, count) > most_tokens else None


def _why_it_says_nothing(text: str, size: int, request: SummaryRequest) -> ErrorCode | None:
    material = _TAG.sub(" ", request.user.rpartition(END_OF_MATERIAL)[0] or request.user)
    if tells_nothing(text, material):
        return ErrorCode.ERROR_TEXT
    is_empty_talk = repeats_instructions(text, material) or speaks_of_its_request(text, material)
    if is_empty_talk or repeats_itself(text):
        return ErrorCode.NOTHING_TOLD
    # Last, since it reads all that is replaced.
    is_far_below = _LEAST_TOKENS <= size < _FAR_BELOW * request.target_tokens
    return ErrorCode.NOTHING_TOLD if is_far_below and tells_little(text, size, request) else None


def is_error_text(text: str) -> bool:
    """Whether a draft, stripped, is by its form an error, a gateway's page, or a refusal."""
    return bool(_REFUSAL.match(_HEADING.sub("", text).strip()) or _PAGE.match(text) or _reports_error(text))


def tells_nothing(text: str, replaced: str) -> bool:
    """Whether a draft, stripped, is too short for a summary of ``replaced`` and has neither its names nor its words."""
    below, headings = _HEADING.subn("", text)
    is_long = len(below) > _LONGEST or (headings > 0 and not _SORRY.match(below))
    if is_long and max(map(len, below.split("\n"))) > _LONGEST_PLACEHOLDER:
        return False
    own, known = _read(below), _read(replaced)
    told = _told_of(own, known, set(replaced.split()))
    # A small number is in any long text, and among many other names a single one is there by chance.
    weight = sum(2 if len(word) > 2 or word.isalpha() else 1 for word in told)
    if weight > 1 and 3 * len(told) >= len(own.marked | own.values | told):
        return False
    words, others = ({stem(word) for word in one.content} for one in (own, known))
    # In a text that is far longer nearly any word is found.
    return len(told) + len(words & others) < 4 or len(replaced) > 20 * len(text)


def tells_little(text: str, size: int, request: SummaryRequest) -> bool:
    """Whether a draft of ``size`` tokens has hardly a fact of what it replaces, and words that are mostly not its.

    That is how a model that has not understood it goes on: "You discussed a number of topics." Where few facts are
    known, as of a talk without names and numbers or in a language without marked words, nothing is said of it.
    """
    earlier = with_ledger(request.previous_content, request.previous_ledger)
    reader, values = read_earlier(earlier, is_extract=request.previous_is_extract)
    statements, told = Material.of(reader, values, request.covered).statements, Told([text])
    kept, facts = facts_kept(statements, told)
    if facts < _FEWEST_FACTS or kept >= _FACTS_A_TOKEN * size:
        return False
    known = {stem(word) for one in statements for word in one.words.content}
    return 2 * len(told.stems.keys() & known) < len(told.stems)


def repeats_instructions(text: str, material: str) -> bool:
    """Whether a draft has a run of :data:`_RUN` words of our own instructions that the material does not have."""
    runs = [run for run in _runs(text) if run in _instructions()]
    known = f" {' '.join(_WORD.findall(material.casefold()))} " if runs else ""
    return any(f" {run} " not in known for run in runs)


def speaks_of_its_request(text: str, material: str) -> bool:
    """Whether more than half of a draft's sentences are about the request, in words that the material does not have,
    and tell no name and no number of it.

    Small models tell their instructions in words of their own: "The material contains no instructions …".
    """
    lowered = material.casefold()
    words = [word for word in _OF_THE_REQUEST if word not in lowered]
    parts = [part for part in _SENTENCE_ENDS.split(_HEADING.sub("", text)) if part]
    about = {part: found for part in parts if (found := {word for word in words if word in part.casefold()})}
    # One word alone may be how a summary begins.
    if len(set().union(*about.values())) < 2 or 2 * len(about) <= len(parts):
        return False
    known, written = _read(material), set(material.split())
    return 2 * sum(not _told_of(_read(part), known, written) for part in about) > len(parts)


def repeats_itself(text: str) -> bool:
    """Whether more than half of a draft are lines or sentences that it had already, as of a model in a loop."""
    parts = [" ".join(part.split()).casefold() for part in _SENTENCE_ENDS.split(text)]
    told = sum(map(len, set(parts)))
    return len(parts) >= _FEWEST_PARTS and 2 * told < sum(map(len, parts))


@lru_cache(maxsize=1)
def _instructions() -> frozenset[str]:
    return frozenset(run for text in OWN_WORDS for run in _runs(text))


def _runs(text: str) -> list[str]:
    words = _WORD.findall(text.casefold())
    return [" ".join(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)]


def _read(text: str) -> Words:
    parts = map(read_words, text.splitlines())
    return Words(*(frozenset[str]().union(*column) for column in zip(read_words(""), *parts, strict=True)))


def _told_of(own: Words, known: Words, written: set[str]) -> frozenset[str]:
    """Names and values of what is replaced; ``written`` are its words. A name is never written small."""
    names = (own.marked | own.initial) & (known.marked | known.initial) - written
    return names | own.values & known.values


def _reports_error(text: str) -> bool:
    try:
        value = json.JSONDecoder().raw_decode(text)[0] if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(value, dict) and "summary" not in value and not {"error", "errors"}.isdisjoint(value)
