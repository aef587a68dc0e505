"""What a reply reports of itself: how many tokens its prompt had, and whether the provider compacted it.

Providers say it in their own ways, and a host stores what it got in ``usage`` and ``metadata``. Known are:

- Anthropic's ``context_management.applied_edits``: ``clear_tool_uses_…``, ``clear_thinking_…``, ``compact_…``, each
  with what it cleared;
- Anthropic's ``usage.iterations``, where a compaction is an iteration with tokens of its own, content blocks of the
  type ``compaction`` and the stop reason ``compaction``;
- output items of the type ``compaction`` in OpenAI's Responses API (xAI's is the same);
- LiteLLM's ``provider_specific_fields``: ``compaction_blocks`` and ``context_management``.

OpenAI's ``truncation: auto`` leaves messages out without a word, so a reply can not tell.

A number that is no count of tokens (negative, a text, beyond :data:`MAX_REPORTED`) is read as nothing: a reply has been
paid for and is stored, whatever its provider says of itself. The JSON API refuses one, since its clients can mend it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_COMPACTION_TYPES = ("compaction", "response.compaction")
#: Where replies keep their content: Anthropic's blocks, OpenAI's output items, LiteLLM's blocks.
_BLOCK_FIELDS = ("content", "output", "compaction_blocks")
#: Far more than any model reads at once. A larger number is nobody's count, and nothing is learned from it.
MAX_REPORTED = 10**8
_NO_WORD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderCompaction:
    """What a provider did to a prompt by itself; 0 is nothing, or not said."""

    #: Summaries that it made.
    compactions: int = 0
    cleared_tool_uses: int = 0
    #: Turns whose reasoning it took out.
    cleared_thinking_turns: int = 0
    cleared_input_tokens: int = 0
    #: Tokens of its own summarizing, which come on top of what the turn used.
    extra_input_tokens: int = 0
    extra_output_tokens: int = 0

    @property
    def ran(self) -> bool:
        return bool(self.compactions or self.cleared_tool_uses or self.cleared_thinking_turns)


def prompt_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Tokens of the whole prompt, cached ones included; None where the usage does not say."""
    if not isinstance(usage, Mapping):
        return None
    for name in ("prompt_tokens", "input_tokens"):
        if (tokens := _number(usage.get(name))) is not None:
            # Anthropic leaves what it read from or wrote to its cache out of input_tokens.
            cached = (_number(usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation"))
            return tokens + (sum(n or 0 for n in cached) if name == "input_tokens" else 0)
    return None


def provider_compaction(usage: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> ProviderCompaction:
    """What a reply's usage and metadata say of the provider's own compaction."""
    reported = [part for part in (usage, metadata) if isinstance(part, Mapping)]
    reported += [inner for part in reported if isinstance(inner := part.get("provider_specific_fields"), Mapping)]
    edits = [edit for part in reported for edit in _edits(part)]
    iterations = [step for part in reported for step in _mappings(part.get("iterations")) if _is_compaction(step)]
    blocks = sum(
        _is_compaction(block) for part in reported for name in _BLOCK_FIELDS for block in _mappings(part.get(name))
    )
    stopped = any(part.get("stop_reason") == "compaction" for part in reported)
    compacted = sum(str(edit.get("type", "")).startswith("compact") for edit in edits)
    return ProviderCompaction(
        # One compaction is told of in several places of the same reply.
        compactions=max(len(iterations), blocks, compacted, int(stopped)),
        cleared_tool_uses=_sum(edits, "cleared_tool_uses"),
        cleared_thinking_turns=_sum(edits, "cleared_thinking_turns"),
        cleared_input_tokens=_sum(edits, "cleared_input_tokens"),
        extra_input_tokens=_sum(iterations, "input_tokens"),
        extra_output_tokens=_sum(iterations, "output_tokens"),
    )


def report_of(reported: Any) -> dict[str, Any]:
    """A provider's ``context_management``, or LiteLLM's fields, in the form of ``metadata``; {} if they say nothing.

    Numbers and types only: what a compaction block says is left out.
    """
    fields = reported if isinstance(reported, Mapping) else {}
    inside = fields.get("context_management")
    edits = [_without_text(e) for part in (fields, inside) if isinstance(part, Mapping) for e in _edits_of(part)]
    blocks = sum(_is_compaction(block) for block in _mappings(fields.get("compaction_blocks")))
    report: dict[str, Any] = {"context_management": {"applied_edits": edits}} if edits else {}
    return report | ({"compaction_blocks": [{"type": "compaction"}] * blocks} if blocks else {})


def _without_text(edit: Mapping[str, Any]) -> dict[str, Any]:
    """Its type and its numbers. What is no plain word (a NUL, say, which no database takes) is left out."""
    kind = {"type": _NO_WORD.sub("", str(edit.get("type", "")))[:60]}
    numbers = {name: n for name, value in edit.items() if (n := _number(value)) is not None}
    return kind | {name: n for name, n in numbers.items() if name and not _NO_WORD.search(name)}


def _edits_of(management: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _mappings(management.get("applied_edits"))


def _edits(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    management = part.get("context_management")
    return _edits_of(management) if isinstance(management, Mapping) else []


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []


def _is_compaction(item: Mapping[str, Any]) -> bool:
    return item.get("type") in _COMPACTION_TYPES


def _sum(items: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(_number(item.get(name)) or 0 for item in items)


def _number(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_REPORTED
    return value if whole else None
