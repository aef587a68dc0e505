"""A reply under way: a thread of this process makes it, so it goes on when its reader hangs up, and is stored whole.

What came so far is kept in memory, and every half second in the host's default cache, for a reader that comes back, to
this process or to another one. A stop comes the same way. A cache that each process has for itself is none between
processes. Where a process is killed, its replies are lost: its readers are told so when its entries expire.

Whether one may begin is decided in the database: its question is claimed while a model is asked and while a tool runs.
The cache has what came, and no more. A reply whose question is erased is not asked for any longer: nothing of it is
stored, and it leaves the cache.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.core.cache import cache
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError, connections
from django.http import HttpRequest, StreamingHttpResponse

from compaction_app import chat
from compaction_app.api.codes import SENTENCES, TOO_LONG, Problem, problem_of
from compaction_app.api.errors import logger
from compaction_app.compaction.leases import Claim, is_under_way
from compaction_app.contrib import sse
from compaction_app.contrib.stream.parts import END, Part, compaction_part, finish, parts_of_chunks, parts_of_reply
from compaction_app.conversation.append import OwnKey, append_once
from compaction_app.conversation.recall import other_calls
from compaction_app.conversation.stream import STOPPED, ReplyStream
from compaction_app.exceptions import ContextOverflow, ReplyUnderWay
from compaction_app.models import ChatMessage, ChatSession, ReplyClaim
from compaction_app.models.database import release
from compaction_app.telemetry import log_error
from compaction_app.values import ErrorCode

#: Seconds between two looks of a reader for new parts, and between two writes to the cache and reads of it.
_TICK, _SHARE_SECONDS = 0.05, 0.5
#: An entry of the cache is written again after a third of this; without, its process is taken for killed.
_LOST_SECONDS = 30.0
#: Another process looks for a stop every half second, and stores.
_SETTLE_SECONDS = 5.0
#: Of a reply and the tools that it calls.
_LONGEST_SECONDS, _MOST_STEPS = 3600.0, 30
_KEEP_ALIVE_SECONDS = 15.0
#: Deltas are joined up to here: a reader that comes back is sent few.
_PIECE = 2000

_INTERRUPTED = "The reply was interrupted."
_lock = threading.Lock()
#: The replies of this process that are under way, by their keys in the cache.
_under_way: dict[str, Reply] = {}


def problem_for_people(error: Exception) -> Problem:
    """The answer to an error, without the numbers of a prompt that is too long: they are in the log."""
    problem = problem_of(error)
    if isinstance(error, ContextOverflow):
        is_message = error.needed > error.available
        problem.detail = TOO_LONG if is_message else SENTENCES[ErrorCode.INPUT_TOO_LARGE]
    return problem


def is_of_page(call: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether the page runs a call, by the options of a turn: what else it says of calls is not believed."""
    named = options.get("page_tools")
    return call["function"]["name"] in named if named is not None else options.get("run_tool") is None


class Reply:
    """What a model answers at ``tip``; :meth:`start` asks it."""

    pause = _TICK

    def __init__(self, tip: ChatMessage, options: Mapping[str, Any], message_id: str = "") -> None:
        self.question = tip
        self._options = dict(options)
        #: Calls a tool of the host: takes the call, returns the result. None: the page does, or nobody.
        self._run_tool = self._options.pop("run_tool", None)
        self._options.pop("page_tools", None)
        self._is_of_page = partial(is_of_page, options=options)
        self._stream: ReplyStream | None = None
        self._is_stopped, self._is_erased, self._message_id = False, False, message_id
        #: The newest stored message of it, and what went wrong before the first chunk.
        self._tip = tip
        self._error: Exception | None = None
        self._closing, self._begun, self.over = threading.Lock(), threading.Event(), threading.Event()
        self._key = key_of(tip.session, tip.pk)
        #: The parts so far; a delta at the end may still grow.
        self.parts: list[Part] = [{"type": "start", "messageId": message_id or uuid.uuid4().hex}]
        self.parts[0]["messageMetadata"] = {"questionId": str(tip.pk)}

    def start(self, *, regenerate: bool) -> None:
        """Ask, and wait for the first chunk or a stop; what goes wrong before is raised. No connection is held."""
        # Not only when the model is asked: what is shared until then would be this one's.
        elsewhere = is_under_way(self.question)
        with _lock:
            if elsewhere or self._key in _under_way:
                raise ReplyUnderWay(f"A reply to message {self.question.pk} is under way.")
            _under_way[self._key] = self
        threading.Thread(target=self._share, name="reply-share", daemon=True).start()
        threading.Thread(target=self._make, args=(regenerate,), name="reply", daemon=True).start()
        release_connections()
        self._begun.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it, and keep what came."""
        self._is_stopped = True
        with self._closing:
            if self._stream is not None:
                self._stream.close()
            elif not self.over.is_set():
                # A slow model may not send anything for minutes. Its stream is closed when it comes, and empty.
                try:
                    ReplyClaim.objects.in_database_of(self._tip).filter(pk=self._tip.pk).delete()
                finally:
                    self._say_end()
                    self._end()

    def _drop(self) -> None:
        """End it, and keep nothing: its question is erased."""
        self._is_erased = True
        cache.delete_many([self._key, f"{self._key}.tip"])
        if self._stream is not None:
            self._stream.on_stop = "discard"
        self.stop()

    def _open(self, *, regenerate: bool = False) -> ReplyStream:
        self._stream = None
        stream = chat.stream(self._tip, on_stop="keep", regenerate=regenerate, **self._options)
        if stream.message is not None and not self._message_id:
            self.parts[0] |= {"messageId": str(stream.message.pk)}
        with self._closing:
            self._stream = stream
            if self._is_stopped:
                if self._is_erased:
                    stream.on_stop = "discard"
                stream.close()
        return stream

    def _make(self, regenerate: bool) -> None:
        try:
            self._say_steps(regenerate)
        except Exception as error:
            if self._begun.is_set():
                problem = problem_for_people(error)
                about = {"session": self.question.session_id, "message": self.question.pk}
                log_error(logger, error, code=problem.code, **about)
                self._say({"type": "error", "errorText": problem.detail})
                try:
                    if self._stream is not None:
                        self.stop()
                except Exception as another:
                    log_error(logger, another, step="close", **about)
            else:
                self._error = error
        finally:
            self._end()
            release_connections()

    def _say_steps(self, regenerate: bool) -> None:
        """A step is a reply of the model, and the results of the host's tools that it calls."""
        stream, step = self._open(regenerate=regenerate), 0
        self._begun.set()
        self._say_compaction(stream)
        while True:
            self._say({"type": "start-step"})
            for part in parts_of_chunks(stream, step):
                self._say(part)
            # Where it was stopped, another thread may be storing it.
            with self._closing:
                self._tip = tip = stream.message or self._tip
            for part in parts_of_reply(stream.message):
                self._say(part)
            goes_on = stream.message and self._run_tool and step < _MOST_STEPS and not self._is_stopped
            calls = other_calls(tip) if goes_on else []
            ours = {number: call for number, call in enumerate(calls) if not self._is_of_page(call)}
            if ours:
                self._run_tools(tip, ours)
            self._say({"type": "finish-step"})
            # The page asks again with the results of its own.
            if not ours or len(ours) < len(calls) or self._is_stopped:
                break
            stream, step = self._open(), step + 1
        self._say_compaction(stream)
        self._say_end()

    def _run_tools(self, reply: ChatMessage, calls: Mapping[int, Mapping[str, Any]]) -> None:
        """Answer the calls of a reply, by their places in it, each once: another process does not run the tools.

        Not meanwhile, since the question is claimed as while a model is asked; and not afterwards, since each result
        has a key.
        """
        tip, claim = chat.answer_recalls(reply) or reply, Claim(self.question)
        rows = ChatMessage.objects.in_database_of(reply).filter(session=reply.session_id).select_related("session")
        claim.take(regenerate=True)
        try:
            for number, call in calls.items():
                if self._is_stopped:
                    # What a tool does may not be undone.
                    break
                key = OwnKey(f"result-{reply.pk}-{number}")
                found = rows.filter(idempotency_key=key).first()
                if found is None:
                    fields = {"role": "tool", "tool_call_id": call["id"], "content": self._run_tool(call)}
                    found = append_once(tip.session, tip, fields, idempotency_key=key)
                self._tip = tip = found
                self._say({"type": "tool-output-available", "toolCallId": call["id"], "output": tip.content})
        finally:
            claim.release()

    def _say_compaction(self, stream: ReplyStream) -> None:
        try:
            self._say(compaction_part(stream, self._tip))
        except (DatabaseError, InterfaceError) as error:
            # The reply is paid for, and goes on without these figures.
            log_error(logger, error, step="figures", session=self.question.session_id, message=self.question.pk)
        release_connections()

    def _say_end(self) -> None:
        last = None if self._tip is self.question else self._tip
        self._say(finish(last, self.question, STOPPED if self._is_stopped else ""))

    def _say(self, part: Part) -> None:
        if self.over.is_set():
            return
        last = self.parts[-1] if self.parts else {}
        if "delta" in part and last.get("id") == part["id"] and len(last.get("delta", "x" * _PIECE)) < _PIECE:
            # Replaced and not changed: a reader may be looking at it.
            self.parts[-1] = {**last, "delta": last["delta"] + part["delta"]}
        else:
            self.parts.append(part)

    def _end(self) -> None:
        self._say(END)
        with _lock:
            if _under_way.get(self._key) is self:
                del _under_way[self._key]
        self.over.set()
        self._begun.set()

    def _share(self) -> None:
        """Tell other processes what came, and hear from them whether to stop."""
        began, shared, shared_at, pause = time.monotonic(), 0, 0.0, 0.0
        while not self.over.wait(pause):
            pause, now = _SHARE_SECONDS, time.monotonic()
            try:
                if not self._has_question():
                    self._drop()
                    continue
                if cache.get(f"{self._key}.stop") == self.parts[0]["messageId"] or now - began > _LONGEST_SECONDS:
                    self.stop()
                # A long reply is written less often: each time all of it is.
                size = sum(100 + len(part.get("delta", "")) for part in self.parts)
                if (size != shared and now - shared_at > size / 200_000) or now - shared_at > _LOST_SECONDS / 3:
                    self._put()
                    shared, shared_at = size, now
            except Exception as error:
                # Without a cache nobody can come back to it, and it goes on.
                log_error(logger, error, step="share", session=self.question.session_id)
                pause = _LOST_SECONDS / 3
            release_connections()
        try:
            if not self._has_question():
                self._drop()
            # Not over the next reply to the same question.
            elif self._key not in _under_way:
                # No longer than readers of other processes need: an erasure does not reach it any more.
                self._put(_LOST_SECONDS / 3)
        except Exception as error:
            log_error(logger, error, step="share", session=self.question.session_id)
        release_connections()

    def _has_question(self) -> bool:
        """Whether it is there as it was when it was asked, neither deleted nor redacted since."""
        rows = ChatMessage.objects.in_database_of(self.question)
        return rows.filter(pk=self.question.pk, redacted_at=self.question.redacted_at).exists()

    @property
    def stored_to(self) -> int:
        """The newest stored message of it; before there is one, the question."""
        return int(self._tip.pk)

    def _put(self, seconds: float = _LOST_SECONDS) -> None:
        told = {self._key: list(self.parts), f"{self._key}.tip": self._tip.pk}
        cache.set_many({**told, key_of(self.question.session): self.question.pk}, seconds)


@atexit.register
def _stop_all() -> None:
    """Where the process ends in order, what came of its replies is stored."""
    for reply in list(_under_way.values()):
        reply.stop()
        reply.over.wait(5)


# -- readers ---------------------------------------------------------------------------------------------


def key_of(session: ChatSession, question_id: int | None = None) -> str:
    """The owner is in it, so that nothing of one owner is ever read for another. Without a question: the newest."""
    return f"compaction_app.stream.{session.owner_id}.{session.pk}.{question_id or 'newest'}"


class _Elsewhere:
    """A reply that another process makes."""

    pause = _SHARE_SECONDS

    def __init__(self, key: str, parts: list[Part]) -> None:
        self._key, self._parts = key, parts

    @property
    def stored_to(self) -> int | None:
        found: int | None = cache.get(f"{self._key}.tip")
        return found

    @property
    def parts(self) -> list[Part]:
        self._parts = cache.get(self._key) or [*self._parts, {"type": "error", "errorText": _INTERRUPTED}, END]
        release_connections()
        return self._parts

    def stop(self) -> None:
        cache.set(f"{self._key}.stop", self._parts[0]["messageId"], _LOST_SECONDS)


def find(session: ChatSession, question_id: int | None) -> Reply | _Elsewhere | None:
    """A reply of this session that is under way; ``question_id``: what it answers, by default what was asked last."""
    for one in reversed(list(_under_way.values())):
        if one.question.session_id == session.pk and question_id in (None, one.question.pk):
            return one
    question_id = question_id or cache.get(key_of(session))
    key = key_of(session, question_id)
    parts = cache.get(key) if question_id else None
    return _Elsewhere(key, parts) if parts and parts[-1] != END else None


def under_way(session: ChatSession) -> dict[int, int]:
    """The questions that are being answered, as far as this process and the cache know, and how far this is stored."""
    here = [one.question.pk for one in list(_under_way.values()) if one.question.session_id == session.pk]
    try:
        found = {key: find(session, key) for key in (*here, cache.get(key_of(session))) if key}
        return {key: stored for key, reply in found.items() if reply and (stored := reply.stored_to)}
    except Exception as error:
        # Without a cache nobody can come back to a reply of another process.
        log_error(logger, error, step="share", session=session.pk)
        return {
            key: reply.stored_to for key in here if isinstance(reply := _under_way.get(key_of(session, key)), Reply)
        }


def settle(question: ChatMessage) -> None:
    """Stop the reply that is under way, and wait until what came of it is stored; else :class:`ReplyUnderWay`."""
    reply, until = find(question.session, question.pk), time.monotonic() + _SETTLE_SECONDS
    if reply:
        reply.stop()
    while (reply and reply.parts[-1] != END) or is_under_way(question):
        if time.monotonic() > until:
            raise ReplyUnderWay(f"A reply to message {question.pk} is under way.")
        time.sleep(reply.pause if reply else _TICK)


def response(request: HttpRequest, reply: Reply | _Elsewhere) -> StreamingHttpResponse:
    """The events of a reply from the first on, under WSGI and ASGI."""
    release_connections()
    events = _awaited(reply) if isinstance(request, ASGIRequest) else _waiting(reply)
    return sse.response(events, {"x-vercel-ai-ui-message-stream": "v1"})


def _events(reply: Reply | _Elsewhere) -> Iterator[str]:
    """Server-sent events; "" while nothing new has come."""
    at, characters, said_at, is_over = 0, 0, time.monotonic(), False
    while not is_over:
        new = reply.parts[at:]
        events = ""
        for part in new:
            delta, is_over = part.get("delta", ""), part == END
            if not delta or len(delta) > characters:
                unsent = {**part, "delta": delta[characters:]} if delta else part
                events += sse.DONE if is_over else sse.event(unsent)
            # The last one may still grow.
            at, characters = (at, len(delta)) if delta and part is new[-1] else (at + 1, 0)
        if not events and time.monotonic() - said_at > _KEEP_ALIVE_SECONDS:
            events = sse.KEEP_ALIVE
        said_at = time.monotonic() if events else said_at
        yield events


def _waiting(reply: Reply | _Elsewhere) -> Iterator[str]:
    for events in _events(reply):
        if events:
            yield events
        else:
            time.sleep(reply.pause)


async def _awaited(reply: Reply | _Elsewhere) -> AsyncIterator[str]:
    steps = _events(reply)
    # A cache may be a database, which an event loop must not wait for.
    read = sync_to_async(lambda: next(steps, None))
    while (events := await read() if isinstance(reply, _Elsewhere) else next(steps, None)) is not None:
        if events:
            yield events
        else:
            await asyncio.sleep(reply.pause)


def release_connections() -> None:
    """Give this thread's connections back: a model is waited for."""
    for connection in connections.all(initialized_only=True):
        release(connection)
