"""Where in the tree a sent list goes on: below the longest beginning of it that is stored, or below a reply of ours.

Each message that is stored here gets two digests, in the transaction that stores it: of itself and all above it, and of
itself alone (see :mod:`identity`). The digests of a list are made the same way. One indexed query finds its longest
beginning, however long the conversation is; what follows is stored below it, as a branch.

A client may leave messages out, or change what it sent before. Where replies follow that are not below that beginning,
the last of them that a model gave here is looked for by itself: its words or calls, or its question and what came of
it. It counts if the list says nothing above it that the branch does not say, but for a reminder at its newest messages:
all else is an edit. What the client left out is still on the branch, so the model sees that or its summary. What is not
on the branch of the instructions there is stored below the reply, which is known under the client's own list then.

Without a conversation's id a beginning has a reply of ours, or everybody's "Hi" would be one chat; and a branch with
questions that the list has not is believed only where what both have is much, and no other conversation has as much of
it: the model would be shown another one's words. Two requests with the same new message store it twice, and each has a
reply of its own: nothing is waited for, nothing lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate, groupby, islice
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.db.models import F, Q

from compaction_app import chat
from compaction_app.api.permissions import Action, is_allowed
from compaction_app.contrib.gateway.identity import INSTRUCTIONS, Fields, Likeness, Said, is_same_reply, likeness
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.conversation.append import BY_CLIENT
from compaction_app.conversation.recall import other_calls
from compaction_app.conversation.stream import STOPPED
from compaction_app.exceptions import DuplicateExternalId, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.columns import names
from compaction_app.models.database import atomic, database_of, fetch, locked, locked_message
from compaction_app.values import Role

#: Of a message that is stored once more.
_COPIED = {*names(ChatMessage, exported=True)} - {"external_id", "created_at"}
#: Messages at the end of a list that are looked up first; replies of it that are looked for by themselves.
_LAST_TURN = 16
_LAST_REPLIES = 8
#: Stored messages that are compared with one reply of a list, and with what is above it.
_MOST_CANDIDATES = 8
_MOST_COMPARED = 500
#: Of a branch with more questions than the list: letters, or messages, that both have.
_ENOUGH_LETTERS, _ENOUGH_MESSAGES = 40, 4
#: Where that is one message, or a question was changed: common phrases would do.
_ENOUGH_ALONE = 200


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
    #: What this request is answered under: another one may change the session's prompt meanwhile.
    system_prompt: str = ""
    contributions: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """A stored message that the list goes on below."""

    message: ChatMessage
    has_reply: bool
    #: Messages of the list up to it.
    count: int
    #: It was found by itself. Instructions that the list has above it, and the branch has not.
    is_renamed: bool = False
    instructions: Sequence[Fields] = ()


def place(
    user: Any,
    messages: Sequence[Fields],
    external_id: str,
    again: bool,
    below: ChatMessage | None = None,
    **made_with: Any,
) -> Place:
    """Find where the list goes on, and store what is new of it: all of that or nothing.

    ``external_id``: the conversation's id, or "". ``again``: the client got no answer to this list and repeats it.
    ``below``: the message that the list follows; else it begins the conversation.
    ``made_with``: of a new session. An older one gets its ``system_prompt`` from a list that goes on with a reply of
    its own: any other may be a request for a title. Whoever may not change it adds to it.
    """
    try:
        found = _place(user, messages, external_id, again, below, made_with)
    except (DuplicateExternalId, MessageNotFound):
        # Another request made the session meanwhile, or somebody deleted what was found.
        found = _place(user, messages, external_id, again, below, made_with)
    session, prompt = found.session, made_with["system_prompt"]
    if session.system_prompt == prompt:
        return replace(found, system_prompt=prompt)
    if not is_allowed(user, session, Action.CHANGE):
        added = [{"role": Role.SYSTEM, "content": prompt}] if prompt else []
        return replace(found, system_prompt=session.system_prompt, contributions=added)
    if found.has_reply:
        session.system_prompt = prompt
        ChatSession.objects.using(made_with["using"]).filter(pk=session.pk).update(system_prompt=prompt)
    return replace(found, system_prompt=prompt)


def _place(
    user: Any,
    messages: Sequence[Fields],
    external_id: str,
    again: bool,
    below: ChatMessage | None,
    made_with: Mapping[str, Any],
) -> Place:
    using = made_with["using"]
    sessions = ChatSession.objects.using(using).filter(owner=user)
    session = sessions.filter(external_id=external_id).first() if external_id else None
    session = below.session if below else session
    sent = _SentList(user, messages, session, sessions, below)
    found = sent.find(again) if session or not external_id else None
    session = found.message.session if found else session
    if not is_allowed(user, session, Action.APPEND if session else Action.CREATE):
        raise PermissionDenied
    count, has_reply = (found.count, found.has_reply) if found else (0, False)
    if found and session and count == len(messages):
        digest = sent.digest
        return Place(session=session, tip=found.message, digest=digest, has_reply=has_reply, is_known=True)
    with transaction.atomic(using=using):
        if session is None:
            session = chat.start_session(owner=user, external_id=external_id, **made_with)
        above: Sequence[Fields] = found.instructions if found else ()
        new = [*above, *messages[count:]]
        new = [one if one["role"] == Role.USER else {**one, "metadata": BY_CLIENT} for one in new]
        # A result whose call is not there becomes a quoted text.
        rows = chat.append_messages(session, found.message if found else None, new, lenient=True)
        # No list has those instructions there.
        digests = [*[""] * len(above), *sent.digests[count:]]
        _remember(rows, digests, has_reply, rows[0].parent_message_id)
        if found and found.is_renamed:
            named = BranchDigest.objects.using(using).filter(pk=found.message.pk)
            named.update(digest=sent.digests[count - 1])
    return Place(session=session, tip=rows[-1], digest=digests[-1], has_reply=has_reply)


class _SentList:
    """A list of a client, and what of it is stored for its user: in one session, or with ``session`` None in any.

    ``below``: what it follows; else it begins a conversation.
    """

    def __init__(
        self,
        user: Any,
        messages: Sequence[Fields],
        session: ChatSession | None,
        sessions: Any,
        below: ChatMessage | None = None,
    ) -> None:
        self.messages, self._owner_id, self._session, self._below = messages, user.pk, session, below
        self._said = list(map(Said, messages))
        stored = BranchDigest.objects.using(sessions.db).select_related("message__session")
        above = stored.filter(message=below).values_list("digest", flat=True).first() if below else ""
        begin = above or (f"below {below.pk}" if below else str(user.pk))
        _, *self.digests = accumulate(self._said, lambda above, one: one.digest(above), initial=begin)
        #: Of all of it.
        self.digest = self.digests[-1] if self.digests else begin
        mine = {"message__session": session} if session else {"message__session__owner": user}
        self._stored = stored.filter(**mine)
        #: Of the branch that was compared last, by their ids: the next one mostly has the same messages.
        self._read: dict[int, Said] = {}
        self._likeness = cache(likeness)

    @cached_property
    def _own(self) -> list[set[str]]:
        """The digests that each message may have by itself: a reply is one of ours, or what the client says is one."""
        return [
            {one.own_digest(self._owner_id, is_reply=is_reply) for is_reply in {False, one.role == Role.ASSISTANT}}
            for one in self._said
        ]

    def find(self, again: bool) -> Beginning | None:
        beginning = self._longest_beginning(again)
        if self._below:
            return beginning or Beginning(message=self._below, has_reply=True, count=0)
        known = beginning.count if beginning else 0
        replies = [at for at in range(known, len(self.messages)) if self._said[at].role == Role.ASSISTANT]
        # The first one, too: a client may go on without us behind a reply that it stopped.
        places = sorted({*replies[:1], *replies[-_LAST_REPLIES:]}, reverse=True)
        if not places:
            return beginning
        found = self._last_of(self._same_replies(places), beginning)
        return found or self._last_of(self._replies_to_the_same(places), beginning) or beginning

    def _longest_beginning(self, again: bool) -> Beginning | None:
        unanswered = Q(digest=self.digest, message__children_set=None) if again else Q()
        known = self._stored if self._session else self._stored.filter(Q(has_reply=True) | unanswered)
        known = known.order_by("-message__depth", "-message_id")
        # Most lists go on with the last turn.
        for part in (self.digests[-_LAST_TURN:], self.digests[:-_LAST_TURN]):
            for row in known.filter(digest__in=part)[:1]:
                count = self.digests.index(row.digest) + 1
                return Beginning(message=row.message, has_reply=row.has_reply, count=count)
        return None

    def _same_replies(self, places: Sequence[int]) -> Iterator[tuple[int, ChatMessage]]:
        at = {self._said[place].own_digest(self._owner_id, is_reply=True): place for place in reversed(places)}
        for row in self._stored.filter(own__in=at).order_by("-message_id")[: _MOST_CANDIDATES * _LAST_REPLIES]:
            yield at[row.own], row.message

    def _replies_to_the_same(self, places: Sequence[int]) -> Iterator[tuple[int, ChatMessage]]:
        """Replies to the message above, of which the list has what a client may have made."""
        at = {own: place for place in reversed(places) if place for own in self._own[place - 1]}
        asked = self._stored.filter(message__parent__gateway_digest__own__in=at)
        rows = asked.annotate(own_above=F("message__parent__gateway_digest__own")).order_by("-message_id")
        for row in rows[: _MOST_CANDIDATES * _LAST_REPLIES]:
            place = at[row.own_above]
            if row.message.role == Role.ASSISTANT and _is_reply(self._said[place], Said(vars(row.message))):
                yield place, row.message

    def _last_of(self, found: Iterable[tuple[int, ChatMessage]], beginning: Beginning | None) -> Beginning | None:
        """Below the last reply of the list that is stored, on the branch that has most of what is above it."""
        newest_first = sorted(found, key=lambda one: (one[0], one[1].pk), reverse=True)
        for at, group in groupby(newest_first, key=lambda one: one[0]):
            compared = [self._compare(at, reply, beginning) for _, reply in islice(group, _MOST_CANDIDATES)]
            same = sorted((one for one in compared if one), key=lambda one: one.shared, reverse=True)
            if same and (self._session or same[0].is_certain(same[1:])):
                best = same[0]
                known = {"count": at + 1, "has_reply": True, "is_renamed": True}
                return Beginning(message=best.reply, instructions=best.instructions, **known)
        return None

    def _compare(self, at: int, reply: ChatMessage, beginning: Beginning | None) -> _Match | None:
        """What the branch above a reply and the list above its place have in common; None: the list has an edit."""
        path = dict(fetch(sql.PATH_IDS, {"node": reply.pk, "min_depth": 1}, reply))
        floor, first = 0, 0
        if beginning and beginning.message.pk in path:
            # What is known of the list from its beginning is the same.
            floor, first = path[beginning.message.pk], beginning.count
        ids = [pk for pk, depth in path.items() if depth > floor and pk != reply.pk]
        rows = ChatMessage.objects.in_database_of(reply).filter(pk__in=ids).exclude(role=Role.TOOL).order_by("-depth")
        above = list(rows.values_list("pk", "role", "gateway_digest__own"))
        stored, sent = {own for *_, own in above}, set[str]().union(*self._own[first:at])
        others = [pk for pk, _, own in above if own not in sent][:_MOST_COMPARED]
        is_there = {place: not stored.isdisjoint(self._own[place]) for place in range(first, at)}
        if not all(is_there.values()):
            # Read only where the list has something else.
            new = rows.in_bulk([pk for pk in others if pk not in self._read])
            texts = {**self._read, **{pk: Said(vars(row)) for pk, row in new.items()}}
            self._read = {pk: texts[pk] for pk in others if pk in texts}
        left = {role: iter([one for one in self._read.values() if one.role == role]) for role in Role}
        match = _Match(reply)
        for said in (*self._said[:first], self._said[at]):
            match.add(said)
        is_changed, questions = True, 0
        for place in reversed(range(first, at)):
            said, role = self._said[place], self._said[place].role
            if role in INSTRUCTIONS and not is_there[place]:
                match.instructions.insert(0, self.messages[place])
            elif role == Role.USER:
                questions += 1
                if is_there[place]:
                    match.add(said)
                    is_changed = False
                    continue
                # A machine changes the newest messages. Above one that is as it was, a person did.
                enough = Likeness.ALIKE if is_changed else Likeness.LESS
                how = (self._likeness(said, one) for one in left[role])
                if (found := next((one for one in how if one >= enough), None)) is None:
                    return None
                match.likeness = min(match.likeness, found)
                if found == Likeness.LESS:
                    match.weight += said.weight
            elif role == Role.ASSISTANT:
                if not is_there[place] and not any(_is_reply(said, one) for one in left[role]):
                    return None
                match.add(said)
        match.has_more = sum(role == Role.USER for _, role, _ in above) > questions
        return match


def _is_reply(sent: Said, stored: Said) -> bool:
    is_ours = stored.message["metadata"] != BY_CLIENT
    return is_ours and is_same_reply(sent, stored, is_stopped=stored.message["finish_reason"] == STOPPED)


@dataclass(eq=False)
class _Match:
    """A stored reply that is at a place of a list, as far as both say the same."""

    reply: ChatMessage
    #: Messages that both have as they are, and what they weigh.
    shared: int = 0
    weight: int = 0
    #: Of the questions that the client changed.
    likeness: Likeness = Likeness.SAME
    #: The branch has questions that the list does not have.
    has_more: bool = False
    instructions: list[Fields] = field(default_factory=list)

    def add(self, said: Said) -> None:
        if said.role in (Role.USER, Role.ASSISTANT):
            self.shared += 1
            self.weight += said.weight

    def is_certain(self, others: Sequence[_Match]) -> bool:
        """Whether it cannot be of another conversation, of which the model would be shown more than was sent."""
        if not self.has_more and self.likeness > Likeness.ALIKE:
            return True
        if any(one.shared == self.shared and one.reply.session_id != self.reply.session_id for one in others):
            return False
        if self.has_more and (self.likeness < Likeness.SAME or self.shared == 1):
            return self.weight >= _ENOUGH_ALONE
        return self.weight >= _ENOUGH_LETTERS or self.shared >= _ENOUGH_MESSAGES


def place_beside(at: Place) -> Place:
    """The last message once more, as a sibling: another request has a model answer the first one."""
    with atomic(at.session):
        asked = locked_message(at.tip)
        message = {key: getattr(asked, key) for key in _COPIED}
        [tip] = chat.append_messages(at.session, asked.parent, [message], lenient=True)
        _remember([tip], [at.digest], at.has_reply, tip.parent_message_id)
    return replace(at, tip=tip)


def remember_reply(at: Place, reply: ChatMessage, external_id: str = "") -> None:
    """Have the reply found when it is sent back, or named. A client was shown no searches, and goes on below those."""
    name_message(reply, external_id)
    shown = Said({**vars(reply), "tool_calls": other_calls(reply)})
    own = shown.own_digest(at.session.owner_id, is_reply=True)
    _remember([chat.answer_recalls(reply) or reply], [shown.digest(at.digest)], True, at.tip.pk, own)


def name_message(message: ChatMessage, external_id: str) -> None:
    """Store the id that the client was given for this message, unless it has one."""
    if external_id and not message.external_id:
        message.external_id = external_id
        ChatMessage.objects.in_database_of(message).filter(pk=message.pk).update(external_id=external_id)


def messages_named(user: Any, external_ids: Collection[str]) -> dict[str, ChatMessage]:
    """Of a user's messages those with these ids."""
    rows = ChatMessage.objects.using(router.db_for_write(ChatSession)).messages().select_related("session")
    found = rows.filter(session__owner=user, external_id__in={*external_ids} - {""}).exclude(external_id="")
    return {row.external_id: row for row in found} if external_ids else {}


def _remember(
    rows: Sequence[ChatMessage], digests: Sequence[str], has_reply: bool, above: int | None, own: str = ""
) -> None:
    """Not where any of what they are made of was redacted meanwhile: a redaction has the session's lock too."""
    top = rows[0]
    known = BranchDigest.objects.using(database_of(top))
    with locked(top):
        stored = ChatMessage.objects.in_database_of(top).filter(pk=top.pk, redacted_at=None)
        if stored and (above is None or known.filter(message=above)):
            owner_id = top.session.owner_id
            made = [
                BranchDigest(
                    message=row, digest=digest, has_reply=has_reply, own=own or Said(vars(row)).own_digest(owner_id)
                )
                for row, digest in zip(rows, digests, strict=True)
            ]
            known.bulk_create(made, ignore_conflicts=True)
