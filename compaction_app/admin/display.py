"""Values as safe HTML. All text of a conversation is untrusted: it leaves only through here, escaped.

Numbers and times are written as the language of the request does, times with their zone; bars are SVG with all sizes
in attributes, so that no page needs an inline style.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.db import models
from django.utils.formats import date_format, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from compaction_app.messages.validation import canonical
from compaction_app.models import CompactionRun
from compaction_app.models.words import words
from compaction_app.values import EXTRACTIVE_MODEL, PERSON, RunStatus

#: Shown where there is no value.
EMPTY = "–"
SHORT_TEXT = 200
# A code of this app, or a name in JSON that is one.
_CODE = re.compile(r"[a-z]+(?:_[a-z]+)*")
_NAMED_BY_ID = frozenset({"summary", "run", "message", "base", "session", "tip", "anchor", "cutoff"})


def link(url: str, label: Any) -> str:
    return format_html('<a href="{}">{}</a>', url, label) if url else format_html("{}", label)


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """Pieces of HTML in a row; a dash where there are none."""
    return format_html_join(separator, "{}", ((part,) for part in parts)) or EMPTY


# -- text and JSON ------------------------------------------------------------------------------------------


def shortened(text: str, length: int = SHORT_TEXT) -> str:
    """The beginning on one line."""
    # Cut first: splitting four megabytes to show a line of them would take longer than the page.
    flat = " ".join(text[: length * 4].split())
    return flat if len(flat) <= length and len(text) <= length * 4 else flat[: length - 1] + "…"


def line(text: str, length: int = 500) -> str:
    """The beginning of a text on one line, in its own direction."""
    cut = shortened(text, length)
    return format_html('<span dir="auto">{}</span>', cut) if cut else EMPTY


def text_block(text: str) -> str:
    """A text as it was written: white space kept, its own direction, in a box that scrolls."""
    return format_html('<div class="compaction-text" dir="auto" tabindex="0">{}</div>', text) if text else EMPTY


def code_block(text: str) -> str:
    """Code and JSON run from left to right, whatever the page does."""
    return format_html('<pre class="compaction-code" dir="ltr" tabindex="0">{}</pre>', text)


def json_block(value: Any) -> str:
    return code_block(json.dumps(canonical(value), indent=2, ensure_ascii=False)) if value else EMPTY


def call_line(call: Mapping[str, Any]) -> str:
    """A tool call as ``name(arguments)``."""
    function = call.get("function") or {}
    return f"{function.get('name', '')}({function.get('arguments', '')})"


# -- words and numbers --------------------------------------------------------------------------------------


def badge(state: str, label: str) -> SafeString:
    """A word with a color. The word alone says it as well."""
    return format_html('<span class="compaction-badge compaction-{}">{}</span>', state, label)


def run_badge(run: CompactionRun) -> SafeString:
    return badge(run.status, capfirst(words(run.status)))


def model_name(name: str) -> str:
    """Of the model of a run: in words where none was asked."""
    return words(name) if name in (EXTRACTIVE_MODEL, PERSON) else name


def run_reason(run: CompactionRun) -> str:
    """Why a finished run ended otherwise than with a model's summary; "" where it did not."""
    if run.status == RunStatus.SUCCEEDED and run.error_code:
        return _("extract instead of a model's summary: {}").format(words(run.error_code))
    return words(run.skip_reason or (run.error_code if run.status == RunStatus.FAILED else ""))


def number(value: Any, digits: int = 0) -> str:
    # A template passes "" where an attribute on the way is missing. As a text: of a float Django would cut digits off.
    return EMPTY if value in (None, "") else number_format(f"{value:.{digits}f}", force_grouping=True)


def counted(count: int, one: str, many: str) -> str:
    """``counted(2, "{} run", "{} runs")``; ``make messages`` knows its texts as those of ``ngettext``."""
    return ngettext(one, many, count).format(number(count))


def messages(count: int) -> str:
    return counted(count, "{} message", "{} messages")


def tokens(count: int) -> str:
    return counted(count, "{} token", "{} tokens")


def runs(count: int) -> str:
    return counted(count, "{} run", "{} runs")


def place(depth: int) -> str:
    """A position on a branch, as chats number their messages."""
    return f"#{number(depth)}"


def summary_name(pk: int | None, generation: int | None = None) -> str:
    name = _("Summary {id}, compaction {generation}") if generation else _("Summary {id}")
    return name.format(id=pk, generation=generation)


def percent(value: Any, digits: int = 0) -> str:
    return EMPTY if value in (None, "") else _("{}%").format(number(value * 100, digits))


#: Of a summary, by name: what its score counts.
FOUND_AGAIN = gettext_lazy("names, numbers and rules found again")


def found_again(run: CompactionRun) -> str:
    """The share in the text alone, and with the ledger if one is added to it."""
    shares = [(run.retention_before, _("{} in the text alone")), (run.retention_after, _("{} with the ledger"))]
    if run.retention_after == run.retention_before:
        shares = [(run.retention_after, "{}")]
    return ", ".join(where.format(percent(share, 1)) for share, where in shares if share is not None) or EMPTY


def history_tokens(run: CompactionRun) -> str:
    """Of its branch, before and after."""
    if run.tokens_before is None and run.tokens_after is None:
        return EMPTY
    return f"{number(run.tokens_before)} → {number(run.tokens_after)}"


def money(amount: Decimal) -> str:
    """Without the zeros that the column keeps."""
    return number_format(f"{amount:f}".rstrip("0").rstrip(".") if amount % 1 else int(amount), force_grouping=True)


def figures(payload: Mapping[str, Any]) -> str:
    """An event's payload on one line: ``tokens after 2,559 · reasoning turns (dropped 2 · verbatim 1)``."""
    shown = sorted((key, one) for key, one in payload.items() if not isinstance(one, Mapping) or any(one.values()))
    return " · ".join(f"{_words_if_code(key)} {_figure(key, value)}" for key, value in shown) or EMPTY


def _figure(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({figures(value)})"
    if value is None or isinstance(value, bool):
        return EMPTY if value is None else _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(_figure(key, one) for one in value) or _("none")
    if isinstance(value, float):
        return percent(value) if key.startswith("retention") else f"{value:,g}"
    if isinstance(value, int):
        # An id is a name: it is not grouped.
        return str(value) if key in _NAMED_BY_ID or key.endswith("_id") else number(value)
    return _words_if_code(str(value))


def _words_if_code(text: str) -> str:
    return words(text) if _CODE.fullmatch(text) else text


def moment(when: datetime | None) -> str:
    """A time to the second, with the name of its zone."""
    if when is None:
        return EMPTY
    local = localtime(when)
    # A language may take a shorter form of its own.
    day = date_format(local, _("DATE_FORMAT"))
    shown = f"{day}, {date_format(local, 'H:i:s T')}"
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), shown)


# -- columns ------------------------------------------------------------------------------------------------

_BY_FIELD: dict[type[models.Field[Any, Any]], Callable[[Any], str]] = {
    models.DateTimeField: moment,
    models.JSONField: json_block,
    models.IntegerField: number,
    models.DecimalField: money,
    models.TextField: text_block,
    models.BooleanField: lambda value: _("yes") if value else EMPTY,
}


def value_of(obj: Any, field: Any) -> str:
    """A model's field as its kind asks for."""
    value = getattr(obj, f"get_{field.name}_display")() if field.choices else getattr(obj, field.name)
    show = next((show for kind, show in _BY_FIELD.items() if isinstance(field, kind)), None)
    return EMPTY if value in (None, "") else show(value) if show else line(str(value))


def labelled(value: str, label: Any) -> str:
    """A value of a list with its name, which the style sheet shows on a phone: there the table has no header row."""
    return format_html('<span data-name="{}">{}</span>', label, value) if value != EMPTY else EMPTY


def column(name: str, description: Any, value: Callable[[Any], str]) -> Callable[[Any], str]:
    """A column for ``get_list_display``; style sheets know it as ``column-name`` and ``field-name``."""

    @admin.display(description=description)
    def shown(obj: Any) -> str:
        return value(obj)

    shown.__name__ = name
    return shown


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
