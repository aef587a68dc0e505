"""What is read as one character is never cut in two."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.clusters import cut_after, cut_before

pytestmark = pytest.mark.pure

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
CLUSTERS = {
    "a family": FAMILY,
    "a letter and its mark": "e\u0301",
    "a heart in colour": "\u2764\ufe0f",
    "a skin tone": "\U0001f44d\U0001f3fd",
    "a flag": "\U0001f1f3\U0001f1f4",
    "the flag of a part of a country": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "a syllable of Devanagari": "\u0915\u093f",
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_place_inside_one_moves_to_its_beginning_or_its_end(cluster: str) -> None:
    text = f"ab{cluster}{cluster}cd"
    for inside in range(3, 2 + len(cluster)):
        assert cut_before(text, inside) == 2
        assert cut_after(text, inside) == 2 + len(cluster)
    between = 2 + len(cluster)
    assert (cut_before(text, between), cut_after(text, between)) == (between, between)


def test_plain_text_is_cut_where_it_was_asked_for() -> None:
    text = "plain\r\ntext, größer 語"
    assert [cut_before(text, i) for i in range(len(text) + 1)] == list(range(len(text) + 1))
    assert [cut_after(text, i) for i in range(len(text) + 1)] == list(range(len(text) + 1))


def test_a_text_of_nothing_but_marks_is_cut_all_the_same() -> None:
    text = "a" + "\u0301" * 1_000
    assert cut_before(text, 500) == cut_after(text, 500) == 500


@given(st.text(st.sampled_from("ab\u0301\u200d\ufe0f\U0001f469\U0001f3fd\U0001f1f3\n語"), max_size=40), st.data())
def test_laws(text: str, data: st.DataObject) -> None:
    """Never past the place that was asked for, and never right before a mark or on either side of a joiner."""
    place = data.draw(st.integers(0, len(text)))
    earlier, later = cut_before(text, place), cut_after(text, place)
    assert 0 <= earlier <= place <= later <= len(text)
    for cut in (earlier, later):
        if 0 < cut < len(text):
            assert text[cut - 1] != "\u200d"
            assert text[cut] != "\u200d"
            assert unicodedata.category(text[cut]) not in ("Mn", "Mc", "Me")
