"""The soak run itself for thirty seconds, and its check on rows and journals with one thing wrong in each."""

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.soak import check, faults, journal, report

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SESSION = "5e55"
CONTENT = f"{check.MESSAGES}.content"


@pytest.mark.long
@pytest.mark.soak
def test_thirty_seconds_leave_nothing_lost_doubled_leaked_or_stuck(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "tests.soak", "--seconds", "30", "--seed", "3", "--json", str(result)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(result.read_text())
    assert set(faults.IN_TEN_MINUTES) <= set(told["faults"]), done.stdout
    assert told["runs"]["succeeded"] > 0
    assert sum(told["operations"].values()) > 1000


@pytest.mark.pure
def test_the_same_seed_gives_the_same_faults() -> None:
    assert faults.schedule(7, 600) == faults.schedule(7, 600) != faults.schedule(8, 600)
    assert {fault.kind for fault in faults.schedule(7, 30)} == set(faults.IN_TEN_MINUTES)
    assert sum(fault.kind == "worker killed" for fault in faults.schedule(7, 600)) >= 30


@pytest.mark.pure
def test_the_check_shares_no_code_with_the_app() -> None:
    command = [sys.executable, "-c", "import sys, tests.soak.check; print(*sys.modules)"]
    loaded = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    assert {name.split(".")[0] for name in loaded} & {"django", "compaction_app", "project"} == set()


def content(marker: str) -> str:
    return f"{marker}: grain"


def message(i: int, parent: int | None, **other: Any) -> dict[str, Any]:
    row = {
        "id": i,
        "session_id": SESSION,
        "parent_message_id": parent,
        "kind": "message",
        "role": "user",
        "content": content(f"mk0x{i}z"),
        "tool_calls": None,
        "token_count": 10,
        "redacted_at": None,
        "retired_at": None,
        "last_summarized_message_id": None,
        "pinned_message_id": None,
        "extract": "",
        "is_extract": False,
    }
    return row | other


def append(n: int, i: int, parent: int | None, **outcome: Any) -> dict[str, Any]:
    sent = {"m": f"mk0x{i}z", "r": "user", "h": journal.digest(content(f"mk0x{i}z"))}
    known = outcome or {"ok": {"ids": [i], "tokens": [10]}}
    return {"n": n, "op": "append", "s": SESSION, "p": parent, "chain": [sent], **known}


RUN: dict[str, Any] = {
    "input_tokens": 90,
    "id": 1,
    "session_id": SESSION,
    "status": "succeeded",
    "summary_id": 4,
    "anchor_id": 2,
    "base_id": None,
    "generation": 1,
    "claim_token": None,
    "lease_expires_at": None,
    "finished_at": "now",
    "attempts": 1,
    "error_code": "",
    "skip_reason": "",
}


class Site:
    """1 – 2 – 3, a fork 5 below 2, and a summary 4 with the anchor 2 and the cutoff 1; 6 was deleted."""

    def __init__(self) -> None:
        self.rows = check.Rows(
            messages=[
                message(1, None),
                message(2, 1),
                message(3, 2),
                message(4, 2, kind="summary", content="Recap: mk0x1z mk0x2z", last_summarized_message_id=1),
                message(5, 2),
            ],
            runs=[dict(RUN)],
            sessions=[{"id": SESSION, "erasures": 1}],
            markers={CONTENT: {f"mk0x{i}z" for i in (1, 2, 3, 5)}},
        )
        self.journal: list[dict[str, Any]] = [
            {"n": 1, "op": "start", "ok": {"id": SESSION}},
            append(2, 1, None),
            append(3, 2, 1),
            append(4, 3, 2),
            append(5, 5, 2),
            append(6, 6, 3),
            {"n": 7, "op": "delete", "s": SESSION, "id": 6, "ok": True},
            {"n": 8, "op": "read", "s": SESSION, "tip": 3, "ok": {"shown": ["mk0x2z", "mk0x3z"]}},
            {"n": 9, "op": "end"},
        ]

    def add_run(self, **fields: Any) -> None:
        self.rows.runs.append({**RUN, "id": 2, **fields})

    def row(self, i: int) -> dict[str, Any]:
        return next(row for row in self.rows.messages if row["id"] == i)

    def violated(self) -> set[str]:
        result = check.judge(deepcopy(self.rows), [self.journal], clients=1)
        assert report.table({**RESULT, **result})
        return {name for name, (_, violated) in result["invariants"].items() if violated}


RESULT = {"seed": 1, "seconds": 1.0, "rest_seconds": 1.0, "faults": {}, "model": {}, "lost_claims": 0, "verified": True}


def lose(site: Site) -> None:
    site.rows.messages.remove(site.row(5))
    site.rows.markers[CONTENT].remove("mk0x5z")


def double_of_unknown_outcome(site: Site) -> None:
    site.journal.insert(-1, append(10, 7, 5, error="OperationalError", unknown=True))
    site.rows.markers[CONTENT].add("mk0x7z")
    site.rows.messages += [message(i, 5, content=content("mk0x7z")) for i in (7, 8)]


def redact_unasked(site: Site) -> None:
    site.row(3).update(content="[redacted]", redacted_at="now")
    site.rows.markers[CONTENT].remove("mk0x3z")


def keep_redacted_text(site: Site) -> None:
    """Message 3 is redacted, and an instruction still quotes it."""
    redact_unasked(site)
    site.journal.insert(-1, {"n": 10, "op": "redact", "s": SESSION, "id": 3, "ok": True})
    site.rows.sessions[0]["erasures"] = 2
    site.rows.markers[f"{check.RUNS}.instructions"] = {"mk0x3z"}


def keep_deleted(site: Site) -> None:
    site.rows.messages.append(message(6, 3))
    site.rows.markers[CONTENT].add("mk0x6z")


def summarize_twice(site: Site) -> None:
    site.rows.messages.append({**site.row(4), "id": 7})
    site.add_run(summary_id=7, generation=2)


def lose_a_summary(site: Site) -> None:
    site.rows.messages.remove(site.row(4))
    site.rows.runs[0]["summary_id"] = None


UNEXPECTED = {"n": 10, "op": "look", "error": "KeyError", "unexpected": True, "unknown": True}
#: One thing that is wrong, and the invariant that it violates.
SPOILED: list[tuple[Callable[[Site], object], str]] = [
    (lose, "no message is lost"),
    (lambda site: site.rows.messages.append(message(7, 5, content=content("mk0x5z"))), "no message is stored twice"),
    (double_of_unknown_outcome, "no message is stored twice"),
    (lambda site: site.row(3).update(content="grain!"), "no message is changed"),
    (redact_unasked, "no message is changed"),
    (lambda site: site.row(4).update(content="Recap: mk0x5z"), "a summary quotes its own branch only"),
    (lambda site: site.journal[-2]["ok"]["shown"].append("mk0x5z"), "a context shows its own branch only"),
    (
        lambda site: site.rows.markers.update({f"{check.EVENTS}.payload": {"mk0x1z"}}),
        "texts are in the columns for texts only",
    ),
    (keep_redacted_text, "redacted text is nowhere"),
    (keep_deleted, "what is deleted is gone, with all below it"),
    (lambda site: site.add_run(status="running", summary_id=None, generation=None), "no run is open"),
    (summarize_twice, "no summary is doubled"),
    (lambda site: site.rows.runs.clear(), "a summary is made by one run"),
    (lambda site: site.row(4).update(is_extract=True), "an extract stands in for a failure only"),
    (lambda site: site.rows.runs[0].update(error_code="timeout"), "an extract stands in for a failure only"),
    (lose_a_summary, "a run that succeeded has one summary"),
    (lambda site: site.row(4).update(last_summarized_message_id=5), "a cutoff is on the path to its anchor"),
    (lambda site: site.journal.pop(), "every client reached the end"),
    (lambda site: site.journal.insert(-1, UNEXPECTED), "no unexpected error"),
    (lambda site: setattr(site.rows, "open_transactions", 1), "no transaction is open"),
]


@pytest.mark.pure
class TestCheck:
    def test_what_is_right_is_found_right(self) -> None:
        assert Site().violated() == set()

    def test_an_append_of_unknown_outcome_may_be_there_once_or_not_at_all(self) -> None:
        site = Site()
        site.journal.insert(-1, append(10, 7, 5, error="OperationalError", unknown=True))
        assert site.violated() == set()
        site.rows.messages.append(message(7, 5))
        site.rows.markers[CONTENT].add("mk0x7z")
        assert site.violated() == set()

    def test_a_chain_of_unknown_outcome_is_stored_in_its_order(self) -> None:
        chain = [append(10, i, 5)["chain"][0] for i in (7, 8)]
        sent = {"n": 10, "op": "append", "s": SESSION, "p": 5, "chain": chain}
        for parent, violated in ((7, set()), (5, {"no message is changed"})):
            site = Site()
            site.journal.insert(-1, {**sent, "error": "OperationalError", "unknown": True})
            site.rows.messages += [message(7, 5), message(8, parent)]
            site.rows.markers[CONTENT] |= {"mk0x7z", "mk0x8z"}
            assert site.violated() == violated

    @pytest.mark.parametrize(("spoil", "invariant"), SPOILED, ids=[invariant for _, invariant in SPOILED])
    def test_what_is_wrong_is_found(self, spoil: Callable[[Site], object], invariant: str) -> None:
        site = Site()
        spoil(site)
        assert invariant in site.violated()

    @pytest.mark.parametrize("failed", [{"rest_seconds": None}, {"verified": False}])
    def test_a_run_that_does_not_come_to_rest_or_leaves_a_wrong_tree_has_failed(self, failed: dict[str, Any]) -> None:
        result = {**RESULT, **check.judge(Site().rows, [Site().journal], clients=1)}
        assert not report.failed(result)
        assert report.failed({**result, **failed})
