"""The views of the chat page. Users see only their own conversations; other ones are not found.

A post stores the message, gets the reply, and redirects to the branch (Post/Redirect/Get). A text that cannot be
stored is shown again in its box with the reason, and nothing is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_safe

from compaction_app import chat
from compaction_app.conversation.claim import is_under_way
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import Role
from project.chat import commands, reading, turns
from project.chat.forms import EditForm, MessageForm, SessionForm
from project.chat.shown import PAGE_SIZE

REFUSED = 422
_TITLE_CHARACTERS = 60

# Only this site's own files, no inline script or style: markup that was not escaped could still do nothing.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)

Response = TypeVar("Response", bound=HttpResponseBase)
View = TypeVar("View", bound=Callable[..., Any])


def render_page(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    return guard(render(request, template, context, status=status))


def guard(response: Response) -> Response:
    """Add the headers that every page of the chat has."""
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    # A conversation does not stay in the cache of a shared computer, and "back" does not show an old state.
    add_never_cache_headers(response)
    return response


class LoginPage(LoginView):
    template_name = "chat/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return guard(super().dispatch(request, *args, **kwargs))


def posted(view: View) -> View:
    """A post, after which the browser may be at this address: reloaded from there, it shows the conversation."""
    allowed = require_http_methods(["GET", "HEAD", "POST"])

    if iscoroutinefunction(view):

        @wraps(view)
        async def awaited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return await view(request, *args, **kwargs) if request.method == "POST" else _page_of(**kwargs)

        return cast(View, allowed(awaited))

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return view(request, *args, **kwargs) if request.method == "POST" else _page_of(**kwargs)

    return cast(View, allowed(shown))


def _page_of(session_id: uuid.UUID | None = None, message_id: int | None = None) -> HttpResponse:
    if session_id is None:
        return redirect("chat:sessions")
    if message_id is None:
        return redirect("chat:session", session_id)
    return redirect("chat:branch", session_id, message_id)


# -- Conversations ----------------------------------------------------------------------------------------


@require_safe
@login_required
def sessions(request: HttpRequest) -> HttpResponse:
    return _sessions_page(request, SessionForm())


@posted
@login_required
def new_session(request: HttpRequest) -> HttpResponse:
    form = SessionForm(request.POST)
    if not form.is_valid():
        return _sessions_page(request, form, status=REFUSED)
    try:
        session = chat.start_session(owner=request.user, model=turns.model_of_new_session(), **form.cleaned_data)
    except CompactionError as error:
        form.add_error(None, str(error))
        return _sessions_page(request, form, status=REFUSED)
    return redirect("chat:session", session.pk)


def _sessions_page(request: HttpRequest, form: SessionForm, *, status: int = 200) -> HttpResponse:
    number = _whole_number(request.GET.get("page")) or 1
    first = (number - 1) * reading.SESSIONS_PAGE_SIZE
    # One more than a page, to know whether there is a next page without counting all.
    found = list(reading.sessions_of(request.user)[first : first + reading.SESSIONS_PAGE_SIZE + 1])
    context = {
        "sessions": found[: reading.SESSIONS_PAGE_SIZE],
        "form": form,
        "newer": number - 1 if number > 1 else None,
        "older": number + 1 if len(found) > reading.SESSIONS_PAGE_SIZE else None,
        "is_offline": turns.is_offline(),
    }
    return render_page(request, "chat/sessions.html", context, status=status)


# -- A branch ---------------------------------------------------------------------------------------------


@require_safe
@login_required
def session(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """The branch that was used last."""
    found = _own_session(request, session_id)
    return _branch_page(request, found, reading.newest_tip(found), end=_end(request))


@require_safe
@login_required
def branch(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """The branch through a message to its newest tip, at the page with the message."""
    found = _own_session(request, session_id)
    message = _message(found, message_id)
    tip = chat.newest_tip(message)
    edited = _whole_number(request.GET.get("edit"))
    editing = None
    if edited:
        original = _editable(found, edited)
        editing = _Editing(original.pk, EditForm(initial={"content": original.content}))
    return _branch_page(request, found, tip, end=_end(request) or _end_around(message, tip), editing=editing)


@require_safe
@login_required
def panel(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """The panel alone, for a page that waits for a compaction."""
    found = _own_session(request, session_id)
    shown = reading.read_panel(found, _message(found, message_id))
    context = {"session": found, "panel": shown, "is_offline": turns.is_offline()}
    return render_page(request, "chat/_panel.html", context)


@require_safe
@login_required
def text(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """The full text of a message that is too long for the page, as plain text."""
    message = _message(_own_session(request, session_id), message_id)
    return guard(HttpResponse(message.content, content_type="text/plain; charset=utf-8"))


@dataclass(frozen=True, slots=True)
class _Editing:
    message_id: int
    form: EditForm


def _branch_page(
    request: HttpRequest,
    session: ChatSession,
    tip: ChatMessage | None,
    *,
    end: int | None = None,
    form: MessageForm | None = None,
    editing: _Editing | None = None,
    status: int = 200,
) -> HttpResponse:
    page = reading.read_page(session, tip, end)
    if form is not None:
        form.focus()
    shows_generations = "compactions" in request.GET
    context = {
        "session": session,
        "tip": tip,
        "page": page,
        "panel": page.panel,
        "form": form or MessageForm(auto_id="message-%s"),
        "editing": editing,
        "generations": reading.read_generations(session, tip, page.panel) if shows_generations else None,
        "generations_shown": reading.GENERATIONS_SHOWN,
        "is_offline": turns.is_offline(),
        "is_being_answered": page.awaits_reply and tip is not None and is_under_way(tip),
        # Under ASGI the async view waits for the model without blocking a thread.
        "post_to": "chat:post_async" if isinstance(request, ASGIRequest) else "chat:post",
    }
    return render_page(request, "chat/branch.html", context, status=status)


# -- Posting ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Received:
    """A message that passed the form's checks."""

    session: ChatSession
    parent: ChatMessage | None
    form: MessageForm

    @property
    def content(self) -> str:
        return str(self.form.cleaned_data["content"])


# Not in a transaction even with ATOMIC_REQUESTS: none may be open while a model is called.
@transaction.non_atomic_requests
@posted
@login_required
def post_message(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Store the message, get the reply, show both."""
    received = _receive(request, session_id)
    if not isinstance(received, _Received):
        return received
    try:
        message = chat.append_message(received.session, received.parent, role=Role.USER, content=received.content)
    except CompactionError as error:
        return _refuse(request, received, error)
    _set_title(received.session, message)
    return _redirect_to(request, turns.take_turn(received.session, message))


@transaction.non_atomic_requests
@posted
@login_required
async def apost_message(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """:func:`post_message` with the model awaited."""
    received = await sync_to_async(_receive)(request, session_id)
    if not isinstance(received, _Received):
        return received
    try:
        message = await chat.aappend_message(
            received.session, received.parent, role=Role.USER, content=received.content
        )
    except CompactionError as error:
        return await sync_to_async(_refuse)(request, received, error)
    await sync_to_async(_set_title)(received.session, message)
    turn = await turns.atake_turn(received.session, message)
    return _redirect_to(request, turn)


@transaction.non_atomic_requests
@posted
@login_required
def edit_message(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Store the edited text as a sibling of the message: a new branch, and the old one is kept."""
    found = _own_session(request, session_id)
    original = _editable(found, message_id)
    form = EditForm(request.POST)
    if not form.is_valid():
        return _refuse_edit(request, found, original, form)
    try:
        message = chat.append_message(
            found,
            original.parent,
            role=Role.USER,
            content=form.cleaned_data["content"],
            name=original.name,
            attachments=original.attachments,
        )
    except CompactionError as error:
        form.add_error("content", str(error))
        return _refuse_edit(request, found, original, form)
    return _redirect_to(request, turns.take_turn(found, message))


@transaction.non_atomic_requests
@posted
@login_required
def regenerate(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Another reply beside this one, or the missing reply to a message."""
    found = _own_session(request, session_id)
    message = _message(found, message_id)
    is_reply = message.role == Role.ASSISTANT
    answered = message.parent if is_reply else message
    if answered is None:
        messages.error(request, "This message is not a reply, so it cannot be regenerated.")
        return redirect(_address(message))
    return _redirect_to(request, turns.take_turn(found, answered, regenerate=is_reply))


def _receive(request: HttpRequest, session_id: uuid.UUID) -> _Received | HttpResponse:
    found = _own_session(request, session_id)
    parent_id = request.POST.get("parent")
    parent = _message(found, _whole_number(parent_id)) if parent_id else None
    received = _Received(found, parent, MessageForm(request.POST, auto_id="message-%s"))
    if not received.form.is_valid():
        return _branch_page(request, found, parent, form=received.form, status=REFUSED)
    command = commands.parse(received.content)
    return _run_command(request, received, command) if command else received


def _run_command(request: HttpRequest, received: _Received, command: commands.Command) -> HttpResponse:
    tip = received.parent
    address = _address(tip) if tip else reverse("chat:session", args=[received.session.pk])
    if command.name == commands.COMPACTIONS:
        return redirect(f"{address.partition('#')[0]}?compactions#compactions")
    if command.name != commands.COMPACT:
        received.form.add_error("content", commands.unknown(command))
        return _branch_page(request, received.session, tip, form=received.form, status=REFUSED)
    try:
        notice = commands.compact(received.session, tip, command.argument)
    except CompactionError as error:
        return _refuse(request, received, error)
    messages.add_message(request, notice.level, notice.text)
    return redirect(address)


def _refuse(request: HttpRequest, received: _Received, error: CompactionError) -> HttpResponse:
    received.form.add_error("content", str(error))
    return _branch_page(request, received.session, received.parent, form=received.form, status=REFUSED)


def _refuse_edit(request: HttpRequest, session: ChatSession, original: ChatMessage, form: EditForm) -> HttpResponse:
    tip = chat.newest_tip(original)
    editing = _Editing(original.pk, form)
    end = _end_around(original, tip)
    return _branch_page(request, session, tip, end=end, editing=editing, status=REFUSED)


def _set_title(session: ChatSession, message: ChatMessage) -> None:
    """Take the title of a conversation without one from its first message."""
    if session.title or message.parent_message_id is not None:
        return
    words = " ".join(message.content.split())
    session.title = words if len(words) <= _TITLE_CHARACTERS else f"{words[: _TITLE_CHARACTERS - 1].rstrip()}…"
    session.save(update_fields=["title"])


def _redirect_to(request: HttpRequest, turn: turns.Turn) -> HttpResponseRedirect:
    if turn.is_answered_elsewhere:
        messages.info(request, "A reply to this message is already on its way. Reload the page in a moment.")
    if turn.problem:
        detail = f" ({turn.detail})" if turn.detail and request.user.is_staff else ""
        messages.error(request, f"{turn.problem}{detail} Your message is saved; Retry requests the reply again.")
    return redirect(_address(turn.tip))


# -- Objects and numbers of a request ---------------------------------------------------------------------


def _own_session(request: HttpRequest, session_id: uuid.UUID) -> ChatSession:
    # Not 403, which would reveal that somebody else has such a conversation.
    found: ChatSession = get_object_or_404(ChatSession, pk=session_id, owner=request.user)
    return found


def _message(session: ChatSession, message_id: int | None) -> ChatMessage:
    found: ChatMessage = get_object_or_404(ChatMessage.objects.messages(), pk=message_id, session=session)
    return found


def _editable(session: ChatSession, message_id: int) -> ChatMessage:
    message = _message(session, message_id)
    if message.role != Role.USER or message.redacted_at is not None:
        raise Http404("Only user messages can be edited.")
    return message


def _address(message: ChatMessage) -> str:
    return f"{reverse('chat:branch', args=[message.session_id, message.pk])}#m{message.pk}"


def _end(request: HttpRequest) -> int | None:
    return _whole_number(request.GET.get("end"))


def _end_around(message: ChatMessage, tip: ChatMessage) -> int | None:
    """The end of the page with the message; None for the newest page."""
    if tip.depth - message.depth < PAGE_SIZE:
        return None
    return int(message.depth) + PAGE_SIZE // 2


def _whole_number(text: Any) -> int | None:
    """A number above 0 that the database can store, or None for no text; 404 for anything else."""
    if not text:
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and 0 < int(text[:20]) < 2**63):
        raise Http404("This is not a number.")
    return int(text)
