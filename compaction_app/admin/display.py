"""Values as safe HTML. All text of a conversation is untrusted: it leaves only through here, escaped.

Numbers have commas whatever the host's settings are, times are in the time zone and the language of the request, and
bars are SVG with all sizes in attributes, so that no page needs an inline style.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format, get_format
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone_name, localtime

from compaction_app.context.budget import Calibration
from compaction_app.messages.validation import canonical
from compaction_app.models import CompactionRun
from compaction_app.values import RunStatus, Strategy

#: Shown where there is no value.
EMPTY = "–"
SHORT_TEXT = 200
_LONGEST_TITLE = 500
# A code of this app, or a name in JSON that is one.
_CODE = re.compile(r"[a-z]+(?:_[a-z]+)*")
_NAMED_BY_ID = frozenset({"summary", "run", "message", "base", "session", "tip", "anchor", "cutoff"})


# -- links --------------------------------------------------------------------------------------------------


def page_url(page: str, *arguments: Any, site: str = "admin", **query: Any) -> str:
    """Address of one of this app's admin pages (``chatmessage_change``); "" where a host removed it."""
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


# -- text and JSON ------------------------------------------------------------------------------------------


def shortened(text: str, length: int = SHORT_TEXT) -> str:
    """The beginning on one line."""
    # Cut first: splitting four megabytes to show a line of them would take longer than the page.
    words = " ".join(text[: length * 4].split())
    return words if len(words) <= length and len(text) <= length * 4 else words[: length - 1] + "…"


def line(text: str, *, is_cut: bool = False) -> str:
    """A text on one line, in its own direction."""
    flat = " ".join(text.split()) + ("…" if is_cut else "")
    return format_html('<span dir="auto">{}</span>', flat) if flat else EMPTY


def titled(text: str, length: int) -> str:
    """The beginning of a text on one line; a longer text in full in the ``title``."""
    cut = shortened(text, length)
    if cut == " ".join(text.split()):
        return line(text)
    return format_html('<span dir="auto" title="{}">{}</span>', shortened(text, _LONGEST_TITLE), cut)


def text_block(text: str) -> str:
    """A text as it was written: white space kept, its own direction, in a box that scrolls."""
    if not text:
        return EMPTY
    return format_html('<div class="compaction-text" dir="auto" tabindex="0">{}</div>', text)


def code_block(text: str) -> str:
    """Code and JSON run from left to right, whatever the page does."""
    return format_html('<pre class="compaction-code" dir="ltr" tabindex="0">{}</pre>', text)


def json_block(value: Any) -> str:
    if value in (None, {}, [], ""):
        return EMPTY
    return code_block(json.dumps(canonical(value), indent=2, ensure_ascii=False))


def name_and_arguments(call: Mapping[str, Any]) -> tuple[str, str]:
    function = call.get("function") or {}
    return str(function.get("name", "")), str(function.get("arguments", ""))


# -- words and numbers --------------------------------------------------------------------------------------


def words(code: str) -> str:
    """A stored code in plain words."""
    return code.replace("_", " ")


def badge(state: str, label: str) -> SafeString:
    """A word with a color. The word alone says it as well."""
    return format_html('<span class="compaction-badge compaction-{}">{}</span>', state, label)


def run_badge(run: CompactionRun) -> SafeString:
    return badge(run.status, RunStatus(run.status).words.capitalize())


def number(value: int | None) -> str:
    return EMPTY if value is None else f"{value:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """``1 branch``, ``2 branches``; ``many`` is ``one`` with an "s" unless it is given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def place(depth: int) -> str:
    """A position on a branch, as chats number their messages."""
    return f"#{depth:,}"


def percent(value: float | None, digits: int = 0) -> str:
    return EMPTY if value is None else f"{value:.{digits}%}"


#: Of a summary, by name: what its score counts.
FOUND_AGAIN = "names, numbers and rules found again"


def found_again(run: CompactionRun) -> str:
    """The share in the text alone, and with the ledger that is added to it."""
    shares = ((run.retention_before, "in the text alone"), (run.retention_after, "with the ledger"))
    return ", ".join(f"{share:.1%} {where}" for share, where in shares if share is not None) or EMPTY


def strategy_of(run: CompactionRun) -> str:
    is_summary = run.strategy == Strategy.AUTO_COMPACT
    return "A summary replaces older messages" if is_summary else words(run.strategy)


def money(amount: Decimal) -> str:
    """Without the zeros that the column keeps."""
    return f"{amount:,.8f}".rstrip("0").rstrip(".")


def reserved(tokens: int, system: int) -> str:
    """Reserved tokens, and for what: ``RESERVED_TOKENS`` alone is the reply's part."""
    if not system:
        return number(tokens)
    reply = f"reply {number(tokens - system)}, " if tokens != system else ""
    return f"{number(tokens)} ({reply}system prompt {number(system)})"


def calibration(learned: Calibration) -> str:
    """How a provider counts, beside our own count."""
    ratio, offset = f"{learned.ratio:g}", round(learned.offset)
    plus = f", and {number(offset)} more for each prompt" if offset else ""
    if learned.ratio == 1 and not plus:
        return f"× {ratio}"
    return (
        f"× {ratio}: the provider counts {ratio} tokens for each one estimated{plus}; available, threshold and target "
        "are divided by it"
    )


def figures(payload: Mapping[str, Any]) -> str:
    """An event's payload on one line: ``tokens after 2,559 · reasoning turns (dropped 2 · verbatim 1)``."""
    parts = []
    for key, value in sorted(payload.items()):
        name = _words_if_code(key)
        if not isinstance(value, Mapping):
            parts.append(f"{name} {_figure(key, value)}")
        elif any(value.values()):
            parts.append(f"{name} ({figures(value)})")
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
    return _words_if_code(str(value))


def _words_if_code(text: str) -> str:
    return words(text) if _CODE.fullmatch(text) else text


# -- times --------------------------------------------------------------------------------------------------


def moment(when: datetime | None) -> str:
    """A time as the admin writes it; its ``title`` names the second and the time zone."""
    return _time(when, get_format("DATETIME_FORMAT"))


def exact_moment(when: datetime | None) -> str:
    """The same to the second, for what happens several times a minute."""
    return _time(when, with_seconds(get_format("DATETIME_FORMAT")))


def with_seconds(pattern: str) -> str:
    """A date and time pattern with seconds added: Django's languages have none in theirs."""
    if "P" in pattern:
        # "10 a.m.", "noon": words that have no place for seconds.
        return pattern.replace("P", "g:i:s a")
    # The minutes, and what separates them from the hour; not a letter that is escaped.
    return re.sub(r"(?<=[gGhH])([.:])i", r"\1i\1s", pattern)


def _time(when: datetime | None, pattern: str) -> str:
    if when is None:
        return EMPTY
    local = localtime(when)
    exact = f"{date_format(local, with_seconds(get_format('DATETIME_FORMAT')))} {get_current_timezone_name()}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', local.isoformat(), exact, date_format(local, pattern)
    )


def lasted(span: timedelta) -> str:
    """A duration in its two largest units: "0.8 s", "4 min 10 s", "2 d 3 h"."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    left = round(seconds)
    for unit, size, below, size_below in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if left >= size:
            return f"{left // size} {unit} {left % size // size_below} {below}"
    return f"{left} s"


# -- columns ------------------------------------------------------------------------------------------------


def column(description: str, value: Callable[[Any, Any], str], attribute: str = "") -> Any:
    """A column of a list, or a field of a page, as an attribute of a ``ModelAdmin``: ``value(model_admin, obj)``.

    ``attribute``: the one that it shows; a page leaves the field out where that is empty.
    """

    @admin.display(description=description)
    def field(model_admin: Any, obj: Any) -> str:
        return value(model_admin, obj)

    if attribute:
        field.attribute = attribute  # type: ignore[attr-defined]  # read by RecordAdmin.hidden
    return field


def shown(name: str, show: Callable[[Any], str], description: str = "") -> Any:
    """A column of one attribute: ``shown("created_at", moment)``. Without a description it is the attribute's name."""
    return column(description or words(name), lambda _, obj: show(getattr(obj, name)), name)


# -- bars ---------------------------------------------------------------------------------------------------

#: Units across a bar, and its height.
_WIDTH, _HEIGHT = 1000, 40


def bar(name: str, parts: Sequence[tuple[str, str, int]], marks: Sequence[tuple[str, int]], scale: int) -> str:
    """``parts``: (color, words, size) from left to right; ``marks``: (words, place); ``scale``: what fills the bar."""
    shape = '<rect class="compaction-tokens-{}" x="{}" y="{}" width="{}" height="{}"><title>{} {}</title></rect>'
    drawn, before = [], 0
    for color, words_, size in parts:
        start, end = before * _WIDTH // scale, (before + size) * _WIDTH // scale
        before += size
        if size > 0:
            # However small, it is visible.
            drawn.append((color, start, 6, max(end - start, 2), _HEIGHT - 12, words_, number(size)))
    # One at the end is drawn inside the bar.
    drawn += [("mark", min(at * _WIDTH // scale, _WIDTH - 3), 0, 3, _HEIGHT, one, number(at)) for one, at in marks]
    return format_html(
        '<svg class="compaction-tokens" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}: {}" focusable="false">'
        '<rect class="compaction-tokens-room" x="0" y="6" width="{}" height="{}"></rect>{}</svg>',
        *(_WIDTH, _HEIGHT, name, "; ".join(f"{one[-2]} {one[-1]}" for one in drawn), _WIDTH, _HEIGHT - 12),
        format_html_join("", shape, drawn),
    )
