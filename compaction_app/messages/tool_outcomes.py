"""How a tool call ended, as far as its result shows. Pure.

Success is never guessed: most failed commands print a line and no exit status, so a result without any sign of its
outcome is neither a success nor a failure. Failure is read line by line from what the tool or the shell reports. A
command that shows other text (a log, a file, a diff) may print any of these lines and still succeed, so only its
first words count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compaction_app.messages.truncate import one_line

_ERROR_CHARS = 100
#: Larger results are not parsed as JSON: the outcome is at the start or the end of a tool's output.
_JSON_CHARS = 65_536
_EDGE_CHARS = 400
#: Failures are searched in the first and the last lines; a long build reports further from its end.
_HEAD_CHARS, _TAIL_CHARS = 1_000, 2_000

_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:code|status))|return ?code|exit[_ ]status)\W{0,3}(-?\d{1,5})\b", re.IGNORECASE
)
_EXIT_KEYS = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_TIMED_OUT = re.compile(
    r"\A\W*(?:\w+ ){0,3}?(?:timed out|timeout)\b|\btimed out after\b|\bTimeoutExpired\b", re.IGNORECASE
)
_ERROR_START = re.compile(r"\A\W{0,3}(?:[\w.]*(?:error|exception)\W{0,2}(?::|\Z|\n)|fatal:|failed:|✗)", re.IGNORECASE)
#: "Error: (none)" reports no error.
_NOTHING = r"[ \t]*\(?(?:none|null|nil|false|no|0)?\)?[ \t.]*(?:\n|\Z)"
_NO_ERROR = re.compile(rf"\A\W{{0,3}}errors?:{_NOTHING}", re.IGNORECASE)
_TRACEBACK = "Traceback (most recent call last)"

# What precedes the words, as in "psql: error:" and "a.c:3:5: error:".
_SOURCE = r"(?:\S{1,120}:\s+){0,2}"
_FAILING_START = re.compile(
    rf"\s*(?:{_SOURCE}(?:[Ee]rror|ERROR|[Ff]atal(?: error)?|FATAL|panic)(?:\[\w+\])?:(?!(?i:{_NOTHING}))"
    rf"|{_SOURCE}(?:\(\d+\) )?(?:[Cc]ould not|[Uu]nable to|[Ff]ailed to|[Cc]annot) "
    r"|Error (?:from|response|occurred|while)\b|[A-Za-z_.]+(?:Error|Exception)(?: \[\w+\])?: |Exception in |Uncaught "
    r"|make(?:\[\d+\])?: \*\*\* |npm (?:ERR!|error)|ERR_PNPM|ninja: build stopped|E: [A-Z]"
    r"|! \[(?:remote )?rejected\]|--- FAIL|FAIL(?:ED|URE)?(?:[\s:]|$)|not ok \d(?!.*# ?(?:TODO|SKIP))|[✗✘✕❌]"
    r"|(?:Build|BUILD|Compilation|COMPILATION) (?:failed|FAILED)|Segmentation fault|Killed$|Aborted\b)"
)
_SYSTEM_ERROR = (
    r"(?:command not found|no such file or directory|permission denied|operation not permitted|connection refused"
    r"|is a directory|not a directory|no space left on device|read-only file system|address already in use)"
)
_FAILING_END = re.compile(
    rf"(?:\A|: )(?:{_SYSTEM_ERROR}[.]?|permission denied \(.{{1,60}}|command not found: \S+)\Z"
    r"|\A\S*sh: .*: not found\Z|\bis not recognized as an internal or external command|\bcore dumped\b",
    re.IGNORECASE,
)
_N = r"(?<![\d.,])[1-9][\d,]*"
_FAILURES = re.compile(
    rf"{_N} (?:tests? |specs? |checks? )?(?:failed|failing)(?=\W*\Z|[,;] | in | \()"
    rf"|(?:\A\W*|\b(?:found|with|generated|due to) |, ){_N} (?:errors?|failures?)\b"
    r"|\b(?:failures|errors|failed)[=:] ?[1-9]",
    re.IGNORECASE,
)
_MENDED = re.compile(r"\bfixed\b|\bcorrected\b|\bwarnings? treated\b", re.IGNORECASE)

#: Commands that print other text: files, logs, web pages.
_SHOWS = frozenset(
    "cat bat head tail less more nl tac sed awk gawk grep egrep fgrep rg ag ack find fd jq yq strings diff echo printf "
    "curl wget http journalctl dmesg sqlite3 psql mysql xxd type get-content select-string".split()
)
_GIT_SHOWS = frozenset("log show diff grep blame cat-file reflog".split())
_STAGES = re.compile(r"&&|\|\||;|\n")
_WRAPPED = re.compile(r"\A\s*(?:\S*/)?(?:ba|z|da)?sh\s+-(?=\w*c)\w+\s+[\"']?")
_ASSIGNED = re.compile(r"\A(?:\w+=\S*|sudo|time|env|command|exec)\Z")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: known to have failed, known to have succeeded, or neither."""

    exit_code: int | None = None
    timed_out: bool = False
    #: The reported failure as one short line, "" for none.
    error: str = ""
    succeeded: bool = False

    @property
    def status(self) -> str:
        """``"ok"``, ``"error"``, or "" if unknown."""
        if self.succeeded:
            return "ok"
        return "error" if self.timed_out or self.exit_code or (self.error and self.exit_code is None) else ""


def find_error(result: str | None) -> str | None:
    """The error that a result reports, as one short line; None if it reports none.

    Only the first words and the fields of JSON count: a file that mentions errors is not a failed read.
    """
    if not result:
        return None
    fields = json_fields(result)
    if fields:
        return _error_in_fields(fields)
    start = result[:_EDGE_CHARS]
    if _TRACEBACK in start:
        return _last_line(result)
    if _ERROR_START.match(start) and not _NO_ERROR.match(start):
        return one_line(result.strip().lstrip("✗ ").partition("\n")[0], _ERROR_CHARS) or "error"
    return None


def outcome_of(result: str) -> Outcome:
    """How a call of a tool other than a shell ended."""
    fields = json_fields(result)
    code = _exit_code_in(fields)
    error = find_error(result) or ""
    return Outcome(code, error=error, succeeded=not error and not code and (code == 0 or _succeeded_in(fields)))


def shell_outcome(command: str, result: str) -> Outcome:
    """How a shell command ended. Exit code 0 together with a line that reports a failure is not a success, because a
    pipe hides the exit code of its first command."""
    fields = json_fields(result)
    edges = result if len(result) <= 2 * _EDGE_CHARS else f"{result[:_EDGE_CHARS]}\n{result[-_EDGE_CHARS:]}"
    if fields.get("timed_out") is True or _TIMED_OUT.search(edges):
        return Outcome(timed_out=True)
    code = _exit_code_in(fields)
    if code is None and not fields:
        found = _EXIT.findall(edges)
        code = int(found[-1]) if found else None
    shows = _shows_text(command)
    error = "" if shows and not fields else find_error(result) or ""
    error = error or _failure_line(command, shows, _printed(fields) if fields else result)
    succeeded = not error and not code and (code == 0 or _succeeded_in(fields))
    return Outcome(code, error=error, succeeded=succeeded)


def json_fields(result: str) -> Mapping[str, Any]:
    """The fields of a result that is a JSON object, else none."""
    text = result.strip() if len(result) <= _JSON_CHARS else ""
    if not text.startswith("{"):
        return {}
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _exit_code_in(fields: Mapping[str, Any]) -> int | None:
    inner = fields.get("metadata")
    for place in (fields, inner if isinstance(inner, Mapping) else {}):
        for key in _EXIT_KEYS:
            value = place.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _succeeded_in(fields: Mapping[str, Any]) -> bool:
    if fields.get("success") is True or fields.get("ok") is True:
        return True
    if fields.get("is_error") is False or fields.get("isError") is False:
        return True
    return str(fields.get("status", "")).lower() in ("ok", "success", "succeeded", "passed")


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


def _printed(fields: Mapping[str, Any]) -> str:
    texts = (fields.get(key) for key in ("stdout", "output", "result", "content", "stderr"))
    return "\n".join(text for text in texts if isinstance(text, str))


def _failure_line(command: str, shows: bool, printed: str) -> str:
    """The line that reports a command's failure, "" if none does. Code may print anything: there only a traceback
    counts."""
    if _TRACEBACK in printed and not shows:
        return _last_line(printed)
    if shows or not command:
        # The command's own error, or the shell's: "cat: /x: No such file or directory".
        first = next((line for line in printed[:_HEAD_CHARS].splitlines() if line.strip()), "")
        complains = re.match(r"\s*(?:\S*/)?([\w-]{1,30}): ", first)
        name = complains[1].lower() if complains else ""
        own = name in _SHOWS or name.endswith("sh") or (name == "fatal" and "git" in command)
        return one_line(first, _ERROR_CHARS) if own and _fails(first) else ""
    return next((one_line(line, _ERROR_CHARS) for line in _edge_lines(printed) if _fails(line)), "")


def _fails(line: str) -> bool:
    if _FAILING_START.match(line) or _FAILING_END.search(line.rstrip()):
        return True
    return bool(_FAILURES.search(line)) and not _MENDED.search(line)


def _edge_lines(printed: str) -> list[str]:
    """The first and the last lines, without those cut in the middle, which could begin with any word."""
    if len(printed) <= _HEAD_CHARS + _TAIL_CHARS:
        return printed.splitlines()
    return [*printed[:_HEAD_CHARS].splitlines()[:-1], *printed[-_TAIL_CHARS:].splitlines()[1:]]


def _shows_text(command: str) -> bool:
    """Whether the output may be other text. Not for ``pytest | tail``, which shows how the tests ended."""
    for stage in _STAGES.split(_WRAPPED.sub("", command)):
        words = [word for word in stage.partition("|")[0].split()[:12] if not _ASSIGNED.match(word)]
        name = words[0].rpartition("/")[2].lower() if words else ""
        if name in _SHOWS or "logs" in words[1:4] or (name == "git" and _GIT_SHOWS.intersection(words[1:5])):
            return True
    return False


def _last_line(text: str) -> str:
    lines = [line for line in text[-2000:].splitlines() if line.strip()]
    return one_line(lines[-1], _ERROR_CHARS) if lines else "error"
