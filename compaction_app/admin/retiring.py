"""Retiring summaries: a page that says which ones go, asks for the reason, and does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.contrib import admin, messages
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.compacting import at_most
from compaction_app.admin.filters import KIND_WORDS
from compaction_app.admin.records import MOST_AT_ONCE, RecordAdmin, is_id
from compaction_app.models import ChatMessage, sql
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind

_LONGEST_REASON = 255
#: Says in an address that the summaries were selected in a list.
FROM_LIST = "list"
_QUESTION = (
    "These are taken out of use. The messages that they stand for are back in the context on the next read, "
    "and a branch is compacted anew when it has to be."
)


class RetireForm(forms.Form):
    reason = forms.CharField(
        max_length=_LONGEST_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Kept with each of them, for the record.",
    )


@dataclass(frozen=True, slots=True)
class Retirement:
    """What retiring the selected summaries takes out of use."""

    selected: tuple[ChatMessage, ...]
    #: Live ones among the selected and those built on them, oldest first.
    leaving: tuple[ChatMessage, ...]

    @property
    def selected_ids(self) -> set[int]:
        return {summary.pk for summary in self.selected}

    def carry_out(self, reason: str) -> list[int]:
        retired: list[int] = []
        for summary in self.selected:
            retired += chat.retire_summary(summary, reason=reason)
        return sorted(retired)


def plan_retirement(selected: Sequence[ChatMessage]) -> Retirement:
    if not selected:
        return Retirement((), ())
    leaving: set[int] = set()
    for summary in selected:
        leaving |= _built_on(summary)
    rows = ChatMessage.objects.using(database_of(selected[0])).live().filter(pk__in=leaving)
    without_texts = rows.select_related("session").defer("content", "metadata").order_by("id")
    return Retirement(tuple(selected), tuple(without_texts))


def _built_on(summary: ChatMessage) -> set[int]:
    """The summary and every one built on it, as ``chat.retire_summary`` finds them."""
    with connections[database_of(summary)].cursor() as cursor:
        cursor.execute(sql.BUILT_ON, {"summary": summary.pk})
        return {row[0] for row in cursor.fetchall()}


class RetiringAdmin(RecordAdmin):
    """The action on a list, and the page that it and a summary's own page lead to."""

    def get_urls(self) -> list[URLPattern]:
        return [self.page("retire/", self.retire_view, "chatmessage_retire"), *super().get_urls()]

    @admin.action(description="Retire", permissions=["retire"])
    def retire(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> HttpResponse | None:
        selected = at_most(self, request, queryset)
        if not selected:
            return None
        ids = ",".join(str(summary.pk) for summary in selected)
        return HttpResponseRedirect(self.url("chatmessage_retire", ids=ids, **{FROM_LIST: 1}))

    def retire_view(self, request: HttpRequest) -> HttpResponse:
        """The selected summaries and what is built on them; a reason; and by POST the deed."""
        self.require(request, self.has_retire_permission(request))
        selected = self._summaries(request, request.GET.get("ids", ""))
        retirement = plan_retirement(selected)
        # Whoever came from a summary's page goes back there.
        own = selected[0] if len(selected) == 1 and FROM_LIST not in request.GET else None
        list_url = self.url("chatmessage_changelist", kind=str(Kind.SUMMARY))
        back = self.url("chatmessage_change", own.pk) if own else list_url
        if not retirement.leaving:
            self.message_user(request, "Nothing to retire: no live summary was selected.", messages.WARNING)
            return HttpResponseRedirect(back)
        form = RetireForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            self._carry_out(request, retirement, form.cleaned_data["reason"])
            return HttpResponseRedirect(back)
        rows = [
            (
                self.link_to("chatmessage", summary.pk, str(summary)),
                self.link_to_session(summary.session),
                "selected" if summary.pk in retirement.selected_ids else "built on a selected one",
            )
            for summary in retirement.leaving
        ]
        return self.confirm(
            request,
            title="Retire" if len(retirement.leaving) == 1 else "Retire summaries",
            crumbs=self.crumbs(own) if own else [(list_url, KIND_WORDS[Kind.SUMMARY])],
            question=_QUESTION,
            rows=rows,
            form=form,
            button="Retire",
            back=back,
        )

    def _summaries(self, request: HttpRequest, ids: str) -> list[ChatMessage]:
        wanted = [int(pk) for pk in ids.split(",") if is_id(pk)]
        found = self.get_queryset(request).filter(kind=Kind.SUMMARY, pk__in=wanted[:MOST_AT_ONCE])
        return list(found.defer(*self.texts).order_by("id"))

    def _carry_out(self, request: HttpRequest, retirement: Retirement, reason: str) -> None:
        retired = retirement.carry_out(reason)
        for summary in retirement.leaving:
            if summary.pk in retired:
                # Without the reason: it may quote the summary, and this log outlives an erasure.
                self.log_change(request, summary, "Retired.")
        links = display.joined((self.link_to_message(pk, "Summary") for pk in retired), ", ")
        self.message_user(request, format_html("Retired {}: {}.", len(retired), links), messages.SUCCESS)
