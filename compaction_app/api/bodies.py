"""What a request's body may be: JSON in UTF-8, not too large, without what only one of the databases takes."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.parser import Parser

from compaction_app.api.fields import SHORT_TEXT
from compaction_app.api.problems import Code, Problem
from compaction_app.conf import site_setting
from compaction_app.messages.validation import check_json, check_text

#: A character takes at most three times its UTF-8 bytes when it is written as ``\\uXXXX``.
_ESCAPED = 3
#: For all that stands beside the message's content.
_BESIDE_BYTES = 64 * 1024
_MOST_DIGITS = 19
#: More digits than any number that is taken; Python reads no number of thousands of them.
_READ_DIGITS = 400
_TOO_LARGE = 10**_READ_DIGITS


class JsonBody(Parser):
    """NUL, lone surrogates, NaN and deep nesting are refused at any place: they fail on PostgreSQL only, or later."""

    def parse_body(self, request: HttpRequest) -> Any:
        body = json.loads(request.body.decode(), parse_int=_whole_number)
        if not isinstance(body, dict):
            check_json(body, "body")
            return body
        # A field by itself, as Python's door does: the error names it, and may say where in it.
        for name, value in body.items():
            check_text(name, "a field's name")
            check_json(value, name[:SHORT_TEXT])
        return body


def _whole_number(digits: str) -> int:
    """However long it is, for what is too large to be told where it stands."""
    return int(digits) if len(digits) <= _READ_DIGITS else _TOO_LARGE


def max_body_bytes() -> int:
    """Room for one message of ``MAX_MESSAGE_BYTES`` however it is escaped, but no more than the site takes at all."""
    needed = _ESCAPED * int(site_setting("MAX_MESSAGE_BYTES")) + _BESIDE_BYTES
    site: Any = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return needed if site is None else min(needed, int(site))


def check_size(request: HttpRequest) -> None:
    """Read the body, or raise ``too_large``, by what its header says before a byte of it is read."""
    limit = max_body_bytes()
    said = str(request.META.get("CONTENT_LENGTH") or "0")
    if not (said.isascii() and said.isdecimal()):
        raise Problem(Code.MALFORMED, "Content-Length is no number.")
    # Compared as digits first: a number of thousands of them would be no number to Python either.
    if len(said) > _MOST_DIGITS or int(said) > limit or len(request.body) > limit:
        raise Problem(Code.TOO_LARGE, f"The body is larger than {limit:,} bytes.")
