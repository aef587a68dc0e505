"""Where in the tree a sent list goes on: below the longest beginning of it that is stored.

Each message that is stored here gets a digest of itself and all above it, under a key made of ``SECRET_KEY``, in the
transaction that stores it. The digests of a list are made the same way, so that one indexed query over them finds its
longest known beginning, however long the conversation is. What follows is stored below it, as a branch.

Without a conversation's id such a beginning has a reply of ours, or everybody's "Hi" would be one chat. Two requests
with the same new message store it twice, and each has a reply of its own: nothing is waited for, nothing lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.crypto import salted_hmac

from compaction_app import chat
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.conversation.recall import other_calls
from compaction_app.conversation.stream import STOPPED
from compaction_app.exceptions import DuplicateExternalId, MessageNotFound
from compaction_app.messages.openai_format import parse_arguments
from compaction_app.messages.originals import messages_of
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.managers import lock_session
from compaction_app.values import Role

Fields = dict[str, Any]

_SALT = "compaction_app.contrib.gateway"
_READ = ("role", "content", "refusal", "tool_calls", "tool_call_id", "name")
_COPIED = ("role", "content", "tool_calls", "tool_call_id", "name", "attachments", "metadata")
#: Messages at the end of a list that are looked up first.
_LAST_TURN = 16
#: Noted on what a client says that the model, a tool or the host wrote.
BY_CLIENT = {"written_by": "client"}
#: Open WebUI shows reasoning in such a block, or takes it out of the text that a model put it in.
_DETAILS, _END_OF_DETAILS = '<details type="reasoning"', "</details>"
_THOUGHT = re.compile(r"\A\s*<(think(?:ing)?|reason(?:ing)?|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a list ended up."""

    session: ChatSession
    #: The last message of the list, which is answered.
    tip: ChatMessage
    digest: str
    has_reply: bool
    #: All of the list was stored before: another reply is wanted.
    is_known: bool = False


def fields_of(sent: Mapping[str, Any]) -> Fields:
    """A message of a client in the keywords of ``append_message``.

    Only what the chat format says is read; reasoning that the client sends back is that of a reply which we have.
    """
    [read] = messages_of({key: sent[key] for key in _READ if sent.get(key) is not None}, "client")
    calls = [{key: call[key] for key in ("id", "type", "function")} for call in read["tool_calls"]]
    return {**read, "tool_calls": calls}


def digests_of(messages: Sequence[Mapping[str, Any]], start: str) -> Iterator[str]:
    """``start``: the digest of the message above, or the owner's id above a first one."""
    for message in messages:
        start = salted_hmac(_SALT, start + _identity(message), algorithm="sha256").hexdigest()
        yield start


def _identity(message: Mapping[str, Any]) -> str:
    """What two requests have in common of one message, whatever a client does to it in between."""
    role, text = message["role"], message.get("content") or ""
    calls = [
        (call["id"], call["function"]["name"], parse_arguments(arguments) or arguments)
        for call in message.get("tool_calls") or ()
        for arguments in [call["function"].get("arguments")]
    ]
    files = [{key: one.get(key) for key in ("url", "file_id")} for one in message.get("attachments") or ()]
    if role == Role.ASSISTANT:
        # Clients join its parts, and show a picture in a form of their own.
        text, files = _shown(text), []
    return json.dumps([role, text.strip(), calls, message.get("tool_call_id") or "", files], sort_keys=True)


def _shown(text: str) -> str:
    """What clients have in common of a reply's text: without reasoning, on one line."""
    *blocks, rest = text.split(_END_OF_DETAILS)
    kept = [block.partition(_DETAILS)[0] if _DETAILS in block else block + _END_OF_DETAILS for block in blocks]
    return " ".join(_THOUGHT.sub("", "".join([*kept, rest])).split())


def place(user: Any, messages: Sequence[Fields], external_id: str, again: bool, **made_with: Any) -> Place:
    """Find where the list goes on, and store what is new of it: all of that or nothing.

    ``external_id``: the conversation's id, or "". ``again``: the client got no answer to this list and repeats it.
    ``made_with``: of a new session. An older one gets its ``system_prompt``: what the client sends now is what counts,
    and the admin shows it.
    """
    try:
        found = _place(user, messages, external_id, again, made_with)
    except (DuplicateExternalId, MessageNotFound):
        # Another request made the session meanwhile, or somebody deleted what was found.
        found = _place(user, messages, external_id, again, made_with)
    session, prompt = found.session, made_with["system_prompt"]
    if session.system_prompt != prompt and is_allowed(user, session, Action.CHANGE):
        session.system_prompt = prompt
        ChatSession.objects.using(made_with["using"]).filter(pk=session.pk).update(system_prompt=prompt)
    return found


def _place(user: Any, messages: Sequence[Fields], external_id: str, again: bool, made_with: Mapping[str, Any]) -> Place:
    digests, using = list(digests_of(messages, str(user.pk))), made_with["using"]
    session, found = None, None
    if external_id:
        session = ChatSession.objects.using(using).filter(owner=user, external_id=external_id).first()
    if session or not external_id:
        known = BranchDigest.objects.using(using).filter(message__session__owner=user)
        unanswered = Q(digest=digests[-1], message__children_set=None) if again else Q()
        known = known.filter(Q(message__session=session) if session else Q(has_reply=True) | unanswered)
        known = known.select_related("message__session").order_by("-message__depth", "-message_id")
        # Most lists go on with the last turn.
        parts = (digests[-_LAST_TURN:], digests[:-_LAST_TURN])
        found = next((row for part in parts for row in known.filter(digest__in=part)[:1]), None)
    if found:
        session = found.message.session
    own = ChatMessage.objects.using(using).filter(**{"session": session} if external_id else {"session__owner": user})
    if not is_allowed(user, session, Action.APPEND if session else Action.CREATE):
        raise PermissionDenied
    known_count = digests.index(found.digest) + 1 if found else 0
    if stopped := _stopped_reply(messages, digests, known_count, own):
        at, content = stopped
        messages = [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]
        return _place(user, messages, external_id, again, made_with)
    has_reply = bool(found and found.has_reply)
    if found and session and known_count == len(digests):
        return Place(session=session, tip=found.message, digest=found.digest, has_reply=has_reply, is_known=True)
    with transaction.atomic(using=using):
        if session is None:
            session = chat.start_session(owner=user, external_id=external_id, **made_with)
        new = [one if one["role"] == Role.USER else {**one, "metadata": BY_CLIENT} for one in messages[known_count:]]
        # A result whose call is not there becomes a quoted text.
        rows = chat.append_messages(session, found.message if found else None, new, lenient=True)
        _remember(rows, digests[known_count:], has_reply, rows[0].parent_message_id, using)
    return Place(session=session, tip=rows[-1], digest=digests[-1], has_reply=has_reply)


def _stopped_reply(
    messages: Sequence[Fields], digests: Sequence[str], known_count: int, own: QuerySet[ChatMessage]
) -> tuple[int, str] | None:
    """The first unknown reply of the list, if it is the beginning of one that was stopped: its place, and all of it.

    A client that hangs up has not seen the last chunks, or not all of what was sent when that was noticed.
    """
    at = next((at for at in range(max(known_count, 1), len(messages)) if messages[at]["role"] == Role.ASSISTANT), None)
    if at is None or messages[at]["tool_calls"]:
        return None
    kept = own.filter(parent__gateway_digest__digest=digests[at - 1], finish_reason=STOPPED)
    texts = kept.exclude(gateway_digest=None).order_by("-pk").values_list("content", flat=True)
    begun = _shown(messages[at]["content"])
    return next(((at, text) for text in texts[:_LAST_TURN] if _shown(text).startswith(begun)), None)


def place_beside(at: Place, using: str) -> Place:
    """The last message once more, as a sibling: another request has a model answer the first one."""
    message = {key: getattr(at.tip, key) for key in _COPIED}
    with transaction.atomic(using=using):
        [tip] = chat.append_messages(at.session, at.tip.parent, [message], lenient=True)
        _remember([tip], [at.digest], at.has_reply, tip.parent_message_id, using)
    return replace(at, tip=tip)


def remember_reply(at: Place, reply: ChatMessage, using: str) -> None:
    """Have the reply found when it is sent back. A client was shown no searches, and goes on below their results."""
    [digest] = digests_of([{**vars(reply), "tool_calls": other_calls(reply)}], at.digest)
    _remember([chat.answer_recalls(reply) or reply], [digest], True, at.tip.pk, using)


def _remember(
    rows: Sequence[ChatMessage], digests: Sequence[str], has_reply: bool, above: int | None, using: str
) -> None:
    """Not where any of what they are made of was redacted meanwhile: a redaction has the session's lock too."""
    top = rows[0]
    with transaction.atomic(using=using):
        lock_session(top.session_id, using)
        stored = ChatMessage.objects.using(using).filter(pk=top.pk, redacted_at=None)
        if stored and (above is None or BranchDigest.objects.using(using).filter(message=above)):
            made = zip(rows, digests, strict=True)
            BranchDigest.objects.using(using).bulk_create(
                [BranchDigest(message=row, digest=digest, has_reply=has_reply) for row, digest in made],
                ignore_conflicts=True,
            )
