"""benchmarks/evaluate: the same seed gives the same conversations, and its scores cannot be had for nothing."""

from __future__ import annotations

import pytest

from benchmarks.evaluate import baselines, domains_held_out, domains_tuned, planted, product, scores, traps
from benchmarks.evaluate.conversations import Claim, Conversation, Domain, content_words, fact_of, grow

pytestmark = pytest.mark.pure


def grown(domain: Domain = domains_tuned.HOUSE, seed: int = 1) -> Conversation:
    return grow(domain, seed, 6_000)


def scored(text: str, told: Conversation) -> tuple[float, float]:
    """Margin and share of whole statements."""
    found = scores.tell(scores.Shown(text, product.counter()), told.facts, grown(seed=2).facts)
    return scores.margin(found), scores.kept(found)


def transcript(told: Conversation) -> str:
    return "\n".join(f"{turn.role}: {turn.text}" for turn in told.turns)


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


def test_what_keeps_no_fact_scores_about_nothing() -> None:
    told = grown()
    assert scored("", told) == (0.0, 0.0)
    margin, kept = scored(" ".join(baselines.distinct_words(told.turns, 2_000)), told)
    assert (margin > 0.1, kept) == (True, 0.0), "words without statements"
    margin, kept = scored(transcript(grown(domains_tuned.PAYMENTS)), told)
    assert abs(margin) < 0.1, "another conversation"
    assert kept < 0.05


def test_an_answer_beside_another_subject_is_not_kept() -> None:
    fact = fact_of("number", "The <cellar> is [240 cm] high.", 0)
    assert fact.answer == {"240", "cm"}
    count = product.counter()
    assert scores.Shown("user: cellar 240 cm high", count).keeps(fact)
    assert scores.Shown("assistant: How high is the cellar?\nuser: 240 cm.", count).keeps(fact)
    assert not scores.Shown("user: The attic is 240 cm high · The cellar is damp", count).keeps(fact)
    assert not scores.Shown("cellar " + "and so on " * scores.LONGEST + "240 cm", count).keeps(fact)


def test_an_older_value_or_a_claim_misleads_without_what_corrects_it() -> None:
    def misleads(text: str, claim: Claim) -> bool | None:
        return scores.Shown(text, product.counter()).misleads(claim)

    changed, denied = grown().claims[0], Claim("1", "denial", "cellar is dry", "not true")
    assert misleads(changed.text.split(" >> ")[0], changed) is True
    assert misleads(changed.text, changed) is False
    assert misleads("Nothing was said.", changed) is None
    assert misleads("user: The cellar is dry.", denied) is True
    assert misleads("user: The cellar is dry (that is not true)", denied) is False


@pytest.mark.parametrize("set_", [planted.TUNED, planted.HELD_OUT])
def test_a_planted_trap_misleads_in_no_whole_conversation(set_: str) -> None:
    told, left = traps.plant(grown(), planted.TRAPS[set_]()[:20], 1)
    shown = scores.Shown(transcript(told), product.counter())
    misleads = [shown.misleads(claim) for claim in told.claims]
    assert len(misleads) + len(left) == 20
    assert misleads.count(False) >= 10
    assert True not in misleads


def test_what_denies_is_a_word_of_the_answer() -> None:
    assert content_words("Never push to main without asking, not even once") >= {"never", "without", "not"}
