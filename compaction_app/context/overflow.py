"""Whether a provider's error says that a request is too long, and how long it may be. Pure.

Structure comes first: the status, a code, two numbers of which the larger is what was sent. Only then the words. A
number is known by the words beside it (:func:`_numbers`), so that a sentence nobody has seen yet can be read too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compaction_app.messages.validation import read_json, storable, token_count
from compaction_app.values import Capacity, SummaryDraft

#: A smaller window than this is a misread number, or a gateway's mistake: instructions alone take a thousand tokens.
SMALLEST_WINDOW = 1_000
#: Of a window, a quarter is for the reply, as for ``RESERVED_TOKENS``.
OUTPUT_SHARE = 4
#: Two shares of requests are the same if they differ by less than this share. The second request is smaller by more.
_ALIKE = 0.1
#: No server's default window is smaller. Below it a count that is too low is a proxy's, and nothing was cut.
_SMALLEST_CUT = 4_096
#: Characters of an error that are read. Some servers quote the whole request.
_LONGEST = 4_000
_DEEPEST = 6

#: Where errors have their words and codes; other fields ("input") may quote the prompt.
_WORDS = ("message", "msg", "detail", "details", "error", "errors", "error_message", "reason", "raw", "metadata")
_CODES = ("code", "type", "error_type", "status")
_OVERFLOW_CODE = re.compile(
    r"context\w*exceed|exceed\w*context|(?:prompt|input)\w*(?:exceed|too_?l)|(?:request|payload)\w*too_?large"
    r"|tokens_limit_reached",
    re.IGNORECASE,
)
_RATE_CODE = re.compile(r"rate|quota|throttl|per_")
#: The status of an error about a request; an error inside a stream has none.
_STATUSES = (None, 200, 400, 413, 422, 500)

_RATE = re.compile(r"(?:tokens|requests) per (?:min|hour|day)|\b[tr]p[md]\b|per[- ]minute", re.IGNORECASE)
#: A field with too many characters, items or bytes; a gateway may take it for the window, as LiteLLM does.
_OTHER_SIZE = re.compile(
    r"string too long|array too long|string_above_max|\b(?:image|images|audio|video|file|pdf|characters|pixels)\b"
    r"|input should|inputs? (?:is|are) not|time limit|quota|credit",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"max_(?:completion_|output_|new_)?tokens|maxoutputtokens|maximum tokens you requested"
    r"|(?:completion|output) tokens",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"large|exceed|range|maxim(?!um tokens)|at most|less|limit|greater|invalid|above", re.IGNORECASE)
_CONTEXT = r"context[ _-]?(?:length|size|window|limit)(?!_fallback)"
_CONTEXT_NUMBER = re.compile(rf"{_CONTEXT}(?: is| of| only| limit){{0,3}}:? ?\(?\d", re.IGNORECASE)
#: In one sentence, what is too much and that it is.
_SIZE = re.compile(
    rf"{_CONTEXT}|\b(?:prompt|inputs?|messages|conversation)\b(?![.\[])|\btokens?\b|maximum context"
    r"|request body|payload",
    re.IGNORECASE,
)
_EXCESS = re.compile(
    r"exceed|too (?:long|large|many)|(?:longer|larger|greater) than|reduce the length|overflow|maximum context length"
    r"|reached",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"\b(?:prompt|inputs?|messages)\b(?![.\[])", re.IGNORECASE)
#: vLLM says the third of a prompt that leaves less than nothing for the reply; the last two are Chinese.
_PLAIN = re.compile(
    r"request(?: entity)? (?:is )?too large|request exceeds the maximum size|at least 1, got -"
    r"|range of input length|超长|上下文长度",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"[.;\n] ?")

_NUMBER = re.compile(
    r"(?<![\w./#-])(?:(\d{1,3}(?:[,_ \u00a0\u202f]\d{3}){1,4})|(\d{1,12})(\.\d{1,3})?(k|m)?)(?![\w-]|[.,]\d)",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\[ ?\d{1,6}, ?(?=\d)")
#: What a number is, by the last of these words before it.
_BEFORE = re.compile(
    r"(?P<limit>maximum|\bmax\b|limit|at most|\bto\b|only|allow|exceed|than|support|<=|>|context|range)"
    r"|(?P<sent>requested|resulted|contain|\bhas\b|passed|received|\bgot\b|given|current|keep|provided)"
    r"|(?P<none>used|\bby $|- $)|(?P<output>\+ $)",
    re.IGNORECASE,
)
_BEFORE_WEAK = re.compile(r"prompt|input|messages|request|count|total", re.IGNORECASE)
_AFTER_LIMIT = re.compile(r" ?(?:tokens? )?(?:maximum|max\b|limit|context)", re.IGNORECASE)
_AFTER = re.compile(
    r"[ `]{0,2}(?:tokens? )?(?:(?:in|of|from|for) )?(?:the |your )?(?:text )?"
    r"(?:(?P<prompt>input|prompt|message)|(?P<output>completion|output|max_new|draft))|(?P<sum> ?\+)|(?P<more> >)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """What a provider says of a request that is too long, in its own tokens; None where it does not say."""

    window: int | None = None
    #: Tokens of the request, without the reply.
    sent: int | None = None
    #: More at once than a rate allows: waiting does not help, and ``window`` is no window to remember.
    is_rate: bool = False
    #: No refusal: a reply that ended where the window was full, or at a limit of the server's own.
    ended_reply: bool = False

    def left_of(self, capacity: Capacity, size: int) -> Capacity:
        """What is left of a capacity, by our count, after a refused request of ``size`` tokens: half of that where the
        provider names no window."""
        if self.window is None:
            most = max(1, size // 2)
            return capacity.within(Capacity(most, max(1, most // (OUTPUT_SHARE - 1))))
        output = min(capacity.output_tokens, self.window // OUTPUT_SHARE)
        return capacity.within(Capacity(int((self.window - output) / theirs_for_ours(self.sent, size)), output))


def theirs_for_ours(reported: int | None, size: int) -> float:
    """A provider's tokens for one of ours, of a text of ``size`` tokens. Fewer than ours may be a proxy's count."""
    return max(1.0, (reported or 0) / size)


def find_overflow(status: int | None, body: Any) -> Overflow | None:
    """The overflow that an error reports: of ``status`` (None inside a stream) with ``body``, parsed or text."""
    text, codes, fields = _gather(body)
    numbers = _numbers(text)
    window, sent = _window_and_sent(numbers, text)
    window = token_count(fields.get("n_ctx")) or window
    sent = token_count(fields.get("n_prompt_tokens")) or sent
    if status == 429 or _RATE.search(text):
        over = window and sent and sent > window
        return Overflow(window, sent, is_rate=True) if over or _PLAIN.search(text) else None
    sized = "token" in text.lower() or not _OTHER_SIZE.search(text)
    if not sized or re.search("string too long|array too long", text, re.IGNORECASE):
        return None
    found = Overflow(window if window and window >= SMALLEST_WINDOW else None, sent)
    if any(_OVERFLOW_CODE.search(code) and not _RATE_CODE.search(code) for code in codes):
        return found
    if status not in _STATUSES or _is_about_output(text, numbers):
        return None
    if status == 413 or (window and sent and sent + sum(numbers["output"][:1]) > window):
        return found
    phrased = any(_SIZE.search(part) and _EXCESS.search(part) for part in _SENTENCES.split(text))
    return found if (phrased and not _OTHER_SIZE.search(text)) or _PLAIN.search(text) else None


def overflow_of_error(error: Any) -> Overflow | None:
    """That of an ``openai.APIError``; None for any other error."""
    # An error inside a stream has no status: the stream began with 200.
    return find_overflow(getattr(error, "status_code", None), error.message if error.body is None else error.body)


def overflow_of_report(report: Any) -> Overflow | None:
    """That of an error beside or in place of an answer, as gateways send it with status 200; None for no error."""
    return find_overflow(None, storable(report)) if report else None


def overflow_of_usage(
    draft: SummaryDraft, size: int, usual_share: float | None = None, limits: Sequence[int] = ()
) -> Overflow | None:
    """The overflow of a server whose window was full: it ended the reply before the limit that it was asked with, or
    it cut the request in silence, as Ollama does, and summarized the rest.

    ``size`` is the request's by our count, 0 where it is unknown; ``limits`` are those that the server may have. Few
    tokenizers make half as many tokens as another: ``usual_share`` is what the server said it had read of a larger
    request. A server that counts that way reads the same share of every request; one that cuts reads the same number
    of tokens.
    """
    if draft.finish_reason == "length" and draft.input_tokens and 0 < draft.output_tokens < draft.limit:
        window = draft.input_tokens + draft.output_tokens
        return Overflow(window=window, sent=draft.input_tokens, ended_reply=True)
    # A prompt that is exactly as large as the server's context was cut there. Contexts are multiples of 1,024.
    exact = draft.input_tokens
    if exact >= SMALLEST_WINDOW and (exact in limits or (exact % 1024 == 0 and size > exact)):
        return Overflow(window=exact, sent=exact)
    # Some providers count the tokens that they read from a cache apart.
    read = draft.input_tokens + draft.cached_tokens
    if size < _SMALLEST_CUT or not SMALLEST_WINDOW < 2 * read < size:
        return None
    if usual_share and abs(read / size - usual_share) < _ALIKE * usual_share:
        return None
    return Overflow(window=read + read // (OUTPUT_SHARE - 1), sent=read)


def find_output_limit(status: int | None, body: Any, asked: int) -> int | None:
    """The longest reply that an error allows, half of the ``asked`` where it names none; None for any other error."""
    text = complaint_of(body)
    numbers = _numbers(text)
    if status not in _STATUSES or not _is_about_output(text, numbers):
        return None
    named = [n for n in numbers["limit"] if 0 < n < asked]
    return max(named) if named else asked // 2 if _TOO_MUCH.search(text) else None


def error_text(body: Any) -> str:
    """The words of an error, without the fields in which it may quote its input. Not safe to store as they are."""
    return _gather(body)[0]


def complaint_of(body: Any) -> str:
    """The same with the names of the fields that are wrong."""
    return _gather(body, (*_WORDS, "param", "loc"))[0]


def _is_about_output(text: str, numbers: Mapping[str, list[int]]) -> bool:
    """A reply that is too long by itself, not with its prompt."""
    if numbers["prompt"] or _PLAIN.search(text) or _CONTEXT_NUMBER.search(text) or not _OUTPUT.search(text):
        return False
    others = (part for part in _SENTENCES.split(text) if not _OUTPUT.search(part))
    return not any(_PROMPT.search(part) and _EXCESS.search(part) for part in others)


def _gather(body: Any, keys: tuple[str, ...] = _WORDS) -> tuple[str, list[str], dict[str, Any]]:
    """The words of a body of any shape, its codes, and the fields of the objects in it."""
    texts: list[str] = []
    codes: list[str] = []
    fields: dict[str, Any] = {}

    def walk(value: Any, depth: int) -> Iterator[str]:
        if depth > _DEEPEST:
            return
        if isinstance(value, str):
            # JSON inside a string, as routers pass a provider's answer on.
            parsed = read_json(value) if len(value) <= 10 * _LONGEST else None
            yield from [value] if parsed is None else walk(parsed, depth + 1)
        elif isinstance(value, list | tuple):
            for item in value[:20]:
                yield from walk(item, depth + 1)
        elif isinstance(value, Mapping):
            fields.update(value)
            codes.extend(str(value[key])[:100] for key in _CODES if isinstance(value.get(key), str))
            for key in keys:
                yield from walk(value.get(key), depth + 1)

    texts.extend(walk(body, 0))
    return "\n".join(dict.fromkeys(texts))[:_LONGEST], codes, fields


def _numbers(text: str) -> dict[str, list[int]]:
    """Numbers by what they are: ``limit``, ``prompt``, ``sent``, ``output``; ``other`` where no word tells it."""
    found: dict[str, list[int]] = {name: [] for name in ("limit", "prompt", "sent", "output", "none", "other")}
    matches = list(_NUMBER.finditer(text))
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches[1:]), len(text)]
    for match, begin, end in zip(matches, ends, starts, strict=False):
        whole, digits, fraction, unit = match.groups()
        scale = {"k": 1_000, "m": 1_000_000}.get((unit or "").lower(), 1)
        number = int(re.sub(r"\D", "", whole)) if whole else int(float(digits + (fraction or "")) * scale)
        label = _label(text[max(begin, match.start() - 80) : match.start()], text[match.end() : end][:40])
        if _RANGE.search(text, max(0, match.start() - 10), match.start() + 1):
            label = "limit"
        # "from 1 (inclusive) to 65537 (exclusive)"
        found[label].append(number - text[match.end() :].startswith(" (exclusive"))
    return found


def _label(before: str, after: str) -> str:
    told = [str(match.lastgroup) for match in _BEFORE.finditer(before)]
    name = told[-1] if told else ""
    part = _AFTER.match(after)
    kind = str(part.lastgroup) if part else ""
    if name in ("none", "output"):
        return name
    if kind == "sum":
        return "prompt"
    if name == "limit" or _AFTER_LIMIT.match(after):
        return "limit"
    if kind in ("prompt", "output"):
        return kind
    return "sent" if kind or name or _BEFORE_WEAK.search(before) else "other"


def _window_and_sent(numbers: Mapping[str, list[int]], text: str) -> tuple[int | None, int | None]:
    """The smallest limit, and the largest of what was sent; a number alone counts only with its unit."""
    sent = max((n for n in numbers["prompt"] or numbers["sent"] if n > 0), default=None)
    limits = [n for n in numbers["limit"] if n > 0]
    if not limits and sent:
        limits = [n for n in numbers["other"] if SMALLEST_WINDOW <= n < sent]
    window = min((n for n in limits if n >= SMALLEST_WINDOW), default=min(limits, default=None))
    if window and sent is None and max(limits) > window:
        sent = max(limits)
    has_unit = "token" in text.lower() or _CONTEXT_NUMBER.search(text) or re.search("input length", text, re.IGNORECASE)
    return (window if has_unit or (sent and window and sent > window) else None), sent
