"""The branch that a framework works on: what is read at its tip, and what is stored below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import openai
from django.db import transaction

from compaction_app import chat
from compaction_app.compaction.runs import give_back_connection, require_no_transaction
from compaction_app.context import windows
from compaction_app.context.overflow import overflow_of_error
from compaction_app.conversation.append import append_once
from compaction_app.messages.originals import items_joined, messages_of
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.values import ChatContext, ContextMessage, Origin, Role

#: In place of a tip: that of the branch that was used last.
NEWEST: Any = object()


class FrameworkBranch:
    """A conversation and its tip, which moves with each message that is stored; None: nothing is stored yet."""

    def __init__(self, session: ChatSession, tip: ChatMessage | None = NEWEST, **options: Any) -> None:
        """``options``: of ``get_context``, for every request: ``model``, ``reserved_tokens``."""
        self.session = session
        self.using = database_of(session)
        self._tip = tip
        self._options = {name: option for name, option in options.items() if option is not None}
        #: What was shown last and has no reply yet.
        self._shown: ChatContext | None = None

    @property
    def tip(self) -> ChatMessage | None:
        if self._tip is NEWEST:
            self._tip = next(reversed(chat.tips(self.session)), None)
        return self._tip

    @tip.setter
    def tip(self, tip: ChatMessage | None) -> None:
        self._tip = tip

    def show(self, *instructions: str, **options: Any) -> list[ContextMessage]:
        """What is sent at the tip beside these instructions of the framework, which are only counted.

        Neither a transaction nor a connection is held: a model is asked next.
        """
        require_no_transaction(self.using)
        if self.tip is None:
            return []
        counted = [{"role": Role.SYSTEM, "content": text} for text in instructions if text]
        options = {**self._options, "contributions": counted, **options}
        self._shown = chat.get_context(self.tip, **options).with_addresses()
        give_back_connection(self.using)
        return [message for message in self._shown.messages if message.origin != Origin.CONTRIBUTION]

    def store(self, given: Sequence[Mapping[str, Any]], **reply: Any) -> None:
        """Store messages in any format below the tip, all of them or none.

        With the first one of the model its context is recorded, and ``reply``: its usage and its name.
        """
        messages = [one for _, message in items_joined(given) for one in messages_of(message, "host")]
        at = next((at for at, one in enumerate(messages) if one["role"] == Role.ASSISTANT), len(messages))
        tip = self.tip
        with transaction.atomic(using=self.using):
            if at < len(messages) and self._shown:
                tip = self._append(tip, messages[:at])
                answer = {**messages[at], **reply}
                tip = append_once(self.session, tip, answer, context=self._shown, lenient=True).message
                self._shown, messages = None, messages[at + 1 :]
            tip = self._append(tip, messages)
        self._tip = tip

    def _append(self, tip: ChatMessage | None, messages: Sequence[Mapping[str, Any]]) -> ChatMessage | None:
        return next(reversed(chat.append_messages(self.session, tip, messages, lenient=True)), tip)

    def learn_from(self, error: Exception) -> None:
        """Keep the window that a provider names where it finds the prompt too long: the next one is fitted to it."""
        raised = next((one for one in (error, error.__cause__) if isinstance(one, openai.APIError)), None)
        overflow = overflow_of_error(raised) if raised else None
        if overflow and overflow.window and not overflow.is_rate and self._shown:
            place = (windows.endpoint_of(), self._shown.model)
            windows.remember_window(place, overflow.window, windows.learned_of(place))
            self.compact()

    def compact(self, **options: Any) -> None:
        """Ask for a compaction in the background, where one is due."""
        if self.tip is not None:
            chat.request_compaction(self.tip, **{**self._options, **options})
