"""Metadata of a stored message: the only column of a message that a host may change later."""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction

from compaction_app.conf import site_setting
from compaction_app.exceptions import InvalidMessage, MessageNotFound
from compaction_app.messages.validation import check_json
from compaction_app.models import ChatMessage
from compaction_app.models.managers import lock_session
from compaction_app.tree.branches import check_instance, database_of


def annotate_message(message: ChatMessage, /, **metadata: Any) -> ChatMessage:
    """Set keys of a stored message's ``metadata``; returns the message as it is stored now.

    ``chat.annotate_message(reply, feedback="up", rating=None)``: other keys stay as they are, and None removes a key.
    Values are JSON, and ``metadata`` may have ``MAX_MESSAGE_BYTES``. Models never see it, and redaction clears it.
    Raises :class:`InvalidMessage` for a summary, and for values that cannot be stored.
    """
    check_instance(message, ChatMessage, "message")
    if message.is_summary:
        raise InvalidMessage("A summary cannot be annotated.", field="message")
    check_json(metadata, "metadata")
    using = database_of(message)
    rows = ChatMessage.objects.using(using).filter(pk=message.pk)
    with transaction.atomic(using=using):
        # Two annotations at once, or one and a redaction: each must see what the other wrote.
        lock_session(message.session_id, using)
        row = rows.select_related("session").first()
        if row is None:
            raise MessageNotFound(f"Message {message.pk} does not exist any more.")
        merged = {key: value for key, value in {**row.metadata, **metadata}.items() if value is not None}
        size, allowed = len(json.dumps(merged, ensure_ascii=False).encode()), site_setting("MAX_MESSAGE_BYTES")
        if size > allowed:
            problem = f"metadata has {size:,} bytes; MAX_MESSAGE_BYTES allows {allowed:,}."
            raise InvalidMessage(problem, field="metadata")
        rows.update(metadata=merged)
        row.metadata = merged
    return row
