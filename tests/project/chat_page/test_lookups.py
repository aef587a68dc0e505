"""What was looked up for a reply is shown at it, and pins have a list; both link each message where it stands."""

import re

import pytest
from django.urls import reverse

from compaction_app import chat
from project.chat.shown import PAGE_SIZE
from project.chat.turns import LOOKED_UP
from tests.project.chat_page.pages import grow, newest, send, text_of, url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("endpoint")]


#: Before what a message is looked up for: its beginning alone does not tell why it was.
LONG = "It rained again. " * 12


@pytest.fixture
def known(session):
    """The tip of a branch whose summary does not tell the keeper's name."""
    asked = chat.append_message(session, None, role="user", content=f"{LONG}The keeper is <b>Ottilie</b> Brandt.")
    tip = grow(session, 20, parent=asked, content="Tell me about the roof and the boat. " * 8)
    chat.compact(tip)
    return tip


def test_a_reply_links_what_was_looked_up_for_it(browser, session, known, endpoint):
    first = chat.get_branch(known)[0]
    page = text_of(browser.get(send(browser, session, "Who is Ottilie?", parent=known).url))
    assert "Ottilie</b> Brandt" in str(endpoint.requests[-1]), "the model was sent it"
    reply = newest(session)
    listed = page[page.index(f'id="m{reply.pk}"') :]
    assert "Looked up: 1 earlier message<" in listed
    link = f"{url('branch', session, reply)}?end={1 + PAGE_SIZE // 2}#m{first.pk}"
    assert f'<a href="{link}">Message 1</a>' in listed
    assert "The keeper is &lt;b&gt;Ottilie&lt;/b&gt; Brandt." in listed
    assert f'id="m{first.pk}"' in text_of(browser.get(link))
    assert reply.parent.metadata[LOOKED_UP] == [[first.pk, 1]]
    # Of what is erased since, nothing is left here.
    chat.redact_message(first)
    page = text_of(browser.get(url("session", session)))
    assert "Looked up" in page
    assert "Ottilie" not in page.replace("Who is Ottilie?", "")
    send(browser, session, "And the tides?", parent=reply)
    assert LOOKED_UP not in newest(session).parent.metadata


def test_pins_of_the_branch_are_listed_wherever_they_stand(browser, session, known):
    first = chat.get_branch(known)[0]
    other = chat.append_message(session, first, role="assistant", content="Elsewhere")
    for one in (first, other):
        chat.pin_message(one)
    page = text_of(browser.get(url("branch", session, known)))
    gauge = page[page.index('id="fullness"') : page.index("<main")]
    assert re.findall(r">Message (\d+)</a>", gauge) == ["1"]
    assert "Elsewhere" not in gauge
    answer = browser.post(reverse("chat:pin", args=[session.pk, first.pk]), {"tip": known.pk})
    assert 'id="pins"' not in text_of(browser.get(answer.url))
