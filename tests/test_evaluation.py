"""The benchmarks: conversations are what the app would have stored, traps what they say, scores not had for nothing."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command

from benchmarks.evaluate import __main__ as evaluate
from benchmarks.evaluate import (
    baselines,
    domains_held_out,
    domains_tuned,
    planted,
    product,
    real,
    report,
    scores,
    traps_held_out,
    traps_tuned,
)
from benchmarks.evaluate.cases import Case
from benchmarks.evaluate.conversations import Claim, Conversation, Domain, fact_of, grow
from benchmarks.evaluate.traps import Trap
from benchmarks.evaluate.traps import grow as grow_traps
from benchmarks.speed import pages, tables
from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from tests.some import some
from tests.steps import fill_target


def grown(domain: Domain = domains_tuned.HOUSE, seed: int = 1) -> Conversation:
    return grow(domain, seed, 6_000)


def scored(text: str, told: Conversation) -> tuple[float, float]:
    """Margin and share of whole statements."""
    found = scores.tell(scores.Shown(text, product.counter()), told.facts, grown(seed=2).facts)
    return scores.margin(found), scores.kept(found)


def transcript(told: Conversation) -> str:
    return "\n".join(f"{turn.role}: {turn.text}" for turn in told.turns)


@pytest.mark.pure
@pytest.mark.parametrize("domain", [*domains_tuned.DOMAINS, *domains_held_out.DOMAINS], ids=lambda domain: domain.name)
def test_of_a_whole_conversation_all_facts_are_found_and_nothing_misleads(domain: Domain) -> None:
    """The same seed gives the same conversation, and another one another."""
    told = grown(domain)
    assert told.turns == grown(domain).turns
    assert transcript(told) != transcript(grown(domain, seed=2))
    margin, kept = scored(transcript(told), told)
    shown = scores.Shown(transcript(told), product.counter())
    assert kept == 1.0
    assert margin > 0.3
    assert told.claims
    assert not any(shown.misleads(claim) for claim in told.claims)


@pytest.mark.pure
def test_what_keeps_no_fact_scores_about_nothing() -> None:
    told = grown()
    assert scored("", told) == (0.0, 0.0)
    margin, kept = scored(" ".join(baselines.distinct_words(told.turns, 2_000)), told)
    assert (margin > 0.1, kept) == (True, 0.0), "words without statements"
    margin, kept = scored(transcript(grown(domains_tuned.PAYMENTS)), told)
    assert abs(margin) < 0.1, "another conversation"
    assert kept < 0.05


@pytest.mark.pure
def test_an_answer_beside_another_subject_is_not_kept() -> None:
    fact = fact_of("number", "The <cellar> is [240 cm] high.", 0)
    assert fact.answer == {"240", "cm"}
    count = product.counter()
    assert scores.Shown("user: cellar 240 cm high", count).keeps(fact)
    assert scores.Shown("assistant: How high is the cellar?\nuser: 240 cm.", count).keeps(fact)
    assert not scores.Shown("user: The attic is 240 cm high · The cellar is damp", count).keeps(fact)
    assert not scores.Shown("cellar " + "and so on " * scores.LONGEST + "240 cm", count).keeps(fact)


@pytest.mark.pure
def test_an_older_value_or_a_claim_misleads_without_what_corrects_it() -> None:
    def misleads(text: str, claim: Claim) -> bool | None:
        return scores.Shown(text, product.counter()).misleads(claim)

    changed, denied = grown().claims[0], Claim("1", "denial", "cellar is dry", "not true")
    assert misleads(changed.text.split(" >> ")[0], changed) is True
    assert misleads(changed.text, changed) is False
    assert misleads("Nothing was said.", changed) is None
    assert misleads("user: The cellar is dry.", denied) is True
    assert misleads("user: The cellar is dry (that is not true)", denied) is False


@pytest.mark.django_db(transaction=True)
@pytest.mark.long
def test_a_model_is_asked_within_its_window_and_says_where_it_failed(
    server: ScriptedOpenAIServer, settings: Any
) -> None:
    window = 4_000
    entry = {"model": "tiny", "base_url": server.url}
    settings.COMPACTION = {"SUMMARIZERS": {"default": {"MODELS": [entry]}}, "MODELS": {"tiny": {"window": window}}}
    server.script(default=fill_target(0.9))
    told = grown()
    lines = product.next_prompt(product.MODEL_ALONE, told, 1_000, 1)
    assert product.size_of("\n".join(lines)) <= 1_000
    sizes = [product.size_of("".join(one["content"] for one in asked["messages"])) for asked in server.requests]
    assert len(sizes) > 1, "it takes more than one request to read all"
    assert max(sizes) < window
    server.script(default=steps.server_error())
    result = evaluate.run(Case("traps", product.MODEL, 0, 1_000, set=planted.HELD_OUT))
    assert "| model | failed: provider_error |" in report.tables([result], [])


@pytest.mark.pure
def test_what_the_readme_says_of_tuned_conversations_has_its_held_out_twin() -> None:
    page, readme = report.PAGE.read_text(), " ".join(report.README.read_text().split())
    cells = [cell for what in real.FILES for cell in real.measured_last(what).cells]
    assert len({cell.column for cell in cells}) == len(real.WINDOWS) + 2
    for row in ("extract", real.LIST):
        kept = [f"{cell.got:.0f}" for cell in cells if (cell.table, cell.row) == ("agents", row)]
        assert " / ".join(kept) in readme
    for column in dict.fromkeys(cell.column for cell in cells):
        assert column in page
        assert column.replace(planted.HELD_OUT, planted.TUNED) in page


Traps = Callable[[int], list[Trap]]
EACH: dict[str, Traps] = {
    "tuned": partial(grow_traps, "tuned", traps_tuned.TEMPLATES, traps_tuned.SYLLABLES),
    "held out": partial(grow_traps, "held-out", traps_held_out.TEMPLATES, traps_held_out.SYLLABLES),
}
each = pytest.mark.parametrize("traps", EACH.values(), ids=EACH)


@pytest.mark.pure
@each
@pytest.mark.parametrize("seed", some(range(3), 0))
def test_the_claim_misleads_alone_and_is_true_with_the_rest(traps: Traps, seed: int) -> None:
    for trap in traps(seed):
        assert re.search(trap.claim, trap.told), trap.id
        assert re.search(trap.kept_true_by, trap.told), trap.id
        assert re.search(trap.claim, trap.claim_text), trap.id
        assert not re.search(trap.kept_true_by, trap.claim_text), trap.id
        assert not re.search(trap.claim, trap.correction), trap.id


@pytest.mark.pure
@pytest.mark.long
@each
def test_no_trap_is_found_in_the_words_of_the_others(traps: Traps) -> None:
    texts = {trap.id: trap.told for trap in traps(0)}
    for trap in traps(0):
        others = "\n".join(text for name, text in texts.items() if name != trap.id)
        assert not re.search(trap.claim, others), trap.id
        assert not re.search(trap.kept_true_by, others), trap.id


@pytest.mark.django_db
@pytest.mark.parametrize("branches", [pytest.param(1, marks=pytest.mark.long), 5])
def test_a_grown_conversation_is_one(branches: int) -> None:
    tip = tables.grow(200, branches)
    assert len(chat.get_branch(tip)) == 200
    assert len(chat.tips(tip.session)) == branches
    assert len(chat.get_context(tip).messages) == 64
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.append_message(tip.session, tip, role="user", content="Next.").depth == 201
    assert len(chat.get_context(tables.grow(200, has_summary=False)).messages) == 200


@pytest.mark.django_db
@pytest.mark.long
def test_a_conversation_of_the_pages_is_one() -> None:
    tip = pages.fill(1_200)
    call_command("verify_chats", str(tip.session_id), verbosity=0)
    assert chat.find_summary(tip) is not None
    assert ChatMessage.objects.filter(session=tip.session_id, kind="message").count() == 1_200
    stored = tables.stored_bytes()
    assert stored["messages"] == ChatMessage.objects.count()
    assert stored["table_bytes"] > stored["text_bytes"] > 100_000
