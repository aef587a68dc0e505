"""Compaction of a plain list of messages, for people without the tree. Pure: no database, no Django settings.

``check_and_compact`` takes a history in the OpenAI chat format and returns one that fits the model's window. Layers,
cuts and the checks of a summary are those of a stored conversation, by the same functions; docs/plain.md has an
example. Branches, background runs and generations need the tree. The input is never changed, and the messages of a
result share nothing with it.
"""

import copy
import hashlib
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from compaction_app.compaction.planning import plan_compaction
from compaction_app.conf import Mode, Settings, load_function, settings_from
from compaction_app.context.budget import make_budget, reply_reserve, window_or_default, with_trigger_of
from compaction_app.context.pruning import ShownHistory, apply_layers, prune, prune_branch
from compaction_app.exceptions import InvalidMessage
from compaction_app.memory.extractive import extractive_draft
from compaction_app.messages import validation
from compaction_app.messages.originals import OPENAI, check_shape, one_or_all, read_message
from compaction_app.messages.transcript import count_summary, summary_message
from compaction_app.messages.truncate import shorten
from compaction_app.redaction import redactor_of
from compaction_app.summarizers.drafts import mended, prose_draft, refuse_draft, wrong_draft
from compaction_app.summarizers.prompts import Prompt, tighter
from compaction_app.telemetry import log, log_error
from compaction_app.tokens import Count, ExactTokenCounter, attachment_tokens, count_messages, count_tools
from compaction_app.values import (
    Branch,
    Budget,
    ErrorCode,
    Message,
    Origin,
    Role,
    SkipReason,
    Strategy,
    Summary,
    SummaryDraft,
    SummaryRequest,
)

__all__ = ["Compacted", "apply_tool_result_budget", "check_and_compact", "estimate_tokens", "extract"]

logger = logging.getLogger("compaction_app.plain")

#: A summary comes before the first message that it does not cover; messages are numbered from 1.
_SUMMARY_ID = 0
_SURROUNDING_ROLES = (Role.SYSTEM, Role.DEVELOPER)
#: Keys of a message that are counted and sent as text.
_SENT = ("content", "name", "tool_call_id", "tool_calls")


@dataclass(frozen=True, kw_only=True, slots=True)
class Compacted:
    """A history that fits, and what was done to make it fit."""

    #: In the OpenAI chat format, for the next request.
    messages: list[dict[str, Any]]
    #: The last layer that was used.
    strategy: Strategy
    #: Number of tool results that were shortened.
    pruned: int
    #: Number of messages left out without a summary of them.
    dropped: int
    #: Number of messages that the new summary covers; 0 if none was made.
    covered: int
    #: Tokens of ``messages``, by this app's counter.
    tokens: int
    #: Tokens of the history that was passed in.
    tokens_before: int
    #: The text of the summary that is in use, "" for none. Pass it on as ``summary`` next time.
    summary: str = ""
    #: Whether :func:`extract` made it. Pass it on too, or its lines are nobody's words next time.
    is_extract: bool = False
    #: Why no summary was made although one was needed: a refusal's code, or the name of what ``summarize`` raised.
    failure: str = ""


def check_and_compact(
    messages: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any] | None = None,
    summarize: Any = None,
    *,
    summary: str = "",
    is_extract: bool = False,
    model: str = "",
    tools: Sequence[Mapping[str, Any]] | None = None,
    reserved_tokens: int | None = None,
) -> Compacted:
    """The messages to send: unchanged, pruned, summarized, or without the oldest turns.

    They fit, unless ``MODE`` is "off", which returns them unchanged. System and developer messages at the beginning
    are never changed.

    ``options``: keys of ``COMPACTION``. ``CONTEXT_WINDOW``, or a ``model`` with a known window, says how much fits.
    ``summarize``: a function, or an object with a method ``summarize``, from a :class:`SummaryRequest` to a text or a
    :class:`SummaryDraft`. It is called at most twice, only where pruning is not enough. What it raises is logged and
    named in ``failure``; then no summary is made.
    ``summary``, ``is_extract``: what the last call returned; the text is how its message is recognized.

    Raises :class:`ContextOverflow` where the newest user message and the last group alone do not fit,
    :class:`ConfigurationError` for options, :class:`InvalidMessage` for a message, an argument or an answer of
    ``summarize`` of another type, :class:`RedactionFailed` where ``REDACTOR`` returned no text for the summarizer.
    """
    validation.check_budget_arguments(model, tools, reserved_tokens)
    validation.check_text(summary, "summary")
    settings = with_trigger_of(model, settings_from({} if options is None else options, where="options"))
    count: Count = load_function(settings.token_counter)
    history = _History(messages, summary, count, is_extract=is_extract)
    window = window_or_default(model, settings)
    reply = reply_reserve(window, settings, reserved_tokens)
    budget = make_budget(window, history.fixed_tokens + count_tools(tools, count) + reply, settings)
    branch, covered, failure = history.branch, 0, ""
    if (
        summarize is not None
        and settings.mode != Mode.OFF
        and prune_branch(branch, budget, settings, count)[0].history_tokens > budget.threshold
    ):
        branch, covered, failure = _compact(branch, budget, settings, count, summarize)
    shown = apply_layers(branch, budget, settings, count)
    # The turn's request is not part of the tail, and without a tree nothing else would show that it is gone.
    requests_gone = int(bool(branch.turn_request) and not shown.turn_request)
    return Compacted(
        messages=history.rebuilt(shown),
        strategy=shown.strategy,
        pruned=shown.pruned_messages,
        dropped=shown.dropped + requests_gone,
        covered=covered,
        tokens=history.fixed_tokens + shown.tokens,
        tokens_before=history.fixed_tokens + history.branch.history_tokens,
        summary=shown.summary.content if shown.summary else "",
        is_extract=shown.summary is not None and shown.summary.is_extract,
        failure=failure,
    )


def estimate_tokens(messages: Sequence[Mapping[str, Any]], *, count: Count | None = None) -> int:
    """Tokens of messages as they are sent, wrappers included; ``count`` is the exact counter unless given."""
    return sum(message.tokens for message in _values(messages, count or ExactTokenCounter()))


def apply_tool_result_budget(
    messages: Sequence[Mapping[str, Any]], max_bytes: int, *, keep_turns: int = 0
) -> list[dict[str, Any]]:
    """The messages with every tool result over ``max_bytes`` (of UTF-8) shortened to head, notice and tail.

    ``keep_turns``: the number of turns at the end that are left alone. Idempotent.
    """
    validation.check_whole_number(max_bytes, "max_bytes", low=1)
    validation.check_whole_number(keep_turns, "keep_turns")
    history = _History(messages, "", _no_count)
    to_limit = partial(shorten, limit=max_bytes)
    pruned = prune(history.branch.tail, to_limit, keep_turns=keep_turns, count=_no_count)
    return [*history.fixed(), *map(history.message, pruned)]


def extract(request: SummaryRequest) -> SummaryDraft:
    """A ``summarize`` without a model: quotes the most telling sentences. The same request gives the same bytes."""
    return extractive_draft(request, ExactTokenCounter())


class _History:
    """A plain list in its parts: the fixed opening messages, the last call's summary, the other messages as values."""

    def __init__(
        self, messages: Sequence[Mapping[str, Any]], summary: str, count: Count, *, is_extract: bool = False
    ) -> None:
        read = _values(messages, count)
        fixed = len(list(itertools.takewhile(lambda message: message.role in _SURROUNDING_ROLES, read)))
        self._fixed, rest = messages[:fixed], messages[fixed:]
        self.fixed_tokens = sum(message.tokens for message in read[:fixed])
        is_carried = bool(summary and rest) and rest[0].get("content") == summary_message(summary)
        self._carrier = rest[0] if is_carried else None
        self._originals = rest[is_carried:]
        begin = fixed + is_carried
        tail = tuple(replace(one, id=one.id - begin, depth=one.depth - begin) for one in read[begin:])
        self.branch = Branch(
            tip_id=len(tail),
            tip_depth=len(tail),
            tip_path_tokens=sum(message.tokens for message in tail),
            base=_summary(summary, count, is_extract) if self._carrier is not None else None,
            tail=tail,
        )

    def fixed(self) -> list[dict[str, Any]]:
        return [copy.deepcopy(dict(message)) for message in self._fixed]

    def message(self, message: Message) -> dict[str, Any]:
        """The dict that a value was made from, with the value's content."""
        result = copy.deepcopy(dict(self._originals[message.id - 1]))
        if message.origin == Origin.PRUNED:
            parts = result["content"] if isinstance(result["content"], list) else []
            others = [part for part in parts if not _is_text(part)]
            result["content"] = [{"type": "text", "text": message.content}, *others] if others else message.content
        return result

    def rebuilt(self, shown: ShownHistory) -> list[dict[str, Any]]:
        result = self.fixed()
        if shown.summary:
            role = self._carrier["role"] if self._carrier else Role.USER.value
            result.append({"role": role, "content": summary_message(shown.summary.content)})
        if shown.turn_request:
            result.append(self.message(shown.turn_request))
        return result + [self.message(message) for message in shown.tail]


def _compact(
    branch: Branch, budget: Budget, settings: Settings, count: Count, summarize: Any
) -> tuple[Branch, int, str]:
    """The branch with its new summary, how many messages that covers, and why there is none."""
    plan = plan_compaction(branch, budget, settings)
    if plan is None:
        return branch, 0, SkipReason.NOTHING_TO_COMPACT
    # No message can contain a digest of all of them, so none can forge the marker. The same history gives the same
    # request.
    seen = [message.content for message in (*plan.covered, *plan.lookahead)]
    nonce = hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]
    request = Prompt(settings, redact=redactor_of(settings)).request(plan, nonce)

    def ask(asked: SummaryRequest) -> tuple[SummaryDraft | None, str]:
        """The draft, and why it is not accepted, or why there is none."""
        try:
            answer = getattr(summarize, "summarize", summarize)(asked)
        except Exception as error:
            # A host's code: a prompt without the oldest turns is better than none. The text may quote messages.
            log_error(logger, error, messages=len(plan.covered))
            return None, type(error).__name__
        # None is the content of a reply that has none.
        draft = SummaryDraft(text=answer or "") if isinstance(answer, str | None) else answer
        if wrong := wrong_draft(draft):
            raise InvalidMessage(f"summarize must return a text or a SummaryDraft, not {wrong}.", field="summarize")
        draft = prose_draft(mended(draft, request.max_output_tokens), request.previous_ledger)
        return draft, str(refuse_draft(draft, request, plan.most_tokens, count) or "")

    draft, failure = ask(request)
    if failure == ErrorCode.OVERSIZE:
        draft, failure = ask(tighter(request, count([draft.text])[0] if draft else 0))
    if failure or draft is None:
        log(logger, logging.WARNING, "failed", code=failure, messages=len(plan.covered))
        return branch, 0, failure
    base = replace(_summary(draft.text.strip(), count, draft.is_extract), turn_request=plan.turn_request)
    return replace(branch, base=base, tail=plan.kept), len(plan.covered), ""


def _summary(text: str, count: Count, is_extract: bool) -> Summary:
    return Summary(
        id=_SUMMARY_ID,
        anchor_id=_SUMMARY_ID,
        anchor_depth=0,
        cutoff_id=_SUMMARY_ID,
        cutoff_depth=0,
        cutoff_path_tokens=0,
        tokens=count_summary(text, count),
        content=text,
        is_extract=is_extract,
        extract=text if is_extract else "",
    )


def _no_count(texts: Sequence[str]) -> list[int]:
    return [0] * len(texts)


# -- Messages in the OpenAI chat format -----------------------------------------------------------------


def _values(messages: Any, count: Count) -> list[Message]:
    """The messages as a chain of values numbered from 1; :class:`InvalidMessage` names the position of what is none."""
    validation.check_list_of_dicts(messages, "messages", "messages (dicts in the OpenAI chat format)")
    read = []
    for position, message in enumerate(messages):
        try:
            read.append(_fields(message))
        except InvalidMessage as error:
            raise InvalidMessage(f"Message {position} cannot be sent: {error}", field=error.field) from error
    sizes = count_messages(read, count)
    numbered = enumerate(zip(read, sizes, strict=True), start=1)
    return [Message(id=at, depth=at, tokens=tokens, **one) for at, (one, tokens) in numbered]


def _fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as a host's is read, with what the fields cannot give back beside them, so that it is counted."""
    if message.get("role") not in list(Role):
        raise InvalidMessage("it has no role of the OpenAI chat format.", field="role")
    check_shape(message)
    # What calls contain is up to the provider.
    if any(not isinstance(call.get("function"), Mapping | None) for call in message.get("tool_calls") or ()):
        raise InvalidMessage("the function of a call is no dict.", field="tool_calls")
    for name in _SENT:
        try:
            json.dumps(message.get(name), ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            # Half a character, say, which can be neither counted nor sent.
            raise InvalidMessage(f"{name}: {error}", field=name) from error
    reading, whole = read_message(message), {"format": OPENAI, "endpoint": "", "data": validation.storable(message)}
    results = [result for _, _, result, _ in reading.results]
    texts = [reading.text(message["role"]), *(result.text() for result in results)]
    files = [one for part in (reading, *results) for one in part.attachments]
    return {
        "role": str(message["role"]),
        "content": "\n\n".join(filter(None, texts)),
        "tool_calls": tuple(reading.calls),
        "tool_call_id": str(message.get("tool_call_id") or ""),
        "name": str(message.get("name") or ""),
        "reasoning": one_or_all(reading.reasoning),
        # Each is sent as it came, so it is never only named.
        "attachments": tuple({**one, "tokens": attachment_tokens([one], is_whole=True)} for one in files),
        "original": None if reading.is_exact else whole,
    }


def _is_text(part: Any) -> bool:
    return isinstance(part, str) or not {"text", "refusal"}.isdisjoint(part)
