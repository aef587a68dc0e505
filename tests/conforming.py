"""The running JSON API against its own OpenAPI document, by schemathesis: ``make schema EXAMPLES=20000``.

A real server with a thread for each connection answers ``st run`` in a process of its own. What schemathesis sends is
made from the document, valid and not; of the ids it is told some that exist, or almost every answer would be 404. It
looks at each answer with all its checks. The server counts what it answered, so that a run that reached nothing can
not pass for one that found nothing.

``make schema`` takes a fresh seed; it is shown with each round (tests/api/test_schema.py).
"""

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MOUNT = "/of/me/chats/v1/"
TOKEN = "nna"
#: Examples of an operation in a round, beside those that go through the document's limits one by one.
PER_OPERATION = 210
#: A round takes two minutes on one core.
ROUND_SECONDS = 900
REQUEST_SECONDS = 60

#: Answers to a request that holds to the schema: rules that no schema can tell are 422, large bodies 413.
ANSWERS_TO_VALID = ["2xx", "401", "403", "404", "409", "413", "422", "429"]
_EXISTING = 0.8


class Tally:
    """Middleware that counts what was answered, by method, path and status."""

    counted: Counter[tuple[str, str, int]] = Counter()
    _lock = threading.Lock()

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        match = request.resolver_match
        place = re.sub(r"<\w+:(\w+)>", r"{\1}", match.route).partition("/v1/")[2] if match else request.path
        with self._lock:
            self.counted[request.method, place, response.status_code] += 1
        return response


def configuration(known: Mapping[str, Sequence[str | int]]) -> str:
    """As schemathesis reads it, in TOML: a value in quotes or a list is written there as in JSON.

    ``known``: ids that exist, for schemathesis to choose from; those of ``doomed…`` are what it may delete.
    """
    parts = [
        f"headers = {{ Authorization = {json.dumps(f'Bearer {TOKEN}')} }}",
        f"request-timeout = {REQUEST_SECONDS}",
        "[checks.positive_data_acceptance]",
        f"expected-statuses = {json.dumps(ANSWERS_TO_VALID)}",
        *(f"[dictionaries.{name}]\nvalues = {json.dumps(list(values))}" for name, values in known.items()),
        "[parameters]",
        *_drawn(session_id="sessions", message_id="messages", summary_id="summaries", run_id="runs"),
        *_drawn(generation="generations"),
        *_for_operation("DELETE", "sessions/{session_id}", session_id="doomed_sessions"),
        *_for_operation("DELETE", "messages/{message_id}", message_id="doomed_messages"),
        *_for_operation("POST", "sessions/{session_id}/compact", session_id="compactable"),
        *_for_operation("POST", "sessions/{session_id}/messages", session_id="crowded_session"),
        f'"body.parent_id" = {{ dictionary = "crowd", probability = {_EXISTING} }}',
        *_for_operation("POST", "sessions/{session_id}/copy", session_id="crowded_session"),
        *(f'"body.{name}" = {{ dictionary = "crowd", probability = {_EXISTING} }}' for name in ("message_id", "until")),
    ]
    return "\n".join(parts) + "\n"


def _drawn(**lists: str) -> Iterator[str]:
    for parameter, name in lists.items():
        yield f'"path.{parameter}" = {{ dictionary = "{name}", probability = {_EXISTING} }}'


def _for_operation(method: str, path: str, **lists: str) -> Iterator[str]:
    yield f'[[operations]]\ninclude-name = "{method} {MOUNT}{path}"\n[operations.parameters]'
    yield from _drawn(**lists)


def problems_of(report: Mapping[str, Any]) -> list[str]:
    """Why a run of schemathesis does not pass; nothing where all held."""
    found = [f"{failure['title']}: {', '.join(failure['operations'])}" for failure in report["failures"]]
    found += [f"error: {error}" for error in report["errors"]]
    phases = report["phases"].items()
    found += [f"phase {name}: {one['status']}" for name, one in phases if one["status"] not in ("success", "failure")]
    if report["operations"]["tested"] != report["operations"]["total"]:
        found.append(f"not all operations were tested: {report['operations']}")
    if not found and (report["exit_code"] or not report["complete"]):
        found.append(f"ended with {report['exit_code']} ({report['stop_reason']})")
    return found


def run_schemathesis(address: str, known: Mapping[str, Sequence[str | int]], seed: int, folder: Path) -> dict[str, Any]:
    """Its report. ``folder`` takes the configuration; what it found is shown at once."""
    settings, report = folder / f"{seed}.toml", folder / f"{seed}.json"
    settings.write_text(configuration(known))
    command = [str(Path(sys.executable).with_name("st")), "--config-file", str(settings)]
    command += ["run", f"{address}{MOUNT}openapi.json", "--checks", "all", "--seed", str(seed), "--no-color"]
    command += ["--max-examples", str(PER_OPERATION), "--continue-on-failure", "--generation-database", "none"]
    command += ["--report", "json", "--report-json-path", str(report)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=ROUND_SECONDS)
    found: dict[str, Any] = json.loads(report.read_text()) if report.is_file() else {}
    print(f"seed {seed}: {found.get('test_cases')}", flush=True)
    if not found or problems_of(found):
        print(done.stdout + done.stderr, flush=True)
    assert found, "schemathesis gave no report"
    return found


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The site behind Django's own threaded server; its address."""
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
    from django.core.wsgi import get_wsgi_application

    class Handler(WSGIRequestHandler):
        # Else each answer waits 40 ms for the client to say that it has got the headers.
        disable_nagle_algorithm = True

        def log_message(self, *arguments: Any) -> None:
            """Thousands of lines that nobody reads."""

    class Server(ThreadedWSGIServer):
        # Room for a crowd that knocks at once.
        request_queue_size = 400

    server = Server(("127.0.0.1", 0), Handler)
    server.set_app(get_wsgi_application())
    thread = threading.Thread(target=server.serve_forever, name="conforming")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(REQUEST_SECONDS)
        server.server_close()
