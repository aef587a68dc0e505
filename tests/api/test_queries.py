"""What the operations cost: queries that are counted, the same for a short conversation and a long one.

Two of each count are Django's: the session of the cookie and its user.
"""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from tests.admin.records import run_for
from tests.api.asking import Asker, World, user
from tests.api.operations import OPERATIONS, ROWS, send
from tests.builders import grow
from tests.small import anchored_summary

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_world")]

SIGNED_IN = 2
#: Operation → statements of its own, savepoints not counted; any other has at most 35.
QUERIES = {
    "POST sessions": 1,
    "GET sessions": 1,
    "GET sessions/{session_id}": 1,
    "PATCH sessions/{session_id}": 4,
    "GET sessions/{session_id}/tree": 2,
    "GET sessions/{session_id}/compactions": 2,
    "GET sessions/{session_id}/compactions/{generation}": 2,
    "GET messages/{message_id}": 1,
    "GET messages/{message_id}/branch": 2,
    "GET messages/{message_id}/context": 2,
    "GET runs/{run_id}": 1,
    # A whole run.
    "POST messages/{message_id}/carry_over": 51,
}


class LongWorld(World):
    """Four times as long, with as many branches, generations and sessions beside it."""

    def __init__(self, owner):
        super().__init__(owner)
        for number in range(2, 6):
            anchor = self.branch[5]
            fork = grow(self.session, anchor, "u a u a u a")
            summary = anchored_summary(fork[3], fork[1], content="More was said. " * 20)
            run_for(summary, fork[-1], number)
            chat.start_session(owner=owner)


def statements(ask, operation, world):
    """What was sent to the database, but for savepoints, which cost no reading."""
    with CaptureQueriesContext(connection) as queries:
        assert send(ask, operation, world).status_code == ROWS[operation][1]
    return [query["sql"] for query in queries if not re.match(r"(RELEASE )?SAVEPOINT", query["sql"])]


@pytest.mark.few
@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_costs_the_same_in_a_long_conversation(operation):
    owner = user("ann")
    ask = Asker(owner)
    short = statements(ask, operation, World(owner))
    long = statements(ask, operation, LongWorld(owner))
    assert len(long) == len(short), long
    expected = QUERIES.get(operation)
    if expected is not None:
        assert len(short) == SIGNED_IN + expected, short
    else:
        assert len(short) <= SIGNED_IN + 35, short


@pytest.mark.few
@pytest.mark.parametrize(
    "operation", [name for name in OPERATIONS if name.startswith("GET") and "messages/" not in name]
)
def test_a_list_or_a_run_reads_no_text_of_a_message(operation):
    owner = user("ann")
    for query in statements(Asker(owner), operation, LongWorld(owner)):
        if not operation.endswith(("{generation}", "repository", "search", "export")):
            assert '"content"' not in query


@pytest.mark.parametrize(
    ("path", "index"),
    [
        ("tree?limit=3&cursor=1", "compaction_session_messages"),
        ("compactions?limit=3&cursor=9", "compaction_generation"),
    ],
)
def test_a_page_is_found_by_an_index(path, index):
    """The million rows of other sessions are not looked at."""
    owner = user("ann")
    world = LongWorld(owner)
    with CaptureQueriesContext(connection) as queries:
        Asker(owner).get(f"{world.path}/{path}")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Of a table of a hundred rows the planner would read all.
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        cursor.execute(explain + queries[-1]["sql"])
        plan = " ".join(str(cell) for row in cursor.fetchall() for cell in row)
    assert index in plan or "sqlite_autoindex" in plan, plan
    assert "TEMP B-TREE" not in plan
