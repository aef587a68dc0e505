"""What of a provider's error message may be stored: the words of a closed list, and numbers. Pure.

Providers quote keys, and any part of their input, in their errors: cut off, escaped or in other words. No search for
such quotes finds all of them. So a word is kept only if it belongs to the language of such errors (:data:`WORDS`) or to
the model's name, and a number only if the prompt does not contain its digits in a row. Everything else becomes "…", and
so does what stands in quotes, or has four words in a row with the prompt. A message of which little is left is dropped.
"""

import html
import re

from compaction_app.memory.word_tables import STOP

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
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s.,'’/–‑-](?=\d)")
_INDEX = re.compile(r"\d{1,3}")
#: Something of several words in quotes, up to the end where they are not closed. Not the apostrophe in "model's".
_QUOTED = re.compile(r"(?<!\w)(?:([\"'`])(?=\S)[^\s\"'`]*\s.*?(?:\1(?!\w)|\Z)|[“„«].*?(?:[”“»]|\Z))", re.DOTALL)
_MASKS = re.compile(rf"{MASK}(?:[^\w{MASK}]*{MASK})+")
#: Neither a word nor punctuation.
_ODD = re.compile(r"[^\w\s.,:;!?'\"`’()\[\]{}<>/|=%&*#+-]")

#: The language of the errors of OpenAI, Azure, vLLM, llama.cpp, Ollama, Anthropic, Google and the gateways before them.
WORDS = STOP.union(
    """
    above accept accepted access account active add admin after allowed already another api app argument arguments
    attempt attempts authenticate authentication authorization authorized automatically available bad balance base
    bearer because before below between billing blocked body boolean both bug busy bytes call called calls cannot
    capacity change character characters chat check choose client closed code codes complete completion completions
    concurrency concurrent config configuration configured connect connection consider contact contain contains
    content context correct count create created credentials credit credits current currently daily date day days
    decrease default denied deny deployment deprecated detail details different disabled documentation double due
    during each either empty enable enabled encoding endpoint engine enough error errors exceed exceeded exceeding
    exceeds exception exhausted exist existing exists expected expired extra fail failed failure feature field
    fields file filtered find first following forbidden format found free function gateway generate generated
    generation given greater hard header headers help high higher hour hourly hours however http https id identifier
    include included incomplete incorrect increase increasing inference information input inputs instance instead
    insufficient integer internal invalid json key keys large larger later learn least length less level limit
    limited limits list load loaded loading long longer low lower management max maximum memory message messages
    method min minimum minute minutes missing mode model models modify month monthly must name need needed needs new
    none null number object occurred off once only operation option org organization other output outputs overload
    overloaded own parameter parameters parse part passed path payload payment pending permission permissions
    permitted plan plus policy positive possible present process processed processing project prompt prompts
    property provide provided provider proxy queue quota range rate reach reached read reason receive received
    reduce reducing refer refused region rejected remaining remove renew request requested requests require required
    requires reset resource resources response result resulted results retries retry return returned role rpd rpm
    run running safety schema seconds select send sent server servers service services set shorten shorter shut
    since size slot slots slow small smaller soon specified specify start started state status stop stream string
    subscription such supplied support supported supports system temperature temporarily temporary text throttled
    tier time timed timeout token tokenizer tokens tool tools top total tpd tpm traffic tried try trying type unable
    unauthorized unavailable unexpected unknown unprocessable unrecognized unsupported until upgrade upstream url
    usage use used user users using valid validate validation value values verify version via wait waiting while
    window within without wrong zero
    anthropic azure bedrock ctx google litellm llama ollama openai openrouter vllm
    """.split()
)


def safe_message(message: str, prompt: str, name: str = "") -> str:
    """The message on one line, masked; "" where little of it is left. ``name`` is the model's."""
    text = html.unescape(prompt)
    # The prompt, with its digits in one piece where people separate them, and its words alone.
    digits, said = _BETWEEN_DIGITS.sub("", text), f" {' '.join(_WORD.findall(text.casefold()))} "
    message = _ODD.sub(MASK, _QUOTED.sub(MASK, " ".join(message[:_LONGEST_READ].split())))
    words, names = _WORD.findall(message), set(_WORD.findall(name))
    numbers = (_NUMBER.fullmatch(word) for word in words)
    kept = [
        word in names or _is_listed(word) or bool(number and number[1] not in digits)
        for word, number in zip(words, numbers, strict=True)
    ]
    for i in range(len(words) - _RUN + 1):
        if f" {' '.join(words[i : i + _RUN]).casefold()} " in said:
            kept[i : i + _RUN] = [False] * _RUN
    if sum(kept) * 2 < len(kept) + message.count(MASK):
        return ""
    keep = iter(kept)
    masked = _WORD.sub(lambda word: word[0] if next(keep) else MASK, message)
    return _MASKS.sub(MASK, masked).strip()[:_LONGEST]


def safe_code(code: object) -> str:
    """A provider's code, type or parameter, such as "context_length_exceeded"; "" for any other text."""
    if not isinstance(code, str) or len(code) > _LONGEST:
        return ""
    words = [word for word in _WORD.findall(code) if not _INDEX.fullmatch(word)]
    return code if words and not re.search(r"[^\w.\[\]-]", code) and all(map(_is_listed, words)) else ""


def _is_listed(word: str) -> bool:
    return all(part.lower() in WORDS for part in _PART.findall(word))
