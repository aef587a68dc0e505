"""Reads docs/origins.md and finds what in it is not true: names that do not exist, claims without a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.core.management import get_commands
from django.db.models import Model
from django.utils.module_loading import import_string

from compaction_app.conf import DEFAULTS
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind
from tests.conftest import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "origins.md"

#: The five systems, and the parts of their documents in order.
SECTIONS = {
    system: [" ".join(part.split()) for part in parts.split(";")]
    for system, parts in {
        "stagewise": """What it does; Key files; Trigger; Boundary selection; Token estimation; Chained compressions;
            Serialization format; Prompt design; Model cascade; Tuning knobs; Test harness; Common tasks""",
        "@falai/agent": """Context compaction; Compaction strategies; Configuration; CompactionOptions; How it works;
            Manual compaction; Standalone utilities; Key properties""",
        "stud-cli": """What compaction is; Triggers; What gets compacted; Reasoning blocks; Core compaction and
            contextManagement; How a summary is made; Non-determinism; Designing around compaction; Memory;
            Context providers; State machines; Audit; Failure modes; Security""",
        "Onyx": """What it does; Branch-aware via tree structure; Progressive summarization; Cutoff marker;
            Token budget; Flow; Key functions""",
        "Vystak": """Session compaction; When to enable it; Layer 1: tool-output prune; Layer 3: threshold summarize;
            Manual compact; What's not Layer 2; Schema; Mode presets; context_window; What gets stored;
            Inspection endpoints; Failure handling; Token estimation; Observability; Example; Related; Status""",
    }.items()
}

#: Names that each document gives to its options, constants, events, functions, columns and counters.
NAMES = {
    "stagewise": """compressHistoryInternal handlePostStep generateSimpleCompressedHistory COMPRESSION_SYSTEM_PROMPT
        COMPRESSION_TARGET_CHARS buildCompressionUserMessage convertAgentMessagesToCompactMessageHistoryString
        estimateMessageTokens extract-compression-test-data.ts compactionThreshold HISTORY_COMPRESSION_HARD_CAP_TOKENS
        _isCompressingHistory KEPT_BUDGET_FRACTION KEPT_BUDGET_HARD_CAP_TOKENS minUncompressedMessages toolName
        metadata.compressedHistory PER_MESSAGE_OVERHEAD_CHARS previous-chat-history HISTORY_COMPRESSION_TIMEOUT_MS
        HISTORY_COMPRESSION_MODELS config.historyCompressionThreshold maxOutputTokens gemini-3.1-flash-lite
        gpt-5.4-nano claude-haiku-4.5 --channel --min-messages system-prompt.md user-message.md compact-history.xml
        actual-output.md metadata.json actualOutputIncludesPreviousTag [attached: [mentioned: [read: [edited: [shell:
        [lint: [searched: [created: [wrote: [tool-xxx]""",
    "@falai/agent": """CompactionEngine none tool_result_budget micro_compact auto_compact maxTokens
        compactionThreshold preserveRecentCount maxToolResultChars provider SessionManager checkAndCompact
        result.strategy result.estimatedTokens result.messagesCompacted estimateTokens applyToolResultBudget""",
    "stud-cli": """ContextOverflow sendReasoning contextManagement clear_thinking defaultParams
        DoubleCompactionConfigured CompactionThresholdHit CompactionStarted CompactionCompleted CompactionFailed
        CompactionSummaryOversize CompactionNoProgress CompactionReasoningDowngraded CompactionDoubleRan
        COMPOSE_REQUEST turnCap allowedTools /compact""",
    "Onyx": """parent_message_id last_summarized_message_id max_context_tokens reserved_tokens ChatMessage
        COMPRESSION_TRIGGER_RATIO RECENT_MESSAGES_RATIO get_compression_params find_summary_for_branch
        get_messages_to_summarize compress_chat_history history_tokens""",
    "Vystak": """prune_tool_output_bytes trigger_pct keep_recent_pct target_tokens context_window latest_compaction
        messages_after_up_to_id vystak_compactions thread_id generation summary_text up_to_message_id vystak_msg_id
        trigger summarizer_model input_tokens output_tokens created_at instructions SummarizationMiddleware mode
        summarizer api_keys ANTHROPIC_API_KEY ANTHROPIC_API_URL conservative aggressive previous_response_id
        compaction_failed _vystak_compaction_fallback x_vystak usage_metadata.input_tokens
        aget_num_tokens_from_messages vystak_compaction_total vystak_compaction_input_tokens_total
        vystak_compaction_messages_compacted vystak_compaction_estimate_error vystak_compaction_suppressions
        vystak.compaction.threshold.suppressed vystak.compaction.threshold.fallback docker-compaction
        vystak-channel-chat vystak-chat pruner.py compactor.py""",
}

_HEADER = ["There", "Here", "Status", "Where it lives", "Held by"]
_STATUS = re.compile(r"held|(?P<word>differs|to come)(?:: (?P<why>.*\S))?")
_PLACE = re.compile(r"(?:(event|command|constraint|file) )?`([^`]+)`")
_SETTING = re.compile(r'COMPACTION\["(\w+)"\]')
_TEST = re.compile(r"`(tests/[\w/]+\.py)::((?:\w+::)?\w+)`")
_MODELS = (ChatSession, ChatMessage, CompactionRun, CompactionEvent)
_NOTHING = "—"


@dataclass(frozen=True)
class Row:
    system: str
    section: str
    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    system: str
    section: str
    rows: tuple[Row, ...]


def tables(text: str) -> list[Table]:
    """One for each third-level heading, in order."""
    found: list[tuple[str, str, list[Row]]] = []
    system = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            system = line[3:].strip()
        elif line.startswith("### "):
            found.append((system, line[4:].strip(), []))
        elif line.startswith("|") and found:
            cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            found[-1][2].append(Row(system, found[-1][1], number, cells))
    return [Table(system, section, tuple(rows)) for system, section, rows in found]


def rows(text: str) -> Iterator[Row]:
    """The rows of all tables, without header and rule."""
    for table in tables(text):
        yield from table.rows[2:]


def find_problems(text: str) -> list[str]:
    """Everything that is wrong with the document; empty if all is true."""
    problems = [*_shape(text), *_names(text)]
    for row in rows(text):
        problems += [f"line {row.line}: {problem}" for problem in _row_problems(row)]
    return problems


def _shape(text: str) -> Iterator[str]:
    present: dict[str, list[str]] = {}
    for table in tables(text):
        present.setdefault(table.system, []).append(table.section)
        if [list(row.cells) for row in table.rows[:1]] != [_HEADER] or len(table.rows) < 3:
            yield f"{table.system}, {table.section}: no table with a row"
    for system, sections in SECTIONS.items():
        if present.pop(system, []) != sections:
            yield f"{system}: not its sections in their order"
        if not re.search(rf"^## {re.escape(system)}\n\nFrom \S.{{100,}}", text, re.MULTILINE):
            yield f"{system}: no paragraph that says what came from it"
    yield from (f"{system} is none of the five systems" for system in present)
    told: set[tuple[str, str, str]] = set()
    for row in rows(text):
        key = (row.system, row.section, row.cells[0])
        if key in told:
            yield f"line {row.line}: said twice"
        told.add(key)


def _names(text: str) -> Iterator[str]:
    """Names of a document that stand in no row of its system."""
    for system, names in NAMES.items():
        said = "\n".join(row.cells[0] for row in rows(text) if row.system == system)
        yield from (f"{system}: nothing is said of {name}" for name in names.split() if name not in said)


def _row_problems(row: Row) -> Iterator[str]:
    if len(row.cells) != len(_HEADER) or not all(row.cells):
        yield f"{len(_HEADER)} cells are wanted, none of them empty"
        return
    _, here, status, where, tests = row.cells
    how = _STATUS.fullmatch(status)
    if not how:
        yield f"unknown status {status!r}"
        return
    if how["word"] and not how["why"]:
        yield f"{how['word']}: why, or what, is not said"
    if not how["word"] and _NOTHING in (here, where, tests):
        yield "held, without a name, a place or a test"
    yield from _place_problems(where)
    yield from _test_problems(tests)


def _place_problems(cell: str) -> Iterator[str]:
    for part in [] if cell == _NOTHING else cell.split("<br>"):
        found = _PLACE.fullmatch(part)
        if not found:
            yield f"{part!r} names no place"
        elif not exists(found[1] or "", found[2]):
            yield f"{part} does not exist"


def _test_problems(cell: str) -> Iterator[str]:
    for part in [] if cell == _NOTHING else cell.split("<br>"):
        found = _TEST.fullmatch(part)
        if not found:
            yield f"{part!r} names no test"
        elif found[2] not in names_of_tests(found[1]):
            yield f"the test {part} does not exist"


@cache
def exists(kind: str, name: str) -> bool:
    """Whether an importable name, a setting, an event, a command, a constraint or a file exists."""
    if kind == "event":
        return name in set(EventKind)
    if kind == "command":
        return name in get_commands()
    if kind == "constraint":
        return name in {constraint.name for model in _MODELS for constraint in model._meta.constraints}
    if kind == "file":
        return (REPOSITORY / name).is_file()
    if setting := _SETTING.fullmatch(name):
        return setting[1] in DEFAULTS
    return _is_importable(name)


def _is_importable(name: str) -> bool:
    """A module, what is in it, or an attribute of a class in it: model fields and dataclass fields count."""
    try:
        import_module(name)
        return True
    except ImportError:
        pass
    try:
        import_string(name)
        return True
    except ImportError:
        owner, _, attribute = name.rpartition(".")
    try:
        return _has(import_string(owner), attribute)
    except ImportError:
        return False


def _has(owner: Any, attribute: str) -> bool:
    if isinstance(owner, type) and issubclass(owner, Model):
        try:
            owner._meta.get_field(attribute)
            return True
        except FieldDoesNotExist:
            pass
    return hasattr(owner, attribute) or attribute in getattr(owner, "__annotations__", {})


@cache
def names_of_tests(path: str) -> frozenset[str]:
    """``test_x`` and ``TestX::test_y`` of a file, read and not run; none if it is not there."""
    file = REPOSITORY / path
    if not file.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{name}" for name in _test_names(node.body)}
    return frozenset(names | set(_test_names(ast.parse(file.read_text()).body)))


def _test_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name
