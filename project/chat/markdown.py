"""A model's Markdown as HTML that can be put into a page.

Raw HTML is text, and a picture becomes a link to it: read with the page, it would tell its host who read it. What the
parser made is cleaned once more, by another library, so that a fault of one of them is none of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from compaction_app.values import EXTRACT_HEADING

_DIRECTED = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "th", "td")
_TAGS = {
    *_DIRECTED,
    "blockquote",
    "div",
    "li",
    "a",
    "br",
    "code",
    "em",
    "hr",
    "pre",
    "s",
    "strong",
    "table",
    "tbody",
    "thead",
    "tr",
}


#: As far as parentheses in it match: the one after it closes what stands around it.
_ADDRESS = re.compile(r"https?://(?:[^\s<>\"()，。、；：！？（）「」]|\([^\s<>\"()]*\))+")


class _Address(NamedTuple):
    url: str


class _Addresses:
    """What the parser's rule asks in place of linkify-it-py: README.md is no address."""

    def match_at_start(self, text: str) -> _Address | None:
        found = _ADDRESS.match(text)
        return _Address(found[0].rstrip(".,:;!?'’*_~`|")) if found else None


def _fit_page(state: StateCore) -> None:
    """Headings below those of the page; the side of a column without a style, which the page's policy forbids."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        elif style := token.attrs.pop("style", None):
            token.attrs["align"] = str(style).partition(":")[2]


def _link_picture(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    address = tokens[at].attrs["src"]
    return format_html('<a href="{}">{}</a>', address, tokens[at].content or address)


#: Formulas, which stay as they are written: backslashes in them are no escapes, and signs no emphasis.
_FORMULA = re.compile(
    r"\\\((?:(?!\n\n).){1,2000}?\\\)|\\\[(?:(?!\n\n).){1,2000}?\\\]|\$\$(?:(?!\n\n).){1,2000}?\$\$"
    r"|(?<![\d$])\$(?=[^\s$])[^$\n]{0,500}[^\s\\$]\$(?!\d)",
    re.DOTALL,
)


def _keep_formula(state: StateInline, silent: bool) -> bool:
    found = _FORMULA.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


def _keep_formula_lines(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula of its own lines is a paragraph, whatever its lines begin with."""
    begin = state.bMarks[start] + state.tShift[start]
    found = _FORMULA.match(state.src, begin)
    lines = next((n for n in range(start, end) if found and found.end() == state.eMarks[n]), None)
    if found is None or lines is None or silent:
        return False
    state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children, inline.map = found[0], [], [start, lines + 1]
    state.push("paragraph_close", "p", -1)
    state.line = lines + 1
    return True


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A footnote is no address of a link: it stays as it is written."""
    is_footnote = state.src.startswith("[^", state.bMarks[start] + state.tShift[start])
    return not is_footnote and reference(state, start, end, silent)


_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": True})
_PARSER.enable(["table", "strikethrough"])
_PARSER.inline.ruler.enable("linkify")
_PARSER.linkify = _Addresses()
_PARSER.inline.ruler.before("escape", "formula", _keep_formula)
_PARSER.block.ruler.before("fence", "formula", _keep_formula_lines)
_PARSER.block.ruler.at("reference", _reference)
_PARSER.core.ruler.push("fit_page", _fit_page)
_PARSER.add_render_rule("image", _link_picture)
# A wide table scrolls in its own box.
_PARSER.add_render_rule("table_open", lambda *_: "<div><table>")
_PARSER.add_render_rule("table_close", lambda *_: "</table></div>")


@lru_cache(maxsize=500)
def render(text: str) -> SafeString:
    return mark_safe("".join(blocks(text)))  # noqa: S308  # each was cleaned


def render_summary(text: str) -> SafeString:
    """Each line of an extract is a quote: a Markdown sign that is left open in one must not reach the next."""
    return render(text.replace("\n", "\n\n") if EXTRACT_HEADING in text else text)


def blocks(text: str) -> list[str]:
    """Each paragraph, list or table by itself: of a reply that grows, most of them stay as they are."""
    env: dict[str, Any] = {}
    tokens = _PARSER.parse(text, env)
    ends = [at + 1 for at, token in enumerate(tokens) if token.level == 0 and token.nesting <= 0]
    parts = (tokens[begin:end] for begin, end in pairwise([0, *ends]))
    return [_cleaned(_PARSER.renderer.render(part, _PARSER.options, env)) for part in parts]


def _cleaned(html: str) -> str:
    """Links lead elsewhere without telling from where; each paragraph and list finds its own direction."""
    return nh3.clean(
        html,
        tags=_TAGS,
        clean_content_tags=set(),
        attributes={"a": {"href", "title"}, "ol": {"start"}, "th": {"align"}, "td": {"align"}},
        # What scrolls sideways has to be reached with the keyboard for that.
        set_tag_attribute_values={tag: {"dir": "auto"} for tag in _DIRECTED}
        | {"pre": {"tabindex": "0"}, "div": {"tabindex": "0", "class": "scroll"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow",
    )
