"""``try_summarizer``: what one small request to each model tells, and no more than a person may read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.management import CommandError

from compaction_app.summarizers.prompts import WRITING
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from project.embedded import free_port
from tests.small import asks
from tests.steps import small_window
from tests.transfer.bundling import run

pytestmark = [pytest.mark.django_db, pytest.mark.pure, pytest.mark.usefixtures("own_cache")]

KEY = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"
GOOD = (
    "## The allotment\n\nThe user plans plot 14 at Mill Lane and can be there on Saturdays only. Never suggest slug "
    "pellets: the dog eats everything. You left out brassicas until 2030, for the clubroot.\n\n## Open\n\nThe refund "
    "for the lid of the water butt; four bales of straw wait at Alder Cross for Hanneke Vos until 9 May."
)
USAGE = {"prompt_tokens": 1500, "completion_tokens": 100, "total_tokens": 1600}


@pytest.fixture
def asked(settings: Any, monkeypatch: pytest.MonkeyPatch, server: ScriptedOpenAIServer) -> Any:
    """Sets the default entry, of models at the server, by default one."""
    monkeypatch.setenv("HOUSE_KEY", KEY)

    def ask(*models: str, url: str = "", **entry: Any) -> None:
        places = [{"model": m, "base_url": url or server.url, "api_key_env": "HOUSE_KEY"} for m in models or ("house",)]
        settings.COMPACTION = asks(MODELS=places, **entry)

    return ask


def told(printed: str) -> dict[str, str]:
    return dict(re.findall(r"^  (\w[\w ]*?) {2,}(.+)$", printed, re.MULTILINE))


def test_a_good_model_is_measured(asked, server):
    asked()
    server.script([steps.late(0.5, steps.reply(GOOD, usage=USAGE))])
    printed, code = run("try_summarizer")
    lines = told(printed)
    assert printed.startswith(f"house at {server.url}\n")
    assert 0.5 <= float(lines["seconds"]) < 20
    ratio, ours = re.fullmatch(r"1,500, ([\d.]+) × the ([\d,]+) of our count", lines["tokens read"]).groups()
    assert float(ratio) == pytest.approx(1500 / int(ours.replace(",", "")), abs=0.01)
    speed = float(re.fullmatch(r"100, ([\d.]+) a second, reading included", lines["tokens written"])[1])
    assert speed == pytest.approx(100 / float(lines["seconds"]), rel=0.2)
    assert lines["verdict"] == "accepted"
    assert lines["window"] == "128,000, assumed: name it in MODELS"
    assert "  | ## The allotment" in printed
    assert KEY not in printed
    assert code == 0
    # 250 tokens a second as they are written; 108,000 to read at ten times that, and 20,000 to write.
    done, longest = 1500 / 10 + 100, 108_000 * float(ratio) / 10 + 20_000
    timeout = int(lines["TIMEOUT"].partition(" for its longest request")[0])
    assert timeout == pytest.approx(1.5 * float(lines["seconds"]) * longest / done, rel=0.25)


def test_it_sends_what_a_run_would_send_once(asked, server):
    asked(PROMPT="Write as a gardener would.")
    server.script([steps.reply(GOOD)])
    run("try_summarizer")
    [body] = server.requests
    assert body["messages"][0]["content"].startswith("Write as a gardener would.")
    assert "Hanneke Vos" in body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        pytest.param(steps.length(GOOD), "truncated, the summary was cut off", id="cut off"),
        pytest.param(
            steps.reply(f"## Summary\n\n{WRITING}"),
            "nothing_told, the summarizer repeated its instructions, or itself, or told nothing of the messages",
            id="repeats its instructions",
        ),
    ],
)
def test_a_draft_that_is_refused_is_shown_with_the_reason(asked, server, step, verdict):
    asked()
    server.script(default=step)
    printed, code = run("try_summarizer")
    assert told(printed)["verdict"] == f"refused: {verdict}"
    assert code == 1
    assert len(server.requests) == 1


def test_a_model_that_is_too_slow(asked, server):
    asked(TIMEOUT=60)
    server.script(default=steps.hang())
    printed, code = run("try_summarizer", "--timeout", "1")
    assert told(printed)["verdict"] == "refused: timeout, the summarizer took too long"
    assert told(printed)["detail"] == "house: timeout (no reply within 1 s)"
    assert "Try again with more time: --timeout 600." in printed
    assert "TIMEOUT" not in told(printed), "nothing was measured"
    assert code == 1
    server.wait_for_disconnects(1)


def test_a_key_that_is_wrong_and_a_server_that_is_not_there_are_told_without_the_key(asked, server):
    asked()
    server.script(default=steps.unauthorized())
    printed, code = run("try_summarizer")
    assert (told(printed)["verdict"], code) == (
        "refused: authentication, the API key is missing or was not accepted",
        1,
    )
    assert "HTTP 401 invalid_api_key" in told(printed)["detail"]
    port = free_port()
    asked(url=f"http://127.0.0.1:{port}/v1?key={KEY}")
    elsewhere, code = run("try_summarizer")
    assert elsewhere.startswith(f"house at http://127.0.0.1:{port}/v1\n")
    assert (told(elsewhere)["detail"], code) == ("house: provider_error (the connection failed)", 1)
    assert KEY not in printed + elsewhere


def test_a_window_is_named_or_known_or_learned(asked, server, settings):
    asked("house", "llama3:8b", "small")
    settings.COMPACTION |= {"MODELS": {"house": {"window": 16_384}}}
    server.script([steps.reply(GOOD)] * 2)
    server.script(model="small", default=small_window(1_200, then=steps.reply(GOOD)))
    printed, code = run("try_summarizer")
    found = re.findall(r"^  window +(.+)$", printed, re.MULTILINE)
    assert found == ["16,384", "8,192", "1,200, as the server said"]
    assert code == 1, "the third refused it"


class TestEntries:
    def test_another_entry_by_its_name_and_one_without_a_model(self, asked, server):
        asked()
        printed, code = run("try_summarizer", "extractive")
        assert printed.startswith("ExtractiveSummarizer\n")
        assert told(printed).keys() == {"seconds", "verdict"}
        assert code == 0
        assert server.requests == []

    def test_a_name_that_is_none_is_a_wrong_call(self, asked):
        asked()
        with pytest.raises(CommandError, match=r"SUMMARIZERS has .*extractive.*, and no 'local'") as caught:
            run("try_summarizer", "local")
        assert caught.value.returncode == 2
