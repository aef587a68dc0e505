"""Where in the tree a request asks a model, and the new message that it stores there.

A page sends its list of messages. The tree is the truth: of the list only the ids and the last message count, which is
the user's, or has what the page's tools returned for calls that are open. Everything is looked up in one session.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from django.db.models import Q
from pydantic import BaseModel, ConfigDict, Field

from compaction_app.api.codes import Code, Problem
from compaction_app.api.schemas import JsonObject
from compaction_app.contrib.stream.replies import settle
from compaction_app.conversation.append import BY_CLIENT, OwnKey, append_once
from compaction_app.conversation.recall import answer_recalls, other_calls
from compaction_app.exceptions import InvalidMessage
from compaction_app.messages.media import media_type
from compaction_app.messages.validation import as_id, make_storable
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.database import fetch
from compaction_app.values import Role

#: Files of text whose media type does not say so.
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})
#: From the end of the list; the tree knows the nearest of them, unless replies have failed so often.
_MOST_LOOKED_UP = 50


# Not django-ninja's Schema, which would drop the fields that are for the host.
class UIMessage(BaseModel):
    id: str = Field(default="", max_length=255)
    role: str = ""
    parts: list[JsonObject] = Field(default_factory=list)
    metadata: Any = None

    def told(self, name: str) -> str:
        """A value of the metadata that the stream sent: ``questionId`` came first, ``id`` when the reply was stored."""
        return str(self.metadata.get(name) or "") if isinstance(self.metadata, dict) else ""

    @property
    def text(self) -> str:
        return "\n\n".join(str(part.get("text") or "") for part in self.parts if part.get("type") == "text")

    @property
    def files(self) -> list[JsonObject]:
        return [part for part in self.parts if part.get("type") == "file"]


class Asking(BaseModel):
    """What ``DefaultChatTransport`` sends; other fields are for the host."""

    model_config = ConfigDict(extra="allow")

    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messages: list[UIMessage] = Field(default_factory=list, description="The last five are enough.")
    message_id: str | None = Field(
        None, alias="messageId", description="Of the user's message that is edited, or of the reply."
    )
    message: UIMessage | None = Field(None, description="In place of `messages`: the new message alone.")
    parent_id: str | None = Field(None, alias="parentId", description="With `message`: what it follows.")

    @property
    def is_again(self) -> bool:
        return self.trigger == "regenerate-message"


def find_or_append(
    session: ChatSession, body: Asking, is_of_page: Callable[[Mapping[str, Any]], bool] = lambda call: False
) -> ChatMessage:
    """The message at which a model is asked; a new one is stored first, once for its id.

    ``is_of_page``: whether the page runs a call, and may say what it returned.
    """
    *above, last = [*body.messages, *([body.message] if body.message else [])][-_MOST_LOOKED_UP:] or [UIMessage()]
    tree = _Tree(session, [*above, last], body.message_id, body.parent_id)
    if body.is_again:
        named = next((one for one in [*above, last] if one.id == body.message_id), UIMessage(id=body.message_id or ""))
        question = tree.question_of(last if last.role == Role.USER else named)
        if question:
            # Another one is wanted in its place.
            settle(question)
    elif last.role == Role.ASSISTANT:
        found = tree.row_of(last)
        question = _append_results(found, last.parts, is_of_page) if found else None
    elif last.role != Role.USER:
        raise Problem(Code.INVALID, "body.messages: The last one must be the user's.")
    elif not last.text.strip() and not last.files:
        raise InvalidMessage("The message has neither a text nor a file.", field="messages")
    elif body.message_id and body.message_id == last.id:
        edited = tree.known(last.id)
        question = _append(session, edited.parent, last, external_id="") if edited else None
    elif body.message_id and not tree.known(body.message_id):
        question = None
    else:
        return _append(session, _parent(tree, body, above), last, external_id=last.id)
    if question is None:
        raise Problem(Code.INVALID_PARENT, "body.messages: There is no such message in this session.")
    return question


class _Tree:
    """The rows that a list of messages names, in one query."""

    def __init__(self, session: ChatSession, messages: Sequence[UIMessage], *ids: str | None) -> None:
        told = {one for message in messages for one in (message.id, message.told("id"), message.told("questionId"))}
        named = (told | set(filter(None, ids))) - {""}
        self.rows = ChatMessage.objects.in_database_of(session).messages().filter(session=session)
        found = self.rows.filter(Q(pk__in=filter(None, map(as_id, named))) | Q(external_id__in=named))
        rows = list(found.select_related("session", "parent").defer("original", "reasoning"))
        # A number is always an id of the tree.
        self._known = {one.external_id: one for one in rows if one.external_id} | {str(one.pk): one for one in rows}

    def known(self, name: str) -> ChatMessage | None:
        return self._known.get(name)

    def row_of(self, message: UIMessage) -> ChatMessage | None:
        """A page goes on calling an edited message by its first id, and a reply by the one of its stream."""
        row = self.known(message.told("id")) or self.known(message.id)
        asked = self.known(message.told("questionId")) if message.role == Role.ASSISTANT else None
        # The end of its stream never came, or is of the stream before: the page stopped it or lost its connection.
        if asked and (row is None or row.pk < asked.pk):
            return self.end_of_reply(asked)
        if row is None or row.role != Role.USER or message.role != Role.USER or message.text in ("", row.content):
            return row
        edited = self.rows.filter(parent=row.parent, role=Role.USER, content=message.text)
        return edited.select_related("session", "parent").order_by("-pk").first() or row

    def end_of_reply(self, row: ChatMessage) -> ChatMessage:
        """The last message of the newest reply, which is stopped first; without one, the question itself."""
        settle(row)
        return self._first_of(sql.REPLY_END, row) or row

    def question_of(self, message: UIMessage) -> ChatMessage | None:
        """The user's message that a reply answers, above the tools that it called."""
        row = self.row_of(message)
        return row if row is None or row.role == Role.USER else self._first_of(sql.TURN_REQUEST, row)

    def _first_of(self, statement: str, row: ChatMessage) -> ChatMessage | None:
        """The message that a statement finds from a row: one query, however long the chain between them is."""
        found = fetch(statement, {"node": row.pk, "min_depth": 1}, self.rows)
        return self.rows.filter(pk__in=[pk for (pk,) in found]).select_related("session", "parent").first()


def _parent(tree: _Tree, body: Asking, above: Sequence[UIMessage]) -> ChatMessage | None:
    if body.message:
        if "parent_id" not in body.model_fields_set:
            # The newest message is always a tip.
            newest = tree.rows.select_related("session").order_by("-pk").first()
            return tree.end_of_reply(newest) if newest else None
        above = [UIMessage(id=body.parent_id)] if body.parent_id else []
    parent = next((row for one in reversed(above) if (row := tree.row_of(one))), None)
    # A first message that could not be stored is still in the page's list.
    if parent is None and above and (tree.rows.exists() or body.message):
        raise Problem(Code.INVALID_PARENT, "body.messages: None of those before the new one is in this session.")
    if parent and parent.role == Role.USER:
        # The page stopped its reply before anything came.
        settle(parent)
    return parent


def _append(session: ChatSession, parent: ChatMessage | None, message: UIMessage, external_id: str) -> ChatMessage:
    if as_id(external_id) is not None:
        raise Problem(Code.INVALID_PARENT, "body.messages: There is no such message in this session.")
    texts = [message.text, *filter(None, map(_text_of_file, message.files))]
    fields = {
        "role": Role.USER,
        "content": "\n\n".join(filter(None, texts)),
        "attachments": [_attachment(part) for part in message.files] or None,
        "external_id": external_id,
    }
    return append_once(session, parent, fields, idempotency_key=external_id, writer="client")


def _attachment(part: Mapping[str, Any]) -> dict[str, Any]:
    kind, _, _ = str(part.get("mediaType") or "").partition("/")
    named = {"mime_type": part.get("mediaType"), "name": part.get("filename"), "url": part.get("url")}
    kept = {name: str(value) for name, value in named.items() if value}
    return {"type": kind if kind in ("image", "audio") else "file", **kept}


def _text_of_file(part: Mapping[str, Any]) -> str:
    """What a text file says: models take no such file, and only a text is redacted, found and summarized."""
    url = str(part.get("url") or "")
    kind = media_type(url) and str(part.get("mediaType") or media_type(url)).lower()
    if not (kind.startswith("text/") or kind in _TEXT_TYPES):
        return ""
    head, _, data = url.partition(",")
    try:
        read = base64.b64decode(data) if head.lower().endswith(";base64") else unquote_to_bytes(data)
    except ValueError:
        raise InvalidMessage("A file's data: URL is not base64.", field="messages") from None
    return f"[{part.get('filename') or 'file'}]\n{make_storable(read.decode(errors='replace'))}"


def _append_results(
    tip: ChatMessage, parts: Sequence[Mapping[str, Any]], is_of_page: Callable[[Mapping[str, Any]], bool]
) -> ChatMessage:
    """What the page's tools returned for the calls of a reply, each once; ``tip``: the reply, or a result below it."""
    outputs = {
        part.get("toolCallId"): part.get("output") if part.get("state") == "output-available" else part.get("errorText")
        for part in parts
        if part.get("state") in ("output-available", "output-error")
    }
    row, answered = tip, set[str]()
    if tip.role == Role.TOOL:
        # Some results are stored: the server's, or those of an earlier request.
        group = ChatMessage.objects.in_database_of(tip).raw(sql.CALL_GROUP, {"parent": tip.pk})
        row = max((one for one in group if one.role != Role.TOOL), key=lambda one: one.depth, default=tip)
        answered = {one.tool_call_id for one in group}
    # The model's searches are answered here.
    tip = (answer_recalls(row) if row is tip else None) or tip
    for number, call in enumerate(other_calls(row)):
        if call["id"] in outputs and call["id"] not in answered:
            if not is_of_page(call):
                words = f"The result of {call['id'][:100]!r} is not the page's to say: the server runs this tool."
                raise InvalidMessage(words, field="messages")
            output = outputs[call["id"]]
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            fields = {"role": Role.TOOL, "tool_call_id": call["id"], "content": text, "metadata": BY_CLIENT}
            key = OwnKey(f"result-{row.pk}-{number}")
            tip = append_once(tip.session, tip, fields, idempotency_key=key, writer="client")
    return tip
