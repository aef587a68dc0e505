"""Erasing from the admin: a page says in numbers, in a fixed number of queries, what else is erased before it is done.

Redacting removes the text of one message and empties every summary that may quote it. Deleting removes the message
and everything below it. Both go through ``chat``, and neither leaves text of the conversation in the admin's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib import messages as notes
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin.compacting import requested_after
from compaction_app.admin.display import place, plural, shortened
from compaction_app.admin.records import CHANGES, KEPT, MOST_AT_ONCE, UNSEEN, RecordAdmin, Told, as_uuid, is_id, page
from compaction_app.admin.unseen import Unseen, unseen_at, unseen_without_own
from compaction_app.exceptions import CompactionError, MessageNotFound
from compaction_app.models import ChatMessage, CompactionRun, sql
from compaction_app.tree.branches import database_of, history_at
from compaction_app.values import OPEN_RUN_STATUSES, Kind

#: Live summaries that a page names.
_MOST_NAMED = 50
_LONGEST_REPLACEMENT = 1000
_REPLACEMENT = "[redacted]"
_TITLE = "If the title of the session was made of the beginning of what goes, it is cleared too."
#: Characters by which people recognize a message that they selected; the page shortens them.
_LONGEST_SHOWN = 200


class RedactForm(forms.Form):
    replacement = forms.CharField(
        max_length=_LONGEST_REPLACEMENT,
        initial=_REPLACEMENT,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Replaces the text. The model is sent this instead.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """What depends on messages."""

    #: The messages themselves and those below them, and how many of these are tips.
    messages: int
    tips: int
    #: Summaries anchored at them or below them.
    live: int
    retired: int
    #: Runs whose tip or anchor is there.
    open_runs: int
    ended_runs: int
    #: The live summaries that a page names.
    named: tuple[ChatMessage, ...]


def affected_by(*messages: ChatMessage) -> Affected:
    """Of messages of one session. A constant number of queries, however much there is."""
    using, ids = database_of(messages[0]), [message.pk for message in messages]
    statement = sql.NODES_AND_BELOW.format(nodes=", ".join(["%s"] * len(ids)))
    at_or_below = RawSQL(statement, ids)  # noqa: S611  # names of tables, never a value
    nodes: QuerySet[ChatMessage] = ChatMessage.objects.using(using).filter(pk__in=at_or_below)
    is_live = Q(kind=Kind.SUMMARY, retired_at__isnull=True)
    following = ChatMessage.objects.filter(parent=OuterRef("pk"), kind=Kind.MESSAGE)
    found = nodes.aggregate(
        messages=Count("pk", filter=Q(kind=Kind.MESSAGE)),
        tips=Count("pk", filter=Q(~Exists(following), kind=Kind.MESSAGE)),
        live=Count("pk", filter=is_live),
        summaries=Count("pk", filter=Q(kind=Kind.SUMMARY)),
    )
    runs = CompactionRun.objects.using(using).filter(Q(tip_id__in=at_or_below) | Q(anchor_id__in=at_or_below))
    # A subtree has few runs: no index is needed.
    is_open = Q(status__in=OPEN_RUN_STATUSES)
    of_runs = runs.aggregate(open=Count("pk", filter=is_open), all=Count("pk"))
    return Affected(
        messages=found["messages"],
        tips=found["tips"],
        live=found["live"],
        retired=found["summaries"] - found["live"],
        open_runs=of_runs["open"],
        ended_runs=of_runs["all"] - of_runs["open"],
        named=tuple(nodes.filter(is_live).defer("content", "ledger", "metadata").order_by("id")[:_MOST_NAMED]),
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

    def has_redact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.redact_chatmessage")

    # -- redacting ----------------------------------------------------------------------------------------

    @page("<int:pk>/redact/", "redact")
    def redact_view(self, request: HttpRequest, message: ChatMessage) -> HttpResponse:
        here = self.page_of(message)
        if message.is_summary:
            self.message_user(request, "A summary cannot be redacted. Retire it instead.", notes.WARNING)
            return HttpResponseRedirect(here)
        return self._redaction(request, [message], title="Redact", obj=message, back=here)

    @admin.action(description="Redact selected messages", permissions=["redact"])
    def redact_selected(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> HttpResponse | None:
        selected = self.selected(request, queryset)
        if not selected:
            return None
        ids = ",".join(str(message.pk) for message in selected)
        session = selected[0].session_id
        return HttpResponseRedirect(self.url("chatmessage_redact_selected", session=session, ids=ids))

    @page("redact/", "redact")
    def redact_selected_view(self, request: HttpRequest) -> HttpResponse:
        """The messages with these ids in one session: its lists offer the action."""
        wanted = [int(pk) for pk in request.GET.get("ids", "").split(",") if is_id(pk)]
        session = as_uuid(request.GET.get("session", ""))
        found = self.get_queryset(request).filter(kind=Kind.MESSAGE, session=session, pk__in=wanted[:MOST_AT_ONCE])
        shown = found.annotate(beginning=Left("content", _LONGEST_SHOWN))
        selected = list(shown.defer(*self.texts).order_by("id"))
        if not selected:
            self.message_user(request, "Nothing to redact: no message was selected.", notes.WARNING)
            return HttpResponseRedirect(self.list_link()[0])
        crumbs = [self.list_link(), (self._search_url(selected[0]), "Messages of one session")]
        about = {"title": f"Redact {plural(len(selected), 'message')}", "crumbs": crumbs, "button": "Redact"}
        return self._redaction(request, selected, back=crumbs[-1][0], **about)

    def _redaction(self, request: HttpRequest, redacting: Sequence[ChatMessage], **about: Any) -> HttpResponse:
        """The page before a redaction, and the redaction."""
        only, repeat = ("this message is", "it") if len(redacting) == 1 else ("these messages are", "them")
        return self.confirm(
            request,
            lambda given: self._redact(request, redacting, given["replacement"]),
            question=format_html(
                "This cannot be undone. <strong>Only {} erased.</strong> Replies, edits and other branches may repeat "
                '{}: <a href="{}">search this session</a>.',
                *(only, repeat, self._search_url(redacting[0])),
            ),
            tell=partial(self._told_of_redacting, redacting),
            form=RedactForm,
            is_final=True,
            **about,
        )

    def _told_of_redacting(self, redacting: Sequence[ChatMessage]) -> Told:
        affected, is_one = affected_by(*redacting), len(redacting) == 1
        again = "The messages that were summarized are sent in full again, as far as they fit."
        lines: list[Any] = ["The text, tool arguments, reasoning, what came, attachments and metadata are erased."]
        if affected.live:
            lines.append(f"{plural(affected.live, 'summary is', 'summaries are')} retired and emptied. {again}")
            lines.append(self._named(affected))
        else:
            lines.append(f"No live summary covers {'it' if is_one else 'them'}.")
        if affected.retired:
            lines.append(f"{plural(affected.retired, 'retired summary is', 'retired summaries are')} emptied as well.")
        if affected.ended_runs:
            lose = plural(affected.ended_runs, "run loses its", "runs lose their")
            lines.append(f"{lose} instructions and error details.")
        if affected.open_runs:
            read = plural(affected.open_runs, "open run reads", "open runs read")
            lines.append(f"{read} the branch again before writing.")
        if redacting[0].session.title:
            lines.append(_TITLE)
        # A new summary stands in for those that leave only.
        unseen = affected.live and unseen_without_own(min(redacting, key=lambda message: message.depth))
        selected = {} if is_one else {"Messages that are redacted": self._selected(redacting)}
        return {
            **selected,
            CHANGES: lines,
            KEPT: ["Tool call ids, and every other message."],
            UNSEEN: self._unseen(unseen),
        }

    def _selected(self, redacting: Sequence[Any]) -> list[str]:
        beginnings = (shortened(getattr(message, "beginning", ""), 80) for message in redacting)
        return [
            format_html('{}, {}: <span dir="auto">{}</span>', self.link_to_record(message), place(message.depth), text)
            for message, text in zip(redacting, beginnings, strict=True)
        ]

    def _named(self, affected: Affected) -> list[str]:
        more = affected.live - len(affected.named)
        named = [self.link_to_record(row) for row in affected.named]
        return [*named, plural(more, "more summary", "more summaries")] if more else named

    def _unseen(self, unseen: Unseen | int | None) -> list[str]:
        return [unseen.sentence(self.link_to_record(unseen.tip))] if isinstance(unseen, Unseen) else []

    def _redact(self, request: HttpRequest, redacting: Sequence[ChatMessage], replacement: str) -> HttpResponse | None:
        """Each in a transaction of its own; a message names those that failed."""
        redacted, gone = [], 0
        for message in redacting:
            try:
                chat.redact_message(message, replacement=replacement)
            except MessageNotFound:
                gone += 1
                self.message_user(request, f"{message} has been deleted in the meantime.", notes.WARNING)
            except CompactionError as error:
                self.message_user(request, f"{message}: {error}", notes.ERROR)
            else:
                # Neither the old text nor the new one: this log outlives both.
                self.log_change(request, message, "Redacted.")
                redacted.append(message)
        if redacted:
            is_one = len(redacted) == 1
            words = '{}. {}: <a href="{}">search this session</a>.'
            done = f"{redacted[0]} is redacted" if is_one else f"{len(redacted)} messages are redacted"
            only, repeated = ("this message is", "it") if is_one else ("these messages are", "them")
            copies = f"Only {only} erased. Replies, edits and other branches may repeat {repeated}"
            told = format_html(words, done, copies, self._search_url(redacted[0]))
            requested = requested_after(self, [redacted[0].session])
            self.message_user(request, format_html("{} {}", told, requested), notes.SUCCESS)
        return HttpResponseRedirect(self.list_link()[0]) if gone == len(redacting) else None

    def _search_url(self, message: ChatMessage) -> str:
        """The list that searches its session, without a text: a browser would keep it in its history."""
        return self.url("chatmessage_changelist", session=message.session_id)

    # -- deleting -----------------------------------------------------------------------------------------

    def deletion(self, request: HttpRequest, obj: ChatMessage) -> dict[str, Any]:
        affected, lines, kept = affected_by(obj), [str(obj)], ["Every other message."]
        if affected.messages > 1:
            of_branches = "the end of its branch" if affected.tips == 1 else f"the ends of {affected.tips:,} branches"
            lines.append(f"{plural(affected.messages - 1, 'message after it', 'messages after it')}, {of_branches}")
        told: list[Any] = lines
        if affected.live:
            told += [plural(affected.live, "live summary", "live summaries"), self._named(affected)]
        if affected.retired:
            told.append(plural(affected.retired, "retired summary", "retired summaries"))
        if affected.open_runs:
            told.append(f"{plural(affected.open_runs, 'open run writes', 'open runs write')} no summary.")
        if obj.session.title:
            told.append(_TITLE)
        if runs := affected.open_runs + affected.ended_runs:
            as_record = plural(runs, "run as a record", "runs as records")
            kept.append(f"{as_record}, without instructions and links to the messages.")
        question = "This message and everything after it are deleted. This cannot be undone."
        if self.has_redact_permission(request):
            way = ' To remove only this text, use <a href="{}">Redact</a>.'
            question = format_html("{}" + way, question, self.url("chatmessage_redact", obj.pk))
        return {"question": question, "told": {CHANGES: told, KEPT: kept, UNSEEN: self._unseen(_unseen_above(obj))}}

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
