"""Derives again what the rows of a session must be, and reports every difference.

Messages are streamed in the order of their ids, in which a parent comes before its children. So one pass knows
everything above each row: depth, token sums, open calls, turn. A summary is checked when its row comes, runs at the
end. A wrong row is reported once: what only follows from it further down is not.

No column says which ``TOKEN_COUNTER`` counted a message, but the sums show it. If the setting has changed since, the
sums continue from the old counts; if a count was changed afterwards, they do not. Messages counted by another counter
are not a problem: the report says how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, pairwise
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet

from compaction_app.conf import get_token_counter
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.open_calls import NONE_OPEN, OpenCalls, goes_on_calling, open_calls_after
from compaction_app.messages.transcript import summary_message
from compaction_app.messages.validation import validate_message
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, MessagePin
from compaction_app.models.columns import checks_of
from compaction_app.tokens import TOKENS_PER_MESSAGE, TOKENS_PER_MISSING_RESULT, Count, count_messages
from compaction_app.values import Kind, Role, RunStatus, with_ledger

_BATCH = 500
#: How often a session is read again because something was written to it in the meantime.
_ATTEMPTS = 3
#: A stored message may be older than the current MAX_MESSAGE_BYTES.
_ANY_SIZE = 2**62

_RUN_FIELDS = "id status generation tip_id anchor_id cutoff_id base_id summary_id previous_run_id".split()

#: Called with the number of rows read since the last call.
Advance = Callable[[int], object]


class Finding(StrEnum):
    """The kinds of problems."""

    PARENT = "parent"
    MESSAGE = "message"
    DEPTH = "depth"
    PATH_TOKENS = "path_tokens"
    TOKEN_COUNT = "token_count"  # noqa: S105 - tokens of text
    SIBLING_ORDER = "sibling_order"
    LANE = "lane"
    TOOL_RESULT = "tool_result"
    CUTOFF = "cutoff"
    TURN_REQUEST = "turn_request"
    PIN = "pin"
    TWO_LIVE = "two_live_summaries"
    EXTRACT = "extract"
    BASE = "base"
    RETIRED_BASE = "retired_base"
    RUN = "run"
    GENERATION = "generation"


#: A summary with one of these cannot be checked further.
_MISPLACED = frozenset({Finding.CUTOFF, Finding.PARENT})


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeProblem:
    """One stored value that differs from the derived one. Contains ids and numbers, never text of a conversation."""

    session_id: UUID
    finding: Finding
    detail: str
    message_id: int | None = None
    run_id: int | None = None


@dataclass(kw_only=True, slots=True)
class Report:
    """How much of one session was checked, and the problems found."""

    session_id: UUID
    messages: int = 0
    runs: int = 0
    #: Messages and summaries counted by another ``TOKEN_COUNTER``.
    counted_otherwise: int = 0
    problems: list[TreeProblem] = field(default_factory=list)


class _Node:
    """What the checks of later rows need to know about a row."""

    __slots__ = (
        "cutoff depth has_messages id kind lanes last_order open_calls retired role row_depth row_path sums turn up"
        " wrong"
    ).split()

    def __init__(self, row: Mapping[str, Any], up: _Node | None) -> None:
        self.id: int = row["id"]
        self.up = up
        self.kind: str = row["kind"]
        self.role: str = row["role"]
        self.retired = row["retired_at"] is not None
        self.depth: int = up.depth + 1 if up else 1
        self.row_depth: int = row["depth"]
        self.row_path: int = row["path_tokens"]
        #: Tokens from the root to here: the sum of the stored counts, and of new ones. They differ below a row
        #: whose count is wrong, and in every row that another counter counted.
        self.sums: tuple[int, int] = (0, 0)
        #: Calls without a result yet; None where a wrong row makes that unknown.
        self.open_calls: OpenCalls | None = NONE_OPEN
        #: The user message at or above.
        self.turn: _Node | None = self if row["role"] == Role.USER else up.turn if up else None
        self.cutoff: _Node | None = None
        #: Of its children.
        self.last_order = 0
        #: The lane as stored, by its first message; where that is wrong, also the lanes that would be right.
        self.lanes: frozenset[int] = frozenset({row["lane_id"] or self.id})
        #: Whether a message follows; the next one then begins a lane of its own.
        self.has_messages = False
        self.wrong: set[Finding] = set()

    def at_depth(self, depth: int) -> _Node:
        """The node of that depth on the path from the root to here; self if this is not deeper."""
        node = self
        while node.depth > depth and node.up is not None:
            node = node.up
        return node

    def is_on_path_to(self, other: _Node) -> bool:
        """Whether this is ``other`` or above it."""
        return other.at_depth(self.depth) is self


def verify_session(session: ChatSession, *, on_rows: Advance | None = None) -> Report:
    """Check one session in one pass, in the database that it was read from. Writes nothing."""
    stored = ChatSession.objects.using(session._state.db).filter(pk=session.pk)
    # When a message or a summary was stored, and which erasure or retirement was recorded, for the last time.
    last_write = stored.values_list("updated_at", Max("events"))
    for _ in range(_ATTEMPTS):
        before = last_write.first()
        report = _Verification(session, stored, on_rows or (lambda count: None)).report()
        # A write between two of our queries can look like a problem.
        if not report.problems or last_write.first() == before:
            break
    return report


class _Verification:
    """One pass over one session."""

    def __init__(self, session: ChatSession, stored: QuerySet[ChatSession], on_rows: Advance) -> None:
        self.session, self.stored, self.on_rows = session, stored, on_rows
        self.count: Count = get_token_counter()
        self.nodes: dict[int, _Node] = {}
        #: Of the roots.
        self.last_order = 0
        self.live: dict[tuple[int, int], int] = {}
        # Read before the messages, so that every message a run refers to is read after it.
        runs = CompactionRun.objects.in_database_of(stored).filter(session=session).order_by("id")
        self.runs = list(runs.values(*_RUN_FIELDS))
        self.maker: dict[int, dict[str, Any]] = {}
        for run in self.runs:
            if run["summary_id"] is not None:
                self.maker.setdefault(run["summary_id"], run)
        self.found = Report(session_id=session.pk, runs=len(self.runs))
        #: Differences in counts that another counter may explain.
        self.doubtful: list[TreeProblem] = []
        #: Messages counted again: so far, and up to the last doubtful one.
        self.recounted = self.recounted_until_doubtful = 0

    def report(self) -> Report:
        messages = ChatMessage.objects.in_database_of(self.stored).filter(session=self.session).order_by("id")
        rows = messages.values().iterator(chunk_size=_BATCH)
        while batch := list(islice(rows, _BATCH)):
            invalid: dict[int, str] = {}
            for row in batch:
                try:
                    if row["kind"] == Kind.MESSAGE:
                        validate_message(row, checks_of(ChatMessage), max_bytes=_ANY_SIZE)
                except InvalidMessage as error:
                    invalid[row["id"]] = str(error)
            for row, tokens in zip(batch, self._recount(batch, invalid), strict=True):
                self._check_row(row, tokens, invalid.get(row["id"], ""))
            self.found.messages += len(batch)
            self.on_rows(len(batch))
        self._drop_explained_counts()
        self._check_pins()
        self._check_runs()
        return self.found

    def _drop_explained_counts(self) -> None:
        """If at least half of the counts differ, another counter explains them. A few among many are wrong."""
        messages = sum(self.nodes[one.message_id or 0].kind == Kind.MESSAGE for one in self.doubtful)
        if messages and 2 * messages >= self.recounted_until_doubtful:
            self.found.counted_otherwise = len(self.doubtful)
            explained = set(map(id, self.doubtful))
            self.found.problems = [one for one in self.found.problems if id(one) not in explained]

    def _wrong(self, finding: Finding, detail: str, *, node: _Node | None = None, run: Any = None) -> None:
        if node is not None:
            node.wrong.add(finding)
        ids = {"session_id": self.session.pk, "message_id": node and node.id, "run_id": run and run["id"]}
        self.found.problems.append(TreeProblem(finding=finding, detail=detail, **ids))

    def _recount(self, batch: Sequence[dict[str, Any]], invalid: Mapping[int, str]) -> list[int | None]:
        """Tokens of each row by its content alone; None where the content is not known any more.

        An attachment is an estimate, which other versions of this app make otherwise: with one, the stored count
        stands unless it is less than that of the rest.
        """
        known = [row for row in batch if row["id"] not in invalid and row["redacted_at"] is None]
        messages = [{**row, "attachments": None} for row in known if row["kind"] == Kind.MESSAGE]
        summaries = [row for row in known if row["kind"] == Kind.SUMMARY]
        counts = dict(
            zip((row["id"] for row in messages), count_messages(messages, self.count), strict=True) if messages else ()
        )
        if summaries:
            texts = self.count([summary_message(with_ledger(row["content"], row["ledger"])) for row in summaries])
            counts |= {row["id"]: n + TOKENS_PER_MESSAGE for row, n in zip(summaries, texts, strict=True)}
        for row in known:
            if row["attachments"] and row["token_count"] >= counts[row["id"]]:
                del counts[row["id"]]
        return [counts.get(row["id"]) for row in batch]

    def _check_row(self, row: dict[str, Any], tokens: int | None, problem: str) -> None:
        up = self.nodes.get(row["parent_message_id"]) if row["parent_message_id"] else None
        node = self.nodes[row["id"]] = _Node(row, up)
        if problem:
            self._wrong(Finding.MESSAGE, problem, node=node)
        if row["extract"] and (node.kind == Kind.MESSAGE or row["redacted_at"]):
            self._wrong(Finding.EXTRACT, "it has an extract, but is no summary with a text", node=node)
        if row["parent_message_id"] and up is None:
            missing = row["parent_message_id"]
            self._wrong(Finding.PARENT, f"its parent #{missing} is not an earlier message of this session", node=node)
            # Below this row everything is derived from the row's own values.
            node.depth, node.sums = node.row_depth, (node.row_path, node.row_path)
            return
        # Siblings are numbered in the order of their ids. Deletions leave gaps.
        beside: _Node | _Verification = up or self
        if row["sib_order"] <= beside.last_order:
            stored = f"stored {row['sib_order']}, but an older sibling has {beside.last_order}"
            self._wrong(Finding.SIBLING_ORDER, stored, node=node)
        beside.last_order = row["sib_order"]
        if up and up.kind == Kind.SUMMARY:
            self._wrong(Finding.PARENT, f"its parent #{up.id} is a summary, which cannot have children", node=node)
        else:
            self._check_lane(node)
        if node.row_depth != node.depth:
            from_above = node.up.row_depth + 1 if node.up else None
            self._check_derived(node, Finding.DEPTH, node.row_depth, node.depth, from_above)
        self._check_tokens(node, row, tokens, valid=not problem)
        if node.kind == Kind.SUMMARY:
            self._check_summary(node, row)

    def _check_lane(self, node: _Node) -> None:
        """A summary is on its anchor's lane, a message on its parent's lane or at the start of its own.

        Only the parent's first message continues its lane. It may have been deleted; then the lane simply ends.
        """
        above = node.up
        may_go_on = above is not None and (node.kind == Kind.SUMMARY or not above.has_messages)
        lanes = above.lanes if above and may_go_on else frozenset()
        own = frozenset({node.id}) if node.kind == Kind.MESSAGE else frozenset()
        if above and node.kind == Kind.MESSAGE:
            above.has_messages = True
        if node.lanes <= lanes | own:
            return
        derived = " or ".join(f"#{lane}" for lane in sorted(lanes | own))
        self._wrong(Finding.LANE, f"stored #{min(node.lanes)}, derived {derived}", node=node)
        # Messages below may continue the stored lane or the right one: neither is a second problem.
        node.lanes |= lanes or own

    def _check_derived(self, node: _Node, finding: Finding, stored: int, derived: int, from_above: int | None) -> None:
        """Report a stored value that differs, once: not where it follows from the parent's, which was reported."""
        if node.up and finding in node.up.wrong and stored == from_above:
            node.wrong.add(finding)
        else:
            self._wrong(finding, f"stored {stored}, derived {derived}", node=node)

    def _check_tokens(self, node: _Node, row: dict[str, Any], tokens: int | None, *, valid: bool) -> None:
        above = node.up.sums if node.up else (0, 0)
        stored: int = row["token_count"]
        is_message = node.kind == Kind.MESSAGE
        if is_message:
            tokens = self._with_missing_results(node, row, tokens, valid)
        derived = stored if tokens is None else tokens
        node.sums = (above[0] + stored, above[1] + derived) if is_message else above
        self.recounted += tokens is not None and is_message
        if stored != derived:
            self._wrong(Finding.TOKEN_COUNT, f"stored {stored}, counted {derived}", node=node)
            # Every counter counts what is around a message: 0 was never counted.
            if stored and (not is_message or node.row_path == node.sums[0]):
                self.doubtful.append(self.found.problems[-1])
                if is_message:
                    self.recounted_until_doubtful = self.recounted
        if node.row_path not in node.sums:
            carried = stored if is_message else 0
            from_above = node.up.row_path + carried if node.up else None
            self._check_derived(node, Finding.PATH_TOKENS, node.row_path, node.sums[0], from_above)

    def _with_missing_results(self, node: _Node, row: dict[str, Any], tokens: int | None, valid: bool) -> int | None:
        """A message's own tokens, and those of the results supplied for the calls that it leaves unanswered."""
        waiting = node.up.open_calls if node.up else NONE_OPEN
        node.open_calls = None
        if valid and (waiting is not None or node.role != Role.TOOL):
            try:
                node.open_calls = open_calls_after(waiting or NONE_OPEN, row)
            except InvalidMessage as error:
                self._wrong(Finding.TOOL_RESULT, str(error), node=node)
        if tokens is None or node.role == Role.TOOL or goes_on_calling(waiting, row):
            return tokens
        return None if waiting is None else tokens + len(waiting) * TOKENS_PER_MISSING_RESULT

    def _check_summary(self, node: _Node, row: dict[str, Any]) -> None:
        anchor, cutoff_id = node.up, row["last_summarized_message_id"]
        cutoff = node.cutoff = self.nodes.get(cutoff_id)
        if anchor is None:
            return
        if cutoff is None or cutoff.kind == Kind.SUMMARY:
            self._wrong(Finding.CUTOFF, f"its cutoff #{cutoff_id} is not an earlier message of this session", node=node)
            return
        if not cutoff.is_on_path_to(anchor):
            self._wrong(
                Finding.CUTOFF, f"its cutoff #{cutoff.id} is not on the path to its anchor #{anchor.id}", node=node
            )
            return
        if row["pinned_message_id"] is not None:
            self._check_turn_request(node, cutoff, anchor, row["pinned_message_id"])
        if not node.retired and (other := self.live.setdefault((anchor.id, cutoff.id), node.id)) != node.id:
            self._wrong(Finding.TWO_LIVE, f"#{other} is also live, with the same anchor and cutoff", node=node)
        self._check_base(node, cutoff, anchor)

    def _check_turn_request(self, node: _Node, cutoff: _Node, anchor: _Node, request_id: int) -> None:
        request = self.nodes.get(request_id)
        if request is None or request.kind == Kind.SUMMARY or request.role != Role.USER:
            problem = f"its turn's request #{request_id} is not an earlier user message of this session"
        # It is the cutoff itself where a conversation was handed over: of the messages between none was copied.
        elif not request.is_on_path_to(cutoff):
            problem = f"its turn's request #{request_id} is not above its cutoff #{cutoff.id}"
        elif request is not cutoff.turn:
            problem = f"its turn's request #{request_id} is not the user message of the turn of its cutoff #{cutoff.id}"
        elif (following := self._after(node, cutoff, anchor)) and following.role == Role.USER:
            problem = f"its cutoff #{cutoff.id} ends a turn, so it cannot have the request #{request_id}"
        else:
            return
        self._wrong(Finding.TURN_REQUEST, problem, node=node)

    def _after(self, node: _Node, cutoff: _Node, anchor: _Node) -> _Node | None:
        """The message after the cutoff on the branch that was compacted; None if it was deleted."""
        tip_id = self.maker[node.id]["tip_id"] if node.id in self.maker else None
        below = anchor if anchor is not cutoff else self.nodes.get(tip_id or 0)
        if below is None or not cutoff.is_on_path_to(below):
            return None
        following = below.at_depth(cutoff.depth + 1)
        return following if following is not cutoff else None

    def _check_base(self, node: _Node, cutoff: _Node, anchor: _Node) -> None:
        """A summary replaces its base: it covers more, and applies only where its base applies."""
        run = self.maker.get(node.id)
        if run is None or run["base_id"] is None:
            return
        base = self.nodes.get(run["base_id"])
        if base is not None and base.wrong & _MISPLACED:
            return
        if base is None or base.kind != Kind.SUMMARY or base.up is None or base.cutoff is None:
            problem = f"its base #{run['base_id']} is not an earlier summary of this session"
        elif base.cutoff is cutoff or not base.cutoff.is_on_path_to(cutoff):
            problem = f"its cutoff #{cutoff.id} is not below #{base.cutoff.id}, the cutoff of its base #{base.id}"
        elif not base.up.is_on_path_to(anchor):
            problem = f"its anchor #{anchor.id} is not at or below #{base.up.id}, the anchor of its base #{base.id}"
        else:
            if base.retired and not node.retired:
                self._wrong(Finding.RETIRED_BASE, f"it is live, but its base #{base.id} is retired", node=node)
            return
        self._wrong(Finding.BASE, problem, node=node, run=run)

    def _check_pins(self) -> None:
        """A pin repeats what a read needs of its message, which is no summary and still has its text."""
        pins = MessagePin.objects.in_database_of(self.stored)
        pins = pins.filter(Q(session=self.session) | Q(message__session=self.session))
        copied = ("session_id", "lane", "depth", "tokens")
        row = ("session_id", "lane_id", "depth", "token_count", "kind", "redacted_at")
        for pk, *values in pins.values_list("pk", *copied, *(f"message__{name}" for name in row)):
            session_id, lane, depth, tokens, kind, redacted_at = values[len(copied) :]
            derived = [session_id, lane or pk, depth, tokens]
            problem = f"its pin has {values[:4]}, derived {derived}" if values[:4] != derived else ""
            if kind == Kind.SUMMARY or redacted_at:
                problem = "it is pinned, but is a summary or redacted"
            if problem:
                self._wrong(Finding.PIN, problem, node=self.nodes.get(pk))

    def _check_runs(self) -> None:
        earlier: set[int] = set()
        for run in self.runs:
            previous = run["previous_run_id"]
            if previous is not None and previous not in earlier:
                self._wrong(Finding.RUN, f"its previous run {previous} is not an earlier run of this session", run=run)
            earlier.add(run["id"])
            if problem := self._problem_of(run):
                self._wrong(Finding.RUN, problem, run=run)
        self._check_generations()

    def _problem_of(self, run: dict[str, Any]) -> str:
        """What is wrong with the messages that a run refers to; "" if nothing is."""
        nodes = {name: self.nodes.get(run[f"{name}_id"]) for name in ("cutoff", "anchor", "tip", "base", "summary")}
        for name, node in nodes.items():
            kind = Kind.SUMMARY if name in ("base", "summary") else Kind.MESSAGE
            if run[f"{name}_id"] is not None and (node is None or node.kind != kind):
                return f"its {name} #{run[f'{name}_id']} is not a {kind} of this session"
        path = [(name, node) for name in ("cutoff", "anchor", "tip") if (node := nodes[name])]
        for (name, node), (below_name, below) in pairwise(path):
            if not node.is_on_path_to(below):
                return f"its {name} #{node.id} is not on the path to its {below_name} #{below.id}"
        summary = nodes["summary"]
        if summary is None:
            return ""
        if run["status"] != RunStatus.SUCCEEDED:
            return f"it made summary #{summary.id}, but is {run['status']}"
        if self.maker[summary.id]["id"] != run["id"]:
            return f"its summary #{summary.id} was already made by run {self.maker[summary.id]['id']}"
        for name, own in (("anchor", summary.up), ("cutoff", summary.cutoff)):
            node = nodes[name]
            if node and own and node is not own and not summary.wrong & _MISPLACED:
                return f"its {name} is #{node.id}, but the {name} of its summary #{summary.id} is #{own.id}"
        return ""

    def _check_generations(self) -> None:
        """1, 2, 3 … in the order in which the summaries were written; failed runs have none."""
        numbered = [run for run in self.runs if run["generation"] is not None]
        numbered.sort(key=lambda run: int(run["generation"]))
        written = 0
        for expected, run in enumerate(numbered, start=1):
            generation, node = run["generation"], self.nodes.get(run["summary_id"])
            # 0 where the summary was deleted, or another run made it.
            made = node and node.kind == Kind.SUMMARY and self.maker[node.id]["id"] == run["id"]
            summary_id = node.id if node and made else 0
            if run["status"] != RunStatus.SUCCEEDED:
                problem = f"it is {run['status']}, but has generation {generation}"
            elif generation != expected:
                problem = f"stored {generation}, derived {expected}"
            elif summary_id and summary_id < written:
                problem = f"its generation {generation} is higher than that of the later summary #{written}"
            else:
                written = summary_id or written
                continue
            self._wrong(Finding.GENERATION, problem, run=run)
            return
