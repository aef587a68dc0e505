"""Messages and summaries: two lists of one table, and a page for each that shows what the model sees.

A message's page has its texts, its place in the tree and what was recorded with it. A text may be four megabytes long,
so a page shows its beginning, and an address of its own has all of it as plain text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin
from django.contrib import messages as notes
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet, TextField, prefetch_related_objects
from django.db.models.functions import Cast, Left
from django.db.models.lookups import IContains
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from compaction_app import chat
from compaction_app.admin import display, filters, records, summaries
from compaction_app.admin.compacting import TOLD_OF_COMPACTING, CompactForm, Report, is_off
from compaction_app.admin.contexts import context_here, context_then
from compaction_app.admin.erasure import ErasingAdmin
from compaction_app.admin.retiring import RetiringAdmin
from compaction_app.admin.summaries import SummaryFields
from compaction_app.admin.transcripts import transcript_of
from compaction_app.exceptions import CompactionError
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.validation import canonical
from compaction_app.models import ChatMessage
from compaction_app.values import Kind

COLUMNS = ("message", "role", "begins_with", "in_session", "depth_shown", "own_tokens", "from_root", "created")
#: Characters of a message that a list shows.
SHOWN_IN_LISTS = 80
#: Characters of a text that a page shows.
SHOWN = 20_000
#: Neighbors that a page links to.
_MOST_NEIGHBORS = 50
#: In an address: "now" for what would be sent now, where what was sent is shown otherwise.
SENT = "sent"
#: Texts that have an address of their own, by their name in it.
_TEXTS = ("content", "tool_calls", "reasoning", "original", "attachments", "usage", "metadata", "sent_context")

SECTIONS: records.Sections = (
    (None, ["in_session", "role", "text", "calls", "tool_call_id", "name", "attached"]),
    (
        "Place",
        ["parent_link variants", "following", "summaries_here", "runs_here", "depth_shown own_tokens from_root"],
    ),
    (
        "Record",
        ["created", "redacted", "model", "used", "stored", "external_id", "idempotency_key"],
    ),
)
# -- texts of any size --------------------------------------------------------------------------------------


def _text_of(message: ChatMessage, part: str) -> str:
    """One of ``_TEXTS``; JSON formatted."""
    value: Any = getattr(message, part)
    if part == "content":
        return message.text
    return json.dumps(canonical(value), indent=2, ensure_ascii=False) if value else ""


def _has_text(text: str) -> Q:
    """Messages with a text in any column that a redaction erases.

    JSON writes quotes as ``\\"``, and other letters than ASCII as they are or as ``\\u…``: SQLite has one, PostgreSQL
    the other. The arguments of a tool call are JSON within JSON.
    """
    within = (text, *_in_json(text))
    written = dict.fromkeys(form for inner in within for form in _in_json(inner))
    columns = [Cast(name, TextField()) for name in ("tool_calls", "reasoning", "original", "attachments", "metadata")]
    conditions = [Q(IContains(column, form)) for column in columns for form in written]
    return Q(
        Q(content__icontains=text), Q(ledger__icontains=text), Q(name__icontains=text), *conditions, _connector=Q.OR
    )


def _in_json(text: str) -> tuple[str, str]:
    """A text as JSON may contain it, without the quotes around it."""
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _with_rest(block: str, left_out: int, url: str) -> str:
    if left_out <= 0:
        return block
    return format_html(
        '{}<p class="compaction-note">{} more characters are not shown: <a href="{}">show the full text</a>.</p>',
        block,
        display.number(left_out),
        url,
    )


def _plain_text(text: str, status: int = 200) -> HttpResponse:
    """No browser interprets it as anything but text, whatever it contains."""
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": "inline",
        "Cache-Control": "private, no-store",
    }
    # JSON can escape what no encoding can send: lone surrogates.
    body = text.encode("utf-8", "backslashreplace")
    return HttpResponse(body, status=status, content_type="text/plain; charset=utf-8", headers=headers)


# -- fields -------------------------------------------------------------------------------------------------


class MessageFields(records.RecordAdmin):
    message = display.column("message", lambda _, message: f"Message {message.pk}")
    in_session = records.session_column
    depth_shown = display.shown("depth", display.place)
    own_tokens = display.shown("token_count", display.number, "own tokens")
    from_root = display.shown("path_tokens", display.number, "tokens from the root")
    parent_link = records.message_column("parent_message_id", "parent")
    created = display.shown("created_at", display.exact_moment)
    redacted = display.shown("redacted_at", display.exact_moment)
    attached = display.shown("attachments", lambda many: display.joined(map(attachment_line, many)), "attachments")
    used = display.shown("usage", display.figures, "usage")

    @admin.display(description="begins with")
    def begins_with(self, obj: ChatMessage) -> str:
        beginning: str = obj.beginning  # annotated by for_list
        return display.line(beginning, is_cut=len(beginning) == SHOWN_IN_LISTS)

    @admin.display(description="text")
    def text(self, obj: ChatMessage) -> str:
        text = obj.text
        if obj.is_summary and obj.redacted_at and not text:
            words = "Erased on {}: a message that it may have quoted was redacted."
            return format_html(words, display.moment(obj.redacted_at))
        return _with_rest(display.text_block(text[:SHOWN]), len(text) - SHOWN, self.text_url(obj, "content"))

    def _calls(self, obj: ChatMessage) -> str:
        calls = "\n\n".join("{}({})".format(*display.name_and_arguments(call)) for call in obj.tool_calls or ())
        return _with_rest(display.code_block(calls[:SHOWN]), len(calls) - SHOWN, self.text_url(obj, "tool_calls"))

    calls = display.column("tool calls", _calls, "tool_calls")

    @admin.display(description="as stored")
    def stored(self, obj: ChatMessage) -> str:
        """Links to what is JSON."""
        parts = [part for part in _TEXTS[1:] if getattr(obj, part)]
        return display.joined(display.link(self.text_url(obj, part), display.words(part)) for part in parts)

    @admin.display(description="variants")
    def variants(self, obj: ChatMessage) -> str:
        """This message and its siblings, numbered as in a chat."""
        siblings = ChatMessage.objects.get_siblings(obj).filter(kind=Kind.MESSAGE).values_list("pk", flat=True)

        def link(pk: int, rank: int) -> str:
            own = format_html('<strong aria-current="page">{}</strong>', rank)
            return own if pk == obj.pk else self.link_to("chatmessage", pk, str(rank))

        return _neighbors(siblings, link)

    @admin.display(description="followed by")
    def following(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.MESSAGE).only("id", "kind", "role")
        return _neighbors(children, lambda child, _: self.link_to_record(child), "Nothing: this is a tip")

    @admin.display(description="summaries anchored here")
    def summaries_here(self, obj: ChatMessage) -> str:
        children = ChatMessage.objects.get_children(obj).filter(kind=Kind.SUMMARY)
        return _neighbors(
            children.only("id", "kind", "last_summarized_message", "retired_at"),
            lambda child, _: display.joined((self.link_to_record(child), summaries.state_of(child)), " "),
        )

    @admin.display(description="runs from here")
    def runs_here(self, obj: ChatMessage) -> str:
        return display.joined(
            (
                self.link_to_list("compactionrun", "Runs with this tip", tip=obj.pk),
                self.link_to_list("compactionrun", "with this anchor", anchor=obj.pk),
                self.link_to_list("compactionevent", "Events", message=obj.pk),
            )
        )

    def text_url(self, obj: ChatMessage, part: str) -> str:
        return self.url("chatmessage_text", obj.pk, part)


def _neighbors(rows: QuerySet[Any, Any], link: Callable[[Any, int], str], none: str = display.EMPTY) -> str:
    """The first of these rows, each as ``link(row, rank)``."""
    found = list(rows[: _MOST_NEIGHBORS + 1])
    links = [link(row, rank) for rank, row in enumerate(found[:_MOST_NEIGHBORS], start=1)]
    return display.joined([*links, "and more"] if len(found) > len(links) else links) if found else none


# -- the admin ----------------------------------------------------------------------------------------------


@admin.register(ChatMessage)
class ChatMessageAdmin(MessageFields, SummaryFields, RetiringAdmin, ErasingAdmin):
    texts = (*_TEXTS, "ledger", *records.SESSION_TEXTS)
    actions = ("compact_now", "retire", "redact_selected")
    # So that the context is near.
    collapsed = "Record"
    search_help_text = "Message ids. Open a session to search its messages."

    class Media:
        css = {"all": ["compaction_app/message.css"]}

    # -- lists --------------------------------------------------------------------------------------------

    def kind(self, request: HttpRequest) -> Kind:
        return filters.shown_kind(request.GET.get("kind"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[filters.MessageList]:
        return filters.MessageList

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        columns = summaries.COLUMNS if self.kind(request) == Kind.SUMMARY else COLUMNS
        # Within one session every row would name it.
        return tuple(name for name in columns if name != "in_session" or "session" not in request.GET)

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        if self.kind(request) == Kind.SUMMARY:
            return (filters.KindFilter, ("retired_at", filters.RetiredFilter), filters.SessionOfMessagesFilter)
        # No index has roles: they are filtered within one session, not in the whole table.
        if "session" not in request.GET:
            return (filters.KindFilter, filters.SessionOfMessagesFilter)
        return (filters.KindFilter, "role", filters.SessionOfMessagesFilter)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-session_id", "-id") if "session" in request.GET else self.ordering

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        actions = super().get_actions(request, action_location)
        is_of_summaries = self.kind(request) == Kind.SUMMARY
        actions.pop("compact_now" if is_of_summaries else "retire", None)
        if is_of_summaries or "session" not in request.GET:
            # The page before a redaction is about one session.
            actions.pop("redact_selected", None)
        return actions

    def for_list(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
        lean = super().for_list(request, queryset)
        if self.kind(request) == Kind.SUMMARY:
            return lean.prefetch_related(summaries.RUNS)
        with_beginnings: QuerySet[ChatMessage] = lean.annotate(beginning=Left("content", SHOWN_IN_LISTS))
        return with_beginnings

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        found.title = filters.KIND_WORDS[self.kind(request)]
        if "session" in request.GET:
            found.search_help_text = (
                "Text, name, tool calls, reasoning, what came, attachments and metadata of this session's messages; "
                "message ids; whole external ids."
            )
        return found

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """Within one session also by text: a search never reads the texts of the whole table."""
        found = super().search_conditions(request, text)
        return [_has_text(text), *found] if text and "session" in request.GET else found

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        """Messages by id; within a session also by external id: the index has both together."""
        found = Q(pk=int(term)) if records.is_id(term) else None
        if "session" in request.GET:
            external = Q(external_id=term)
            return external if found is None else found | external
        return found

    def list_link(self, obj: ChatMessage | None = None) -> tuple[str, str]:
        if obj is not None and obj.is_summary:
            return self.url("chatmessage_changelist", kind=str(Kind.SUMMARY)), filters.KIND_WORDS[Kind.SUMMARY]
        return self.url("chatmessage_changelist"), filters.KIND_WORDS[Kind.MESSAGE]

    # -- a message's page ---------------------------------------------------------------------------------

    def sections_of(self, obj: ChatMessage | None) -> records.Sections:
        return summaries.SECTIONS if obj is not None and obj.is_summary else SECTIONS

    def title_of(self, obj: ChatMessage) -> str:
        return "Summary" if obj.is_summary else "Message"

    def tools(self, request: HttpRequest, obj: ChatMessage) -> dict[str, str]:
        if obj.is_summary:
            may_retire = obj.retired_at is None and self.has_retire_permission(request)
            return {"Retire": self.url("chatmessage_retire", ids=obj.pk)} if may_retire else {}
        tools = {"Transcript": self.url("chatmessage_transcript", obj.pk)}
        if self.has_compact_permission(request) and not is_off(obj.session):
            tools["Compact now"] = self.url("chatmessage_compact", obj.pk)
        if self.has_redact_permission(request):
            tools["Redact"] = self.url("chatmessage_redact", obj.pk)
        return tools

    def page_context(self, request: HttpRequest, obj: ChatMessage) -> dict[str, Any]:
        if obj.is_summary:
            # Before the fields are rendered, which read them too.
            prefetch_related_objects([obj], *summaries.OF_PAGE)
            return {"events": summaries.events_of(obj), "summary": summaries.page_of(obj)}
        then = context_then(obj)
        return {
            "has_record": then is not None,
            "table": context_here(obj) if then is None or request.GET.get(SENT) == "now" else then,
            "prompt_url": self.url("chatsession_change", obj.session_id),
            "as_sent_url": self.url("chatmessage_context", obj.pk),
        }

    @records.page("<int:pk>/text/<str:part>/")
    def text_view(self, request: HttpRequest, message: ChatMessage, part: str) -> HttpResponse:
        """One of a message's texts in full."""
        if part not in _TEXTS:
            raise Http404("A message has no such part.")
        return _plain_text(_text_of(message, part))

    @records.page("<int:pk>/context/")
    def context_view(self, request: HttpRequest, message: ChatMessage) -> HttpResponse:
        """The context as the ``openai`` client takes it, as JSON, or the reason why there is none."""
        try:
            sent = chat.get_context(message).to_openai()
        except CompactionError as error:
            return _plain_text(str(error), status=409)
        return _plain_text(json.dumps(sent, indent=2, ensure_ascii=False))

    @records.page("<int:pk>/transcript/")
    def transcript_view(self, request: HttpRequest, message: ChatMessage) -> HttpResponse:
        """The branch that ends at a message, a page at a time."""
        if message.is_summary:
            raise Http404("A summary ends no branch.")
        end = request.GET.get("end", "")
        last = int(end) if records.is_id(end) else None
        shown = transcript_of(message, self.text_url, end=last)
        about = {
            "title": "Transcript",
            "subject": self.name_of(message.session),
            "original": message.session,
            "transcript": shown,
        }
        return self.own_page(request, "chatmessage/transcript.html", obj=message, **about)

    # -- deleting -----------------------------------------------------------------------------------------

    def may_delete(self, obj: ChatMessage) -> bool:
        return not obj.is_summary

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is not None and obj.is_summary and self.has_view_permission(request, obj):
            self.message_user(request, "A summary cannot be deleted. Retire it instead.", notes.WARNING)
            return HttpResponseRedirect(self.page_of(obj))
        return super().delete_view(request, object_id, extra_context)

    # -- compacting ---------------------------------------------------------------------------------------

    @admin.action(description="Compact now, in the background", permissions=["compact"])
    def compact_now(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> None:
        self._compact(request, self.selected(request, queryset))

    def _compact(self, request: HttpRequest, tips: Sequence[ChatMessage], instructions: str = "") -> None:
        report = Report(self, request)
        for tip in tips:
            if run := report.compact(tip, instructions):
                self.log_change(request, tip, f"Compaction requested: run {run.pk}.")
        report.send()

    @records.page("<int:pk>/compact/", "compact")
    def compact_view(self, request: HttpRequest, tip: ChatMessage) -> HttpResponse:
        return self.confirm(
            request,
            lambda given: self._compact(request, [tip], given["instructions"]),
            obj=tip,
            title="Compact now",
            question="The older part of the branch that ends here is summarized in the background.",
            tell=lambda: TOLD_OF_COMPACTING,
            form=CompactForm,
            back=self.page_of(tip),
        )
