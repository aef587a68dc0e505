"""Metrics and log lines. They contain ids, numbers, codes and model names, never text of a conversation.

Metrics use the OpenTelemetry API and do nothing where the host's process has no SDK. Spans are made by instrumentations
of Celery and of the ``openai`` client, where the host installs them. A log line reads ``event key=value key=value``.
docs/telemetry.md lists every name.
"""

import json
import logging
import re
import traceback
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from opentelemetry import metrics

from compaction_app import __version__
from compaction_app.values import ModelCall, RunStatus

#: The buckets that the GenAI conventions recommend.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_MESSAGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

_meter = metrics.get_meter("compaction_app", __version__)


def _histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> metrics.Histogram:
    return _meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)


_counter = _meter.create_counter
_runs = _counter("compaction.runs", "{run}", "Runs that ended.")
_wait_seconds = _histogram("compaction.run.wait", "s", "From the creation of a run to its first claim.", _SECONDS)
_input_tokens = _counter("compaction.input_tokens", "{token}", "Input tokens of summarizers, refused drafts included.")
_output_tokens = _counter(
    "compaction.output_tokens", "{token}", "Output tokens of summarizers, refused drafts included."
)
_messages = _histogram("compaction.messages_compacted", "{message}", "Messages that a summary took in.", _MESSAGES)
_suppressions = _counter("compaction.suppressions", "{request}", "Compactions that were wanted and held back.")
_prompts = _counter("compaction.prompts", "{prompt}", "Prompts whose reply was stored, by the layer they needed.")


def _labels(run: Any) -> dict[str, str]:
    return {"compaction.layer": str(run.strategy), "compaction.trigger": str(run.trigger)}


def count_run(run: Any) -> None:
    """Count a run that ended."""
    attributes = {**_labels(run), "compaction.outcome": str(run.status)}
    if run.error_code and run.status != RunStatus.SKIPPED:
        attributes["error.type"] = str(run.error_code)
    _runs.add(1, attributes)
    if run.messages_compacted:
        _messages.record(run.messages_compacted, {"compaction.layer": str(run.strategy)})


def count_wait(run: Any) -> None:
    """How long a run has waited for a worker."""
    _wait_seconds.record(max(0.0, (run.started_at - run.created_at).total_seconds()), _labels(run))


def count_tokens(run: Any, calls: Sequence[ModelCall]) -> None:
    """Count the tokens of an attempt, whether its draft was accepted or not."""
    for call in calls:
        attributes = {**_labels(run), "gen_ai.request.model": call.model}
        _input_tokens.add(call.input_tokens, attributes)
        _output_tokens.add(call.output_tokens, attributes)


def count_suppression(*, layer: str, trigger: str, reason: str) -> None:
    attributes = {"compaction.layer": layer, "compaction.trigger": trigger, "compaction.reason": reason}
    _suppressions.add(1, {name: str(value) for name, value in attributes.items()})


def count_prompt(*, layer: str) -> None:
    _prompts.add(1, {"compaction.layer": str(layer)})


_PLAIN = re.compile(r"[^\s\"=]+")
# Cleared when full: a long-lived process meets every session, and a session's owner may name any model.
_said: set[tuple[str, object]] = set()
_MOST_SAID = 10_000


def log(logger: logging.Logger, level: int, event: str, /, *, once_for: object = None, **values: Any) -> None:
    """Log one line; None is left out. For JSON formatters the record has the same values in ``record.compaction``.

    ``once_for``: what a process says this event of once, a session or a model.
    """
    if not logger.isEnabledFor(level):
        return
    if once_for is not None:
        if (event, once_for) in _said:
            return
        if len(_said) >= _MOST_SAID:
            _said.clear()
        _said.add((event, once_for))
    _write(logger, level, event, values)


def log_error(logger: logging.Logger, error: BaseException, /, **values: Any) -> None:
    """Log an ``error`` line with the type of an exception and its traceback, but not its text.

    The exceptions of a host's code (a redactor, a policy, a summarizer) may quote the conversation.
    """
    frames = "".join(traceback.format_tb(error.__traceback__))
    _write(logger, logging.ERROR, "error", {**values, "type": type(error).__name__}, f"\n{frames}")


def _write(logger: logging.Logger, level: int, event: str, values: Mapping[str, Any], below: str = "") -> None:
    fields = {name: _simple(value) for name, value in values.items() if value is not None}
    extra = {"compaction": {"event": event, **fields}}
    # stacklevel: the record names the line of whoever called log or log_error.
    logger.log(level, "%s%s", log_line(event, fields), below, extra=extra, stacklevel=3)


def log_line(event: str, values: Mapping[str, Any]) -> str:
    """``skip session=… reason=cooldown covered=0.85``; a value with spaces, quotes or ``=`` is written as JSON."""
    return " ".join([event, *(f"{name}={_shown(value)}" for name, value in values.items())])


def _simple(value: Any) -> Any:
    """A value for JSON formatters: numbers and lists stay, everything else becomes a string."""
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Decimal):
        # Money as people write it: ``0.0004825``, and ``0`` for a stored ``0E-8``.
        return format(value.normalize(), "f")
    return [_simple(item) for item in value] if isinstance(value, list | tuple) else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
