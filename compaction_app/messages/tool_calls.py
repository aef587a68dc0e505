"""Tool calls as one line each: what was done, to what, and how it ended. Pure.

A marker replaces a call and its result, so it names the argument that matters most (the path, the command, the query)
and the outcome where the result shows it (``tool_outcomes``). A registry maps tool names to markers; hosts add their
own with :func:`register_tool_marker`. An unknown tool gets a generic marker: no call is left out.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compaction_app.messages.openai_format import parse_arguments
from compaction_app.messages.tool_outcomes import find_error, outcome_of
from compaction_app.messages.truncate import one_line

logger = logging.getLogger("compaction_app.messages")

Arguments = Mapping[str, Any]
Marker = Callable[[Arguments, "str | None"], str]

#: A marker is one short line.
MARKER_CHARS = 240
_LABEL_CHARS = 120
_EDGE_CHARS = 400
#: How much of a command is read to find out its kind.
_COMMAND_CHARS = 4_000

_PATH_KEYS = "path file_path filepath file filename file_name target_file relative_path uri".split()
_PLACE_KEYS = (*_PATH_KEYS, "paths", "files", "directory", "dir", "folder", "cwd")
_COMMAND_KEYS = ("description", "label", "command", "cmd", "script", "code", "input")
_RUN_KEYS = ("command", "cmd", "script")
_QUERY_KEYS = "query q pattern search_term search regex keywords file_name glob term name".split()
_QUESTION_KEYS = ("title", "question", "prompt", "message", "text")
_URL_KEYS = ("url", "uri", "link", "address")

_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(.+)$", re.MULTILINE)
_COUNTED = re.compile(r"(\d+)\s+(error|warning)s?\b", re.IGNORECASE)


def register_tool_marker(tool_name: str, marker: Marker) -> None:
    """Show calls of ``tool_name`` through ``marker(arguments, result)``.

    ``arguments`` is the parsed dict, ``{}`` if they do not parse; ``result`` is the result's text, None if
    there is none. A name registered before, built-in ones included, is replaced.
    """
    _MARKERS[_key(tool_name)] = marker


def tool_marker(call: Mapping[str, Any], result: str | None) -> str:
    """One line for a tool call: ``[read: path]``, ``[shell: label → ✓]``, ``[tool-NAME: arguments]``."""
    name = call_name(call)
    arguments = _arguments(call)
    marker = _marker_of(name, _MARKERS)
    line = _safely(marker, arguments, result) if marker else ""
    return one_line(line or _generic(name, call, arguments, result), MARKER_CHARS)


def call_name(call: Mapping[str, Any]) -> str:
    return one_line(str(_function(call).get("name") or ""), 64)


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name and arguments, from the OpenAI shape or a flat one."""
    function = call.get("function")
    return function if isinstance(function, Mapping) else call


def result_status(call: Mapping[str, Any] | None, result: str) -> str:
    """``"ok"`` or ``"error"``; "" where the result does not show how the call ended. ``call`` is None if unknown."""
    if call is not None and _marker_of(call_name(call), _BUILT_INS) is _shell:
        return outcome_of(result, _command(_arguments(call))).status
    return outcome_of(result).status


def _marker_of(name: str, markers: Mapping[str, Marker]) -> Marker | None:
    return markers.get(_key(name)) or markers.get(_key(re.split(r"\.|__|/|:", name)[-1]))


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _safely(marker: Marker, arguments: Arguments, result: str | None) -> str:
    """A host's marker that raises must not stop a compaction: it is logged, and the generic one is used instead."""
    try:
        line: object = marker(arguments, result)
    except Exception as error:
        # As telemetry.log_error() writes it.
        fields = {"event": "error", "step": "tool_marker", "type": type(error).__name__}
        line = f"error step=tool_marker type={fields['type']}\n{''.join(traceback.format_tb(error.__traceback__))}"
        logger.error("%s", line, extra={"compaction": fields})  # noqa: TRY400  # its text may quote the call
        return ""
    return line if isinstance(line, str) else ""


def _arguments(call: Mapping[str, Any]) -> Arguments:
    raw = _raw_arguments(call)
    return raw if isinstance(raw, Mapping) else parse_arguments(raw) or {}


def _raw_arguments(call: Mapping[str, Any]) -> Any:
    function = _function(call)
    return next((function[key] for key in ("arguments", "input", "args", "action") if function.get(key)), "")


def _first(arguments: Arguments, keys: Sequence[str]) -> str:
    """The first of these arguments that has a value, as one line; "" if none has."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, list) and value:
            value = " ".join(str(item) for item in value[:20])
        if isinstance(value, str | int | float) and str(value).strip():
            return one_line(str(value), _LABEL_CHARS)
    return ""


def _with_error(line: str, result: str | None) -> str:
    error = find_error(result)
    return f"{line} ✗ {error}" if error else line


def _on_path(label: str, keys: Sequence[str] = _PATH_KEYS) -> Marker:
    def marker(arguments: Arguments, result: str | None) -> str:
        path = _first(arguments, keys) or _first(arguments, _URL_KEYS)
        # Without a path the generic marker says more.
        return _with_error(f"[{label}: {path}]", result) if path else ""

    return marker


def _edited(arguments: Arguments, result: str | None) -> str:
    lists = (arguments.get(key) for key in ("edits", "changes", "replacements", "operations"))
    edits = next((len(found) for found in lists if isinstance(found, list)), 1)
    path = _first(arguments, _PATH_KEYS)
    if not path:
        patch = arguments.get("patch") or arguments.get("input") or arguments.get("diff")
        paths = _PATCHED.findall(patch) if isinstance(patch, str) else []
        path, edits = one_line(", ".join(paths), _LABEL_CHARS), max(len(paths), 1)
    if not path:
        return ""
    return _with_error(f"[edited: {path} ({edits} edit{'' if edits == 1 else 's'})]", result)


def _editor(arguments: Arguments, result: str | None) -> str:
    """One tool for several actions, named by a ``command`` argument."""
    actions = {"view": _on_path("read"), "create": _on_path("created")}
    return actions.get(str(arguments.get("command")), _edited)(arguments, result)


def _shell(arguments: Arguments, result: str | None) -> str:
    label = _first(arguments, _COMMAND_KEYS)
    if not label:
        return ""
    if result is None:
        return f"[shell: {label}]"
    outcome = outcome_of(result, _command(arguments))
    if outcome.timed_out:
        return f"[shell: {label} → timed out]"
    if outcome.exit_code is not None and not outcome.succeeded:
        error = outcome.error if outcome.exit_code else ""
        return f"[shell: {label} → exit {outcome.exit_code}]" + (f" ✗ {error}" if error else "")
    if outcome.error:
        return f"[shell: {label}] ✗ {outcome.error}"
    return f"[shell: {label} → ✓]" if outcome.succeeded else f"[shell: {label}]"


def _command(arguments: Arguments) -> str:
    """The shell command; "" where the argument is code, or missing."""
    for key in _RUN_KEYS:
        value = arguments.get(key)
        text = " ".join(map(str, value[:50])) if isinstance(value, list) else value
        if isinstance(text, str) and text.strip():
            return text[:_COMMAND_CHARS]
    return ""


def _searched(arguments: Arguments, result: str | None) -> str:
    query = _first(arguments, _QUERY_KEYS)
    return _with_error(f'[searched: "{query}"]', result) if query else ""


def _lint(arguments: Arguments, result: str | None) -> str:
    places = _first(arguments, _PLACE_KEYS)
    if result is None:
        return f"[lint: {places}]" if places else "[lint]"
    counted = {"error": 0, "warning": 0}
    for number, word in _COUNTED.findall(result[-_EDGE_CHARS:]):
        counted[word.lower()] = int(number)
    outcome = f"{counted['error']} errors, {counted['warning']} warnings" if any(counted.values()) else ""
    error = find_error(result)
    line = f"[lint: {places} → " if places else "[lint → "
    # Output that is not recognized does not count as clean.
    clean = not result.strip() or re.search(
        r"\b(?:clean|no (?:errors|issues|problems|warnings)|passed)\b|\[\s*\]", result
    )
    return _with_error(f"{line}{outcome or ('clean' if clean and not error else 'see result')}]", result)


def _asked(arguments: Arguments, result: str | None) -> str:
    question = _first(arguments, _QUESTION_KEYS)
    if not question:
        return ""
    error = find_error(result)
    answer = one_line(result, _LABEL_CHARS) if result and not error else ""
    return _with_error(f"[asked user: {question}{' → ' + answer if answer else ''}]", result)


def _generic(name: str, call: Mapping[str, Any], arguments: Arguments, result: str | None) -> str:
    shown = [f"{key}={_value(value)}" for key, value in arguments.items() if value not in (None, "", [], {})]
    raw = _raw_arguments(call)
    text = ", ".join(shown) if arguments else (raw if isinstance(raw, str) and raw.strip() != "{}" else "")
    text = one_line(text, _LABEL_CHARS)
    return _with_error(f"[tool-{name or 'unnamed'}{': ' + text if text else ''}]", result)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return one_line(value, 60)
    return one_line(json.dumps(value, ensure_ascii=False, default=str), 60)


_BUILT_IN: dict[str, Marker] = {
    "read read_file cat open open_file view view_file get_file read_text_file fs_read": _on_path("read"),
    "edit edit_file str_replace multi_edit multiedit insert replace update_file search_replace": _edited,
    "patch apply_patch": _edited,
    "str_replace_editor str_replace_based_edit_tool text_editor": _editor,
    "create create_file new_file create_directory mkdir": _on_path("created"),
    "write write_file save_file write_to_file fs_write": _on_path("wrote"),
    "delete delete_file remove_file": _on_path("deleted"),
    "ls list_dir list_files list_directory": _on_path("listed", _PLACE_KEYS),
    "bash shell sh zsh powershell terminal run run_shell run_command run_terminal_cmd": _shell,
    "execute exec execute_command python execute_python run_python code_interpreter run_tests": _shell,
    "search grep find web_search search_files find_file glob ripgrep rg search_code": _searched,
    "codebase_search search_web google grep_search file_search": _searched,
    "fetch web_fetch fetch_url browse open_url http_get": _on_path("fetched", _URL_KEYS),
    "lint run_lint linter read_lints diagnostics eslint ruff": _lint,
    "ask ask_user ask_question ask_followup_question request_user_input": _asked,
}

_BUILT_INS: dict[str, Marker] = {name: marker for names, marker in _BUILT_IN.items() for name in names.split()}
_MARKERS: dict[str, Marker] = dict(_BUILT_INS)
