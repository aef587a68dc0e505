"""Verifying sessions from the admin: what is stored is recomputed and compared, and the findings are a page.

Everybody who may view sessions may verify them: nothing is written, and only ids and numbers are shown. What could be
abused is the work, so verifying takes a POST, and above a bound the page names the command instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from compaction_app.admin.display import number, plural, words
from compaction_app.admin.records import RecordAdmin, count_up_to, page
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.tree.branches import database_of
from compaction_app.tree.verify import verify_session

#: Messages that a request verifies, of all selected sessions together: a few seconds' work.
MOST_MESSAGES = 20_000
#: Findings that a page shows; one wrong row rarely makes more than one.
MOST_FINDINGS = 500


class VerifyingAdmin(RecordAdmin):
    """An action on the list of sessions, and a page for each."""

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
