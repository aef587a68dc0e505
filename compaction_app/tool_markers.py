"""Tool calls as one line each: what was done, to what, and how it ended.

A marker is what is left of a call when its arguments and its result are gone, so it names the telling
argument (the path, the command, the query) and the outcome. A registry maps tool names to markers; hosts add
their own with :func:`register_tool_marker`. A tool that nobody registered still gets a generic marker: a call
is never passed over in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Arguments = Mapping[str, Any]
Marker = Callable[[Arguments, "str | None"], str]

#: A marker is a line to skim, not a document.
MARKER_CHARS = 240
_LABEL_CHARS = 120
_ERROR_CHARS = 100
#: Larger results are not parsed as JSON: the outcome stands at the start or the end of what a tool prints.
_JSON_CHARS = 65_536
_EDGE_CHARS = 400

_PATH_KEYS = (
    "path",
    "file_path",
    "filepath",
    "file",
    "filename",
    "file_name",
    "target_file",
    "relative_path",
    "uri",
)
_PLACE_KEYS = (*_PATH_KEYS, "paths", "files", "directory", "dir", "folder", "cwd")
_COMMAND_KEYS = ("description", "label", "command", "cmd", "script", "code", "input")
_QUERY_KEYS = (
    "query",
    "q",
    "pattern",
    "search_term",
    "search",
    "regex",
    "keywords",
    "file_name",
    "glob",
    "term",
    "name",
)
_QUESTION_KEYS = ("title", "question", "prompt", "message", "text")
_URL_KEYS = ("url", "uri", "link", "address")

_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:code|status))|return ?code|exit[_ ]status)\W{0,3}(-?\d{1,5})\b",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(
    r"\A\W*(?:\w+ ){0,3}?(?:timed out|timeout)\b|\btimed out after\b|\bTimeoutExpired\b", re.IGNORECASE
)
_ERROR_START = re.compile(r"\A\W{0,3}(?:[\w.]*(?:error|exception)\W{0,2}(?::|\Z|\n)|fatal:|failed:|✗)", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(.+)$", re.MULTILINE)
_COUNTED = re.compile(r"(\d+)\s+(error|warning)s?\b", re.IGNORECASE)


def register_tool_marker(tool_name: str, marker: Marker) -> None:
    """Show calls of ``tool_name`` through ``marker(arguments, result)``.

    ``arguments`` is the parsed dict, ``{}`` if they do not parse; ``result`` is the result's text, None if
    there is none. A name registered before, built-in ones included, is replaced.
    """
    _MARKERS[_key(tool_name)] = marker


def tool_marker(call: Mapping[str, Any], result: str | None) -> str:
    """One line for a tool call: ``[read: path]``, ``[shell: label → ✓]``, ``[tool-NAME: telling
    arguments]``."""
    name = call_name(call)
    arguments = _arguments(call)
    marker = _MARKERS.get(_key(name)) or _MARKERS.get(_key(re.split(r"\.|__|/|:", name)[-1]))
    line = _safely(marker, arguments, result) if marker else ""
    return one_line(line or _generic(name, call, arguments, result), MARKER_CHARS)


def call_name(call: Mapping[str, Any]) -> str:
    """The tool's name, from the OpenAI shape or a flat one."""
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    return one_line(str(source.get("name") or ""), 64)


def find_error(result: str | None) -> str | None:
    """The error that a result reports, as one short line; None if it reports none.

    Only what a tool says in its first words or in the fields of its JSON counts: a file that talks about
    errors is no failed read.
    """
    if not result:
        return None
    fields = _json_fields(result)
    if fields:
        return _error_in_fields(fields)
    if _TRACEBACK in result[:_EDGE_CHARS]:
        return _last_line(result)
    if _ERROR_START.match(result[:_EDGE_CHARS]):
        return one_line(result.strip().lstrip("✗ ").splitlines()[0], _ERROR_CHARS) or "error"
    return None


def one_line(text: str, limit: int) -> str:
    """White space collapsed; the middle left out beyond ``limit`` characters, for a path tells most at its
    ends."""
    line = " ".join(text[: limit * 20].split())
    if len(line) <= limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 1]}…{line[-tail:]}"


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _safely(marker: Marker, arguments: Arguments, result: str | None) -> str:
    """A host's marker that raises must not stop a compaction: the generic one stands in."""
    try:
        line: object = marker(arguments, result)
    except Exception:
        return ""
    return line if isinstance(line, str) else ""


def _arguments(call: Mapping[str, Any]) -> Arguments:
    raw = _raw_arguments(call)
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            return {}
    return raw if isinstance(raw, Mapping) else {}


def _raw_arguments(call: Mapping[str, Any]) -> Any:
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    return source.get("arguments") or source.get("input") or ""


def _json_fields(result: str) -> Mapping[str, Any]:
    text = result.strip() if len(result) <= _JSON_CHARS else ""
    if not text.startswith("{"):
        return {}
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _error_in_fields(fields: Mapping[str, Any]) -> str | None:
    error = fields.get("error")
    failed = fields.get("is_error") is True or fields.get("isError") is True
    failed = failed or fields.get("success") is False or fields.get("ok") is False
    failed = failed or str(fields.get("status", "")).lower() in ("error", "failed", "failure")
    if not error and not failed:
        return None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code")
    message = error if isinstance(error, str) and error else fields.get("message") or fields.get("stderr")
    return one_line(str(message or "error"), _ERROR_CHARS) or "error"


def _last_line(text: str) -> str:
    lines = [line for line in text[-2000:].splitlines() if line.strip()]
    return one_line(lines[-1], _ERROR_CHARS) if lines else "error"


def _first(arguments: Arguments, keys: tuple[str, ...]) -> str:
    """The first telling argument, as one line; "" if none of ``keys`` is there."""
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


def _on_path(label: str, keys: tuple[str, ...] = _PATH_KEYS) -> Marker:
    def marker(arguments: Arguments, result: str | None) -> str:
        path = _first(arguments, keys) or _first(arguments, _URL_KEYS)
        # Without its telling argument the generic marker says more.
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
    """Tools that put several deeds behind one name and a ``command`` argument."""
    deeds = {"view": _on_path("read"), "create": _on_path("created")}
    return deeds.get(str(arguments.get("command")), _edited)(arguments, result)


def _shell(arguments: Arguments, result: str | None) -> str:
    label = _first(arguments, _COMMAND_KEYS)
    if not label:
        return ""
    if result is None:
        return f"[shell: {label}]"
    fields = _json_fields(result)
    edges = result if len(result) <= 2 * _EDGE_CHARS else f"{result[:_EDGE_CHARS]}\n{result[-_EDGE_CHARS:]}"
    if fields.get("timed_out") is True or _TIMED_OUT.search(edges):
        return f"[shell: {label} → timed out]"
    code = _exit_code(fields, edges)
    error = find_error(result) or (_last_line(result) if _TRACEBACK in result else None)
    if code:
        return f"[shell: {label} → exit {code}]" + (f" ✗ {error}" if error else "")
    return f"[shell: {label}] ✗ {error}" if error and code is None else f"[shell: {label} → ✓]"


def _exit_code(fields: Mapping[str, Any], edges: str) -> int | None:
    for key in ("exit_code", "exitCode", "exit_status", "returncode", "return_code"):
        value = fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    found = _EXIT.findall(edges)
    return int(found[-1]) if found else None


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
    # A linter that printed something we can not read is not called clean.
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
    told = [f"{key}={_told(value)}" for key, value in arguments.items() if value not in (None, "", [], {})]
    raw = _raw_arguments(call)
    text = ", ".join(told) if arguments else (raw if isinstance(raw, str) and raw.strip() != "{}" else "")
    text = one_line(text, _LABEL_CHARS)
    return _with_error(f"[tool-{name or 'unnamed'}{': ' + text if text else ''}]", result)


def _told(value: Any) -> str:
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

_MARKERS: dict[str, Marker] = {name: marker for names, marker in _BUILT_IN.items() for name in names.split()}
