"""Every recursive SQL statement of the app, each with the reason for its form. Text only: no ORM.

The statements work on both SQLite and PostgreSQL. Most walk from a tip towards the root, so their cost is the number
of messages on the way and never the size of the table or the number of branches. They do not sort unless they say so:
callers order by depth, the only order that counts: never by time.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

SESSIONS = "compaction_app_chatsession"
MESSAGES = "compaction_app_chatmessage"
RUNS = "compaction_app_compactionrun"
ENTRIES = "compaction_app_searchentry"
PINS = "compaction_app_messagepin"


def places(values: Collection[object]) -> str:
    """A placeholder for each value of an ``IN``."""
    return ", ".join(["%s"] * len(values))


_LANE = "COALESCE({row}.lane_id, {row}.id)"
# The newest live summary that is anchored on a lane, at a depth or above it. A scalar subquery, because joining the
# summary's row made SQLite build a bloom filter over the whole table (1 → 10 ms at a million rows).
_LIVE_ON_LANE = (
    f"(SELECT s.id FROM {MESSAGES} s WHERE s.lane_id = {{lane}} AND s.kind = 'summary' AND s.retired_at IS NULL"
    " AND s.depth <= {depth} + 1{which} ORDER BY s.depth DESC, s.id DESC LIMIT 1)"
)
#: Deeper than any message.
_BELOW_ALL = 2**31 - 1

# The fewest tokens that a message can have when it is shown: pruning may shorten an old tool result, so with its full
# count the walk would stop too early and lose messages that fit. %(pruned)s is the lower bound of a pruned result.
_LEAST = "CASE WHEN p.role = 'tool' AND p.token_count > %(pruned)s THEN %(pruned)s ELSE p.token_count END"

# Whether a message calls tools. Messages with calls that follow each other are one group.
_CALLS = "CASE WHEN {row}.tool_calls IS NULL THEN 0 ELSE 1 END"


# 1 where the session of p has a pin: then lanes are walked on from the summary up to the root. No EXISTS, for which
# PostgreSQL may read the whole table.
_HAS_PINS = f"COALESCE((SELECT 1 FROM {PINS} n WHERE n.session_id = p.session_id LIMIT 1), 0)"


# tip → the message after the newest applicable summary's cutoff, or the root if there is no summary.
# The summary is looked for first, from lane to lane: asked for at each message it takes a third of the read. ``which``
# is a condition that it must meet. Then n: rows so far; shown: the fewest tokens they can have; newest_group: 1 within
# the tip's own call group; users: user messages so far. The first row is no message, only the place below the tip: with
# the tip there, every expression would be in the statement twice, and PostgreSQL plans it anew for each read, which
# takes longer than to carry it out.
def _walk(which: str = "") -> str:
    return f"""
up(parent_id, summary_id, lane, depth, has_pins) AS (
    SELECT CAST(%(tip)s AS bigint), CAST(NULL AS bigint), CAST(NULL AS bigint), 0, 0
    UNION ALL
    SELECT (SELECT l.parent_message_id FROM {MESSAGES} l WHERE l.id = {_LANE.format(row="p")}),
           COALESCE(u.summary_id, {_LIVE_ON_LANE.format(lane=_LANE.format(row="p"), depth="p.depth", which=which)}),
           {_LANE.format(row="p")}, p.depth, {_HAS_PINS}
    FROM up u JOIN {MESSAGES} p ON p.id = u.parent_id
    WHERE u.summary_id IS NULL OR u.has_pins = 1
),
base(id) AS (SELECT max(summary_id) FROM up),
walk(id, parent_id, depth, role, calls, n, shown, newest_group, users) AS (
    SELECT CAST(NULL AS bigint), CAST(%(tip)s AS bigint), {_BELOW_ALL}, CAST('tool' AS varchar), 0, 0,
           CAST(0 AS bigint), 1, 0
    UNION ALL
    SELECT p.id, p.parent_message_id, p.depth, p.role, {_CALLS.format(row="p")}, w.n + 1, w.shown + {_LEAST},
           CASE WHEN w.newest_group = 1 AND (w.role = 'tool' OR w.calls + {_CALLS.format(row="p")} = 2)
                THEN 1 ELSE 0 END,
           w.users + CASE WHEN p.role = 'user' THEN 1 ELSE 0 END
    FROM walk w JOIN {MESSAGES} p ON p.id = w.parent_id
    WHERE w.depth > 1 + COALESCE((SELECT c.depth FROM {MESSAGES} c WHERE c.id = (
        SELECT s.last_summarized_message_id FROM {MESSAGES} s WHERE s.id = (SELECT id FROM base))), 0)
)"""


class Row(NamedTuple):
    """The columns of :data:`VALUES`, in their order; named as those of :class:`ChatMessage`.

    Straight from the cursor: a model instance costs five times as much.
    """

    id: int
    parent_message_id: int | None
    role: str
    content: str
    tool_calls: Any
    tool_call_id: str
    name: str
    reasoning: Any
    original: Any
    attachments: Any
    token_count: int
    path_tokens: int
    depth: int
    created_at: datetime | None
    #: Of summaries.
    ledger: str
    is_extract: bool
    extract: str
    memory: str
    #: What the row is for: "tail", "summary", "request", "cutoff", "pin" or "session" (see :data:`CONTEXT`).
    part: str = "tail"


def _columns(**instead: str) -> str:
    """What is not needed is read as something else."""
    return ", ".join(f"{instead.get(name, f'm.{name}')} AS {name}" for name in Row._fields if name != "part")


# A summary has no name, so the name of its model is read there: a person is one.
_WRITTEN_BY = {"name": "CASE WHEN m.kind = 'summary' THEN m.model ELSE m.name END"}
VALUES = _columns()
_FOR_SUMMARIZERS = {"created_at": "NULL", "extract": "''", "memory": "''"}
_STRUCTURE = _columns(content="''", reasoning="NULL", original="NULL", ledger="''", **_FOR_SUMMARIZERS)
# Of a cutoff, which can be a long tool result, only the position is needed.
_UNLESS_CUTOFF = {
    name: f"CASE WHEN shown.part = 'cutoff' THEN NULL ELSE m.{name} END"
    for name in ("content", "reasoning", "original")
}
_ALL = _columns(**_UNLESS_CUTOFF, **_WRITTEN_BY)
_TO_SHOW = _columns(**_UNLESS_CUTOFF, **_FOR_SUMMARIZERS)


# The walk, its summary, and the request and cutoff of that one. Where a summary's anchor is its cutoff, the walk
# contains the cutoff too: callers leave out what is not deeper.
_BASE = f"FROM {MESSAGES} s WHERE s.id = (SELECT id FROM base)"
_PARTS = f"""
    SELECT id, 'summary' FROM base
    UNION ALL SELECT s.pinned_message_id, 'request' {_BASE}
    UNION ALL SELECT s.last_summarized_message_id, 'cutoff' {_BASE}
"""


def _tail_rows(columns: str, condition: str = "w.id IS NOT NULL", which: str = "") -> str:
    return f"""
WITH RECURSIVE {_walk(which)},
shown(id, part) AS (
    SELECT w.id, 'tail' FROM walk w WHERE {condition}
    UNION ALL {_PARTS}
    UNION ALL SELECT n.message_id, 'pin' FROM up JOIN {PINS} n ON n.lane = up.lane AND n.depth <= up.depth
)
SELECT {columns}, shown.part FROM shown JOIN {MESSAGES} m ON m.id = shown.id
"""


#: What a context depends on of its session, as a row more, in columns of the same types.
_SESSION_ROW = f"""
UNION ALL SELECT 0, NULL, '', c.system_prompt, c.settings, '', c.model, c.token_calibration, NULL, NULL, 0, 0, 0,
       NULL, '', FALSE, '', '', 'session'
FROM {SESSIONS} c WHERE c.id = (SELECT t.session_id FROM {MESSAGES} t WHERE t.id = %(tip)s)
"""

#: Everything a context needs, in one query: the summary, its request and cutoff, the pins, as much of the tail as can
#: fit, and the session.
#: Older rows are walked but not read, except those that a prompt shows at any size: the newest user message, the
#: tip's own call group and the last %(preserve)s messages. A summary of more than %(largest_summary)s tokens is passed
#: over.
CONTEXT = (
    _tail_rows(
        _TO_SHOW,
        "w.shown <= %(limit)s OR w.n <= %(preserve)s OR w.newest_group = 1 OR (w.role = 'user' AND w.users = 1)",
        " AND s.token_count <= %(largest_summary)s",
    )
    + _SESSION_ROW
)

#: The whole tail, for a compaction: without content to plan it, with content (in the background) to summarize.
STRUCTURE = _tail_rows(_STRUCTURE)
WHOLE_TAIL = _tail_rows(_ALL)

#: Of the live summaries that are anchored on another branch the one with the deepest cutoff above a tip, its request
#: and its cutoff. Walked is only what %(limit)s tokens can show, and down to the depth %(above)s of the cutoff in use.
SHARED_EXTRACT = f"""
WITH RECURSIVE walk(id, parent_id, depth, shown, summary_id) AS (
    SELECT CAST(NULL AS bigint), CAST(%(tip)s AS bigint), 0, CAST(0 AS bigint), CAST(NULL AS bigint)
    UNION ALL
    SELECT p.id, p.parent_message_id, p.depth, w.shown + {_LEAST},
           (SELECT s.id FROM {MESSAGES} s WHERE s.last_summarized_message_id = p.id AND s.kind = 'summary'
                AND s.retired_at IS NULL AND s.extract <> '' ORDER BY s.id DESC LIMIT 1)
    FROM walk w JOIN {MESSAGES} p ON p.id = w.parent_id
    WHERE w.summary_id IS NULL AND w.shown <= %(limit)s AND p.depth > %(above)s
),
base(id) AS (
    SELECT s.id FROM {MESSAGES} s WHERE s.id = (SELECT max(summary_id) FROM walk)
        AND NOT EXISTS (SELECT 1 FROM walk WHERE walk.id = s.parent_message_id)
),
shown(id, part) AS ({_PARTS})
SELECT {_columns(**_UNLESS_CUTOFF, memory="''")}, shown.part FROM shown JOIN {MESSAGES} m ON m.id = shown.id
"""

# The numbers that the trigger compares, without content. It walks from lane to lane, so a long branch without a summary
# costs no more than a short one, and ends at the first live summary or above a root. Subqueries again, not joins: they
# are planned in half the time.
_HISTORIES = f"""
WITH RECURSIVE up(tip, parent_id, summary_id, lane, depth, has_pins) AS (
    SELECT t.id, t.id, CAST(NULL AS bigint), CAST(NULL AS bigint), 0, 0 FROM {MESSAGES} t WHERE t.id IN ({{tips}})
    UNION ALL
    SELECT up.tip, l.parent_message_id,
           COALESCE(up.summary_id, {_LIVE_ON_LANE.format(lane=_LANE.format(row="p"), depth="p.depth", which="")}),
           l.id, p.depth, {_HAS_PINS}
    FROM up JOIN {MESSAGES} p ON p.id = up.parent_id JOIN {MESSAGES} l ON l.id = {_LANE.format(row="p")}
    WHERE up.summary_id IS NULL OR up.has_pins = 1
)
SELECT {{columns}}, up.summary_id AS applied_summary_id, t.path_tokens + COALESCE((
           SELECT s.token_count
                - (SELECT c.path_tokens - COALESCE((
                    SELECT sum(n.tokens) FROM up u JOIN {PINS} n ON n.lane = u.lane AND n.depth <= u.depth
                    WHERE u.tip = up.tip AND n.depth <= c.depth
                        AND (s.pinned_message_id IS NULL OR n.message_id <> s.pinned_message_id)
                ), 0) FROM {MESSAGES} c WHERE c.id = s.last_summarized_message_id)
                + COALESCE((SELECT p.token_count FROM {MESSAGES} p WHERE p.id = s.pinned_message_id), 0)
           FROM {MESSAGES} s WHERE s.id = up.summary_id
       ), 0) AS history_tokens
FROM up JOIN {MESSAGES} t ON t.id = up.tip {{and_session}}
WHERE up.parent_id IS NULL OR (up.summary_id IS NOT NULL AND up.has_pins = 0)
"""

#: For each of some tips its newest applicable summary and the tokens of its history; and of one tip with its session.
HISTORIES = _HISTORIES.format(tips="{tips}", columns="up.tip", and_session="")
SESSION_AND_HISTORY = _HISTORIES.format(
    tips="%s", columns="c.*", and_session=f"JOIN {SESSIONS} c ON c.id = t.session_id"
)

#: Ids and depths of the path root → node, the node included. Code outside this module may add a SELECT of its own to
#: this one.
PATH = f"""
WITH RECURSIVE path(id, parent_id, depth) AS (
    SELECT m.id, m.parent_message_id, m.depth FROM {MESSAGES} m WHERE m.id = %(node)s
    UNION ALL
    SELECT p.id, p.parent_message_id, p.depth FROM path JOIN {MESSAGES} p ON p.id = path.parent_id
    WHERE p.depth >= %(min_depth)s
)
"""

#: Rows of that path, for ``get_ancestors`` and ``get_branch``: one query at any depth.
PATH_ROWS = PATH + f"SELECT m.* FROM path JOIN {MESSAGES} m ON m.id = path.id"
#: The same as values, in order.
PATH_VALUES = PATH + f"SELECT {VALUES} FROM path JOIN {MESSAGES} m ON m.id = path.id ORDER BY m.depth"
PATH_STRUCTURE = PATH + f"SELECT {_STRUCTURE} FROM path JOIN {MESSAGES} m ON m.id = path.id ORDER BY m.depth"
#: A page of them, from a depth upwards: those that begin within %(characters)s characters of text and JSON, and always
#: the first. Sixteen large messages are more than a response should contain. {length}: of a row ``m``.
PATH_PAGE = (
    PATH + "SELECT * FROM (SELECT m.*, sum({length}) OVER (ORDER BY m.depth DESC) - ({length}) AS characters_before,"
    f" EXISTS (SELECT 1 FROM {PINS} n WHERE n.message_id = m.id) AS is_pinned"
    f" FROM path JOIN {MESSAGES} m ON m.id = path.id WHERE m.depth <= %(start)s) page"
    " WHERE characters_before < %(characters)s"
)
#: Its first row only: the path is walked by id, and one row is read.
ROOT_ROW = PATH_ROWS + " WHERE m.parent_message_id IS NULL"
PATH_IDS = PATH + "SELECT id, depth FROM path"
#: The user's message at or above one.
TURN_REQUEST = (
    PATH
    + f"SELECT m.id FROM path JOIN {MESSAGES} m ON m.id = path.id WHERE m.role = 'user' ORDER BY m.depth DESC LIMIT 1"
)
#: The last message of the newest reply below one, else that one. A child's id is higher than its parent's.
REPLY_END = f"""
WITH RECURSIVE reply(id) AS (
    SELECT m.id FROM {MESSAGES} m WHERE m.id = %(node)s
    UNION ALL
    SELECT (SELECT c.id FROM {MESSAGES} c WHERE c.parent_message_id = reply.id AND c.kind = 'message'
            AND c.role IN ('assistant', 'tool') ORDER BY c.id DESC LIMIT 1)
    FROM reply WHERE reply.id IS NOT NULL
)
SELECT max(id) FROM reply
"""

_PLACE = "m.id, m.depth, m.token_count, m.path_tokens"

# Ids of a node and all below it. Children are found through the (parent, sib_order) index, level by level.
_NODE_AND_BELOW = f"""
    WITH RECURSIVE subtree(id) AS (
        SELECT m.id FROM {MESSAGES} m WHERE m.id = {{node}}
        UNION ALL
        SELECT c.id FROM subtree JOIN {MESSAGES} c ON c.parent_message_id = subtree.id
    )
    SELECT id FROM subtree
"""
SUBTREE_IDS = _NODE_AND_BELOW.format(node="%(node)s")

#: The same as a subquery with one positional parameter, for ``RawSQL``.
NODE_AND_BELOW = _NODE_AND_BELOW.format(node="%s")

#: After redactions have changed counts: the prefix sums of some nodes, of which none is below another one, and of all
#: below them. Summaries have their anchor's sum.
SUM_PATH_TOKENS = f"""
WITH RECURSIVE summed(id, tokens) AS (
    SELECT m.id, m.token_count + COALESCE((SELECT p.path_tokens FROM {MESSAGES} p WHERE p.id = m.parent_message_id), 0)
    FROM {MESSAGES} m WHERE m.id IN ({{tops}})
    UNION ALL
    SELECT c.id, s.tokens + CASE WHEN c.kind = 'summary' THEN 0 ELSE c.token_count END
    FROM summed s JOIN {MESSAGES} c ON c.parent_message_id = s.id
)
UPDATE {MESSAGES} SET path_tokens = summed.tokens FROM summed WHERE {MESSAGES}.id = summed.id
"""

#: A subtree is deleted in one statement: row by row would leave children without parents for a moment, and Django's
#: collector recurses once per level.
DELETE_SUBTREE = f"""
DELETE FROM {MESSAGES} WHERE id IN ({SUBTREE_IDS})
"""

#: Makes a transaction the only writer of a session. As text, since making it costs Django as much as carrying it out.
LOCK = f"UPDATE {SESSIONS} SET updated_at = updated_at WHERE id = %(session)s"

#: The same for messages from %(first)s to %(now)s, maybe of years ago: a conversation began no later than its first
#: message, and was used when its newest one was written.
LOCK_TO_APPEND = f"""
UPDATE {SESSIONS} SET
    created_at = CASE WHEN created_at > %(first)s THEN %(first)s ELSE created_at END,
    updated_at = CASE WHEN updated_at > %(now)s AND EXISTS (SELECT 1 FROM {MESSAGES} m WHERE m.session_id = %(session)s)
                      THEN updated_at ELSE %(now)s END
WHERE id = %(session)s
"""

#: The ids of the next rows: on PostgreSQL nobody else gets them, on SQLite while this transaction writes.
RESERVE_IDS = {
    "postgresql": f"SELECT nextval(pg_get_serial_sequence('{MESSAGES}', 'id')) FROM generate_series(1, %s)",
    "sqlite": "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s) "
    f"SELECT n + coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{MESSAGES}'), 0) FROM numbers",
}

# The call group of a message: the tool results directly above it and the assistant messages they answer. Each row once,
# though several groups have it.
_GROUP = f"""
WITH RECURSIVE grp(id, parent_id, role, calls, depth) AS (
    SELECT m.id, m.parent_message_id, m.role, {_CALLS.format(row="m")}, m.depth
    FROM {MESSAGES} m WHERE m.id IN ({{parents}})
    UNION
    SELECT p.id, p.parent_message_id, p.role, {_CALLS.format(row="p")}, p.depth
    FROM grp JOIN {MESSAGES} p ON p.id = grp.parent_id
    WHERE grp.role = 'tool' OR grp.calls + {_CALLS.format(row="p")} = 2
)
"""
#: What a new child needs to know: its parent's row, and the parent's call group.
CALL_GROUP = f"""
{_GROUP.format(parents="%(parent)s")}
SELECT m.depth, m.id, m.session_id, m.kind, m.role, m.tool_calls, m.tool_call_id, m.path_tokens, m.lane_id,
       EXISTS (SELECT 1 FROM {MESSAGES} c WHERE c.parent_message_id = %(parent)s AND c.kind = 'message')
           AS has_messages,
       COALESCE((SELECT max(c.sib_order) FROM {MESSAGES} c WHERE c.parent_message_id = %(parent)s), 0) AS last_order
FROM grp JOIN {MESSAGES} m ON m.id = grp.id
"""
#: Those of several parents, from the roots down.
CALL_GROUPS = f"""
{_GROUP}
SELECT m.id, m.parent_message_id, m.role, m.tool_calls, m.tool_call_id
FROM grp JOIN {MESSAGES} m ON m.id = grp.id ORDER BY m.depth
"""

#: A message below another one, where no call waits for its result: then this place is all that the tree says of it.
#: {columns} and {values} are the other columns.
INSERT_BELOW = f"""
INSERT INTO {MESSAGES} (parent_message_id, lane_id, depth, sib_order, path_tokens, {{columns}})
SELECT p.id, CASE WHEN EXISTS (SELECT 1 FROM {MESSAGES} c WHERE c.parent_message_id = p.id AND c.kind = 'message')
                  THEN NULL ELSE COALESCE(p.lane_id, p.id) END,
       p.depth + 1, COALESCE((SELECT max(c.sib_order) FROM {MESSAGES} c WHERE c.parent_message_id = p.id), 0) + 1,
       p.path_tokens + %(token_count)s, {{values}}
FROM {MESSAGES} p
WHERE p.id = %(parent)s AND p.session_id = %(session)s AND p.kind = 'message' AND p.role <> 'tool'
      AND p.tool_calls IS NULL
RETURNING parent_message_id, lane_id, depth, sib_order, path_tokens, id
"""

# The last message of a lane: its first one if nothing continues it.
_LANE_END = (
    f"COALESCE((SELECT e.id FROM {MESSAGES} e WHERE e.lane_id = {{lane}} AND e.kind = 'message'"
    " ORDER BY e.depth DESC LIMIT 1), {lane})"
)
_IS_TIP = f"NOT EXISTS (SELECT 1 FROM {MESSAGES} f WHERE f.parent_message_id = {{row}}.id AND f.kind = 'message')"

#: The newest lanes of a session, where they fork and where they end. The cost depends on the number of lanes, not of
#: messages. %(after)s, %(before)s and %(limit)s choose some of them.
LANES = f"""
WITH lanes AS (
    SELECT m.id, m.depth, m.parent_message_id, {_LANE_END.format(lane="m.id")} AS end_id
    FROM {MESSAGES} m
    WHERE m.session_id = %(session)s AND m.lane_id IS NULL AND m.id > %(after)s AND m.id < %(before)s
    ORDER BY m.id DESC LIMIT %(limit)s
)
SELECT l.id, l.depth, l.parent_message_id, COALESCE(p.lane_id, p.id), e.id, e.depth, e.path_tokens,
       {_IS_TIP.format(row="e")}
FROM lanes l JOIN {MESSAGES} e ON e.id = l.end_id LEFT JOIN {MESSAGES} p ON p.id = l.parent_message_id
ORDER BY l.id DESC
"""

#: Ids of a session's tips as a subquery for ``RawSQL``. Each branch has one tip, at the end of a lane.
TIPS = f"""
SELECT e.id FROM (
    SELECT {_LANE_END.format(lane="m.id")} AS end_id FROM {MESSAGES} m WHERE m.session_id = %s AND m.lane_id IS NULL
) l JOIN {MESSAGES} e ON e.id = l.end_id WHERE {_IS_TIP.format(row="e")}
"""

_LANE_START = f"(SELECT s.depth FROM {MESSAGES} s WHERE s.id = {_LANE})"
_ON_LANE = f"""
SELECT (SELECT e.id FROM {MESSAGES} e WHERE e.lane_id = up.lane AND e.depth = {{depth}} AND e.kind = 'message')
FROM up WHERE up.depth >= {{depth}} AND up.start < {{depth}}
"""

#: Depth and tokens of the messages at two depths of a path. It walks from lane to lane, one per fork, so a long stretch
#: costs no more than a short one. A lane's messages are on the branch down to where the branch leaves the lane. Each
#: end has a subquery of its own: given a list of depths SQLite reads the whole lane, and given a condition on a joined
#: row it builds a bloom filter over the whole table.
STRETCH_ENDS = f"""
WITH RECURSIVE up(lane, depth, start) AS (
    SELECT {_LANE.format(row="m")}, m.depth, {_LANE_START.format(row="m")}
    FROM {MESSAGES} m WHERE m.id = %(node)s
    UNION ALL
    SELECT {_LANE.format(row="p")}, p.depth, {_LANE_START.format(row="p")}
    FROM up JOIN {MESSAGES} l ON l.id = up.lane JOIN {MESSAGES} p ON p.id = l.parent_message_id
    WHERE up.start > %(first)s
), ends(id) AS (
    {_ON_LANE.format(depth="%(first)s")}
    UNION ALL
    {_ON_LANE.format(depth="%(last)s")}
    UNION ALL
    SELECT lane FROM up WHERE start IN (%(first)s, %(last)s)
)
SELECT {_PLACE} FROM ends JOIN {MESSAGES} m ON m.id = ends.id
ORDER BY m.depth
"""

#: Of many tips those at or below a message. It walks from lane to lane.
TIPS_AT_OR_BELOW = f"""
WITH RECURSIVE up(tip, lane, depth) AS (
    SELECT t.id, {_LANE.format(row="t")}, t.depth FROM {MESSAGES} t WHERE t.id IN ({{tips}})
    UNION ALL
    SELECT up.tip, {_LANE.format(row="p")}, p.depth
    FROM up JOIN {MESSAGES} l ON l.id = up.lane JOIN {MESSAGES} p ON p.id = l.parent_message_id
)
SELECT up.tip FROM up JOIN {MESSAGES} m ON up.lane = {_LANE.format(row="m")} AND up.depth >= m.depth
WHERE m.id = %s
"""

#: Of a session's newest runs, but those for another branch, the newest that is anchored on a branch, at or below the
#: cutoff of the summary in use, if there is one: id, status, code, summary. From lane to lane.
NEWEST_RUN = f"""
WITH RECURSIVE up(lane, depth) AS (
    SELECT {_LANE.format(row="t")}, t.depth FROM {MESSAGES} t WHERE t.id = %(tip)s
    UNION ALL
    SELECT {_LANE.format(row="p")}, p.depth
    FROM up JOIN {MESSAGES} l ON l.id = up.lane JOIN {MESSAGES} p ON p.id = l.parent_message_id
)
SELECT r.id, r.status, r.error_code, r.summary_id FROM (
    SELECT n.id, n.status, n.error_code, n.summary_id, n.anchor_id FROM {RUNS} n
    WHERE n.session_id = (SELECT t.session_id FROM {MESSAGES} t WHERE t.id = %(tip)s) AND n.trigger <> 'carry_over'
    ORDER BY n.id DESC LIMIT 100
) r JOIN {MESSAGES} a ON a.id = r.anchor_id JOIN up ON up.lane = {_LANE.format(row="a")} AND up.depth >= a.depth
WHERE r.status <> 'skipped' AND a.depth >= COALESCE(
    (SELECT c.depth FROM {MESSAGES} c WHERE c.id = CAST(%(cutoff)s AS bigint)), 0)
ORDER BY r.id DESC LIMIT 1
"""

#: What was sent for a reply, without the digest of its prompt.
WITHOUT_PROMPT = {"postgresql": "sent_context - 'prompt'", "sqlite": "json_remove(sent_context, '$.prompt')"}

#: Ids of the path root → node, as a subquery with one positional parameter for ``RawSQL``.
PATH_TO = (PATH + "SELECT id FROM path").replace("%(node)s", "%s").replace("%(min_depth)s", "1")

#: A message by its depth on a lane that begins with a root.
_AT_DEPTH = (
    "CASE WHEN {depth} = 1 THEN {lane} ELSE"
    f" (SELECT e.id FROM {MESSAGES} e WHERE e.lane_id = {{lane}} AND e.depth = {{depth}} AND e.kind = 'message') END"
)
# {into} and {copied}: the columns that a copy has of its original, and those that are empty there.
_INSERT_COPY = f"""INSERT INTO {MESSAGES} ({{into}},
    session_id, parent_message_id, lane_id, depth, sib_order, token_count, path_tokens"""
_THE_COPY = f"SELECT c.id FROM {MESSAGES} c WHERE c.session_id = %(session)s AND c.lane_id IS NULL"

#: The path as one lane of another session, in one statement at any length. {next_id}: the id of the next row ``o``;
#: {each}: keys and values of %(lighter)s, which says of each depth how many tokens less it has.
COPY_PATH = (
    PATH
    + f"""
, numbered(id, depth, copy_id) AS (SELECT o.id, o.depth, {{next_id}} FROM (SELECT * FROM path ORDER BY depth) o),
placed(id, depth, copy_id, parent_id, root_id) AS (
    SELECT id, depth, copy_id, lag(copy_id) OVER (ORDER BY depth), first_value(copy_id) OVER (ORDER BY depth)
    FROM numbered
),
lighter(depth, tokens) AS (SELECT CAST(key AS integer), CAST(value AS integer) FROM {{each}})
{_INSERT_COPY}, id)
SELECT {{copied}}, %(session)s, p.parent_id,
       NULLIF(p.root_id, p.copy_id), p.depth, 1, m.token_count + COALESCE(l.tokens, 0),
       m.path_tokens + SUM(COALESCE(l.tokens, 0)) OVER (ORDER BY p.depth), p.copy_id
FROM placed p JOIN {MESSAGES} m ON m.id = p.id LEFT JOIN lighter l ON l.depth = p.depth
ORDER BY p.depth
"""
)
COPY_IDS = {
    "sqlite": {
        # The session's lock keeps every other writer out.
        "next_id": f"(SELECT seq FROM sqlite_sequence WHERE name = '{MESSAGES}') + o.depth",
        "each": "json_each(%(lighter)s)",
    },
    "postgresql": {
        "next_id": f"nextval(pg_get_serial_sequence('{MESSAGES}', 'id'))",
        "each": "json_each_text(CAST(%(lighter)s AS json))",
    },
}

#: A summary below its anchor's copy, after the message that may follow there.
COPY_SUMMARY = f"""
{_INSERT_COPY}, last_summarized_message_id, pinned_message_id)
SELECT {{copied}}, a.session_id, a.id, lane.id, m.depth,
       1 + (SELECT count(*) FROM {MESSAGES} f WHERE f.parent_message_id = a.id), m.token_count, a.path_tokens,
       {_AT_DEPTH.format(lane="lane.id", depth="cutoff.depth")},
       CASE WHEN pin.id IS NOT NULL THEN {_AT_DEPTH.format(lane="lane.id", depth="pin.depth")} END
FROM {MESSAGES} m JOIN {MESSAGES} cutoff ON cutoff.id = m.last_summarized_message_id
     LEFT JOIN {MESSAGES} pin ON pin.id = m.pinned_message_id JOIN ({_THE_COPY}) lane ON TRUE
     JOIN {MESSAGES} a ON a.id = {_AT_DEPTH.format(lane="lane.id", depth="m.depth - 1")}
WHERE m.id = %(summary)s
"""

#: The pins of the path, on the copies.
COPY_PINS = f"""
INSERT INTO {PINS} (message_id, session_id, lane, depth, tokens, created_at)
{PATH}
SELECT c.id, c.session_id, lane.id, c.depth, c.token_count, pin.created_at
FROM path JOIN {PINS} pin ON pin.message_id = path.id JOIN ({_THE_COPY}) lane ON TRUE
     JOIN {MESSAGES} c ON c.id = {_AT_DEPTH.format(lane="lane.id", depth="path.depth")}
"""

#: The summary and every one that was built on it, directly or not, through the runs' bases.
BUILT_ON = f"""
WITH RECURSIVE built(id) AS (
    SELECT m.id FROM {MESSAGES} m WHERE m.id = %(summary)s
    UNION
    SELECT r.summary_id FROM built JOIN {RUNS} r ON r.base_id = built.id WHERE r.summary_id IS NOT NULL
)
SELECT id FROM built
"""

#: Both ways along the bases of runs: levels below 0 are those a summary was built on, above 0 those built on it.
GENERATIONS = f"""
WITH RECURSIVE up(id, level) AS (
    SELECT r.base_id, -1 FROM {RUNS} r WHERE r.summary_id = %(summary)s AND r.base_id IS NOT NULL
    UNION
    SELECT r.base_id, up.level - 1 FROM up JOIN {RUNS} r ON r.summary_id = up.id
    WHERE r.base_id IS NOT NULL AND up.level > -%(levels)s
), down(id, level) AS (
    SELECT r.summary_id, 1 FROM {RUNS} r WHERE r.base_id = %(summary)s AND r.summary_id IS NOT NULL
    UNION
    SELECT r.summary_id, down.level + 1 FROM down JOIN {RUNS} r ON r.base_id = down.id
    WHERE r.summary_id IS NOT NULL AND down.level < %(levels)s
)
SELECT id, level FROM up UNION ALL SELECT id, level FROM down ORDER BY level, id LIMIT %(rows)s
"""

#: From a cutoff up to the first message that has an entry, which all above it have too: those that have none.
WITHOUT_ENTRY = f"""
WITH RECURSIVE up(id, parent_id) AS (
    SELECT m.id, m.parent_message_id FROM {MESSAGES} m
    WHERE m.id = %(cutoff)s AND NOT EXISTS (SELECT 1 FROM {ENTRIES} e WHERE e.message_id = m.id)
    UNION ALL
    SELECT p.id, p.parent_message_id FROM up JOIN {MESSAGES} p ON p.id = up.parent_id
    WHERE NOT EXISTS (SELECT 1 FROM {ENTRIES} e WHERE e.message_id = p.id)
)
SELECT id FROM up
"""

#: Messages of a part of a branch. Each entry of the search index has the number of its part as a term.
SEGMENT = 2_048
# The newest entries with one of some terms on a branch, by the database's own index: FTS5, or GIN over a tsvector. On a
# lane ids rise with the depth, so a branch has what is at or above its last message there.
_MATCHES = {
    # From the index outwards, which has the newest first: so it ends at the limit.
    "sqlite": f"""SELECT e.rowid AS id FROM {ENTRIES}_fts e CROSS JOIN {MESSAGES} m ON m.id = e.rowid
        JOIN up ON up.lane = {_LANE.format(row="m")} AND m.id <= up.id WHERE {ENTRIES}_fts MATCH (
        SELECT '(' || coalesce(group_concat('l' || lane, ' OR '), 'l0') || ') AND (' || {{term}} || ')' FROM up)
        ORDER BY e.rowid DESC""",
    # The newest thousands first: an index has all messages with a word before the newest are known. OFFSET 0: else
    # PostgreSQL, which does not know how rare a word is, reads a large table backwards for the newest.
    "postgresql": " UNION ALL ".join(
        f"""(SELECT e.id FROM (
            SELECT message_id AS id, split_part(terms, ' ', 1) AS lane FROM {ENTRIES}
            WHERE array_to_tsvector(string_to_array(terms, ' ')) @@ (
                SELECT '(' || string_agg('l' || lane, '|') || ') & (' || {{term}} || ') & {which}(' || (
                    SELECT string_agg('s' || max(depth) / {SEGMENT} - n, '|') FROM generate_series(0, 3) n
                ) || ')' FROM up)::tsquery OFFSET 0
        ) e JOIN up ON e.lane = 'l' || up.lane AND e.id <= up.id ORDER BY e.id DESC)"""
        for which in ("", "!")
    ),
}
_EITHER = {"sqlite": " OR ", "postgresql": "|"}


def search_above(words: Sequence[Sequence[str]], cutoffs: Sequence[int], vendor: str) -> tuple[str, dict[str, Any]]:
    """The statement that finds messages at or above these with any of the words, and its parameters.

    Each word is given as the terms that stand for it. First come the messages with the rarest words; of equal ones the
    newest. It walks from lane to lane, and reads what the index finds on these lanes.
    """
    named = {f"word{number}": _EITHER[vendor].join(terms) for number, terms in enumerate(words)}
    # A word of every message costs no more than one of some hundred.
    hits = f"({_MATCHES[vendor]} LIMIT 500) hits"
    if vendor == "postgresql":
        # One plan for all words: each takes as long as the search.
        values = ", ".join(f"({number}, %({name})s)" for number, name in enumerate(named))
        found = f"SELECT word, id FROM (VALUES {values}) wanted(word, term) CROSS JOIN LATERAL {hits}"
        found = found.format(term="wanted.term")
    else:
        found = " UNION ALL ".join(
            f"SELECT {number} AS word, id FROM {hits.format(term=f'%({name})s')}" for number, name in enumerate(named)
        )
    ends = {f"cutoff{number}": cutoff for number, cutoff in enumerate(cutoffs)}
    return _SEARCH.format(found=found, cutoffs=", ".join(f"%({name})s" for name in ends)), {**named, **ends}


def search_lanes(starts: Collection[int], words: Sequence[Sequence[str]], vendor: str) -> tuple[str, str]:
    """The statement that finds the newest messages on some lanes with all of the words, and its %(query)s."""
    both = {"sqlite": " AND ", "postgresql": "&"}[vendor]
    groups = [[f"l{start}" for start in starts], *words]
    return _ON_LANES[vendor], both.join(f"({_EITHER[vendor].join(terms)})" for terms in groups)


_ON_LANES = {
    "sqlite": f"""SELECT rowid FROM {ENTRIES}_fts WHERE {ENTRIES}_fts MATCH %(query)s
        ORDER BY rowid DESC LIMIT %(limit)s""",
    # OFFSET 0: as above.
    "postgresql": f"""SELECT id FROM (
        SELECT message_id AS id FROM {ENTRIES}
        WHERE array_to_tsvector(string_to_array(terms, ' ')) @@ CAST(%(query)s AS tsquery) OFFSET 0
    ) e ORDER BY id DESC LIMIT %(limit)s""",
}

_SEARCH = f"""
WITH RECURSIVE up(id, lane, depth) AS (
    SELECT m.id, {_LANE.format(row="m")}, m.depth FROM {MESSAGES} m WHERE m.id IN ({{cutoffs}})
    UNION ALL
    SELECT p.id, {_LANE.format(row="p")}, p.depth
    FROM up JOIN {MESSAGES} l ON l.id = up.lane JOIN {MESSAGES} p ON p.id = l.parent_message_id
),
weighed(id, weight) AS (SELECT id, 1.0 / count(*) OVER (PARTITION BY found.word) FROM ({{found}}) found)
SELECT id FROM weighed GROUP BY id ORDER BY sum(weight) DESC, id DESC LIMIT %(limit)s
"""
