"""A long text as head, notice and tail; what is read as one character is never cut in two."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.messages.truncate import shorten

pytestmark = pytest.mark.pure

#: Text that PostgreSQL takes: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))

CLUSTERS = {
    "a family": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "a letter and its marks": "e\u0301\u0323",
    "a heart in colour": "\u2764\ufe0f",
    "a skin tone": "\U0001f44d\U0001f3fd",
    "the flag of a part of a country": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "a syllable of Devanagari": "\u0915\u093f",
}


def size(text: str) -> int:
    return len(text.encode())


class TestShorten:
    @pytest.mark.parametrize("limit", [-1, 0, 1, 5, 20, 27])
    def test_a_limit_smaller_than_the_notice_leaves_a_head_and_dots(self, limit):
        assert shorten("x" * 200, limit) == "x" * max(limit - 3, 0) + "..."[: max(limit, 0)]

    @pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
    def test_what_is_read_as_one_character_is_whole_on_both_sides_of_the_notice(self, cluster):
        for limit in range(80, 140):
            head, tail = re.split(r"\n\.\.\.truncated \d+ bytes\.\.\.\n", shorten(cluster * 100, limit))
            assert head == cluster * (len(head) // len(cluster))
            assert tail == cluster * (len(tail) // len(cluster))

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


def test_a_text_of_nothing_but_marks_is_cut_all_the_same() -> None:
    assert size(shorten("a" + "\u0301" * 1_000, 500)) > 480
