"""Claude Code's sessions: JSON lines with ``parentUuid``; each block of a reply has a line, and each result of a tool.

The lines of a reply are one message, and the results of its calls follow it one after the other, whatever they hang on
in the file. A summary with which Claude Code began anew follows what it replaced. The work of a subagent is a tree
beside the conversation's, or has a file, and so a session, of its own.
"""

from collections.abc import Mapping
from typing import Any

from compaction_app.contrib.histories.codex import is_rollout
from compaction_app.contrib.histories.files import LinesOfSession
from compaction_app.contrib.histories.reading import TITLE_CHARACTERS, Json, Rows, as_they_came, lines_of, text_in
from compaction_app.messages.truncate import one_line
from compaction_app.transfer.formats import strings_of

_MESSAGES = ("user", "assistant", "attachment")
#: The lines that have a title, each before the next, of which the last one counts; and the title's key.
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_OF_SESSION = ("cwd", "gitBranch", "version", "slug", "userType", "forkedFrom")
_MARKS = ("isSidechain", "isMeta", "isCompactSummary")


def read(given: Mapping[str, Any]) -> dict[str, Any] | None:
    if not isinstance(given, LinesOfSession) or is_rollout(given):
        return None
    session = _Session()
    for number, kind, row in lines_of(given, session.rows.notes, (*_MESSAGES, *_TITLES)):
        session.add(kind, row, row.id("uuid") or f"line {number}")
    named = [name for name in session.named if name]
    return {
        "external_id": ":".join(["claude_code", *named]) if named else "",
        "title": session.title(),
        "model": session.model,
        "metadata": {"claude_code": {"id": ":".join(named), **session.about}},
        "messages": as_they_came(session.nodes),
        "shown": session.shown(),
        "notes": session.rows.done(Json(None)),
    }


class _Session:
    def __init__(self) -> None:
        self.rows = Rows()
        self.named: tuple[str | None, ...] = ()
        self.about: dict[str, Any] = {}
        self.model = ""
        self._asked = ""
        #: The kind, the line that it is of, and the title.
        self._titles: list[tuple[str, str, str]] = []
        #: By the id of the API's message, or of the line; in order.
        self.nodes: dict[str, dict[str, Any]] = {}
        #: Of each line the node that what follows it hangs on, and of a node the last result of its calls.
        self._homes: dict[str, str] = {}
        self._ends: dict[str, str] = {}
        #: Of the conversation and of subagents, the last node.
        self._last: dict[bool, str] = {}
        self._callers: dict[str, str] = {}

    def add(self, kind: str, row: Json, own: str) -> None:
        if own in self._homes:
            self.rows.notes["lines that are there twice, left out"] += 1
            return
        above, is_aside = row.id("parentUuid") or row.id("logicalParentUuid"), bool(row.given.get("isSidechain"))
        is_lost = above is not None and above not in self._homes
        home = self._homes[own] = self._last.get(is_aside, "") if is_lost else self._homes.get(above or "", "")
        message = row.inner("message") or row.inner("attachment")
        if kind in _TITLES:
            self._titles.append((kind, row.id("leafUuid") or "", row.text(_TITLES[kind])))
        elif kind == "attachment" and message.get("type") != "queued_command":
            self.rows.notes["lines of the type attachment, left out"] += 1
        elif row.get("isApiErrorMessage"):
            self.rows.notes["errors of the provider, bridged"] += 1
        elif kind in _MESSAGES:
            self.rows.notes["messages without their parent, behind the one before now"] += is_lost
            self._homes[own] = self._last[is_aside] = self._kept(kind, row, own, home, message)

    def _kept(self, kind: str, row: Json, own: str, home: str, message: Json) -> str:
        """Keep what it says; the node that what follows it hangs on."""
        self.named = row.id("sessionId"), row.id("agentId")
        # The first ones; any other is counted.
        self.about = {key: row.given[key] for key in _OF_SESSION if row.given.get(key)} | self.about
        # What a person wrote while the agent worked is in an attachment.
        content: Any = message.get("content" if "content" in message else "prompt")
        blocks: list[Any] = [*content] if isinstance(content, list) else [{"type": "text", "text": text_in(content)}]
        role = message.text("role") or "user"
        about: dict[str, Any] = {
            "created_at": row.time("timestamp"),
            "model": message.text("model"),
            "usage": message.inner("usage").whole() or None,
            "finish_reason": message.text("stop_reason"),
            "metadata": row.kept(*_MARKS),
        }
        message.get("type")
        key = (message.id("id") if kind == "assistant" else "") or own
        self.rows.add(row, role, [{"content": content}], *(text for text, _ in strings_of(self.about)))
        if known := self.nodes.get(key):
            known["id"] = own
            known["items"][0]["content"] += blocks
            known["about"] |= {name: one for name, one in about.items() if one}
        results = [one for one in blocks if Json(one).get("type") == "tool_result"]
        others = [one for one in blocks if Json(one).get("type") != "tool_result"]
        for number, one in enumerate(results, start=1):
            call_id = str(one.get("tool_use_id"))
            named = own if number == len(results) and not others else f"{own}:{number}"
            home = self._callers.get(call_id, home)
            self._put(named, named, home, role, [one], about)
            if call_id in self._callers:
                self._ends[home] = named
            else:
                home = named
        if not known and (others or not results):
            self._put(key, own, home, role, others, about)
        if kind == "assistant":
            self.model = about["model"] or self.model
            self._callers |= {str(one.get("id")): key for one in blocks if isinstance(one, Mapping)}
        elif not about["metadata"] and not (text := text_in(others)).startswith(("<", "[")):
            self._asked = self._asked or one_line(text, TITLE_CHARACTERS)
        return key if others or not results else home

    def _put(self, key: str, own: str, home: str, role: str, content: list[Any], about: Mapping[str, Any]) -> None:
        items, parent = [{"role": role, "content": content}], self._ends.get(home, home)
        self.nodes[key] = {"id": own, "parent": parent, "items": items, "about": {**about}}

    def shown(self) -> str | None:
        last = self._last.get(False, "")
        return self.nodes[self._ends.get(last, last)]["id"] if last else None

    def title(self) -> str:
        # Older versions wrote the summaries of other sessions into the newest one.
        own = [(kind, text) for kind, leaf, text in self._titles if kind != "summary" or leaf in self._homes]
        self.rows.notes["summaries of other sessions, left out"] += len(self._titles) - len(own)
        return next(filter(None, map(dict(own).get, _TITLES)), self._asked)
