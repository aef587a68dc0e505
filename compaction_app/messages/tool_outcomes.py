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

#: A line that says so first, after what speaks: "psql: error:", "a.c:3:5: error:", "make: *** [all] Error 2".
_FAILING_START = re.compile(
    rf"\W{{0,6}}(?:\S{{1,120}}:\s+){{0,2}}(?:\*\*\* |npm err(?:or|!)|(?-i:FAIL(?:ED)?\b)"
    r"|(?:could not|unable to|failed to|cannot) "
    rf"|(?:[\w.]*(?:error|exception)|fatal|panic|failed|failure)(?:\s?\[\w+\])?:(?!{_NOTHING}))",
    re.IGNORECASE,
)
_FAILING_END = re.compile(
    r"\bnot found(?:: \S+)?\Z|: permission denied \(.{1,60}\Z|\b(?:failed|core dumped)\W*\Z", re.IGNORECASE
)
#: Of the operating system, at the end of the line of a command that met one.
_SYSTEM_ERRORS = (
    ": no such file or directory",
    ": permission denied",
    ": operation not permitted",
    ": connection refused",
    ": is a directory",
    ": not a directory",
    ": no space left on device",
    ": read-only file system",
    ": address already in use",
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


def find_error(result: str | None) -> str:
    """The error that a result reports, as one short line; "" if it reports none.

    Only the first words and the fields of JSON count: a file that mentions errors is not a failed read.
    """
    result = result or ""
    start = result[:_EDGE_CHARS]
    if fields := json_fields(result):
        error = fields.get("error")
        if not error and _verdict(fields) is not False:
            return ""
        if isinstance(error, Mapping):
            error = error.get("message") or error.get("code")
        message = error if isinstance(error, str) and error else fields.get("message") or fields.get("stderr")
        return one_line(str(message or ""), _ERROR_CHARS) or "error"
    if _TRACEBACK in start:
        return _last_line(result)
    if _ERROR_START.match(start) and not _NO_ERROR.match(start):
        return one_line(result.strip().lstrip("✗ ").partition("\n")[0], _ERROR_CHARS) or "error"
    return ""


def outcome_of(result: str, command: str | None = None) -> Outcome:
    """How a call ended; ``command``: of a shell, "" where it ran code.

    Exit code 0 together with a line that reports a failure is not a success, because a pipe hides the exit code of its
    first command.
    """
    fields = json_fields(result)
    inner = fields.get("metadata")
    places = (fields, inner if isinstance(inner, Mapping) else {})
    codes = [place[key] for place in places for key in _EXIT_KEYS if type(place.get(key)) is int]
    error = find_error(result)
    if command is not None:
        edges = result if len(result) <= 2 * _EDGE_CHARS else f"{result[:_EDGE_CHARS]}\n{result[-_EDGE_CHARS:]}"
        if fields.get("timed_out") is True or _TIMED_OUT.search(edges):
            return Outcome(timed_out=True)
        if not fields:
            codes = [int(code) for code in _EXIT.findall(edges)[-1:]]
        shows = _shows_text(command)
        texts = (fields.get(key) for key in ("stdout", "output", "result", "content", "stderr"))
        printed = "\n".join(text for text in texts if isinstance(text, str)) if fields else result
        error = ("" if shows and not fields else error) or _failure_line(command, shows, printed)
    code = codes[0] if codes else None
    succeeded = not error and not code and (code == 0 or _verdict(fields) is True)
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


def _verdict(fields: Mapping[str, Any]) -> bool | None:
    """Whether a field says that the call succeeded, or failed; None where none says."""
    status = str(fields.get("status", "")).lower()
    said = [fields.get("success"), fields.get("ok")]
    said += [not fields[key] for key in ("is_error", "isError") if isinstance(fields.get(key), bool)]
    if False in said or status in ("error", "failed", "failure"):
        return False
    return True if True in said or status in ("ok", "success", "succeeded", "passed") else None


def _failure_line(command: str, shows: bool, printed: str) -> str:
    """The line that reports a command's failure, "" if none does. Code may print anything: there only a traceback
    counts."""
    if _TRACEBACK in printed and not shows:
        return _last_line(printed)
    if shows or not command:
        # The command's own error, or the shell's: "cat: /x: No such file or directory".
        lines = [line for line in printed[:_HEAD_CHARS].splitlines() if line.strip()][:1]
        complains = re.match(r"\s*(?:\S*/)?([\w-]{1,30}): ", "".join(lines))
        name = complains[1].lower() if complains else ""
        if name not in _SHOWS and not name.endswith("sh") and not (name == "fatal" and "git" in command):
            return ""
    elif len(printed) <= _HEAD_CHARS + _TAIL_CHARS:
        lines = printed.splitlines()
    else:
        # Without those cut in the middle, which could begin with any word.
        lines = [*printed[:_HEAD_CHARS].splitlines()[:-1], *printed[-_TAIL_CHARS:].splitlines()[1:]]
    return next((one_line(line, _ERROR_CHARS) for line in lines if _fails(line.rstrip())), "")


def _fails(line: str) -> bool:
    if _FAILING_START.match(line) or _FAILING_END.search(line):
        return True
    if line.lower().rstrip(".").endswith(_SYSTEM_ERRORS):
        return True
    return bool(_FAILURES.search(line)) and not _MENDED.search(line)


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
