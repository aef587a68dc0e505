"""The base of every admin here: read-only records, a fixed number of queries, and lists that read no texts.

A list is fast at any table size: it pages over a bounded number of rows, defers the columns that contain texts,
orders by an index and searches by id. Deleting goes through ``chat`` on a page of this app, since Django's own page
loads every related row to list it. What depends on the user is made with :class:`Links`: the columns of a list in
``get_list_display``, everything else in the context of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib import messages as notes
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import DataError
from django.db.models import ProtectedError, Q, QuerySet, RestrictedError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from compaction_app.admin.display import EMPTY, number
from compaction_app.admin.links import Links, read_first_words
from compaction_app.exceptions import CompactionError
from compaction_app.messages.validation import as_id
from compaction_app.models import ChatSession
from compaction_app.models.columns import lean
from compaction_app.models.words import words

#: The sections of a record's page: a heading, and labels with values.
Sections = Sequence[tuple[str, Sequence[tuple[str, str]]]]
#: In the address of a record: how Django keeps the list that led to it.
SEARCH = "_changelist_filters"
#: Lookups of a column in an address that search no text.
_LOOKUPS = frozenset({"", "exact", "in", "isnull", "isempty", "gt", "gte", "lt", "lte"})
_OF_DATES = frozenset({"year", "month", "day"})


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def terms_in(text: str) -> list[str]:
    """The terms of a search: ids may be pasted with commas between them."""
    return text.replace(",", " ").split()


# -- lists --------------------------------------------------------------------------------------------------


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # subscripting it works for type checkers only
    """Counts and pages over the first rows only: counting a million takes longer than showing a page."""

    limit = 10_000

    @cached_property
    def count(self) -> int:
        # In the list's own order, which is an index's. Ids only: a list's annotations would be computed for all.
        rows: Any = self.object_list
        found: int = rows.values("pk")[: self.limit + 1].count()
        self.is_bounded = found > self.limit
        return min(found, self.limit)


def bounded_count(queryset: QuerySet[Any]) -> str:
    """Like "12", or "more than 10,000"."""
    limit = BoundedPaginator.limit
    found = queryset.values("pk")[: limit + 1].count()
    return _("more than {}").format(number(limit)) if found > limit else number(found)


class RecordList(ChangeList):
    """A list whose rows are read without texts, and which says what it is narrowed to."""

    model_admin: RecordAdmin

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Any]:
        return self.model_admin.for_list(request, super().get_queryset(request, exclude_parameters))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        read_first_words([row if isinstance(row, ChatSession) else row.session for row in self.result_list])
        self.links = self.model_admin.links(request)

    @property
    def whole(self) -> str:
        """Address of the list that is not narrowed. Texts are looked for within one session only."""
        return self.get_query_string(remove=[*self.model_admin.narrowed_by, "q", "p"])

    # A template asks twice, and an empty list asks the database.
    @cached_property
    def narrowing(self) -> list[str]:
        """What a link of another page narrowed the list to: Django's filters do not show it."""
        named = {name: self.params[name] for name in self.model_admin.narrowed_by if self.params.get(name)}
        # Title and name come with the rows.
        first = self.result_list[0] if self.result_list else None
        if "session" in named:
            session = first.session if first else ChatSession.objects.filter(pk=named["session"]).first()
            named["session"] = self.links.session(session) if session else named["session"]
        if "owner" in named and first:
            named["owner"] = first.owner
        return [format_html("{} {}", words(name), value) for name, value in named.items()]


class RecordAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # as above
    """Shows records that the system wrote. Each subclass adds what else is allowed."""

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
    empty_value_display = EMPTY
    #: Columns by which links from other pages narrow the list.
    narrowed_by: tuple[str, ...] = ()
    #: Fields that people with the change permission may edit.
    editable: tuple[str, ...] = ()
    list_class: type[ChangeList] = RecordList

    class Media:
        css = {"all": ["compaction_app/admin.css", "compaction_app/runs.css"]}
        js = ["compaction_app/scrolling.js"]

    def links(self, request: HttpRequest) -> Links:
        return Links(self.admin_site, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.editable) and super().has_change_permission(request, obj)

    def may_delete(self, obj: Any) -> bool:
        """Whether this record can be deleted from its page, by people who have the permission.

        The permission itself stays as Django has it: refusing it here would keep a host from deleting a user
        together with the user's sessions.
        """
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    # -- lists --------------------------------------------------------------------------------------------

    def columns(self, links: Links) -> Sequence[Any]:
        """The columns of the list, as :func:`display.column` makes them or as Django's ``list_display`` has them."""
        return self.list_display

    def get_list_display(self, request: HttpRequest) -> Any:
        return self.columns(self.links(request))

    def list_name(self, request: HttpRequest) -> str:
        return capfirst(str(self.opts.verbose_name_plural))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return self.list_class

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        try:
            found = super().get_changelist_instance(request)
        except (ValueError, OverflowError, ValidationError, DataError) as error:
            if not request.GET:
                raise
            # No database stores such a text, number or date: to Django's own page for an address that makes no sense.
            raise IncorrectLookupParameters(str(error)) from error
        found.title = self.list_name(request)
        return found

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # The order of the index that finds the rows of a date, so that a page of them is not sorted.
        return ("-created_at", "-id") if request.GET.keys() & {"created_at__year", "created_at__gte"} else self.ordering

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Ids, and columns that have a filter or an index: any other would read the whole table, or search texts."""
        name, _separator, how = lookup.partition("__")
        filters = [one[0] if isinstance(one, tuple) else one for one in self.get_list_filter(request)]
        names = {one if isinstance(one, str) else getattr(one, "parameter_name", "") for one in filters}
        is_known = name in {"id", "pk", *names, *self.narrowed_by} and how in _LOOKUPS
        is_date = name == self.date_hierarchy and how in _LOOKUPS | _OF_DATES
        # Django ignores what is not a column.
        is_column = name == "pk" or name in {field.name for field in self.opts.get_fields()}
        return (is_known or is_date or not is_column) and super().lookup_allowed(lookup, value, request)

    def for_list(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return lean(queryset, session=ChatSession)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Any number of ids: a search through texts would read the whole table."""
        if conditions := self.search_conditions(request, search_term.strip()):
            return queryset.filter(Q(*conditions, _connector=Q.OR)), False
        return (queryset.none() if terms_in(search_term) else queryset), False

    def search_conditions(self, request: HttpRequest, text: str) -> list[Q]:
        """What the rows of a search match, each row one of these. A number among words is no id."""
        found = [self.search_for(request, term) for term in terms_in(text)]
        known = [condition for condition in found if condition is not None]
        return known if len(known) == len(found) else []

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        """Rows that a search term matches: by their own id, or by their session's."""
        if (pk := as_id(term)) is not None:
            return Q(pk=pk)
        session_id = as_uuid(term)
        return Q(session=session_id) if session_id else None

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Without bulk deletion: each record has a page that says what else is deleted."""
        # Django passes the location from 6.1 on, and looks for the name; before that it takes none.
        location = {} if action_location is None else {"action_location": action_location}
        found = super().get_actions(request, **location)
        return {name: action for name, action in found.items() if name != "delete_selected"}

    # -- a record's page ----------------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(None, {"fields": self.editable})] if self.editable else []

    def sections(self, links: Links, obj: Any) -> Sections:
        """What the page of a record shows of it; the last section is folded."""
        return []

    def tools(self, links: Links, obj: Any) -> dict[str, str]:
        """The buttons of a record's page: label → address."""
        return {}

    def page_context(self, links: Links, obj: Any) -> dict[str, Any]:
        """What the template of a record's page shows beside these, or in their place."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if (obj := kwargs.get("obj")) is not None:
            links = self.links(request)
            own = self.page_context(links, obj)
            context |= {
                "links": links,
                "crumbs": self.crumbs(links, obj),
                "title": capfirst(str(self.opts.verbose_name)),
                "subtitle": links.name(obj),
                "sections": [(heading, facts) for heading, facts in self.sections(links, obj) if facts],
                "tools": self.tools(links, obj),
                "show_delete": self.may_delete(obj),
                **own,
            }
        return super().render_change_form(request, context, *args, **kwargs)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Deleting needs the permission to view, too: the page names what it deletes."""
        obj = self.get_object(request, object_id)
        if obj is not None and not (self.may_delete(obj) and self.has_view_permission(request, obj)):
            raise PermissionDenied
        try:
            answer = super().delete_view(request, object_id, extra_context)
        except (ProtectedError, RestrictedError) as error:
            kinds = ", ".join(sorted({str(one._meta.verbose_name) for one in error.args[1]}))
            said = _("Not deleted: there are rows that refer to it ({}).").format(kinds)
            self.message_user(request, said, notes.ERROR)
            return HttpResponseRedirect(self.links(request).page_of(obj))
        # Django sends people without the change permission, here everybody, to its front page.
        is_done = obj is not None and isinstance(answer, HttpResponseRedirect)
        return HttpResponseRedirect(self.after_deletion(self.links(request), obj)) if is_done else answer

    def after_deletion(self, links: Links, obj: Any) -> str:
        return self.crumbs(links)[0][0]

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, Any], set[str], list[Any]]:
        """Nothing: Django's collector would load everything below to list it; ``deletion`` says it in numbers."""
        return [], {}, set(), []

    def deletion(self, links: Links, obj: Any) -> dict[str, Any]:
        """What the page before a deletion says: its template's context."""
        raise NotImplementedError

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        obj, links = context["object"], self.links(request)
        crumbs = self.crumbs(links, obj)
        own = {"links": links, "crumbs": crumbs, "original": obj, "subject": crumbs[-1][1], "back": crumbs[-1][0]}
        own |= {"is_final": True, "title": _("Delete"), "button": _("Yes, delete it"), **self.deletion(links, obj)}
        return super().render_delete_form(request, {**context, **own})

    def page(self, route: str, view: Callable[..., HttpResponse], permission: str = "") -> URLPattern:
        """The URL of a page for people who may view the records and have ``permission``, if any; named after its view.

        The view is given the request, its links, the record that the route's ``pk`` names, and the route's other
        parts.
        """

        @wraps(view)
        def answer(request: HttpRequest, pk: int, **parts: Any) -> HttpResponse:
            obj, is_allowed = self.get_object(request, str(pk)), not permission or self.links(request).may(permission)
            # A host's class may ask about each record.
            if not (is_allowed and self.has_view_permission(request, obj)):
                raise PermissionDenied
            if obj is None:
                raise Http404(f"There is no such {self.opts.verbose_name}.")
            return view(request, self.links(request), obj=obj, **parts)

        name = f"{self.opts.app_label}_{self.opts.model_name}_{view.__name__.removesuffix('_view')}"
        return path(route, self.admin_site.admin_view(answer), name=name)

    def confirm(
        self,
        links: Links,
        obj: Any,
        act: Callable[[dict[str, Any]], HttpResponse | None],
        template: str = "compact.html",
        *,
        form: type[forms.Form] = forms.Form,
        tell: Callable[[], dict[str, Any]] = dict,
        **context: Any,
    ) -> HttpResponse:
        """A page that says what is going to happen and asks for it. By POST ``act`` does it, with the form's data.

        ``tell`` is what the template says in numbers; it is not asked when the form was sent. Afterwards, and by the
        page's link, people go back to the record, unless ``act`` returns a page. ``is_final``: it cannot be undone.
        """
        filled, back = form(links.request.POST if links.request.method == "POST" else None), links.page_of(obj)
        if filled.is_valid():
            try:
                return act(filled.cleaned_data) or HttpResponseRedirect(back)
            except CompactionError as error:
                # With what was written, which may be long.
                filled.add_error(None, str(error))
        context = {"button": context["title"], "form": filled, "back": back, **tell(), **context}
        return self.own_page(links, template, obj=obj, **context)

    def own_page(self, links: Links, template: str, *, obj: Any = None, **context: Any) -> HttpResponse:
        """A page that Django has no view for, below its list and the record that it is about."""
        links.request.current_app = self.admin_site.name  # as the admin's own views do
        context = {
            **self.admin_site.each_context(links.request),
            "links": links,
            "opts": self.opts,
            "original": obj,
            "subject": links.name(obj) if obj else "",
            "media": self.media,
            "crumbs": self.crumbs(links, obj),
            **context,
        }
        return TemplateResponse(links.request, f"admin/compaction_app/{template}", context)

    def crumbs(self, links: Links, obj: Any = None) -> list[tuple[str, str]]:
        """(address, name) of the pages above: the list, and the record."""
        above = [(links.url(f"{self.opts.model_name}_changelist"), self.list_name(links.request))]
        return above if obj is None else [*above, (links.page_of(obj), links.name(obj))]
