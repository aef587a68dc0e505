"""Sessions and messages, and what belongs to a message.

A conversation is a tree of :class:`ChatMessage` nodes below a :class:`ChatSession`. A summary is a node too:
``parent`` is its anchor, ``last_summarized_message`` its cutoff. Database constraints enforce what matters most when
two workers compete: one open run per anchor, one live summary per anchor and cutoff, unique sibling numbers.

The tree is an adjacency list, because a chat is a deep chain: a materialized path overflows at depth 63 with
treebeard's defaults and its key grows with depth, and nested sets rewrite half the tree on each append.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from treebeard.al_tree import AL_Node

from compaction_app.conf import find_session_error
from compaction_app.messages.validation import validate_session
from compaction_app.models import sql
from compaction_app.models.columns import (
    BESIDE,
    GIVEN,
    NOTED,
    OF_HOST,
    OURS,
    QUOTED,
    SAID,
    SHOWN,
    Column,
    calls_without_arguments,
    checks_of,
    nothing,
    numbers_in,
)
from compaction_app.models.database import RowQuerySet
from compaction_app.models.fields import (
    ParentMessageField,
    clear_title,
    display_words,
    json_field,
    of_session,
    text_field,
    to_message,
)
from compaction_app.models.managers import ChatMessageManager, refuse_write
from compaction_app.models.words import words
from compaction_app.values import Kind, Role, Strategy, with_ledger

if TYPE_CHECKING:
    from django.db.models.fields.related_descriptors import RelatedManager

    from compaction_app.models.runs import CompactionEvent, CompactionRun


def _in_tree(
    is_: Column, verbose_name: Any, field: type[models.ForeignKey[Any, Any]] = models.ForeignKey, **options: Any
) -> models.ForeignKey[ChatMessage | None, ChatMessage | None]:
    """To a message above. Both are deleted in one statement; a cascade of Django's would recurse once per level."""
    options |= {"verbose_name": verbose_name, "db_index": False, "editable": False}
    options.setdefault("related_name", "+")
    return is_(field("self", on_delete=models.DO_NOTHING, null=True, blank=True, **options))


class ChatSession(models.Model):  # type: ignore[django-manager-missing]  # the plugin finds no manager behind treebeard
    """A conversation: its messages are a tree, sent to ``model`` with ``system_prompt`` and ``settings``."""

    id = SHOWN(models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False))
    owner = OURS(
        models.ForeignKey(
            django_settings.AUTH_USER_MODEL,
            on_delete=models.CASCADE,
            null=True,
            blank=True,
            related_name="chat_sessions",
            verbose_name=_("owner"),
        )
    )
    external_id = OF_HOST(models.CharField(_("external id"), max_length=255, blank=True, default=""))
    title = SAID(models.CharField(_("title"), max_length=255, blank=True, default=""))
    model = GIVEN(
        models.CharField(_("model"), max_length=255, blank=True, default="", help_text=_("The chat model's name."))
    )
    system_prompt = text_field(SAID, _("system prompt"), _("Sent first, never compacted."))
    settings = json_field(GIVEN, _("settings"), _("Overrides of COMPACTION for this session."))
    token_calibration = json_field(
        Column(copied=True),
        _("token counts corrected by"),
        _("Model name → how its provider counts: offset + ratio × our tokens."),
    )
    erasures = OURS(
        models.PositiveIntegerField(
            _("erasures"),
            default=0,
            help_text=_("Counts redactions and deletions: a run that started before one can not commit."),
        )
    )
    title_of = to_message(
        OURS,
        _("title of"),
        "+",
        on_delete=clear_title,
        editable=False,
        help_text=_("The message of this session that the title was made of: it is erased with that one."),
    )
    copied_from = to_message(
        OURS,
        _("copied from"),
        "copied_sessions",
        editable=False,
        help_text=_("The last message of the branch that was copied."),
    )
    continues = to_message(
        SHOWN,
        _("continues"),
        "continued_in",
        editable=False,
        help_text=_("The last message, of another session, that is summarized here: this one was handed over there."),
    )
    # Of that message, by which an erasure there finds this one.
    continues_session = OURS(models.UUIDField(_("continues session"), null=True, blank=True, editable=False))
    numbered_from = SHOWN(
        models.IntegerField(
            _("numbered from"),
            null=True,
            blank=True,
            editable=False,
            help_text=_(
                "How many messages come before its first one in what it continues. Empty: it continues nothing."
            ),
        )
    )
    # The first one says that others come before it; below it are copies of what is shown beside the summary.
    head = OURS(
        models.PositiveIntegerField(
            _("head"), default=0, editable=False, help_text=_("Messages at the beginning that stand for others.")
        )
    )
    metadata = json_field(BESIDE, _("metadata"))
    created_at = OF_HOST(models.DateTimeField(_("created at"), default=timezone.now, editable=False))
    #: When it was last used: when its newest message or summary was stored. Nothing else moves it: no erasure, no
    #: change of its title, no run that made no summary.
    updated_at = SHOWN(models.DateTimeField(_("updated at"), default=timezone.now, editable=False))

    objects = RowQuerySet["ChatSession"].as_manager()

    # Django adds these; without its mypy plugin a type checker knows only what is declared.
    if TYPE_CHECKING:
        messages: RelatedManager[ChatMessage]
        runs: RelatedManager[CompactionRun]
        events: RelatedManager[CompactionEvent]

    class Meta:
        verbose_name, verbose_name_plural = _("chat session"), _("chat sessions")
        constraints = [
            models.UniqueConstraint(
                fields=["external_id", "owner"], condition=~Q(external_id=""), name="compaction_session_external_id"
            ),
            # A unique index treats NULL owners as different, so sessions without an owner need one of their own.
            models.UniqueConstraint(
                fields=["external_id"],
                condition=~Q(external_id="") & Q(owner__isnull=True),
                name="compaction_ownerless_external_id",
            ),
        ]
        indexes = [
            models.Index(fields=["owner", "-updated_at"], name="compaction_session_recent"),
            models.Index(fields=["-updated_at", "-id"], name="compaction_session_newest"),
            models.Index(
                fields=["continues_session"], condition=Q(continues_session__isnull=False), name="compaction_continuing"
            ),
        ]
        permissions = [("compact_chatsession", "Can compact a session's branches")]

    def __str__(self) -> str:
        """Without the title, which may quote a message: this ends up in logs and on pages that anybody may see."""
        return gettext("Session {id}").format(id=self.pk)

    def save(self, *args: Any, **kwargs: Any) -> None:
        update_fields: Iterable[str] | None = kwargs.get("update_fields")
        written = {k: v for k, v in vars(self).items() if update_fields is None or k in update_fields}
        if written.get("settings", {}) != {} and (problem := find_session_error(self.settings)):
            raise problem
        validate_session(written, checks_of(ChatSession))
        super().save(*args, **kwargs)

    @property
    def session_id(self) -> uuid.UUID:
        """Its own, as messages, runs and events have it."""
        return self.pk

    @property
    def is_handed_over(self) -> bool:
        """Whether it goes on where another session was handed over, which may have been deleted since."""
        return self.numbered_from is not None

    def stands_for_others(self, message: ChatMessage) -> bool:
        """Whether a message of this session says no more than that others come before it, in what is continued."""
        return self.is_handed_over and message.parent_message_id is None and message.sib_order == 1

    def number_of(self, message: ChatMessage) -> int | None:
        """The position by which a search quotes a message of this session, counted on from the one
        that it continues. None for the messages at its beginning that stand for messages of that one."""
        is_copy = message.copy_of is not None or self.stands_for_others(message)
        return None if message.depth <= self.head and is_copy else message.depth + (self.numbered_from or 0)

    def clean(self) -> None:
        if problem := find_session_error(self.settings):
            raise ValidationError({"settings": str(problem)})


class ChatMessage(AL_Node):
    """One node of a conversation: a message, or a summary of the messages above it.

    Nodes are written with ``chat.append_message`` or the manager's ``add_root`` and ``add_child``. They are never
    moved, and never changed except by redaction and deletion, and ``metadata`` by ``chat.annotate_message``.

    ``content``, ``tool_calls``, ``tool_call_id``, ``name``, ``reasoning``, ``attachments``, ``usage``, ``model``,
    ``metadata`` and ``external_id`` are what was appended; ``original`` is what came, where these could not give it
    back, and ``finish_reason`` how a reply ended. ``parent`` is the message above, None for a first one; of a
    summary it is the anchor, and ``last_summarized_message`` the cutoff.
    """

    id = SHOWN(models.BigAutoField(_("ID"), primary_key=True))
    session = of_session(SHOWN, "messages", db_index=False, editable=False, verbose_name=_("session"))
    # No index of its own: (parent, sib_order) begins with it.
    parent = _in_tree(SHOWN, _("parent"), ParentMessageField, related_name="children_set")
    last_summarized_message = _in_tree(SHOWN, _("cutoff"))
    pinned_message = _in_tree(SHOWN, _("pinned message"))
    # A lane is a line of messages without a fork: the first child of a message continues its lane, every other child
    # begins a new one. Lanes never change and there are few, so queries about branches read lanes instead of messages.
    # A summary is on its anchor's lane.
    lane = _in_tree(OURS, _("lane"), help_text=_("The first message of its lane; empty on that message itself."))
    kind = replace(SHOWN, copied=True)(
        models.CharField(_("kind"), max_length=10, choices=display_words(Kind), default=Kind.MESSAGE)
    )
    role = GIVEN(models.CharField(_("role"), choices=display_words(Role), max_length=10))
    content = text_field(SAID, _("content"))
    tool_calls = replace(SAID, leaves=calls_without_arguments)(models.JSONField(_("tool calls"), null=True, blank=True))
    tool_call_id = text_field(replace(GIVEN, listed=True), _("tool call id"))
    name = SAID(models.CharField(_("name"), max_length=255, blank=True, default=""))
    reasoning = BESIDE(models.JSONField(_("reasoning"), null=True, blank=True))
    original = replace(BESIDE, client=False)(
        models.JSONField(
            _("what came"),
            null=True,
            blank=True,
            help_text=_("{format, endpoint, data}: what came, where the fields could not give it back."),
        )
    )
    attachments = SAID(models.JSONField(_("attachments"), null=True, blank=True))
    is_extract = Column(copied=True)(
        models.BooleanField(
            _("is an extract"),
            default=False,
            help_text=_("Of a summary: its text is quoted from the conversation, not written by a model."),
        )
    )
    extract = text_field(
        QUOTED,
        _("extract"),
        _("Of a summary: quoted from the messages that it covers alone, so true on each branch with these."),
    )
    ledger = text_field(
        QUOTED,
        _("ledger"),
        _("Of a summary: what is quoted beside the text, since the text does not tell it."),
    )
    memory = text_field(
        QUOTED,
        _("working memory"),
        _("Of a summary: symbols, requests and files of the work that it covers, counted; the next one counts on."),
    )
    token_count = SHOWN(
        models.PositiveIntegerField(
            _("own tokens"), default=0, help_text=_("Tokens of what is sent, wrapper included.")
        )
    )
    path_tokens = SHOWN(
        models.PositiveBigIntegerField(
            _("tokens from the root"), default=0, help_text=_("Tokens from the root to here, inclusive.")
        )
    )
    depth = SHOWN(models.PositiveIntegerField(_("position"), default=1, help_text=_("1 for a root.")))
    sib_order = SHOWN(models.PositiveIntegerField(_("place among its siblings"), default=1))
    usage = replace(OF_HOST, leaves=numbers_in)(models.JSONField(_("usage"), null=True, blank=True))
    model = GIVEN(models.CharField(_("model"), max_length=255, blank=True, default=""))
    finish_reason = replace(GIVEN, leaves=nothing)(
        models.CharField(
            _("finish reason"),
            max_length=255,
            blank=True,
            default="",
            help_text=_("Of a reply: how it ended, in the provider's word."),
        )
    )
    metadata = json_field(BESIDE, _("metadata"))
    sent_context = OURS(
        models.JSONField(
            _("context sent"), null=True, blank=True, help_text=_("On replies: what was really sent to get this reply.")
        )
    )
    external_id = OF_HOST(models.CharField(_("external id"), max_length=255, blank=True, default=""))
    idempotency_key = OURS(models.CharField(_("idempotency key"), max_length=255, blank=True, default=""))
    retired_at = SHOWN(models.DateTimeField(_("retired at"), null=True, blank=True))
    retired_reason = NOTED(models.CharField(_("retired reason"), max_length=255, blank=True, default=""))
    redacted_at = replace(SHOWN, copied=True)(models.DateTimeField(_("redacted at"), null=True, blank=True))
    # No foreign key: it is known when the first one is gone, or a copy between. ``same_as`` reads it.
    copy_of = OURS(
        models.BigIntegerField(
            _("copy of"), null=True, blank=True, editable=False, help_text=_("The message that was copied first.")
        )
    )
    created_at = GIVEN(models.DateTimeField(_("created at"), default=timezone.now))

    if TYPE_CHECKING:
        pin: MessagePin

    objects = ChatMessageManager()

    class Meta:
        verbose_name, verbose_name_plural = _("chat message"), _("chat messages")
        db_table = sql.MESSAGES
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=Kind.SUMMARY, last_summarized_message__isnull=False)
                | Q(kind=Kind.MESSAGE, last_summarized_message__isnull=True, pinned_message__isnull=True),
                name="compaction_summary_has_cutoff",
            ),
            # A summary is plain untrusted text, without reasoning or tool calls.
            models.CheckConstraint(
                condition=Q(kind=Kind.MESSAGE)
                | Q(role=Role.USER, tool_calls__isnull=True, reasoning__isnull=True, parent__isnull=False),
                name="compaction_summary_is_plain_text",
            ),
            models.CheckConstraint(condition=Q(role__in=[str(r) for r in Role]), name="compaction_known_role"),
            models.CheckConstraint(condition=Q(depth__gte=1), name="compaction_depth_from_one"),
            models.UniqueConstraint(fields=["parent", "sib_order"], name="compaction_sibling_order"),
            models.UniqueConstraint(
                fields=["session", "sib_order"], condition=Q(parent__isnull=True), name="compaction_root_order"
            ),
            models.UniqueConstraint(
                fields=["parent", "last_summarized_message"],
                condition=Q(kind=Kind.SUMMARY, retired_at__isnull=True),
                name="compaction_one_live_summary",
            ),
            models.UniqueConstraint(
                fields=["external_id", "session"], condition=~Q(external_id=""), name="compaction_message_external_id"
            ),
            models.UniqueConstraint(
                fields=["session", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="compaction_idempotency_key",
            ),
        ]
        indexes = [
            models.Index(fields=["session", "id"], name="compaction_session_messages"),
            # For the lanes of a session, the end of a lane, and the newest summary on it above a depth.
            models.Index(fields=["session", "id"], condition=Q(lane__isnull=True), name="compaction_lanes"),
            models.Index(fields=["lane", "depth"], condition=Q(lane__isnull=False), name="compaction_by_lane"),
            models.Index(
                fields=["lane", "depth", "id"],
                condition=Q(kind=Kind.SUMMARY, retired_at__isnull=True),
                name="compaction_live_on_lane",
            ),
            models.Index(
                fields=["session", "id"],
                condition=Q(last_summarized_message__isnull=False),
                name="compaction_session_summaries",
            ),
            # When a message is deleted, the database looks for rows that refer to it.
            models.Index(
                fields=["last_summarized_message"],
                condition=Q(last_summarized_message__isnull=False),
                name="compaction_by_cutoff",
            ),
            # For a branch that a summary covers and is not anchored on: it may be shown the extract.
            models.Index(
                fields=["last_summarized_message", "id"],
                condition=Q(kind=Kind.SUMMARY, retired_at__isnull=True),
                name="compaction_live_by_cutoff",
            ),
            models.Index(
                fields=["pinned_message"], condition=Q(pinned_message__isnull=False), name="compaction_by_pin"
            ),
            models.Index(fields=["copy_of"], condition=Q(copy_of__isnull=False), name="compaction_copies"),
        ]
        permissions = [("retire_summary", "Can retire a summary"), ("redact_chatmessage", "Can redact a message")]

    def __str__(self) -> str:
        """Without content: this ends up in logs, error pages and admin breadcrumbs."""
        if self.kind == Kind.SUMMARY:
            said = gettext("Summary {id} up to message {cutoff}")
            return said.format(id=self.pk, cutoff=self.last_summarized_message_id)
        return gettext("Message {id} ({role})").format(id=self.pk, role=words(self.role))

    @property
    def text(self) -> str:
        """The content; of a summary what a model is shown of it, with its ledger under a heading."""
        return with_ledger(self.content, self.ledger)

    @property
    def parent_id(self) -> int | None:
        """treebeard's name for ``parent_message_id``."""
        return self.parent_message_id

    @parent_id.setter
    def parent_id(self, value: int | None) -> None:
        self.parent_message_id = value

    @property
    def is_summary(self) -> bool:
        return self.kind == Kind.SUMMARY

    @cached_property
    def is_pinned(self) -> bool:
        """Whether somebody has pinned it, when it is first asked: a query, unless it was read along."""
        if "pin" in self._state.fields_cache:
            return self._state.fields_cache["pin"] is not None
        return MessagePin.objects.in_database_of(self).filter(pk=self.pk).exists()

    @property
    def fallback_used(self) -> bool:
        """Of a reply: whether its prompt was cut to fit, because compaction was late or failing."""
        return (self.sent_context or {}).get("strategy") == Strategy.TRUNCATED

    # treebeard 8 has them in its manager alone.
    def get_ancestors(self) -> list[ChatMessage]:
        return type(self).objects.get_ancestors(self)

    def get_descendants(self, include_self: bool = False, max_depth: int | None = None) -> Any:
        objects: Any = type(self).objects
        return objects.get_descendants(self, include_self, max_depth)

    def get_siblings(self) -> Any:
        return type(self).objects.get_siblings(self)

    def get_depth(self, update: bool = False) -> int:
        if update:
            self.refresh_from_db(fields=["depth"])
        return self.depth

    def is_leaf(self) -> bool:
        """Whether it has no children but summaries."""
        return not type(self).objects.get_children(self).filter(kind=Kind.MESSAGE).exists()

    def is_sibling_of(self, node: ChatMessage) -> bool:
        """Whether both have the same parent; roots are siblings within their session only."""
        return self.parent_message_id == node.parent_message_id and self.session_id == node.session_id

    def is_descendant_of(self, node: ChatMessage) -> bool:
        path = type(self).objects.in_database_of(self).raw(sql.PATH_IDS, {"node": self.pk, "min_depth": node.depth})
        return node.pk in {row.pk for row in path if row.pk != self.pk}

    #: ``append_chain`` and ``redact_message`` call ``save_base``, as Django's ``loaddata`` does.
    save = delete = refuse_write


class ReplyClaim(models.Model):
    """A reply that is under way: the message that it answers has one row while a model is asked.

    The database allows one for each message, so that a double click does not buy two replies. It expires with its
    lease where the process that asks was killed.
    """

    message = OURS(
        models.OneToOneField(ChatMessage, on_delete=models.CASCADE, primary_key=True, related_name="reply_claim")
    )
    token = OURS(models.UUIDField())
    lease_expires_at = OURS(models.DateTimeField())

    objects = RowQuerySet["ReplyClaim"].as_manager()

    def __str__(self) -> str:
        return f"Claim of the reply to message {self.message_id}"


class SearchEntry(models.Model):
    """By which terms a summarized message is found, and its lane among them; see :mod:`compaction.search_index`.

    It has keyed digests of words, never a word. The table is not altered by migrations: on SQLite that would drop the
    triggers that keep the full-text index in step.
    """

    message = OURS(
        models.OneToOneField(ChatMessage, on_delete=models.CASCADE, primary_key=True, related_name="search_entry")
    )
    terms = Column(leaves=nothing)(models.TextField())

    objects = RowQuerySet["SearchEntry"].as_manager()

    class Meta:
        db_table = sql.ENTRIES

    def __str__(self) -> str:
        return f"Search entry of message {self.message_id}"


class MessagePin(models.Model):
    """A message that somebody pinned: it is shown on every branch that has it, though a summary covers it.

    Session, lane, depth and tokens are the message's. A redaction removes the pin; one above it may change the tokens.
    A read finds pins by them, without the messages.
    """

    message = OURS(models.OneToOneField(ChatMessage, on_delete=models.CASCADE, primary_key=True, related_name="pin"))
    session = of_session(OURS, "pins")
    lane = OURS(models.BigIntegerField())
    depth = OURS(models.PositiveIntegerField())
    tokens = OURS(models.PositiveIntegerField())
    created_at = OURS(models.DateTimeField(default=timezone.now))

    objects = RowQuerySet["MessagePin"].as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["lane", "depth"], name="compaction_pins_on_lane")]

    def __str__(self) -> str:
        return f"Pin of message {self.message_id}"
