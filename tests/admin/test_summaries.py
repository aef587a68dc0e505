"""A summary's page: what it covers, its generations, its ledger and record, the tips it serves."""

import pytest

from compaction_app.admin import summaries
from compaction_app.models import ChatMessage
from tests.admin.pages import MARKUP, figures_of, page_of, shown, url
from tests.admin.records import run_for, summarized
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db


def test_a_first_generation_takes_in_all_up_to_its_cutoff_and_a_later_one_what_came_after_its_bases(viewer, three):
    nodes, (_, second, _) = three
    found = shown(viewer, second)
    assert (found.covered, found.new.messages, found.new.first, found.new.last) == (4, 2, nodes[2].pk, nodes[3].pk)
    nodes, summary = summarized()
    page = shown(viewer, summary)
    assert (page.covered, page.new.messages, page.new.tokens) == (2, 2, 20)
    assert (page.tail, page.tail_tokens) == (1, 10)
    found = figures_of(viewer.get(page_of(summary)).text)
    assert found["New messages"] == f"Message {nodes[0].pk} (#1) – Message {nodes[1].pk} (#2)"
    assert found["Own tokens"] == "8"


def test_one_that_no_model_wrote_says_so_and_why_and_shows_its_text_once(viewer):
    nodes = chain(start_session(), 4)
    quoted = "user: the tide table is on the wall"
    summary = summarize(nodes[2], nodes[1], content=quoted, extract=quoted, is_extract=True)
    run_for(summary, nodes[-1], 1, error_code="timeout")
    page = viewer.get(page_of(summary)).text
    assert page.count("the tide table is on the wall") == 1


def test_a_very_long_line_lists_the_nearest(viewer):
    nodes = chain(start_session(), 70)
    made = [summarize(nodes[n + 1], nodes[n], token_count=5) for n in range(65)]
    for n, summary in enumerate(made):
        run_for(summary, nodes[-1], n + 1, base=made[n - 1] if n else None)
    line = shown(viewer, made[-1]).generations
    assert [made.pk for _, made, _ in line] == [row.pk for row in made[-summaries.MOST_LISTED - 1 :]]


def test_what_changed_is_told_by_lines_to_eyes_and_ears_and_stays_text(viewer, three):
    _, (first, second, _) = three
    ChatMessage.objects.filter(pk=first.pk).update(content="It was red.\nAnna likes green.")
    ChatMessage.objects.filter(pk=second.pk).update(content=f"It was {MARKUP}</ins>\nAnna likes green.")
    page = viewer.get(page_of(second)).text
    removed = (
        '<del><span class="visually-hidden">[removed: </span>It was red.<span class="visually-hidden">]</span></del>'
    )
    assert removed in page
    assert '<ins><span class="visually-hidden">[added: </span>It was &lt;script&gt;' in page
    assert "<script>alert" not in page
    assert shown(viewer, second).changed[-1] == ("same", "Anna likes green.")


def test_any_two_of_its_generations_are_compared_the_earlier_first(viewer, three):
    _, (first, second, third) = three
    for row, text in ((first, "one"), (second, "two"), (third, "three")):
        ChatMessage.objects.filter(pk=row.pk).update(content=text)
    for of, other, lines in (
        (third, None, ["-two", "+three"]),
        (third, first.pk, ["-one", "+three"]),
        (first, third.pk, ["-one", "+three"]),
        (third, 10**9, ["-two", "+three"]),
    ):
        page = viewer.get(page_of(of), {"with": other} if other else {})
        signs = {"removed": "-", "added": "+"}
        changed = page.context["summary"]["changed"]
        assert [signs[change] + line for change, line in changed if change in signs] == lines
        assert f"with={second.pk}" in page.text


def test_of_a_long_text_the_lines_around_a_change_are_shown_and_each_entry_of_a_ledger_is_a_line():
    same = "".join(f"Line {n}.\n" for n in range(400))
    found = summaries.difference(same + "old\n" + same, same + "new\n" + same)
    assert found[1:] == [("same", "Line 399."), ("removed", "old"), ("added", "new"), ("same", "Line 0.")]
    found = summaries.difference("user: one · two · three", "user: one · 2 · three")
    assert found[1:] == [("same", "user: one"), ("removed", "· two"), ("added", "· 2"), ("same", "· three")]


def test_of_the_values_of_a_working_memory_those_that_changed_are_shown():
    before, after = "said: a.py b.py c.py d.py e.py\nasked: b a", "said: a.py c.py d.py e.py f.py\nasked: b a"
    changed = [("removed", "said: b.py"), ("added", "said: f.py"), ("same", "asked: b a")]
    assert [line for line in summaries.difference(before, after) if line[0] != "between"] == changed


def test_ledger_and_extract_are_lists_by_who_said_it_and_the_extract_has_an_address_of_its_own(viewer):
    ledger = "user: the deadline is 27 March now · 94 steps\nuser Ana: 12 ships\ntool: No open flame\nplain: and simple"
    quoted = "## Quoted from the conversation\n### 2026-03-27\nuser Ana: 12 ships · never <sand> the mast"
    _, summary = summarized(ledger=ledger, extract=quoted)
    found = shown(viewer, summary)
    assert found.ledger == [
        ("user", ["the deadline is 27 March now", "94 steps"]),
        ("user Ana", ["12 ships"]),
        ("tool", ["No open flame"]),
        ("", ["plain: and simple"]),
    ]
    assert found.extract == [("user Ana, 2026-03-27", ["12 ships", "never <sand> the mast"])]
    assert viewer.get(url("chatmessage_text", summary.pk, "extract")).text == quoted
    assert shown(viewer, summarized()[1]).extract == []
