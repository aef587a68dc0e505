"""Conversations of other products: their exports are read as trees, and trees are written in their forms.

A module for each product has its ``read``, which makes a document of the OpenAI chat format of one of its
conversations, and ChatGPT's has ``write``, which goes the other way. They are written against the documented shapes and
what exports are seen to contain: a key that is missing or of another type is as absent, and no reason to lose the
conversation.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from compaction_app.contrib.histories import (
    chatgpt,
    claude,
    claude_code,
    codex,
    deepseek,
    librechat,
    open_assistant,
    open_webui,
)
from compaction_app.contrib.histories.files import documents_of
from compaction_app.models import ChatMessage, ChatSession, MessagePin
from compaction_app.models.columns import names
from compaction_app.transfer import importing
from compaction_app.transfer.formats import Conversation, FormatReader
from compaction_app.transfer.importing import Refused
from compaction_app.values import Kind

_PRODUCTS = (claude_code, codex, deepseek, chatgpt, claude, open_webui, librechat, open_assistant)
READERS: tuple[FormatReader, ...] = tuple(product.read for product in _PRODUCTS)
#: The form → what writes a document of the OpenAI chat format in it.
WRITERS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "openai": lambda document: document,
    "chatgpt": chatgpt.write,
}


def exported(session: ChatSession, form: str = "openai") -> str:
    """A conversation as JSON in a form of :data:`WRITERS`, on one line, as :func:`read` reads it back."""
    return json.dumps(WRITERS[form](document_of(session)), ensure_ascii=False)


def document_of(session: ChatSession) -> dict[str, Any]:
    """The stored conversation in the OpenAI chat format, with ``id`` and ``parent``; without summaries.

    A redacted message stays as its redaction left it. ``REDACTOR`` is for what is sent to models: this is its owner's.
    """
    messages: list[dict[str, Any]] = []
    ids: dict[int | None, str] = {}
    # A client's own ids may look like those that are made here.
    alike = set(session.messages.filter(external_id__startswith="message-").values_list("external_id", flat=True))
    pinned = set(MessagePin.objects.using(session._state.db).filter(session=session).values_list("pk", flat=True))
    for row in session.messages.filter(kind=Kind.MESSAGE).order_by("pk").iterator(chunk_size=500):
        made = (f"message-{row.pk}{'-' * number}" for number in count())
        ids[row.pk] = row.external_id or next(one for one in made if one not in alike)
        place: dict[str, Any] = {
            "id": ids[row.pk],
            "parent": ids.get(row.parent_message_id),
            "created_at": row.created_at.isoformat(),
        }
        place |= {"redacted_at": row.redacted_at.isoformat()} if row.redacted_at else {}
        place |= {"pinned": True} if row.pk in pinned else {}
        messages.append({**place, **_given_with(row, but=("external_id", "created_at"))})
    about = {"id": str(session.pk), **_given_with(session, but=("created_at",))}
    return {**about, "created_at": session.created_at.isoformat(), "messages": messages}


def _given_with(row: ChatMessage | ChatSession, but: Sequence[str]) -> dict[str, Any]:
    """What an export has of it as it is: dates and ids of messages have forms of their own there."""
    kept = (name for name in names(type(row), exported=True) if name not in but)
    return {name: value for name in kept if (value := getattr(row, name))}


def read(*paths: Path) -> Iterator[Conversation | Refused]:
    """The conversations of files, which are one archive: ``importing.store`` stores them as they come."""
    return importing.read(documents_of(paths), READERS)
