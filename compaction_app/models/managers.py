"""The queryset of messages, and treebeard's node API over an append-only tree.

treebeard's own adjacency list runs a query per ancestor, recurses once per level, and its root operations span the
whole table. Here every read is one recursive statement (``sql``), roots belong to their session, and every write
locks the session first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models
from django.db.models.deletion import Collector
from django.db.models.expressions import RawSQL
from django.db.models.signals import post_save, pre_save
from treebeard.al_tree import AL_NodeManager
from treebeard.utils import check_create_args

from compaction_app.conf import MAX_INTEGER, get_token_counter, site_setting
from compaction_app.exceptions import ImmutableTree, InvalidMessage, InvalidParent, MessageNotFound
from compaction_app.messages.open_calls import NONE_OPEN, OpenCalls, goes_on_calling, open_calls_after
from compaction_app.messages.originals import become_text
from compaction_app.messages.transcript import RECALLED, RECALLED_POSITION
from compaction_app.messages.validation import named, validate_message
from compaction_app.models import sql
from compaction_app.models.columns import blank, checks_of
from compaction_app.models.database import RowQuerySet, atomic, connection_of, fetch, lock_and_read
from compaction_app.models.lineage import numbered_path
from compaction_app.tokens import TOKENS_PER_MISSING_RESULT, count_messages
from compaction_app.values import Kind, Role

if TYPE_CHECKING:
    from compaction_app.models import ChatMessage, ChatSession, CompactionRun  # noqa: F401  # named in a string
    from compaction_app.models.database import Near

#: What a message and its copy have in common, and nothing changes.
ALIKE = ("created_at", "role")
#: Its place, also where a session goes on after another one.
_NUMBER = models.F("depth") + models.functions.Coalesce("session__numbered_from", 0)
#: The columns that say where a message is in its tree.
_PLACE = frozenset({"parent_message_id", "lane_id", "depth", "sib_order", "path_tokens"})


def refuse_write(*args: Any, **kwargs: Any) -> NoReturn:
    """In place of what Django and treebeard write with: it would leave sums, lanes and summaries as they were."""
    raise ImmutableTree(
        "Use chat.append_message to add a message, or a variant of one: a stored one is never moved, and never changed "
        "but for metadata (chat.annotate_message) and what chat.redact_message or chat.delete_message removes."
    )


refuse_write.alters_data = True  # type: ignore[attr-defined]  # Django's own marker for templates


class ChatMessageQuerySet(RowQuerySet["ChatMessage"]):
    """Nodes by kind and state."""

    def messages(self) -> ChatMessageQuerySet:
        return self.filter(kind=Kind.MESSAGE)

    def summaries(self) -> ChatMessageQuerySet:
        return self.filter(kind=Kind.SUMMARY)

    def live(self) -> ChatMessageQuerySet:
        return self.filter(kind=Kind.SUMMARY, retired_at__isnull=True)

    def tips(self) -> ChatMessageQuerySet:
        """Messages that no message follows."""
        following = self.model._base_manager.filter(parent=models.OuterRef("pk"), kind=Kind.MESSAGE)
        return self.messages().filter(~models.Exists(following))

    def same_as(self, message: ChatMessage) -> ChatMessageQuerySet:
        """A message, its copies, and of a copy the one that was copied.

        After ``loaddata``, or when SQLite makes the table anew, the id of a deleted one may be used again: by a message
        that was written at another time, or is in another place.
        """
        first = message.copy_of or message.pk
        written = {name: getattr(message, name) for name in ALIKE}
        own = self.model._base_manager.using(self.db).filter(pk=message.pk).annotate(number=_NUMBER).values("number")
        same = self.messages().filter(models.Q(pk=first) | models.Q(copy_of=first), **written)
        found: ChatMessageQuerySet = same.alias(number=_NUMBER).filter(number=models.Subquery(own[:1]))
        return found

    def in_session(self, session_id: Any) -> ChatMessageQuerySet:
        """A session's nodes in the order of their ids, in a form that only the index on (session, id) serves.

        With a plain equality PostgreSQL may walk the primary key instead, until it has met enough of the session's
        rows: a second where a million other rows come first.
        """
        return self.filter(session__gte=session_id, session__lte=session_id).order_by("session_id", "id")

    delete = refuse_write


if TYPE_CHECKING:
    # treebeard has no types; these are the inherited members in use.
    class _NodeManager(models.Manager["ChatMessage"]):
        def all(self) -> ChatMessageQuerySet: ...
        def using(self, alias: str | None) -> ChatMessageQuerySet: ...
        def in_database_of(self, near: Near) -> ChatMessageQuerySet: ...
        def filter(self, *args: Any, **kwargs: Any) -> ChatMessageQuerySet: ...
        def messages(self) -> ChatMessageQuerySet: ...

else:
    _NodeManager = AL_NodeManager.from_queryset(ChatMessageQuerySet)


class ChatMessageManager(_NodeManager):
    """Reads the tree in one recursive statement, appends as last child, and refuses treebeard's other writes."""

    def get_path(self, node: ChatMessage) -> list[ChatMessage]:
        """Root → node, the node included."""
        rows = self.in_database_of(node).raw(sql.PATH_ROWS, {"node": node.pk, "min_depth": 1})
        return sorted(rows, key=lambda row: row.depth)

    def get_ancestors(self, node: ChatMessage) -> list[ChatMessage]:
        """Root → parent of ``node``."""
        return self.get_path(node)[:-1]

    def get_root(self, node: ChatMessage) -> ChatMessage:
        if node.parent_message_id is None:
            return node
        roots = self.in_database_of(node).raw(sql.ROOT_ROW, {"node": node.pk, "min_depth": 1})
        return next(iter(roots), node)

    def get_tree(self, parent: ChatMessage | None = None, max_depth: int | None = None) -> list[ChatMessage]:
        """Depth first, siblings in order, ``parent`` first. Without a parent all trees: of ``session.messages`` its."""
        rows = self.in_database_of(parent) if parent else self.all()
        if parent is not None:
            rows = rows.filter(pk__in=RawSQL(sql.NODE_AND_BELOW, [parent.pk]))
        if max_depth:
            rows = rows.filter(depth__lte=max_depth + (parent.depth if parent else 0))
        # Siblings in reverse: the last that is put on the stack is taken first.
        children: dict[int | None, list[ChatMessage]] = {}
        for row in sorted(rows, key=lambda row: (str(row.session_id), row.sib_order), reverse=True):
            children.setdefault(None if parent and row.pk == parent.pk else row.parent_message_id, []).append(row)
        ordered, stack = [], children.get(None, [])
        while stack:
            ordered.append(stack.pop())
            stack.extend(children.get(ordered[-1].pk, ()))
        return ordered

    def get_root_nodes(self, session: ChatSession | None = None) -> ChatMessageQuerySet:
        roots = self.in_database_of(session) if isinstance(session, models.Model) else self.all()
        roots = roots.filter(parent__isnull=True).order_by("session", "sib_order")
        return roots if session is None else roots.filter(session=session)

    def get_children(self, node: ChatMessage) -> ChatMessageQuerySet:
        return self.in_database_of(node).filter(parent=node).order_by("sib_order")

    def get_siblings(self, node: ChatMessage) -> ChatMessageQuerySet:
        above = {"session_id": node.session_id, "parent_message_id": node.parent_message_id}
        return self.in_database_of(node).filter(**above).order_by("sib_order")

    @check_create_args
    def add_root(
        self, create_kwargs: dict[str, Any] | None = None, *, instance: ChatMessage | None = None
    ) -> ChatMessage:
        """Add a root, the last of its session's roots."""
        return self.append_chain(None, [instance or self.model(**(create_kwargs or {}))])[0]

    @check_create_args
    def add_child(
        self, target: ChatMessage, create_kwargs: dict[str, Any] | None = None, *, instance: ChatMessage | None = None
    ) -> ChatMessage:
        return self.append_chain(target, [instance or self.model(**(create_kwargs or {}))])[0]

    add_sibling = move = load_bulk = refuse_write

    def append_chain(
        self,
        parent: ChatMessage | None,
        nodes: Sequence[ChatMessage],
        *,
        savepoint: bool = True,
        lenient: bool = False,
        places: Sequence[int] = (),
        most_bytes: int | None = None,
    ) -> list[ChatMessage]:
        """Write ``nodes``, each below the one before, under ``parent`` or as a new root: all of them or none.

        This takes few statements at any length: lock the session, read the parent, reserve ids, insert; and for one
        message where no call is open the lock and the insert. ``savepoint``: False where the caller's own transaction
        ends with this call's error. ``lenient``: a result without its call becomes a text. ``places``: what errors
        call each node. ``most_bytes``: of one message, in place of the setting.
        """
        if not nodes:
            return []
        self._prepare(parent, nodes, places, most_bytes or site_setting("MAX_MESSAGE_BYTES"))
        first = nodes[0]
        first._state.db = self._db or first._state.db or (parent._state.db if parent else None)
        connection = connection_of(first)
        with named(*places[:1], external_id=first.external_id):
            if parent is not None and len(nodes) == 1 and self._append_at_once(parent, first, savepoint):
                return list(nodes)
        with atomic(first, savepoint=savepoint):
            position = _Position.below(parent, nodes)
            _blank_stale_results(parent, nodes)
            at_once = len(nodes) > 1 and not self._is_heard()
            # A child names its parent's id: with ids that are known before, all are inserted together.
            ids = [node.pk for node in nodes]
            if at_once:
                # Under the session's lock: on SQLite nobody else writes then.
                ids = [pk for (pk,) in fetch(sql.RESERVE_IDS[connection.vendor], [len(nodes)], first)]
            for number, node in enumerate(nodes):
                node.pk = ids[number]
                if lenient and node.role == Role.TOOL and node.tool_call_id not in position.open_calls:
                    become_text(node)
                    node.token_count = count_messages([vars(node)], get_token_counter())[0]
                with named(*places[number : number + 1], external_id=node.external_id):
                    position.assign_to(node)
                    if not at_once:
                        node.save_base(using=connection.alias, force_insert=True)
                    position.move_below(node)
            if at_once:
                self.using(connection.alias).bulk_create(nodes)
        return list(nodes)

    def _is_heard(self) -> bool:
        """Whether a signal's receivers may refuse a row, or write what belongs to it."""
        return any(signal.has_listeners(self.model) for signal in (pre_save, post_save))

    def _append_at_once(self, parent: ChatMessage, node: ChatMessage, savepoint: bool) -> bool:
        """Write a message whose place the database can tell, in one trip; False, and nothing is written, for others."""
        if Role.TOOL in (node.role, parent.role) or parent.tool_calls or node.kind == Kind.SUMMARY:
            return False
        if self._is_heard():
            return False
        _check_tokens(node)
        connection = connection_of(node)
        fields = [one for one in node._meta.concrete_fields if one.column not in _PLACE and not one.primary_key]
        columns, values = (", ".join(form.format(one.column) for one in fields) for form in ("{}", "%({})s"))
        parameters = {one.column: one.get_db_prep_save(one.pre_save(node, True), connection) for one in fields}
        parameters |= {"parent": parent.pk, "session": parameters["session_id"]}
        statement = sql.INSERT_BELOW.format(columns=columns, values=values)
        is_nested = connection.in_atomic_block and savepoint
        with atomic(node) if is_nested else nullcontext():
            written = lock_and_read(node, statement, parameters, appended=[node])
        for place in written:
            for column, value in place.items():
                setattr(node, column, value)
            node._state.adding, node._state.db = False, connection.alias
        return bool(written)

    def _prepare(
        self, parent: ChatMessage | None, nodes: Sequence[ChatMessage], places: Sequence[int], max_bytes: int
    ) -> None:
        """Validate and count tokens before the session is locked: neither needs the database."""
        _check_session(nodes, parent.session_id if parent is not None else nodes[0].session_id)
        if any(node.kind == Kind.SUMMARY for node in nodes[:-1]):
            raise InvalidParent("A summary is a leaf: no message can follow it.", field="parent")
        model: Any = self.model
        columns = checks_of(model)
        for number, node in enumerate(nodes):
            with named(*places[number : number + 1], external_id=node.external_id):
                validate_message(vars(node), columns, max_bytes=max_bytes)
        uncounted = [node for node in nodes if not node.token_count]
        counts = count_messages([vars(node) for node in uncounted], get_token_counter())
        for node, tokens in zip(uncounted, counts, strict=True):
            node.token_count = tokens

    def delete_subtree(self, node: ChatMessage) -> int:
        """Delete a node and all below it; returns how many. References from runs and events follow ``on_delete``."""
        connection = connection_of(node)
        with atomic(node), connection.cursor() as cursor:
            top = self.model(pk=node.pk)
            references = _SubtreeReferences(connection.alias, origin=top)
            references.collect([top])
            references.data[self.model].clear()  # the nodes: deleted below, without signals
            references.delete()
            cursor.execute(sql.DELETE_SUBTREE, {"node": node.pk})
            deleted: int = cursor.rowcount
            return deleted


def calls_unanswered_before(nodes: Sequence[ChatMessage]) -> list[int]:
    """:func:`_closed_by` of stored messages."""
    parents = list({node.parent_message_id for node in nodes if node.parent_message_id and node.role != Role.TOOL})
    open_calls: dict[int | None, OpenCalls] = {}
    if parents:
        statement = sql.CALL_GROUPS.format(parents=sql.places(parents))
        for row in type(nodes[0]).objects.in_database_of(nodes[0]).raw(statement, parents):
            above = open_calls.get(row.parent_message_id, NONE_OPEN)
            open_calls[row.pk] = open_calls_after(above, vars(row))
    return [_closed_by(node, open_calls.get(node.parent_message_id, NONE_OPEN)) for node in nodes]


def _closed_by(node: ChatMessage, open_calls: OpenCalls) -> int:
    """How many calls a message leaves unanswered: a context supplies a result for each, counted with it."""
    waits_on = node.role == Role.TOOL or goes_on_calling(open_calls, vars(node))
    return 0 if waits_on else len(open_calls)


def _blank_stale_results(parent: ChatMessage | None, nodes: Sequence[ChatMessage]) -> None:
    """Of a search that a framework's tool made: what it quotes may have been redacted before its result is stored.

    No redacted message is found, so one that quotes such is older than the redaction. Under the session's lock.
    """
    quoting = [node for node in nodes if node.role == Role.TOOL and RECALLED in node.content]
    if parent is None or not quoting:
        return
    sessions: Any = type(parent)._meta.get_field("session").related_model
    session = sessions.objects.in_database_of(parent).get(pk=parent.session_id)
    path = numbered_path(session, parent)
    rows = type(parent).objects.in_database_of(parent).filter(redacted_at__isnull=False)
    for node in quoting:
        numbers = {int(number) for number in RECALLED_POSITION.findall(node.content)}
        # What is continued may have been deleted meanwhile, and is on no path then.
        is_gone = session.is_handed_over and not numbers <= path.keys()
        if is_gone or rows.filter(pk__in=[path[number] for number in numbers if number in path]).exists():
            blank(node)
            node.token_count = count_messages([vars(node)], get_token_counter())[0]


@dataclass(kw_only=True, slots=True)
class _Position:
    """Where the next node goes: read once under the lock, then moved down the chain."""

    parent_id: int | None = None
    depth: int = 0
    path_tokens: int = 0
    last_order: int = 0
    open_calls: OpenCalls = NONE_OPEN
    #: The parent's lane; None above a root.
    lane_id: int | None = None
    #: Whether the parent has a message already: another one begins a lane of its own.
    has_messages: bool = False

    @classmethod
    def below(cls, parent: ChatMessage | None, nodes: Sequence[ChatMessage]) -> _Position:
        """For a chain of nodes; without a parent: a root's. Locks the session."""
        node = nodes[0]
        if parent is None:
            lock_and_read(node, appended=nodes)
            roots = type(node).objects.in_database_of(node).filter(session_id=node.session_id, parent__isnull=True)
            return cls(last_order=roots.aggregate(last=models.Max("sib_order"))["last"] or 0)
        group = lock_and_read(node, sql.CALL_GROUP, {"parent": parent.pk}, appended=nodes)
        if not group:
            raise MessageNotFound(f"Message {parent.pk} does not exist any more.")
        calls = type(node)._meta.get_field("tool_calls")
        group.sort(key=lambda member: member["depth"])
        last = group[-1]
        if node._meta.get_field("session").target_field.to_python(last["session_id"]) != node.session_id:
            raise InvalidParent("The parent belongs to another session.", field="parent")
        if last["kind"] == Kind.SUMMARY:
            raise InvalidParent("A summary is a leaf: append to a message, such as its anchor.", field="parent")
        open_calls = NONE_OPEN
        for member in group:
            called = calls.from_db_value(member["tool_calls"], None, connection_of(node))
            open_calls = open_calls_after(open_calls, {**member, "tool_calls": called})
        return cls(
            parent_id=last["id"],
            depth=last["depth"],
            path_tokens=last["path_tokens"],
            last_order=last["last_order"],
            open_calls=open_calls,
            lane_id=last["lane_id"] or last["id"],
            has_messages=bool(last["has_messages"]),
        )

    def assign_to(self, node: ChatMessage) -> None:
        """Give ``node`` this position; raises where it cannot have it."""
        node.parent_message_id = self.parent_id
        node.sib_order = self.last_order + 1
        node.depth = self.depth + 1
        if node.kind == Kind.SUMMARY:
            node.path_tokens = self.path_tokens
            node.lane_id = self.lane_id
            return
        node.lane_id = None if self.has_messages else self.lane_id
        node.token_count += _closed_by(node, self.open_calls) * TOKENS_PER_MISSING_RESULT
        self.open_calls = open_calls_after(self.open_calls, vars(node))
        _check_tokens(node)
        node.path_tokens = self.path_tokens + node.token_count

    def move_below(self, node: ChatMessage) -> None:
        self.parent_id, self.depth, self.path_tokens = node.pk, node.depth, node.path_tokens
        self.lane_id, self.last_order, self.has_messages = node.lane_id or node.pk, 0, False


def _check_tokens(node: ChatMessage) -> None:
    if not 0 <= node.token_count <= MAX_INTEGER:
        raise InvalidMessage(f"token_count must be from 0 to {MAX_INTEGER:,}.", field="token_count")


class _SubtreeReferences(Collector):
    """Applies ``on_delete`` to the rows that point at a node (``origin``) or below it: one statement per relation.

    Django's collector would go down level by level and list every deleted row; this one uses a recursive subquery.
    """

    def related_objects(
        self, related_model: type[models.Model], related_fields: Iterable[Any], objs: Any
    ) -> models.QuerySet[Any]:
        top: Any = self.origin
        if isinstance(objs[0], type(top)):
            objs = RawSQL(sql.NODE_AND_BELOW, [top.pk])
        found: models.QuerySet[Any] = super().related_objects(related_model, related_fields, objs)
        return found


def _check_session(nodes: Sequence[ChatMessage], session_id: Any) -> None:
    """Refuse nodes of different sessions; nodes without a session get ``session_id``."""
    if session_id is None:
        raise InvalidParent("A message needs a session.", field="session")
    to_python = nodes[0]._meta.get_field("session").target_field.to_python
    for node in nodes:
        if node.session_id is None:
            node.session_id = session_id
        node.session_id = to_python(node.session_id)
        if node.session_id != to_python(session_id):
            raise InvalidParent("The parent belongs to another session.", field="parent")
