"""A session's page: its branch map, the numbers beside it, and compacting from there."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compaction_app import chat
from compaction_app.admin import maps, overview, sessions
from compaction_app.branch_map import EVERY_DEPTH
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from tests.trees import chain, deep_chain, star, start_session, summarize

pytestmark = pytest.mark.django_db

VIEW = ("view_chatsession", "view_chatmessage", "view_compactionrun", "view_compactionevent")
MARKUP = "</title></svg><script>alert(1)</script><b onclick='x()'>\"&amp;"
ARABIC = "مرحبا، كيف أغيّر كلمة المرور؟"


@pytest.fixture(autouse=True)
def window_of_4000(settings):
    settings.COMPACTION = {
        "CONTEXT_WINDOW": 4000,
        "SUMMARIZER": "compaction_app.summarizers.ExtractiveSummarizer",
    }


@pytest.fixture
def login(client):
    def log_in(*codenames):
        user = get_user_model().objects.create_user("staff", is_staff=True)
        found = Permission.objects.filter(content_type__app_label="compaction_app", codename__in=codenames)
        assert found.count() == len(codenames)
        user.user_permissions.set(found)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(login):
    """May see everything and do nothing."""
    return login(*VIEW)


@pytest.fixture
def operator(login):
    return login(*VIEW, "compact_chatsession")


def url(page, *arguments, **query):
    return reverse(f"admin:compaction_app_{page}", args=arguments, query=query or None)


def page_of(session, **query):
    return url("chatsession_change", session.pk, **query)


def message_url(pk):
    return url("chatmessage_change", pk)


def map_at(client, session, **query):
    response = client.get(page_of(session, **query))
    assert response.status_code == 200
    return response.context["map"]


def links_of(branch_map):
    """(what is drawn, its address, its name) of every mark and bar."""
    return [(linked.part, linked.url, linked.name) for lane in branch_map.lanes for linked in lane.bars + lane.marks]


def names_of(branch_map):
    return [name for _, _, name in links_of(branch_map)]


def figures(response):
    """Name → text of the numbers, without markup."""
    groups = response.context["figure_groups"]
    return {name: re.sub("<[^>]*>", "", str(value)) for _, found in groups for name, value in found}


def told(response):
    return re.sub("<[^>]*>", "", " ".join(str(message) for message in get_messages(response.wsgi_request)))


def words(count):
    return " ".join(f"harbour {n}" for n in range(count))


def forked():
    """Trunk of six, a fork of two below the fourth; a live summary in use on the trunk, and a retired one."""
    session = start_session(title="Harbour")
    main = chain(session, 6)
    side = chain(session, 2, main[3])
    live = summarize(main[4], main[2], content="What was agreed.")
    gone = summarize(main[5], main[4], retired_at=timezone.now())
    return session, main, side, live, gone


# -- the map ------------------------------------------------------------------------------------------------


def test_every_mark_is_a_link_to_its_message_or_its_summary(viewer):
    session, main, side, live, gone = forked()
    links = links_of(map_at(viewer, session))
    assert {address for _, address, _ in links} == {message_url(node.pk) for node in (*main, *side, live, gone)}
    for part, address, _ in links:
        assert address == message_url(getattr(part, "message_id", None) or part.summary_id)


def test_every_mark_says_what_it_is_and_how_its_message_begins(viewer):
    session, main, side, live, gone = forked()
    names = names_of(map_at(viewer, session))
    text = "“\u2068{}\u2069”"
    assert f"Beginning of branch 1: message {main[0].pk} (user). {text.format('m0')}" in names
    assert f"Message {main[3].pk} (user) of branch 1; 1 branch leaves here. {text.format('m3')}" in names
    assert f"Beginning of branch 2: message {side[0].pk} (user). {text.format('m0')}" in names
    assert f"Cutoff of summary {live.pk}: message {main[2].pk}. {text.format('m2')}" in names
    assert f"Anchor of summary {gone.pk}, retired: message {main[5].pk}. {text.format('m5')}" in names
    summary = f"Summary {live.pk}, in use: covers 3 messages up to message {main[2].pk}; {live.token_count} tokens"
    assert f"{summary}. {text.format('What was agreed.')}" in names
    available = viewer.get(page_of(session)).context["map"].shape.budget.available
    tip = f"Tip of branch 2: message {side[1].pk} (user); 60 of {available:,} available tokens (2 %)"
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
    assert len(text) == maps.TEXT
    assert text.startswith("word word")
    assert "\n" not in name


def test_markup_in_messages_and_titles_stays_text(viewer):
    session = start_session(title=MARKUP)
    chat.append_message(session, role="user", content=MARKUP)
    page = viewer.get(page_of(session)).text
    assert "<script>alert" not in page
    assert "<b onclick" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 3, "title, name and title of the mark"


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
    assert [row.forks_from for row in shown.table] == ["the beginning", "the beginning"]
    assert [row.messages for row in shown.table] == ["1", "3"]


def test_a_short_conversation_shows_every_message_and_a_long_one_its_ends(viewer):
    short, long_ = start_session(), start_session()
    chain(short, EVERY_DEPTH)
    nodes = chain(long_, EVERY_DEPTH + 1)
    assert len(links_of(map_at(viewer, short))) == EVERY_DEPTH
    assert [address for _, address, _ in links_of(map_at(viewer, long_))] == [
        message_url(nodes[0].pk),
        message_url(nodes[-1].pk),
    ]


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
    assert (first.name, first.url, first.forks_from, first.messages) == (
        "Branch 1",
        message_url(main[-1].pk),
        "the beginning",
        "6",
    )
    assert (first.summary, first.summary_url) == (f"Summary {live.pk}", message_url(live.pk))
    assert (second.forks_from, second.forks_from_url) == (
        f"message {main[3].pk} of branch 1",
        message_url(main[3].pk),
    )
    assert (second.messages, second.tokens, second.summary) == ("2", "60", "none")
    for row in (first, second):
        assert row.fullness in response.text


def test_each_lane_bears_the_number_by_which_the_table_names_it_in_the_order_of_the_keyboard(viewer):
    """Also where lanes share a row: both forks of the trunk stand in the one below it."""
    session = start_session()
    main = chain(session, 60)
    early, late = chain(session, 2, main[9]), chain(session, 2, main[49])
    response = viewer.get(page_of(session))
    shown = response.context["map"]
    assert [(drawn.lane.lane_id, drawn.lane.row) for drawn in shown.lanes] == [
        (main[0].pk, 0),
        (late[0].pk, 1),
        (early[0].pk, 1),
    ]
    svg = response.text[response.text.index('<svg class="compaction-map-picture"') :].split("</svg>")[0]
    drawn = re.findall(r'class="compaction-map-number">(\d+)<|aria-label="Tip of branch \d+: message (\d+)', svg)
    tips = [str(lane[-1].pk) for lane in (main, late, early)]
    assert [number or tip for number, tip in drawn] == [tips[0], "1", tips[1], "2", tips[2], "3"]
    assert [row.url for row in shown.table] == [message_url(pk) for pk in tips]
    assert [row.name for row in shown.table] == ["Branch 1", "Branch 2", "Branch 3"]


def test_a_tip_over_its_threshold_says_so_in_words(viewer):
    session = start_session()
    chat.append_message(session, role="user", content=words(1000))
    response = viewer.get(page_of(session))
    budget = response.context["map"].shape.budget
    assert f"over the threshold of {budget.threshold:,}" in names_of(response.context["map"])[0]
    assert re.search(r"\d+ % over</tspan>", response.text)


def test_what_a_real_compaction_leaves_is_drawn(viewer, settings, transactional_db):
    session = chat.start_session()
    tip = chat.append_messages(session, None, [{"role": "user", "content": words(40)} for _ in range(40)])[-1]
    run = chat.compact(tip)
    shown = map_at(viewer, session)
    [bar] = [part for part, _, _ in links_of(shown) if hasattr(part, "summary_ids") and hasattr(part, "x1")]
    assert (bar.summary_id, bar.last, bar.is_in_use) == (run.summary_id, run.cutoff.depth, True)
    history = chat.get_context(tip).history_tokens
    assert f"; {history:,} of " in next(name for name in names_of(shown) if name.startswith("Tip"))
    assert f"generation {run.generation}" in " ".join(names_of(shown))


# -- many lanes ---------------------------------------------------------------------------------------------


def test_the_newest_branches_are_shown_and_the_older_follow_page_by_page(viewer):
    """Each on one page; and on every page the lane that they leave."""
    root, *_ = star(session := start_session(), 150)
    shown, address, pages = set(), page_of(session), 0
    while address:
        response = viewer.get(address)
        here = {drawn.lane.lane_id for drawn in response.context["map"].lanes}
        assert root.pk in here
        assert not (shown & here) - {root.pk}
        shown |= here
        address = response.context["older_url"]
        pages += 1
        assert ("Newest branches" in response.text) == (pages > 1)
    assert pages == 3
    assert len(shown) == 150


def test_five_hundred_branches_of_one_message_are_a_page(viewer):
    session = start_session()
    star(session, 500)
    response = viewer.get(page_of(session))
    assert len(response.context["map"].lanes) == maps.LANES + 1
    assert "Older branches" in response.text
    assert figures(response) | {"Messages": "501", "Branches": "500", "Tokens stored": "5,010"} == figures(response)


@pytest.mark.parametrize("before", ["x", "", "-1", "9" * 40, "0", "\x00", "1.5"])
def test_a_place_to_go_on_from_that_makes_no_sense_is_ignored(viewer, before):
    session = start_session()
    chain(session, 3)
    assert len(map_at(viewer, session, before=before).lanes) == 1


# -- the numbers --------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_tables(viewer):
    session, _, _, live, _ = forked()
    stored = session.messages.filter(kind="message").aggregate(tokens=Sum("token_count"))["tokens"]
    run = CompactionRun.objects.create(
        session=session,
        trigger="manual",
        status="succeeded",
        generation=1,
        summary=live,
        input_tokens=1200,
        output_tokens=300,
        cached_tokens=200,
        cost="0.01250000",
    )
    CompactionRun.objects.create(session=session, trigger="manual", status="failed", input_tokens=10, output_tokens=1)
    CompactionEvent.objects.create(session=session, run=run, kind="completed")
    response = viewer.get(page_of(session))
    expected = {
        "Messages": "8",
        "Branches": "2",
        "Tokens stored": f"{stored}",
        "Summaries": "1 live · 1 retired",
        "Runs": "1 succeeded · 1 failed",
        "Events": "1",
        "Tokens spent": "1,210 in, 200 of them cached, 301 out, by 2 runs",
        "Cost": "0.0125, without 1 run",
    }
    assert figures(response) | expected == figures(response)
    budget = response.context["map"].shape.budget
    for name, value in (("Window", 4000), ("Threshold", budget.threshold), ("Target", budget.target)):
        assert figures(response)[name] == f"{value:,}"


def test_the_calibration_in_force_is_the_models(viewer):
    session = start_session(model="some-model", token_calibration={"some-model": 1.25, "another": 0.9})
    response = viewer.get(page_of(session))
    assert figures(response)["Calibration"] == "× 1.25"
    assert figures(response)["Available"] == f"{int(3000 / 1.25):,}"


def test_numbers_lead_to_what_they_count(viewer):
    session, *_ = forked()
    CompactionRun.objects.create(session=session, trigger="manual", status="failed")
    page = viewer.get(page_of(session)).text.replace("&amp;", "&")
    for link in (
        url("chatmessage_changelist", session=session.pk),
        url("chatmessage_changelist", session=session.pk, place="tip"),
        url("chatmessage_changelist", kind="summary", session=session.pk, state="retired"),
        url("compactionrun_changelist", session=session.pk, status__exact="failed"),
        url("compactionevent_changelist", session=session.pk),
    ):
        assert f'href="{link}"' in page, link


def test_what_can_not_be_counted_at_a_constant_price_says_so(viewer, monkeypatch):
    monkeypatch.setattr(overview, "BOUND", 70)
    monkeypatch.setattr(overview, "RUNS", 60)
    monkeypatch.setattr(overview, "SUMMARIES", 2)
    monkeypatch.setattr(maps, "SUMMARIES", 2)
    session = start_session()
    star(session, 80)
    node = session.messages.get(parent=None)
    for child in session.messages.filter(parent=node)[:3]:
        summarize(child, node)
    CompactionRun.objects.bulk_create(
        CompactionRun(session=session, trigger="manual", status="failed", tip=node) for _ in range(72)
    )
    found = figures(viewer.get(page_of(session)))
    assert (found["Messages"], found["Tokens stored"]) == ("more than 70", "at least 710")
    assert found["Runs"] == "60 failed of the newest 60"
    assert found["Summaries"] == "2 live · 0 retired of the newest 2"


@pytest.mark.parametrize("overrides", [{"NO_SUCH_KEY": 1}, {"CONTEXT_WINDOW": 10, "RESERVED_TOKENS": 0}])
def test_settings_that_can_not_be_used_are_told_and_the_map_is_there(viewer, overrides):
    session = start_session(system_prompt=words(50))
    chain(session, 3)
    ChatSession.objects.filter(pk=session.pk).update(settings=overrides)
    response = viewer.get(page_of(session))
    assert response.status_code == 200
    assert "errornote" in response.text
    assert response.context["map"].table[0].fullness == "30 tokens"
    assert "compaction-map-gauge" not in response.text
    assert figures(response)["Tokens stored"] == "30"


# -- constant work ------------------------------------------------------------------------------------------


def queries_of(client, session):
    # Kept by Django from the first page on.
    ContentType.objects.get_for_models(ChatSession, ChatMessage, CompactionRun, CompactionEvent)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page_of(session)).status_code == 200
    return [query["sql"] for query in queries]


def lanes_of(count):
    session = start_session()
    nodes = chain(session, 4)
    for number in range(count - 1):
        chain(session, 2, nodes[number % 3])
    summarize(nodes[3], nodes[1])
    return session


def test_the_page_takes_the_same_few_queries_at_any_length_and_with_many_branches(viewer):
    short = chain(start_session(), 20)[0].session
    long_ = deep_chain(start_session(), 2000)[0].session
    # The login's and the permissions' among them, and those of the warnings.
    counts = [len(queries_of(viewer, session)) for session in (short, long_, lanes_of(5), lanes_of(50))]
    assert len(set(counts)) == 1
    assert counts[0] <= 15


def test_more_branches_than_one_page_take_four_queries_more(viewer):
    """The lane that most of them leave, and bounded counts of what follows from the lanes otherwise."""
    few, many = start_session(), start_session()
    chain(few, 3)
    star(many, 300)
    assert len(queries_of(viewer, many)) == len(queries_of(viewer, few)) + 4


def test_texts_are_read_once_for_what_is_drawn_and_only_their_beginnings(viewer):
    session = deep_chain(start_session(), 2000)[0].session
    reading = [sql for sql in queries_of(viewer, session) if '"content"' in sql]
    assert len(reading) == 1
    assert re.search(r'(SUBSTR|LEFT)\("compaction_app_chatmessage"."content"', reading[0])
    assert len(viewer.get(page_of(session)).context["map"].shape.beginnings) == 2


# -- compacting ---------------------------------------------------------------------------------------------


def branched(turns=12):
    """A session with two branches, both over their threshold."""
    session = chat.start_session(title="Harbour")
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n}: {words(60)}"} for n in range(2 * turns)]
    trunk = chat.append_messages(session, None, messages)
    side = chat.append_messages(session, trunk[-4], messages[1:4])
    return session, trunk[-1], side[-1]


def test_only_those_who_may_compact_see_the_form(viewer, client):
    session, *_ = forked()
    assert "compaction-now" not in viewer.get(page_of(session)).text
    client.force_login(get_user_model().objects.create_superuser("root"))
    page = client.get(page_of(session)).text
    assert f'action="{url("chatsession_compact", session.pk)}"' in page
    assert 'maxlength="2000"' in page
    # A form within the page's own would be none: the field and the button name theirs, which stands behind it.
    assert page.count('form="compaction-now"') == 2
    assert page.index('id="compaction-now"') > page.index("</form>", page.index('id="chatsession_form"'))


def test_while_settings_are_to_be_corrected_the_page_begins_with_what_is_wrong(client):
    session, *_ = forked()
    client.force_login(get_user_model().objects.create_superuser("root"))
    page = client.post(page_of(session), {"title": "x", "settings": '{"NO_SUCH_KEY": 1}'}).text
    assert "errorlist" in page
    assert "compaction-map" not in page.split("<body")[1]


@pytest.mark.django_db(transaction=True)
def test_compacting_with_instructions_opens_a_run_for_each_branch_and_tells_which(operator):
    session, tip, side = branched()
    response = operator.post(url("chatsession_compact", session.pk), {"instructions": "Keep the prices."})
    assert response.headers["Location"] == page_of(session)
    runs = session.runs.order_by("id")
    assert {run.tip_id for run in runs} == {tip.pk, side.pk}
    assert {(run.trigger, run.status, run.instructions) for run in runs} == {("manual", "ready", "Keep the prices.")}
    assert told(response) == f"Started in the background: {', '.join(f'Run {run.pk}' for run in runs)}."


@pytest.mark.django_db(transaction=True)
def test_compacting_without_instructions_brings_every_branch_to_rest(operator, broker):
    session, *_ = branched(2)
    response = operator.post(url("chatsession_compact", session.pk), {"instructions": ""})
    assert "Every branch is being compacted in the background in 1 session: Harbour." in told(response)
    assert session.runs.count() == 0


@pytest.mark.django_db(transaction=True)
def test_of_very_many_branches_the_newest_are_asked_for(operator, monkeypatch):
    """Where the broker is away each of them waits for its time-out."""
    monkeypatch.setattr(sessions, "MOST_WITH_INSTRUCTIONS", 2)
    session, _, side = branched()
    for _ in range(2):
        newest = chat.append_message(session, side, role="user", content=words(200))
    response = operator.post(url("chatsession_compact", session.pk), {"instructions": "Keep the prices."})
    assert session.runs.filter(tip=newest).exists()
    assert session.runs.count() == 2
    assert "Only the newest 2 branches were asked for." in told(response)


def test_instructions_that_are_too_long_are_asked_for_again(operator):
    session, *_ = branched(2)
    page = operator.post(url("chatsession_compact", session.pk), {"instructions": "x" * 2001})
    assert page.status_code == 200
    assert "errorlist" in page.text
    assert session.runs.count() == 0


# -- the list -----------------------------------------------------------------------------------------------


def listed(client, **query):
    return [row.pk for row in client.get(url("chatsession_changelist", **query)).context["cl"].result_list]


def test_sessions_are_found_by_the_whole_name_of_their_owner(viewer):
    owner, other = (get_user_model().objects.create_user(name) for name in ("ada", "adam"))
    session = start_session(owner=owner)
    start_session(owner=other)
    start_session()
    assert listed(viewer, q="ada") == [session.pk]
    assert listed(viewer, q="ad") == []


def test_sessions_are_filtered_by_when_they_were_last_used(viewer):
    old, new = start_session(), start_session()
    ChatSession.objects.filter(pk=old.pk).update(updated_at=timezone.now() - timedelta(days=40))
    since = (timezone.now() - timedelta(days=7)).isoformat()
    assert listed(viewer, updated_at__gte=since) == [new.pk]
    assert "By updated at" in viewer.get(url("chatsession_changelist")).text
