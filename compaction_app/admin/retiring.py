"""Retiring summaries: a page that says which ones go, asks for the reason, and does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.db import connections

from compaction_app import chat, sql
from compaction_app.branches import using_of
from compaction_app.models import ChatMessage

_LONGEST_REASON = 255


class RetireForm(forms.Form):
    reason = forms.CharField(
        max_length=_LONGEST_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="Kept with each of them, for the record.",
    )


@dataclass(frozen=True, slots=True)
class Retirement:
    """What retiring the selected summaries takes out of use."""

    selected: tuple[ChatMessage, ...]
    #: Live ones among the selected and those built on them, oldest first.
    leaving: tuple[ChatMessage, ...]

    @property
    def selected_ids(self) -> set[int]:
        return {summary.pk for summary in self.selected}

    def carry_out(self, reason: str) -> list[int]:
        retired: list[int] = []
        for summary in self.selected:
            retired += chat.retire_summary(summary, reason=reason)
        return sorted(retired)


def plan_retirement(selected: Sequence[ChatMessage]) -> Retirement:
    if not selected:
        return Retirement((), ())
    leaving: set[int] = set()
    for summary in selected:
        leaving |= _built_on(summary)
    rows = ChatMessage.objects.using(using_of(selected[0])).live().filter(pk__in=leaving)
    without_texts = rows.select_related("session").defer("content", "metadata").order_by("id")
    return Retirement(tuple(selected), tuple(without_texts))


def _built_on(summary: ChatMessage) -> set[int]:
    """The summary and every one built on it, as ``chat.retire_summary`` finds them."""
    with connections[using_of(summary)].cursor() as cursor:
        cursor.execute(sql.BUILT_ON, {"summary": summary.pk})
        return {row[0] for row in cursor.fetchall()}
