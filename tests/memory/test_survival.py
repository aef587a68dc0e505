"""What survives five compactions in four conversations: a model that forgets half of everything, and the extracts."""

from __future__ import annotations

import html
import re

import pytest

from compaction_app.memory.sentences import split_sentences
from compaction_app.summarizers.prompts import LEDGER_NAME
from compaction_app.testing import steps
from compaction_app.testing.exchange import Body, content_text
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import ExactTokenCounter
from tests.memory.survival import Conversation, assert_survived, demo, generations_of, told_and_searched, written_blind
from tests.summarizers.summarizing import KEY, KEY_VARIABLE, entry

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = ExactTokenCounter()
GENERATIONS = 5
#: At this window a summary is asked for in 431 tokens, and a fifth of that holds six of the 57 plants. Summary, ledger
#: and tail have 2,875 tokens together.
LEDGER_TOKENS = 1200

#: What its user laid down in the first messages, and must be told as that user's in every generation.
RULES = (
    "Write plain prose, no bullet lists unless I ask for one",
    "Amounts always with VAT included",
    "never write to the county in my name",
)

_BLOCK = re.compile(r"<(user|assistant|previous-summary)[^>]*>(.*?)</\1>", re.DOTALL)
_ASKED = re.compile(r"(?:aim for|again in) about (\d+) tokens")


def forget_half(body: Body) -> str:
    """Every other sentence of what it is shown before the cutoff, word for word; the newest, as far as its target
    goes. It carries no ledger on."""
    _, material = (content_text(message["content"]) for message in body["messages"])
    before, _, _ = material.partition("<cutoff id=")
    sentences: list[str] = []
    for _, block in _BLOCK.findall(before):
        for line in html.unescape(block).partition(f"## {LEDGER_NAME}")[0].splitlines():
            if not line.startswith("#"):
                sentences += [sentence for sentence, _ in split_sentences(line)]
    kept: list[str] = []
    room = int(_ASKED.findall(material)[-1]) - 20
    for sentence in reversed(sentences[::2]):
        room -= COUNT([f"{sentence}. "])[0]
        if room < 0:
            break
        kept.append(f"{sentence}.")
    return "## Recap\n\n" + " ".join(reversed(kept))


def written_blind_of(clinic, **others):
    """Three conversations and the least that survives in each. What one of them shows the others show at length."""
    at_length = [pytest.param(*other, marks=pytest.mark.long) for other in others.items()]
    return pytest.mark.parametrize(("name", "least"), [("clinic", clinic), *at_length])


@pytest.fixture
def forgetful(settings, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with ScriptedOpenAIServer() as server:
        server.script(default=steps.reply_with(forget_half))
        settings.COMPACTION = {
            "CONTEXT_WINDOW": 4000,
            "LEDGER_TOKENS": LEDGER_TOKENS,
            "SUMMARIZERS": {"default": {"MODELS": [entry(server, "forgetful")]}},
            "COOLDOWN_SECONDS": 0,
        }
        yield server


@pytest.mark.long
def test_what_a_model_forgets_is_found_by_a_plain_search_five_compactions_deep(forgetful):
    session, found, context = told_and_searched(demo(), GENERATIONS)
    assert_survived(found, context, least=0.6, plants=50)
    *_, last = generations_of(session)
    kept = last.summary.ledger
    assert [rule for rule in RULES if rule not in kept] == []


@written_blind_of(clinic=0.66, pipeline=0.68, thesis=0.66)
@pytest.mark.long
def test_in_conversations_that_were_written_blind(forgetful, name, least):
    _, found, context = told_and_searched(written_blind(name), GENERATIONS)
    assert_survived(found, context, least=least, plants=25)


@pytest.mark.long
def test_each_generation_stores_how_much_survived_before_and_after_its_ledger(forgetful):
    session, _, _ = told_and_searched(demo(), 3)
    for run in generations_of(session):
        assert 0 <= run.retention_before < 0.5 < run.retention_after <= 1
        ledger = run.summary.ledger
        assert COUNT([f"## {LEDGER_NAME}\n{ledger}"])[0] <= LEDGER_TOKENS + 5
        # The model was shown the ledger of the one before, and its own text has none of it.
        assert LEDGER_NAME not in run.summary.content
    shown = content_text(forgetful.requests[-1]["messages"][1]["content"])
    assert f"## {LEDGER_NAME}" in shown


# -- without a model ---------------------------------------------------------------------------------------


def compacted(settings, told: Conversation, **changes):
    """A conversation, turn by turn until five summaries were made; what a search finds, and the context."""
    asked = {"MODE": "deterministic", "CONTEXT_WINDOW": 4000, "LEDGER_TOKENS": LEDGER_TOKENS}
    settings.COMPACTION = asked | changes
    return told_and_searched(told, GENERATIONS)


@pytest.mark.long
def test_what_still_holds_is_found_in_extracts_five_compactions_deep(settings):
    session, found, context = compacted(settings, demo())
    assert_survived(found, context, least=0.64, plants=45)
    assert [run.generation for run in generations_of(session)] == [1, 2, 3, 4, 5]


@written_blind_of(clinic=0.7, pipeline=0.78, thesis=0.66)
def test_extracts_of_conversations_that_were_written_blind(settings, name, least):
    _, found, context = compacted(settings, written_blind(name))
    assert_survived(found, context, least=least, plants=25)
