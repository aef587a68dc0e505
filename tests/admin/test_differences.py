"""What changed between two generations of a summary: by lines, then by words, in bounded work."""

import time

import pytest

from compaction_app.admin.summaries import difference
from compaction_app.models import ChatMessage
from tests.admin.pages import ARABIC, MARKUP, page_of, shown

pytestmark = pytest.mark.django_db


def test_what_changed_is_told_by_words_to_eyes_and_ears(viewer, three):
    _, (_, second, third) = three
    page = viewer.get(page_of(second)).text
    for tag, kind, text in (("del", "removed", " 2,000."), ("ins", "added", " 2,400.")):
        marked = f'<{tag}><span class="visually-hidden">[{kind}: </span>{text}<span class="visually-hidden">]</span>'
        assert marked in page
    changed = shown(viewer, third).changed
    assert "".join(text for change, text in changed if change != "added") == second.content
    assert "".join(text for change, text in changed if change != "removed") == third.content


def test_markup_in_what_changed_stays_text(viewer, three):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=first.pk).update(content=f"Old {MARKUP}</ins>")
    ChatMessage.objects.filter(pk=second.pk).update(content=f"New {MARKUP}</del> {ARABIC}")
    page = viewer.get(page_of(second)).text
    assert "<script>alert" not in page
    assert "&lt;/del&gt;" in page


@pytest.mark.parametrize(
    ("old", "said"), [("", "One of the two texts has been erased."), (None, "None: the texts are the same.")]
)
def test_where_there_is_nothing_to_compare_it_is_said(viewer, three, old, said):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=first.pk).update(content=second.content if old is None else old)
    page = shown(viewer, second)
    assert (page.changed, page.no_difference) == ([], said)


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("All is done.", "All was done.", [" is"], [" was"]),
        ("One.\nTwo.\nThree.\n", "One.\nThree.\n", ["Two.\n"], []),
        ("5 × 2,000 metres", "5 × 2,400 metres", [" 2,000"], [" 2,400"]),
        ("a  b", "a  b\n", [], ["\n"]),
        ("", "New.", [], ["New."]),
    ],
)
def test_a_difference_is_as_small_as_its_words_and_makes_up_both_texts(before, after, removed, added):
    found = difference(before, after)
    assert [text for change, text in found if change == "removed"] == removed
    assert [text for change, text in found if change == "added"] == added
    assert "".join(text for change, text in found if change != "added") == before
    assert "".join(text for change, text in found if change != "removed") == after


def test_a_long_passage_that_is_the_same_is_shortened():
    same = "".join(f"Line {n} of the log.\n" for n in range(100))
    text = "".join(text for _, text in difference(same + "old\n", same + "new\n"))
    assert len(text) < 700
    assert " […] " in text


@pytest.mark.parametrize("line", ["a b c d e f g h i j " * 19, "x\n" * 3, "word " * 5])
def test_texts_that_share_much_and_little_are_compared_in_bounded_time(line):
    """``difflib`` alone takes minutes for two long texts of few words."""
    before, after = (f"{number}{line}\n" * 400 for number in (1, 2))
    began = time.process_time()
    difference(before, "\n".join(reversed(after.splitlines())))
    difference(before.replace("\n", " "), after.replace("\n", " "))
    assert time.process_time() - began < 3
