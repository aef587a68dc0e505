"""Erasing from the admin: what goes along, in numbers and in a fixed number of queries, before it is done.

Redacting takes the text out of one message and empties every summary that may quote it; deleting takes the message
and all below it. Both go through ``chat``. Neither leaves a word of the conversation in the admin's own log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages as notes
from django.db.models import Count, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.records import RecordAdmin
from compaction_app.exceptions import CompactionError, MessageNotFound
from compaction_app.models import ChatMessage, CompactionRun, sql
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind, RunStatus

#: Live summaries that a page names.
_MOST_NAMED = 50
_LONGEST_REPLACEMENT = 1000
_REPLACEMENT = "[redacted]"
_SESSION_LEFT = "compaction_session_left"


class RedactForm(forms.Form):
    replacement = forms.CharField(
        max_length=_LONGEST_REPLACEMENT,
        initial=_REPLACEMENT,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Stands where the text was, and is sent to the model in its place.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """What hangs on a message."""

    #: The message itself and those below it.
    messages: int
    #: Summaries anchored at it or below it: in use, and out of use already.
    live: int
    retired: int
    #: Runs that were triggered or anchored there: at work, and over.
    open_runs: int
    ended_runs: int
    #: The live ones that are named.
    summaries: tuple[ChatMessage, ...]

    @property
    def unnamed(self) -> int:
        return self.live - len(self.summaries)

    @property
    def runs(self) -> int:
        return self.open_runs + self.ended_runs


def reach_of(message: ChatMessage) -> Reach:
    """Three queries, however much hangs on it."""
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
    # Of a subtree's runs, few: no index is wanted here.
    is_open = Q(status__in=(RunStatus.READY, RunStatus.RUNNING))
    of_runs = runs.aggregate(open=Count("pk", filter=is_open), all=Count("pk"))
    named = nodes.filter(is_live).defer("content", "metadata").order_by("id")[:_MOST_NAMED]
    return Reach(
        messages=found["messages"],
        live=found["live"],
        retired=found["summaries"] - found["live"],
        open_runs=of_runs["open"],
        ended_runs=of_runs["all"] - of_runs["open"],
        summaries=tuple(named),
    )


def told(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


class ErasingAdmin(RecordAdmin):
    """The page that asks before a redaction, and what Django's page says before a deletion."""

    def has_redact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.redact_chatmessage")

    def get_urls(self) -> list[URLPattern]:
        page = self.page("<int:message_id>/redact/", self.redact_view, "chatmessage_redact")
        return [page, *super().get_urls()]

    # -- redacting ----------------------------------------------------------------------------------------

    def redact_view(self, request: HttpRequest, message_id: int) -> HttpResponse:
        self.require(request, self.has_redact_permission(request))
        message = self.get_or_404(request, message_id)
        here = self.url("chatmessage_change", message.pk)
        if message.is_summary:
            self.message_user(request, "A summary is not redacted: retire it, and the record stays.", notes.WARNING)
            return HttpResponseRedirect(here)
        form = RedactForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            return self._redact(request, message, form.cleaned_data["replacement"])
        return self._redact_page(request, message, form, here)

    def _redact(self, request: HttpRequest, message: ChatMessage, replacement: str) -> HttpResponse:
        here = self.url("chatmessage_change", message.pk)
        try:
            chat.redact_message(message, replacement=replacement)
        except MessageNotFound:
            self.message_user(request, f"{message} has been deleted meanwhile.", notes.WARNING)
            return HttpResponseRedirect(self.url("chatmessage_changelist"))
        except CompactionError as error:
            self.message_user(request, str(error), notes.ERROR)
            return HttpResponseRedirect(here)
        # Not what stood there, nor what stands there now: this log outlives both.
        self.log_change(request, message, "Redacted.")
        self.message_user(request, f"{message} is redacted.", notes.SUCCESS)
        return HttpResponseRedirect(here)

    def _redact_page(self, request: HttpRequest, message: ChatMessage, form: forms.Form, back: str) -> HttpResponse:
        reach = reach_of(message)
        return self.own_page(
            request,
            "admin/compaction_app/chatmessage/redact.html",
            obj=message,
            title="Redact",
            consequences=list(_consequences(reach)),
            summaries=[(self.url("chatmessage_change", row.pk), str(row)) for row in reach.summaries],
            unnamed=display.number(reach.unnamed) if reach.unnamed else "",
            form=form,
            back=back,
            is_final=True,
        )

    # -- deleting -----------------------------------------------------------------------------------------

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, Any], set[str], list[Any]]:
        """In numbers: Django's collector would load everything below to list it."""
        reach = reach_of(objs[0])
        names = [self.link_to("chatmessage", row.pk, str(row)) for row in reach.summaries]
        if reach.unnamed:
            names.append(told(reach.unnamed, "summary more", "summaries more"))
        below = [
            told(reach.messages - 1, "message below it", "messages below it"),
            told(reach.live, "live summary", "live summaries"),
            names,
            told(reach.retired, "retired summary", "retired summaries"),
            f"{told(reach.runs, 'run', 'runs')}: kept as records, without instructions and without their messages",
        ]
        if reach.open_runs:
            below.append(f"{told(reach.open_runs, 'of them is', 'of them are')} at work and will write no summary")
        counts = {"messages": reach.messages, "live summaries": reach.live, "retired summaries": reach.retired}
        return [str(objs[0]), [part for part in below if part]], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: ChatMessage) -> None:
        # Kept with the request: what comes after knows no more than the message's name.
        setattr(request, _SESSION_LEFT, obj.session_id)
        try:
            chat.delete_message(obj)
        except MessageNotFound:
            # Somebody else was faster: what was asked for is so, and the answer says so.
            self.message_user(request, f"{obj} had been deleted already.", notes.INFO)

    def after_deletion(self, request: HttpRequest) -> str:
        """Its session, for those who may see sessions."""
        session_id = getattr(request, _SESSION_LEFT, None)
        return (self.url("chatsession_change", session_id) if session_id else "") or super().after_deletion(request)


def _consequences(reach: Reach) -> Iterable[str]:
    """What a redaction does, in the order of its weight."""
    yield "Its text, tool arguments, reasoning, attachments and metadata are gone for good; ids of calls stay."
    if reach.live:
        yield f"{told(reach.live, 'summary is', 'summaries are')} retired and emptied: the originals come back."
    else:
        yield "No live summary holds it."
    if reach.retired:
        yield f"{told(reach.retired, 'retired summary is', 'retired summaries are')} emptied too."
    if reach.ended_runs:
        yield f"{told(reach.ended_runs, 'run loses its', 'runs lose their')} instructions and error details."
    if reach.open_runs:
        yield f"{told(reach.open_runs, 'run at work reads', 'runs at work read')} anew before anything is written."
    yield "A title of the session that is how the message began is emptied."
