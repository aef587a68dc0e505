"""Links as one user may follow them: what somebody may not open is its name and no link."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.db.models import DateTimeField, IntegerField, OuterRef, Subquery
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from compaction_app.admin.display import EMPTY, column, labelled, line, link, place, shortened, summary_name, value_of
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.values import Kind, Role

#: Characters by which people recognize a session without a title.
_FIRST_WORDS = 60


class Links:
    """Made for each request, and needs no query."""

    def __init__(self, site: AdminSite, request: HttpRequest) -> None:
        self.site, self.request = site, request
        self._may_view: dict[str, bool] = {}

    def may_view(self, model_name: str) -> bool:
        """Whether the user may open records of this model, as the admin of that model decides."""
        if model_name not in self._may_view:
            model = apps.get_model("compaction_app", model_name)
            self._may_view[model_name] = self.site.is_registered(model) and (
                self.site.get_model_admin(model).has_view_permission(self.request)
            )
        return self._may_view[model_name]

    def may(self, permission: str) -> bool:
        """Whether the user has a permission of the app, by its codename."""
        return self.request.user.has_perm(f"compaction_app.{permission}")

    def url(self, page: str, *arguments: Any, **query: Any) -> str:
        """Address of a page (``chatmessage_change``); "" where the user may not see its records."""
        if not self.may_view(page.partition("_")[0]):
            return ""
        try:
            url = reverse(f"admin:compaction_app_{page}", args=arguments, current_app=self.site.name)
        except NoReverseMatch:
            # A host removed it.
            return ""
        return f"{url}?{urlencode(query)}" if query else url

    def page_of(self, obj: Any) -> str:
        return self.url(f"{obj._meta.model_name}_change", obj.pk)

    def to(self, model_name: str, pk: Any, label: Any) -> str:
        """To a record by its id; a dash where there is none."""
        return link(self.url(f"{model_name}_change", pk), label) if pk is not None else EMPTY

    def to_list(self, model_name: str, label: Any, **query: Any) -> str:
        return link(self.url(f"{model_name}_changelist", **query), label)

    def record(self, obj: Any) -> str:
        return link(self.page_of(obj), obj)

    def message(self, pk: int | None, depth: int | None = None) -> str:
        label = _("Message {id} ({place})") if depth else _("Message {id}")
        return self.to("chatmessage", pk, label.format(id=pk, place=place(depth or 0)))

    def summary(self, pk: int | None, generation: int | None = None) -> str:
        return self.to("chatmessage", pk, summary_name(pk, generation))

    def run(self, pk: int | None) -> str:
        return self.to("compactionrun", pk, _("Run {id}").format(id=pk))

    def session(self, session: ChatSession) -> str:
        return self.to("chatsession", session.pk, line(self.name(session), _FIRST_WORDS))

    def name(self, obj: Any) -> str:
        """A session by its title, or by how its first user message begins, for people who may read these."""
        name = ""
        if isinstance(obj, ChatSession) and self.may_view("chatsession"):
            # A title may quote a message, too.
            name = obj.title
            if not name and self.may_view("chatmessage"):
                read_first_words([obj])
                name = vars(obj)["first_words"]
        name = name or str(obj)
        if isinstance(obj, ChatSession) and (obj.copied_from_id or obj.is_handed_over):
            return (_("Copy of {}") if obj.copied_from_id else _("Continues {}")).format(name)
        return name

    def facts(self, obj: Any, *entries: str | tuple[Any, str]) -> list[tuple[Any, str]]:
        """Labels and values of a record's page: a field by its name, or both as given. What is empty is left out."""
        field = obj._meta.get_field
        found = [(field(one).verbose_name, self._value(one, obj)) if isinstance(one, str) else one for one in entries]
        return [(label, value) for label, value in found if value and value != EMPTY]

    def columns(self, model: Any, *names: str) -> list[Callable[[Any], str]]:
        """Fields as columns of a list."""
        of = model._meta.get_field
        return [column(name, of(name).verbose_name, partial(self._cell, name)) for name in names]

    def _cell(self, name: str, obj: Any) -> str:
        value, field = self._value(name, obj), obj._meta.get_field(name)
        return labelled(value, field.verbose_name) if isinstance(field, IntegerField | DateTimeField) else value

    def _value(self, name: str, obj: Any) -> str:
        field = obj._meta.get_field(name)
        pk = getattr(obj, field.attname)
        if not field.is_relation or field.related_model not in (ChatSession, ChatMessage, CompactionRun):
            return value_of(obj, field)
        if field.related_model is ChatSession:
            return self.session(obj.session)
        if field.related_model is CompactionRun:
            return self.run(pk)
        # Of a parent, and of a row that was read along, the position is known.
        read = obj._state.fields_cache.get(name)
        depth = obj.depth - 1 if name == "parent" else vars(read).get("depth") if read else None
        return self.summary(pk) if name in ("base", "summary") else self.message(pk, depth)


def read_first_words(sessions: Iterable[ChatSession]) -> None:
    """How the first user message of each session without a title begins, as ``first_words``. At most one query."""
    untitled = [one for one in sessions if not one.title and "first_words" not in vars(one)]
    if not untitled:
        return
    # Both bounds and this order, as in ``in_session``: PostgreSQL may otherwise walk the primary key.
    of_session = {"session__gte": OuterRef("pk"), "session__lte": OuterRef("pk")}
    asked = ChatMessage.objects.filter(**of_session, kind=Kind.MESSAGE, role=Role.USER).order_by("session_id", "id")
    beginning = Subquery(asked.annotate(beginning=Left("content", _FIRST_WORDS * 4)).values("beginning")[:1])
    rows = ChatSession.objects.in_database_of(untitled[0]).filter(pk__in={one.pk for one in untitled})
    found = dict(rows.annotate(beginning=beginning).values_list("pk", "beginning"))
    for session in untitled:
        vars(session)["first_words"] = shortened(found.get(session.pk) or "", _FIRST_WORDS)
