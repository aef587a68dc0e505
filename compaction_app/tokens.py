"""Counting tokens: the same text has the same count, whatever model it is sent to later. Pure.

A message is counted once, when it is appended, by ``TOKEN_COUNTER``. Differences between models are corrected where
counts are compared with a window (``context.budget``), never in the counts.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from compaction_app.conf import NO_TOKENIZER, USE_CHARACTERS
from compaction_app.exceptions import ConfigurationError
from compaction_app.messages.media import TOKENS_PER_ATTACHMENT, media_tokens
from compaction_app.messages.openai_format import attachment_line, content_part, described, sent_name
from compaction_app.messages.originals import OPENAI, original_texts

#: Role, delimiters and end marker around each message (OpenAI's cookbook: 3 to 4).
TOKENS_PER_MESSAGE = 4
#: The result supplied for an unanswered call: wrapper and ``[no result]``, which has four o200k tokens.
TOKENS_PER_MISSING_RESULT = TOKENS_PER_MESSAGE + 4

Count = Callable[[Sequence[str]], list[int]]


class TokenCounter(Protocol):
    """The type of ``TOKEN_COUNTER``: a class without arguments whose instances count the tokens of each text."""

    def __call__(self, texts: Sequence[str]) -> list[int]: ...


class ExactTokenCounter:
    """o200k_base, exactly as the models of OpenAI count, without a download (``toktok-rs``).

    The first count of a process loads the tokenizer, which takes up to a second: see :func:`chat.warm_up`.
    """

    def __call__(self, texts: Sequence[str]) -> list[int]:
        # Not above: a host that counts characters need not have it.
        try:
            import toktok
        except ImportError as error:
            raise ConfigurationError(f"{NO_TOKENIZER} {USE_CHARACTERS}") from error

        # For a few texts, starting a thread pool costs more than it saves.
        counts: list[int] = toktok.batch_count(list(texts), "o200k_base", threads=1 if len(texts) < 64 else 0)
        return counts


class CharacterTokenCounter:
    """``ceil(chars / 3.5 × 1.1)``: Vystak's estimate, for hosts that cannot install the tokenizer."""

    def __call__(self, texts: Sequence[str]) -> list[int]:
        # 11/35 in whole numbers: floats would round 350 characters up to 111.
        return [-(-len(text) * 11 // 35) for text in texts]


def message_texts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that a model reads: content, name as it is sent, name and arguments of every tool call."""
    texts = [str(message.get("content") or "")]
    if name := message.get("name"):
        texts.append(sent_name(str(name)))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        texts += [str(function.get("name", "")), str(function.get("arguments", ""))]
    return texts


def attachment_tokens(attachments: Iterable[Mapping[str, Any]], *, sent: bool = True, is_whole: bool = False) -> int:
    """Their own ``tokens``; else the estimates of :mod:`messages.media`, where a model is ``sent`` them."""
    total = 0
    for attachment in attachments:
        if isinstance(own := attachment.get("tokens"), int):
            total += own
        elif is_whole or (sent and content_part(attachment)):
            flat = described(attachment)
            total += media_tokens(flat["type"], flat) or TOKENS_PER_ATTACHMENT
    return total


def count_messages(messages: Sequence[Mapping[str, Any]], count: Count) -> list[int]:
    """Tokens of each message (a dict in the OpenAI chat format, plus ``attachments``), wrapper included.

    An attachment is a content part of a user's message, or a line that names it. The counter is called once for all
    texts.
    """
    texts: list[str] = []
    parts: list[tuple[int, int, int]] = []
    for message in messages:
        fields, original = message_texts(message), list(original_texts(message.get("original")))
        attachments, sent = message.get("attachments") or (), message.get("role", "user") == "user"
        fields += [attachment_line(one) for one in attachments if not (sent and content_part(one))]
        texts += fields + original
        is_whole = (message.get("original") or {}).get("format", OPENAI) != OPENAI
        pictures = attachment_tokens(attachments, sent=sent, is_whole=is_whole)
        parts.append((TOKENS_PER_MESSAGE + pictures, len(fields), len(original)))
    counts = iter(count(texts))
    # Either the fields are sent or the original.
    return [flat + max(sum(islice(counts, fields)), sum(islice(counts, original))) for flat, fields, original in parts]


def count_tools(tools: Sequence[Mapping[str, Any]] | None, count: Count) -> int:
    """Tokens of tool schemas as JSON."""
    if not tools:
        return 0
    return sum(count([json.dumps(tool, ensure_ascii=False, sort_keys=True) for tool in tools]))
