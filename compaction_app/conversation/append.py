"""Storing what was said: a session, a message, a chain of messages. All of a call is stored, or none of it.

A message that comes with an idempotency key is stored once, however often it is sent: the database allows one a
session and key, and who comes second is given the first one's message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings as django_settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from compaction_app.context.budget import calibration_of
from compaction_app.conversation import sendings
from compaction_app.exceptions import IdempotencyConflict, InvalidMessage
from compaction_app.messages.validation import (
    check_datetime,
    check_dict,
    check_json,
    check_list_of_dicts,
    check_reasoning,
    check_text,
)
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import check_instance, database_of
from compaction_app.values import ChatContext, Role

#: Keys of a message dict that ``append_messages`` knows, in the OpenAI chat format and this app's additions.
_MESSAGE_KEYS = (
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "reasoning",
    "attachments",
    "usage",
    "model",
    "metadata",
    "created_at",
    "external_id",
)
#: What a redaction leaves as it is: all that can still be compared of a message that was redacted.
_KEPT_BY_REDACTION = ("role", "tool_call_id", "model", "external_id")
#: Set by this app, or not part of what was said.
_NOT_COMPARED = ("created_at",)


def start_session(
    *,
    owner: Any = None,
    title: str = "",
    model: str = "",
    system_prompt: str = "",
    settings: Mapping[str, Any] | None = None,
    external_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> ChatSession:
    """Begin a conversation. ``settings`` overrides keys of ``COMPACTION`` for it; wrong ones raise."""
    check_json(system_prompt, "system_prompt")
    check_json(title, "title")
    check_text(model, "model")
    check_dict(settings, "settings", "It overrides keys of COMPACTION.")
    check_dict(metadata, "metadata")
    session = ChatSession(
        owner=owner,
        title=title,
        model=model,
        system_prompt=system_prompt,
        settings=dict(settings or {}),
        external_id=external_id or "",
        metadata=dict(metadata or {}),
    )
    session.save(using=using)
    return session


def append_message(
    session: ChatSession,
    parent: ChatMessage | None = None,
    *,
    role: str,
    content: str = "",
    tool_calls: Sequence[Mapping[str, Any]] | None = None,
    tool_call_id: str = "",
    name: str = "",
    reasoning: Any = None,
    attachments: Sequence[Mapping[str, Any]] | None = None,
    usage: Mapping[str, Any] | None = None,
    model: str = "",
    metadata: Mapping[str, Any] | None = None,
    context: ChatContext | None = None,
    created_at: Any = None,
    external_id: str | None = None,
    idempotency_key: str = "",
) -> ChatMessage:
    """Store one message below ``parent`` (None: a new root). A second child of one parent is a fork.

    ``context``: what was sent to get this reply; it is recorded, with an event where messages had to be left
    out, and with ``usage`` it calibrates the token estimate for ``model``; what is no count of tokens there is kept
    and not read. ``idempotency_key``: sent again with the same message it gives back the stored one, with another
    :class:`IdempotencyConflict`. ``created_at`` without a time zone is in that of ``TIME_ZONE``, whichever is active.
    Raises :class:`InvalidMessage` (nothing is written) for what can not be stored.
    """
    message = {
        "role": role,
        "content": content,
        "tool_calls": tool_calls,
        "tool_call_id": tool_call_id,
        "name": name,
        "reasoning": reasoning,
        "attachments": attachments,
        "usage": usage,
        "model": model,
        "metadata": metadata,
        "created_at": created_at,
        "external_id": external_id,
    }
    return append_once(session, parent, message, context=context, idempotency_key=idempotency_key).message


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append gives back; not new where its idempotency key had stored it before."""

    message: ChatMessage
    is_new: bool


def append_once(
    session: ChatSession,
    parent: ChatMessage | None,
    message: Mapping[str, Any],
    *,
    context: ChatContext | None = None,
    idempotency_key: str = "",
) -> Appended:
    """:func:`append_message` of a dict with its keywords, for who wants to know whether it was there already."""
    node = _node(session, message)
    if context is not None:
        if not isinstance(context, ChatContext):
            raise InvalidMessage("context must be what chat.get_context() returned.", field="context")
        # Providers answer under a dated name; what is learned is looked up under the one that was asked.
        asked = context.model or message.get("model") or session.model
        factor = calibration_of(session.token_calibration, asked)
        usage, metadata = message.get("usage"), message.get("metadata")
        node.sent_context = sendings.sent_context(context, usage=usage, metadata=metadata, calibration=factor)
    using = database_of(session)
    if parent is not None:
        check_instance(parent, ChatMessage, "parent")
    if not idempotency_key:
        return Appended(_stored(session, parent, node, context, using), is_new=True)
    check_text(idempotency_key, "idempotency_key", longest=255)
    node.idempotency_key = idempotency_key
    if (found := _stored_before(node, parent, using)) is not None:
        return Appended(found, is_new=False)
    try:
        return Appended(_stored(session, parent, node, context, using), is_new=True)
    except IntegrityError:
        # Sent twice at once: the other one got the session's lock first, and the database took one of them.
        if (found := _stored_before(node, parent, using)) is None:
            raise
        return Appended(found, is_new=False)


def _stored(
    session: ChatSession, parent: ChatMessage | None, node: ChatMessage, context: ChatContext | None, using: str
) -> ChatMessage:
    usage, metadata, model = node.usage, node.metadata, node.model
    with transaction.atomic(using=using):
        stored = ChatMessage.objects.db_manager(using).append_chain(parent, [node])[0]
        if context is not None:
            sendings.note_fallback(stored, context, using)
        # What the provider counted after it compacted says nothing of how it counts.
        compacted = sendings.note_double_ran(stored, usage, metadata, using)
        if context is not None and usage and not compacted:
            sendings.calibrate(session, context.model or model or session.model, usage, context, using)
    return stored


def _stored_before(node: ChatMessage, parent: ChatMessage | None, using: str) -> ChatMessage | None:
    """The message that this session's key stands for already; raises where it is another one."""
    rows = ChatMessage.objects.using(using).filter(session_id=node.session_id, idempotency_key=node.idempotency_key)
    found = rows.first()
    if found is None:
        return None
    compared = [name for name in _MESSAGE_KEYS if name not in _NOT_COMPARED]
    if found.redacted_at is not None:
        # Its text is gone, and with it what the one that comes now could be compared with.
        compared = list(_KEPT_BY_REDACTION)
    same = all(_alike(getattr(found, name), getattr(node, name)) for name in compared)
    if not same or found.parent_message_id != (parent.pk if parent else None):
        raise IdempotencyConflict(f"{IdempotencyConflict.__doc__} It stands for message {found.pk}.")
    return found


def _alike(kept: Any, given: Any) -> bool:
    """Whether JSON that was read back is what is given now. PostgreSQL gives 1.5e300 back as a whole number."""
    if isinstance(kept, Mapping) and isinstance(given, Mapping):
        return kept.keys() == given.keys() and all(_alike(kept[key], given[key]) for key in kept)
    if isinstance(kept, list | tuple) and isinstance(given, list | tuple):
        return len(kept) == len(given) and all(map(_alike, kept, given))
    if isinstance(kept, bool) or isinstance(given, bool):
        return kept is given
    if isinstance(kept, int) and isinstance(given, float):
        return kept == Decimal(repr(given))
    return bool(kept == given)


def append_messages(
    session: ChatSession, parent: ChatMessage | None, messages: Sequence[Mapping[str, Any]]
) -> list[ChatMessage]:
    """Store a chain of messages (dicts in the OpenAI chat format): all of them or none.

    A system message that opens a conversation without a system prompt becomes the session's system prompt.
    """
    check_list_of_dicts(messages, "messages", "messages (dicts in the OpenAI chat format)")
    messages = list(messages)
    check_instance(session, ChatSession, "session")
    if parent is not None:
        check_instance(parent, ChatMessage, "parent")
    using = database_of(session)
    with transaction.atomic(using=using):
        if parent is None and messages and messages[0].get("role") == Role.SYSTEM and not session.system_prompt:
            opening = messages.pop(0)
            check_json(opening.get("content"), "system_prompt")
            session.system_prompt = str(opening.get("content") or "")
            session.save(using=using, update_fields=["system_prompt"])
        nodes = [_node(session, message) for message in messages]
        return ChatMessage.objects.db_manager(using).append_chain(parent, nodes)


def _node(session: ChatSession, message: Mapping[str, Any]) -> ChatMessage:
    check_instance(session, ChatSession, "session")
    if unknown := sorted(set(message) - set(_MESSAGE_KEYS)):
        raise InvalidMessage(f"Unknown message keys {unknown}; known are {list(_MESSAGE_KEYS)}.", field=unknown[0])
    values = {key: message[key] for key in _MESSAGE_KEYS if message.get(key) not in (None, "")}
    for key in ("tool_calls", "attachments"):
        if key in values and isinstance(values[key], list | tuple):
            values[key] = list(values[key]) or None
    check_dict(message.get("usage") or None, "usage", "Of the openai client, pass usage.model_dump().")
    check_reasoning(message.get("reasoning"))
    check_datetime(message.get("created_at"))
    if "created_at" in values and django_settings.USE_TZ and timezone.is_naive(values["created_at"]):
        # As the days of summaries: the zone of TIME_ZONE, and not the one that a request happens to have activated.
        values["created_at"] = timezone.make_aware(values["created_at"], timezone.get_default_timezone())
    for key in ("metadata", "usage"):
        if key in values and isinstance(values[key], Mapping):
            values[key] = dict(values[key])
    values.setdefault("role", message.get("role"))
    return ChatMessage(session=session, **values)
