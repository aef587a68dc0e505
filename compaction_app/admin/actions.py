"""What people can start from the admin: compacting, verifying, retiring. Each says in messages what became of it.

Compacting waits for no model: a run is opened and enqueued, and its page shows the rest. For whole sessions a task
does the same, and reports nothing back; so a session that has nothing to compact is not enqueued but reported at once.

Everybody who may view sessions may verify them: nothing is written, and only ids and numbers are shown. What could be
abused is the work, so verifying takes a POST, and above a bound the page names the command instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import connections, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from compaction_app import chat, tasks
from compaction_app.admin.display import joined, number, plural, words
from compaction_app.admin.filters import KIND_WORDS
from compaction_app.admin.records import MOST_AT_ONCE, RecordAdmin, count_up_to, is_id, page
from compaction_app.admin.unseen import Unseen, unseen_at
from compaction_app.chat import MAX_INSTRUCTIONS
from compaction_app.conf import Mode, get_settings
from compaction_app.context.reading import resolve_request
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, sql
from compaction_app.spending import find_overspending
from compaction_app.tree.branches import database_of, is_on_branch
from compaction_app.tree.lanes import Lane, histories_at, newest_tip_below, read_lanes
from compaction_app.tree.verify import verify_session
from compaction_app.values import Kind, RunStatus, Trigger

#: Open runs of a session that are checked for the one that blocks a request.
_MOST_BLOCKING = 20
#: Branches that are checked; whether a session with more has nothing to do is left to the task.
MOST_LOOKED_AT = 200
#: Messages that a request verifies, of all selected sessions together: a few seconds' work.
MOST_MESSAGES = 20_000
#: Findings that a page shows; one wrong row rarely makes more than one.
MOST_FINDINGS = 500
_LONGEST_REASON = 255
#: In an address: the summaries were selected in a list.
FROM_LIST = "list"


# -- compacting ---------------------------------------------------------------------------------------------


class CompactForm(forms.Form):
    instructions = forms.CharField(
        required=False,
        widget=forms.Textarea(
            attrs={"rows": 6, "class": "vLargeTextField", "dir": "auto", "maxlength": MAX_INSTRUCTIONS}
        ),
        help_text=f"Optional, at most {MAX_INSTRUCTIONS:,} characters: what the summary should focus on.",
    )

    def clean_instructions(self) -> str:
        """Not longer than allowed. A browser counts a line break as one character and sends it as two."""
        text = str(self.cleaned_data["instructions"]).replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > MAX_INSTRUCTIONS:
            # Django's own validator writes its numbers without commas.
            problem = f"Instructions have at most {MAX_INSTRUCTIONS:,} characters; these have {len(text):,}."
            raise ValidationError(problem)
        return text


def is_off(session: ChatSession) -> bool:
    """Whether compaction is off there. Invalid settings are reported where they are needed."""
    try:
        return get_settings(session.settings).mode == Mode.OFF
    except CompactionError:
        return False


def why_no_retry(run: CompactionRun) -> str:
    """Why a run cannot be retried; "" where it can."""
    if run.status != RunStatus.FAILED:
        return "Only a failed run can be retried."
    return "" if run.tip_id else "Its tip has been deleted."


class Outcome(Enum):
    """What became of a request: the level of the message and its sentence, in the order in which they are shown."""

    STARTED = messages.SUCCESS, "Started in the background: {links}."
    WAITING = (
        messages.WARNING,
        "The message broker did not answer. Opened: {links}. Nothing is lost: the next sweep enqueues what is waiting.",
    )
    BLOCKED = messages.WARNING, "A compaction of the branch is already open: {links}."
    NOTHING = messages.INFO, "Nothing to compact: {links}."
    OFF = messages.WARNING, "Compaction is off in this session: {links}."
    SPENT = messages.WARNING, "A limit of SPENDING_LIMITS is reached, so nothing was started for {links}."
    SESSIONS_STARTED = (
        messages.SUCCESS,
        "Compacting every branch over its threshold in the background, in {sessions}: {links}.",
    )
    SESSIONS_BELOW = messages.INFO, "Nothing to compact: no branch is over its threshold in {sessions}: {links}."
    SESSIONS_EMPTY = messages.INFO, "Nothing to compact: there are no messages in {sessions}: {links}."
    SESSIONS_OFF = messages.WARNING, "Compaction is off (MODE) in {sessions}: {links}."
    SESSIONS_SPENT = (
        messages.WARNING,
        "A limit of SPENDING_LIMITS is reached, so nothing was started in {sessions}: {links}.",
    )
    SESSIONS_UNANSWERED = (
        messages.ERROR,
        "The message broker did not answer, so nothing was started in {sessions}: {links}. Try again later.",
    )


class Report:
    """Requests compactions, and shows the user what became of them."""

    def __init__(self, admin: RecordAdmin, request: HttpRequest) -> None:
        self.admin, self.request = admin, request
        self.found: dict[Outcome, list[str]] = defaultdict(list)
        #: What was requested, and why it could not be done.
        self.problems: list[tuple[str, str]] = []

    def send(self) -> None:
        for outcome in Outcome:
            if links := self.found.get(outcome):
                level, sentence = outcome.value
                sessions = plural(len(links), "session")
                text = format_html(sentence, links=joined(links, ", "), sessions=sessions)
                self.admin.message_user(self.request, text, level)
        for name, problem in self.problems:
            self.admin.message_user(self.request, format_html("{}: {}", name, problem), messages.ERROR)

    def compact(self, tip: ChatMessage, instructions: str = "") -> CompactionRun | None:
        """Request the compaction of one branch; returns the run that was opened for it."""
        link = self.admin.link_to_message(tip.pk)
        try:
            run = chat.request_compaction(tip, trigger=Trigger.MANUAL, instructions=instructions)
            if run is None:
                # A manual request is refused for one of three reasons only.
                if is_off(tip.session):
                    self.found[Outcome.OFF].append(link)
                elif find_overspending(tip.session):
                    self.found[Outcome.SPENT].append(link)
                else:
                    runs = joined((self.admin.link_to_run(pk) for pk in _blocking_runs(tip)), ", ")
                    self.found[Outcome.BLOCKED].append(format_html("{} (blocks {})", runs, link))
                return None
        except CompactionError as error:
            self.problems.append((f"Message {tip.pk}", str(error)))
            return None
        if not run.is_open:
            self.found[Outcome.NOTHING].append(link)
            return None
        self.found[Outcome.STARTED if _is_taken(run) else Outcome.WAITING].append(self.admin.link_to_run(run.pk))
        return run

    def compact_sessions(self, sessions: Sequence[ChatSession]) -> None:
        """Enqueue the compaction of every branch of these sessions, up to the first that no broker takes."""
        for session in sessions:
            if self.refuses(session, below_threshold=True):
                continue
            # Each attempt waits for the broker's timeout, so a hundred of them would outlast the request.
            if self.found[Outcome.SESSIONS_UNANSWERED] or not tasks.enqueue_session(session):
                self._add(Outcome.SESSIONS_UNANSWERED, session)
            else:
                self.admin.log_change(self.request, session, "Compaction of every branch requested.")
                self._add(Outcome.SESSIONS_STARTED, session)

    def refuses(self, session: ChatSession, *, below_threshold: bool = False) -> bool:
        """Whether nothing can be compacted there; with ``below_threshold`` also if no branch is over its threshold.

        One query, two for thresholds, none where the settings decide.
        """
        try:
            resolved = resolve_request(session)
        except CompactionError as error:
            problem = f"nothing is compacted, its settings are invalid. {error}"
            self.problems.append((self.admin.link_to_session(session), problem))
            return True
        if resolved.settings.mode == Mode.OFF:
            outcome = Outcome.SESSIONS_OFF
        elif not (lanes := read_lanes(session, limit=MOST_LOOKED_AT + 1 if below_threshold else 1)):
            outcome = Outcome.SESSIONS_EMPTY
        elif find_overspending(session):
            outcome = Outcome.SESSIONS_SPENT
        elif below_threshold and _are_all_below(lanes, resolved.budget.threshold, database_of(session)):
            outcome = Outcome.SESSIONS_BELOW
        else:
            return False
        self._add(outcome, session)
        return True

    def _add(self, outcome: Outcome, session: ChatSession) -> None:
        self.found[outcome].append(self.admin.link_to_session(session))


def _are_all_below(lanes: Sequence[Lane], threshold: int, using: str) -> bool:
    """Whether no branch is over the threshold; False where there are too many to check."""
    if len(lanes) > MOST_LOOKED_AT:
        return False
    tips = histories_at([lane.end_id for lane in lanes if lane.is_tip], using)
    return all(tip.tokens <= threshold for tip in tips.values())


def _is_taken(run: CompactionRun) -> bool:
    """Whether a broker took the run, or it has ended already. One query."""
    using = run._state.db or "default"
    if transaction.get_connection(using).in_atomic_block:
        # It is enqueued after the commit, which is after this response: nothing is known yet.
        return True
    untaken = CompactionRun.objects.using(using).filter(pk=run.pk, status=RunStatus.READY, enqueued_at__isnull=True)
    return not untaken.exists()


def _blocking_runs(tip: ChatMessage) -> list[int]:
    """Open runs of the branch that ends here: those requested for this tip or anchored above it, newest first."""
    open_runs = CompactionRun.objects.using(database_of(tip)).filter(session_id=tip.session_id).open()
    found = open_runs.order_by("-pk").values_list("pk", "tip_id", "anchor_id", "anchor__depth")
    rows = list(found[:_MOST_BLOCKING])
    on_branch = [
        pk
        for pk, tip_id, anchor_id, depth in rows
        if tip_id == tip.pk or (anchor_id and is_on_branch(anchor_id, depth, tip.pk, database_of(tip)))
    ]
    # A run of a fork blocks it too, if its anchor would be on both branches.
    return on_branch or [pk for pk, *_ in rows]


# -- verifying ----------------------------------------------------------------------------------------------


class VerifyingAdmin(RecordAdmin):
    """Verifying sessions: an action on the list, and a page for each."""

    @admin.action(description="Verify stored data", permissions=["view"])
    def verify(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> HttpResponse | None:
        sessions = self.selected(request, queryset)
        return self._verified(request, sessions) if sessions else None

    @page("<uuid:pk>/verify/")
    def verify_view(self, request: HttpRequest, session: ChatSession) -> HttpResponse:
        return self.confirm(
            request,
            lambda _: self._verified(request, [session]),
            obj=session,
            title="Verify",
            question=(
                "Depths, token sums, the order of siblings, open calls, and every summary's cutoff, anchor, pin and "
                "base are recomputed and compared with what is stored. Nothing is written."
            ),
            back=self.page_of(session),
        )

    def _verified(self, request: HttpRequest, sessions: Sequence[ChatSession]) -> HttpResponse | None:
        """The page of findings; None, with a message, where there are too many messages for a request."""
        command = " ".join(["python manage.py verify_chats", *(str(session.pk) for session in sessions)])
        found = ChatMessage.objects.filter(session__in=[session.pk for session in sessions])
        if count_up_to(found, MOST_MESSAGES) > MOST_MESSAGES:
            refused = f"More than {MOST_MESSAGES:,} messages are too many for a page. Run: {command}"
            self.message_user(request, refused, messages.WARNING)
            return None
        reports = [verify_session(session, using=database_of(session)) for session in sessions]
        checked = (
            f"{plural(len(reports), 'session')}, {number(sum(report.messages for report in reports))} messages and "
            f"{number(sum(report.runs for report in reports))} runs checked"
        )
        if otherwise := sum(report.counted_otherwise for report in reports):
            checked += f"; {otherwise:,} of the messages were counted with another TOKEN_COUNTER"
        rows = []
        findings = [one for report in reports for one in report.problems]
        for one in findings[:MOST_FINDINGS]:
            links = [self.link_to("chatsession", one.session_id, f"Session {one.session_id}")]
            links += [self.link_to_message(one.message_id)] if one.message_id else []
            links += [self.link_to_run(one.run_id)] if one.run_id else []
            rows.append({"finding": words(one.finding), "where": links[-1], "session": links[0], "detail": one.detail})
        session = sessions[0] if len(sessions) == 1 else None
        return self.own_page(
            request,
            "verification.html",
            obj=session,
            title="Verification",
            rows=rows,
            found=len(findings),
            checked=checked,
            command=command,
            back=self.page_of(session) if session else self.list_link()[0],
        )


# -- retiring -----------------------------------------------------------------------------------------------


#: For at most this many summaries the page before a retirement says what the model will no longer see.
_MOST_UNSEEN = 20


class RetireForm(forms.Form):
    reason = forms.CharField(
        max_length=_LONGEST_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Stored with each of them.",
    )


class RetiringAdmin(RecordAdmin):
    """Retiring summaries: an action on the list, and a page that says which are retired and asks for the reason."""

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("compaction_app.retire_summary")

    @admin.action(description="Retire", permissions=["retire"])
    def retire(self, request: HttpRequest, queryset: QuerySet[ChatMessage]) -> HttpResponse | None:
        selected = self.selected(request, queryset)
        if not selected:
            return None
        ids = ",".join(str(summary.pk) for summary in selected)
        return HttpResponseRedirect(self.url("chatmessage_retire", ids=ids, **{FROM_LIST: 1}))

    @page("retire/", "retire")
    def retire_view(self, request: HttpRequest) -> HttpResponse:
        wanted = [int(pk) for pk in request.GET.get("ids", "").split(",") if is_id(pk)]
        found = self.get_queryset(request).filter(kind=Kind.SUMMARY, pk__in=wanted[:MOST_AT_ONCE])
        selected = list(found.defer(*self.texts).order_by("id"))
        retiring = _live_on(selected)
        # People who came from a summary's page return there.
        own = selected[0] if len(selected) == 1 and FROM_LIST not in request.GET else None
        summaries = self.url("chatmessage_changelist", kind=str(Kind.SUMMARY)), KIND_WORDS[Kind.SUMMARY]
        above = self.crumbs(own) if own else [summaries]
        back = above[-1][0]
        if not retiring:
            self.message_user(request, "Nothing to retire: no live summary was selected.", messages.WARNING)
            return HttpResponseRedirect(back)
        return self.confirm(
            request,
            lambda given: self._retire(request, selected, retiring, given["reason"]),
            title="Retire" if len(retiring) == 1 else "Retire summaries",
            crumbs=above,
            question=(
                f"{'This summary is' if len(retiring) == 1 else 'These summaries are'} taken out of use. The messages "
                "that were summarized are sent in full again, as far as they fit."
            ),
            template="retire.html",
            retiring=retiring,
            selected=selected,
            # Called by the template: after a POST nothing is counted.
            unseen=partial(_unseen_without, retiring),
            form=RetireForm,
            button="Retire",
            back=back,
        )

    def _retire(
        self, request: HttpRequest, selected: Iterable[ChatMessage], retiring: Iterable[ChatMessage], reason: str
    ) -> None:
        retired = sorted(pk for summary in selected for pk in chat.retire_summary(summary, reason=reason))
        for summary in retiring:
            if summary.pk in retired:
                # Without the reason: it may quote the summary, and this log outlives an erasure.
                self.log_change(request, summary, "Retired.")
        links = joined((self.link_to_message(pk, "Summary") for pk in retired), ", ")
        self.message_user(request, format_html("Retired {}: {}.", len(retired), links), messages.SUCCESS)


def _unseen_without(retiring: Sequence[ChatMessage]) -> list[Unseen]:
    """Without these summaries, for each branch that used one: what its oldest one was built on still applies."""
    found: dict[int, Unseen | None] = {}
    for summary in retiring[:_MOST_UNSEEN]:
        tip = newest_tip_below(summary.parent) if summary.parent else None
        if tip is not None and tip.pk not in found:
            run = summary.made_by.select_related("base__last_summarized_message").first()
            found[tip.pk] = unseen_at(tip, run.base if run else None)
    return [unseen for unseen in found.values() if unseen]


def _live_on(selected: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The live ones among these summaries and all built on them, oldest first, as ``chat.retire_summary`` has it."""
    if not selected:
        return []
    built: set[int] = set()
    using = database_of(selected[0])
    for summary in selected:
        with connections[using].cursor() as cursor:
            cursor.execute(sql.BUILT_ON, {"summary": summary.pk})
            built.update(pk for (pk,) in cursor.fetchall())
    rows = ChatMessage.objects.using(using).live().filter(pk__in=built).select_related("session")
    return list(rows.defer("content", "metadata").order_by("id"))
