"""What a user types to the gateway itself: ``/compact``, with or without words for the summary, and ``/compactions``.

It is answered in one line and asked of no model. A client sends both back with its list, where they are no messages.
"""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from compaction_app import chat
from compaction_app.api.permissions import Action, count_against_throttle, is_allowed
from compaction_app.contrib.gateway.identity import Fields
from compaction_app.exceptions import CompactionRefused
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.models.columns import lean
from compaction_app.summarizers.waiting import Way
from compaction_app.values import Role, RunStatus, Suppression

COMPACT, LIST = "/compact", "/compactions"


def command_in(message: Fields) -> tuple[str, str] | None:
    """Its name, and the words behind it; None: a message like any other."""
    if message["role"] != Role.USER or message.get("attachments"):
        return None
    name, *words = message["content"].split(None, 1) or [""]
    return (name, "".join(words).strip()) if name == COMPACT or (name == LIST and not words) else None


def without_commands(messages: Sequence[Fields]) -> list[Fields]:
    """And without their answers."""
    kept, is_answered = [], False
    for one in messages:
        is_command = command_in(one) is not None
        if not is_command and not (is_answered and one["role"] == Role.ASSISTANT):
            kept.append(one)
        is_answered = is_command
    return kept


async def answer(command: tuple[str, str], tip: ChatMessage | None, user: Any, way: Way) -> str:
    """``tip``: of the branch; None where nothing was said yet."""
    name, words = command
    if tip is None:
        return _("Nothing to compact.")
    if name == LIST:
        return str(await way.do(_list, tip, user))
    await way.do(_check, tip, user)
    try:
        run = await way.call(chat.acompact if way.is_awaited else chat.compact, tip, instructions=words, author=user)
    except CompactionRefused as error:
        if error.reason != Suppression.OPEN_RUN:
            raise
        return _("This branch is being compacted already.")
    if run.status == RunStatus.SKIPPED:
        return _("Nothing to compact.")
    return _("Compacted. %(summary)s") % {"summary": _line(run)}


def _check(tip: ChatMessage, user: Any) -> None:
    if not is_allowed(user, tip.session, Action.COMPACT):
        raise PermissionDenied
    count_against_throttle(user)


def _list(tip: ChatMessage, user: Any) -> str:
    """The summaries that the branch's newest one was built on, newest first."""
    if not is_allowed(user, tip.session, Action.INSPECT):
        raise PermissionDenied
    made = CompactionRun.objects.in_database_of(tip).filter(session=tip.session_id, summary__isnull=False)
    by_summary = {run.summary_id: run for run in lean(made)}
    newest = chat.find_summary(tip)
    lines, run = [], by_summary.get(newest.pk) if newest else None
    while run:
        lines.append(f"- {_line(run)}")
        run = by_summary.get(run.base_id)
    return "\n".join(lines) or _("Nothing of this branch is summarized.")


def _line(run: CompactionRun) -> str:
    return _("Summary %(number)s of %(date)s: %(messages)s messages, %(before)s → %(after)s tokens.") % {
        "number": run.generation,
        "date": date_format(localtime(run.created_at), "SHORT_DATETIME_FORMAT"),
        "messages": run.messages_compacted,
        "before": run.tokens_before,
        "after": run.tokens_after,
    }
