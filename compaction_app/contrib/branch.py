"""The branch that a framework works on: what is read at its tip, and what is stored below it.

Two rules are kept here for all frameworks. What a model is sent has passed ``REDACTOR``: the context does in
:meth:`FrameworkBranch.show`, what a framework adds or sends in its place in :func:`redacted`. An id that is kept
outside the database may be that of a deleted message: :func:`nearest` says where its branch goes on.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from threading import current_thread
from typing import Any

import openai
from asgiref.sync import SyncToAsync
from pydantic import BaseModel

from compaction_app import chat
from compaction_app.conf import get_settings
from compaction_app.context import windows
from compaction_app.context.overflow import overflow_of_error
from compaction_app.conversation.append import OwnKey, append_once
from compaction_app.exceptions import InvalidParent, MessageNotFound
from compaction_app.messages.originals import items_joined, messages_of
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.database import atomic, give_back_connection, locked, require_no_transaction
from compaction_app.redaction import Redact, redact_json, redactor_of
from compaction_app.tree.branches import message_value, path_ids
from compaction_app.values import ChatContext, ContextMessage, Origin, Role

#: In place of a tip: that of the branch that was used last.
NEWEST: Any = object()
#: Ids of a branch that are remembered, from its end.
_MOST_IDS = 500


class FrameworkBranch:
    """A conversation and its tip, which moves with each message that is stored; None: nothing is stored yet."""

    def __init__(self, session: ChatSession, tip: ChatMessage | None = NEWEST, **options: Any) -> None:
        """``options``: of ``get_context``, for every request: ``model``, ``reserved_tokens``."""
        self.session = session
        #: What is known of the ids from the root to the tip; 0: above a first message.
        self.path: tuple[int, ...] = ()
        self._tip: ChatMessage | None = NEWEST
        if tip is not NEWEST:
            self.tip = tip
        self._options = {name: option for name, option in options.items() if option is not None}
        #: What was shown last and has no reply yet; the model that it was for.
        self._shown: ChatContext | None = None
        self._model: str | None = None
        #: Where the framework asks its model: what is learned is kept under that address. None: it does not say.
        self._endpoint: str | None = None
        #: The window that the provider has named, by our count.
        self._window: int | None = None

    @property
    def tip(self) -> ChatMessage | None:
        if self._tip is NEWEST:
            self.tip = next(reversed(chat.tips(self.session)), None)
        return self._tip

    @tip.setter
    def tip(self, tip: ChatMessage | None) -> None:
        self._tip = tip
        above = (tip.parent_message_id or 0) if tip else 0
        kept = self.path[: self.path.index(above)] if above in self.path else ()
        self.path = (*kept, above, *([tip.pk] if tip else []))[-_MOST_IDS:]

    def begin(self) -> None:
        """Where a run begins: at the tip, or, where that was deleted, at the :func:`nearest` message above it."""
        if self.session.pk is None:
            raise MessageNotFound("The session does not exist any more.")
        if (tip := self.tip) is not None:
            if tip.session_id != self.session.pk:
                raise InvalidParent("The tip belongs to another session.", field="tip")
            self.go_on_below(self.path)

    def go_on_below(self, ids: Sequence[int]) -> None:
        """``ids``: of a branch, in order, as far as they are known."""
        self._tip = tip = nearest(self.session, ids)
        self.path = tuple(one for one in ids if one <= (tip.pk if tip else 0))

    def show(
        self, *instructions: str, model: str | None = None, url: Any = None, **options: Any
    ) -> list[ContextMessage]:
        """What is sent at the tip beside these instructions of the framework, which are only counted.

        ``model``, ``url``: the framework's, and where it is asked. Neither a transaction nor a connection is held: a
        model is asked next.
        """
        require_no_transaction(self.session)
        if self.tip is None:
            return []
        counted = [{"role": Role.SYSTEM, "content": text} for text in instructions if text]
        self._endpoint = windows.endpoint_of(str(url)) if url else self._endpoint
        asked = {"model": model, "window": self._window, "endpoint": self._endpoint}
        options = {**asked, **self._options, "contributions": counted, **options}
        self._shown = shown = chat.get_context(self.tip, **options).with_addresses()
        self._model = shown.model
        give_back_connection(self.session)
        return [message for message in shown.messages if message.origin != Origin.CONTRIBUTION]

    def unanswered(self) -> list[ContextMessage]:
        """What is stored below the last reply, in order."""
        rows, row = [], self.tip
        while row is not None and row.role != Role.ASSISTANT:
            rows.append(row)
            row = ChatMessage.objects.in_database_of(self.session).filter(pk=row.parent_message_id).first()
        return [message_value(one) for one in reversed(rows)]

    def go_back_to(self, called: Collection[str]) -> None:
        """Up to the reply with one of these calls and to its results, where other replies came after it: a branch."""
        path = chat.get_branch(self.tip) if self.tip and called else []
        replies = [at for at, one in enumerate(path) if one.role == Role.ASSISTANT]
        asked = [at for at in replies if any(call["id"] in called for call in path[at].tool_calls or ())]
        if asked and (at := asked[-1]) != replies[-1]:
            at = next(end for end in range(at, len(path)) if path[end + 1].role != Role.TOOL)
            self.tip = path[at]

    def store(self, given: Sequence[Mapping[str, Any]], *, key: OwnKey | None = None, **reply: Any) -> None:
        """Store messages in any format below the tip, all of them or none.

        With the first one of the model its context is recorded, and ``reply``: its usage and its name. ``key``: by
        which the last one is found again, also when it was redacted.
        """
        messages = [one for _, message in items_joined(given) for one in messages_of(message, "host")]
        at = next((at for at, one in enumerate(messages) if one["role"] == Role.ASSISTANT), len(messages))
        own, rows = {"idempotency_key": key} if key else {}, [self.tip]
        with atomic(self.session):
            if at < len(messages) and self._shown:
                answer = {**messages[at], "model": self._model or "", **reply}
                rows += self._append(rows[-1], [*messages[:at], answer], **own, context=self._shown)
                self._shown, messages = None, messages[at + 1 :]
            rows += self._append(rows[-1], messages, **own)
        for row in rows[1:]:
            self.tip = row

    def _append(
        self, tip: ChatMessage | None, messages: Sequence[Mapping[str, Any]], **about_last: Any
    ) -> list[ChatMessage]:
        # One of the system may become the session's.
        whole = messages[:-1] if about_last and messages and messages[-1]["role"] != Role.SYSTEM else messages
        rows = chat.append_messages(self.session, tip, whole, lenient=True)
        for last in messages[len(whole) :]:
            above = rows[-1] if rows else tip
            rows.append(append_once(self.session, above, last, lenient=True, **about_last))
        return rows

    def is_too_long(self, error: Exception) -> bool:
        """Whether a provider finds the prompt too long and names its window: what is shown next is fitted to that."""
        raised = next((one for one in (error, error.__cause__) if isinstance(one, openai.APIError)), None)
        overflow = overflow_of_error(raised) if raised else None
        if not (raised and overflow and overflow.window and self._shown) or overflow.is_rate:
            return False
        self._endpoint = windows.endpoint_of_request(str(raised.request.url))
        place, learned = windows.learned_at(self._endpoint, self._shown.model)
        windows.remember_window(place, overflow.window, learned)
        # It may count more tokens than we do.
        self._window = int(overflow.window / max(1.0, (overflow.sent or 0) / max(1, self._shown.tokens)))
        self.compact()
        return True

    def compact(self) -> None:
        """Ask for a compaction in the background, where one is due."""
        with suppress(MessageNotFound):
            if self.tip is None:
                return
            chat.request_compaction(self.tip, **{"model": self._model, "endpoint": self._endpoint, **self._options})

    def take_off(self) -> None:
        """Go up by one message, which is deleted where no other branch has it. The session is locked."""
        tip = self.tip
        assert tip is not None
        self.tip = tip.parent
        if not ChatMessage.objects.in_database_of(self.session).messages().filter(parent=tip).exists():
            chat.delete_message(tip)

    def clear(self) -> None:
        """Begin anew; what no other branch shares is deleted."""
        with locked(self.session):
            self.begin()
            rows = ChatMessage.objects.in_database_of(self.session).messages().filter(session=self.session)
            own: int | None = None
            parents = Counter(rows.filter(parent__isnull=False).values_list("parent_message_id", flat=True))
            for place, message_id in enumerate(path_ids(self.tip) if self.tip else ()):
                if parents[message_id] > (place > 0):
                    break
                own = message_id
            if own is not None:
                chat.delete_message(rows.get(pk=own))
        self.tip = None


def nearest(session: ChatSession, ids: Collection[int]) -> ChatMessage | None:
    """The last one of these messages of a branch that is still there; None where its first one was deleted.

    ``ids``: those that somebody keeps; 0 is what is above a first message. Where none of them is there, and more may
    have been above, it raises :class:`MessageNotFound`: to begin anew would be to forget what was said.
    """
    rows = ChatMessage.objects.in_database_of(session).messages().filter(session_id=session.pk, pk__in=ids)
    # A message is always stored after the one above it.
    found = rows.order_by("-pk").first()
    if found is None and 0 not in ids:
        words = f"Message {max(ids)} was deleted, and what is known above it: pass the message to go on below."
        raise MessageNotFound(words)
    return found


def redacted(value: Any) -> Any:
    """What a framework sends beside the context as a model may be sent it: JSON, dataclasses and Pydantic's models.

    At any depth. Of one of Pydantic's with something to redact its fields are left.
    """
    redact = redactor_of(get_settings())
    return value if redact is None else _redacted(value, redact)


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, list | tuple):
        return [_redacted(one, redact) for one in value]
    if isinstance(value, Mapping):
        return {_redacted(key, redact): _redacted(one, redact) for key, one in value.items()}
    if isinstance(value, BaseModel):
        dumped = value.model_dump(mode="json")
        return value if (new := redact_json(dumped, redact)) == dumped else new
    if not is_dataclass(value) or isinstance(value, type):
        return redact_json(value, redact)
    had = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    changed = {name: new for name, one in had.items() if (new := _redacted(one, redact)) != one}
    return replace(value, **changed) if changed else value


def unknown(items: Iterable[Any], known: Counter[Any], key: Callable[[Any], Any]) -> list[Any]:
    """The items whose keys are not among the known ones; each that is counts them down."""
    others = []
    for item in items:
        if known[name := key(item)]:
            known[name] -= 1
        else:
            others.append(item)
    return others


def tool_schema(name: str, description: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A framework's tool as it is counted."""
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def refuse_blocked_thread() -> None:
    """Raise where this event loop runs in the thread that the database is asked in: ``run_sync`` in an ASGI view."""
    request = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.get(request) if request else None
    # By its name: an executor notes a thread only after it was started, when it may be here already.
    if current_thread().name.startswith(f"{getattr(executor, '_thread_name_prefix', None)}_"):
        raise RuntimeError("run_sync would wait for itself here: call async_to_sync(agent.run)(…) instead.")
