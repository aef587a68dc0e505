"""A long text as head, notice and tail."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.messages.truncate import shorten

pytestmark = pytest.mark.pure

#: Text that PostgreSQL takes: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def size(text: str) -> int:
    return len(text.encode())


class TestShorten:
    @pytest.mark.parametrize("limit", [-1, 0, 1, 5, 20, 27])
    def test_a_limit_smaller_than_the_notice_leaves_a_head_and_dots(self, limit):
        assert shorten("x" * 200, limit) == "x" * max(limit - 3, 0) + "..."[: max(limit, 0)]

    def test_head_and_tail_stay_and_the_notice_says_how_many_bytes_are_left_out(self):
        text = "".join(f"{n:05d}\n" for n in range(1000))
        head, number, tail = re.fullmatch(
            r"(.*)\n\.\.\.truncated (\d+) bytes\.\.\.\n(.*)", shorten(text, 500), re.DOTALL
        ).groups()
        assert text.startswith(head)
        assert text.endswith(tail)
        assert head
        assert tail
        assert int(number) == size(text) - size(head) - size(tail)

    @given(TEXT, st.integers(0, 200))
    def test_laws(self, text, limit):
        """At most the limit, never larger than the original, the same when done twice, unchanged if it fits."""
        shortened = shorten(text, limit)
        assert size(shortened) <= limit
        assert size(shortened) <= size(text)
        assert shorten(shortened, limit) == shortened
        if size(text) <= limit:
            assert shortened == text

    @given(TEXT.map(lambda text: text * 20), st.integers(40, 200))
    def test_what_is_left_out_is_what_the_notice_says(self, text, limit):
        shortened = shorten(text, limit)
        if shortened != text and "truncated" in shortened:
            notice = re.search(r"\n\.\.\.truncated (\d+) bytes\.\.\.\n", shortened)
            assert size(text) - int(notice[1]) == size(shortened) - size(notice[0])
