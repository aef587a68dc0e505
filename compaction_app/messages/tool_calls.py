"""Tool calls as one line each: what was done, to what, and how it ended. Pure.

A marker replaces a call and its result, so it names the argument that matters most (the path, the command, the query)
and the outcome where the result shows it. A registry maps tool names to markers; hosts add their own with
:func:`register_tool_marker`. An unknown tool gets a generic marker: no call is left out.

Neither success nor failure is guessed: most commands print lines and no exit status, and the result stands beside the
marker.
"""

import json
import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from compaction_app.messages.openai_format import parse_arguments
from compaction_app.messages.truncate import one_line
from compaction_app.messages.validation import read_json

logger = logging.getLogger("compaction_app.messages")

Arguments = Mapping[str, Any]
Marker = Callable[[Arguments, "str | None"], str]

#: A marker is one short line.
MARKER_CHARS = 240
_LABEL_CHARS = 120
_EDGE_CHARS = 400

_ARGUMENTS_KEYS = ("arguments", "args", "input", "action")
_URL_KEYS = ("url", "uri", "link", "address")
_PATH_KEYS = "path file_path filepath file filename file_name target_file relative_path uri url link address".split()
_PLACE_KEYS = (*_PATH_KEYS, "paths", "files", "directory", "dir", "folder", "cwd")
_COMMAND_KEYS = ("description", "label", "command", "cmd", "script", "code", "input")
_RUN_KEYS = ("command", "cmd", "script")
_QUERY_KEYS = "query q pattern search_term search regex keywords file_name glob term name".split()
_QUESTION_KEYS = ("title", "question", "prompt", "message", "text")

_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(.+)$", re.MULTILINE)

_ERROR_CHARS = 100
#: Larger results are not parsed as JSON: the outcome is at the start or the end of a tool's output.
_JSON_CHARS = 65_536

_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:code|status))|return ?code|exit[_ ]status)\W{0,3}(-?\d{1,5})\b", re.IGNORECASE
)
#: A line with more than a remark in brackets, such as "(no output)".
_SAYS = re.compile(r"\s*(?!\([^()]*\)\s*$)\S")
_EXIT_KEYS = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_TIMED_OUT = re.compile(
    r"\A\W*(?:\w+ ){0,3}?(?:timed out|timeout)\b|\btimed out after\b|\bTimeoutExpired\b", re.IGNORECASE
)
_ERROR_START = re.compile(r"\A\W{0,3}(?:[\w.]*(?:error|exception)\W{0,2}(?::|\Z|\n)|fatal:|failed:|✗)", re.IGNORECASE)
#: "Error: (none)" reports no error.
_NOTHING = r"[ \t]*\(?(?:none|null|nil|false|no|0)?\)?[ \t.]*(?:\n|\Z)"
_NO_ERROR = re.compile(rf"\A\W{{0,3}}errors?:{_NOTHING}", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"
#: It hides the exit code of what stands before it.
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")


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
    return one_line(str(name_and_arguments(call)[0] or ""), 64)


def name_and_arguments(call: Mapping[str, Any]) -> tuple[Any, Any]:
    """As they came, from the OpenAI shape, that of a custom tool, or a flat one; "" for none."""
    inner = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), Mapping)), call)
    return inner.get("name"), next((inner[key] for key in _ARGUMENTS_KEYS if inner.get(key)), "")


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
        # As telemetry.log_error() writes it, without the error's text, which may quote the call.
        fields = {"event": "error", "step": "tool_marker", "type": type(error).__name__}
        frames = "".join(traceback.format_tb(error.__traceback__))
        logger.error("error step=tool_marker type=%s\n%s", fields["type"], frames, extra={"compaction": fields})  # noqa: TRY400
        return ""
    return line if isinstance(line, str) else ""


def _arguments(call: Mapping[str, Any]) -> Arguments:
    raw = name_and_arguments(call)[1]
    return raw if isinstance(raw, Mapping) else parse_arguments(raw) or {}


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
    error = outcome_of(result or "").error
    return f"{line} ✗ {error}" if error else line


def _done(label: str, keys: Sequence[str] = _PATH_KEYS, quote: str = "") -> Marker:
    """What was done to the path, the address or the like that one of the ``keys`` has."""

    def marker(arguments: Arguments, result: str | None) -> str:
        value = _first(arguments, keys)
        # Without one the generic marker says more.
        return _with_error(f"[{label}: {quote}{value}{quote}]", result) if value else ""

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
    actions = {"view": _done("read"), "create": _done("created")}
    return actions.get(str(arguments.get("command")), _edited)(arguments, result)


def _shell(arguments: Arguments, result: str | None) -> str:
    label = _first(arguments, _COMMAND_KEYS)
    if not label:
        return ""
    if result is None:
        return f"[shell: {label}]"
    _, how, error = outcome_of(result, _command(arguments))
    return f"[shell: {label}{' → ' + how if how else ''}]" + (f" ✗ {error}" if error else "")


def _command(arguments: Arguments) -> str:
    """The shell command; "" where the argument is code, or missing."""
    value = next((arguments[key] for key in _RUN_KEYS if arguments.get(key)), "")
    return " ".join(map(str, value[:50])) if isinstance(value, list) else str(value)


def _asked(arguments: Arguments, result: str | None) -> str:
    question = _first(arguments, _QUESTION_KEYS)
    if not question:
        return ""
    answer = one_line(result, _LABEL_CHARS) if result and not outcome_of(result).error else ""
    return _with_error(f"[asked user: {question}{' → ' + answer if answer else ''}]", result)


def _generic(name: str, call: Mapping[str, Any], arguments: Arguments, result: str | None) -> str:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for key, value in arguments.items()
        if value not in (None, "", [], {})
    }
    shown = [f"{key}={one_line(text, 60)}" for key, text in texts.items()]
    raw = name_and_arguments(call)[1]
    text = ", ".join(shown) if arguments else (raw if isinstance(raw, str) and raw.strip() != "{}" else "")
    text = one_line(text, _LABEL_CHARS)
    return _with_error(f"[tool-{name or 'unnamed'}{': ' + text if text else ''}]", result)


_SEARCHED = _done("searched", _QUERY_KEYS, '"')
_BUILT_IN: dict[str, Marker] = {
    "read read_file cat open open_file view view_file get_file read_text_file fs_read": _done("read"),
    "edit edit_file str_replace multi_edit multiedit insert replace update_file search_replace": _edited,
    "patch apply_patch": _edited,
    "str_replace_editor str_replace_based_edit_tool text_editor": _editor,
    "create create_file new_file create_directory mkdir": _done("created"),
    "write write_file save_file write_to_file fs_write": _done("wrote"),
    "delete delete_file remove_file": _done("deleted"),
    "ls list_dir list_files list_directory": _done("listed", _PLACE_KEYS),
    "bash shell sh zsh powershell terminal run run_shell run_command run_terminal_cmd": _shell,
    "execute exec execute_command python execute_python run_python code_interpreter run_tests": _shell,
    "search grep find web_search search_files find_file glob ripgrep rg search_code": _SEARCHED,
    "codebase_search search_web google grep_search file_search": _SEARCHED,
    "fetch web_fetch fetch_url browse open_url http_get": _done("fetched", _URL_KEYS),
    "lint run_lint linter read_lints diagnostics eslint ruff": _done("lint", _PLACE_KEYS),
    "ask ask_user ask_question ask_followup_question request_user_input": _asked,
}

_BUILT_INS = {name: marker for names, marker in _BUILT_IN.items() for name in names.split()}
_MARKERS: dict[str, Marker] = dict(_BUILT_INS)


# -- how a call ended --------------------------------------------------------------------------------------------


class CallOutcome(NamedTuple):
    """How a call ended: known to have failed, known to have succeeded, or neither."""

    #: ``"ok"``, ``"error"``, or "" if unknown.
    status: str = ""
    #: "✓", an exit code, or that it timed out; "" where nothing tells.
    how: str = ""
    #: The reported failure as one short line, "" for none.
    error: str = ""


@lru_cache(maxsize=16)  # For the marker of a call, for its status, for the memory.
def outcome_of(result: str, command: str | None = None) -> CallOutcome:
    """How a call ended; ``command``: of a shell, "" where it ran code."""
    fields = _json_fields(result)
    inner = fields.get("metadata")
    places = (fields, inner if isinstance(inner, Mapping) else {})
    codes = [place[key] for place in places for key in _EXIT_KEYS if type(place.get(key)) is int]
    if command is not None:
        edges = result if len(result) <= 2 * _EDGE_CHARS else f"{result[:_EDGE_CHARS]}\n{result[-_EDGE_CHARS:]}"
        if fields.get("timed_out") is True or _TIMED_OUT.search(edges):
            return CallOutcome("error", "timed out")
        if not fields:
            codes = [int(code) for code in _EXIT.findall(edges)[-1:]]
    # A command may show other text, which begins as it likes.
    is_read = command is None or bool(fields) or len(result) <= _EDGE_CHARS
    code, error = codes[0] if codes else None, _error_in(result, fields) if is_read else ""
    if code:
        texts = (fields.get(key) for key in ("stdout", "output", "result", "content", "stderr"))
        printed = "\n".join(text for text in texts if isinstance(text, str)) if fields else result
        return CallOutcome("error", f"exit {code}", error or _last_line(printed))
    if error:
        return CallOutcome("error", error=error) if code is None else CallOutcome(how="exit 0")
    if (code == 0 and not _PIPE.search(command or "")) or _verdict(fields) is True:
        return CallOutcome("ok", "✓")
    return CallOutcome(how="" if code is None else "exit 0")


def _error_in(result: str, fields: Mapping[str, Any]) -> str:
    """Only the first words and the fields of JSON count: a file that mentions errors is not a failed read."""
    start = result[:_EDGE_CHARS]
    if fields:
        error = fields.get("error")
        if not error and _verdict(fields) is not False:
            return ""
        if isinstance(error, Mapping):
            error = error.get("message") or error.get("code")
        message = error if isinstance(error, str) and error else fields.get("message") or fields.get("stderr")
        return one_line(str(message or ""), _ERROR_CHARS) or "error"
    if _TRACEBACK in start:
        return _last_line(result) or "error"
    if _ERROR_START.match(start) and not _NO_ERROR.match(start):
        return one_line(result.strip().lstrip("✗ ").partition("\n")[0], _ERROR_CHARS) or "error"
    return ""


def _json_fields(result: str) -> Mapping[str, Any]:
    """The fields of a result that is a JSON object, else none."""
    fields = read_json(result) if len(result) <= _JSON_CHARS else None
    return fields if isinstance(fields, Mapping) else {}


def _verdict(fields: Mapping[str, Any]) -> bool | None:
    """Whether a field says that the call succeeded, or failed; None where none says."""
    status = str(fields.get("status", "")).lower()
    said = [fields.get("success"), fields.get("ok")]
    said += [not fields[key] for key in ("is_error", "isError") if isinstance(fields.get(key), bool)]
    if False in said or status in ("error", "failed", "failure"):
        return False
    return True if True in said or status in ("ok", "success", "succeeded", "passed") else None


def _last_line(text: str) -> str:
    """The last line that is more than an exit status and "(no output)"."""
    lines = (line for line in reversed(text[-2000:].splitlines()) if _SAYS.match(line) and not _EXIT.search(line))
    return one_line(next(lines, ""), _ERROR_CHARS)
