"""Values as safe HTML. All text of a conversation is untrusted: it only ever leaves through here, escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format, get_format
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from compaction_app.messages.validation import canonical

#: Stands where there is nothing to show.
EMPTY = "–"
SHORT_TEXT = 200
# A code of this app, or a name in JSON that is one.
_CODE = re.compile(r"[a-z]+(?:_[a-z]+)*")
#: Characters of a title.
_LONGEST_TITLE = 500
_NAMED_BY_ID = frozenset({"summary", "run", "message", "base", "session", "tip", "anchor", "cutoff"})


def page_url(page: str, *arguments: Any, site: str = "admin", **query: Any) -> str:
    """Address of one of this app's admin pages (``chatmessage_change``); "" where a host took it out."""
    try:
        url = reverse(f"admin:compaction_app_{page}", args=arguments, current_app=site)
    except NoReverseMatch:
        return ""
    return f"{url}?{urlencode(query)}" if query else url


def link(url: str, label: Any) -> str:
    return format_html('<a href="{}">{}</a>', url, label) if url else format_html("{}", label)


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """Pieces of HTML in a row; a dash where there are none."""
    return format_html_join(separator, "{}", ((part,) for part in parts)) or EMPTY


def text_block(text: str) -> str:
    """A text as it was written: white space kept, its own direction, in a box that scrolls."""
    if not text:
        return EMPTY
    return format_html('<div class="compaction-text" dir="auto" tabindex="0">{}</div>', text)


def json_block(value: Any) -> str:
    if value in (None, {}, [], ""):
        return EMPTY
    return code_block(json.dumps(canonical(value), indent=2, ensure_ascii=False))


def tool_calls_block(calls: Sequence[Mapping[str, Any]] | None) -> str:
    """Each call with its name, its id and its arguments set out."""
    blocks = []
    for call in calls or ():
        name, arguments = name_and_arguments(call)
        heading = format_html("<strong>{}</strong> <code>{}</code>", name, call.get("id", ""))
        blocks.append((heading, code_block(pretty_arguments(arguments))))
    return format_html_join("", '<div class="compaction-call">{} {}</div>', blocks) or EMPTY


def name_and_arguments(call: Mapping[str, Any]) -> tuple[str, str]:
    function = call.get("function") or {}
    return str(function.get("name", "")), str(function.get("arguments", ""))


def pretty_arguments(arguments: str) -> str:
    """The arguments' JSON set out; as they stand where they are no JSON, or hold what no page can be sent."""
    try:
        pretty = json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
        pretty.encode()
    except (ValueError, RecursionError):
        return arguments
    return pretty


def shortened(text: str, length: int = SHORT_TEXT) -> str:
    """The beginning on one line."""
    # Cut first: splitting four megabytes to show a line of them would take longer than the page.
    words = " ".join(text[: length * 4].split())
    return words if len(words) <= length and len(text) <= length * 4 else words[: length - 1] + "…"


def titled(text: str, length: int) -> str:
    """The beginning of a text on one line, the whole of it in a title where that is longer."""
    cut, whole = shortened(text, length), " ".join(text.split())
    if cut == whole:
        return line(text)
    return format_html('<span dir="auto" title="{}">{}</span>', shortened(text, _LONGEST_TITLE), cut)


def line(text: str, *, is_cut: bool = False) -> str:
    """A text on one line, in its own direction."""
    flat = " ".join(text.split()) + ("…" if is_cut else "")
    return format_html('<span dir="auto">{}</span>', flat) if flat else EMPTY


def here(label: Any) -> SafeString:
    """The one among links that stands for this page."""
    return format_html('<strong aria-current="page">{}</strong>', label)


def moment(when: datetime | None) -> str:
    """A time as the admin writes it, in the time zone and the language of the request."""
    return EMPTY if when is None else _time(when, "DATETIME_FORMAT")


def exact_moment(when: datetime | None) -> str:
    """The same to the second, for what comes about several times a minute."""
    return EMPTY if when is None else _time(when, with_seconds(get_format("DATETIME_FORMAT")))


def with_seconds(pattern: str) -> str:
    """A pattern for a date and time, in which Django's languages write no seconds, with them."""
    if "P" in pattern:
        # "10 a.m.", "noon": words that have no place for seconds.
        return pattern.replace("P", "g:i:s a")
    # The minutes, and what stands between them and the hour; not a letter that stands for itself.
    return re.sub(r"(?<=[gGhH])([.:])i", r"\1i\1s", pattern)


def _time(when: datetime, pattern: str) -> str:
    local = localtime(when)
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), date_format(local, pattern))


def number(value: int | None) -> str:
    return EMPTY if value is None else f"{value:,}"


def lasted(span: timedelta) -> str:
    """How long something took, to two figures that matter: "0.8 s", "4 min 10 s", "2 d 3 h"."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    left = round(seconds)
    for unit, size, below, size_below in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if left >= size:
            return f"{left // size} {unit} {left % size // size_below} {below}"
    return f"{left} s"


def money(amount: Decimal) -> str:
    """An amount as people write it, without the zeros that the column keeps."""
    return f"{amount:,.8f}".rstrip("0").rstrip(".")


def figures(payload: Mapping[str, Any]) -> str:
    """What an event carries on one line: ``tokens after 2,559 · reasoning turns (dropped 2 · verbatim 1)``."""
    parts = [
        f"{words_of(key)} ({figures(value)})"
        if isinstance(value, Mapping)
        else f"{words_of(key)} {_figure(key, value)}"
        for key, value in sorted(payload.items())
        # A count of nothing inside a count says nothing.
        if not (isinstance(value, Mapping) and not any(value.values()))
    ]
    return " · ".join(parts) or EMPTY


def _figure(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: EMPTY, True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(_figure(key, one) for one in value) or "none"
    if isinstance(value, float):
        return f"{value:.0%}" if key.startswith("retention") else f"{value:,g}"
    if isinstance(value, int):
        # An id is a name: it has no commas.
        return str(value) if key in _NAMED_BY_ID or key.endswith("_id") else f"{value:,}"
    return words_of(str(value))


def words(code: str) -> str:
    """A stored code as people read it."""
    return code.replace("_", " ")


def words_of(text: str) -> str:
    """The same for what may be a code; anything else as it stands."""
    return words(text) if _CODE.fullmatch(text) else text


def figure(column: str, description: str = "") -> Any:
    """A column of whole numbers for lists and pages, with commas whatever the host's settings are."""

    @admin.display(description=description or words(column))
    def shown(model_admin: Any, obj: Any) -> str:
        return number(getattr(obj, column))

    return shown


def time_of(column: str, description: str = "", *, exact: bool = True) -> Any:
    """A column of times for lists and pages."""

    @admin.display(description=description or words(column))
    def shown(model_admin: Any, obj: Any) -> str:
        return (exact_moment if exact else moment)(getattr(obj, column))

    return shown


def badge(state: str, label: str) -> SafeString:
    """A word with a colour; the word alone says it as well."""
    return format_html('<span class="compaction-badge compaction-{}">{}</span>', state, label)


def code_block(text: str) -> str:
    """Code and JSON run from left to right, whatever the page does."""
    return format_html('<pre class="compaction-code" dir="ltr" tabindex="0">{}</pre>', text)
