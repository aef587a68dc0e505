"""What reads and writes conversations takes time and memory in proportion to them, in whatever way they are large."""

import io
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from compaction_app.contrib import histories
from compaction_app.contrib.histories import files
from compaction_app.transfer import formats, importing
from tests.contrib.test_histories import (
    HIDDEN,
    block,
    bubble,
    claude,
    code,
    gpt,
    libre,
    node,
    row,
    said,
    webui,
)
from tests.some import some

pytestmark = pytest.mark.pure

#: Of messages; there are four times as many then.
FEW = 250
#: Four times as many take four times as much; what begins again with each takes sixteen times.
MOST_MEMORY, MOST_TIME = 6.0, 10.0
#: Seconds that say nothing.
FLOOR = 0.05


def chain(n: int, first: str, *kind: Any, **more: Any) -> Iterator[Any]:
    """Nodes of ChatGPT, each below the one before."""
    yield from (node(f"{first}{i}", f"{first}{i - 1}" if i else "q", *kind, **more) for i in range(n))


def fan(n: int, above: str, *kind: Any, **more: Any) -> Iterator[Any]:
    yield from (node(f"below{i}", above, *kind, **more) for i in range(n))


THOUGHT = {"content_type": "thoughts", "thoughts": [{"content": "t" * 100}]}
QUESTION = node("q", None, "user", "Q")
USES = [{"type": "tool_use", "id": None, "name": "f", "input": {}}]
RESULTS = [{"type": "tool_result", "tool_use_id": None, "name": "f", "content": "x"}]


def agent(n: int) -> dict[str, Any]:
    """Our own document of a run of calls, each with its result."""
    messages: list[dict[str, Any]] = [{"id": "0", "parent": None, "role": "user", "content": "Q"}]
    for i in range(n):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        about = {"created_at": "2026-01-01T00:00:00Z", "parent": messages[-1]["id"]}
        messages.append({**about, "id": f"a{i}", "role": "assistant", "content": "x", "tool_calls": [call]})
        messages.append(
            {**about, "id": f"r{i}", "role": "tool", "tool_call_id": f"c{i}", "content": "x", "parent": f"a{i}"}
        )
    return {"id": "d", "messages": messages}


def plain(n: int, parent: Callable[[int], Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "q", "id": str(i), "parent": parent(i)} for i in range(n)]}


def lines(*rows: dict[str, Any]) -> files.LinesOfSession:
    """The session of an agent."""
    return files.LinesOfSession(heads=[rows[0]], lines=[(number, 1, row) for number, row in enumerate(rows, start=1)])


def wrote(own: str, above: str, *blocks: Any) -> dict[str, Any]:
    """A line of Claude Code."""
    message = {"id": "m", "role": "assistant", "content": blocks}
    return {"type": "assistant", "sessionId": "s", "uuid": own, "parentUuid": above, "message": message}


#: A document of n messages, or of one with n of something.
DOCUMENTS: dict[str, Callable[[int], Any]] = {
    "thoughts above replies": lambda n: gpt(
        QUESTION, *chain(n, "t", "assistant", THOUGHT), *fan(n, f"t{n - 1}", "assistant", "A")
    ),
    "hidden above messages": lambda n: gpt(
        QUESTION, *chain(n, "h", "user", "h", metadata=HIDDEN), *fan(n, f"h{n - 1}", "user", "x")
    ),
    "results without a call": lambda n: gpt(QUESTION, *chain(n, "t", "tool", "x", name="f")),
    "calls of many tools": lambda n: gpt(
        node("c-1", None, "user", "Q"),
        *(node(f"c{i}", f"c{i - 1}", "assistant", code("{}"), recipient=f"f{i}") for i in range(n)),
        *(node(f"r{i}", f"r{i - 1}" if i else f"c{n - 1}", "tool", "x", name="z") for i in range(n)),
    ),
    "a ring of ChatGPT": lambda n: gpt(*(node(f"r{i}", f"r{(i + 1) % n}", "user", "x") for i in range(n))),
    "files of ChatGPT": lambda n: gpt(
        node("q", None, "user", "Q", metadata={"attachments": [{"id": f"f{i}", "name": "a"} for i in range(n)]})
    ),
    "calls and results of Claude": lambda n: claude(said("a", "assistant", *USES * n, *RESULTS * n)),
    "one id of Claude": lambda n: claude(*(said("a", "human", block("x")) for _ in range(n))),
    "files of Claude": lambda n: claude(
        said("a", "human", files=[{"file_name": f"{i}"} for i in range(n)], files_v2=[{"file_name": "b"}] * n)
    ),
    "errors of Open WebUI": lambda n: webui(
        *(row(f"e{i}", f"e{i - 1}" if i else None, "assistant", "", error="x") for i in range(n)),
        *(row(f"k{i}", f"e{n - 1}", "user", "x") for i in range(n)),
    ),
    "a branch of Open WebUI twice": lambda n: webui(
        *(rows := [row(f"k{i}", f"k{i - 1}" if i else None, "user", "x") for i in range(n)]), messages=rows
    ),
    "calls of LibreChat": lambda n: libre(
        bubble("a", None, False, content=[{"type": "tool_call", "tool_call": {"name": "f", "output": "x"}}] * n)
    ),
    "titles of Claude Code": lambda n: lines(
        wrote("u", ""), *({"type": "summary", "summary": "a", "leafUuid": f"x{i}"} for i in range(16 * n))
    ),
    "calls and results of Claude Code": lambda n: lines(
        *(wrote(f"u{i}", f"u{i - 1}", *USES) for i in range(n)), *(wrote(f"r{i}", f"u{i}", *RESULTS) for i in range(n))
    ),
    "turns of Codex that are rolled back": lambda n: lines(
        *[{"payload": {"type": "message", "role": "user", "content": "x"}, "type": "response_item"}] * n,
        *[{"payload": {"type": kind}, "type": "event_msg"} for kind in ("user_message", "thread_rolled_back")] * n,
    ),
    "a chain": lambda n: plain(n, lambda i: str(i - 1) if i else None),
    "a fan": lambda n: plain(n, lambda i: "0" if i else None),
    "a ring": lambda n: plain(n, lambda i: str((i + 1) % n)),
    "keys that nobody knows": lambda n: {
        "messages": [{"role": "user", "content": "x", **{f"k{i}": "x" for i in range(n)}}]
    },
}  # fmt: skip


def read(document: Any) -> Any:
    found = formats.recognized(document, histories.READERS)
    # What is stored of a call is another room's.
    is_flat = not any(message.get("tool_calls") for message in found["messages"])
    return importing.checked(formats.conversation_of(found, max_bytes=10**6), 10**6) if is_flat else found


def used(run: Callable[[], Any]) -> tuple[float, int]:
    """Seconds, the better of two, and bytes at the peak."""
    seconds = []
    for _ in range(2):
        begun = time.process_time()
        run()
        seconds.append(time.process_time() - begun)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak


def assert_grows_like(make: Callable[[int], Any], run: Callable[[Any], Any], few: int = FEW) -> None:
    (before, small), (after, large) = (used(partial(run, make(n))) for n in (few, 4 * few))
    assert large < MOST_MEMORY * small
    assert after < max(FLOOR, MOST_TIME * before)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", some(DOCUMENTS, "a fan", "files of ChatGPT", "titles of Claude Code", "keys that nobody knows")
)
def test_four_times_the_messages_take_about_four_times_as_much(kind: str) -> None:
    assert_grows_like(DOCUMENTS[kind], read)


@pytest.mark.long
def test_an_export_grows_like_its_conversation() -> None:
    assert_grows_like(agent, histories.WRITERS["chatgpt"])


@pytest.mark.long
@pytest.mark.parametrize(
    "unit", some(["[[[[]]]],", "{},", '"ab",', '{"a":1},', "[", '"[",', '\\"', "\\\\"], "[", '{"a":1},', '\\"')
)
def test_a_file_grows_like_its_bytes(unit: str) -> None:
    def make(n: int) -> bytes:
        inner = f'"{unit * n}"' if unit.startswith("\\") else f"[{unit * n}0]"
        return f'[{{"messages": [], "x": {inner}}}, {{"b": 1}}]'.encode()

    assert_grows_like(make, lambda data: list(files.documents_in(io.BytesIO(data))), 4 * FEW)


def test_a_text_that_the_file_has_once_is_stored_once() -> None:
    texts = [f"thought {n}" for n in range(20)]
    nodes = [
        node(
            f"t{n}",
            f"t{n - 1}" if n else "q",
            "assistant",
            {"content_type": "thoughts", "thoughts": [{"content": text}]},
        )
        for n, text in enumerate(texts)
    ]
    found = read(gpt(QUESTION, *nodes, *fan(20, "t19", "assistant", "A")))
    reasoning = [message.fields["reasoning"] for message in found.messages if message.fields.get("reasoning")]
    assert reasoning == ["\n\n".join(texts)]
