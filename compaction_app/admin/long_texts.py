"""Texts of any size: a page shows the first part, and an address of its own has all of it as plain text.

A message may be four megabytes long. A page that held it twice over would be too slow to read and to scroll.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpResponse
from django.utils.html import format_html

from compaction_app.admin import display
from compaction_app.messages.validation import canonical
from compaction_app.models import ChatMessage

#: Characters of a text that a page shows.
SHOWN = 20_000
#: Calls of a message that a page sets out.
_MOST_CALLS = 50
#: What has an address of its own, by the name in it.
PARTS = ("content", "tool_calls", "reasoning", "attachments", "usage", "metadata", "sent_context")


def text_of(message: ChatMessage, part: str) -> str:
    """One of :data:`PARTS` as text; JSON set out."""
    value: Any = getattr(message, part)
    if part == "content":
        return str(value)
    return json.dumps(canonical(value), indent=2, ensure_ascii=False) if value else ""


def begins(text: str, url: str) -> str:
    """The text as it was written, or its beginning and the way to the rest."""
    return _with_rest(display.text_block(text[:SHOWN]), len(text) - SHOWN, url)


def json_begins(message: ChatMessage, part: str, url: str) -> str:
    text = text_of(message, part)
    if not text:
        return display.EMPTY
    return _with_rest(display.code_block(text[:SHOWN]), len(text) - SHOWN, url)


def calls_begin(message: ChatMessage, url: str) -> str:
    """Each call with its name, its id and its arguments set out, as far as a page goes."""
    left, shown = SHOWN, []
    calls = message.tool_calls or []
    for call in calls[:_MOST_CALLS]:
        name, arguments = display.name_and_arguments(call)
        if left <= 0:
            break
        if len(arguments) <= left:
            shown.append(call)
        else:
            cut = {"name": name, "arguments": arguments[:left]}
            shown.append({**call, "function": cut})
        left -= len(arguments)
    whole = sum(len(display.name_and_arguments(call)[1]) for call in calls)
    listed = sum(len(display.name_and_arguments(call)[1]) for call in shown)
    block = _with_rest(display.tool_calls_block(shown), whole - listed, url)
    if len(shown) < len(calls):
        more = format_html('<p class="compaction-note">{} calls more.</p>', display.number(len(calls) - len(shown)))
        return format_html("{}{}", block, more)
    return block


def _with_rest(block: str, left_out: int, url: str) -> str:
    if left_out <= 0:
        return block
    return format_html(
        '{}<p class="compaction-note">{} characters more are not shown here: <a href="{}">the whole text</a>.</p>',
        block,
        display.number(left_out),
        url,
    )


def plain(message: ChatMessage, part: str) -> HttpResponse:
    """A text for itself. No browser takes it for anything but text, whatever is written in it."""
    if part not in PARTS:
        raise Http404("There is no such part of a message.")
    return as_plain_text(text_of(message, part))


def as_plain_text(text: str, status: int = 200) -> HttpResponse:
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": "inline",
        "Cache-Control": "private, no-store",
    }
    # What JSON escapes can be no text that is sent: lone surrogates.
    body = text.encode("utf-8", "backslashreplace")
    return HttpResponse(body, status=status, content_type="text/plain; charset=utf-8", headers=headers)
