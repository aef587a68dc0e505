"""Time and memory of every function that reads what others wrote grow like what it reads.

People, models, tools and providers write it, so each text is tried on long runs of every class of character, and each
list of messages with many of one kind: in a chain, beside one another, in one message, inside one another. What
starts again everywhere takes sixteen times as much for four times the input; what is linear takes four times.

:data:`READERS`, :data:`OF_MESSAGES`, :data:`OF_TREES` and the files of ``transfer/test_growth_of_imports.py`` are all.
A new one has to be reached by one of these, or to be named as one that reads something else.
"""

from __future__ import annotations

import ast
import gc
import io
import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.db import transaction

import compaction_app
from compaction_app import chat, plain, redaction
from compaction_app.admin import display, summaries
from compaction_app.compaction import search_words
from compaction_app.context import catalog, overflow, pruning
from compaction_app.contrib import histories
from compaction_app.contrib.gateway import asked, chat_completions, commands, identity, responses, views
from compaction_app.contrib.histories import chatgpt, files, open_webui
from compaction_app.contrib.stream import parts
from compaction_app.conversation import chat_model, text_search, titles, usage
from compaction_app.exceptions import CompactionError, ContextOverflow, InvalidMessage
from compaction_app.memory import (
    extractive,
    quoting,
    relating,
    score,
    sentences,
    statements,
    symbols,
    word_tables,
    words,
    working,
    writing,
)
from compaction_app.messages import (
    media,
    openai_format,
    originals,
    secrets,
    tool_calls,
    transcript,
    truncate,
    validation,
)
from compaction_app.messages.open_calls import NONE_OPEN, open_calls_after, open_calls_at_end
from compaction_app.models import ChatMessage
from compaction_app.models.columns import checks_of
from compaction_app.summarizers import drafts, error_details, prompts
from compaction_app.transfer import formats, importing
from compaction_app.tree.verify import verify_session
from compaction_app.values import LEDGER_HEADING, Message, Role, SummaryDraft, SummaryRequest
from tests.some import some
from tests.transfer import test_growth_of_imports

PACKAGE = Path(compaction_app.__file__).parent

#: Of a text. A shorter one is a quarter of it.
LONG = 6_000
#: Four times the input takes four times the time; what starts again everywhere takes sixteen.
MOST_GROWTH = 6.0

_ALONE = " \u00a0\n\t\r\x0b\u2028\u200b7ac\u00e9A_\u4e2d\u0e01\u0301\U0001f600'\"`<>#|-*[]{}(),.:;/\\=&@!?$~^+%·"
_MIXED = """a_|1,|1.|<_|"N|A.|a-|a/|a:|a@|>_|-_|1._|#_|```_|`a|
'a_|(a|N_|_N|RN|aN|aNN|</|<a_|<user_|</user|<cutoff_|{}|[]|{"a":
key-|-----BEGIN PRIVATE KEY-----|eyJaaaaaaaaaa.|password is_|TOKEN_|--a-|://a|sk-|secret="|user_|user a_|(user:_|no_
never_|not 1_|·_|[quoted]_|error_|a error:_|exit code_|x:_|today_|last_|2024-01-01_|On a_|10 maximum_|> 1|limit of_|##_
-----BEGIN RSA PRIVATE KEY-----Zm9vYmFyMTIz|-eyJ|eyJaaaaaaaaa.eyJaaaaaaaaa|glpat-a1.|://a:|password='|token: "a
Bearer a.|A_|--password_|--a-a-a-|-u a:|set-cookie: a=|sess|secret: "a_|PASSWORD='a_|API_KEY_|<think>|</think>
sorry_|I can't_|<details type="reasoning">|【†|<answer>|```N|Kept word for word|## Kept word for wordN"""
_MIXED_UNITS = [
    unit.replace("_", " ").replace("N", "\n").replace("R", "\r") for unit in re.split(r"[|\n]", _MIXED) if unit
]


def _count(texts: Any) -> list[int]:
    return [len(text) // 4 for text in texts]


def _message(text: str, role: str = Role.USER, **fields: Any) -> Message:
    return Message(id=1, depth=1, role=role, tokens=1, content=text, **fields)


def _call(arguments: Any) -> dict[str, Any]:
    return {"id": "c", "function": {"name": "shell", "arguments": arguments}}


def _worked(text: str) -> None:
    memory = working.WorkingMemory.of(text)
    call = {"id": "c", "function": {"name": "look", "arguments": text}}
    reply = replace(_message(text, Role.ASSISTANT), tool_calls=(call,))
    memory.read([_message(text), reply, replace(_message(text, Role.TOOL), tool_call_id="c"), _message(text)])
    memory.text(2_000, _count)


def _summarized(text: str, role: str = Role.USER) -> str:
    messages = [_message("What is it?"), _message(text, role)]
    return extractive.Material.of(*extractive.read_earlier("", is_extract=False), messages).extract(200, _count)


def _without_compactions(text: str) -> None:
    items = [{"type": "compaction", "content": text[start : start + 9]} for start in range(0, len(text), 9)]
    assert originals.without_compactions(items, []) == []
    originals.text_without(text, items)
    originals.text_without(text, items[:1])


def _refused(text: str) -> None:
    covered = (_message("What is it?"), _message(text))
    request = SummaryRequest(
        system="", user=text, target_tokens=len(text), max_output_tokens=len(text), nonce="0a" * 8, covered=covered
    )
    drafts.refuse_draft(SummaryDraft(text=f"## Plan\n{text}"), request, len(text), _count)
    drafts.tells_no_fact(text, text)
    drafts.repeats_instructions(text, text)
    drafts.repeats_itself(text)


def _read_summary(text: str) -> list[Any]:
    return [extractive.read_earlier(text, is_extract=is_extract) for is_extract in (False, True)]


def _drafted(text: str) -> None:
    for written in (text, f"{LEDGER_HEADING}{text[1:]}"):
        drafts.prose_draft(SummaryDraft(text=written))


def _written(text: str) -> None:
    # One may be refused, for the heading of a ledger.
    with suppress(InvalidMessage):
        drafts.written_summary(f"A {text}", len(text) + 1_000, _count, f"Said: {text}")


def _rendered(text: str) -> list[str]:
    file = {"type": "file", "name": text}
    asked = _message(text, Role.ASSISTANT, name=text, attachments=(file,), reasoning=text, tool_calls=(_call(text),))
    return transcript.render_messages([asked, _message(text, Role.TOOL, tool_call_id="c")])


def _marked(text: str) -> list[str]:
    arguments = {"command": text, "path": text, "patch": text}
    calls = [{"function": {"name": name, "arguments": arguments}} for name in ("shell", "apply_patch", "lint", text)]
    return [tool_calls.tool_marker(call, text) for call in (*calls, _call(json.dumps(arguments)))]


def _imported(text: str) -> None:
    block = {"type": "text", "text": text}
    asked = {"type": "user", "uuid": text, "sessionId": text, "message": {"content": [block, text]}}
    rollout = {"type": "response_item", "payload": {"type": "message", "content": [block]}}
    lines = [f"{json.dumps(one)}\n{json.dumps(one)}\n{text}" for one in (asked, rollout)]
    deepseek = {"mapping": {text: {"message": {"fragments": [{"type": text, "content": text, "results": [text]}]}}}}
    whole = [json.dumps(one) for one in ([{"role": "user", "content": text}], deepseek)]
    for data in (text, *whole, *lines, f"[{text}", f'{{"messages": [{text}', f'{{"data": [{text}'):
        try:
            list(importing.read(files.documents_in(io.BytesIO(data.encode())), histories.READERS))
        except CompactionError:
            continue


def _read(text: str) -> Any:
    picture = {"type": "image_url", "image_url": {"url": f"data:{text}"}}
    call = {"id": text, "function": {"name": text, "arguments": text}}
    for content in (text, [text, picture, {"type": text, "text": text}, {"type": "thinking", "thinking": text}]):
        reading = originals.read_message({"role": "assistant", "content": content, "tool_calls": [call]})
        list(originals.original_texts({"format": "openai", "data": {"content": content, text: text}}))
    return reading.text(), openai_format.sent_arguments(text)


def _find_overflow(text: str) -> Any:
    for body in (text, {"error": {"message": text, "code": text}}, [{"error": text}]):
        overflow.find_output_limit(400, body, 9_000)
        overflow.find_overflow(400, body)
        overflow.find_overflow(429, body)


#: Every one that reads what others wrote, by the module that it is in.
READERS: dict[Any, list[Callable[[str], Any]]] = {
    # What follows is bounded by its work.
    summaries: [lambda text: summaries.difference(text, text[1:])],
    display: [
        lambda text: (display.line(text, 80), display.text_block(text), display.code_block(text)),
        lambda text: (display.json_block({text: [text]}), display.figures({text: text}), display.joined([text])),
        lambda text: (display.call_line(_call(text)), display.link(text, text), display.badge(text, text)),
        lambda text: display.labelled(text, text),
    ],
    catalog: [catalog.known_window.__wrapped__, catalog.readings.__wrapped__],
    overflow: [_find_overflow],
    chat_model: [chat_model._NO_END.search],
    media: [media.media_type, lambda text: media.picture_size(f"data:image/png;base64,{text}")],
    originals: [_read, _without_compactions],
    pruning: [pruning.collapse_blanks],
    search_words: [lambda text: list(search_words.words_in(text)), search_words.distinct_words],
    text_search: [text_search.folded, lambda text: list(text_search.texts_in(text))],
    titles: [lambda text: titles._begins(text, titles._uncut(text))],
    usage: [lambda text: usage._without_text({"type": text, text: 1})],
    openai_format: [openai_format.sent_name, lambda text: openai_format.attachment_line({"name": text, "url": text})],
    secrets: [secrets.redact_secrets],
    tool_calls: [_marked, tool_calls.outcome_of, lambda text: tool_calls.outcome_of(text, f"sh -{text[1:]}")],
    transcript: [
        transcript.neutralize_tags,
        transcript.summary_message,
        transcript.carried_message,
        lambda text: transcript.leaks_wrapper(text, "0a" * 8),
        _rendered,
        transcript.cut_leaks,
        transcript.without_code,
    ],
    truncate: [lambda text: truncate.shorten(text, 2_000), lambda text: truncate.one_line(text, 300)],
    validation: [validation.visible, validation.make_storable],
    extractive: [_summarized, _read_summary, lambda text: _summarized(text, Role.TOOL)],
    symbols: [
        symbols.symbols_in,
        symbols.is_bare,
        lambda text: [*symbols.parts_of(text[:120])],
        lambda text: symbols.parts_in([text]),
        lambda text: [*symbols.leaves({"path": text})],
    ],
    working: [_worked],
    quoting: [lambda text: list(quoting.split_quoted(text)), quoting.harmless],
    relating: [lambda text: relating.relate([statements.Statement("", _SPEAKER, text, words.read_words(text))])],
    score: [lambda text: score.Told([text])],
    sentences: [lambda text: list(sentences.split_sentences(text))],
    statements: [statements.demand_of, lambda text: statements.Statement.read("", _SPEAKER, text).is_firm],
    words: [words.read_words, words.content_stems, words.is_unspaced],
    writing: [writing.read_back, lambda text: [*writing.told_in(text)], writing.work_of],
    error_details: [lambda text: error_details.safe_message(text, text), error_details.safe_code],
    drafts: [
        _drafted,
        drafts.is_error_text,
        lambda text: drafts.tells_nothing(text[:1_500], text),
        _refused,
        lambda text: drafts.mended(SummaryDraft(text=text), len(text)),
        _written,
    ],
    prompts: [prompts._escape],
    asked: [asked._is_address, lambda text: asked._is_address(f"data:{text}")],
    identity: [identity._shown, identity._value, lambda text: identity.likeness(_said(text), _said(f"x{text}y"))],
    views: [views.TASKS.match],
    files: [_imported],
    formats: [formats.is_uuid],
    chatgpt: [chatgpt._CITED.search],
    open_webui: [lambda text: list(open_webui._of_content("a", text))],
}


def _said(text: str) -> identity.Said:
    return identity.Said({"role": "assistant", "content": text})


_SPEAKER = statements.Speaker("user")

#: Of those whose patterns do next to nothing at each place: to start again everywhere shows in longer texts only.
LONGER = {secrets: 20 * LONG}

#: Modules with patterns that only read what the host, its code or a browser's form wrote, and one whose tables others
#: use.
OWN = {
    "api/mounting.py": "paths of this app's own operations",
    "compaction/trigger.py": "a policy's reason, bounded by its pattern",
    "conf.py": "settings",
    "memory/reading.py": "read by extractive",
    "memory/word_tables.py": "read by extractive and statements",
    "telemetry.py": "one value of a log line, a class of characters",
    "summarizers/openai.py": "the name of a host's model, and a provider's complaint of 2,000 characters",
    "spending.py": "the limits of a host's settings",
    "testing/steps.py": "tests",
}


#: Letters that unfold to many, and accents that are sorted behind a letter.
UNFOLDING = ("\ufdfa", "\ufb03", "\u0130", "\u0301\u0316", "\uff9e\u0316")
UNITS = (*_ALONE, *_MIXED_UNITS, "<|channel|>x", "</s>", "<user>x</user>\n", *UNFOLDING)
#: What the short run repeats: what patterns most often repeat, and a few of the others.
SAMPLE = (*" \na7+", "</s>", "\ufdfa", "\u0301\u0316", *UNITS[3::32])


def _texts(size: int, units: Sequence[str]) -> Iterator[str]:
    for unit in units:
        run = unit * (size // len(unit))
        # Behind what begins a pattern, before what does not end it, and where a line begins.
        yield from (f"<{run}x", f'a{run}\n"', f"a\n{run}x")


@pytest.fixture(autouse=True)
def _without_collecting() -> Iterator[None]:
    """Garbage is collected at times of its own, which are no part of a text's."""
    gc.disable()
    yield
    gc.enable()


def _seconds(read: Callable[[Any], Any], text: Any, times: int = 1) -> float:
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        read(text)
        best = min(best, time.process_time() - begun)
    return best


def _peak(read: Callable[[Any], Any], text: Any) -> int:
    """The most bytes that are held at once."""
    tracemalloc.start()
    try:
        read(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


#: Seconds of the processor, so that other work beside it counts for nothing: what takes no more is not measured again.
#: Half of what a pattern that starts again everywhere takes here: with a fixed time it would pass on a fast machine.
FLOOR = _seconds(re.compile(r"\w+:").search, "a" * LONG, 3) / 2
#: Bytes: what holds no more is not compared.
LEAST_BYTES = 2**19


def _growth(read: Callable[[Any], Any], short: Any, long: Any) -> str:
    """What grows more than the input; "" where nothing does. Other work on the machine only makes a run longer."""
    if _seconds(read, long) > FLOOR:
        for times in (2, 5, 10):
            seconds, before = _seconds(read, long, times), _seconds(read, short, times)
            if seconds <= FLOOR or seconds <= MOST_GROWTH * before:
                break
        else:
            return f"{before:.3f} s, then {seconds:.3f} s"
    return ""


def _held(read: Callable[[Any], Any], short: Any, long: Any) -> str:
    # What is made once, such as a table, is made before.
    read(short)
    held = _peak(read, long)
    before = _peak(read, short) if held > LEAST_BYTES else held
    return f"{before:,} bytes, then {held:,} bytes" if held > MOST_GROWTH * before else ""


def _found(
    readers: Sequence[Callable[[str], Any]], units: Sequence[str], size: int = LONG, grows: Any = _growth
) -> Iterator[tuple[Any, ...]]:
    """Number of the reader, start of the text, and what a quarter of it and all of it take."""
    for number, read in enumerate(readers):
        for short, long in zip(_texts(size // 4, units), _texts(size, units), strict=True):
            if found := grows(read, short, long):
                yield number, long[:30], found


@pytest.mark.few
@pytest.mark.parametrize("units", [SAMPLE, pytest.param(UNITS, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("module", READERS, ids=lambda module: module.__name__.removeprefix("compaction_app."))
def test_four_times_the_text_takes_about_four_times_as_long(module: Any, units: Sequence[str]) -> None:
    assert [*_found(READERS[module], units, LONGER.get(module, LONG))] == []


@pytest.mark.long
@pytest.mark.parametrize("units", [["\ufdfa"], UNITS[::5]], ids=["one", "many"])
@pytest.mark.parametrize("module", READERS, ids=lambda module: module.__name__.removeprefix("compaction_app."))
def test_four_times_the_text_takes_about_four_times_the_memory(module: Any, units: Sequence[str]) -> None:
    assert [*_found(READERS[module], units, LONG, _held)] == []


@pytest.mark.parametrize(("pattern", "unit"), [pytest.param(r"\s+$", " ", marks=pytest.mark.long), (r"\w+:", "a")])
def test_a_pattern_that_starts_again_everywhere_is_found(pattern: str, unit: str) -> None:
    assert unit in SAMPLE
    assert any(_found([re.compile(pattern).search], [unit]))


def test_what_holds_a_pair_of_each_is_found() -> None:
    assert any(_found([lambda text: [list(text) for _ in text]], ["a"], 1_600, grows=_held))


def _streamed(deltas: list[dict[str, Any]]) -> None:
    draft = chat_model.PartialReply()
    for delta in deltas:
        draft._add_delta(delta)
    draft.reply()


_CUT = {"index": 0, "id": "c1", "function": {"arguments": "}"}}


def _in_turn(number: int) -> None:
    """Two branches below one message, each asked after the other, as ``verify`` reads them by their ids."""
    ends = [open_calls_after(NONE_OPEN, _calling(*range(number)))] * 2
    for n in range(number):
        ends = [open_calls_after(end, _result(at)) for end, at in zip(ends, (n, number - 1 - n), strict=True)]


#: What a history or a reply may have thousands of, whole and streamed.
MANY: dict[str, Callable[[int], Any]] = {
    "items": lambda n: originals.items_joined([{"role": "user"}] * (20 * n)),
    "streamed calls": lambda n: _streamed([{"tool_calls": [{**_CUT, "id": f"c{i}", "index": i}]} for i in range(n)]),
    "pieces of one call": lambda n: _streamed([{"tool_calls": [_CUT]}] * n),
    "results without a call": lambda n: originals.become_text(SimpleNamespace(**_PLACELESS, content="Done.\n" * n)),
    "other keys": lambda n: originals.with_known_keys({"role": "user", "metadata": {}, **_keys(n)}, ("role",)),
    "open calls": lambda n: open_calls_at_end([*_values([_calling(number) for number in range(n)])]),
    "results of one message": lambda n: json.dumps(originals.messages_of(_results_of_one(n), "host")),
    "results on two branches": _in_turn,
}


_PLACELESS: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "name": "look", "original": None}


def _keys(number: int) -> dict[str, Any]:
    return {f"x-{n}": n for n in range(number)}


def _results_of_one(number: int) -> dict[str, Any]:
    parts = [{"part_kind": "tool-return", "tool_call_id": f"c{i}", "content": "Done."} for i in range(number)]
    return {"kind": "request", "parts": parts, "instructions": "Be kind. " * number}


@pytest.mark.long
@pytest.mark.parametrize("kind", MANY)
def test_four_times_the_pieces_take_about_four_times_as_much(kind: str) -> None:
    assert (_growth(MANY[kind], 750, 3_000), _held(MANY[kind], 750, 3_000)) == ("", "")


def _calling(*numbers: int, **more: Any) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": '{"at": "pier"}'} | more}
        for n in numbers
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": f"Pier {number} was built in Bergen in 1904."}


def _searched(number: int) -> dict[str, Any]:
    """Quotes the first search, as it was found."""
    found = f"<recalled message={min(number, 1) * 3} role=tool>\nQuay {number}\n</recalled>"
    return {**_result(number), "content": found if number else f"{found} Pier"}


_ASKED = {"role": "user", "content": "Look."}
#: Conversations with many of one kind.
SHAPES: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "a chain of replies": lambda n: [
        _ASKED,
        *[{"role": "assistant", "content": f"Step {i} of the pier."} for i in range(n)],
    ],
    "turns": lambda n: [
        {"role": r, "content": f"Never use port {i} at a pier."} for i in range(n) for r in ("user", "assistant")
    ],
    "calls of one message": lambda n: [_ASKED, _calling(*range(n)), *map(_result, reversed(range(n))), _ASKED],
    "open calls": lambda n: [_ASKED, _calling(*range(n)), _ASKED],
    "a chain of calls": lambda n: [_ASKED, *map(_calling, range(n)), *map(_result, range(n)), _ASKED],
    "a chain of calls of one id": lambda n: [_ASKED, *[_calling(0)] * n, *[_result(0)] * n, _ASKED],
    "a tool loop": lambda n: [_ASKED, *[one for i in range(n) for one in (_calling(i), _result(i))]],
    "searches": lambda n: [_ASKED, *[one for i in range(n) for one in (_calling(i), _searched(i))]],
    "parts": lambda n: [{"role": "user", "content": [{"type": "text", "text": f"Pier {i}."} for i in range(n)]}],
    "pictures": lambda n: [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"https://x.example/{i}.png"}}]}
        for i in range(n)
    ],
    "attachments": lambda n: [{**_ASKED, "attachments": [{"type": "file", "name": f"a{i}"} for i in range(n)]}],
    "reasoning": lambda n: [
        _ASKED,
        {
            "role": "assistant",
            "content": "Yes.",
            "reasoning": [{"type": "text", "text": f"Pier {i}."} for i in range(n)],
        },
    ],
    "arguments": lambda n: [
        _ASKED,
        _calling(0, arguments=json.dumps({f"pier {i}": [i] for i in range(n)})),
        _result(0),
    ],
    "nested arguments": lambda n: [_ASKED, _calling(0, arguments='{"a":' * n + "1" + "}" * n), _result(0)],
    "metadata": lambda n: [{**_ASKED, "metadata": {f"k{i}": [i] for i in range(n)}}],
}
#: So small that the shorter list is compacted as well: else the longer one does what the shorter one does not.
_PLAIN = {"TOKEN_COUNTER": "compaction_app.tokens.CharacterTokenCounter", "CONTEXT_WINDOW": 400}


def _values(given: Sequence[dict[str, Any]]) -> list[Message]:
    read = [one for message in given for one in originals.messages_of(message, "host")]
    names = ("content", "tool_call_id", "reasoning", "original")
    return [
        Message(
            id=depth,
            depth=depth,
            role=one["role"],
            tokens=8,
            tool_calls=tuple(one.get("tool_calls") or ()),
            attachments=tuple(one.get("attachments") or ()),
            **{name: one[name] for name in names if name in one},
        )
        for depth, one in enumerate(read, start=1)
    ]


def _compacted(given: Sequence[dict[str, Any]]) -> None:
    # What cannot fit is refused, after it was read.
    with suppress(ContextOverflow):
        plain.check_and_compact(given, _PLAIN, lambda request: extractive.extractive_draft(request, _count))


def _validated(given: Sequence[dict[str, Any]]) -> None:
    for message in given:
        for one in originals.messages_of(message, "client"):
            validation.validate_message(one, checks_of(ChatMessage), max_bytes=2**40)
        originals.fields_of(message, source={"endpoint": "", "model": ""})


def _verified(given: Sequence[dict[str, Any]]) -> None:
    """As the tree reads the calls that wait, where every message has two below it."""
    at = NONE_OPEN
    for message in given:
        with suppress(InvalidMessage):
            open_calls_after(at, message)
            at = open_calls_after(at, message)


def _known_again(given: Sequence[dict[str, Any]]) -> None:
    """As a client's list is read at the gateway."""
    for one in map(identity.Said, asked.read_messages(given)):
        identity.is_same_reply(one, one, is_stopped=True)
        assert one.own_digest(1)
        assert one.weight >= 0
        assert one.digest("")
    body = {"model": "m", "messages": given, "stop": [str(one["content"]) for one in given]}
    asked.read_params(chat_completions.ChatCompletions(body), ["stop"], ())
    commands.without_commands(asked.read_messages(given))
    items = [{"type": "function_call_output", "call_id": "c", "output": "7"}, *_items(given), *_items(given)]
    # A list twice as long as one that the gateway takes would be cut, and compared with less.
    with patch.object(asked, "MAX_MESSAGES", len(items)):
        responses.Responses({"model": "m", "input": items}).messages(lambda ids: {})


def _items(given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a client of the Responses API has them."""
    written = [{key: one.get(key) for key in ("role", "content")} for one in given if one["role"] != "tool"]
    calls = [call for one in given for call in one.get("tool_calls") or ()]
    return written + [{"type": "function_call", "call_id": one["id"], **one["function"]} for one in calls]


def _of_agents(given: Sequence[dict[str, Any]]) -> None:
    """As the lines of a session, ten of which are one reply."""
    blocks = [{"type": "text", "text": one["content"]} for one in given]
    claude: list[Any] = [
        {
            "type": "assistant",
            "uuid": str(n),
            "parentUuid": str(n - 1),
            "message": {"id": str(n // 10), "content": [one]},
        }
        for n, one in enumerate(blocks)
    ]
    codex = [{"type": "response_item", "payload": {"type": "message", "content": [one]}} for one in blocks]
    for rows in (claude, codex):
        lines = files.LinesOfSession(heads=rows[:2], lines=[(n, 0, row) for n, row in enumerate(rows)])
        list(importing.read([("", lines)], histories.READERS))


def _parts(message: Any) -> list[Any]:
    """As a page is shown a reply that a provider streams."""
    delta = SimpleNamespace(content=message.content, reasoning=message.reasoning)
    chunks = [SimpleNamespace(choices=[SimpleNamespace(delta=delta)])] * 2
    return [*parts.parts_of_chunks(chunks, 1), *parts.parts_of_reply(message)]


#: Every one that reads a list of messages.
OF_MESSAGES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "check_and_compact": _compacted,
    "estimate_tokens": lambda given: plain.estimate_tokens(given, count=_count),
    "apply_tool_result_budget": lambda given: plain.apply_tool_result_budget(given, 100),
    "validated": _validated,
    "known again": _known_again,
    "lines of agents": _of_agents,
    "shown in parts": lambda given: [*map(_parts, _values(given))],
    "to_openai": lambda given: openai_format.to_openai(_values(given)),
    "to_openai, alternating": lambda given: openai_format.to_openai(_values(given), alternate=True),
    "rendered": lambda given: transcript.render_messages(_values(given)),
    "redacted": lambda given: [redaction.apply_redactor(one, redaction.redact_secrets) for one in _values(given)],
    "open_calls_after": _verified,
}


@pytest.mark.parametrize("size", [60, pytest.param(1_000, marks=pytest.mark.long)], ids=["short", "long"])
@pytest.mark.parametrize("shape", some(SHAPES, "a tool loop", "turns"))
def test_four_times_as_many_of_a_kind_take_about_four_times_as_much(shape: str, size: int) -> None:
    short, long = SHAPES[shape](size), SHAPES[shape](4 * size)
    measured = [_growth, _held] if size >= 1_000 else [_growth]
    found = {name: [grows(read, short, long) for grows in measured] for name, read in OF_MESSAGES.items()}
    assert {name: grown for name, grown in found.items() if any(grown)} == {}


def _redacted(tip: Any) -> None:
    """What most messages of a shape, or all calls of one, have."""
    with transaction.atomic():
        chat.redact_text(tip.session, "pier")
        # The next one finds it again.
        transaction.set_rollback(True)


#: Every one that reads a stored branch, by its tip.
OF_TREES: dict[str, Callable[[Any], Any]] = {
    "append_message": lambda tip: chat.append_message(tip.session, tip, role="user", content="And now?"),
    "get_context": lambda tip: chat.get_context(tip).to_openai(),
    "recall": lambda tip: chat.recall(tip, "pier"),
    "redact_text, dry run": lambda tip: chat.redact_text(tip.session, "not in any text", dry_run=True),
    "redact_text": _redacted,
    "verify_session": lambda tip: verify_session(tip.session),
    "document_of": lambda tip: json.dumps(histories.document_of(tip.session), default=str),
    "copy_branch": chat.copy_branch,
    "get_branch": chat.get_branch,
    "repository": lambda tip: json.dumps(parts.repository(tip.session, {}), default=str),
}


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.parametrize("shape", [*SHAPES, "results beside one another"])
def test_a_tree_with_four_times_as_many_takes_about_four_times_as_much(shape: str) -> None:
    tips = []
    for size in (400, 1_600):
        session = chat.start_session(model="m", settings={"CONTEXT_WINDOW": 10**6})
        if shape in SHAPES:
            tips.append(chat.append_messages(session, None, SHAPES[shape](size))[-1])
            continue
        called = chat.append_messages(session, None, [_ASKED, _calling(*range(size))])[-1]
        tips.append([chat.append_messages(session, called, [_result(number)])[0] for number in range(size)][-1])
    found = {name: (_growth(read, *tips), _held(read, *tips)) for name, read in OF_TREES.items()}
    assert {name: grown for name, grown in found.items() if any(grown)} == {}


def test_no_module_with_a_pattern_is_left_out() -> None:
    with_pattern = (path for path in PACKAGE.rglob("*.py") if re.search("^import re$", path.read_text(), re.MULTILINE))
    found = {str(path.relative_to(PACKAGE)) for path in with_pattern}
    read = {str(Path(module.__file__).relative_to(PACKAGE)) for module in READERS}
    # No name may stay here whose module is gone or has become a reader.
    assert found - read == OWN.keys()


#: Where functions read what others wrote; and those of them that read something else, or less than a door above them.
ROOMS = """messages memory redaction.py tokens.py plain.py compaction/search_words.py summarizers/drafts.py context
 conversation transfer api contrib admin/display.py""".split()
NOT_FROM_OUTSIDE = set(
    # What this app, its host and an operator write: names, settings, keys, addresses, a moment.
    """register_tool_marker compiled marker address_of observe_calibration known_price overflow_of_usage
    endpoint_of_request remember forget tool_schema index_of
    safe_name private database_alias succeeded_runs as_json is_allowed owner_or_staff whole page
    parse_cursor value_of column bar number percent record_double_configured endpoint_of_client require_client
    redact_parameters check_key model_name
    """
    # A type alone, or once through, without a pattern that repeats.
    """wrong_draft with_address json_type as_id report_of problem_of event response redacted with_user """
    # Read by what is here: the extract, its score, what decides on a history that was read.
    """complete share_kept should_compact measure state_at resolve_request_at is_over_threshold pruned_history_tokens
    excerpt_of redact_branch reasoning_sizes overflow_of_error overflow_of_report error_text
    """
    # A row, by its key: queries, whose number and rows other tests assert.
    """require_tip request_compaction compact acompact open_now copies_of retire_summary live_built_on
    redact_message delete_message delete_owner ids_below pin_message unpin_message recall_text recall_message prefetched
    settle is_of_page asked_request correct_summary check_user hand_over ahand_over search continued_with carried_from
    sessions_with needs_summary carry_over acarry_over request_carry_over name_message messages_named chunks_of
    count_against_throttle
    """
    # They ask a model, or run in a framework, and read with what is here.
    """ask open_stream acomplete stream astream answer_recalls finish unknown items_of messages_of place store
    documents_of answer """.split()
)
_READ = re.compile(
    r"\b(str|Any|Json|Mapping|Sequence|Iterable|IO|Message|ContextMessage|ChatMessage|Branch|SummaryDraft)\b"
)


def _public_readers() -> Iterator[tuple[str, str]]:
    """File and name of each public function of these rooms whose first argument is a text or a structure."""
    for room in ROOMS:
        for path in [PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if (
                    isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not node.name.startswith("_")
                    and node.args.args
                ):
                    first = node.args.args[0].annotation
                    if first is not None and _READ.search(ast.unparse(first)):
                        yield str(path), node.name


@pytest.mark.django_db
def test_every_function_that_reads_what_others_wrote_is_reached() -> None:
    reached: set[tuple[str, str]] = set()
    # A word that another test read is not read again.
    for cached in (words.stem, word_tables.cues_of, symbols.parts_of):
        cached.cache_clear()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            reached.add((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        for read in (one for readers in READERS.values() for one in readers):
            read("user: a_b <c> 12")
        for make in MANY.values():
            make(2)
        for of_messages in OF_MESSAGES.values():
            for shape in SHAPES.values():
                of_messages(shape(2))
        for document in test_growth_of_imports.DOCUMENTS.values():
            test_growth_of_imports.read(document(2))
        for write in histories.WRITERS.values():
            write(test_growth_of_imports.agent(2))
        tip = chat.append_messages(chat.start_session(model="m"), None, SHAPES["a tool loop"](2))[-1]
        for of_trees in OF_TREES.values():
            of_trees(tip)
    finally:
        sys.setprofile(None)
    # A name that is reached now may not stay there.
    assert sorted({name for path, name in _public_readers() if (path, name) not in reached} ^ NOT_FROM_OUTSIDE) == []
