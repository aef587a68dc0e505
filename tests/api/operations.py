"""Every operation of the JSON API, and how it is asked for."""

from compaction_app.api.permissions import Action
from tests.builders import grow


def _another_branch(world):
    return {"source_id": grow(world.session, None, "u a")[-1].pk}


#: Operation → body or what makes it, status where it is allowed, what is asked of PERMISSION.
ROWS = {
    "POST sessions": ({}, 201, Action.CREATE),
    "GET sessions": (None, 200, None),
    "GET search": (None, 200, None),
    "GET sessions/{session_id}": (None, 200, Action.VIEW),
    "PATCH sessions/{session_id}": ({"title": "Winds"}, 200, Action.CHANGE),
    "DELETE sessions/{session_id}": (None, 204, Action.DELETE),
    "GET sessions/{session_id}/export": (None, 200, Action.READ),
    "POST sessions/{session_id}/messages": ({"role": "user", "content": "x"}, 201, Action.APPEND),
    "GET sessions/{session_id}/tree": (None, 200, Action.READ),
    "POST sessions/{session_id}/compact": ({"wait": False, "instructions": "again"}, 202, Action.COMPACT),
    "POST sessions/{session_id}/copy": (lambda world: {"message_id": world.tip.pk}, 201, Action.COPY),
    "POST messages/{message_id}/hand_over": (None, 201, Action.COPY),
    "GET sessions/{session_id}/compactions": (None, 200, Action.INSPECT),
    "GET sessions/{session_id}/compactions/{generation}": (None, 200, Action.INSPECT),
    "GET messages/{message_id}": (None, 200, Action.READ),
    "GET messages/{message_id}/branch": (None, 200, Action.READ),
    "GET messages/{message_id}/context": (None, 200, Action.READ),
    "GET messages/{message_id}/meter": (None, 200, Action.READ),
    "POST messages/{message_id}/carry_over": (_another_branch, 201, Action.APPEND),
    "DELETE messages/{message_id}": (None, 204, Action.ERASE),
    "POST messages/{message_id}/pin": (None, 204, Action.PIN),
    "DELETE messages/{message_id}/pin": (None, 204, Action.PIN),
    "POST messages/{message_id}/redact": (None, 200, Action.REDACT),
    "PATCH summaries/{summary_id}": ({"text": "Ida keeps the tide tables."}, 200, Action.COMPACT),
    "DELETE summaries/{summary_id}": (None, 200, Action.RETIRE),
    "GET runs/{run_id}": (None, 200, Action.INSPECT),
    # Of contrib.stream, which the example project has. Of what is allowed the first is asked of no model.
    "POST sessions/{session_id}/stream": ({"messages": [{"role": "system"}]}, 422, Action.APPEND),
    "GET sessions/{session_id}/stream": (None, 204, Action.READ),
    "POST sessions/{session_id}/stream/stop": ({}, 200, Action.APPEND),
    "GET sessions/{session_id}/repository": (None, 200, Action.READ),
}
OPERATIONS = sorted(ROWS)
#: What else is asked, of the session.
ALSO = {"POST messages/{message_id}/carry_over": [Action.READ, Action.COMPACT]}


def send(ask, operation, world):
    method, path = operation.split()
    names = {
        "session_id": world.session.pk,
        "message_id": world.tip.pk,
        "summary_id": world.summary.pk,
        "run_id": world.run.pk,
        "generation": 1,
    }
    body = ROWS[operation][0]
    path = "search?q=word" if path == "search" else path
    return ask(method, path.format(**names), body(world) if callable(body) else body)
