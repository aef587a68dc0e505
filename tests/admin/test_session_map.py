"""The branch map on a session's page: marks that are links, words for the eyes and ears, and many lanes."""

import re

import pytest
from django.utils import timezone
from django.utils.html import escape

from compaction_app import chat
from compaction_app.admin import branch_map
from compaction_app.admin.display import link
from compaction_app.admin.map_layout import EVERY_DEPTH, Bar, Shape
from tests.admin.pages import ARABIC, figures, page_of, url
from tests.admin.records import forked, words
from tests.trees import chain, star, start_session, summarize

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def message_url(pk):
    return url("chatmessage_change", pk)


def map_at(client, session, **query):
    response = client.get(page_of(session, **query))
    assert response.status_code == 200
    return response.context["map"]


def links_of(branch_map):
    """(what is drawn, its address, its name) of every mark and bar."""
    lanes = branch_map.picture.lanes
    return [(part, part.url, part.name) for lane in lanes for part in [*lane.bars, *lane.marks]]


def listed_at(client, address):
    """On all pages of the list."""
    return [row.pk for row in client.get(address).context["cl"].queryset]


def names_of(branch_map):
    return [name for _, _, name in links_of(branch_map)]


# -- the map ------------------------------------------------------------------------------------------------


def test_every_mark_is_a_link_to_its_message_or_its_summary(viewer):
    session, main, side, live, gone = forked()
    links = links_of(map_at(viewer, session))
    assert {address for _, address, _ in links} == {message_url(node.pk) for node in (*main, *side, live, gone)}
    for part, address, _ in links:
        assert address == message_url(part.summary_id if isinstance(part, Bar) else part.message_id)


def test_every_mark_says_what_it_is_and_how_its_message_begins(viewer):
    session, main, side, live, gone = forked()
    names = names_of(map_at(viewer, session))
    text = "“\u2068{}\u2069”"
    assert f"Start of branch 1: message {main[0].pk} (#1, user). {text.format('m0')}" in names
    assert f"Message {main[3].pk} (#4, user) of branch 1; 1 branch leaves here. {text.format('m3')}" in names
    assert f"Start of branch 2: message {side[0].pk} (#5, user). {text.format('m0')}" in names
    assert f"Cutoff of summary {live.pk}: message {main[2].pk} (#3). {text.format('m2')}" in names
    assert f"Anchor of summary {gone.pk}, retired: message {main[5].pk} (#6). {text.format('m5')}" in names
    summary = f"Summary {live.pk}, in use: covers 3 messages up to message {main[2].pk} (#3); {live.token_count} tokens"
    assert f"{summary}. {text.format('What was agreed.')}" in names
    available = viewer.get(page_of(session)).context["map"].budget.available
    tip = f"Tip of branch 2: message {side[1].pk} (#6, user); 2 %: 60 of {available:,} available tokens"
    assert f"{tip}. {text.format('m1')}" in names


def test_names_are_titles_and_accessible_names_of_the_drawing(viewer):
    session, *_ = forked()
    response = viewer.get(page_of(session))
    svg = response.text[response.text.index('<svg class="compaction-map-picture"') :].split("</svg>")[0]
    found = re.findall(r'<a href="([^"]+)" aria-label="([^"]+)"><title>([^<]+)</title>', svg)
    assert len(found) == svg.count("<a ") == len(links_of(response.context["map"]))
    assert all(label == title for _, label, title in found)


def test_texts_are_cut_to_one_short_line(viewer):
    session = start_session()
    chat.append_message(session, role="user", content="\n\n  word " * 100_000)
    [name] = names_of(map_at(viewer, session))
    text = name.split("“\u2068")[1].removesuffix("\u2069”")
    assert len(text) == branch_map.TEXT
    assert text.startswith("word word")
    assert "\n" not in name


def test_right_to_left_texts_do_not_turn_the_words_around_them(viewer):
    session = start_session(title=ARABIC)
    chat.append_message(session, role="user", content=ARABIC)
    response = viewer.get(page_of(session))
    assert f"“\u2068{ARABIC}\u2069”" in response.text


def test_a_message_without_text_says_so(viewer):
    session = start_session()
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat.append_message(session, role="assistant", tool_calls=[call])
    assert names_of(map_at(viewer, session))[0].endswith("No text.")


def test_an_empty_session_has_a_page(operator):
    response = operator.get(page_of(start_session()))
    assert "No messages yet." in response.text
    assert figures(response) | {"Messages": "0", "Branches": "0", "Tokens stored": "0"} == figures(response)
    assert response.context["compact_form"] is None, "there is nothing to compact"


def test_one_message_and_several_roots_have_a_map(viewer):
    session = start_session()
    chain(session, 1)
    chain(session, 3)
    shown = map_at(viewer, session)
    assert [row.forks_from for row in shown.table] == ["the start", "the start"]
    assert [row.messages for row in shown.table] == [1, 3]


def test_a_short_conversation_shows_every_message_and_a_long_one_its_ends(viewer):
    short, long_ = start_session(), start_session()
    chain(short, EVERY_DEPTH)
    nodes = chain(long_, EVERY_DEPTH + 1)
    assert len(links_of(map_at(viewer, short))) == EVERY_DEPTH
    first, folded, last = (address for _, address, _ in links_of(map_at(viewer, long_)))
    assert [first, last] == [message_url(nodes[0].pk), message_url(nodes[-1].pk)]
    assert listed_at(viewer, folded) == [node.pk for node in reversed(nodes[1:-1])]


def test_a_retired_summary_is_drawn_and_told_as_such(viewer):
    session = start_session()
    nodes = chain(session, 6)
    summary = summarize(nodes[4], nodes[2], retired_at=timezone.now())
    response = viewer.get(page_of(session))
    assert any(name.startswith(f"Summary {summary.pk}, retired:") for name in names_of(response.context["map"]))
    assert 'class="compaction-map-bar compaction-map-retired"' in response.text.split("compaction-map-picture")[1]
    assert response.context["map"].table[0].summary == "none"


def test_the_table_says_the_same_as_the_picture(viewer):
    session, main, _, live, _ = forked()
    response = viewer.get(page_of(session))
    first, second = response.context["map"].table
    assert (first.name, first.forks_from, first.messages) == (
        link(message_url(main[-1].pk), "Branch 1"),
        "the start",
        6,
    )
    assert first.summary == link(message_url(live.pk), f"Summary {live.pk}")
    assert second.forks_from == link(message_url(main[3].pk), f"message {main[3].pk} (#4) of branch 1")
    assert (second.messages, second.tokens, second.summary) == (2, 60, "none")
    for row in (first, second):
        assert row.fullness in response.text


def test_each_lane_bears_the_number_by_which_the_table_names_it_in_the_order_of_the_keyboard(viewer):
    """Also where lanes share a row: both forks of the trunk stand in the one below it."""
    session = start_session()
    main = chain(session, 60)
    early, late = chain(session, 2, main[9]), chain(session, 2, main[49])
    response = viewer.get(page_of(session))
    shown = response.context["map"]
    assert [(lane.lane_id, lane.row) for lane in shown.picture.lanes] == [
        (main[0].pk, 0),
        (late[0].pk, 1),
        (early[0].pk, 1),
    ]
    svg = response.text[response.text.index('<svg class="compaction-map-picture"') :].split("</svg>")[0]
    drawn = re.findall(r'class="compaction-map-number">(\d+)<|aria-label="Tip of branch \d+: message (\d+)', svg)
    tips = [str(lane[-1].pk) for lane in (main, late, early)]
    assert [number or tip for number, tip in drawn] == [tips[0], "1", tips[1], "2", tips[2], "3"]
    names = ["Branch 1", "Branch 2", "Branch 3"]
    assert [row.name for row in shown.table] == [
        link(message_url(pk), name) for pk, name in zip(tips, names, strict=True)
    ]


def test_a_tip_over_its_threshold_says_so_in_words(viewer):
    session = start_session()
    chat.append_message(session, role="user", content=words(1000, "harbour"))
    response = viewer.get(page_of(session))
    budget = response.context["map"].budget
    assert f"over the threshold of {budget.threshold:,}" in names_of(response.context["map"])[0]
    assert re.search(r"\d+ % · over threshold</tspan>", response.text)
    full = chat.tips(session)[0].path_tokens * 100 // budget.available
    assert f"; {full} %: " in names_of(response.context["map"])[0]


def test_what_a_real_compaction_leaves_is_drawn(viewer, settings, transactional_db):
    session = chat.start_session()
    tip = chat.append_messages(session, None, [{"role": "user", "content": words(40, "harbour")} for _ in range(40)])[
        -1
    ]
    run = chat.compact(tip)
    shown = map_at(viewer, session)
    [bar] = shown.picture.bars
    assert (bar.summary_id, bar.last, bar.is_in_use) == (run.summary_id, run.cutoff.depth, True)
    history = chat.get_context(tip).history_tokens
    assert f"%: {history:,} of " in next(name for name in names_of(shown) if name.startswith("Tip"))
    assert f"compaction {run.generation}" in " ".join(names_of(shown))


# -- many lanes ---------------------------------------------------------------------------------------------


def test_the_newest_branches_are_shown_and_the_older_follow_page_by_page(viewer):
    """Each on one page; and on every page the lane that they leave."""
    root, *_ = star(session := start_session(), 150)
    shown, address, pages = set(), page_of(session), 0
    while address:
        response = viewer.get(address)
        here = {lane.lane_id for lane in response.context["map"].picture.lanes}
        assert root.pk in here
        assert not (shown & here) - {root.pk}
        shown |= here
        address = response.context["older_url"]
        pages += 1
        assert ("Newest branches" in response.text) == (pages > 1)
    assert pages == 3
    assert len(shown) == 150


def test_branches_are_numbered_on_from_page_to_page_and_a_heading_says_which_these_are(viewer):
    _, trunk, *_ = star(session := start_session(), 150)
    first = viewer.get(page_of(session))
    second = viewer.get(first.context["older_url"])
    third = viewer.get(second.context["older_url"])
    pages = [response.context["map"] for response in (first, second, third)]
    assert [shown.range for shown in pages] == [
        "Branches 1 to 60 of 150, newest first",
        "Branches 61 to 120 of 150, newest first",
        "Branches 121 to 150 of 150, newest first",
    ]
    numbers = [[lane.number for lane in shown.picture.lanes if lane.number] for shown in pages]
    assert numbers == [list(range(1, 61)), list(range(61, 121)), list(range(121, 151))]
    # The lane that all of them leave has its number on the last page.
    assert [row.name for row in pages[0].table if "An older" in row.name] == [
        link(message_url(trunk.pk), "An older branch")
    ]
    assert f"{pages[1].range}</h2>" in second.text


def test_more_branches_than_are_counted_are_said_to_be_more(viewer, monkeypatch):
    star(session := start_session(), 150)
    monkeypatch.setattr(branch_map, "MOST_COUNTED", 50)
    first = viewer.get(page_of(session))
    assert first.context["map"].range == "Branches 1 to 60 of more than 50, newest first"
    assert viewer.get(first.context["older_url"]).context["map"].range == "Branches beyond the newest 50"


def test_where_one_page_shows_all_branches_nothing_is_said_of_others(viewer):
    star(session := start_session(), 20)
    assert map_at(viewer, session).range == ""


def test_five_hundred_branches_of_one_message_are_a_page(viewer):
    session = start_session()
    star(session, 500)
    response = viewer.get(page_of(session))
    assert len(response.context["map"].lanes) == branch_map.LANES + 1
    assert "Older branches" in response.text
    assert figures(response) | {"Messages": "501", "Branches": "500", "Tokens stored": "5,010"} == figures(response)


@pytest.mark.parametrize("before", ["x", "", "-1", "0", "\x00", "1.5"])
def test_a_place_to_go_on_from_that_makes_no_sense_is_ignored(viewer, before):
    session = start_session()
    chain(session, 3)
    assert len(map_at(viewer, session, before=before).lanes) == 1


# -- what is folded -----------------------------------------------------------------------------------------


def stretches_of(branch_map):
    return [mark for lane in branch_map.picture.lanes for mark in lane.marks if mark.shape == Shape.STRETCH]


def test_what_is_folded_is_a_link_to_the_list_of_just_these_messages(viewer):
    session = start_session()
    main = chain(session, 400)
    side = chain(session, 300, main[99])
    linked = stretches_of(map_at(viewer, session))
    found = [(one.name, listed_at(viewer, one.url)) for one in linked]
    names = [
        "List 98 messages of branch 1, #2 to #99.",
        "List 299 messages of branch 1, #101 to #399.",
        "List 298 messages of branch 2, #102 to #399.",
    ]
    assert [name for name, _ in found] == names
    messages = [main[1:99], main[100:399], side[1:299]]
    assert [listed for _, listed in found] == [[node.pk for node in reversed(some)] for some in messages]


def test_what_is_not_drawn_is_counted_and_linked(viewer):
    session = start_session()
    main = chain(session, 60)
    for n in range(2, 58, 5):
        summarize(main[n], main[n - 1], retired_at=timezone.now())
    page = viewer.get(page_of(session))
    drawn = len(page.context["map"].picture.bars)
    assert 0 < drawn < 12
    listed_there = url("chatmessage_changelist", session=session.pk, kind="summary", state="retired")
    line = f'{12 - drawn} retired summaries are not drawn: <a href="{escape(listed_there)}">list them</a>.'
    assert line in page.text


def test_the_legend_says_what_every_number_and_every_shape_is(viewer):
    session = start_session()
    main = chain(session, 40)
    chain(session, 40, main[9])
    text = viewer.get(page_of(session)).text
    legend = text[text.index("compaction-map-legend") : text.index("compaction-map-box")]
    for words_ in ("position on the branch", "messages collapsed here", "the history at a tip", "threshold"):
        assert words_ in legend, words_
