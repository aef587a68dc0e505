"""What people read is translated: every text, with the same places to fill in, and compiled as it is written."""

import gettext
import io
import re

import pytest
from babel.messages.pofile import read_po
from django.utils import translation

from compaction_app import chat
from tests import catalog
from tests.admin.pages import log_in, page_of, url
from tests.trees import chain, start_session

PLACES = re.compile(r"\{\w*\}|%\(\w+\)s|<a href=[^>]*>|</?strong>|</?ins>|</?del>")


@pytest.fixture(params=catalog.CATALOGS, ids=lambda path: f"{path.parts[-5]}-{path.parts[-3]}")
def file(request):
    return request.param


@pytest.fixture
def language(file):
    return file.parts[-3]


@pytest.fixture
def found(file, language):
    """All messages but the header."""
    return [one for one in read_po(io.BytesIO(file.read_bytes()), locale=language) if one.id]


@pytest.mark.pure
def test_german_is_there_for_the_app_and_the_example():
    assert [path.parts[-3] for path in catalog.CATALOGS if path.parts[-3] == "de"] == ["de"] * len(catalog.ROOTS)


@pytest.mark.pure
def test_every_text_is_translated_and_no_other(file, found):
    """Else: make messages, and translate what is empty."""
    wanted = {catalog.text_of(message.id)[0] for message in catalog.collected(file.parents[3]) if message.id}
    assert {catalog.text_of(message.id)[0] for message in found} == wanted
    assert [one.id for one in found if one.fuzzy or not all(catalog.text_of(one.string))] == []


@pytest.mark.pure
def test_a_translation_has_the_places_and_the_markup_of_its_text(found):
    for message in found:
        for text in catalog.text_of(message.string):
            assert sorted(PLACES.findall(text)) == sorted(PLACES.findall(catalog.text_of(message.id)[-1])), message.id


@pytest.mark.pure
def test_what_is_compiled_is_what_is_written(file, found):
    with file.with_suffix(".mo").open("rb") as compiled_file:
        compiled = gettext.GNUTranslations(compiled_file)
    for message in found:
        if isinstance(message.id, tuple):
            assert (compiled.ngettext(*message.id, 1), compiled.ngettext(*message.id, 2)) == message.string
        else:
            assert compiled.gettext(message.id) == message.string


@pytest.mark.pure
def test_no_other_app_says_it_in_another_way(language, found):
    """Django puts the catalogs of all apps together, and the first has its way."""
    with translation.override(language):
        single = [one for one in found if isinstance(one.id, str)]
        assert {one.id: one.string for one in single if translation.gettext(one.id) != one.string} == {}


@pytest.mark.django_db
def test_the_admin_speaks_german(client, settings):
    settings.LANGUAGE_CODE, settings.COMPACTION = "de", {"CONTEXT_WINDOW": 200_000}
    tip = chain(start_session(), 3)[-1]
    viewer = log_in(client, "view_chatsession", "view_chatmessage", "compact_chatsession")
    page = viewer.get(page_of(tip.session)).text
    for text in ("Zweige</h2>", "3 Nachrichten", "Zuletzt benutzt", "Verdichten</a>", "200.000 Tokens"):
        assert text in page, text
    page = viewer.get(page_of(tip)).text
    assert "Was jetzt gesendet würde</h2>" in page
    assert f"Nachricht {tip.pk} (Benutzer)" in page
    listed = viewer.get(url("chatmessage_changelist")).text
    assert f">Nachricht {tip.pk}</a>" in listed
    assert chat.get_branch(tip)[0].kind == "message", "what is stored is not translated"
