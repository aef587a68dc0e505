"""The final check: every row against the clients' journals, and against itself.

It shares no code with the app: plain SQL reads the raw rows. :func:`read_rows` reads, :func:`judge` judges values, so
that the judging can be tested without a server. Whether the tree agrees with itself is asked of ``verify_chats``.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.soak import journal

Row = dict[str, Any]
Operation = dict[str, Any]

MARKER = re.compile(r"mk\d+x\d+z")
MESSAGES, RUNS, SESSIONS, EVENTS = (
    f"compaction_app_{name}" for name in ("chatmessage", "compactionrun", "chatsession", "compactionevent")
)
#: The only columns in which a text of a conversation may stand.
TEXT_COLUMNS = {f"{MESSAGES}.{name}" for name in ("content", "extract", "ledger", "memory", "tool_calls")} | {
    f"{RUNS}.instructions"
}
REDACTED = "[redacted]"
EXAMPLES = 5


@dataclass
class Rows:
    """The database at rest."""

    messages: list[Row]
    runs: list[Row]
    sessions: list[Row]
    #: Sessions that events belong to.
    event_sessions: set[str] = field(default_factory=set)
    #: For each text or JSON column of every table, the markers in its values.
    markers: dict[str, set[str]] = field(default_factory=dict)
    #: Connections with an open transaction.
    open_transactions: int = 0


def read_rows(database: psycopg.Connection[Any]) -> Rows:
    def all_of(table: str) -> list[Row]:
        with database.cursor(row_factory=dict_row) as cursor:
            cursor.execute(sql.SQL("SELECT * FROM {} ORDER BY id").format(sql.Identifier(table)))
            return [
                {
                    name: str(value) if name in ("session_id", "claim_token") and value else value
                    for name, value in row.items()
                }
                for row in cursor
            ]

    found = database.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND (data_type IN ('text', 'character varying', 'json', 'jsonb', 'ARRAY') OR data_type LIKE 'character%')"
    ).fetchall()
    markers = {f"{table}.{column}": _markers_in(database, table, column) for table, column in found}
    counted = database.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND state LIKE 'idle in transaction%'"
    ).fetchone()
    events = database.execute(f"SELECT DISTINCT session_id FROM {EVENTS}").fetchall()
    return Rows(
        messages=all_of(MESSAGES),
        runs=all_of(RUNS),
        sessions=[{**row, "id": str(row["id"])} for row in all_of(SESSIONS)],
        event_sessions={str(row[0]) for row in events},
        markers=markers,
        open_transactions=counted[0] if counted else 0,
    )


def _markers_in(database: psycopg.Connection[Any], table: str, column: str) -> set[str]:
    statement = sql.SQL("SELECT DISTINCT found[1] FROM {}, regexp_matches({}::text, %s, 'g') AS found")
    rows = database.execute(statement.format(sql.Identifier(table), sql.Identifier(column)), ["mk[0-9]+x[0-9]+z"])
    return {row[0] for row in rows}


@dataclass(frozen=True)
class Sent:
    """A message as a client sent it; the parent is None for a root.

    Inside a chain of unknown outcome the parent has no id, but the marker of the message before.
    """

    marker: str
    session: str
    parent: int | None
    role: str
    digest: str
    tokens: int | None = None
    follows: str = ""


class Told:
    """What the journals say."""

    def __init__(self, journals: Sequence[Sequence[Operation]]) -> None:
        self.stored: dict[int, Sent] = {}
        #: By marker. Some of them were acknowledged when they were sent again.
        self.unknown: dict[str, Sent] = {}
        self.doubled: list[str] = []
        self.parents: dict[int, int | None] = {}
        self.id_of: dict[str, int] = {}
        self.marker_of: dict[int, str] = {}
        self.session_of: dict[int, str] = {}
        self.sessions: set[str] = set()
        #: What was asked for, acknowledged and of unknown outcome: redact, delete, delete_session.
        self.done: dict[str, set[Any]] = defaultdict(set)
        self.maybe: dict[str, set[Any]] = defaultdict(set)
        self.erasures: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for operations in journals:
            for operation in operations:
                self._take(operation)

    def _take(self, operation: Operation) -> None:
        op, ok = operation["op"], operation.get("ok")
        is_unknown = ok is None and ("error" not in operation or operation.get("unknown", False))
        if op == "start" and ok:
            self.sessions.add(ok["id"])
        elif op in ("append", "complete"):
            self._take_append(operation, ok, is_unknown)
        elif op == "switch" and ok:
            for i, parent, _role, marker in ok["seen"]:
                self.parents.setdefault(i, parent)
                self.session_of.setdefault(i, operation["s"])
                if marker:
                    self._name(i, marker)
        elif op in ("redact", "delete", "delete_session"):
            what = operation["s"] if op == "delete_session" else operation["id"]
            if ok is not None:
                self.done[op].add(what)
            elif is_unknown:
                self.maybe[op].add(what)
            if op != "delete_session" and (ok is not None or is_unknown):
                self.erasures[operation["s"]][ok is None] += 1

    def _take_append(self, operation: Operation, ok: Any, is_unknown: bool) -> None:
        parent, follows = operation["p"], ""
        for n, message in enumerate(operation["chain"]):
            sent = Sent(message["m"], operation["s"], parent, message["r"], message["h"], follows=follows)
            if ok is not None:
                i = ok["ids"][n]
                sent = Sent(sent.marker, sent.session, parent, sent.role, sent.digest, ok["tokens"][n])
                if self.id_of.get(sent.marker, i) != i:
                    self.doubled.append(f"{sent.marker} was acknowledged as {self.id_of[sent.marker]} and {i}")
                self.stored[i], self.parents[i], self.session_of[i] = sent, parent, sent.session
                self._name(i, sent.marker)
                parent = i
            elif is_unknown:
                self.unknown[sent.marker] = sent
                parent, follows = None, sent.marker

    def _name(self, i: int, marker: str) -> None:
        self.id_of[marker] = i
        self.marker_of[i] = marker


class Judge:
    """For each invariant, how often it was checked and violated, and some examples."""

    def __init__(self, rows: Rows, journals: Sequence[Sequence[Operation]], clients: int) -> None:
        self.rows, self.journals, self.clients = rows, journals, clients
        self.told = told = Told(journals)
        self.checked: Counter[str] = Counter()
        self.violated: Counter[str] = Counter()
        self.examples: list[str] = []
        self.all = {row["id"]: row for row in rows.messages}
        self.sessions = {row["id"] for row in rows.sessions}
        self.texts = [row for row in rows.messages if row["kind"] == "message"]
        self.summaries = [row for row in rows.messages if row["kind"] == "summary"]
        #: What the journals and the rows know of the tree, deleted messages included.
        self.parents = {row["id"]: row["parent_message_id"] for row in rows.messages} | self.told.parents
        gone_sessions = told.maybe["delete_session"] - self.sessions
        self.deleted_sessions = told.done["delete_session"] | gone_sessions
        self.deleted = told.done["delete"] | {i for i in told.maybe["delete"] if i not in self.all}
        self.redacted = told.done["redact"] | {i for i in told.maybe["redact"] if self._is_redacted(i)}
        self.gone = self._find_gone()

    def check(self, name: str, holds: bool, detail: str = "") -> None:
        self.checked[name] += 1
        if not holds:
            self.violated[name] += 1
            if self.violated[name] <= EXAMPLES:
                self.examples.append(f"{name}: {detail}")

    def _is_redacted(self, i: int) -> bool:
        return i in self.all and self.all[i]["redacted_at"] is not None

    def path(self, i: int | None) -> Iterator[int]:
        """From a node up to its root."""
        while i is not None:
            yield i
            i = self.parents.get(i)

    def _find_gone(self) -> set[int]:
        """What clients deleted: messages with all below them, and whole sessions."""
        below: dict[int | None, list[int]] = defaultdict(list)
        for i, parent in self.parents.items():
            below[parent].append(i)
        gone: set[int] = set()
        waiting = [*self.deleted, *(i for i, s in self.told.session_of.items() if s in self.deleted_sessions)]
        while waiting:
            i = waiting.pop()
            if i not in gone:
                gone.add(i)
                waiting += below[i]
        return gone

    def judge(self) -> None:
        self._messages()
        self._erased()
        self._reads()
        self._summaries()
        self._runs()
        self._sessions()
        self._clients()

    # -- messages ---------------------------------------------------------------------------------------

    def _messages(self) -> None:
        for i, sent in self.told.stored.items():
            row = self.all.get(i)
            if row is None:
                self.check("no message is lost", i in self.gone, f"{i} ({sent.marker}) is gone")
            else:
                self.check("no message is lost", True)
                self._unchanged(row, sent)
        by_marker = defaultdict(list)
        for row in self.texts:
            for marker in MARKER.findall(row["content"])[:1]:
                by_marker[marker].append(row["id"])
        self.row_of = {marker: ids[0] for marker, ids in by_marker.items()}
        for marker, ids in by_marker.items():
            self.check("no message is stored twice", len(ids) == 1, f"{marker} in {ids}")
            known = self.told.id_of.get(marker, ids[0])
            self.check("no message is stored twice", known == ids[0], f"{marker} is {ids[0]}, acknowledged as {known}")
        for problem in self.told.doubled:
            self.check("no message is stored twice", False, problem)
        for row in self.texts:
            if row["id"] not in self.told.stored:
                self._unacknowledged(row)
        self._chains(set(by_marker))

    def _unchanged(self, row: Row, sent: Sent) -> None:
        due = {"session_id": sent.session, "parent_message_id": sent.parent, "role": sent.role, "kind": "message"}
        if row["redacted_at"] is None:
            due |= {"token_count": sent.tokens} if sent.tokens is not None else {}
            same_text = journal.digest(row["content"]) == sent.digest
        else:
            same_text = row["content"] == REDACTED and not row["tool_calls_text"]
            asked = row["id"] in self.redacted
            self.check("no message is changed", asked, f"{row['id']} was redacted by nobody")
        if sent.follows:
            # A redacted message has lost its marker.
            due["parent_message_id"] = self.row_of.get(sent.follows, row["parent_message_id"])
        wrong = {name: row[name] for name, value in due.items() if row[name] != value}
        self.check("no message is changed", same_text and not wrong, f"{row['id']}: text same {same_text}, {wrong}")

    def _unacknowledged(self, row: Row) -> None:
        """Stored by an operation whose connection was killed: as it was sent, and only by such an operation."""
        marker = self.told.marker_of.get(row["id"]) or next(iter(MARKER.findall(row["content"])), "")
        sent = self.told.unknown.get(marker)
        self.check("no message is stored that nobody sent", sent is not None, f"{row['id']} ({marker})")
        if sent is not None:
            self._unchanged(row, sent)

    def _chains(self, present: set[str]) -> None:
        sessions_with_deletions = {s for s, counts in self.told.erasures.items() if sum(counts)} | self.deleted_sessions
        for operation in (o for operations in self.journals for o in operations if o["op"] == "append"):
            markers = [message["m"] for message in operation["chain"]]
            if "ok" in operation or len(markers) < 2:
                continue
            there = [marker in present for marker in markers]
            whole = len(set(there)) == 1 or operation["s"] in sessions_with_deletions
            self.check("a chain is stored whole or not at all", whole, f"{markers}: {there}")

    # -- erased texts -----------------------------------------------------------------------------------

    def _erased(self) -> None:
        """A marker is found only while its message is stored with its text."""
        present = {m for row in self.texts if row["redacted_at"] is None for m in MARKER.findall(row["content"])[:1]}
        where: dict[str, list[str]] = {}
        for column, markers in self.rows.markers.items():
            self.check("texts are in the columns for texts only", column in TEXT_COLUMNS or not markers, column)
            for marker in markers:
                where.setdefault(marker, []).append(column)
        for marker, columns in where.items():
            self.check("every text belongs to a message", marker in present, f"{marker} in {columns}")
        for i in self.redacted:
            marker = self.told.marker_of.get(i, "")
            gone = marker not in where and (i not in self.all or self._is_redacted(i))
            self.check("redacted text is nowhere", gone, f"{i} ({marker}) in {where.get(marker)}")
        for i, marker in self.told.marker_of.items():
            if i in self.gone:
                gone = i not in self.all and marker not in where
                self.check("what is deleted is gone, with all below it", gone, f"{i} ({marker}) in {where.get(marker)}")

    def _reads(self) -> None:
        """A context shows messages of its own branch, its tip among them, and nothing that its reader has erased."""
        for operations in self.journals:
            erased: set[int] = set()
            for operation in operations:
                if operation["op"] == "redact" and "ok" in operation:
                    erased.add(operation["id"])
                if operation["op"] == "read" and "ok" in operation:
                    self._read(operation, erased)

    def _read(self, operation: Operation, erased: set[int]) -> None:
        tip, branch = operation["tip"], set(self.path(operation["tip"]))
        shown = set(operation["ok"]["shown"])
        strange = set()
        for marker in shown:
            i = self.told.id_of.get(marker)
            if i is None:
                # Stored by an operation of unknown outcome and never seen as a tip: only its session is known.
                sent = self.told.unknown.get(marker)
                if sent is None or sent.session != operation["s"]:
                    strange.add(marker)
            elif i not in branch or i in erased:
                strange.add(marker)
        self.check("a context shows its own branch only", not strange, f"tip {tip} shows {sorted(strange)[:5]}")
        marker = self.told.marker_of.get(tip)
        may_be_redacted = tip in self.told.done["redact"] | self.told.maybe["redact"]
        complete = marker in shown or may_be_redacted or marker is None
        self.check("a context shows its tip", complete, f"tip {tip} ({marker})")

    # -- compaction -------------------------------------------------------------------------------------

    def _summaries(self) -> None:
        makers: dict[int, list[Row]] = defaultdict(list)
        for run in self.rows.runs:
            if run["summary_id"] is not None:
                makers[run["summary_id"]].append(run)
        live: Counter[tuple[int, int]] = Counter()
        for row in self.summaries:
            i, anchor, cutoff = row["id"], row["parent_message_id"], row["last_summarized_message_id"]
            branch = list(self.path(anchor))
            self.check("a cutoff is on the path to its anchor", cutoff in branch, f"{i}: {cutoff} not above {anchor}")
            pin = row["pinned_message_id"]
            pinned = pin is None or pin in list(self.path(cutoff))[1:]
            self.check("a cutoff is on the path to its anchor", pinned, f"{i}: pin {pin} not above {cutoff}")
            own = {m for above in branch for m in MARKER.findall(self.all[above]["content"])[:1]}
            leaked = set(MARKER.findall(row["content"])) - own
            self.check("a summary quotes its own branch only", not leaked, f"{i}: {sorted(leaked)[:5]}")
            covered = {m for above in self.path(cutoff) for m in MARKER.findall(self.all[above]["content"])[:1]}
            leaked = set(MARKER.findall(row["extract"])) - covered
            self.check("an extract quotes what is covered only", not leaked, f"{i}: {sorted(leaked)[:5]}")
            erased = [above for above in branch if above in self.redacted]
            if row["redacted_at"] is not None:
                emptied = not (row["content"] or row["extract"]) and row["retired_at"] is not None and bool(erased)
                self.check("a summary of erased text is empty", emptied, f"{i} above {erased}")
            made = makers[i]
            one = len(made) == 1 and made[0]["status"] == "succeeded" and made[0]["session_id"] == row["session_id"]
            self.check("a summary is made by one run", one, f"{i} by {[run['id'] for run in made]}")
            why, read = (made[0]["error_code"], made[0]["input_tokens"]) if made else ("", None)
            # Or for a summary that no model was asked for, since it would have had no room.
            stands_in = bool(row["is_extract"]) == bool(why) or (row["is_extract"] and not read)
            self.check("an extract stands in for a failure only", stands_in, f"{i}: {why}, {read} tokens read")
            if row["retired_at"] is None:
                live[anchor, cutoff] += 1
                base = self.all.get(made[0]["base_id"]) if made else None
                standing = base is None or base["retired_at"] is None
                self.check("a live summary has a live base", standing, f"{i} on {base and base['id']}")
        for place, count in live.items():
            self.check("no summary is doubled", count == 1, f"{count} live at anchor and cutoff {place}")

    def _runs(self) -> None:
        generations: dict[str, list[int]] = defaultdict(list)
        for run in self.rows.runs:
            i, status = run["id"], run["status"]
            free = run["claim_token"] is None and run["lease_expires_at"] is None and run["finished_at"] is not None
            at_rest = status in ("succeeded", "failed", "skipped") and free
            self.check("no run is open", at_rest, f"{i} is {status}, {run['attempts']} attempts, {run['error_code']}")
            # A summary that was deleted went with its anchor.
            has_one = (run["summary_id"] is not None) == (status == "succeeded") or (
                status == "succeeded" and run["anchor_id"] is None
            )
            told = (run["generation"] is not None) == (status == "succeeded")
            self.check("a run that succeeded has one summary", has_one and told, f"{i}: {run['summary_id']}")
            why = {"failed": run["error_code"], "skipped": run["skip_reason"]}.get(status, "-")
            self.check("a run that ended otherwise says why", bool(why), f"{i} is {status}")
            if run["generation"] is not None:
                generations[run["session_id"]].append(run["generation"])
        for session, numbers in generations.items():
            due = list(range(1, len(numbers) + 1))
            self.check("generations are counted without a gap", sorted(numbers) == due, f"{session}: {sorted(numbers)}")
        idle = self.rows.open_transactions
        self.check("no transaction is open", not idle, f"{idle} connections are idle in a transaction")

    def _sessions(self) -> None:
        for session in self.told.sessions:
            due = session not in self.deleted_sessions
            self.check("sessions are there unless deleted", (session in self.sessions) == due, session)
        left = {row["session_id"] for row in (*self.rows.messages, *self.rows.runs)} | self.rows.event_sessions
        for session in self.deleted_sessions:
            self.check("nothing is left of a deleted session", session not in left, session)
        for row in self.rows.sessions:
            sure, maybe = self.told.erasures[row["id"]]
            counted = sure <= row["erasures"] <= sure + maybe
            self.check("erasures are counted", counted, f"{row['id']}: {row['erasures']}, {sure} to {sure + maybe}")

    def _clients(self) -> None:
        ended = sum(bool(operations) and operations[-1]["op"] == "end" for operations in self.journals)
        self.check("every client reached the end", ended == self.clients, f"{ended} of {self.clients}")
        for operation in (o for operations in self.journals for o in operations if o["op"] != "end"):
            trace = operation.get("trace") or operation.get("error")
            self.check("no unexpected error", not operation.get("unexpected"), f"{operation['op']}: {trace}")


def judge(rows: Rows, journals: Sequence[Sequence[Operation]], *, clients: int) -> dict[str, Any]:
    """Everything that was checked and counted."""
    for row in rows.messages:
        row["tool_calls_text"] = " ".join(MARKER.findall(str(row.get("tool_calls") or "")))
    judging = Judge(rows, journals, clients)
    judging.judge()
    operations = [operation for client in journals for operation in client if operation["op"] != "end"]
    ended: Counter[str] = Counter()
    for run in rows.runs:
        ended[" ".join(filter(None, (run["status"], run["skip_reason"] or run["error_code"])))] += 1
    return {
        "operations": dict(Counter(operation["op"] for operation in operations)),
        "errors": dict(Counter(f"{o['op']}: {o['error']}" for o in operations if "error" in o)),
        "unknown": sum(bool(o.get("unknown")) for o in operations),
        "runs": dict(ended),
        "taken_up_again": sum(run["attempts"] > 1 for run in rows.runs),
        "rows": {"messages": len(judging.texts), "summaries": len(judging.summaries), "sessions": len(rows.sessions)},
        "invariants": {name: [n, judging.violated[name]] for name, n in sorted(judging.checked.items())},
        "examples": judging.examples,
    }
