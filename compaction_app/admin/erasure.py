"""Redacting, retiring and deleting from the admin: a page says in numbers what else goes, in constant queries.

All go through ``chat``, and none leaves text of the conversation in the admin's log. What the model reads afterwards is
read from the context without the summaries that go. The branch may be too long for its window until it is compacted
again: the page says how many messages the model no longer sees.
"""

from collections.abc import Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages as notes
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime, now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app import chat
from compaction_app.admin import display
from compaction_app.admin.compacting import COMPACT, held_back, requested_after
from compaction_app.admin.display import joined
from compaction_app.admin.links import Links
from compaction_app.admin.records import SEARCH, RecordAdmin
from compaction_app.conversation.erase import carried_from, continued_with, live_built_on, quotations_of
from compaction_app.exceptions import CompactionError, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, sql
from compaction_app.models.columns import lean
from compaction_app.models.database import Near
from compaction_app.models.managers import ChatMessageQuerySet
from compaction_app.tree.lanes import longest_with, newest_branches
from compaction_app.values import ChatContext, Origin

#: Live summaries that a page names.
_MOST_NAMED = 50


class RedactForm(forms.Form):
    replacement = forms.CharField(
        label=gettext_lazy("Replacement"),
        max_length=1000,
        initial=gettext_lazy("[redacted]"),
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text=gettext_lazy("Replaces the text. The model is sent this instead."),
    )


class CopiesField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # subscripting it: type checkers only
    """Copies of a message in other conversations, each with the name of its own."""

    def __init__(self, links: Links, copies: QuerySet[ChatMessage]) -> None:
        said = _("The same message in other conversations: copied from this one, or this one from it.")
        options = {"label": _("Also redact copies"), "help_text": said, "widget": forms.CheckboxSelectMultiple}
        super().__init__(copies, required=False, **options)
        self.links = links

    def label_from_instance(self, obj: ChatMessage) -> str:
        made = date_format(localtime(obj.session.created_at), "DATE_FORMAT")
        return f"{self.links.name(obj.session)} · {obj.session.owner or display.EMPTY} · {made}: {obj}"


class RetireForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=255,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text=gettext_lazy("Stored with each summary that is retired."),
    )


def _at_or_below(erased: ChatMessage) -> tuple[ChatMessageQuerySet, ChatMessageQuerySet]:
    """The nodes at or below a message, and the live summaries among them."""
    at_or_below = RawSQL(sql.NODE_AND_BELOW, [erased.pk])  # noqa: S611  # names of tables, never a value
    nodes = ChatMessage.objects.in_database_of(erased).filter(pk__in=at_or_below)
    return nodes, lean(nodes.live().order_by("id"))


def _unseen(tip: ChatMessage, context: ChatContext | None) -> dict[str, Any]:
    """How many messages of a branch are left out of its context, and of how many tokens; {} if all of it fits."""
    if context is None or not context.dropped:
        return {}
    rows = ChatMessage.objects.in_database_of(tip).filter(pk=context.cutoff_id)
    covered = rows.values_list("path_tokens", flat=True)[0] if context.cutoff_id else 0
    shown = sum(one.tokens for one in context.messages if one.origin in (Origin.VERBATIM, Origin.PRUNED))
    limit = held_back(tip.session)
    return {"tip": tip, "dropped": context.dropped, "tokens": tip.path_tokens - covered - shown, "limit": limit}


def _tip(pk: int | None, near: Near) -> ChatMessage | None:
    return ChatMessage.objects.in_database_of(near).select_related("session").filter(pk=pk).first()


def _without(links: Links, gone: QuerySet[ChatMessage], session: ChatSession) -> dict[str, Any]:
    """The summaries that go, and of the longest branch that loses one what the model reads there afterwards, and what
    it no longer sees."""
    told = {"live": gone, "most": _MOST_NAMED}
    tip = _tip(longest_with(newest_branches(session), {one.pk for one in gone}), gone)
    if tip is None:
        return told
    context = _context_without(tip, gone)
    return told | {"reads": _reads(links, tip, context), "unseen": _unseen(tip, context), "is_longest": True}


def _context_without(tip: ChatMessage, gone: QuerySet[ChatMessage]) -> ChatContext | None:
    """They are retired, the context is read, and that is rolled back: nothing else agrees with the context after it."""
    with transaction.atomic(using=gone.db):
        # A copy of the queryset: an update forgets the rows that were read.
        gone.all().update(retired_at=now())
        context = _context_at(tip)
        transaction.set_rollback(True, using=gone.db)
    return context


def _context_at(tip: ChatMessage) -> ChatContext | None:
    """None where no context can be made, whatever is erased: the newest turn is too large, or a redactor fails."""
    with suppress(CompactionError):
        return chat.get_context(tip)
    return None


def _reads(links: Links, tip: ChatMessage, context: ChatContext | None) -> str:
    """Which summary the model reads at a tip, or the messages themselves; "" where no context can be made."""
    if context is None:
        return ""
    read: str = _("the messages themselves, as far as they fit")
    if context.summary_id:
        is_shared = any(one.origin == Origin.SHARED_EXTRACT for one in context.messages)
        said = _("the extract of {} and the messages after it") if is_shared else _("{} and the messages after it")
        read = format_html(said, links.summary(context.summary_id))
    return format_html(_("At {} the model reads {}."), links.record(tip), read)


def _unseen_above(message: ChatMessage, gone: QuerySet[ChatMessage]) -> dict[str, Any]:
    """What a deletion leaves that does not fit: its parent may end a branch that was compacted only below it."""
    parent = message.parent_message_id
    rows = ChatMessage.objects.in_database_of(message).messages()
    if parent is None or rows.filter(parent=parent).exclude(pk=message.pk).exists():
        return {}
    tip = rows.select_related("session").filter(pk=parent).first()
    return _unseen(tip, _context_without(tip, gone)) if tip else {}


class ErasingAdmin(RecordAdmin):
    """The pages before a redaction and a retirement, and the contents of the page before a deletion."""

    def get_urls(self) -> list[Any]:
        return [
            self.page("<int:pk>/redact/", self.redact_view, "redact_chatmessage"),
            self.page("<int:pk>/retire/", self.retire_view, "retire_summary"),
            self.page("<int:pk>/correct/", self.correct_view, "retire_summary"),
            *super().get_urls(),
        ]

    def redact_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        if obj.is_summary:
            raise Http404("A summary is retired, not redacted.")
        continued = continued_with(obj)
        return self.confirm(
            links,
            obj,
            lambda given: self._redact(links, obj, **given),
            "chatmessage/redact.html",
            title=_("Redact"),
            tell=partial(self._told_of_redacting, links, obj, continued),
            form=self._redact_form(links, obj, continued),
            search_url=_search_url(links, obj),
            is_final=True,
        )

    def _told_of_redacting(self, links: Links, message: ChatMessage, continued: Set[Any]) -> dict[str, Any]:
        nodes, live = _at_or_below(message)
        told = {"quotations": len(quotations_of(message, [message.pk])), "carried": carried_from(nodes).count()}
        return {**told, "continued": len(continued), **_without(links, live, message.session)}

    def _redact_form(self, links: Links, message: ChatMessage, continued: Set[Any]) -> type[forms.Form]:
        """With a box for each copy of the message that the user may see; nothing tells of others, and those in sessions
        that continue this one are erased in any case."""
        left = (one for one in chat.copies_of(message) if one.session_id not in continued)
        copies = [one.pk for one in left if one.redacted_at is None]
        rows: QuerySet[ChatMessage] = lean(self.get_queryset(links.request).filter(pk__in=copies))
        seen = [one.pk for one in rows if self.has_view_permission(links.request, one)]

        class WithCopies(RedactForm):
            copies = CopiesField(links, rows.filter(pk__in=seen).select_related("session__owner"))

        return WithCopies if seen else RedactForm

    def _redact(
        self, links: Links, message: ChatMessage, replacement: str, copies: Sequence[ChatMessage] = ()
    ) -> HttpResponse | None:
        try:
            chat.redact_message(message, replacement=replacement, copies=copies)
        except CompactionError as error:
            self.message_user(links.request, f"{message}: {error}", notes.ERROR)
            return None
        # Neither the old text nor the new one: this log outlives both.
        for one in (message, *copies):
            self.log_change(links.request, one, _("Redacted."))
        said = _(
            "Redacted: {}. Replies, edits and other branches may repeat it, and stay: "
            '<a href="{}">search this session</a>. {}'
        )
        then, named = requested_after(links, message.session), joined(map(links.record, (message, *copies)), ", ")
        told = format_html(said, named, _search_url(links, message), then)
        self.message_user(links.request, told, notes.SUCCESS)
        # Where a search led here, its other hits are next.
        search = links.request.GET.get(SEARCH, "")
        hits = f"{links.url('chatmessage_changelist')}?{search}"
        return HttpResponseRedirect(hits) if QueryDict(search).get("q") else None

    def retire_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        live = lean(live_built_on(obj)).order_by("id")
        if not (obj.is_summary and live):
            raise Http404("There is no such live summary.")
        return self.confirm(
            links,
            obj,
            lambda given: self._retire(links, obj, given["reason"]),
            "chatmessage/retire.html",
            title=_("Retire"),
            tell=partial(_without, links, live, obj.session),
            form=RetireForm,
        )

    def correct_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        live = lean(live_built_on(obj)).order_by("id")
        # By POST the form says that it was corrected meanwhile, and keeps the text.
        if not obj.is_summary or (request.method != "POST" and not live):
            raise Http404("There is no such live summary.")
        if not links.may(COMPACT):
            raise PermissionDenied

        class CorrectForm(forms.Form):
            text = forms.CharField(
                label=_("Text"),
                initial=obj.content,
                widget=forms.Textarea(attrs={"rows": 20, "class": "vLargeTextField", "dir": "auto"}),
                help_text=_("The model is sent this instead. The ledger below it stays.")
                if obj.ledger
                else _("The model is sent this instead."),
            )

        def act(given: dict[str, Any]) -> HttpResponse:
            run = chat.correct_summary(obj, given["text"], author=request.user)
            self.log_change(request, obj, _("Corrected by run {}.").format(run.pk))
            said = format_html(_("Corrected: {} is in use."), links.summary(run.summary_id, run.generation))
            self.message_user(request, said, notes.SUCCESS)
            return HttpResponseRedirect(links.url("chatmessage_change", run.summary_id))

        about: Any = {"title": _("Correct"), "form": CorrectForm, "live": live}
        return self.confirm(links, obj, act, "chatmessage/correct.html", **about)

    def _retire(self, links: Links, summary: ChatMessage, reason: str) -> None:
        live = live_built_on(summary).values_list("pk", flat=True)
        tip = _tip(longest_with(newest_branches(summary.session), set(live)), summary)
        retired = sorted(chat.retire_summary(summary, reason=reason))
        for one in lean(ChatMessage.objects.in_database_of(summary).filter(pk__in=retired)):
            # Without the reason: it may quote the summary, and this log outlives an erasure.
            self.log_change(links.request, one, _("Retired."))
        named, then = joined(map(links.summary, retired), ", "), requested_after(links, summary.session)
        reads = _reads(links, tip, _context_at(tip)) if tip else ""
        said = format_html(_("Retired {}: {}. {} {}"), len(retired), named, reads, then)
        self.message_user(links.request, said, notes.SUCCESS)

    def may_delete(self, obj: ChatMessage) -> bool:
        return not obj.is_summary

    def deletion(self, links: Links, obj: ChatMessage) -> dict[str, Any]:
        nodes, live = _at_or_below(obj)
        return {
            "below": nodes.messages().count() - 1,
            "tips": nodes.tips().count(),
            "live": live,
            "most": _MOST_NAMED,
            "continued": len(continued_with(obj)),
            "carried": carried_from(nodes).exclude(pk__in=nodes.values("pk")).count(),
            "unseen": _unseen_above(obj, live),
        }

    def delete_model(self, request: HttpRequest, obj: ChatMessage) -> None:
        with suppress(MessageNotFound):  # deleted since it was read, as by a second click
            chat.delete_message(obj)

    def after_deletion(self, links: Links, obj: ChatMessage) -> str:
        """The page of its session, for people who may view sessions."""
        return links.page_of(obj.session) or super().after_deletion(links, obj)


def _search_url(links: Links, message: ChatMessage) -> str:
    """The list that searches its session, without a text: a browser would keep it in its history."""
    return links.url("chatmessage_changelist", session=message.session_id)
