"""What all pages share: read-only, a fixed number of queries, no list that reads conversations.

A list stays fast at any size of its table: it pages over a bounded number of rows, leaves out the columns
that hold texts, orders by an index and searches for ids. What a person may do with a record stands in its
page's tools; Django's deletion is replaced, since it would load every related row to list it.

Each request is answered by a copy of the admin that knows who looks: a link is made only where that person may
follow it, and what belongs to another sort of record is told only to those who may see that sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from compaction_app.admin import display
from compaction_app.admin.pagers import BoundedPaginator
from compaction_app.models import CompactionEvent

if TYPE_CHECKING:
    # Subscripting it works for type checkers only.
    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    AnyModelAdmin = admin.ModelAdmin

#: An action takes at most this many records: each is a piece of work of its own.
MOST_AT_ONCE = 100
#: As many digits as the largest id has; more would be no id.
_ID_DIGITS = 19
#: Ways to ask for a column in an address that no text is searched by.
_LOOKUPS = frozenset({"", "exact", "in", "isnull", "gt", "gte", "lt", "lte"})


@dataclass(frozen=True, slots=True)
class Tool:
    """A button on a record's page."""

    label: str
    url: str


class RecordList(ChangeList):
    """A list whose rows are read without texts."""

    model_admin: RecordAdmin

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Any]:
        return self.model_admin.for_list(request, super().get_queryset(request, exclude_parameters))


class RecordAdmin(AnyModelAdmin):
    """Shows records that the system wrote; what else is allowed each admin adds."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    ordering: ClassVar[tuple[str, ...]] = ("-id",)
    sortable_by = ()
    # Names no column to search: it makes the box appear, and search_for says what a term means.
    search_fields = ("id",)
    empty_value_display = display.EMPTY
    change_form_template = "admin/compaction_app/change_form.html"
    #: What its pages and its lists are called.
    title = ""
    list_title = ""
    #: Columns that lists do not read.
    texts: tuple[str, ...] = ()
    #: Fields that a person with the change permission may edit.
    editable: tuple[str, ...] = ()
    #: Whose request this copy answers; None for the one that is registered, which links to everything.
    request: HttpRequest | None = None
    delete_confirmation_template = "admin/compaction_app/delete.html"

    class Media:
        css = {"all": ["compaction_app/admin.css", "compaction_app/runs.css"]}
        js = ["compaction_app/scrolling.js"]

    # -- who looks ----------------------------------------------------------------------------------------

    def seen_by(self, request: HttpRequest) -> Self:
        """A copy for one request; Django has one instance for all, and asks columns without the request."""
        seen = copy(self)
        seen.request = request
        return seen

    def may_view(self, model_name: str) -> bool:
        """Whether the person who looks may open records of this model, as the admin of that model says."""
        if self.request is None:
            return True
        model = apps.get_model("compaction_app", model_name)
        site = self.admin_site
        return site.is_registered(model) and site.get_model_admin(model).has_view_permission(self.request)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return super(RecordAdmin, self.seen_by(request)).changeform_view(request, object_id, form_url, extra_context)

    # -- lists --------------------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RecordList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if any("\0" in value for _, values in request.GET.lists() for value in values):
            # No text holds it, and PostgreSQL refuses to look for it.
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")
        context = {"title": self.list_title, **(extra_context or {})}
        return super(RecordAdmin, self.seen_by(request)).changelist_view(request, context)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        found.search_help_text = self.search_help(request)
        return found

    def search_help(self, request: HttpRequest) -> str:
        return str(self.search_help_text or "")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """By the columns of the filters and by ids: any other one would read the table, and search texts."""
        name, _, how = lookup.partition("__")
        filters = [one[0] if isinstance(one, tuple) else one for one in self.get_list_filter(request)]
        names = {one if isinstance(one, str) else getattr(one, "parameter_name", "") for one in filters}
        is_refused = name in self._columns and not (name in {"id", "pk", *names} and how in _LOOKUPS)
        return not is_refused and super().lookup_allowed(lookup, value, request)

    @property
    def _columns(self) -> set[str]:
        # What is no column is ignored, as Django does with it.
        return {"pk", *(field.name for field in self.opts.get_fields())}

    def for_list(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.defer(*self.texts)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Ids, any number of them: a search through texts would read the table."""
        terms = search_term.replace(",", " ").split()
        if not terms:
            return queryset, False
        found = [condition for term in terms if (condition := self.search_for(request, term)) is not None]
        return (queryset.filter(Q(*found, _connector=Q.OR)) if found else queryset.none()), False

    def search_for(self, request: HttpRequest, term: str) -> Q | None:
        """Rows that a search term names: by their own id, or by their session's."""
        if is_id(term):
            return Q(pk=int(term))
        session_id = as_uuid(term)
        return Q(session=session_id) if session_id else None

    # -- what is allowed ----------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.editable) and super().has_change_permission(request, obj)

    def may_delete(self, obj: Any) -> bool:
        """Whether this record can be deleted from its page, by those who have the permission.

        The permission itself stays as Django has it: refusing it here would keep hosts from deleting a user
        whose sessions go along.
        """
        return False

    def has_compact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.compact_chatsession")

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.retire_summary")

    def require(self, request: HttpRequest, allowed: bool) -> None:
        """Pages of their own are for those who may see the records and do what the page does."""
        if not (allowed and self.has_view_permission(request)):
            raise PermissionDenied

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Without bulk deletion: it goes record by record, through a page that says what goes along."""
        # Django passes the location from 6.1 on; before that it takes none.
        location = {} if action_location is None else {"action_location": action_location}
        actions: dict[str, Any] = dict(super().get_actions(request, **location))
        actions.pop("delete_selected", None)
        return actions

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is not None and not self.may_delete(obj):
            raise PermissionDenied
        return super(RecordAdmin, self.seen_by(request)).delete_view(request, object_id, extra_context)

    # -- a record's page ----------------------------------------------------------------------------------

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        shown = flatten_fieldsets(self.get_fieldsets(request, obj))
        return [str(name) for name in shown if name not in self.editable]

    def title_of(self, obj: Any) -> str:
        return self.title

    def tools(self, request: HttpRequest, obj: Any) -> list[Tool]:
        return []

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the page of a record shows beside its fields."""
        return {}

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        if obj is not None:
            context["title"] = self.title_of(obj)
            context["compaction_tools"] = self.tools(request, obj)
            context["show_delete"] = self.may_delete(obj)
            context |= self.page_context(request, obj)
        return super().render_change_form(request, context, add, change, form_url, obj)

    # -- pages of their own -------------------------------------------------------------------------------

    def page(self, route: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
        """A page for staff only, protected as Django's own admin pages are; ``view`` is a method of this admin."""

        @wraps(view)
        def seen(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
            answer: HttpResponse = getattr(self.seen_by(request), view.__name__)(request, *arguments, **named)
            return answer

        return path(route, self.admin_site.admin_view(seen), name=f"compaction_app_{name}")

    def get_or_404(self, request: HttpRequest, pk: Any) -> Any:
        found = self.get_object(request, str(pk))
        if found is None:
            raise Http404(f"There is no {self.opts.verbose_name} {pk}.")
        return found

    def confirm(self, request: HttpRequest, *, obj: Any = None, **context: Any) -> HttpResponse:
        """A page that says what is going to happen and asks for it by POST.

        ``is_final``: it can not be undone. ``is_work``: it asks for background work, and tells what is wrong there.
        """
        return self.own_page(request, "admin/compaction_app/confirm.html", obj=obj, **context)

    def own_page(self, request: HttpRequest, template: str, *, obj: Any = None, **context: Any) -> HttpResponse:
        """A page that Django has no view for, below the list of its records and the record that it is about."""
        request.current_app = self.admin_site.name  # as the admin's own views do
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": obj,
            "media": self.media,
            "crumbs": self.crumbs(obj),
            **context,
        }
        return TemplateResponse(request, template, context)

    def crumbs(self, obj: Any = None) -> list[tuple[str, str]]:
        """(address, name) of what stands above a page: the list, and the record."""
        above = [(self.url(f"{self.opts.model_name}_changelist", **self.list_query(obj)), self.list_name(obj))]
        return above if obj is None else [*above, (self.url(f"{self.opts.model_name}_change", obj.pk), str(obj))]

    def list_query(self, obj: Any) -> dict[str, Any]:
        return {}

    def list_name(self, obj: Any) -> str:
        return self.list_title

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        obj = context["object"]
        title, crumbs = f"Delete {self.title_of(obj).lower()}", self.crumbs(obj)
        mine = {"crumbs": crumbs, "original": obj, "title": title, "back": crumbs[-1][0], "is_final": True}
        return super().render_delete_form(request, {**context, **mine})

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Django leads whoever may not change records, which is nobody here, to its front page."""
        answer = super().response_delete(request, obj_display, obj_id)
        is_redirect = isinstance(answer, HttpResponseRedirect)
        return HttpResponseRedirect(self.after_deletion(request)) if is_redirect else answer

    def after_deletion(self, request: HttpRequest) -> str:
        """Where a person goes on after a record was deleted, who may see the others."""
        return self.url(f"{self.opts.model_name}_changelist")

    def with_urls(self, events: Iterable[CompactionEvent]) -> list[tuple[CompactionEvent, str, str]]:
        """Each with the address of its page and its figures on one line."""
        return [
            (event, self.url("compactionevent_change", event.pk), display.figures(event.payload)) for event in events
        ]

    # -- links --------------------------------------------------------------------------------------------

    def url(self, page: str, *arguments: Any, **query: Any) -> str:
        """Address of a page (``chatmessage_change``); "" where the person who looks may not see its records."""
        if not self.may_view(page.partition("_")[0]):
            return ""
        return display.page_url(page, *arguments, site=self.admin_site.name, **query)

    def link_to(self, page: str, pk: Any, label: str) -> str:
        """A link to a record by its id, which needs no query; a dash where there is none."""
        return display.link(self.url(f"{page}_change", pk), label) if pk is not None else display.EMPTY

    def link_to_message(self, pk: int | None, label: str = "Message") -> str:
        return self.link_to("chatmessage", pk, f"{label} {pk}")

    def link_to_run(self, pk: int | None) -> str:
        return self.link_to("compactionrun", pk, f"Run {pk}")

    def link_to_session(self, session: Any, length: int = 60) -> str:
        """Its title stands there for those who may see sessions: it may be how a message began."""
        if not self.may_view("chatsession"):
            return display.line(f"Session {session.pk}")
        return self.link_to("chatsession", session.pk, display.titled(str(session), length))


def is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= _ID_DIGITS


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
