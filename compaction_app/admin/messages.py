"""Messages and summaries: two lists of one table, and a page for each that shows what the model sees.

A message's page has its texts, its place in the tree and what was recorded with it. A text may be four megabytes long,
so a page shows its beginning, and an address of its own has all of it as plain text.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib import messages as notes
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet, TextField, prefetch_related_objects
from django.db.models.functions import Cast, Left
from django.db.models.lookups import IContains
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from compaction_app import chat
from compaction_app.admin import display, records, summaries
from compaction_app.admin.compacting import COMPACT, CarryOverForm, CompactForm, is_off, request_branch_compaction
from compaction_app.admin.contexts import context_here, context_then
from compaction_app.admin.display import column, number
from compaction_app.admin.erasure import ErasingAdmin
from compaction_app.admin.links import Links
from compaction_app.admin.records import SEARCH
from compaction_app.admin.transcripts import goes_on, transcript_of
from compaction_app.conversation.hand_over import needs_summary
from compaction_app.exceptions import CompactionError, CompactionRefused, InvalidMessage
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.validation import as_id, canonical
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.columns import checks_of, names
from compaction_app.values import Kind

#: Characters of a message that a list shows.
SHOWN_IN_LISTS = 80
#: Characters of a text that a page shows.
SHOWN = 20_000
#: Messages beside or below one that its page links to.
_MOST_NAMED = 50
#: Messages that a search of an owner's sessions finds.
_MOST_HITS = 100
#: In an address: "now" for what would be sent now, where what was sent is shown otherwise.
SENT = "sent"
#: In an address: the summary that one is compared with.
COMPARED = "with"
#: Texts that have an address of their own, by their name in it.
_TEXTS = [name for name in names(ChatMessage, listed=False) if name != "ledger"]
KIND_WORDS = {Kind.MESSAGE: gettext_lazy("Messages"), Kind.SUMMARY: gettext_lazy("Summaries")}


class KindFilter(admin.SimpleListFilter):
    """Messages, or summaries: two lists of one table, never mixed."""

    title, parameter_name = gettext_lazy("kind"), "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(kind), str(title)) for kind, title in KIND_WORDS.items()]

    def choices(self, changelist: ChangeList) -> Any:
        for kind, title in self.lookup_choices:
            yield {
                "selected": kind == shown_kind(self.value()),
                # Only summaries are retired.
                "query_string": changelist.get_query_string({self.parameter_name: kind}, ["retired_at__isempty"]),
                "display": title,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return of_kind(queryset, shown_kind(self.value()))


def shown_kind(value: str | None) -> Kind:
    """The kind that an address asks for; messages unless it says summary."""
    return Kind.SUMMARY if value == Kind.SUMMARY else Kind.MESSAGE


def of_kind(queryset: QuerySet[Any], kind: Kind) -> QuerySet[Any]:
    if kind == Kind.MESSAGE:
        return queryset.filter(kind=kind)
    # Only summaries have a cutoff. The second condition is the one that the partial index has.
    return queryset.filter(kind=kind, last_summarized_message__isnull=False)


class RetiredFilter(admin.EmptyFieldListFilter):
    def choices(self, changelist: ChangeList) -> Any:
        for choice, words in zip(super().choices(changelist), (_("All"), _("Live"), _("Retired")), strict=True):
            yield {**choice, "display": words}


class LinkedFilter(admin.SimpleListFilter):
    """Set by a link from another page, and shown only then, so that people can see it and remove it."""

    only: Any

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(self.value()), str(self.only))] if self.value() else []

    def choices(self, changelist: ChangeList) -> Any:
        whole, only = super().choices(changelist)
        # Words are searched for in one session or of one owner: of all they would find nothing.
        yield {**whole, "query_string": changelist.get_query_string(remove=[str(self.parameter_name), "q"])}
        yield only


class SessionOfMessagesFilter(LinkedFilter):
    """One session's messages; ``ChatMessageAdmin`` orders them by session and id, as ``in_session`` needs it."""

    title, parameter_name, only = gettext_lazy("session"), "session", gettext_lazy("This session")

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.in_session(self.value()) if self.value() else queryset


class OwnerOfMessagesFilter(LinkedFilter):
    """The messages of one owner's sessions, which are searched by their words."""

    title, parameter_name, only = gettext_lazy("owner"), "owner", gettext_lazy("This owner")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(session__owner=self.value()) if self.value() else queryset


def _has_text(text: str) -> Q:
    """Messages with a text in any column that somebody's words are in.

    JSON writes quotes as ``\\"``, and other letters than ASCII as they are or as ``\\u…``: SQLite has one, PostgreSQL
    the other. The arguments of a tool call are JSON within JSON.
    """
    within = (text, *_in_json(text))
    written = dict.fromkeys(form for inner in within for form in _in_json(inner))
    found = Q()
    for name in names(ChatMessage, said=True):
        if name in checks_of(ChatMessage).texts:
            found |= Q((f"{name}__icontains", text))
        else:
            found |= Q(*(Q(IContains(Cast(name, TextField()), form)) for form in written), _connector=Q.OR)
    return found


def _in_json(text: str) -> tuple[str, str]:
    """A text as JSON may contain it, without the quotes around it."""
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _beginning(text: str, show: Callable[[str], str], url: str) -> str:
    """The beginning of a text, and the way to the rest."""
    if len(text) <= SHOWN:
        return show(text) if text else ""
    rest = _('{} more characters are not shown: <a href="{}">show the full text</a>.')
    rest = format_html(rest, number(len(text) - SHOWN), url)
    return format_html('{}<p class="compaction-note">{}</p>', show(text[:SHOWN]), rest)


def _plain_text(text: str) -> HttpResponse:
    """No browser interprets it as anything but text, whatever it contains."""
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": "inline",
        "Cache-Control": "private, no-store",
    }
    # JSON can escape what no encoding can send: lone surrogates.
    body = text.encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type="text/plain; charset=utf-8", headers=headers)


@admin.register(ChatMessage)
class ChatMessageAdmin(ErasingAdmin):
    narrowed_by = ("session",)
    search_help_text = gettext_lazy(
        "Message ids. Within one session also any text that is stored of a message, words in any order, and whole "
        "external ids; of one owner words in any order."
    )

    class Media:
        css = {"all": ["compaction_app/message.css"]}

    # -- lists --------------------------------------------------------------------------------------------

    def kind(self, request: HttpRequest) -> Kind:
        return shown_kind(request.GET.get("kind"))

    def list_name(self, request: HttpRequest) -> str:
        return str(KIND_WORDS[self.kind(request)])

    def columns(self, links: Links) -> Sequence[Any]:
        if self.kind(links.request) == Kind.SUMMARY:
            return summaries.columns(links)
        # Within one session every row would name it. The beginning is annotated by for_list.
        session = () if "session" in links.request.GET else ("session",)
        return (
            column("message", _("message"), lambda message: _("Message {id}").format(id=message.pk)),
            *links.columns(ChatMessage, "role"),
            column("begins_with", _("begins with"), lambda message: display.line(message.beginning, SHOWN_IN_LISTS)),
            *links.columns(ChatMessage, *session),
            column("position", _("position"), lambda message: display.place(message.depth)),
            *links.columns(ChatMessage, "token_count", "path_tokens", "created_at"),
        )

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        retired = (("retired_at", RetiredFilter),) if self.kind(request) == Kind.SUMMARY else ()
        return (KindFilter, *retired, SessionOfMessagesFilter, OwnerOfMessagesFilter)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-session_id", "-id") if "session" in request.GET else self.ordering

    def for_list(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> QuerySet[ChatMessage]:
        lean = super().for_list(request, queryset)
        if self.kind(request) == Kind.SUMMARY:
            return lean.prefetch_related(summaries.RUNS)
        with_beginnings: QuerySet[ChatMessage] = lean.annotate(beginning=Left("content", 4 * SHOWN_IN_LISTS))
        return with_beginnings

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """Within one session also by text, and there or in one owner's sessions by words in any order: a search never
        reads the texts of the whole table."""
        owner, session_id = request.GET.get("owner"), records.as_uuid(request.GET.get("session", ""))
        session = ChatSession.objects.filter(pk=session_id).first() if session_id and text else None
        found = super().search_conditions(request, text)
        if session:
            # The index has both together.
            found += [_has_text(text), Q(session=session, external_id__in=records.terms_in(text))]
        if text and (session or owner):
            with suppress(CompactionError):
                hits = chat.search(text, session=session, owner=None if session else owner, limit=_MOST_HITS)
                found.append(Q(pk__in=[one.message_id for one in hits]))
        return found

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        pk = as_id(term)
        return None if pk is None else Q(pk=pk)

    def crumbs(self, links: Links, obj: Any = None) -> list[tuple[str, str]]:
        """Summaries have a list of their own."""
        kind = Kind.SUMMARY if obj is not None and obj.is_summary else Kind.MESSAGE
        query = {"kind": str(kind)} if kind == Kind.SUMMARY else {}
        above = [(links.url("chatmessage_changelist", **query), str(KIND_WORDS[kind]))]
        return above if obj is None else [*above, (links.page_of(obj), str(obj))]

    # -- a message's page ---------------------------------------------------------------------------------

    def tools(self, links: Links, obj: ChatMessage) -> dict[str, str]:
        if obj.is_summary:
            if obj.retired_at is not None or not links.may("retire_summary"):
                return {}
            may_write = {_("Correct"): links.url("chatmessage_correct", obj.pk)} if links.may(COMPACT) else {}
            return {**may_write, _("Retire"): links.url("chatmessage_retire", obj.pk)}
        tools = {_("Transcript"): links.url("chatmessage_transcript", obj.pk)}
        if links.may(COMPACT) and not is_off(obj.session):
            tools[_("Compact now")] = links.url("chatmessage_compact", obj.pk)
            tools[_("Hand over")] = links.url("chatmessage_hand_over", obj.pk)
            tools[_("Carry over")] = links.url("chatmessage_carry_over", obj.pk)
        if links.may("redact_chatmessage") and obj.redacted_at is None:
            # Afterwards it leads back to the search that led here.
            search = {name: text for name, text in links.request.GET.items() if name == SEARCH}
            tools[_("Redact")] = links.url("chatmessage_redact", obj.pk, **search)
        return tools

    def sections(self, links: Links, obj: ChatMessage) -> records.Sections:
        def url(part: str) -> str:
            return links.url("chatmessage_text", obj.pk, part)

        text = _beginning(obj.text, display.text_block, url("content"))
        parts = [part for part in _TEXTS[1:] if getattr(obj, part)]
        stored = display.joined(display.link(url(part), obj._meta.get_field(part).verbose_name) for part in parts)
        if obj.is_summary:
            if obj.redacted_at and not text:
                text = _("Erased on {}: a message that it may have quoted was redacted.")
                text = format_html(text, display.moment(obj.redacted_at))
            return summaries.sections(links, obj, text, stored)
        calls = "\n\n".join(map(display.call_line, obj.tool_calls or ()))
        attached = display.joined(map(attachment_line, obj.attachments or ()))
        runs = (
            links.to_list("compactionrun", _("Runs with this tip"), tip=obj.pk),
            links.to_list("compactionrun", _("with this anchor"), anchor=obj.pk),
            links.to_list("compactionevent", _("Events"), message=obj.pk),
        )
        facts, texts = partial(links.facts, obj), (_("text"), text)
        called = (_("tool calls"), _beginning(calls, display.code_block, url("tool_calls")))
        place = (*self._family(links, obj), (_("runs from here"), display.joined(runs)))
        position = (_("position"), display.place(obj.depth))
        record = ("created_at", "redacted_at", "model", "finish_reason", (_("usage"), display.figures(obj.usage or {})))
        return [
            ("", facts("session", "role", texts, called, "tool_call_id", "name", (_("attachments"), attached))),
            (_("Place"), facts("parent", *place, position, "token_count", "path_tokens")),
            (_("Record"), facts(*record, (_("as stored"), stored), "external_id", "idempotency_key")),
        ]

    def _family(self, links: Links, obj: ChatMessage) -> list[tuple[str, str]]:
        """The other answers to its parent, and what hangs on it."""
        nodes = ChatMessage.objects
        rows = {
            _("other variants"): nodes.get_siblings(obj).filter(kind=Kind.MESSAGE).exclude(pk=obj.pk),
            _("followed by"): nodes.get_children(obj).filter(kind=Kind.MESSAGE),
            _("summaries anchored here"): nodes.get_children(obj).filter(kind=Kind.SUMMARY),
        }
        family = []
        for label, found in rows.items():
            named = list(map(links.record, found.only("kind", "role", "last_summarized_message_id")[: _MOST_NAMED + 1]))
            more = [_("and more")] if len(named) > _MOST_NAMED else []
            family.append((label, display.joined([*named[:_MOST_NAMED], *more])))
        return family

    def page_context(self, links: Links, obj: ChatMessage) -> dict[str, Any]:
        # "Close" leads to the list that led here, else to the session's.
        of_session = urlencode({SEARCH: urlencode({"session": obj.session_id, "kind": obj.kind})})
        back = {"preserved_filters": self.get_preserved_filters(links.request) or of_session}
        if obj.is_summary:
            # Before the sections are made, which read them too.
            prefetch_related_objects([obj], *summaries.OF_PAGE)
            summary = summaries.page_of(obj, as_id(links.request.GET.get(COMPARED, "")))
            return {"title": _("Summary"), "summary": summary, "events": summary["events"], **back}
        then = context_then(obj)
        return {
            "title": _("Message"),
            "goes_on": goes_on(obj),
            "has_record": then is not None,
            "table": context_here(obj) if then is None or links.request.GET.get(SENT) == "now" else then,
            **back,
        }

    # -- additional pages ---------------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        return [
            self.page("<int:pk>/text/<str:part>/", self.text_view),
            self.page("<int:pk>/transcript/", self.transcript_view),
            self.page("<int:pk>/compact/", self.compact_view, COMPACT),
            self.page("<int:pk>/hand-over/", self.hand_over_view, COMPACT),
            self.page("<int:pk>/carry-over/", self.carry_over_view, COMPACT),
            *super().get_urls(),
        ]

    def text_view(self, request: HttpRequest, links: Links, obj: ChatMessage, part: str) -> HttpResponse:
        """One of a message's texts in full; JSON formatted."""
        if part not in _TEXTS:
            raise Http404("A message has no such part.")
        value: Any = obj.text if part == "content" else getattr(obj, part)
        is_text = isinstance(value, str) or not value
        return _plain_text(value or "" if is_text else json.dumps(canonical(value), indent=2, ensure_ascii=False))

    def transcript_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        """The branch that ends at a message, a page at a time."""
        if obj.is_summary:
            raise Http404("A summary ends no branch.")
        shown = transcript_of(obj, end=as_id(request.GET.get("end", "")))
        about = {"title": _("Transcript"), "subject": links.name(obj.session), "original": obj.session}
        return self.own_page(links, "chatmessage/transcript.html", obj=obj, transcript=shown, **about)

    def compact_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        if obj.is_summary:
            raise Http404("A summary ends no branch.")

        def act(given: dict[str, Any]) -> None:
            if run := request_branch_compaction(self, links, obj, **given):
                self.log_change(request, obj, _("Compaction requested: run {}.").format(run.pk))

        return self.confirm(links, obj, act, title=_("Compact now"), form=CompactForm)

    def hand_over_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        if obj.is_summary:
            raise Http404("A summary ends no branch.")

        def act(given: dict[str, Any]) -> HttpResponse:
            # No page waits for a model.
            if needs_summary(obj):
                raise CompactionRefused(
                    _("The next prompt does not begin with a summary of this branch yet: compact it first.")
                )
            new = chat.hand_over(obj)
            self.log_change(request, obj, _("Handed over to session {}.").format(new.pk))
            self.message_user(request, format_html(_("Handed over: {}."), links.session(new)), notes.SUCCESS)
            return HttpResponseRedirect(links.page_of(new) or links.page_of(obj))

        return self.confirm(links, obj, act, "chatmessage/hand_over.html", title=_("Hand over"))

    def carry_over_view(self, request: HttpRequest, links: Links, obj: ChatMessage) -> HttpResponse:
        """To this message, what another branch has found."""
        if obj.is_summary:
            raise Http404("A summary ends no branch.")

        def act(given: dict[str, Any]) -> HttpResponse:
            # Of an id that is of no message of the session nothing else is said.
            rows = ChatMessage.objects.in_database_of(obj).select_related("session").filter(session=obj.session_id)
            source = rows.messages().filter(pk=given["source"]).first()
            if source is None:
                raise InvalidMessage(_("There is no such message in this session."), field="source")
            # No page waits for a model.
            if run := chat.request_carry_over(source, obj):
                opened = _("The other branch is being summarized: {}. Carry it over when that is done.")
                self.message_user(request, format_html(opened, links.record(run)), notes.SUCCESS)
                return HttpResponseRedirect(links.page_of(run) or links.page_of(obj))
            carried = chat.carry_over(source, obj)
            self.log_change(request, obj, _("Carried over as message {}.").format(carried.pk))
            self.message_user(request, format_html(_("Carried over: {}."), links.record(carried)), notes.SUCCESS)
            return HttpResponseRedirect(links.page_of(carried))

        title = _("Carry over")
        return self.confirm(links, obj, act, "chatmessage/carry_over.html", title=title, form=CarryOverForm)
