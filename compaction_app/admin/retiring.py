"""Retiring summaries from the admin: a page says which are retired, and what the model no longer sees afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from django import forms
from django.contrib import admin, messages
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin.compacting import requested_after
from compaction_app.admin.display import joined
from compaction_app.admin.filters import KIND_WORDS
from compaction_app.admin.records import CHANGES, KEPT, MOST_AT_ONCE, UNSEEN, RecordAdmin, Told, is_id, page
from compaction_app.admin.unseen import Unseen, unseen_at
from compaction_app.models import ChatMessage, sql
from compaction_app.tree.branches import database_of
from compaction_app.tree.lanes import newest_tip_below
from compaction_app.values import Kind

_LONGEST_REASON = 255
#: In an address: the summaries were selected in a list.
FROM_LIST = "list"
#: For at most this many summaries the page before a retirement says what the model will no longer see.
_MOST_UNSEEN = 20


class RetireForm(forms.Form):
    reason = forms.CharField(
        max_length=_LONGEST_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Stored with each summary that is retired.",
    )


class RetiringAdmin(RecordAdmin):
    """An action on the list of summaries, and a page that says which are retired and asks for the reason."""

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.retire_summary")

    @admin.action(description="Retire", permissions=["retire"])
    def retire(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> HttpResponse | None:
        selected = self.selected(request, queryset)
        if not selected:
            return None
        ids = ",".join(str(summary.pk) for summary in selected)
        return HttpResponseRedirect(self.url("chatmessage_retire", ids=ids, **{FROM_LIST: 1}))

    @page("retire/", "retire")
    def retire_view(self, request: HttpRequest) -> HttpResponse:
        wanted = [int(pk) for pk in request.GET.get("ids", "").split(",") if is_id(pk)]
        found = self.get_queryset(request).filter(kind=Kind.SUMMARY, pk__in=wanted[:MOST_AT_ONCE])
        selected = list(found.defer(*self.texts).order_by("id"))
        retiring = _live_on(selected)
        # People who came from a summary's page return there.
        own = selected[0] if len(selected) == 1 and FROM_LIST not in request.GET else None
        summaries = self.url("chatmessage_changelist", kind=str(Kind.SUMMARY)), KIND_WORDS[Kind.SUMMARY]
        above = self.crumbs(own) if own else [summaries]
        back = above[-1][0]
        if not retiring:
            self.message_user(request, "Nothing to retire: no live summary was selected.", messages.WARNING)
            return HttpResponseRedirect(back)
        return self.confirm(
            request,
            lambda given: self._retire(request, selected, retiring, given["reason"]),
            title="Retire" if len(retiring) == 1 else "Retire summaries",
            crumbs=above,
            question=(
                f"{'This summary is' if len(retiring) == 1 else 'These summaries are'} taken out of use. The messages "
                "that were summarized are sent in full again, as far as they fit."
            ),
            tell=partial(self._told_of_retiring, selected, retiring),
            form=RetireForm,
            button="Retire",
            back=back,
        )

    def _told_of_retiring(self, selected: Sequence[ChatMessage], retiring: Sequence[ChatMessage]) -> Told:
        def line(summary: ChatMessage) -> str:
            built = "" if summary in selected else ", built on a selected one"
            return format_html("{} of {}{}", self.link_to_record(summary), self.link_to_session(summary.session), built)

        unseen = [one.sentence(self.link_to_record(one.tip)) for one in _unseen_without(retiring)]
        kept = ["The summaries themselves, as a record, and every message."]
        return {CHANGES: ["Taken out of use:", [line(one) for one in retiring]], KEPT: kept, UNSEEN: unseen}

    def _retire(
        self, request: HttpRequest, selected: Iterable[ChatMessage], retiring: Sequence[ChatMessage], reason: str
    ) -> None:
        retired = sorted(pk for summary in selected for pk in chat.retire_summary(summary, reason=reason))
        for summary in retiring:
            if summary.pk in retired:
                # Without the reason: it may quote the summary, and this log outlives an erasure.
                self.log_change(request, summary, "Retired.")
        links = joined((self.link_to_message(pk, "Summary") for pk in retired), ", ")
        requested = requested_after(self, {summary.session for summary in retiring})
        self.message_user(request, format_html("Retired {}: {}. {}", len(retired), links, requested), messages.SUCCESS)


def _unseen_without(retiring: Sequence[ChatMessage]) -> list[Unseen]:
    """Without these summaries, for each branch that used one: what its oldest one was built on still applies."""
    found: dict[int, Unseen | None] = {}
    for summary in retiring[:_MOST_UNSEEN]:
        tip = newest_tip_below(summary.parent) if summary.parent else None
        if tip is not None and tip.pk not in found:
            run = summary.made_by.select_related("base__last_summarized_message").first()
            found[tip.pk] = unseen_at(tip, run.base if run else None)
    return [unseen for unseen in found.values() if unseen]


def _live_on(selected: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The live ones among these summaries and all built on them, oldest first, as ``chat.retire_summary`` has it."""
    if not selected:
        return []
    built: set[int] = set()
    using = database_of(selected[0])
    for summary in selected:
        with connections[using].cursor() as cursor:
            cursor.execute(sql.BUILT_ON, {"summary": summary.pk})
            built.update(pk for (pk,) in cursor.fetchall())
    rows = ChatMessage.objects.using(using).live().filter(pk__in=built).select_related("session")
    return list(rows.defer("content", "ledger", "metadata").order_by("id"))
