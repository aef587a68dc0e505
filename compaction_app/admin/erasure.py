"""Erasing from the admin: a page says in numbers, in a fixed number of queries, what else is erased before it is done.

Redacting removes the text of one message and empties every summary that may quote it. Deleting removes the message
and everything below it. Both go through ``chat``, and neither leaves text of the conversation in the admin's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages as notes
from django.db.models import Count, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin.display import plural
from compaction_app.admin.open_runs import requested_after
from compaction_app.admin.records import RecordAdmin, page
from compaction_app.admin.unseen import Unseen, unseen_at, unseen_without_own
from compaction_app.exceptions import CompactionError, MessageNotFound
from compaction_app.models import ChatMessage, CompactionRun, sql
from compaction_app.tree.branches import database_of, history_at
from compaction_app.values import OPEN_RUN_STATUSES, Kind

#: Live summaries that a page names.
_MOST_NAMED = 50
_LONGEST_REPLACEMENT = 1000
_REPLACEMENT = "[redacted]"


class RedactForm(forms.Form):
    replacement = forms.CharField(
        max_length=_LONGEST_REPLACEMENT,
        initial=_REPLACEMENT,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Replaces the text. The model is sent this instead.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """What depends on a message."""

    #: The message itself and those below it.
    messages: int
    #: Summaries anchored at it or below it.
    live: int
    retired: int
    #: Runs whose tip or anchor is there.
    open_runs: int
    ended_runs: int
    #: The live summaries that a page names.
    named: tuple[ChatMessage, ...]

    @property
    def unnamed(self) -> int:
        return self.live - len(self.named)


def affected_by(message: ChatMessage) -> Affected:
    """A constant number of queries, however much there is."""
    using = database_of(message)
    at_or_below = RawSQL(sql.NODE_AND_BELOW, [message.pk])  # noqa: S611  # names of tables, never a value
    nodes: QuerySet[ChatMessage] = ChatMessage.objects.using(using).filter(pk__in=at_or_below)
    is_live = Q(kind=Kind.SUMMARY, retired_at__isnull=True)
    found = nodes.aggregate(
        messages=Count("pk", filter=Q(kind=Kind.MESSAGE)),
        live=Count("pk", filter=is_live),
        summaries=Count("pk", filter=Q(kind=Kind.SUMMARY)),
    )
    runs = CompactionRun.objects.using(using).filter(Q(tip_id__in=at_or_below) | Q(anchor_id__in=at_or_below))
    # A subtree has few runs: no index is needed.
    is_open = Q(status__in=OPEN_RUN_STATUSES)
    of_runs = runs.aggregate(open=Count("pk", filter=is_open), all=Count("pk"))
    return Affected(
        messages=found["messages"],
        live=found["live"],
        retired=found["summaries"] - found["live"],
        open_runs=of_runs["open"],
        ended_runs=of_runs["all"] - of_runs["open"],
        named=tuple(nodes.filter(is_live).defer("content", "metadata").order_by("id")[:_MOST_NAMED]),
    )


def _unseen_above(message: ChatMessage) -> Unseen | None:
    """What a deletion leaves that does not fit: its parent may end a branch that was compacted only below it."""
    using, parent = database_of(message), message.parent_message_id
    beside = ChatMessage.objects.using(using).messages().filter(parent=parent).exclude(pk=message.pk)
    if parent is None or beside.exists():
        return None
    rows = ChatMessage.objects.using(using).select_related("session", "last_summarized_message")
    base = rows.filter(pk=history_at(parent, using).summary_id).first()
    return unseen_at(rows.filter(pk=parent).first(), base)


class ErasingAdmin(RecordAdmin):
    """The page before a redaction, and the contents of the page before a deletion."""

    #: The session of the message that this copy has deleted.
    deleted_from: UUID | None = None
    #: What the page before a deletion says of the runs, which are not deleted.
    kept: tuple[str, ...] = ()

    def has_redact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.redact_chatmessage")

    # -- redacting ----------------------------------------------------------------------------------------

    @page("<int:pk>/redact/", "redact")
    def redact_view(self, request: HttpRequest, message: ChatMessage) -> HttpResponse:
        here = self.page_of(message)
        if message.is_summary:
            self.message_user(request, "A summary cannot be redacted. Retire it instead.", notes.WARNING)
            return HttpResponseRedirect(here)
        return self.confirm(
            request,
            lambda given: self._redact(request, message, given["replacement"]),
            obj=message,
            title="Redact",
            template="redact.html",
            # Called by the template: after a POST nothing is counted.
            affected=partial(affected_by, message),
            unseen=partial(unseen_without_own, message),
            form=RedactForm,
            back=here,
            is_final=True,
        )

    def _redact(self, request: HttpRequest, message: ChatMessage, replacement: str) -> HttpResponse | None:
        try:
            chat.redact_message(message, replacement=replacement)
        except MessageNotFound:
            self.message_user(request, f"{message} has been deleted in the meantime.", notes.WARNING)
            return HttpResponseRedirect(self.list_link()[0])
        except CompactionError as error:
            self.message_user(request, str(error), notes.ERROR)
            return None
        # Neither the old text nor the new one: this log outlives both.
        self.log_change(request, message, "Redacted.")
        said = format_html("{} is redacted. {}", message, requested_after(self, [message.session]))
        self.message_user(request, said, notes.SUCCESS)
        return None

    # -- deleting -----------------------------------------------------------------------------------------

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, Any], set[str], list[Any]]:
        """In numbers: Django's collector would load everything below to list it."""
        affected = affected_by(objs[0])
        names = [self.link_to_record(row) for row in affected.named]
        if affected.unnamed:
            names.append(plural(affected.unnamed, "more summary", "more summaries"))
        below = [
            plural(affected.messages - 1, "message below it", "messages below it"),
            plural(affected.live, "live summary", "live summaries"),
            names,
            plural(affected.retired, "retired summary", "retired summaries"),
        ]
        if runs := affected.open_runs + affected.ended_runs:
            self.kept = (f"{plural(runs, 'run')} as records, without instructions and links to the messages.",)
        if affected.open_runs:
            self.kept += (f"Of them {plural(affected.open_runs, 'is open', 'are open')}: no summary is written.",)
        return [str(objs[0]), [part for part in below if part]], {}, set(), []

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        return super().render_delete_form(
            request, {**context, "unseen": _unseen_above(context["object"]), "kept": self.kept}
        )

    def delete_model(self, request: HttpRequest, obj: ChatMessage) -> None:
        self.deleted_from = obj.session_id
        try:
            chat.delete_message(obj)
        except MessageNotFound:
            # Somebody else was faster. The result is the same.
            self.message_user(request, f"{obj} had been deleted already.", notes.INFO)

    def after_deletion(self) -> str:
        """The page of its session, for people who may view sessions."""
        session = self.url("chatsession_change", self.deleted_from) if self.deleted_from else ""
        return session or super().after_deletion()
