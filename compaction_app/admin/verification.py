"""Verifying sessions from the admin: what ``verify_chats`` does, for as much as a request may take.

Whoever may view sessions may verify them. Nothing is written, and what is found are ids and numbers, all of which
stand on the pages of the same rows; a finding that only some people may see would stay unrepaired. What could be
abused is the work: so it is asked for by POST, which no link and no prefetching browser sends, and above a bound
the command is named instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern

from compaction_app.admin.compacting import at_most
from compaction_app.admin.pagers import count_up_to
from compaction_app.admin.records import RecordAdmin, Tool
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.tree.verify import Problem, Report, verify_session

#: Messages of all selected sessions together; a few seconds' work. More is the command's.
MOST_MESSAGES = 20_000
#: Findings that a page shows; one wrong row rarely makes more than one.
MOST_FINDINGS = 500


class VerifyingAdmin(RecordAdmin):
    """The sessions' admin takes this in, with ``"verify"`` among its actions and ``verify_tool`` among its tools."""

    def has_verify_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def verify_tool(self, session: ChatSession) -> Tool:
        return Tool("Verify", self.url("chatsession_verify", session.pk))

    def get_urls(self) -> list[URLPattern]:
        page = self.page("<uuid:session_id>/verify/", self.verify_view, "chatsession_verify")
        return [page, *super().get_urls()]

    @admin.action(description="Verify what is stored", permissions=["verify"])
    def verify(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> HttpResponse | None:
        sessions = at_most(self, request, queryset)
        return self._verified(request, sessions) if sessions else None

    def verify_view(self, request: HttpRequest, session_id: Any) -> HttpResponse:
        self.require(request, self.has_verify_permission(request))
        session = self.get_or_404(request, session_id)
        here = self.url("chatsession_change", session.pk)
        if request.method == "POST":
            return self._verified(request, [session]) or HttpResponseRedirect(here)
        return self.confirm(
            request,
            obj=session,
            title="Verify",
            question=(
                "Depths, sums of tokens, the order of siblings, open calls, and every summary's cutoff, anchor, pin "
                "and base are derived again and compared with what is stored. Nothing is written."
            ),
            button="Verify",
            back=here,
        )

    def _verified(self, request: HttpRequest, sessions: Sequence[ChatSession]) -> HttpResponse | None:
        """The page of findings; None, and a word about it, where there is too much to read in a request."""
        if count_up_to(_messages_of(sessions), MOST_MESSAGES) > MOST_MESSAGES:
            told = f"More than {MOST_MESSAGES:,} messages are too many for a page. Run: {command(sessions)}"
            self.message_user(request, told, messages.WARNING)
            return None
        reports = [verify_session(session, using=database_of(session)) for session in sessions]
        found = [one for report in reports for one in report.problems]
        return self.own_page(
            request,
            "admin/compaction_app/verification.html",
            obj=sessions[0] if len(sessions) == 1 else None,
            title="Verified",
            rows=[self._row(one) for one in found[:MOST_FINDINGS]],
            found=len(found),
            found_words=f"{len(found):,}",
            read=_read(reports),
            command=command(sessions),
            back=self._back(sessions),
        )

    def _row(self, one: Problem) -> dict[str, str]:
        links = [self.link_to("chatsession", one.session_id, f"Session {one.session_id}")]
        links += [self.link_to_message(one.message_id)] if one.message_id else []
        links += [self.link_to_run(one.run_id)] if one.run_id else []
        return {"finding": one.finding.replace("_", " "), "where": links[-1], "session": links[0], "detail": one.detail}

    def _back(self, sessions: Sequence[ChatSession]) -> str:
        if len(sessions) == 1:
            return self.url("chatsession_change", sessions[0].pk)
        return self.url("chatsession_changelist")


def command(sessions: Iterable[ChatSession]) -> str:
    """The same in a console, of whatever size."""
    return " ".join(["python manage.py verify_chats", *(str(session.pk) for session in sessions)])


def _messages_of(sessions: Sequence[ChatSession]) -> QuerySet[ChatMessage]:
    found: QuerySet[ChatMessage] = ChatMessage.objects.filter(session__in=[session.pk for session in sessions])
    return found


def _read(reports: Sequence[Report]) -> str:
    messages_, runs = sum(report.messages for report in reports), sum(report.runs for report in reports)
    sessions = "1 session" if len(reports) == 1 else f"{len(reports):,} sessions"
    otherwise = sum(report.counted_otherwise for report in reports)
    counted = f"; {otherwise:,} of the messages were counted by another TOKEN_COUNTER" if otherwise else ""
    return f"{sessions}, {messages_:,} messages and {runs:,} runs checked{counted}"
