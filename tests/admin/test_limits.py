"""Figures that add up: where each limit comes from, and none of them where compaction is off."""

import re

import pytest

from compaction_app import chat
from tests.admin.pages import figures_of, page_of
from tests.admin.records import conversation, summarized, talk
from tests.trees import chain, start_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("window_of_4000")]


def here(client, message):
    return figures_of(client.get(page_of(message)).text, "compaction-context")


def test_a_sessions_page_says_what_is_reserved_and_what_the_limits_are_divided_by(viewer, settings):
    settings.COMPACTION |= {"RESERVED_TOKENS": 200}
    session = start_session(system_prompt="Answer like a pilot.", model="m", token_calibration={"m": 0.8131})
    prompt = chat.get_context(chain(session, 2)[-1]).messages[0].tokens
    found = figures_of(viewer.get(page_of(session)).text)
    assert found["Reserved"] == f"{200 + prompt} ({prompt} of them for the system prompt)"
    assert found["Token counts corrected by"] == "× 0.8131"
    assert found["Available"] == f"{int((4000 - 200 - prompt) / 0.8131):,}"


def test_the_strategy_says_whether_there_is_a_summary(viewer):
    nodes, _ = summarized()
    assert here(viewer, nodes[-1])["Strategy"] == "A summary is used"
    _, tip = conversation(turns=6)
    assert here(viewer, tip)["Strategy"] == "A summary is needed; there is none yet"


def test_a_context_that_does_not_fit_says_how_to_go_on(viewer):
    tip = talk(start_session(), ["word " * 6000])[-1]
    problem = viewer.get(page_of(tip)).context["table"].problem
    assert re.match(r"The newest user message and the last group alone take \d,\d{3} tokens; 3,000 are", problem)
    assert "redact the message that is too long" in problem


@pytest.fixture
def off():
    """Over its threshold, if there were one."""
    return conversation(settings={"MODE": "off"})


def test_a_messages_page_says_that_compaction_is_off_and_leaves_away_what_does_not_apply(operator, off):
    _, tip = off
    page = operator.get(page_of(tip))
    found = page.context["table"]
    assert found.notes[0].startswith("Compaction is off in this session (MODE)")
    assert not {"Threshold", "Target"} & set(figures_of(page.text))
    assert "over the threshold" not in page.text
    assert "Compact now" not in page.text
    assert " high=" not in page.text


def test_a_sessions_page_says_it_too(operator, off):
    session, _ = off
    page = operator.get(page_of(session)).text
    assert "Compaction is off in this session (MODE)" in page
    found = figures_of(page)
    assert found["Mode"] == "off: nothing is compacted, pruned or left out"
    assert not {"Threshold", "Target"} & set(found)
    assert "over the threshold" not in page
    assert "Compact every branch" not in page


def test_a_branch_that_does_not_fit_although_compaction_is_off_is_said_to_be_over_what_fits(viewer):
    session, _ = conversation(turns=40, settings={"MODE": "off"})
    assert ">Over what fits<" in viewer.get(page_of(session)).text
