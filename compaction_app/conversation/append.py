"""Storing a session, a message, or a chain of messages: everything or nothing. Only metadata may be changed later.

A message with an idempotency key is stored once, however often it is sent: the database allows one per session and
key, and a second request with it gets the stored message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NoReturn, Unpack

from django.conf import settings as django_settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from compaction_app.conf import site_setting
from compaction_app.conversation.usage import prompt_tokens, provider_compaction, record_reply, sent_context
from compaction_app.exceptions import DuplicateExternalId, IdempotencyConflict, InvalidMessage
from compaction_app.messages import validation
from compaction_app.messages.originals import Writer, become_text, items_joined, messages_of, with_known_keys
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.columns import checks_of, everything, names
from compaction_app.models.database import atomic, database_of, locked_message
from compaction_app.tree.branches import check_instance
from compaction_app.values import BESIDE_A_TEXT, ChatContext, Contents, MessageFields, Role

_MESSAGE_KEYS = names(ChatMessage, exported=True)
#: Begins the idempotency keys that this app makes. A client's key may not, or its message would be taken for ours.
_OWN_KEYS = "compaction_app:"
#: Metadata of what a client says that the model, a tool or the host wrote.
BY_CLIENT = {"written_by": "client"}
#: What an original says where none of these is given beside it.
_READ_FROM_ORIGINAL = {*Contents.__annotations__, "tool_call_id"} - {"original", "attachments"}
#: All that can still be compared on a redacted message.
_KEPT_BY_REDACTION = names(ChatMessage, exported=True, leaves=everything)


class OwnKey(str):
    """An idempotency key that this app makes, of names and numbers of its own: what a client wrote may be too long."""

    def __new__(cls, text: str) -> OwnKey:
        return super().__new__(cls, _OWN_KEYS + text)


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
    """Store a new conversation and return it; every argument is optional.

    - ``owner``: the user whose conversation it is.
    - ``model``: the chat model's name, which decides the context window.
    - ``system_prompt``: sent first, never summarized.
    - ``settings``: overrides keys of ``COMPACTION``, such as ``{"TRIGGER_RATIO": 0.6}``.
    - ``external_id``: your own id, unique for this owner. ``metadata``: JSON of yours.
    - ``using``: the database, by default that of the router.

    Raises :class:`InvalidMessage`, :class:`ConfigurationError`
    for ``settings`` that are not valid, :class:`DuplicateExternalId`.
    """
    for name, text in {"title": title, "model": model, "system_prompt": system_prompt}.items():
        validation.check_text(text, name)
    validation.check_text(external_id or "", "external_id")
    validation.check_dict(settings, "settings", "It overrides keys of COMPACTION.")
    validation.check_dict(metadata, "metadata")
    session = ChatSession(
        owner=owner,
        title=title,
        model=model,
        system_prompt=system_prompt,
        settings=dict(settings or {}),
        external_id=external_id or "",
        metadata=dict(metadata or {}),
    )
    using = using or database_of(session)
    same = ChatSession.objects.using(using).filter(owner=owner, external_id=session.external_id)
    try:
        with transaction.atomic(using=using):
            session.save(using=using)
    except IntegrityError as error:
        _raise_typed(error, same)
    return session


def _raise_typed(error: IntegrityError, same: QuerySet[Any]) -> NoReturn:
    """Raise :class:`DuplicateExternalId` if ``same`` has a row, whose external_id was to be stored again."""
    taken = same.exclude(external_id="").values_list("external_id", flat=True).first()
    if taken is None:
        raise error
    raise _duplicate(taken) from error


def _duplicate(external_id: str) -> DuplicateExternalId:
    words = f"{DuplicateExternalId.__doc__} It is {external_id!r}."
    return DuplicateExternalId(words, external_id=external_id)


def append_message(
    session: ChatSession,
    parent: ChatMessage | None = None,
    *,
    context: ChatContext | None = None,
    idempotency_key: str = "",
    lenient: bool = False,
    **message: Unpack[MessageFields],
) -> ChatMessage:
    """Store one message below ``parent`` (None: a new root). A second child of one parent is a fork.

    - ``content``: a text, or content parts: their texts are joined, images and files become attachments. Anthropic's
      blocks and Responses items are read too (calls, results, reasoning); of what is unknown there is a line in the
      text, and what came is kept in ``original``.
    - ``tool_calls``: of an assistant's message, ``[{"id": "call_1", "type": "function", "function": {"name": "weather",
      "arguments": "{}"}}]``. ``tool_call_id``: of a tool's message, the call that it answers.
    - ``name``: of a participant or a tool. ``reasoning``: the provider's reasoning blocks, as they are.
    - ``original``: ``{"format": "anthropic", "endpoint": "", "data": …}``, what came, where the fields could not give
      it back; where no content, calls or reasoning are passed, they are read from it. ``finish_reason``: how a reply
      ended.
    - ``attachments``: ``[{"type": "image", "name": "roof.jpg", "url": "https://…", "mime_type": "image/jpeg",
      "tokens": 255}]``; all keys are optional.
    - ``usage``: the provider's report, ``{"prompt_tokens": 812, "completion_tokens": 40}``. ``model``: which answered.
    - ``context``: what was sent to get this reply, of :func:`get_context`. It is recorded, with an event where it was
      cut to fit, and with ``usage`` it calibrates the token estimate for ``model``; anything in ``usage`` that
      is not a token count is stored and ignored.
    - ``metadata``: JSON of yours. ``external_id``: your own id, unique in the session. ``created_at``: by default now;
      without a time zone it is in ``TIME_ZONE``, whichever zone is active. The session's dates follow those of its
      messages: it began no later than the first one, and was used when the newest one was written.
    - ``idempotency_key``: with the same message again it returns the stored one, with another one it raises
      :class:`IdempotencyConflict`.
    - ``lenient``: a tool's result that answers no open call is stored as a quoted text of the user role. Else it is
      refused.

    A call without an id, or with that of another call of the message, gets an id; arguments are stored as they are,
    an object as its JSON.

    Raises :class:`InvalidMessage`, and writes nothing, for a message that cannot be stored; :class:`InvalidParent`
    where it cannot follow ``parent``; :class:`DuplicateExternalId` where another message of the session has its
    ``external_id``.
    """
    key = idempotency_key
    return append_once(session, parent, message, context=context, idempotency_key=key, lenient=lenient)


def append_once(
    session: ChatSession,
    parent: ChatMessage | None,
    message: Mapping[str, Any],
    *,
    context: ChatContext | None = None,
    idempotency_key: str = "",
    lenient: bool = False,
    writer: Writer = "host",
) -> ChatMessage:
    """:func:`append_message` of a dict with its keywords, whoever wrote it."""
    node, *others = _nodes(session, message, writer)
    if others:
        words = "The content has several results of tools: each is a message, so pass it to append_messages."
        raise InvalidMessage(words, field="content")
    compaction = provider_compaction(node.usage, node.metadata)
    # What was counted of a prompt that its provider compacted does not show how it counts.
    counted = None if compaction else prompt_tokens(node.usage)
    if context is not None:
        if not isinstance(context, ChatContext):
            raise InvalidMessage("context must be what chat.get_context() returned.", field="context")
        # Providers answer with a dated name; the calibration is stored under the name that was asked.
        context = replace(context, model=context.model or node.model or session.model)
        node.sent_context = sent_context(context, counted, session.token_calibration)
    if parent is not None:
        check_instance(parent, ChatMessage, "parent")
    if idempotency_key:
        check_key(idempotency_key)
        node.idempotency_key = idempotency_key
        if (found := _stored_before(node, parent)) is not None:
            return found
    try:
        # Where nothing else is written, an append is a transaction of its own, and waits less often for the database.
        is_recorded = bool(compaction) or (context is not None and bool(counted or context.fallback_used))
        with atomic(session) if is_recorded else nullcontext():
            chain = ChatMessage.objects.append_chain(parent, [node], savepoint=not is_recorded, lenient=lenient)
            stored = chain[0]
            record_reply(session, stored, compaction, counted, context)
    except IntegrityError as error:
        # Sent twice at once: the other one got the session's lock first, and the database took one of them. Its
        # external_id is the same, but that is no conflict.
        if idempotency_key and (found := _stored_before(node, parent)) is not None:
            return found
        rows = ChatMessage.objects.in_database_of(session)
        _raise_typed(error, rows.filter(session_id=node.session_id, external_id=node.external_id))
    session.created_at = min(session.created_at, stored.created_at)
    return stored


def check_key(key: str) -> None:
    validation.check_text(key, "idempotency_key", longest=255)
    if key.startswith(_OWN_KEYS) and not isinstance(key, OwnKey):
        raise InvalidMessage(f"Keys that begin with {_OWN_KEYS} are the app's own.", field="idempotency_key")


def _stored_before(node: ChatMessage, parent: ChatMessage | None) -> ChatMessage | None:
    """The message that was stored with this key; :class:`IdempotencyConflict` if it is another one."""
    rows = ChatMessage.objects.in_database_of(node).filter(session_id=node.session_id)
    found = rows.filter(idempotency_key=node.idempotency_key).first()
    if found is None:
        return None
    # Of a redacted one the text is removed, so the rest is all that can be compared.
    compared = _MESSAGE_KEYS if found.redacted_at is None else _KEPT_BY_REDACTION
    if node.role == Role.TOOL and found.role == Role.USER:
        # It may have been stored leniently.
        become_text(node)
    kept = {name: getattr(found, name) for name in compared if name != "created_at"}
    if "metadata" in kept:
        # Set later, over the API.
        data = found.metadata
        kept["metadata"] = {key: data[key] for key in data if key != "feedback" or key in node.metadata}
    same = all(value == json.loads(json.dumps(getattr(node, name))) for name, value in kept.items())
    if not same or found.parent_message_id != (parent.pk if parent else None):
        raise IdempotencyConflict(f"{IdempotencyConflict.__doc__} It belongs to message {found.pk}.")
    return found


def append_messages(
    session: ChatSession, parent: ChatMessage | None, messages: Sequence[Mapping[str, Any]], *, lenient: bool = False
) -> list[ChatMessage]:
    """Store a chain of messages below ``parent``, each below the one before it: all of them or none.

    ``messages``: dicts with the arguments of :func:`append_message`, without ``context`` and ``idempotency_key``; also
    messages of pydantic-ai and LangChain as their libraries dump them, and items of the Responses API. One that holds
    several results of tools (Anthropic's user message, a request of pydantic-ai) becomes a message for each.
    Returns the stored messages in order; the last one is the new tip. A system message that opens a conversation
    without a system prompt becomes the session's system prompt, and is not in the result; it may have no more than a
    text, and an id, which is not kept. No model is asked, nothing is enqueued. Errors are those of
    :func:`append_message`, and say which message they mean, by its ``external_id`` or its place from 0::

        chat.append_messages(session, None, [
            {"role": "user", "content": "Hello", "created_at": sent_at, "external_id": "m-1"},
            {"role": "assistant", "content": "Hi. How can I help?", "external_id": "m-2"},
        ])
    """
    validation.check_list_of_dicts(messages, "messages", "messages (dicts in the OpenAI chat format)")
    check_instance(session, ChatSession, "session")
    if parent is not None:
        check_instance(parent, ChatMessage, "parent")
    nodes: list[ChatMessage] = []
    #: The message that each node is of.
    places: list[int] = []
    for place, message in items_joined(messages):
        with validation.named(place, external_id=message.get("external_id")):
            nodes += _nodes(session, message)
        places += [place] * (len(nodes) - len(places))
    system_prompt = None
    with atomic(session):
        if parent is None and nodes and nodes[0].role == Role.SYSTEM:
            with validation.named(places[0], external_id=nodes[0].external_id):
                becomes_prompt = _becomes_system_prompt(nodes[0], messages[0])
            if becomes_prompt:
                system_prompt = nodes.pop(0).content
                places.pop(0)
        given = Counter(node.external_id for node in nodes if node.external_id)
        for external_id, times in given.items():
            if times > 1:
                raise _duplicate(external_id)
        same = ChatMessage.objects.in_database_of(session).filter(session_id=session.pk, external_id__in=given)
        try:
            with atomic(session):
                stored = ChatMessage.objects.append_chain(
                    parent, nodes, savepoint=False, lenient=lenient, places=places
                )
        except IntegrityError as error:
            _raise_typed(error, same)
    # Not before: of a call that fails nothing is stored.
    session.created_at = min([session.created_at, *(node.created_at for node in stored)])
    if system_prompt is not None:
        session.system_prompt = system_prompt
    return stored


def _becomes_system_prompt(node: ChatMessage, given: Mapping[str, Any]) -> bool:
    """Store the message as its session's system prompt, if the session has none; one statement decides and locks."""
    max_bytes = site_setting("MAX_MESSAGE_BYTES")
    validation.validate_message(vars(node), checks_of(ChatMessage), max_bytes=max_bytes)
    without = ChatSession.objects.in_database_of(node).filter(pk=node.session_id, system_prompt="")
    if not without.update(system_prompt=node.content):
        return False
    # Keys of a client that nobody knows may go; what somebody wrote as metadata may not.
    lost = [key for key in BESIDE_A_TEXT if getattr(node, key) and (key != "metadata" or given.get(key))]
    # Nor is a host's own id kept, which every message of a copied conversation has.
    if lost not in ([], ["external_id"]):
        raise InvalidMessage(
            "A system message that opens a conversation becomes the session's system prompt, which is a text only: "
            f"leave out {', '.join(lost)}.",
            field=lost[0],
        )
    return True


def _nodes(session: ChatSession, message: Mapping[str, Any], writer: Writer = "host") -> list[ChatMessage]:
    check_instance(session, ChatSession, "session")
    if writer == "host":
        message = with_known_keys(message, _MESSAGE_KEYS)
    original = message.get("original")
    if original and not any(message.get(key) for key in _READ_FROM_ORIGINAL):
        validation.check_original(original)
        data = original["data"]
        came = {"content": data} if isinstance(data, list) else data if isinstance(data, Mapping) else {}
        role = {"role": message.get("role")}
        given = role | {key: value for key, value in message.items() if value not in (None, "", [])}
        return [_node(session, {**one, **given}) for one in messages_of({**role, **came}, writer)]
    return [_node(session, one) for one in messages_of(message, writer)]


def _node(session: ChatSession, message: Mapping[str, Any]) -> ChatMessage:
    values = {key: message[key] for key in _MESSAGE_KEYS if message.get(key) not in (None, "")}
    for key in ("tool_calls", "attachments"):
        if key in values and isinstance(values[key], list | tuple):
            values[key] = list(values[key]) or None
    validation.check_dict(message.get("usage") or None, "usage", "Of the openai client, pass usage.model_dump().")
    validation.check_reasoning(message.get("reasoning"))
    validation.check_text(message.get("external_id") or "", "external_id")
    validation.check_datetime(message.get("created_at"))
    if "created_at" in values and django_settings.USE_TZ and timezone.is_naive(values["created_at"]):
        # Like the days in summaries: in TIME_ZONE, not in the zone that a request happens to have activated.
        values["created_at"] = timezone.make_aware(values["created_at"], timezone.get_default_timezone())
    for key in ("metadata", "usage"):
        if key in values and isinstance(values[key], Mapping):
            values[key] = dict(values[key])
    values.setdefault("role", message.get("role"))
    node = ChatMessage(session_id=session.pk, **values)
    # Assigned, it would have to be of the same database, and one that was read from a replica is not.
    node._state.fields_cache["session"], node._state.db = session, database_of(session)
    return node


def annotate_message(message: ChatMessage, /, **metadata: Any) -> ChatMessage:
    """Set keys of a stored message's ``metadata``; returns the message as it is stored now.

    ``chat.annotate_message(reply, feedback="up", rating=None)``: other keys stay as they are, and None removes a key.
    Values are JSON, and ``metadata`` may have ``MAX_MESSAGE_BYTES``. Models never see it, and redaction clears it.
    Raises :class:`InvalidMessage` for a summary, and for values that cannot be stored.
    """
    check_instance(message, ChatMessage, "message")
    if message.is_summary:
        raise InvalidMessage("A summary cannot be annotated.", field="message")
    validation.check_json(metadata, "metadata")
    with atomic(message):
        # Two annotations at once, or one and a redaction: each must see what the other wrote.
        row = locked_message(message)
        merged = {key: value for key, value in {**row.metadata, **metadata}.items() if value is not None}
        size, allowed = len(json.dumps(merged, ensure_ascii=False).encode()), site_setting("MAX_MESSAGE_BYTES")
        if size > allowed:
            problem = f"metadata has {size:,} bytes; MAX_MESSAGE_BYTES allows {allowed:,}."
            raise InvalidMessage(problem, field="metadata")
        ChatMessage.objects.in_database_of(row).filter(pk=row.pk).update(metadata=merged)
        row.metadata = merged
    return row
