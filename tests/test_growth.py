"""The time of every function that reads a text grows like the text, whatever the text is made of.

People, models, tools and providers write these texts, so each of them is tried on long runs of every class of
character. A pattern that tries again at each place what another place has scanned takes sixteen times as long for four
times the text; what is linear takes four times.
"""

from __future__ import annotations

import gc
import io
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import compaction_app
from compaction_app.admin import display, summaries
from compaction_app.compaction import search_words
from compaction_app.context import catalog, overflow, pruning
from compaction_app.contrib import histories
from compaction_app.contrib.gateway import placing, views
from compaction_app.contrib.histories import chatgpt, files, open_webui
from compaction_app.conversation import chat_model, erase, usage
from compaction_app.exceptions import CompactionError
from compaction_app.memory import (
    dates,
    extractive,
    ledger_text,
    named_values,
    quoting,
    relating,
    score,
    sentences,
    statements,
    words,
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
from compaction_app.summarizers import drafts, error_details, prompts
from compaction_app.transfer import formats, importing
from compaction_app.values import ContextMessage, Message, Origin, Role, SummaryDraft

pytestmark = pytest.mark.pure

PACKAGE = Path(compaction_app.__file__).parent

#: Of a text. A shorter one is a quarter of it.
LONG = 6_000
#: Four times the text takes four times the time; a pattern that starts again everywhere takes sixteen.
MOST_GROWTH = 10.0

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


def _named(text: str) -> None:
    values = named_values.NamedValues(text)
    call = {"id": "c", "function": {"name": "look", "arguments": text}}
    values.read([replace(_message(text, Role.ASSISTANT), tool_calls=(call,)), _message(text, Role.TOOL)])
    values.text(2_000, _count)


def _summarized(text: str, role: str = Role.USER) -> str:
    messages = [_message("What is it?"), _message(text, role)]
    return extractive.Material.of(*extractive.read_earlier("", is_extract=False), messages).extract(200, _count)


def _read_summary(text: str) -> list[Any]:
    return [extractive.read_earlier(text, is_extract=is_extract) for is_extract in (False, True)]


def _drafted(text: str) -> None:
    for written in (text, f"{ledger_text.LEDGER_HEADING}{text[1:]}"):
        ledger_text.prose_draft(SummaryDraft(text=written))


def _rendered(text: str) -> list[str]:
    file = {"type": "file", "name": text}
    asked = _message(text, Role.ASSISTANT, name=text, attachments=(file,), reasoning=text, tool_calls=(_call(text),))
    return transcript.render_messages([asked, _message(text, Role.TOOL, tool_call_id="c")])


def _marked(text: str) -> list[str]:
    arguments = {"command": text, "path": text, "patch": text}
    calls = [{"function": {"name": name, "arguments": arguments}} for name in ("shell", "apply_patch", "lint", text)]
    return [tool_calls.tool_marker(call, text) for call in (*calls, _call(json.dumps(arguments)))]


def _imported(text: str) -> None:
    for data in (text, json.dumps([{"role": "user", "content": text}]), f"[{text}", f'{{"messages": [{text}'):
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
    display: [lambda text: (display.shortened(text), display.line(text, 80))],
    catalog: [catalog.known_window.__wrapped__, catalog.readings.__wrapped__],
    overflow: [_find_overflow],
    chat_model: [chat_model._NO_END.search],
    media: [media.media_type, lambda text: media.picture_size(f"data:image/png;base64,{text}")],
    originals: [_read],
    pruning: [pruning.collapse_blanks],
    search_words: [lambda text: list(search_words.words_in(text))],
    erase: [erase._folded, lambda text: erase.is_title_of(text, text)],
    usage: [lambda text: usage._without_text({"type": text, text: 1})],
    openai_format: [openai_format.sent_name, lambda text: openai_format.attachment_line({"name": text, "url": text})],
    secrets: [secrets.redact_secrets],
    tool_calls: [_marked, tool_calls.outcome_of, lambda text: tool_calls.outcome_of(text, f"sh -{text[1:]}")],
    transcript: [
        transcript.neutralize_tags,
        transcript.summary_message,
        lambda text: transcript.leaks_wrapper(text, "0a" * 8),
        _rendered,
        transcript.cut_leaks,
        transcript.without_code,
    ],
    truncate: [lambda text: truncate.shorten(text, 2_000), lambda text: truncate.one_line(text, 300)],
    validation: [validation.visible, validation.make_storable],
    dates: [lambda text: dates.resolve_dates(text, dates.date(2024, 1, 1))],
    extractive: [_summarized, _read_summary, lambda text: _summarized(text, Role.TOOL)],
    ledger_text: [_drafted],
    named_values: [_named, named_values.read_records],
    quoting: [lambda text: list(quoting.split_quoted(text)), quoting.harmless],
    relating: [lambda text: relating.relate([statements.Statement("", _SPEAKER, text, words.read_words(text))])],
    score: [lambda text: score.Told([text])],
    sentences: [lambda text: list(sentences.split_sentences(text))],
    statements: [statements.demand_of, lambda text: statements.Statement("", _SPEAKER, text, _WORDS).is_firm],
    words: [words.read_words],
    writing: [writing.read_back],
    error_details: [lambda text: error_details.safe_message(text, text), error_details.safe_code],
    drafts: [
        drafts.is_error_text,
        lambda text: drafts.tells_nothing(text[:1_500], text),
        lambda text: drafts.mended(SummaryDraft(text=text), len(text)),
    ],
    prompts: [prompts._escape],
    placing: [placing._shown],
    views: [views.TASKS.match],
    files: [_imported],
    formats: [formats.is_uuid],
    chatgpt: [chatgpt._CITED.search],
    open_webui: [lambda text: list(open_webui._of_content("a", text))],
}
_SPEAKER, _WORDS = statements.Speaker("user"), words.read_words("")

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
    "testing/builders.py": "tests",
}


UNITS = (*_ALONE, *_MIXED_UNITS, "<|channel|>x")
#: What the short run repeats: what patterns most often repeat, and every twentieth of the others.
SAMPLE = (*" \na7+", *UNITS[3::20])


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


#: Seconds of the processor, so that other work beside it counts for nothing: what takes no more is not measured again.
#: Half of what a pattern that starts again everywhere takes here: with a fixed time it would pass on a fast machine.
FLOOR = _seconds(re.compile(r"\w+:").search, "a" * LONG, 3) / 2


def _find_slow(
    readers: Sequence[Callable[[str], Any]], units: Sequence[str], size: int = LONG
) -> Iterator[tuple[Any, ...]]:
    """Number of the reader, start of the text, seconds for a quarter of it and for all of it."""
    for number, read in enumerate(readers):
        for short, long in zip(_texts(size // 4, units), _texts(size, units), strict=True):
            if _seconds(read, long) <= FLOOR:
                continue
            seconds, before = _seconds(read, long, 5), _seconds(read, short, 5)
            if seconds > FLOOR and seconds > MOST_GROWTH * before:
                yield number, long[:30], round(before, 3), round(seconds, 3)


@pytest.mark.parametrize("units", [SAMPLE, pytest.param(UNITS, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("module", READERS, ids=lambda module: module.__name__.removeprefix("compaction_app."))
def test_four_times_the_text_takes_about_four_times_as_long(module: Any, units: Sequence[str]) -> None:
    assert list(_find_slow(READERS[module], units, LONGER.get(module, LONG))) == []


@pytest.mark.parametrize(("pattern", "unit"), [(r"\s+$", " "), (r"\w+:", "a")])
def test_a_pattern_that_starts_again_everywhere_is_found(pattern: str, unit: str) -> None:
    assert unit in SAMPLE
    assert any(_find_slow([re.compile(pattern).search], [unit]))


def _answered(number: int) -> None:
    about: dict[str, Any] = {"origin": Origin.VERBATIM, "tokens": 1, "content": "-"}
    calls = tuple({**_call("{}"), "id": f"c{index}"} for index in range(number))
    results = [ContextMessage(role=Role.TOOL, tool_call_id=call["id"], **about) for call in calls]
    openai_format.to_openai([ContextMessage(role=Role.ASSISTANT, tool_calls=calls, **about), *results])


def _streamed(deltas: list[dict[str, Any]]) -> None:
    draft = chat_model.PartialReply()
    for delta in deltas:
        draft._add_delta(delta)
    draft.reply()


_CUT = {"index": 0, "id": "c1", "function": {"arguments": "}"}}
#: What a history or a reply may have thousands of, whole and streamed.
MANY: dict[str, Callable[[int], Any]] = {
    "items": lambda n: originals.items_joined([{"role": "user"}] * (20 * n)),
    "calls with results": _answered,
    "streamed calls": lambda n: _streamed([{"tool_calls": [{**_CUT, "id": f"c{i}", "index": i}]} for i in range(n)]),
    "pieces of one call": lambda n: _streamed([{"tool_calls": [_CUT]}] * n),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", MANY)
def test_four_times_the_pieces_take_about_four_times_as_long(kind: str) -> None:
    short, long = (_seconds(MANY[kind], n, 2) for n in (750, 3_000))
    assert long <= FLOOR or long < MOST_GROWTH * short


def test_no_module_with_a_pattern_is_left_out() -> None:
    with_pattern = (path for path in PACKAGE.rglob("*.py") if re.search("^import re$", path.read_text(), re.MULTILINE))
    found = {str(path.relative_to(PACKAGE)) for path in with_pattern}
    read = {str(Path(module.__file__).relative_to(PACKAGE)) for module in READERS}
    # No name may stay here whose module is gone or has become a reader.
    assert found - read == OWN.keys()
