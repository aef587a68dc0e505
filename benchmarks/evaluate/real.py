"""Conversations that really happened: an agent's runs with tools, and long chats of two friends.

The files are not part of this repository. ``agent_airline.json`` has runs of tau-bench's customer-service agent,
``friends_locomo.json`` conversations of LoCoMo with questions, answers and where they were said. The engine was tuned
on these. The other halves (``agent_airline_kept_back.json``, ``friends_locomo_kept_back.json``) are kept back; where
they are not here, ``kept_back.json`` has what was measured on them last.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.evaluate import baselines, product
from benchmarks.evaluate.cases import Case, Cell, Result, shared
from benchmarks.evaluate.conversations import Conversation, Turn
from benchmarks.evaluate.planted import HELD_OUT

WINDOWS = (3_500, 4_000, 5_000, 6_000)
FRIENDS_ROOM, FRIENDS_ROUNDS = 4_000, 5
FILES = {"agents": "agent_airline.json", "friends": "friends_locomo.json"}
LIST = "list of named values"
#: A value is at least as long, so that it is not in a text by chance.
_SHORTEST = 4
_LONGEST_STATEMENT = 60
#: Of the room of friends.
_SUMMARY = 0.925


KEPT_BACK = Path(__file__).with_name("kept_back.json")


@cache
def stored(what: str, set_: str) -> list[dict[str, Any]]:
    """Empty where the file is missing."""
    path = shared("real") / FILES[what].replace(".json", "_kept_back.json" if set_ == HELD_OUT else ".json")
    return json.loads(path.read_text()) if path.is_file() else []


def measured_last(what: str) -> Result:
    """What a table has of the conversations that are kept back and not here."""
    cells = [Cell(*cell) for cell in json.loads(KEPT_BACK.read_text()) if cell[0] == what]
    return Result(Case(what, product.EXTRACT, 0, 0, set=HELD_OUT), cells)


def keep_measured(results: Sequence[Result]) -> None:
    cells = [cell for one in results if one.case.what in FILES and one.case.set == HELD_OUT for cell in one.cells]
    totals: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        total = totals.setdefault((cell.table, cell.row, cell.column), [0, 0])
        total[0], total[1] = total[0] + cell.got, total[1] + cell.of
    KEPT_BACK.write_text(json.dumps([[*place, *total] for place, total in totals.items()], indent=1) + "\n")


# --- An agent's runs: does the context still have what the next call needs? ---


def agents(case: Case) -> Result:
    """Each time a tool is called, the call's values that were said before are looked for in what would be shown.

    Those in messages that are shown verbatim are easy, and not counted.
    """
    first, *rest = stored("agents", case.set)[case.place]["messages"]
    conversation = product.Chat(case.system, first["content"], CONTEXT_WINDOW=int(case.room))
    result, before, hard = Result(case), [], 0
    found: Counter[str] = Counter()
    for message in rest:
        summary, shown = conversation.shown() if before and message.get("tool_calls") else ("", [])
        if summary:
            told, in_view = product.written(before), product.written(shown)
            values = [value for value in _values_of(message) if value in told and value not in in_view]
            hard += len(values)
            covered = before[: len(before) - len(shown)]
            texts = {case.system: summary} | (_beside(covered, summary) if case.system == product.EXTRACT else {})
            for name, text in texts.items():
                found[name] += sum(value in text for value in values)
        conversation.append([message])
        before.append(message)
        conversation.end_turn()
    for name in found or [case.system]:
        result.add("agents", name, *case.columns, found[name], hard)
    return result


def _values_of(message: dict[str, Any]) -> list[str]:
    arguments = [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]]
    return [value for _, text in _leaves(arguments) if len(value := text.strip()) >= _SHORTEST]


def _beside(covered: Sequence[dict[str, Any]], summary: str) -> dict[str, str]:
    """What else would fit into as many tokens."""
    room = product.size_of(summary)
    turns = [Turn(one["role"], product.written([one])) for one in covered]
    return {LIST: _list_of_values(covered, room), "tail": "\n".join(baselines.tail(turns, room))}


_NAMED = re.compile(r"[\w.+-]+@[\w.]+|[A-Za-z_]*\d[\w-]*\w|\b[A-Z][A-Z0-9]{4,}\b|\b[a-z]+(?:_[a-z0-9]+)+\b")


def _list_of_values(messages: Sequence[dict[str, Any]], room: int) -> str:
    """The simplest memory of a run: what looks like an identifier, by the key that it stood under, the newest first."""
    names: dict[str, str] = {}
    for message in reversed(messages):
        texts = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        for text in [message.get("content") or "", *reversed(texts)]:
            for name, value in reversed(list(_read(text))):
                if _SHORTEST <= len(value) < 60 and _NAMED.fullmatch(value) and not names.get(value):
                    names[value] = name
    number = len(names)
    while (size := product.size_of(told := _by_name(names, number))) > room:
        number = min(number - 1, int(number * room / size))
    return told


def _by_name(names: dict[str, str], number: int) -> str:
    groups: dict[str, list[str]] = {}
    for value in list(names)[:number]:
        groups.setdefault(names[value] or "said", []).append(value)
    return "\n".join(f"{name}: {', '.join(values)}" for name, values in groups.items())


def _read(text: str) -> Iterable[tuple[str, str]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return _leaves(found) if isinstance(found, dict | list) else [("", word) for word in _NAMED.findall(text)]


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Texts and numbers of a JSON value, with the keys that they stand under."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield name, str(value)


# --- Two friends over months: does the context answer questions about them? ---

_COMMON = frozenset(
    "a an the of to in on at and or is was were are be been it i you he she they we my your his her their our for with "
    "that this as from by had has have do did does not no yes so but if then than too very just about into out up down "
    "over under again".split()
)


def friends(case: Case) -> Result:
    chats = stored("friends", case.set)
    one, told = chats[case.place], _chat(case.place, case.set)
    room = int(case.room)
    if case.system in baselines.BASELINES:
        lines = baselines.BASELINES[case.system](told.turns, room)
    else:
        lines = product.next_prompt(case.system, told, room, case.rounds, _SUMMARY)
    lines = [_with_plain_dates(line) for line in lines]
    words = set(_words("\n".join(lines)))
    result = Result(case)
    own, other = (_answers(chats[place % len(chats)]) for place in (case.place, case.place + 1))
    share, control = (sum(sum(w in words for w in a) / len(a) for a in asked) / len(asked) for asked in (own, other))
    statements, by_id = _statements(lines), {message["id"]: message for message in one["messages"]}
    scores = [score for question in one["questions"] if (score := _told(question, by_id, statements)) is not None]
    for column, got, of in zip(case.columns, (share - control, sum(scores)), (1, len(scores)), strict=True):
        result.add("friends", case.system, column, got, of)
    return result


@cache
def _chat(place: int, set_: str) -> Conversation:
    said = stored("friends", set_)[place]["messages"]
    turns = [
        Turn(
            "user" if one["speaker"] == said[0]["speaker"] else "assistant",
            one["text"],
            moment=datetime.strptime(one["time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
            name=one["speaker"].split()[0],
        )
        for one in said
    ]
    return Conversation(f"friends {place}", turns, [])


def _answers(chat: dict[str, Any]) -> list[list[str]]:
    return [words for question in chat["questions"] if (words := _content(question["answer"]))]


def _words(text: object) -> list[str]:
    return re.findall(r"[a-z0-9]+", str(text).lower())


def _content(text: object) -> list[str]:
    return [word for word in _words(text) if word not in _COMMON]


def _stem(word: str) -> str:
    ends = (end for end in ("ing", "ed", "es", "s") if word.endswith(end) and len(word) - len(end) >= 3)
    return word.removesuffix(next(ends, ""))


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _content(text)}


def _with_plain_dates(line: str) -> str:
    """As the answers have them: 8 May 2023."""

    def plain(found: re.Match[str]) -> str:
        month = date(2000, int(found[2]), 1).strftime("%B")
        return " ".join(filter(None, (found[3] and str(int(found[3])), month, found[1])))

    return re.sub(r"(20\d\d)-(\d\d)(?:-(\d\d))?", plain, line)


def _statements(lines: Sequence[str]) -> list[tuple[set[str], set[str]]]:
    """Words and stems of each stretch of at most 60 tokens, with its heading's date and its speaker."""
    heading, found = "", []
    for line, size in zip(lines, product.counter()(list(lines)) if lines else [], strict=True):
        if line.startswith("#"):
            heading = line.lstrip("# ")
            continue
        words = line.split()
        speaker = re.match(r"((?:user |assistant )?[A-Z][\w ]{0,20}): ", line)
        is_long = size > _LONGEST_STATEMENT
        length = max(5, int(len(words) * _LONGEST_STATEMENT / size)) if is_long else len(words)
        for at in range(0, max(1, len(words)), max(1, length // 2 if is_long else length)):
            said = _words(f"{heading} {speaker[1] if speaker else ''} {' '.join(words[at : at + length])}")
            found.append((set(said), {_stem(word) for word in said}))
    return found


def _told(
    question: dict[str, Any], by_id: dict[str, dict[str, Any]], statements: list[tuple[set[str], set[str]]]
) -> float | None:
    """The share of the answer's words in one statement for each place of the evidence; None: cannot be told."""
    places = re.findall(r"D\d+:\d+", " ".join(question["evidence"]))
    evidence = [by_id[place] for place in places if place in by_id]
    asked, wanted = _stems(question["question"]), _content(question["answer"])
    keys = [key for one in evidence if (key := asked & _stems(f"{one['speaker']} {one['text']}"))]
    if not wanted or not keys:
        return None
    told: set[str] = set()
    for key in keys:
        least = 1 if len(key) == 1 else max(2, math.ceil(len(key) / 2))
        near = ({word for word in wanted if word in words} for words, stems in statements if len(key & stems) >= least)
        told |= max(near, key=len, default=set())
    return sum(word in told for word in wanted) / len(wanted)
