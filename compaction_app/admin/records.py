"""The base of every admin here: read-only records, a fixed number of queries, and lists that read no texts.

A list is fast at any table size: it pages over a bounded number of rows, defers the columns that contain texts,
orders by an index and searches by id. Deleting goes through ``chat`` on a page of this app, since Django's own page
loads every related row to list it.

Django calls columns without the request, but whether a link, a text or a title may be shown depends on the user. So
each request is answered by a copy of the admin with the request as an attribute: see :meth:`RecordAdmin.for_request`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import MAXYEAR
from functools import wraps
from inspect import getmembers
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import UUID

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ERROR_FLAG, SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property

from compaction_app.admin import display
from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.tree.branches import database_of
from compaction_app.values import Kind, Role

if TYPE_CHECKING:
    # Subscripting them works for type checkers only.
    AnyModelAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:
    AnyModelAdmin, AnyPaginator = admin.ModelAdmin, Paginator

#: An action takes at most this many records: each is a separate piece of work.
MOST_AT_ONCE = 100
#: Columns of a run that may be long.
RUN_TEXTS = ("error_detail", "instructions", "policy_line", "settings", "budget", "shortened_inputs", "request")
#: A run's events, oldest first.
EVENTS = Prefetch("events", CompactionEvent.objects.order_by("id"))
#: Columns of a record's session that no list reads.
SESSION_TEXTS = ("session__system_prompt", "session__settings", "session__token_calibration", "session__metadata")
#: The sections of a record's page: a heading, and the names of the fields of each line.
Sections = Sequence[tuple[str | None, Sequence[str]]]
#: What a page of confirmation says: lines, or nested lists of them, below these headings.
Told = Mapping[str, Sequence[Any]]
CHANGES, KEPT, UNSEEN = "What changes", "What is kept", "What the model no longer sees"
#: Characters by which people recognize a session without a title.
_FIRST_WORDS = 60
_LARGEST_ID = 2**63 - 1
_DIGITS = re.compile(r"\d+")
#: Lookups of a column in an address that search no text.
_LOOKUPS = frozenset({"", "exact", "in", "isnull", "isempty", "gt", "gte", "lt", "lte"})
_OF_DATES = frozenset({"year", "month", "day"})


def is_id(text: str) -> bool:
    # The length first: Python refuses to read thousands of digits.
    return text.isdecimal() and len(text) < 20 and int(text) <= _LARGEST_ID


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _with_possible_numbers(view: Callable[..., Any]) -> Callable[..., Any]:
    """Answer 404 where an address has a number that is no id and no page: each database raises another error there."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **given: Any) -> Any:
        # A search is a text.
        queried = [value for name, values in request.GET.lists() if name != SEARCH_VAR for value in values]
        texts = [*map(str, given.values()), *queried, *request.POST.getlist(ACTION_CHECKBOX_NAME)]
        if all(is_id(digits) for text in texts for digits in _DIGITS.findall(text)):
            return view(request, *arguments, **given)
        raise Http404("No record and no page has such a number.")

    return answer


# -- bounded counts -----------------------------------------------------------------------------------------


class BoundedPaginator(AnyPaginator):
    """Counts and pages over the first rows only: counting a million takes longer than showing a page."""

    limit = 10_000

    @cached_property
    def counted(self) -> int:
        return count_up_to(self.object_list, self.limit)  # type: ignore[arg-type]  # the admin gives querysets

    @cached_property
    def count(self) -> int:
        return min(self.counted, self.limit)

    @property
    def is_bounded(self) -> bool:
        return self.counted > self.limit


def count_up_to(queryset: QuerySet[Any], limit: int) -> int:
    """How many rows, or ``limit`` + 1 where there are more."""
    # In the list's own order, which is an index's. Ids only: a list's annotations would be computed for all.
    return queryset.values("pk")[: limit + 1].count()


def bounded_count(queryset: QuerySet[Any], limit: int = BoundedPaginator.limit) -> str:
    """Like "12", or "more than 10,000"."""
    found = count_up_to(queryset, limit)
    return f"more than {limit:,}" if found > limit else f"{found:,}"


def read_first_words(sessions: Iterable[ChatSession]) -> None:
    """How the first user message of each session without a title begins, as ``first_words``. At most one query."""
    untitled = [one for one in sessions if not one.title and "first_words" not in vars(one)]
    if not untitled:
        return
    # Both bounds and this order, as in ``in_session``: PostgreSQL may otherwise walk the primary key.
    of_session = {"session__gte": OuterRef("pk"), "session__lte": OuterRef("pk")}
    asked = ChatMessage.objects.filter(**of_session, kind=Kind.MESSAGE, role=Role.USER).order_by("session_id", "id")
    beginning = Subquery(asked.annotate(beginning=Left("content", _FIRST_WORDS * 4)).values("beginning")[:1])
    rows = ChatSession.objects.using(database_of(untitled[0])).filter(pk__in={one.pk for one in untitled})
    found = dict(rows.annotate(beginning=beginning).values_list("pk", "beginning"))
    for session in untitled:
        vars(session)["first_words"] = display.shortened(found.get(session.pk) or "", _FIRST_WORDS)


# -- the admin ----------------------------------------------------------------------------------------------


class RecordList(ChangeList):
    """A list whose rows are read without texts."""

    model_admin: RecordAdmin

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Any]:
        return self.model_admin.for_list(request, super().get_queryset(request, exclude_parameters))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        read_first_words([row if isinstance(row, ChatSession) else row.session for row in self.result_list])

    @property
    def whole(self) -> str:
        """Address of the list that is not narrowed."""
        return "?"

    @property
    def narrowing(self) -> list[str]:
        """What a link of another page narrowed the list to: Django's filters do not show it."""
        named = self.model_admin.narrowed_by
        return [f"{display.words(name)} {self.params[name]}" for name in named if self.params.get(name)]


class RecordAdmin(AnyModelAdmin):
    """Shows records that the system wrote. Each subclass adds what else is allowed."""

    delete_confirmation_template = "admin/compaction_app/confirm.html"
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    # Of a record's page too, so that its session needs no query of its own.
    list_select_related: ClassVar[tuple[str, ...]] = ("session",)
    ordering: ClassVar[tuple[str, ...]] = ("-id",)
    sortable_by = ()
    # Makes the search box appear; search_for defines what a term matches.
    search_fields = ("id",)
    empty_value_display = display.EMPTY
    #: Headings of a record's page and of the list.
    title = ""
    list_title = ""
    #: Columns by which links from other pages narrow the list.
    narrowed_by: tuple[str, ...] = ()
    #: Columns that lists do not read.
    texts: tuple[str, ...] = ()
    #: The sections of a record's page; fields that would be empty are left out.
    sections: Sections = ()
    #: The section that is collapsed.
    collapsed = ""
    #: Fields that people with the change permission may edit.
    editable: tuple[str, ...] = ()
    #: The request that this copy answers; None for the registered instance, which links to everything.
    request: HttpRequest | None = None

    class Media:
        css = {"all": ["compaction_app/admin.css", "compaction_app/runs.css"]}
        js = ["compaction_app/scrolling.js"]

    # -- permissions --------------------------------------------------------------------------------------

    def for_request(self, request: HttpRequest) -> Self:
        """A copy for one request: the instance that Django registers is shared by all requests."""
        answering = copy(self)
        answering.request = request
        return answering

    def may_view(self, model_name: str) -> bool:
        """Whether the user may open records of this model, as the admin of that model decides."""
        if self.request is None:
            return True
        model, site = apps.get_model("compaction_app", model_name), self.admin_site
        return site.is_registered(model) and site.get_model_admin(model).has_view_permission(self.request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.editable) and super().has_change_permission(request, obj)

    def has_compact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.compact_chatsession")

    def may_delete(self, obj: Any) -> bool:
        """Whether this record can be deleted from its page, by people who have the permission.

        The permission itself stays as Django has it: refusing it here would keep a host from deleting a user
        together with the user's sessions.
        """
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    # -- lists --------------------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RecordList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if any("\0" in value for _, values in request.GET.lists() for value in values):
            # No text contains it, and PostgreSQL refuses to search for it.
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")
        return super(RecordAdmin, self.for_request(request)).changelist_view(request, extra_context)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # The order of the index that finds the rows of a date, so that a page of them is not sorted.
        return ("-created_at", "-id") if "created_at__year" in request.GET else self.ordering

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        parts = {part: request.GET.get(f"{self.date_hierarchy}__{part}", "") for part in ("year", "month", "day")}
        numbers = {part: int(value) for part, value in parts.items() if value.isdecimal()}
        if max(numbers.values(), default=0) >= MAXYEAR or numbers.get("year", 2) < 2:
            # In other years no midnight can be written in every time zone, and Django computes the next one.
            raise IncorrectLookupParameters(f"{parts} is no date of a calendar.")
        found = super().get_changelist_instance(request)
        found.title = self.list_title
        return found

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Ids, and columns that have a filter or an index: any other would read the whole table, or search texts."""
        name, _, how = lookup.partition("__")
        filters = [one[0] if isinstance(one, tuple) else one for one in self.get_list_filter(request)]
        names = {one if isinstance(one, str) else getattr(one, "parameter_name", "") for one in filters}
        # Django ignores what is not a column.
        is_column = name == "pk" or name in {field.name for field in self.opts.get_fields()}
        is_known = name in {"id", "pk", *names, *self.narrowed_by} and how in _LOOKUPS
        is_refused = is_column and not (is_known or (name == self.date_hierarchy and how in _LOOKUPS | _OF_DATES))
        return not is_refused and super().lookup_allowed(lookup, value, request)

    def for_list(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.defer(*self.texts)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Any number of ids: a search through texts would read the whole table."""
        if conditions := self.search_conditions(request, search_term.strip()):
            return queryset.filter(Q(*conditions, _connector=Q.OR)), False
        return (queryset.none() if search_term.replace(",", " ").strip() else queryset), False

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """What the rows of a search match, each row one of these."""
        found = (self.search_for(request, term) for term in text.replace(",", " ").split())
        return [condition for condition in found if condition is not None]

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        """Rows that a search term matches: by their own id, or by their session's."""
        if is_id(term):
            return Q(pk=int(term))
        session_id = as_uuid(term)
        return Q(session=session_id) if session_id else None

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Without bulk deletion: each record has a page that says what else is deleted."""
        # Django passes the location from 6.1 on; before that it takes none.
        location = {} if action_location is None else {"action_location": action_location}
        actions: dict[str, Any] = dict(super().get_actions(request, **location))
        actions.pop("delete_selected", None)
        return actions

    def selected(self, request: HttpRequest, queryset: Any) -> list[Any]:
        """The records selected for an action; none, with a message, where there are too many for one request."""
        found = list(queryset[: MOST_AT_ONCE + 1])
        if len(found) > MOST_AT_ONCE:
            self.message_user(request, f"Select at most {MOST_AT_ONCE}. Nothing was changed.", messages.WARNING)
            return []
        return found

    # -- a record's page ----------------------------------------------------------------------------------

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super(RecordAdmin, self.for_request(request)).changeform_view(request, *args, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden, found = self.hidden(obj), []
        for title, lines in self.sections_of(obj):
            fields = [shown for line in lines if (shown := [name for name in line.split() if name not in hidden])]
            if fields:
                classes = ["collapse"] if title and title == self.collapsed else []
                found.append((title, {"fields": fields, "classes": classes}))
        return found

    def sections_of(self, obj: Any) -> Sections:
        return self.sections

    def hidden(self, obj: Any) -> set[str]:
        """Fields that only show an attribute which is empty."""
        names = {name for _, lines in self.sections_of(obj) for line in lines for name in line.split()}
        shows = {name: getattr(getattr(self, name, None), "attribute", name) for name in names - {*self.editable}}
        return {name for name, attribute in shows.items() if getattr(obj, attribute, self) in (None, "", [], {})}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        shown = flatten_fieldsets(self.get_fieldsets(request, obj))
        return [str(name) for name in shown if name not in self.editable]

    def title_of(self, obj: Any) -> str:
        return self.title

    def name_of(self, obj: Any) -> str:
        """A session by its title, or by how its first user message begins, for people who may read these."""
        name = ""
        if isinstance(obj, ChatSession) and self.may_view("chatsession"):
            # A title may quote a message, too.
            name = obj.title
            if not name and self.may_view("chatmessage"):
                read_first_words([obj])
                name = vars(obj)["first_words"]
        return name or str(obj)

    def tools(self, request: HttpRequest, obj: Any) -> dict[str, str]:
        """The buttons of a record's page: label → address."""
        return {}

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the page of a record shows beside its fields."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if (obj := kwargs.get("obj")) is not None:
            context["title"], context["subtitle"] = self.title_of(obj), self.name_of(obj)
            context["compaction_tools"] = self.tools(request, obj)
            context["show_delete"] = self.may_delete(obj)
            context["records"] = self
            context |= self.page_context(request, obj)
        return super().render_change_form(request, context, *args, **kwargs)

    # -- deleting -----------------------------------------------------------------------------------------

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Deleting needs the permission to view, too: the page names what it deletes.

        Not by ``has_delete_permission``: that would keep a host from deleting a user together with the sessions.
        """
        obj = self.get_object(request, object_id)
        if obj is not None and not (self.may_delete(obj) and self.has_view_permission(request, obj)):
            raise PermissionDenied
        try:
            return super(RecordAdmin, self.for_request(request)).delete_view(request, object_id, extra_context)
        except MessageNotFound:
            # Deleted since it was read.
            answer: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]  # not in stubs
                request, self.opts, object_id
            )
            return answer

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, Any], set[str], list[Any]]:
        """Nothing: Django's collector would load everything below to list it; ``deletion`` says it in numbers."""
        return [], {}, set(), []

    def deletion(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the page before a deletion says: ``question`` and ``told``, as for :meth:`confirm`."""
        return {"question": "This cannot be undone.", "told": {}}

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        obj = context["object"]
        back, subject = self.crumbs(obj)[-1]
        own = {"crumbs": self.crumbs(obj), "original": obj, "subject": subject, "back": back, "is_final": True}
        own |= {"title": f"Delete {self.title_of(obj).lower()}", "button": "Yes, I’m sure", "records": self}
        return super().render_delete_form(request, {**context, **own, **self.deletion(request, obj)})

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Back to the list: Django sends people without the change permission, here everybody, to its front page."""
        answer = super().response_delete(request, obj_display, obj_id)
        is_redirect = isinstance(answer, HttpResponseRedirect)
        return HttpResponseRedirect(self.after_deletion()) if is_redirect else answer

    def after_deletion(self) -> str:
        return self.list_link()[0]

    # -- additional pages ---------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        views = getmembers(type(self), lambda member: hasattr(member, "page_route"))
        urls = [*(self._page_url(view) for _, view in views), *super().get_urls()]
        for one in urls:
            one.callback = _with_possible_numbers(one.callback)
        return urls

    def _page_url(self, view: Any) -> URLPattern:
        @wraps(view)
        def answer(request: HttpRequest, *, pk: Any = None, **arguments: Any) -> HttpResponse:
            answering = self.for_request(request)
            is_allowed = getattr(answering, f"has_{view.page_permission}_permission")(request)
            if not (is_allowed and answering.has_view_permission(request)):
                raise PermissionDenied
            records = () if pk is None else (answering.get_object(request, str(pk)),)
            if None in records:
                raise Http404(f"There is no {self.opts.verbose_name} {pk}.")
            found: HttpResponse = view(answering, request, *records, **arguments)
            return found

        name = f"{self.opts.app_label}_{self.opts.model_name}_{view.__name__.removesuffix('_view')}"
        return path(view.page_route, self.admin_site.admin_view(answer), name=name)

    def confirm(
        self,
        request: HttpRequest,
        act: Callable[[dict[str, Any]], HttpResponse | None],
        *,
        back: str,
        form: type[forms.Form] = forms.Form,
        tell: Callable[[], Told] = dict,
        **context: Any,
    ) -> HttpResponse:
        """A page that says what is going to happen and asks for it. By POST ``act`` does it, with the form's data.

        ``question`` is its first sentence, ``tell`` what it says below; it is not asked when the form was sent.
        Afterwards, and by the page's link, people go ``back``, unless ``act`` returns a page. ``is_final``: it cannot
        be undone.
        """
        filled = form(request.POST if request.method == "POST" else None)
        if filled.is_valid():
            return act(filled.cleaned_data) or HttpResponseRedirect(back)
        context.setdefault("button", context["title"])
        return self.own_page(request, "confirm.html", form=filled, back=back, told=tell(), **context)

    def own_page(self, request: HttpRequest, template: str, *, obj: Any = None, **context: Any) -> HttpResponse:
        """A page that Django has no view for, below its list and the record that it is about."""
        request.current_app = self.admin_site.name  # as the admin's own views do
        context = {
            **self.admin_site.each_context(request),
            "records": self,
            "opts": self.opts,
            "original": obj,
            "subject": self.name_of(obj) if obj else "",
            "media": self.media,
            "crumbs": self.crumbs(obj),
            **context,
        }
        return TemplateResponse(request, f"admin/compaction_app/{template}", context)

    def crumbs(self, obj: Any = None) -> list[tuple[str, str]]:
        """(address, name) of the pages above: the list, and the record."""
        above = [self.list_link(obj)]
        return above if obj is None else [*above, (self.page_of(obj), self.name_of(obj))]

    def list_link(self, obj: Any = None) -> tuple[str, str]:
        """Address and name of the list that a record is in."""
        return self.url(f"{self.opts.model_name}_changelist"), self.list_title

    # -- links --------------------------------------------------------------------------------------------

    def url(self, page: str, *arguments: Any, **query: Any) -> str:
        """Address of a page (``chatmessage_change``); "" where the user may not see its records."""
        if not self.may_view(page.partition("_")[0]):
            return ""
        return display.page_url(page, *arguments, site=self.admin_site.name, **query)

    def page_of(self, obj: Any) -> str:
        return self.url(f"{self.opts.model_name}_change", obj.pk)

    def link_to(self, page: str, pk: Any, label: str) -> str:
        """A link to a record by its id, which needs no query; a dash where there is none."""
        return display.link(self.url(f"{page}_change", pk), label) if pk is not None else display.EMPTY

    def link_to_list(self, page: str, label: str, **query: Any) -> str:
        return display.link(self.url(f"{page}_changelist", **query), label)

    def link_to_record(self, obj: Any) -> str:
        """To a record of this admin's model, by its name."""
        return display.link(self.page_of(obj), obj)

    def link_to_message(self, pk: int | None, label: str = "Message", depth: int | None = None) -> str:
        return self.link_to("chatmessage", pk, f"{label} {pk}" + (f" ({display.place(depth)})" if depth else ""))

    def link_to_run(self, pk: int | None) -> str:
        return self.link_to("compactionrun", pk, f"Run {pk}")

    def link_to_run_with_status(self, run: CompactionRun) -> str:
        return self.link_to("compactionrun", run.pk, str(run))

    def link_to_session(self, session: Any) -> str:
        return self.link_to("chatsession", session.pk, display.titled(self.name_of(session), 60))


def page(route: str, permission: str = "view") -> Callable[[Any], Any]:
    """Make a method ``NAME_view`` of an admin an additional page, ``MODEL_NAME``, protected as Django's own pages.

    It is for people who may view the records and have ``permission``. It is given the record that the route's ``pk``
    names.
    """

    def mark(view: Any) -> Any:
        view.page_route, view.page_permission = route, permission
        return view

    return mark


def message_column(name: str, description: str, label: str = "Message") -> Any:
    """A column that links to the message whose id is in the column ``name``; with its position where that is known."""

    def link(model_admin: Any, obj: Any) -> str:
        read = obj._state.fields_cache.get(obj._meta.get_field(name).name)
        # A message's parent is one level above it.
        depth = obj.depth - 1 if name == "parent_message_id" else vars(read).get("depth") if read else None
        return str(model_admin.link_to_message(getattr(obj, name), label, depth if label == "Message" else None))

    return display.column(description, link, name)


session_column = display.column("session", lambda admin_, obj: admin_.link_to_session(obj.session))
