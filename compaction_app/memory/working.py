"""The working memory of an agent: what its next step needs of the work before, counted and never guessed.

What people asked for with what became of it, the plan, how the last command ended, and the symbols that most messages
mention, changed files among them. A count goes on from generation to generation: beside an extract its state is stored,
of which the extract tells as much as has room. Where no tool was called there is none of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from compaction_app.memory import word_tables as known
from compaction_app.memory.quoting import harmless, split_quoted
from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import early, is_question
from compaction_app.memory.symbols import is_bare, is_symbol, leaves, parsed, parts_of, symbols_in
from compaction_app.messages.tool_calls import CallOutcome, call_name, name_and_arguments, outcome_of, tool_marker
from compaction_app.messages.transcript import calls_and_results
from compaction_app.messages.truncate import one_line
from compaction_app.tokens import Count
from compaction_app.values import Message, Role

#: The line above it, and the one above what stands under no name.
HEADING, _SAID = "Work so far:", "said"
#: A mention in a tool's result counts less than one in a call or in what somebody wrote.
_RETURNED = 0.5
#: Most symbols, requests and failed commands that a stored state has.
_MOST, _MOST_ASKED, _MOST_FAILED = 2_000, 200, 20
#: Most characters of a request while it is open, and of one that is not; the middle is left out.
_LONGEST, _EARLIER = 1_200, 240
#: In place of the words of one that stays in view: an extract tells only what is covered.
_IN_VIEW = "the request in view"
#: Below so many tokens there are only symbols. Plan, commands and requests may each take this share of the others.
_LEAST, _SHARE = 150, 0.5
#: A room of more tokens than this has answers to requests, too: they may take this share of the tokens above it.
_ENOUGH, _ANSWERS = 600, 0.5
#: An entry is shortened only if more than so many tokens are left for it.
_PART = 12
_CHANGES = ("edited", "created", "deleted")
_DOES = {
    "edited": re.compile(r"edit|replace|patch|modif|update|insert|append|apply", re.IGNORECASE),
    "created": re.compile(r"creat|write|save|new", re.IGNORECASE),
    "deleted": re.compile(r"delet|remov", re.IGNORECASE),
    "read": re.compile(r"read|view|open|cat|get", re.IGNORECASE),
}
#: The lines of a patch that name a file and what is done to it; any tool may carry one.
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (\S{1,200})\s*$", re.MULTILINE)
_PATCHES = {"Add": "created", "Update": "edited", "Delete": "deleted"}
#: Tools with such names change no files, even where an argument is a path.
_NO_FILES = re.compile(r"task|todo|plan|issue|ticket|agent", re.IGNORECASE)
_COMMAND = ("command", "cmd", "script")
_STATUS = ("status", "state", "done", "completed", "checked")
_TITLE = ("content", "text", "title", "step", "task", "subject", "name", "description")
_CHECKBOX = re.compile(r"\s*(?:[-*]|\d+\.) \[(.?)\] +\S.*")
_IS_DONE = re.compile(r"(?:completed?|done|finished|closed|cancell?ed|skipped|true|x|✓|✔|✅)$", re.IGNORECASE)
_PATHLIKE = re.compile(r"\w/[\w.]|\w\.[A-Za-z]\w{0,4}$")
_COMMAND_ENDS = re.compile(r"\s*(?:\||\d?>|;|&&)")
_ANYTHING_ELSE = re.compile(r"\b(?:any|some)thing else|further|would you like|let me know|want me to", re.IGNORECASE)


@dataclass(slots=True)
class _Symbol:
    often: float = 0.0
    #: Number of the last message that mentions it.
    place: int = 0
    #: The key that it stood under, or what was done to the file.
    name: str = ""
    #: So often it was changed.
    changes: int = 0


@dataclass(slots=True)
class _Request:
    text: str
    #: "open", "done", "changed" or "refused".
    state: str = "open"
    #: What was said last before the next request, and not on the way to a call.
    answer: str = ""


@dataclass
class WorkingMemory:
    #: Those that are told first stand first, once the messages are read.
    symbols: dict[str, _Symbol] = field(default_factory=dict)
    asked: list[_Request] = field(default_factory=list)
    #: The one of these that stays in view beside the summary.
    in_view: str = ""
    plan: list[str] = field(default_factory=list)
    #: How the last command ended; and what failed since, by what was tried.
    last: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    messages: int = 0
    calls: int = 0
    #: Characters of calls and their results, and of what was said.
    done: int = 0
    said: int = 0

    @classmethod
    def of(cls, state: str) -> WorkingMemory:
        # A redactor may have changed the stored text, so that it is no JSON any more.
        with suppress(ValueError, TypeError, KeyError):
            given = json.loads(state)
            memory = cls(**{**given, "symbols": {}, "asked": [_Request(*one) for one in given["asked"]]})
            memory.symbols = {value: _Symbol(*one) for value, *one in given["symbols"]}
            return memory
        return cls()

    def state(self) -> str:
        """What the next generation counts on from, with a bound; "" where there was no work."""
        if not self.calls:
            return ""
        kept = islice(self.symbols.items(), _MOST)
        symbols = [(value, one.often, one.place, one.name, one.changes) for value, one in kept]
        failed = dict([*self.failed.items()][-_MOST_FAILED:])
        return json.dumps(
            {**vars(self), "symbols": symbols, "asked": self._requests(), "failed": failed}, ensure_ascii=False
        )

    def read(self, messages: Sequence[Message], turn_request: Message | None = None) -> None:
        """``turn_request``: asked among them, and none of them, since it stays in view."""
        if not (self.calls or any(message.tool_calls for message in messages)):
            return
        results, self.in_view, newest = calls_and_results(messages).results, "", None
        for message, answers in zip(messages, results, strict=True):
            if turn_request and turn_request.depth < message.depth:
                self.in_view, turn_request = self._ask(turn_request.content), None
            self.messages += 1
            is_result = message.role == Role.TOOL
            self.done += is_result * len(message.content)
            self.said += (not is_result) * len(message.content)
            if message.role == Role.USER:
                self._ask(message.content)
            elif message.role == Role.ASSISTANT and message.content and not message.tool_calls:
                self._close(message.content)
            given = parsed(message.content) if is_result else None
            self._mention(message.content if given is None else given, _RETURNED if is_result else 1.0)
            for call, result in zip(message.tool_calls, answers, strict=True):
                newest = self._read_call(call, result) or newest
        self.last = _line_of(*newest) if newest else self.last
        self.symbols = {value: self.symbols[value] for value in sorted(self.symbols, key=self._worth, reverse=True)}

    def _mention(self, given: Any, weight: float) -> None:
        """Count a mention of each symbol: once for a text, and of JSON once for each named value."""
        found: list[tuple[str, str]] = []
        others: dict[str, None] = {}
        for name, text in [("", given)] if isinstance(given, str) else leaves(given):
            if name and is_symbol(text):
                found.append((text, name))
            else:
                others |= {one: None for one in symbols_in(text) if weight == 1.0 or not is_bare(one)}
        for value, name in [*found, *((value, "") for value in others)]:
            one = self.symbols.setdefault(value, _Symbol())
            one.often, one.place = one.often + weight, self.messages
            if name and one.name not in _CHANGES:
                one.name = name

    def _read_call(
        self, call: Mapping[str, Any], answered: str | None
    ) -> tuple[Mapping[str, Any], str, CallOutcome] | None:
        """What :func:`_line_of` tells of a command; None for another call."""
        result = answered or ""
        name, raw = call_name(call), name_and_arguments(call)[1]
        self.calls, self.done = self.calls + 1, self.done + len(str(raw))
        # A call after the answer: the request is still worked on.
        for request in self.asked[-1:]:
            request.state = "open"
        given = parsed(raw)
        self._mention(str(raw) if given is None else given, 1.0)
        texts = [str(raw)] if given is None else [value for _, value in leaves(given)]
        if plan := _plan_in(given, texts):
            self.plan = plan if any(not _is_done(item) for item in plan) else []
        command = str(given.get(_key(given, _COMMAND), "")) if isinstance(given, Mapping) else ""
        ended = outcome_of(result, command or None)
        found = (match for text in texts for match in _PATCHED.findall(text))
        done = [(path, _PATCHES[did]) for did, path in found if is_symbol(path)]
        if command:
            tried = _COMMAND_ENDS.split(command, maxsplit=1)[0]
        else:
            # A text of several lines is what stands in a file.
            values = (value for text in texts if "\n" not in text for value in [text[:300], *symbols_in(text)])
            path = next((value for value in values if is_symbol(value) and _PATHLIKE.search(value)), "")
            tried = f"{name} {path}"
            does = next((does for does, pattern in _DOES.items() if pattern.search(name)), "")
            if path and does and not done and not _NO_FILES.search(name):
                done = [(path, does)]
        # Without a result a call was stopped.
        for path, does in done if answered is not None and ended.status != "error" else ():
            one = self.symbols.setdefault(path, _Symbol(place=self.messages))
            if does != "read" or one.name not in _CHANGES:
                one.name = "edited" if does == "created" and one.name in ("read", "edited") else does
            one.changes += does != "read"
        self.failed.pop(tried, None)
        # A search that finds nothing says nothing.
        if ended.error:
            self.failed[tried] = _line_of(call, result, ended)
        return (call, result, ended) if command else None

    def _ask(self, content: str) -> str:
        pieces = [piece for piece, is_quoted in split_quoted(content) if not is_quoted]
        said = [text for piece in pieces for text, is_code in split_sentences(piece) if not is_code]
        if not said:
            return ""
        text, before = one_line(harmless(" ".join(said)), _LONGEST), self.asked[-1:]
        # "no, …": further on it denies something else.
        if before and before[0].state == "done" and (early(known.REVERSAL, text) or known.NEGATION.pattern.match(text)):
            before[0].state = "changed"
        # A command that is given again is told where it was given last.
        # One that stayed in view is read again once it does not.
        if not before or before[0].text != text:
            kept = [one for one in self.asked[-_MOST_ASKED:] if one.text != text or one.answer]
            self.asked = [*kept, _Request(text)]
        return text

    def _close(self, content: str) -> None:
        sentences = [text for text, is_code in split_sentences(content) if not is_code]
        for request in self.asked[-1:]:
            request.answer = one_line(harmless(" ".join(sentences)), _LONGEST)
        if not sentences or (is_question(sentences[-1]) and not _ANYTHING_ELSE.search(sentences[-1])):
            return
        ended = next((text for text in sentences if len(text.split()) > 3), "")
        for one in self.asked:
            if one.state == "open":
                one.state = "refused" if early(known.FAILURE, ended) else "done"

    def _requests(self) -> list[tuple[str, str, str]]:
        """(text, state, answer): whole while it is open, and the newest."""
        most = [_LONGEST if one.state == "open" or one is self.asked[-1] else _EARLIER for one in self.asked]
        return [
            (one_line(one.text, size), one.state, one_line(one.answer, size))
            for one, size in zip(self.asked, most, strict=True)
        ]

    def text(self, room: int, count: Count, told: Set[str] = frozenset()) -> str:
        """In at most ``room`` tokens. ``told``: symbols, and parts of them, that stand beside it and are left out."""
        wanted = room if self.calls else 0
        while wanted > 0:
            text = self._filled(wanted, count, told)
            # Together they may have more tokens than line by line.
            if (over := count([text])[0] - room) <= 0:
                return text if text != HEADING else ""
            wanted -= over
        return ""

    def _filled(self, room: int, count: Count, told: Set[str]) -> str:
        left, most = room - count([HEADING])[0] - 1, int(_SHARE * max(0, room - _LEAST))
        requests = [*reversed(self._requests())]
        shown = [_IN_VIEW if text == self.in_view else text for text, *_ in requests]
        asked = [f"asked, {state}: {text}" for text, (_, state, _) in zip(shown, requests, strict=True)]
        where = [f"failed: {line}" for line in [*self.failed.values()][-1:]] + [f"last: {self.last}"] * bool(self.last)
        plan = ["plan:", *self.plan] if self.plan else []
        parts: list[list[str]] = []
        answers = [f" → {answer}" if answer else "" for *_, answer in requests]
        rest = int(_ANSWERS * max(0, room - _ENOUGH))
        for entries, share in ((plan, most), (where, most), (asked, most), (answers, rest)):
            fitting, tokens = _fitting(entries, min(left, share), count)
            parts.append(fitting)
            left -= tokens
        plan, where, asked, answers = parts
        # A request may have no room left for its answer, but no answer stands without its request.
        asked = [text + answer for text, answer in zip_longest(asked, answers[: len(asked)], fillvalue="")]
        return "\n".join([HEADING, *plan, *reversed(asked), *where, *self._chosen(left, count, told)])

    def _chosen(self, room: int, count: Count, told: Set[str]) -> list[str]:
        """Lines of symbols, the first of them, in at most ``room`` tokens, under the names that they came with."""
        ordered = [*islice(self.symbols, max(0, room))]
        sizes, has = count([f" {value}" for value in ordered]) if ordered else [], set(told)
        groups: dict[str, list[str]] = defaultdict(list)
        for value, size in zip(ordered, sizes, strict=True):
            one = self.symbols[value]
            cost = size + 3 * (one.name not in groups) + 2 * (one.changes > 1)
            if value not in has and cost <= room:
                room -= cost
                has.update(parts_of(value))
                groups[one.name].append(value + (f" ×{one.changes}" if one.changes > 1 else ""))
        # In an order that stays, what is new in a generation is seen beside the one before.
        return [f"{name or _SAID}: {' '.join(sorted(values))}" for name, values in groups.items()]

    def size(self, count: Count) -> int:
        """Tokens of what tools took or gave under a name."""
        named = [value for value, one in self.symbols.items() if one.name not in ("", *_DOES) and not is_bare(value)]
        return count([" ".join(named)])[0] if named else 0

    def _worth(self, value: str) -> tuple[bool, bool, float, int]:
        one = self.symbols[value]
        return one.changes > 0, not is_bare(value), one.often, one.place


def _line_of(call: Mapping[str, Any], result: str, ended: CallOutcome) -> str:
    """A call and how it ended."""
    line = harmless(tool_marker(call, result))
    how = ended.error or ("" if parsed(result) else result.strip().rpartition("\n")[2])
    return f"{line} {harmless(one_line(how, 160))}" if how and how not in line else line


def _fitting(entries: Sequence[str], room: int, count: Count) -> tuple[list[str], int]:
    """The first entries that fit, the last of them cut, and their tokens."""
    told, left = list[str](), room
    # In one call: a call costs more than its texts.
    for entry, tokens in zip(entries, count(entries) if entries else (), strict=True):
        text, size = entry, tokens + 1
        while size > left > _PART:
            text = one_line(text, min(len(text) - 1, len(text) * left // size))
            size = count([text])[0] + 1
        if size > left:
            break
        told.append(text)
        left -= size
    return told, room - left


def _is_done(item: str) -> bool:
    found = _CHECKBOX.fullmatch(item)
    return found is not None and _IS_DONE.match(found[1]) is not None


def _plan_in(given: Any, texts: Sequence[str]) -> list[str]:
    """The items of a list of tasks, a line each."""
    for items in _lists(given):
        if all(isinstance(item, Mapping) and _key(item, _STATUS) and _key(item, _TITLE) for item in items):
            return [_item(str(item[_key(item, _STATUS)]), str(item[_key(item, _TITLE)])) for item in items]
    lines = [line for text in texts if "[" in text for line in text.splitlines() if _CHECKBOX.fullmatch(line)]
    return [harmless(one_line(line, 200)) for line in lines]


def _item(status: str, title: str) -> str:
    is_done = _IS_DONE.match(status) is not None
    return harmless(f"- [{'x' if is_done else ' '}] {one_line(title, 200)}{'' if is_done else f' ({status})'}")


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((key for key in keys if key in row), "")


def _lists(given: Any) -> Iterator[list[Any]]:
    for value in [*given.values(), given] if isinstance(given, Mapping) else [given]:
        inner = parsed(value) if isinstance(value, str) else value
        if isinstance(inner, list) and inner:
            yield inner
