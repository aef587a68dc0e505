"""Every picture of the documentation says what the app says: ``make screenshots`` takes them anew."""

import re

import django
import pytest

from tests.docs import drawings
from tests.docs.pictures import DOCS, demo, own_words, pictures, words_in

#: Bytes of a picture.
MOST_BYTES = 200_000
#: What ``make bench`` draws.
OF_BENCH = {"read.svg", "turn.svg"}


@pytest.mark.appearance
@pytest.mark.skipif(django.VERSION[:2] != (5, 2), reason="the pictures are of Django 5.2's admin")
@pytest.mark.django_db(transaction=True)
def test_the_words_of_every_picture_are_those_of_the_pages(admin_client, admin_user) -> None:
    with demo(admin_user) as session:
        shown = pictures(session)
        now = {one.name: own_words(admin_client.get(one.address).content.decode(), one.parts) for one in shown}
    for picture in shown:
        assert words_in(picture.file.read_bytes()) == now[picture.name], f"{picture.name}: make screenshots"
        assert picture.file.stat().st_size < MOST_BYTES, picture.name
    texts = [page.read_text() for page in (DOCS.parent / "README.md", *DOCS.glob("*.md"))]
    used = {name for text in texts for name in re.findall(r"([\w-]+\.(?:png|svg))[)\"]", text)} - OF_BENCH
    assert used == {picture.file.name for picture in shown} | {f"{name}.svg" for name in drawings.DRAWN}


@pytest.mark.django_db
@pytest.mark.parametrize("name", drawings.DRAWN)
def test_a_drawing_is_that_of_the_code(name: str) -> None:
    """A room or a file that is not drawn, or a branch that is sent something else, is found here."""
    assert (DOCS / f"{name}.svg").read_text() == drawings.DRAWN[name](), "make screenshots"
