"""What a long conversation's next prompt shows of it, by the app: through its public API, on a database of SQLite."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from benchmarks.evaluate.conversations import Conversation, Turn

#: A summary without a model; a model's with the extract beside it, as the app shows it; and a model's alone.
EXTRACT, MODEL, MODEL_ALONE = "extract", "model", "model, alone"
MODELS = (MODEL, MODEL_ALONE)
_SUMMARY = re.compile(r"<conversation-summary>(.*)</conversation-summary>", re.DOTALL)
_SETTINGS: dict[str, dict[str, Any]] = {
    EXTRACT: {"MODE": "deterministic"},
    MODEL: {},
    MODEL_ALONE: {"LEDGER_TOKENS": 0},
}
RESERVED = 1_000
#: How much of the room the messages after a summary have; and how much of what is available a summary may have.
_RECENT, _SUMMARY_SHARE = 0.05, 0.15
#: Of the room, what a branch may have before a model with a small window has read enough of it.
_ENOUGH = 1.25
#: No summary was made since it would not have been shorter, so the one before stays in use.
_NO_PROGRESS = "no_progress"


class Failed(Exception):
    """No summary could be made; the message says why."""


def begin(folder: str) -> None:
    """Before the first import of the app, once in each process."""
    import django
    from django.conf import settings

    database = f"sqlite:///{folder}/evaluation.sqlite3"
    os.environ |= {"DJANGO_SETTINGS_MODULE": "project.settings", "SECRET_KEY": "evaluation", "DATABASE_URL": database}
    django.setup()
    logging.disable(logging.WARNING)
    # What is said of the chat's window is the model's that is asked.
    if (name := model_name()) and (window := settings.COMPACTION.pop("CONTEXT_WINDOW", None)):
        settings.COMPACTION["MODELS"] = {name: {"window": window}}


def migrate() -> None:
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    connections.close_all()


def model_name() -> str:
    """The first that is asked for summaries, as the example project's settings read it; "" where none is configured."""
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        return ""
    return next(iter(os.environ.get("COMPACTION_SUMMARIZER_MODELS", "").replace(",", " ").split()), "")


@cache
def counter() -> Any:
    from compaction_app.tokens import ExactTokenCounter

    return ExactTokenCounter()


def size_of(text: str) -> int:
    return int(counter()([text])[0])


def cut(lines: Sequence[str], room: int) -> list[str]:
    """As many of the first lines as fit."""
    kept, left = [], room
    for line, size in zip(lines, counter()([line + "\n" for line in lines]) if lines else [], strict=True):
        left -= size
        if left < 0:
            break
        kept.append(line)
    return kept


class Chat:
    """A conversation in the app's tables. It may be read up to any of its messages, and summarized anew."""

    def __init__(self, system: str, system_prompt: str = "", **settings: Any) -> None:
        from compaction_app import chat

        self._is_extract = system == EXTRACT
        self._own = {"RESERVED_TOKENS": RESERVED, "COOLDOWN_SECONDS": 0} | _SETTINGS[system]
        self._session = chat.start_session(model="gpt-4o", system_prompt=system_prompt, settings=self._own | settings)
        self._messages: list[Any] = []

    def append(self, messages: Sequence[dict[str, Any]]) -> None:
        from compaction_app import chat

        tip = self._messages[-1] if self._messages else None
        self._messages += chat.append_messages(self._session, tip, messages)

    def begin_again(self, **settings: Any) -> None:
        """Without a summary."""
        from compaction_app import chat

        # Else a branch that is over its threshold without its summary gets the next one at once.
        self._configure({"MODE": "off"})
        while summary := chat.find_summary(self._messages[-1]):
            chat.retire_summary(summary)
        self._configure(self._own | settings)

    def _configure(self, settings: dict[str, Any]) -> None:
        self._session.settings = settings
        self._session.save(update_fields=["settings"])

    def compact(self, end: int | None = None) -> None:
        """All before this message."""
        from compaction_app import chat
        from compaction_app.exceptions import CompactionFailed, CompactionRefused

        try:
            chat.compact(self._messages[:end][-1])
        except CompactionFailed as error:
            if error.error_code != _NO_PROGRESS:
                raise Failed(error.error_code or str(error)) from error
        except CompactionRefused as error:
            raise Failed(str(error.reason)) from error

    def end_turn(self) -> None:
        """A model's summary is waited for: what is shown until it stands is not measured here."""
        from compaction_app import chat

        if self._is_extract:
            chat.request_compaction(self._messages[-1])
        elif chat.should_compact(self._messages[-1]):
            self.compact()

    def shown(self) -> tuple[str, list[dict[str, Any]]]:
        """The summary without its frame, "" if there is none, and the messages that stand verbatim."""
        from compaction_app import chat

        sent = [one for one in chat.get_context(self._messages[-1]).to_openai() if one["role"] != "system"]
        for place, message in enumerate(sent):
            if found := _SUMMARY.search(str(message["content"])):
                return found[1], sent[:place] + sent[place + 1 :]
        return "", sent


@lru_cache(maxsize=4)
def _stored(system: str, told: Conversation) -> Chat:
    stored = Chat(system)
    stored.append(as_openai(told.turns))
    return stored


def next_prompt(
    system: str, told: Conversation, room: int, rounds: int, share: float = 1.0, *, is_cut: bool = True
) -> list[str]:
    """The lines of a summary and of what follows it, in so many tokens, after as many compactions.

    ``share``: the summary's target, of the room. ``is_cut``: what is over the room is cut at the end.
    """
    window = max(32_000, int(room / _SUMMARY_SHARE) + 2 * RESERVED)
    target: dict[str, Any] = {"SUMMARY_TARGET_TOKENS": int(room * share), "RECENT_TOKENS_CAP": int(room * _RECENT)}
    if system == EXTRACT:
        # The room is the extract's alone.
        target["LEDGER_TOKENS"] = 0
    else:
        # A model that cannot read all at once goes on while the branch is over this.
        target["TARGET_RATIO"] = _ENOUGH * room / window
    stored = _stored(system, told)
    stored.begin_again(CONTEXT_WINDOW=window, **target)
    for end in ends(told.turns, rounds):
        stored.compact(end)
    summary, rest = stored.shown()
    said = [f"{one.get('name', one['role'])}: {line}" for one in rest for line in str(one["content"]).splitlines()]
    lines = [*summary.strip().splitlines(), *said]
    return cut(lines, room) if is_cut else lines


def ends(turns: Sequence[Turn], rounds: int) -> list[int]:
    """Of parts with about the same number of messages; a tool's result stays with its call."""
    step, found = -(-len(turns) // rounds), [0]
    while found[-1] < len(turns):
        end = min(found[-1] + step, len(turns))
        while end < len(turns) and turns[end].role == "tool":
            end += 1
        found.append(end)
    return found[1:]


def as_openai(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """As messages in the OpenAI chat format; a tool's result answers the next call."""
    messages: list[dict[str, Any]] = []
    unanswered: list[str] = []
    for number, turn in enumerate(turns):
        message: dict[str, Any] = {"role": turn.role, "content": turn.text, "created_at": turn.moment}
        if turn.name:
            message["name"] = turn.name
        if turn.role == "tool":
            message["tool_call_id"] = unanswered.pop(0)
        elif turn.calls:
            unanswered = [f"call_{number}_{at}" for at in range(len(turn.calls))]
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, (name, arguments) in zip(unanswered, turn.calls, strict=True)
            ]
        messages.append(message)
    return messages


def written(messages: Sequence[dict[str, Any]]) -> str:
    """All that they say and call."""
    return "\n".join(str(one.get("content") or "") + json.dumps(one.get("tool_calls") or "") for one in messages)
