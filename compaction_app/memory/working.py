"""The working memory of an agent: what its next step needs of the work before, counted and never guessed.

What people asked for with what became of it, the plan, how the last command ended, the files that were changed, and the
symbols that most messages mention. A count goes on from generation to generation: beside an extract its state is
stored, of which the extract tells as much as has room. Nothing here is anybody's statement, and where no tool was
called there is none of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from compaction_app.memory import word_tables as known
from compaction_app.memory.quoting import harmless, split_quoted
from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import early, is_question
from compaction_app.memory.symbols import is_bare, is_symbol, leaves, parsed, parts_of, symbols_in
from compaction_app.messages.tool_calls import call_name, name_and_arguments, outcome_of, tool_marker
from compaction_app.messages.transcript import calls_and_results
from compaction_app.messages.truncate import one_line
from compaction_app.tokens import Count
from compaction_app.values import Message, Role

#: The line above it, and the one above values under a name that no tool was called with.
HEADING = "Work so far:"
#: What stands under no name.
_SAID = "said"
#: What a mention is worth: by a call, by what somebody wrote, in a tool's result. And of what an earlier text tells.
_CALLED, _WRITTEN, _RETURNED, _EARLIER = 2.0, 1.0, 0.5, 2.0
#: Of a path, and of a bare number, a factor on that.
_PATH, _BARE = 1.5, 0.25
#: Symbols, requests and failures of a state.
_MOST, _MOST_ASKED, _MOST_FAILED = 2_000, 200, 20
#: Words of an earlier request that are told where there is room, characters of any and of how it ended.
_WORDS, _FEW, _LONGEST, _ENDED = 40, 18, 1_200, 100
#: So many of the newest are told with how they ended.
_ENDS = 3
#: In less room than this there are symbols alone; of what is more the most that each part may take.
_LEAST = 250
_SHARES = {"plan": 0.25, "open": 0.2, "where": 0.12, "files": 0.4, "asked": 0.4}
_CHANGES = ("edited", "created", "deleted")
_DOES = {
    "edited": re.compile(r"edit|replace|patch|modif|update|insert|append|apply", re.IGNORECASE),
    "created": re.compile(r"creat|write|save|new", re.IGNORECASE),
    "deleted": re.compile(r"delet|remov", re.IGNORECASE),
    "read": re.compile(r"read|view|open|cat|get", re.IGNORECASE),
}
_STATUS = ("status", "state", "done", "completed", "checked")
_TITLE = ("content", "text", "title", "step", "task", "subject", "name", "description")
_CHECKBOX = re.compile(r"\s*(?:[-*]|\d+\.) \[(.?)\] +\S.*")
_IS_DONE = re.compile(r"(?:completed?|done|finished|closed|cancell?ed|skipped|true|x|✓|✔|✅)$", re.IGNORECASE)
_PATHLIKE = re.compile(r"\w/[\w.]|\w\.[A-Za-z]\w{0,4}$")
_COMMAND_ENDS = re.compile(r"\s*(?:\||\d?>|;|&&)")
_LOOKS = re.compile(
    r"^(?:\w+=\S+ )*(?:cat|ls|find|grep|rg|sed|head|tail|git (?:log|diff|show|status|blame)|wc|tree|jq|less|awk)\b"
)
_ANYTHING_ELSE = re.compile(r"\b(?:any|some)thing else|further|would you like|let me know|want me to", re.IGNORECASE)


@dataclass(slots=True)
class _Symbol:
    often: float = 0.0
    #: The message that last had it.
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
    ended: str = ""

    def line(self, words: int, is_ended: bool) -> str:
        end = f" → {self.ended}" if is_ended and self.ended else ""
        return f"asked, {self.state}: {_first(self.text, words)}{end}"


@dataclass
class WorkingMemory:
    symbols: dict[str, _Symbol] = field(default_factory=dict)
    asked: list[_Request] = field(default_factory=list)
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
    def of(cls, state: str, text: str = "") -> WorkingMemory:
        """From its state, or where there is none from a text that it wrote."""
        # A redactor may have left anything of it.
        with suppress(ValueError, TypeError, KeyError):
            given = json.loads(state)
            memory = cls(**{**given, "symbols": {}, "asked": [_Request(*one) for one in given["asked"]]})
            memory.symbols = {value: _Symbol(*one) for value, *one in given["symbols"]}
            return memory
        memory = cls()
        for line in text.splitlines():
            name, _, told = line.partition(": ")
            if _CHECKBOX.fullmatch(line):
                memory.plan.append(line)
            elif name.startswith("asked, "):
                memory.asked.append(_Request(*told.partition(" → ")[::2]))
                memory.asked[-1] = _Request(memory.asked[-1].text, name[7:], memory.asked[-1].state)
            elif name in ("last", "failed"):
                memory.last, memory.failed = (told, memory.failed) if name == "last" else (memory.last, {told: told})
            else:
                for value, _, changes in (one.partition(" ×") for one in filter(None, told.split(", "))):
                    number = int(changes) if changes.isdecimal() else int(name in _CHANGES)
                    if is_symbol(value):
                        memory.symbols[value] = _Symbol(_EARLIER, 0, "" if name == _SAID else name, number)
            memory.calls = 1
        return memory

    def state(self) -> str:
        """What the next generation counts on from, with a bound; "" where there was no work."""
        if not self.calls:
            return ""
        kept = sorted(self.symbols, key=self._worth, reverse=True)[:_MOST]
        symbols = [
            (value, one.often, one.place, one.name, one.changes) for value in kept for one in [self.symbols[value]]
        ]
        asked = [(_first(one.text, _WORDS), one.state, one.ended) for one in self.asked[:-1]][-_MOST_ASKED:]
        asked += [(one.text, one.state, one.ended) for one in self.asked[-1:]]
        failed = dict([*self.failed.items()][-_MOST_FAILED:])
        return json.dumps({**vars(self), "symbols": symbols, "asked": asked, "failed": failed}, ensure_ascii=False)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, messages: Sequence[Message]) -> None:
        results = calls_and_results(messages).results
        for message, answers in zip(messages, results, strict=True):
            self.messages += 1
            is_result = message.role == Role.TOOL
            self.done += is_result * len(message.content)
            self.said += (not is_result) * len(message.content)
            if message.role == Role.USER:
                self._ask(message.content)
            elif message.role == Role.ASSISTANT and message.content and not message.tool_calls:
                self._close(message.content)
            given = parsed(message.content) if is_result else None
            self._mention(message.content if given is None else given, _RETURNED if is_result else _WRITTEN)
            for call, result in zip(message.tool_calls, answers, strict=True):
                self.calls += 1
                self._read_call(call, result)

    def _mention(self, given: Any, weight: float) -> None:
        """Count each symbol of a text once, and each value of JSON wherever it stands under a name."""
        found: list[tuple[str, str]] = []
        others: dict[str, None] = {}
        for name, text in [("", given)] if isinstance(given, str) else leaves(given):
            if name and is_symbol(text):
                found.append((text, name))
            else:
                others |= symbols_in(text)
        for value, name in [*found, *((value, "") for value in others)]:
            one = self.symbols.setdefault(value, _Symbol())
            one.often, one.place = one.often + weight, self.messages
            if name and one.name not in _CHANGES:
                one.name = name

    def _read_call(self, call: Mapping[str, Any], result: str | None) -> None:
        name, raw = call_name(call), name_and_arguments(call)[1]
        self.done += len(str(raw))
        given = parsed(raw)
        self._mention(str(raw) if given is None else given, _CALLED)
        texts = [value for _, value in leaves(given)] if given is not None else [str(raw)]
        if plan := _plan_in(given, texts):
            self.plan = plan if any(not _is_done(item) for item in plan) else []
        error = outcome_of(result or "").error
        command = next(
            (str(given[key]) for key in ("command", "cmd", "script") if isinstance(given, Mapping) and given.get(key)),
            "",
        )
        path = next(
            (
                value
                for text in texts
                for value in [text[:300], *symbols_in(text)]
                if is_symbol(value) and _PATHLIKE.search(value)
            ),
            "",
        )
        line = harmless(tool_marker(call, result))
        if command:
            tried = _COMMAND_ENDS.split(command, maxsplit=1)[0]
            said = "" if _LOOKS.match(tried) else _telling(result or "")
            error = (
                error or ("exit" in line and line.partition("→ ")[2]) or (said if known.FAILURE.search(said) else "")
            )
            self.last = line + (f" {said}" if said and said not in line else "")
        else:
            tried = f"{name} {path}"
            does = next((does for does, pattern in _DOES.items() if pattern.search(name)), "")
            if path and does and not error:
                one = self.symbols.setdefault(path, _Symbol())
                one.place = self.messages
                if does != "read" or one.name not in _CHANGES:
                    one.name = "edited" if does == "created" and one.name in ("read", "edited") else does
                one.changes += does != "read"
        self.failed.pop(tried, None)
        if error:
            self.failed[tried] = line if error in line else f"{line} {harmless(one_line(str(error), 160))}"

    def _ask(self, content: str) -> None:
        said = [
            text
            for piece, is_quoted in split_quoted(content)
            if not is_quoted
            for text, is_code in split_sentences(piece)
            if not is_code
        ]
        if not said:
            return
        text = harmless(" ".join(said))[:_LONGEST]
        if (
            self.asked
            and self.asked[-1].state == "done"
            and (early(known.REVERSAL, text) or early(known.NEGATION, text))
        ):
            self.asked[-1].state = "changed"
        self.asked.append(_Request(text))

    def _close(self, content: str) -> None:
        sentences = [text for text, is_code in split_sentences(content) if not is_code]
        if not sentences or (is_question(sentences[-1]) and not _ANYTHING_ELSE.search(sentences[-1])):
            return
        ended = next((text for text in sentences if len(text.split()) > 3), "")
        state = "refused" if early(known.FAILURE, ended) else "done"
        for one in self.asked:
            if one.state == "open":
                one.state, one.ended = state, harmless(one_line(ended, _ENDED))

    # -- writing ----------------------------------------------------------------------------------------------------

    def text(self, room: int, count: Count, told: str = "") -> str:
        """What must survive, in at most ``room`` tokens: plan, requests and their ends, last command, files, symbols.

        Without the symbols that ``told`` has, which stands beside it.
        """
        wanted = room if self.calls else 0
        while wanted > 0:
            text = self._filled(wanted, count, told)
            # Together they may have more tokens than line by line.
            if (over := count([text])[0] - room) <= 0:
                return text if text != HEADING else ""
            wanted -= over
        return ""

    def _filled(self, room: int, count: Count, told: str) -> str:
        lines, left, spare = [HEADING], room - count([HEADING])[0] - 1, max(0, room - _LEAST)
        parts = {
            "plan": [["plan:", *self.plan]] if self.plan else [],
            "open": [[f"asked, {one.state}: {one.text}"] for one in reversed(self.asked) if one.state == "open"][:3],
            "where": [[f"failed: {line}"] for line in [*self.failed.values()][-1:]]
            + ([[f"last: {self.last}"]] if self.last else []),
        }
        taken: dict[str, list[str]] = {}
        for part, entries in parts.items():
            taken[part] = _fitting(entries, min(left, int(_SHARES[part] * spare)), count)
            left -= sum(count(taken[part])) + len(taken[part])
        done = [one for one in reversed(self.asked) if one.state != "open"]
        most = min(left, int(_SHARES["asked"] * spare))
        for full in (len(done), len(done) // 3, 2, 0):
            entries = [[one.line(_WORDS if n < full else _FEW, n < _ENDS)] for n, one in enumerate(done)]
            taken["asked"] = _fitting(entries, most, count)
            if len(taken["asked"]) == len(entries):
                break
        left -= sum(count(taken["asked"])) + len(taken["asked"])
        symbols = self._chosen(left, int(_SHARES["files"] * spare), count, told)
        return "\n".join(
            [*lines, *taken["plan"], *reversed(taken["asked"]), *reversed(taken["open"]), *taken["where"], *symbols]
        )

    def _chosen(self, room: int, files: int, count: Count, told: str) -> list[str]:
        ordered = sorted(self.symbols, key=self._worth, reverse=True)[: max(0, room)]
        changed = [value for value, one in self.symbols.items() if one.changes][::-1]
        both = [*ordered, *changed]
        costs = dict(zip(both, count([f", {value}" for value in both]), strict=True))
        has = {part for symbol in symbols_in(told) for part in parts_of(symbol)}
        chosen: dict[str, None] = {}
        names: set[str] = set()
        used = 0
        for most, values in ((files, sorted(changed, key=self._worth, reverse=True)), (room, ordered)):
            for value in values:
                one = self.symbols[value]
                cost = costs[value] + (0 if one.name in names else 3) + 2 * (one.changes > 1)
                if value not in has and used + cost <= most:
                    used += cost
                    names.add(one.name)
                    chosen[value] = None
                    has.update(parts_of(value))
        groups: dict[str, list[str]] = defaultdict(list)
        for value in chosen:
            one = self.symbols[value]
            groups[one.name or _SAID].append(value + (f" ×{one.changes}" if one.changes > 1 else ""))
        first = [name for name in _CHANGES if name in groups]
        return [
            f"{name}: {', '.join(groups[name])}" for name in [*first, *(name for name in groups if name not in first)]
        ]

    def size(self, count: Count) -> int:
        """Tokens of what tools took or gave under a name."""
        named = [value for value, one in self.symbols.items() if one.name not in ("", *_DOES) and not is_bare(value)]
        return count([", ".join(named)])[0] if named else 0

    def _worth(self, value: str) -> tuple[bool, bool, float, int]:
        one = self.symbols[value]
        # What nobody but a tool mentioned comes after that.
        return (
            not is_bare(value),
            one.often >= _WRITTEN,
            one.often * (_PATH if "/" in value else _BARE if is_bare(value) else 1.0),
            one.place,
        )


def _fitting(entries: Sequence[Sequence[str]], room: int, count: Count) -> list[str]:
    """The first entries that fit, whole."""
    taken = list[str]()
    for lines in entries:
        cost = sum(count([*lines])) + len(lines)
        if cost > room:
            break
        room -= cost
        taken += lines
    return taken


def _first(text: str, words: int) -> str:
    """As many whole sentences as have so many words, the first in any case."""
    told = ""
    for sentence, _ in split_sentences(text):
        if told and len(f"{told} {sentence}".split()) > words and not early(known.LIMIT, sentence):
            break
        told = f"{told} {sentence}".strip()
    return one_line(told, 6 * words * 2)


def _telling(result: str) -> str:
    """The last line that says how it ended."""
    lines = [line for line in result[-2_000:].splitlines() if known.OUTCOME.search(line)]
    return harmless(one_line(lines[-1], 160)) if lines else ""


def _is_done(item: str) -> bool:
    found = _CHECKBOX.fullmatch(item)
    return found is not None and _IS_DONE.match(found[1]) is not None


def _plan_in(given: Any, texts: Sequence[str]) -> list[str]:
    """The items of a list of tasks, a line each."""
    for items in _lists(given):
        rows = [item for item in items if isinstance(item, Mapping)]
        if rows and all(_key(row, _STATUS) and _key(row, _TITLE) for row in rows):
            lines = []
            for row in rows:
                status, title = str(row[_key(row, _STATUS)]), one_line(str(row[_key(row, _TITLE)]), 200)
                mark = "x" if _IS_DONE.match(status) else " "
                lines.append(
                    harmless(
                        f"- [{mark}] {title}"
                        + (
                            ""
                            if mark == "x" or status.lower() in ("pending", "false", "todo", "open")
                            else f" ({status})"
                        )
                    )
                )
            return lines
    for text in texts:
        if "[" in text and (lines := [line for line in text.splitlines() if _CHECKBOX.fullmatch(line)]):
            return [harmless(one_line(line.strip(), 200)) for line in lines]
    return []


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((key for key in keys if key in row), "")


def _lists(given: Any) -> Iterator[list[Any]]:
    for value in given.values() if isinstance(given, Mapping) else ():
        inner = parsed(value) if isinstance(value, str) else value
        if isinstance(inner, list) and inner:
            yield inner
    if isinstance(given, list) and given:
        yield given
