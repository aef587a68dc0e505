"""A model's Markdown as HTML that can be put into a page.

Raw HTML is text, and pictures are not read: an address in a reply would tell its host who read it. What the parser made
is cleaned once more, by another library, so that a fault of one of them is none of the page.
"""

from __future__ import annotations

from functools import lru_cache

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"]).disable("image")
_DIRECTED = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "th", "td")
_TAGS = {
    *_DIRECTED,
    "blockquote",
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


@lru_cache(maxsize=500)
def render(text: str) -> SafeString:
    """Links lead elsewhere without telling from where; each paragraph and list finds its own direction."""
    cleaned = nh3.clean(
        _PARSER.render(text),
        tags=_TAGS,
        clean_content_tags=set(),
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        # A block of code scrolls sideways, and has to be reached with the keyboard for that.
        set_tag_attribute_values={tag: {"dir": "auto"} for tag in _DIRECTED} | {"pre": {"tabindex": "0"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow",
    )
    return mark_safe(cleaned)  # noqa: S308  # cleaned just now
