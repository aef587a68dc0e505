"""What of a provider's error message may be stored: the words of a closed list, and numbers. Pure.

Providers quote keys, and any part of their input, in their errors: cut off, escaped or in other words. No search for
such quotes finds all of them. So a word is kept only if it belongs to the language of such errors (:data:`WORDS`) or to
the model's name, and a number only if the prompt does not contain it, with or without separators. Everything else
becomes "…", and so does what stands in quotes, or has four words in a row with the prompt. A message of which little is
left is dropped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_LONGEST_READ = 2_000
_LONGEST = 200
#: A message that has this many words in a row with the prompt quotes it, whatever words they are.
_RUN = 4
MASK = "…"

_WORD = re.compile(r"\w+")
#: What words are made of: "max_tokens", "RateLimitError".
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^_]")
#: With a unit, as in "20s"; a longer one may be an account's or a card's.
_NUMBER = re.compile(r"(\d{1,9})(?:ms|s|m|h|k|kb|mb|gb|kib|mib|gib)?", re.IGNORECASE)
#: Between the groups in which people write the number of a card, an account or a telephone.
_SEPARATOR = r"[\s.,'’/–‑-]"
_BETWEEN_DIGITS = re.compile(rf"(?<=\d){_SEPARATOR}(?=\d)")
_GROUPS = re.compile(rf"\d+(?:{_SEPARATOR}\d+)++")
_INDEX = re.compile(r"\d{1,3}")
#: Something of several words in quotes, up to the end where they are not closed. Not the apostrophe in "model's".
_QUOTED = re.compile(r"(?<!\w)(?:([\"'`])(?=\S)[^\s\"'`]*\s.*?(?:\1(?!\w)|\Z)|[“„«].*?(?:[”“»]|\Z))", re.DOTALL)
_MASKS = re.compile(rf"{MASK}(?:[^\w{MASK}]*{MASK})+")
_NOT_PUNCTUATION = re.compile(r"[^\s.,:;!?'\"`’()\[\]{}<>/|=%&*#+-]")

#: The language of the errors of OpenAI, Azure, vLLM, llama.cpp, Ollama, Anthropic, Google and the gateways before them.
WORDS = frozenset(
    """
    a about above accept accepted access account active add admin after again all allowed already also an and another
    any api app are argument arguments as at attempt attempts authenticate authentication authorization authorized
    automatically available bad balance base be bearer because been before being below between billing blocked body
    boolean both bug busy but by bytes call called calls can cannot capacity change character characters chat check
    choose client closed code codes complete completion completions concurrency concurrent config configuration
    configured connect connection consider contact contain contains content context correct could couldn count create
    created credentials credit credits current currently d daily date day days decrease default denied deny deployment
    deprecated detail details did didn different disabled do documentation does doesn don double due during each either
    empty enable enabled encoding endpoint engine enough error errors exceed exceeded exceeding exceeds exception
    exhausted exist existing exists expected expired extra fail failed failure feature field fields file filtered find
    first following for forbidden format found free from function gateway generate generated generation get given go got
    greater had hard has have header headers help here high higher hour hourly hours how however http https id
    identifier if in include included incomplete incorrect increase increasing inference information input inputs
    instance instead insufficient integer internal into invalid is isn it its json just key keys large larger later
    learn least length less level limit limited limits list load loaded loading long longer low lower made make
    management many max maximum may memory message messages method might min minimum minute minutes missing mode model
    models modify month monthly more most much must name need needed needs new no none not now null number object
    occurred of off on once one only operation option or org organization other our out output outputs over overload
    overloaded own parameter parameters parse part passed path payload payment pending per permission permissions
    permitted plan please plus policy positive possible present process processed processing project prompt prompts
    property provide provided provider proxy queue quota range rate reach reached read reason receive received reduce
    reducing refer refused region rejected remaining remove renew request requested requests require required requires
    reset resource resources response result resulted results retries retry return returned role rpd rpm run running s
    safety schema seconds see select send sent server servers service services set shorten shorter should shut since
    size slot slots slow small smaller so some soon specified specify start started state status still stop stream
    string subscription such supplied support supported supports system t temperature temporarily temporary text than
    that the their then there these they this those throttled tier time timed timeout to token tokenizer tokens too tool
    tools top total tpd tpm traffic tried try trying type unable unauthorized unavailable under unexpected unknown
    unprocessable unrecognized unsupported until up upgrade upstream url usage use used user users using valid validate
    validation value values verify version via wait waiting was we were when where which while will window with within
    without wrong you your zero
    anthropic azure bedrock ctx google litellm llama ollama openai openrouter vllm
    """.split()
)


def safe_message(message: str, prompt: str, name: str = "") -> str:
    """The message on one line, masked; "" where little of it is left. ``name`` is the model's."""
    text = html.unescape(prompt)
    message = _QUOTED.sub(MASK, " ".join(message[:_LONGEST_READ].split()))
    found = list(_WORD.finditer(message))
    quoted = _quoted([match[0] for match in found], text)
    names = set(_WORD.findall(name))
    digits = _BETWEEN_DIGITS.sub("", text)
    said = {
        place for groups in _GROUPS.finditer(message) if _is_said(groups[0], digits) for place in range(*groups.span())
    }
    kept = [
        _is_kept(match[0], digits, names) and i not in quoted and match.start() not in said
        for i, match in enumerate(found)
    ]
    if sum(kept) * 2 < len(kept) + message.count(MASK):
        return ""
    return _MASKS.sub(MASK, "".join(_pieces(message, found, kept))).strip()[:_LONGEST]


def safe_code(code: object) -> str:
    """A provider's code, type or parameter, such as "context_length_exceeded"; "" for any other text."""
    if not isinstance(code, str) or len(code) > _LONGEST:
        return ""
    words = [word for word in _WORD.findall(code) if not _INDEX.fullmatch(word)]
    return code if words and not re.search(r"[^\w.\[\]-]", code) and all(map(_is_listed, words)) else ""


def _pieces(message: str, found: list[re.Match[str]], kept: list[bool]) -> Iterator[str]:
    end = 0
    for match, keep in zip(found, kept, strict=True):
        yield _NOT_PUNCTUATION.sub(MASK, message[end : match.start()])
        yield match[0] if keep else MASK
        end = match.end()
    yield _NOT_PUNCTUATION.sub(MASK, message[end:])


def _is_said(groups: str, digits: str) -> bool:
    """Whether groups of digits are, as one number, in the prompt, or longer than the numbers of errors."""
    number = _BETWEEN_DIGITS.sub("", groups)
    return number in digits or _NUMBER.fullmatch(number) is None


def _is_kept(word: str, digits: str, names: set[str]) -> bool:
    """``digits``: the prompt, with its digits in one piece where people separate them."""
    if word in names or _is_listed(word):
        return True
    number = _NUMBER.fullmatch(word)
    return number is not None and number[1] not in digits


def _is_listed(word: str) -> bool:
    return all(part.lower() in WORDS for part in _PART.findall(word))


def _quoted(words: list[str], prompt: str) -> set[int]:
    """The places of words that the message has in a row with the prompt."""
    said = " ".join(_WORD.findall(prompt.casefold()))
    runs = range(len(words) - _RUN + 1)
    starts = [i for i in runs if f" {' '.join(words[i : i + _RUN]).casefold()} " in f" {said} "]
    return {i for start in starts for i in range(start, start + _RUN)}
