"""What changed between two generations of a summary: as small as it reads well, in bounded work."""

import random
from difflib import SequenceMatcher
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_app.admin import differences
from compaction_app.admin.differences import Change, difference
from compaction_app.models import ChatMessage
from tests.admin.pages import ARABIC, MARKUP, page_of, shown, texts_of

pytestmark = pytest.mark.django_db


def test_what_changed_is_told_by_words_to_eyes_and_ears(viewer, three):
    _, (_, second, third) = three
    page = viewer.get(page_of(second)).text
    assert (
        '<del><span class="visually-hidden">[removed: </span>2,000<span class="visually-hidden">]</span></del>' in page
    )
    assert '<ins><span class="visually-hidden">[added: </span>2,400<span class="visually-hidden">]</span></ins>' in page
    assert texts_of(shown(viewer, third).changed) == (second.content, third.content)


def test_markup_in_what_changed_stays_text(viewer, three):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=first.pk).update(content=f"Old {MARKUP}</ins>")
    ChatMessage.objects.filter(pk=second.pk).update(content=f"New {MARKUP}</del> {ARABIC}")
    page = viewer.get(page_of(second)).text
    assert "<script>alert" not in page
    assert "&lt;/del&gt;" in page


def test_an_erased_text_is_not_compared(viewer, three):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=first.pk).update(content="")
    page = shown(viewer, second)
    assert (page.changed, page.no_difference) == (None, "One of the two texts has been erased.")


def test_the_same_text_twice_says_so(viewer, three):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=second.pk).update(content=first.content)
    assert "None: the texts are the same." in viewer.get(page_of(second)).text


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("All is done.", "All was done.", ["is "], ["was "]),
        ("One. Two. Three.", "One. Three.", ["Two. "], []),
        ("## Work\nOld.\n", "## Work\n\nOld.\n", None, None),
        ("5 × 2,000 metres", "5 × 2,400 metres", ["2,000 "], ["2,400 "]),
        ("我喜欢绿色。", "我喜欢红色。", ["绿"], ["红"]),
        ("a · b · c", "a · c", ["b · "], []),
        ("", "New.", [], ["New."]),
        ("wholly other words", "nothing of that here", ["wholly other words"], ["nothing of that here"]),
    ],
)
def test_a_difference_is_as_small_as_it_reads_well(before, after, removed, added):
    found = difference(before, after)
    assert texts_of(found) == (before, after)
    if removed is not None:
        assert [piece.text for piece in found.pieces if piece.change is Change.REMOVED] == removed
        assert [piece.text for piece in found.pieces if piece.change is Change.ADDED] == added


_WORDS = st.text(alphabet="ab .\n·我!x,1\t", max_size=60)


@given(_WORDS, _WORDS)
def test_both_texts_can_be_had_back_from_their_difference(before, after):
    """Whatever is left out of the work, nothing is left out of what is told."""
    found = difference(before, after)
    assert texts_of(found) == (before, after)
    assert found.is_empty == (before == after)
    neighbours = [piece.change for piece in found.pieces]
    assert all(one != other for one, other in pairwise(neighbours))
    assert all(piece.text for piece in found.pieces)


def hundred_kilobytes(seed, words, separator):
    chance = random.Random(seed)
    text = separator.join(f"w{chance.randrange(words)}" for _ in range(100_000 // 6))
    return text[:100_000].ljust(100_000, "z")


@pytest.mark.parametrize("separator", [" ", ". ", "\n", "", " · "])
@pytest.mark.parametrize("words", [1, 2, 90, 10**9])
def test_the_work_is_bounded_for_texts_of_a_hundred_kilobytes(monkeypatch, words, separator):
    """difflib is worse than quadratic on unlike texts: what it is given is counted, not how long it takes."""
    compared = []

    class Counted(SequenceMatcher):
        def __init__(self, junk, before, after):
            compared.append((len(before), len(after)))
            super().__init__(junk, before, after)

    monkeypatch.setattr(differences, "SequenceMatcher", Counted)
    before, after = hundred_kilobytes(1, words, separator), hundred_kilobytes(2, words, separator)
    found = difference(before, after)
    (sentences, *passages) = compared
    assert max(sentences) <= differences.MOST_SENTENCES
    assert all(max(passage) <= differences.MOST_WORDS for passage in passages)
    assert sum(a * b for a, b in passages) <= differences.MOST_WORK
    cut = differences.MOST_CHARACTERS
    assert texts_of(found) == (before[:cut], after[:cut])
    assert found.uncompared == 2 * (100_000 - cut)


def test_a_summary_of_a_hundred_kilobytes_has_a_page(viewer, three):
    _, (first, second, _) = three
    for summary, seed in ((first, 1), (second, 2)):
        text = hundred_kilobytes(seed, 10**9, " ")
        ChatMessage.objects.filter(pk=summary.pk).update(content=text)
    page = viewer.get(page_of(second)).text
    assert "80,000 characters at the ends were not compared" in page
    assert "80,000 more characters are not shown" in page
    assert len(page) < 300_000


def test_long_passages_that_did_not_change_are_cut_out_of_the_middle():
    same = "word " * 1000
    pieces = difference(f"{same}Old.", f"{same}New.").shortened()
    left_out = [piece for piece in pieces if piece.change is Change.LEFT_OUT]
    kept = sum(len(piece.text) for piece in pieces if piece.change is Change.SAME)
    assert left_out[0].left_out + kept == len(same) + 1, "and the full stop"
    assert kept < 600


@pytest.mark.parametrize(
    ("old", "new"),
    [("1", "10"), ("v1.2", "v1.3"), ("2026-11-09", "2026-11-19"), ("10:02", "10:12"), ("3/4", "1/4"), ("4kg", "14kg")],
)
def test_a_figure_is_told_whole_and_never_in_part(old, new):
    found = difference(
        f"The lamp of the lighthouse says {old}: nothing else.", f"The lamp of the lighthouse says {new}: nothing else."
    )
    changed = [piece.text.strip() for piece in found.pieces if piece.change is not Change.SAME]
    assert changed == [old, new]


def test_what_is_cut_out_of_a_passage_begins_and_ends_between_words():
    same = "12,345 guests and 67,890 beds, " * 40
    pieces = difference(f"{same}Old.", f"{same}New.").shortened()
    words = {word for piece in pieces if piece.change is Change.SAME for word in piece.text.split()}
    assert words <= {"12,345", "guests", "and", "67,890", "beds,", "."}
