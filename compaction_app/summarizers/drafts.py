"""What of an answer is a summary, and whether it may become one. Pure.

Servers without a parser for a model's reasoning leave it in the reply, between the model's own marks, or before the
closing one alone where the prompt ended with the opening one; models copy the material's tags. :func:`mended` cuts both
out. Marks and tags in code are spoken of and stay.

Gateways and models answer with an error instead, with status 200, or with what could be said of any conversation. No
list of such messages is complete, in any language, so a draft has to show that it is a summary: by the names, numbers
and words of what it replaces. :func:`refuse_draft` is the verdict.
"""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from compaction_app.exceptions import InvalidMessage
from compaction_app.memory.words import UNSPACED_SIGN, Words, content_stems, read_words, stem
from compaction_app.messages.transcript import count_summary, cut_leaks, leaked_tag, leaks_wrapper, without_code
from compaction_app.messages.validation import check_text, is_storable, visible
from compaction_app.summarizers.prompts import END_OF_MATERIAL, LEDGER_NAME, OVERSIZE_FACTOR, OWN_WORDS
from compaction_app.tokens import Count
from compaction_app.values import EXTRACT_HEADING, LEDGER_HEADING, ErrorCode, SummaryDraft, SummaryRequest, with_ledger

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

#: A longer text is no error of a gateway; a shorter one with a heading is none.
_LONGEST = 400
_HEADING = re.compile(r"(?m)^#{1,6}[ \t][^\n]*$")
_PAGE = re.compile(r"(?is)(?:event: ?\w+\s)?data: ?[{\[]|<!doctype|<(?:\?xml|html)\b.*</\w+>\Z")
#: In its first sentence "I" is the model: a summary calls the user "the user", and the assistant "you".
_REFUSAL = re.compile(
    r"(?i)[^\n.]{0,60}?\b(?:i|we)\b[^\n.]{0,20}?\b(?:unable|not able|cannot|can['’]t|won['’]t|will not|decline)\b"
    r"[^\n]{0,60}?\b(?:help (?:with|you)|assist|summar|(?:this|your) (?:request|conversation|content))"
)
#: Characters of a line that may be nothing but headings.
_LONGEST_HEADING = 500
_WORD, _NAMED, _DIGITS = re.compile(r"\w+"), re.compile(r"[^\W_]+"), re.compile(r"\d+")
#: The number of an item is no fact.
_ITEM = re.compile(r"(?m)^[^\w\n]{0,9}\d{1,3}[.)]\s")
_SENTENCE_ENDS = re.compile(r"\n+|(?<=[.!?。！？])\s*(?=\S)")
#: A shorter text with a refrain is no loop.
_FEWEST_PARTS = 10
#: So many words in a row are ours and nobody else's.
_RUN = 8
#: A part of a text: a line, a sentence of it that is no abbreviation, or a piece of a longer one.
_PART = re.compile(r"(?m).{20,240}?(?:[.!?](?=\s)|[。！？]|$)|.{1,240}")
#: What has fewer different words gives nothing to judge a draft by.
_FEWEST_WORDS = 20
#: A word in more parts than that is common. Rare words of this weight that are in one part tell what that part tells.
_MOST_PARTS, _TOLD = 30, 3
#: A small number counts as this share of a fact: it is in many texts.
_SMALL = 1 / 3
#: A summary tells a fact in one of so many of its parts.
_ONE_IN = 4
#: Or, in the language of what it replaces, so large a share of its words is there. In a text that is so many times as
#: long nearly any word is found, so the share shows nothing.
_SHARE_KNOWN, _FAR_LONGER = 0.6, 20
#: Two words that are among so many most frequent ones of both texts show that they are in one language. Where a text
#: has so many names and numbers, a summary in another language has some of them.
_FREQUENT, _FEWEST_FACTS = 20, 10
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
    if draft.is_extract or draft.by_person:
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


def prose_draft(draft: SummaryDraft, previous_ledger: str = "") -> SummaryDraft:
    """A draft as it may be stored: a model's without our headings, and without the ledger that it may have copied.

    What stands under our headings is nobody's speech; they are taken out for the model that reads the summary.
    ``previous_ledger`` is cut out as it is; what stands behind it is kept. Of a ledger in other words nobody knows
    where it ends but at the next heading.
    """
    if draft.is_extract or draft.by_person:
        return draft
    kept: list[str] = []
    in_ledger = False
    text = draft.text.replace(with_ledger("", previous_ledger), "\n") if previous_ledger else draft.text
    for line in text.splitlines(keepends=True):
        if line.lstrip()[:1] in ("#", "*", "_") and _is_named(line, LEDGER_NAME):
            while kept and not kept[-1].strip():
                kept.pop()
            if kept and not in_ledger:
                kept[-1] = f"{kept[-1].rstrip()}\n\n"
            in_ledger = True
        else:
            in_ledger = in_ledger and not line.startswith("#")
            if not (in_ledger or _is_named(line, EXTRACT_HEADING)):
                kept.append(line)
    return replace(draft, text="".join(kept).strip())


def _is_named(line: str, heading: str) -> bool:
    """Whether a line is nothing but a heading of ours, in whatever signs, letters and repetitions."""
    if len(line) > _LONGEST_HEADING:
        return False
    written, name = (
        "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text).casefold())) for text in (line, heading)
    )
    return bool(written) and not written.replace(name, "")


def written_summary(text: str, most_tokens: int, count: Count, ledger: str = "") -> str:
    """A person's text as it is stored; :class:`InvalidMessage` with the reason where it can be no summary.

    ``ledger``: that of the summary which it corrects, and may have been sent back with it: it stays in its column.
    """
    check_text(text, "text")
    text = text.replace("\r\n", "\n").strip()
    if ledger:
        text = text.removesuffix(with_ledger("", ledger).strip()).rstrip()
    problem = ""
    if not any(map(str.isalnum, visible(text))):
        problem = "a summary needs words"
    elif tag := leaked_tag(text):
        problem = f"{tag} begins a tag of our prompts: put it in backticks, or leave it out"
    elif LEDGER_HEADING in text:
        problem = f"what stands under {LEDGER_HEADING!r} is kept as it is: leave it out"
    elif len(text) > CHARACTERS_A_TOKEN * most_tokens or count_summary(text, count) > most_tokens:
        problem = f"it is too long for a summary: {most_tokens} tokens are allowed"
    if problem:
        raise InvalidMessage(f"text: {problem}.", field="text")
    return text


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
    is_of_model = not (draft.is_extract or draft.by_person)
    if is_of_model and is_error_text(seen):
        return ErrorCode.ERROR_TEXT
    if not draft.by_person and len(seen) < MIN_SUMMARY_CHARS:
        return ErrorCode.TOO_SHORT
    # Before anything is counted: a tokenizer cannot read lone surrogates, and no database stores them.
    if not (is_storable(text) and is_storable(draft.model)):
        return ErrorCode.INVALID_TEXT
    if is_of_model and (code := _why_it_says_nothing(seen, request)):
        return code
    if count([text])[0] > longest:
        return ErrorCode.OVERSIZE
    return ErrorCode.NO_PROGRESS if count_summary(text, count) > most_tokens else None


def _why_it_says_nothing(text: str, request: SummaryRequest) -> ErrorCode | None:
    # With the look-ahead, in whose words a summary may say what led there.
    replaced = _TAG.sub(" ", request.user.rpartition(END_OF_MATERIAL)[0] or request.user)
    if tells_nothing(text, replaced):
        return ErrorCode.ERROR_TEXT
    says_nothing = repeats_instructions(text, replaced) or repeats_itself(text) or tells_no_fact(text, replaced)
    return ErrorCode.NOTHING_TOLD if says_nothing else None


def is_error_text(text: str) -> bool:
    """Whether a draft, stripped, is by its form an error, a gateway's page, or a refusal."""
    return bool(_REFUSAL.match(_HEADING.sub("", text).strip()) or _PAGE.match(text) or _reports_error(text))


def tells_nothing(text: str, replaced: str) -> bool:
    """Whether a draft, stripped, is too short for a summary of ``replaced`` and has neither its names nor its words."""
    below, headings = _HEADING.subn("", text)
    if len(below) > _LONGEST or headings:
        return False
    own, known = _read(below), _read(replaced)
    # 7,21 may be one number or a row of two.
    digits = set(_DIGITS.findall(below)) & set(_DIGITS.findall(replaced))
    told = _told_of(own, known, below, replaced) | digits
    # A small number is in any long text, and among many other names a single one is there by chance.
    weight = sum(2 if len(word) > 2 or word.isalpha() else 1 for word in told)
    if weight > 1 and 3 * len(told) >= len(own.marked | own.values | told):
        return False
    # In a text that is far longer nearly any word is found.
    is_far_longer = len(replaced) > _FAR_LONGER * len(text)
    return len(told) + len(own.content & known.content) < 4 or (is_far_longer and tells_no_fact(text, replaced))


def tells_no_fact(text: str, replaced: str) -> bool:
    """Whether a draft has hardly a fact of what it replaces: a name, a number, or words together that are so there.

    Empty talk has the words of any long text, yet not together. A summary of a short one in the same language may have
    its words apart from each other. One in another language has its names and numbers, in another script its numbers;
    where there are none, nothing is said of it.
    """
    text = _ITEM.sub("", text)
    parts, others = _parts(text), _parts(replaced)
    if len(frozenset[str]().union(*others)) < _FEWEST_WORDS:
        return False
    words, shared = frozenset[str]().union(*parts), defaultdict[str, list[int]](list)
    for place, part in enumerate(others):
        for word in words & part:
            shared[word].append(place)
    # Most summaries show it by their words, whatever the names.
    if (facts := _facts(parts, {}, shared)) and _ONE_IN * facts >= len(parts):
        return False
    own, known = _read(text), _read(replaced)
    names = _told_of(own, known, text, replaced)
    is_same_language = len(_frequent(text).keys() & dict(_frequent(replaced).most_common(_FREQUENT))) > 1
    # Where each noun has a capital, it marks a name no more than a small number does.
    are_named = 3 * len(known.marked - known.values) <= len(known.content)
    is_sure = {word: len(word) > 2 and (word in known.values or are_named or not is_same_language) for word in names}
    facts = _facts(parts, is_sure, shared)
    if facts and _ONE_IN * facts >= len(parts):
        return False
    if is_same_language:
        is_known = len(shared) >= _SHARE_KNOWN * len(words)
        return not is_known or len(replaced) > _FAR_LONGER * len(text)
    letters, written = [one for one in text if one.isalpha()], set(replaced)
    is_same_script = 2 * sum(one in written for one in letters) > len(letters)
    left = known.values | known.marked if is_same_script and are_named else known.values
    return len(left) >= _FEWEST_FACTS and not names & known.values


def _parts(text: str) -> list[frozenset[str]]:
    """The words of each different part of a text, of a number also the groups of its digits."""
    parts = dict.fromkeys(_PART.findall(text))
    read = (content_stems(part).union(_DIGITS.findall(part)) for part in parts)
    return [words for words in read if words]


def _facts(parts: list[frozenset[str]], is_sure: dict[str, bool], places: dict[str, list[int]]) -> float:
    """How many facts the parts of a draft tell, by the rare words that they share with parts of what it replaces."""
    rare = {word for word, found in places.items() if len(found) <= _MOST_PARTS}
    names = {word: 1 if sure else _SMALL for word, sure in is_sure.items() if len(word) > 2 or word.isdigit()}
    told = sum(_is_told(part & rare, places, names) for part in parts)
    return told + sum(names[word] for word in names.keys() & rare)


def _is_told(words: frozenset[str], places: dict[str, list[int]], names: Collection[str]) -> bool:
    """Whether a part of what is replaced has three of these words, two that are values, or six pairs of signs."""
    weights = defaultdict[int, float](float)
    for word in words:
        is_value = word in names or word[-1].isdigit()
        weight = 1.5 if is_value else 0.5 if UNSPACED_SIGN.match(word) else 1
        for place in places[word]:
            weights[place] += weight
    return max(weights.values(), default=0) >= _TOLD


def _frequent(text: str) -> Counter[str]:
    """How often each word is written, or each sign of a script without spaces."""
    often = Counter[str]()
    for word, number in Counter(_WORD.findall(text.casefold())).items():
        for one in word if UNSPACED_SIGN.match(word) else [word]:
            often[one] += number
    return often


def repeats_instructions(text: str, material: str) -> bool:
    """Whether a draft has a run of :data:`_RUN` words of our own instructions that the material does not have."""
    runs = [run for run in _runs(text) if run in _instructions()]
    known = f" {' '.join(_WORD.findall(material.casefold()))} " if runs else ""
    return any(f" {run} " not in known for run in runs)


def repeats_itself(text: str) -> bool:
    """Whether more than half of a draft are lines that it had already, or sentences of a line, as of a model in a loop.

    After the same sentence: what follows the "no." of a list is another one each time.
    """
    shown = filter(None, text.split("\n"))
    lines = [[" ".join(part.split()).casefold() for part in _SENTENCE_ENDS.split(line)] for line in shown]
    told = sum(len(part) for line in set(map(tuple, lines)) for _, part in set(pairwise(("", *line))))
    return sum(map(len, lines)) >= _FEWEST_PARTS and 2 * told < sum(len(part) for line in lines for part in line)


@lru_cache(maxsize=1)
def _instructions() -> frozenset[str]:
    return frozenset(run for text in OWN_WORDS for run in _runs(text))


def _runs(text: str) -> list[str]:
    words = _WORD.findall(text.casefold())
    return [" ".join(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)]


def _read(text: str) -> Words:
    parts = [read_words(line)[:4] for line in ["", *text.splitlines()]]
    content, marked, values, initial = (frozenset[str]().union(*column) for column in zip(*parts, strict=True))
    return Words(content, marked, values, initial)


def _told_of(own: Words, known: Words, text: str, replaced: str) -> frozenset[str]:
    """Names and values of what is replaced. A name is the same word in both, and is never written small."""
    names = own.marked & (known.marked | known.initial) | own.initial & known.marked
    both = set(_NAMED.findall(text.casefold())) & set(_NAMED.findall(replaced.casefold()))
    return names & set(map(stem, both - set(replaced.split()))) | own.values & known.values


def _reports_error(text: str) -> bool:
    try:
        value = json.JSONDecoder().raw_decode(text)[0] if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(value, dict) and "summary" not in value and not {"error", "errors"}.isdisjoint(value)
