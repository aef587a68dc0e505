"""What is known of a model by its name, in the ways in which people and routers write it, and by its errors.

``overflows.json`` has errors as they are sent, with the status and the body that a client hands on: overflows with the
window and the tokens sent that they name, what is none though it speaks of lengths, limits or windows, and what a reply
of 20,000 tokens may have instead.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import override_settings

from compaction_app.conf import Price, get_settings
from compaction_app.context.budget import window_of, window_or_default
from compaction_app.context.catalog import known_price, known_window
from compaction_app.context.overflow import Overflow, find_output_limit, find_overflow

pytestmark = pytest.mark.pure

#: Sources: the makers' model pages. By window, because that is how they are checked.
WINDOWS = {
    4_096: "meta-llama/Llama-2-70b-chat-hf phi3:mini",
    8_192: "gpt-4 openai/gpt-4 gpt-4-0613 llama3:70b meta-llama/Meta-Llama-3-8B-Instruct gemma2:9b moonshot-v1-8k",
    16_385: "gpt-3.5-turbo gpt-3.5-turbo-0125 openai/gpt-3.5-turbo-16k",
    32_768: "gpt-4-32k mistral:7b mistralai/Mixtral-8x7B-Instruct-v0.1 gemini-pro qwen2.5:14b",
    65_536: "mistralai/mixtral-8x22b-instruct",
    128_000: """gpt-4o GPT-4o gpt-4o-2024-08-06 azure/gpt-4o-mini azure/eu/gpt-4o-2024-11-20 gpt-4-turbo
        gpt-4-0125-preview ft:gpt-4o-mini-2024-07-18:org::id chatgpt-4o-latest o1-mini gpt-4o-mini-eu
        cohere/command-r-plus-08-2024 sonar""",
    131_072: """llama3.1:8b groq/llama-3.3-70b-versatile meta.llama3-1-70b-instruct-v1:0
        accounts/fireworks/models/llama-v3p1-8b-instruct /srv/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf
        C:\\models\\Llama-3.2-3B-Instruct.gguf deepseek-chat deepseek/deepseek-r1:free deepseek-ai/DeepSeek-V3
        mistral-small-latest mistral-large-2411 open-mistral-nemo grok-3 x-ai/grok-3-mini gpt-oss-120b
        openai/gpt-oss-20b:free kimi-k2 glm-4.5 google/gemma-3-27b-it magistral-medium-latest
        moonshot-v1-128k phi-3-mini-128k-instruct gemma4:e4b google/gemma-4-E2B-it""",
    40_960: "qwen3:8b Qwen/Qwen3-32B magistral-small-2506",
    200_000: """o1 o3 openai/o3-mini o4-mini claude-3-haiku-20240307 claude-3-5-sonnet-latest claude-sonnet-4-5
        anthropic/claude-sonnet-4.5 openrouter/anthropic/claude-sonnet-4.5 vertex_ai/claude-sonnet-4@20250514
        bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0 anthropic.claude-3-5-sonnet-20241022-v2:0
        arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0
        claude-opus-4-5 glm-4.6 z-ai/glm-4.7""",
    256_000: "grok-4 grok-4-0709 codestral-latest command-a-03-2025",
    262_144: """kimi-k2-0905-preview moonshotai/kimi-k2.5 qwen3-max qwen/qwen3-coder:free mistral-large-latest
        Qwen/Qwen3-235B-A22B-Thinking-2507 qwen/qwen3-30b-a3b-instruct-2507 google/gemma-4-31b-it qwen3.6-35b-a3b
        mistral-medium-3.5""",
    300_000: "amazon.nova-pro-v1:0 us.amazon.nova-lite-v1:0",
    400_000: "gpt-5 gpt-5-mini openai/gpt-5.1 gpt-5.2-2025-12-11 gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano",
    1_000_000: "claude-opus-4-6 anthropic/claude-sonnet-4.6 us.anthropic.claude-opus-4-7 deepseek-v4-flash qwen-turbo",
    1_047_576: "gpt-4.1 gpt-4.1-mini-2025-04-14",
    1_048_576: """gemini-2.5-pro models/gemini-2.5-flash google/gemini-2.5-flash-lite gemini/gemini-3-pro-preview
        gemini-3.1-pro-preview vertex_ai/gemini-2.0-flash-001 meta-llama/llama-4-maverick""",
    1_050_000: "gpt-5.4 openai/gpt-5.4-2026-03-05",
    2_000_000: "grok-4-fast x-ai/grok-4.1-fast",
    10_485_760: "meta-llama/Llama-4-Scout-17B-16E-Instruct",
}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_model_has_the_window_that_its_maker_states(window):
    """openinterpreter/openinterpreter#590, QwenLM/qwen-code#5950."""
    names = WINDOWS[window].split()
    assert {name: known_window(name) for name in names} == dict.fromkeys(names, window)


@pytest.mark.parametrize("name", ["", "house-model", "my-gpt-4o", "azure/prod", "gpt", "////", "ft:", "x-" * 50_000])
def test_an_unknown_name_is_not_guessed(name):
    assert known_window(name) is None


def test_an_unknown_name_is_logged_once_with_what_is_assumed(caplog):
    settings = get_settings({})
    with caplog.at_level("INFO", logger="compaction_app.budget"):
        assert [window_or_default("nobodys-own-model", settings) for _ in range(3)] == [128_000] * 3
    assert caplog.text.count("model=nobodys-own-model tokens=128000 reason=unknown_model") == 1


def test_the_hosts_table_is_above_all_on_the_name_as_written_and_as_read():
    windows = {"gpt-4": 5_000, "azure/": 6_000, "gpt-4o": 7_000}
    with override_settings(COMPACTION={"MODELS": {model: {"window": n} for model, n in windows.items()}}):
        settings = get_settings()
        asked = ("gpt-4", "openai/gpt-4-0613", "azure/prod", "openrouter/openai/GPT-4o", "o3")
        assert [window_of(name, settings) for name in asked] == [5_000, 5_000, 6_000, 7_000, 200_000]


def test_what_a_provider_said_is_below_the_host_unless_it_is_less_and_above_what_is_known():
    with override_settings(COMPACTION={"MODELS": {"house": {"window": 50_000}}}):
        settings = get_settings()
        assert [window_of("house", settings, learned) for learned in (None, 8_192, 100_000)] == [50_000, 8_192, 50_000]
        assert [window_of("gpt-4o", settings, learned) for learned in (8_192, 200_000)] == [8_192, 200_000]


def test_a_price_that_depends_on_more_than_the_name_is_unknown():
    assert known_price("openai/gpt-4o-2024-11-20") == Price(input=2.5, cached=1.25, output=10)
    assert known_price("house-model") is known_price("gpt-5.4") is None


def test_the_data_is_imported_when_a_name_is_asked_for():
    code = "import compaction_app.context.budget, sys; print('genai_prices' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


CASES = json.loads(Path(__file__).with_name("overflows.json").read_text())


@pytest.mark.parametrize("case", CASES["overflows"])
def test_an_overflow_is_known_whoever_reports_it(case):
    """earendil-works/pi#4943, anthropics/claude-code#760, anomalyco/opencode#2464, TheR1D/shell_gpt#653."""
    expected = Overflow(case["window"], case["sent"], case.get("is_rate", False))
    assert find_overflow(case["status"], case["body"]) == expected


@pytest.mark.parametrize("case", CASES["others"])
def test_what_is_none_is_not_taken_for_one(case):
    """gethnet/litellm-connector-copilot#30."""
    assert find_overflow(case["status"], case["body"]) is None


@pytest.mark.parametrize("case", CASES["replies"])
def test_the_longest_reply_is_read_or_halved(case):
    """Aider-AI/aider#4125."""
    assert find_output_limit(400, case["body"], 20_000) == case["limit"]


@pytest.mark.parametrize(
    "body", [None, 5, True, [], {}, [[[[[[[[[[]]]]]]]]]], {"error": None}, {"message": {"message": 5}}, "[" * 39_000]
)
def test_a_body_of_any_shape_is_read(body):
    assert find_overflow(400, body) is None
    assert find_output_limit(400, body, 9_000) is None
