"""The views of the chat page. Users see only their own conversations; other ones are not found.

A post stores the message, gets the reply, and redirects to the branch (Post/Redirect/Get). A text that cannot be
stored is shown again in its box with the reason, and nothing is written. The page's script asks for JSON: then the
message is stored, and the script reads the reply from the stream.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from compaction_app import chat
from compaction_app.api.codes import Code
from compaction_app.compaction.leases import is_under_way
from compaction_app.conf import Mode, get_settings
from compaction_app.contrib.histories import exported
from compaction_app.conversation.hand_over import needs_summary
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.models.words import why_it_failed
from compaction_app.spending import find_overspending
from compaction_app.values import PERSON, Role, RunStatus, Trigger
from project.chat import commands, markdown, reading, turns, uploads
from project.chat.forms import EditForm, MessageForm, NewForm, TitleForm
from project.chat.shown import PAGE_SIZE
from project.chat.words import FAILURES, for_script, words_for

REFUSED = 422
#: What the page's script accepts, and no browser by itself.
JSON = "application/json"
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
    return guard(render(request, template, {"words": for_script()} | (context or {}), status=status))


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

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return view(request, *args, **kwargs) if request.method == "POST" else _page_of(**kwargs)

    return cast(View, require_http_methods(["GET", "HEAD", "POST"])(shown))


def _page_of(session_id: uuid.UUID | None = None, message_id: int | None = None, **_others: Any) -> HttpResponse:
    if session_id is None:
        return redirect("chat:sessions")
    if message_id is None:
        return redirect("chat:session", session_id)
    return redirect("chat:branch", session_id, message_id)


# -- Conversations ----------------------------------------------------------------------------------------


def _page(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """A page with the user's conversations at its side."""
    number = _whole_number(request.GET.get("page")) or 1
    search = request.GET.get("q", "")
    listed = reading.list_sessions(request.user, (number - 1) * reading.SESSIONS_PAGE_SIZE, search)
    side = {
        "listed": listed[: reading.SESSIONS_PAGE_SIZE],
        "search": search,
        "newer": number - 1 if number > 1 else None,
        "older": number + 1 if len(listed) > reading.SESSIONS_PAGE_SIZE else None,
        "is_offline": turns.is_offline(),
        "models": settings.CHAT_MODELS if len(settings.CHAT_MODELS) > 1 and not turns.is_offline() else [],
        "model": turns.model_for(context.get("session")),
    }
    return render_page(request, template, side | context, status=status)


@require_safe
@login_required
def sessions(request: HttpRequest) -> HttpResponse:
    return _new_page(request, NewForm(auto_id="message-%s"))


def _new_page(request: HttpRequest, form: NewForm, *, status: int = 200) -> HttpResponse:
    form.focus()
    return _page(request, "chat/new.html", {"form": form}, status=status)


# Not in a transaction even with ATOMIC_REQUESTS: none may be open while a model is called.
@transaction.non_atomic_requests
@posted
@login_required
def new_session(request: HttpRequest) -> HttpResponse:
    """A conversation with its first message."""
    form = NewForm(request.POST, request.FILES, auto_id="message-%s")
    if not form.is_valid():
        return _new_page(request, form, status=REFUSED)
    if command := commands.parse(form.cleaned_data["content"]):
        if command.is_known:
            messages.info(request, _(FAILURES[Code.NOTHING_TO_COMPACT]))
            return redirect("chat:sessions")
        form.add_error("content", commands.unknown(command))
        return _new_page(request, form, status=REFUSED)
    try:
        with transaction.atomic():  # a message that cannot be stored leaves no conversation
            started = chat.start_session(
                owner=request.user,
                model=_chosen_model(request) or turns.model_for(None),
                system_prompt=form.cleaned_data["system_prompt"],
                title=_title_of(form),
            )
            message = started.title_of = _append(started, None, form)
            # With this message its words are erased.
            started.save(update_fields=["title_of"])
    except CompactionError as error:
        form.add_error("content", words_for(error))
        return _new_page(request, form, status=REFUSED)
    return _answer(request, started, message)


@posted
@login_required
def rendered(request: HttpRequest) -> HttpResponse:
    """A reply that is still coming, as the page will show it."""
    return guard(JsonResponse(markdown.blocks(request.POST.get("text", "")[: reading.SHOWN_CHARACTERS]), safe=False))


@posted
@login_required
def rename(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    found = _own_session(request, session_id)
    form = TitleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("A title has 1 to 255 characters."))
    elif (title := form.cleaned_data["title"]) != found.title:
        # An older page may still have the words of an erased title.
        as_shown = ChatSession.objects.filter(pk=found.pk, erasures=form.cleaned_data["erased"] or 0)
        if not as_shown.update(title=title, title_of=None):
            messages.error(
                request, _("Something was erased since this page was opened. Rename the conversation again.")
            )
    tip = _whole_number(request.POST.get("tip"))
    return redirect("chat:branch", session_id, tip) if tip else redirect("chat:session", session_id)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delete(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Ask, then delete the conversation with all its branches, summaries and files."""
    found = _own_session(request, session_id)
    if request.method != "POST":
        continued = ChatSession.objects.filter(continues_session=found.pk).exists()
        return _page(request, "chat/delete.html", {"session": found, "title": found.title, "continued": continued})
    chat.delete_session(found)
    messages.success(request, _("The conversation is deleted."))
    return redirect("chat:sessions")


@require_safe
@login_required
def export(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """All branches as a file, in the OpenAI chat format."""
    found = _own_session(request, session_id)
    named = {"Content-Disposition": f'attachment; filename="{found.pk}.json"'}
    return guard(HttpResponse(exported(found), content_type="application/json", headers=named))


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
    # A reply that is asked for again comes beside the one that is there.
    is_asked = message.role == Role.USER and is_under_way(message)
    tip = message if is_asked else chat.newest_tip(message)
    edited = _whole_number(request.GET.get("edit"))
    editing = None
    if edited:
        original = _editable(found, edited)
        editing = _Editing(original.pk, EditForm(original.content))
    return _branch_page(request, found, tip, end=_end(request) or _end_around(message, tip), editing=editing)


@require_safe
@login_required
def text(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """The full text of a message that is too long for the page, as plain text."""
    message = _message(_own_session(request, session_id), message_id)
    return guard(HttpResponse(message.content, content_type="text/plain; charset=utf-8"))


@require_safe
@login_required
def picture(request: HttpRequest, session_id: uuid.UUID, message_id: int, number: int) -> HttpResponse:
    """A picture that was uploaded with a message."""
    attachments = _message(_own_session(request, session_id), message_id).attachments or []
    found = uploads.picture_in(attachments[number]) if number < len(attachments) else None
    if found is None:
        raise Http404("There is no such picture.")
    return guard(HttpResponse(found[1], content_type=found[0], headers={"X-Content-Type-Options": "nosniff"}))


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
    corrected: str = "",
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
        "stream": f"{reverse('compaction_api:get_session', args=[session.pk])}/stream",
        "state": page.state,
        "form": form or MessageForm(auto_id="message-%s"),
        "title_form": TitleForm(initial={"title": session.title, "erased": session.erasures}, auto_id="session-%s"),
        "editing": editing,
        "corrected": corrected,
        "hand_over_key": uuid.uuid4().hex,
        "suggestions": list(map(str, (session.metadata or {}).get("suggestions") or ()))[:3] if tip else [],
        "continued": _continued(session),
        "generations": reading.read_generations(session, tip, page.state) if shows_generations else None,
        "generations_shown": reading.GENERATIONS_SHOWN,
        "is_being_answered": page.awaits_reply and tip is not None and is_under_way(tip),
    }
    return _page(request, "chat/branch.html", context, status=status)


def _continued(session: ChatSession) -> ChatMessage | None:
    """The message of another chat of the owner's that this one goes on after."""
    above = session.continues
    return above if above and above.session.owner_id == session.owner_id else None


# -- Posting ----------------------------------------------------------------------------------------------


@transaction.non_atomic_requests
@posted
@login_required
def post_message(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Store the message, get the reply, show both; or run a command."""
    found = _own_session(request, session_id)
    parent_id = request.POST.get("parent")
    parent = _message(found, _whole_number(parent_id)) if parent_id else None
    form = MessageForm(request.POST, request.FILES, auto_id="message-%s")
    try:
        if not form.is_valid():
            return _branch_page(request, found, parent, form=form, status=REFUSED)
        if command := commands.parse(form.cleaned_data["content"]):
            return _run_command(request, found, parent, form, command)
        message = _append(found, parent, form)
    except CompactionError as error:
        form.add_error("content", words_for(error))
        return _branch_page(request, found, parent, form=form, status=REFUSED)
    if (model := _chosen_model(request)) and model != found.model:
        found.model = model
        found.save(update_fields=["model"])
    return _answer(request, found, message)


@transaction.non_atomic_requests
@posted
@login_required
def edit_message(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Store the edited text as a sibling of the message: a new branch, and the old one is kept."""
    found = _own_session(request, session_id)
    original = _editable(found, message_id)
    form = EditForm(original.content, request.POST)
    if not form.is_valid():
        return _refuse_edit(request, found, original, form)
    kept = {"attachments": original.attachments, "name": original.name}
    if names := original.metadata.get(uploads.PICTURES):
        kept["metadata"] = {uploads.PICTURES: names}
    try:
        message = _append(found, original.parent, form, **kept)
    except CompactionError as error:
        form.add_error("content", words_for(error))
        return _refuse_edit(request, found, original, form)
    return _answer(request, found, message)


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
        messages.error(request, _("This message is not a reply, so it cannot be regenerated."))
        return redirect(_address(message))
    return _answer(request, found, answered, regenerate=is_reply)


@posted
@login_required
def copy(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Continue in a new chat, which begins as this one does down to the message."""
    until = _message(_own_session(request, session_id), message_id)
    return _show_new(request, chat.copy_branch(until))


@posted
@login_required
def hand_over(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Continue in a new chat with the summary and what follows it alone."""
    tip = _message(_own_session(request, session_id), message_id)
    try:
        # Undone meanwhile, or too large by now; nobody waits here for a model that writes another one.
        if needs_summary(tip):
            messages.error(request, _("There is no summary now that a new chat can begin with. /compact makes one."))
            return redirect(_address(tip))
        # Sent twice, it is one chat.
        return _show_new(request, chat.hand_over(tip, idempotency_key=request.POST.get("key", "")[:64]))
    except CompactionError as error:
        messages.error(request, words_for(error))
        return redirect(_address(tip))


@posted
@login_required
def carry_over(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Bring to a branch what was found on that of a variant."""
    found = _own_session(request, session_id)
    tip, variant = _message(found, message_id), _message(found, _whole_number(request.POST.get("source")))
    try:
        source = chat.newest_tip(variant)
        last = found.runs.filter(trigger=Trigger.CARRY_OVER, tip=source).order_by("-pk").first()
        # The page does not wait for the model. The next press stores the message, or says why the summary failed.
        if (run := chat.request_carry_over(source, tip)) and run.is_open:
            if last and last.status == RunStatus.FAILED:
                told = _("The other branch could not be summarized: {why}. It is tried again now.")
                messages.error(request, told.format(why=why_it_failed(last.error_code) or last.error_code))
            else:
                messages.info(request, _("The other branch is being summarized. Press again in a moment."))
            return redirect(_address(tip))
        tip = chat.carry_over(source, tip, idempotency_key=request.POST.get("key", "")[:64])
        chat.request_compaction(tip)
    except CompactionError as error:
        messages.error(request, words_for(error))
    return redirect(_address(tip))


def _show_new(request: HttpRequest, copied: ChatSession) -> HttpResponse:
    # Names of pictures are metadata, which a copy has none of.
    for message in copied.messages.filter(attachments__isnull=False):
        if pictures := [one for one in message.attachments or () if uploads.picture_in(one)]:
            chat.annotate_message(message, **{uploads.PICTURES: [one.get("name", "") for one in pictures]})
    messages.success(request, _("This is a new conversation. The first one stays as it is."))
    return redirect("chat:session", copied.pk)


@posted
@login_required
def pin(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Pin a message, or unpin it, and show the branch again."""
    found = _own_session(request, session_id)
    message, tip = _message(found, message_id), _message(found, _whole_number(request.POST.get("tip")))
    try:
        (chat.pin_message if "pin" in request.POST else chat.unpin_message)(message)
    except CompactionError as error:
        messages.error(request, words_for(error))
    branch = reverse("chat:branch", args=[found.pk, tip.pk])
    return redirect(f"{branch}?end={_whole_number(request.POST.get('end')) or tip.depth}#m{message.pk}")


@posted
@login_required
def cut(request: HttpRequest, session_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Summarize a branch up to a message."""
    found = _own_session(request, session_id)
    tip = _message(found, _whole_number(request.POST.get("tip")))
    try:
        _tell(request, commands.compact(found, tip, "", until=_message(found, message_id)))
    except CompactionError as error:
        messages.error(request, words_for(error))
    return redirect(_address(tip))


@posted
@login_required
def correct(request: HttpRequest, session_id: uuid.UUID, message_id: int, summary_id: int) -> HttpResponse:
    """Put a text of the owner's in the place of a summary, on branches with what is shown."""
    found = _own_session(request, session_id)
    tip = _message(found, message_id)
    summary = get_object_or_404(ChatMessage.objects.filter(session=found).summaries(), pk=summary_id)
    text = request.POST.get("text", "")
    try:
        chat.correct_summary(summary, text, tip=tip, author=request.user)
    except CompactionError as error:
        # With what was written, which may be long.
        messages.error(request, words_for(error))
        end = reading.read_state(found, tip).cutoff_end or None
        return _branch_page(request, found, tip, end=end, corrected=text, status=422)
    messages.success(request, _("The model reads your text from now on."))
    state = reading.read_state(found, tip)
    return redirect(f"{reverse('chat:branch', args=[found.pk, tip.pk])}?end={state.cutoff_end}#cutoff")


@posted
@login_required
def undo(request: HttpRequest, session_id: uuid.UUID, message_id: int, summary_id: int) -> HttpResponse:
    """Take a summary out of use, and show the branch again."""
    found = _own_session(request, session_id)
    tip = _message(found, message_id)
    summary = get_object_or_404(ChatMessage.objects.filter(session=found).summaries(), pk=summary_id)
    chat.retire_summary(summary, reason="Undone by the owner of the conversation.")
    state, mode = reading.read_state(found, tip), get_settings(found.settings).mode
    told = [_("The summary is undone."), state.read_now]
    if summary.model == PERSON:
        told.append(_("What it had corrected stays in the list of /compactions."))
    if is_due := state.needs_summary and mode not in (Mode.OFF, Mode.MANUAL) and not find_overspending(found):
        # Which is asked for already; the page waits for it.
        told.append(_("The conversation is too long for the model as it is, so another summary is written."))
    messages.info(request, " ".join(filter(None, told)), extra_tags="open" if is_due else "")
    return redirect(f"{_address(tip).partition('#')[0]}#latest")


def _append(session: ChatSession, parent: ChatMessage | None, form: MessageForm, **fields: Any) -> ChatMessage:
    sent = form.cleaned_data.get("attached") or uploads.Uploads()
    content = form.cleaned_data["content"]
    return chat.append_message(session, parent, role=Role.USER, content=content, **sent.as_fields, **fields)


def _answer(
    request: HttpRequest, session: ChatSession, message: ChatMessage, *, regenerate: bool = False
) -> HttpResponse:
    turns.look_up(message)
    if request.headers.get("Accept") == JSON:
        asked = {"page": _address(message), "message": message.pk, "regenerate": regenerate}
        return guard(JsonResponse(asked))
    tip, problem = turns.take_turn(session, message, regenerate=regenerate)
    # A conversation that is too long is told of by the page itself.
    if problem and problem != reading.read_state(session, tip).problem:
        messages.error(request, problem)
    return redirect(_address(tip))


def _run_command(
    request: HttpRequest, session: ChatSession, tip: ChatMessage | None, form: MessageForm, command: commands.Command
) -> HttpResponse:
    address = _address(tip) if tip else reverse("chat:session", args=[session.pk])
    if command.name == commands.COMPACTIONS:
        return redirect(f"{address.partition('#')[0]}?compactions#compactions")
    if command.name != commands.COMPACT:
        form.add_error("content", commands.unknown(command))
        return _branch_page(request, session, tip, form=form, status=REFUSED)
    _tell(request, commands.compact(session, tip, command.argument))
    return redirect(address)


def _tell(request: HttpRequest, notice: commands.Notice) -> None:
    messages.add_message(request, notice.level, notice.text, extra_tags="open" if notice.is_open else "")


def _refuse_edit(request: HttpRequest, session: ChatSession, original: ChatMessage, form: EditForm) -> HttpResponse:
    tip = chat.newest_tip(original)
    editing = _Editing(original.pk, form)
    end = _end_around(original, tip)
    return _branch_page(request, session, tip, end=end, editing=editing, status=REFUSED)


def _title_of(form: MessageForm) -> str:
    """The first words of the first message, or the names of its files."""
    typed, files = uploads.split_files(form.cleaned_data["content"])
    names = [file.name for file in files] + [picture["name"] for picture in form.cleaned_data["attached"].pictures]
    words = " ".join(typed.split()) or ", ".join(names)
    return words if len(words) <= _TITLE_CHARACTERS else f"{words[: _TITLE_CHARACTERS - 1].rstrip()}…"


def _chosen_model(request: HttpRequest) -> str:
    chosen = request.POST.get("model", "")
    return chosen if chosen in settings.CHAT_MODELS else ""


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
    if message.role != Role.USER or message.redacted_at is not None or session.stands_for_others(message):
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
    digits = text.lstrip("0") if isinstance(text, str) and text.isascii() and text.isdigit() else ""
    # The length first: Python refuses to read thousands of digits.
    if not (0 < len(digits) < 20 and int(digits) < 2**63):
        raise Http404("This is not a number.")
    return int(digits)
