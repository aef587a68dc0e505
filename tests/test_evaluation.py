"""benchmarks/evaluate: the same seed gives the same conversations, and its scores cannot be had for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
    traps,
)
from benchmarks.evaluate.cases import Case
from benchmarks.evaluate.conversations import Claim, Conversation, Domain, content_words, fact_of, grow
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
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


@pytest.mark.pure
@pytest.mark.parametrize("set_", [planted.TUNED, planted.HELD_OUT])
def test_a_planted_trap_misleads_in_no_whole_conversation(set_: str) -> None:
    told, left = traps.plant(grown(), planted.TRAPS[set_]()[:20], 1)
    shown = scores.Shown(transcript(told), product.counter())
    misleads = [shown.misleads(claim) for claim in told.claims]
    assert len(misleads) + len(left) == 20
    assert misleads.count(False) >= 10
    assert True not in misleads


@pytest.mark.pure
def test_what_denies_is_a_word_of_the_answer() -> None:
    assert content_words("Never push to main without asking, not even once") >= {"never", "without", "not"}


def a_run() -> list[dict[str, object]]:
    """An agent that is told a booking, reads about it, hears much else, and needs one of both for its last call."""

    def call(number: int, **arguments: str) -> dict[str, object]:
        function = {"name": "change_booking", "arguments": json.dumps(arguments)}
        return {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}

    talk = [{"role": role, "content": f"{'The weather is fine today. ' * 40}"} for role in ("user", "assistant")] * 12
    return [
        {"role": "system", "content": "You change bookings."},
        {"role": "user", "content": "My booking is QX7781, under kim_lee_4402."},
        call(1, booking="QX7781"),
        {"role": "tool", "tool_call_id": "call_1", "content": '{"seat": "31F", "voucher": "V-55120"}'},
        *talk,
        {"role": "user", "content": "Move it to gate B29-C please."},
        call(2, booking="QX7781", owner="kim_lee_4402", gate="B29-C", unheard="ZZ9999"),
        {"role": "tool", "tool_call_id": "call_2", "content": "done"},
    ]


@pytest.mark.django_db(transaction=True)
def test_of_what_the_next_call_needs_only_what_is_out_of_view_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / real.FILES["agents"]).write_text(json.dumps([{"messages": a_run()}]))
    monkeypatch.setenv("COMPACTION_TEST_DATA", str(tmp_path / "data"))
    real.stored.cache_clear()
    cells = real.agents(Case("agents", product.EXTRACT, 0, 4_000)).cells
    real.stored.cache_clear()
    kept = {cell.row: (cell.got, cell.of) for cell in cells}
    assert kept[real.LIST] == (2, 2), "neither the gate, which is in view, nor what nobody said"
    assert kept["tail"] == (0, 2)
    assert kept[product.EXTRACT][1] == 2


@pytest.mark.django_db(transaction=True)
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
