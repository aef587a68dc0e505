"""Settings: every key has a rule, an id of its own and a default that passes; each problem is found."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from compaction_app import conf
from compaction_app.conf import (
    DEFAULTS,
    PRESETS,
    RULES,
    SITE_ONLY,
    Lookahead,
    Mode,
    Problem,
    PruneWhen,
    ReasoningRule,
    Settings,
    find_problems,
    get_settings,
    settings_from_snapshot,
    site_setting,
)
from compaction_app.exceptions import ConfigurationError

pytestmark = pytest.mark.pure

NAN, INFINITY, HUGE = math.nan, math.inf, 10**400

#: By their ids, from 100 on. Hosts name these in SILENCED_SYSTEM_CHECKS: a number is never given to another key.
_KEYS = """
    MODE TRIGGER_RATIO RECENT_MESSAGES_RATIO PRUNE_TOOL_RESULT_BYTES TARGET_RATIO CONTEXT_WINDOW CONTEXT_WINDOWS
    DEFAULT_CONTEXT_WINDOW RESERVED_TOKENS TRIGGER_TOKENS_CAP RECENT_TOKENS_CAP PRESERVE_RECENT_MESSAGES LOOKAHEAD
    LOOKAHEAD_TOKENS PRUNE PRUNE_KEEP_TURNS MICRO_COMPACT REASONING SUMMARY_TARGET_TOKENS LEDGER_TOKENS
    MIN_SUMMARY_CHARS MIN_SAVING_RATIO COOLDOWN_SECONDS COVERAGE_RATIO BREAKER_FAILURES BREAKER_SECONDS SUMMARIZER
    SUMMARIZER_MODELS SUMMARIZER_TIMEOUT SUMMARIZER_MAX_OUTPUT_TOKENS SUMMARY_PROMPT SUMMARY_ROLE TOKEN_COUNTER
    REDACTOR POLICY PERMISSION PROVIDER_CONTEXT_MANAGEMENT PRICES MAX_MESSAGE_BYTES MANUAL_THROTTLE TASK_QUEUE
    RUN_TIME_LIMIT SUMMARIZER_CHAT_MODELS SPENDING_LIMITS TRIGGER_RATIOS SUMMARIZERS SUMMARIZER_NAME
    ALTERNATE_ROLES EVENTS_KEPT_DAYS TIME_ZONE ATTACHMENT_URL
"""
IDS = {key: number for number, key in enumerate(_KEYS.split(), start=100)}

NUMBERS_NO_RATIO_IS: list[Any] = [0, 1, -0.1, 1.1, 75, NAN, INFINITY, HUGE, "0.75", None, True, [0.5]]
NO_WHOLE_NUMBER: list[Any] = [-1, 1.0, "5", True, NAN, INFINITY, HUGE, [], {}]
NO_SECONDS: list[Any] = [-1, NAN, INFINITY, HUGE, 1e300, "60", None, False]
NO_CHOICE: list[Any] = ["", "STANDARD", "other", None, 1, [], {}]
NO_FLAG: list[Any] = [None, 0, 1, "yes", []]
NO_TEXT: list[Any] = ["", 1, b"x", []]
NO_ADDRESS = ["localhost:8000", "ftp://x/v1", "http://", "http://x:99999/v1", "http://x:80a/v1", "http://[::1/v1"]
NO_ADDRESS += ["http://x:0/v1", "http://a b/v1", "http://user:password@x/v1", "http://key@x/v1"]
NO_PATH: list[Any] = ["", "x", "nowhere.Thing", "compaction_app.conf.Nothing", ".conf", "..x", 7, ["os.path"], object]

#: What every key must refuse and what it must take. None is "not set" only where it is among the good.
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "MODE": ([*NO_CHOICE], [*Mode, "off"]),
    "TRIGGER_RATIO": (NUMBERS_NO_RATIO_IS, [0.5, 0.75, 0.95]),
    "RECENT_MESSAGES_RATIO": (NUMBERS_NO_RATIO_IS, [0.01, 0.2, 0.6]),
    "PRUNE_TOOL_RESULT_BYTES": ([0, *NO_WHOLE_NUMBER, None], [1, 4096]),
    "TARGET_RATIO": (NUMBERS_NO_RATIO_IS, [0.1, 0.5, 0.99]),
    "CONTEXT_WINDOW": ([0, *NO_WHOLE_NUMBER], [None, 1, 1_000_000]),
    "CONTEXT_WINDOWS": (
        [None, [], 5, {"gpt": 0}, {"gpt": "8k"}, {"gpt": True}, {5: 5}, {"gpt": HUGE}],
        [{}, {"gpt": 8192, "gpt-4": 1}],
    ),
    "DEFAULT_CONTEXT_WINDOW": ([0, *NO_WHOLE_NUMBER, None], [1, 128_000]),
    "RESERVED_TOKENS": ([*NO_WHOLE_NUMBER, None], [0, 8192, 10**6]),
    "TRIGGER_TOKENS_CAP": ([0, *NO_WHOLE_NUMBER, None], [40_001, 200_000]),
    "RECENT_TOKENS_CAP": ([*NO_WHOLE_NUMBER, None], [0, 199_999]),
    "PRESERVE_RECENT_MESSAGES": ([0, 1, *NO_WHOLE_NUMBER, None], [2, 50]),
    "LOOKAHEAD": (NO_CHOICE, [*Lookahead, "tip"]),
    "LOOKAHEAD_TOKENS": ([*NO_WHOLE_NUMBER, None], [0, 4000]),
    "PRUNE": (NO_CHOICE, [*PruneWhen, "always"]),
    "PRUNE_KEEP_TURNS": ([0, *NO_WHOLE_NUMBER, None], [1, 3]),
    "MICRO_COMPACT": (NO_FLAG, [True, False]),
    "REASONING": (NO_CHOICE, [*ReasoningRule, "drop"]),
    "SUMMARY_TARGET_TOKENS": ([0, *NO_WHOLE_NUMBER, None], [1, 7500]),
    "LEDGER_TOKENS": (NO_WHOLE_NUMBER, [None, 0, 1500]),
    "MIN_SUMMARY_CHARS": ([0, *NO_WHOLE_NUMBER, None], [1, 30]),
    "MIN_SAVING_RATIO": (NUMBERS_NO_RATIO_IS, [0.01, 0.1, 0.9]),
    "COOLDOWN_SECONDS": (NO_SECONDS, [0, 0.5, 60, 10**9]),
    "COVERAGE_RATIO": (NUMBERS_NO_RATIO_IS, [0.01, 0.7]),
    "BREAKER_FAILURES": ([0, *NO_WHOLE_NUMBER, None], [1, 3]),
    "BREAKER_SECONDS": (NO_SECONDS, [0, 300]),
    "SUMMARIZER": (
        [*NO_PATH, None, "os.path.join", "builtins.int"],
        ["compaction_app.testing.summarizers.FakeSummarizer"],
    ),
    "SUMMARIZER_MODELS": (
        [
            None,
            "gpt-5.4-nano",
            {"model": "x"},
            [""],
            [5],
            [None],
            [{}],
            [{"model": ""}],
            [{"model": 5}],
            [{"base_url": "http://localhost"}],
            [{"model": "x", "api_key": "k"}],
            [{"model": "x", 5: 5}],
            [{"model": "x", "base_url": 5}],
            *([{"model": "x", "base_url": url}] for url in NO_ADDRESS),
            [{"model": "x", "timeout": 0}],
            [{"model": "x", "timeout": "30"}],
            [{"model": "x", "max_input_tokens": 0}],
        ],
        [
            [],
            ("a", "b"),
            *(
                [{"model": "x", "base_url": url}]
                for url in ("https://x", "http://10.0.0.7:8000/v1", "http://[::1]:80/v1")
            ),
            [{"model": "x", "base_url": None, "api_key_env": "KEY", "timeout": 3.5, "max_input_tokens": 9}],
        ],
    ),
    "SUMMARIZER_TIMEOUT": ([0, *NO_SECONDS], [0.1, 30]),
    "SUMMARIZER_MAX_OUTPUT_TOKENS": ([0, *NO_WHOLE_NUMBER, None], [1, 20_000]),
    "SUMMARY_PROMPT": ([*NO_TEXT, "  ", "\n", "a\x00", "a\ud83d"], [None, "Summarize."]),
    "SUMMARY_ROLE": (["system", "developer", "tool", "", None, 1, []], ["user", "assistant"]),
    "TOKEN_COUNTER": ([*NO_PATH, None, "builtins.int", "html.escape"], ["compaction_app.tokens.CharacterTokenCounter"]),
    "REDACTOR": ([*NO_PATH, "builtins.int", "os.getcwd", "operator.add"], [None, "html.escape", "os.system"]),
    "POLICY": ([*NO_PATH, "os.sep", "os.getcwd", "html.unescape"], [None, "html.escape"]),
    "PERMISSION": ([*NO_PATH, "os.getcwd", "html.escape"], [None, "builtins.pow"]),
    "PROVIDER_CONTEXT_MANAGEMENT": (NO_FLAG, [True, False]),
    "PRICES": (
        [
            None,
            [],
            {"m": 5},
            {"m": {"input": -1}},
            {"m": {"input": NAN}},
            {"m": {"in": 1}},
            {5: {}},
            {"m": {"input": "1"}},
            {"m": {}},
            {"m": {"input": 1}},
            {"m": {"input": 1, "output": 10_001}},
        ],
        [{}, {"m": {"input": 1, "output": 2}}, {"m": {"input": 0, "cached": 0.1, "output": 2}}],
    ),
    "MAX_MESSAGE_BYTES": ([0, *NO_WHOLE_NUMBER, None], [1, 4 * 1024 * 1024]),
    "MANUAL_THROTTLE": (
        ["", "10", "m", "10/", "/m", "ten/m", "-1/m", "10/w", "²/m", "1.5/m", 10],
        [None, "10/m", "1/s"],
    ),
    "TASK_QUEUE": (NO_TEXT, [None, "compaction"]),
    "RUN_TIME_LIMIT": ([0, -1, "60", True], [None, 60, 0.5]),
    "SUMMARIZER_CHAT_MODELS": ([None, "gpt-4o", [5], [{"base_url": "http://x"}]], [(), ["gpt-4o"], [{"model": "m"}]]),
    "SPENDING_LIMITS": (
        [None, [], {"team": []}, {"user": "20 runs/h"}, {"user": ["20/h"]}, {"user": ["0 runs/h"]}, {"session": [5]}],
        [{}, {"session": ["20 runs/h", "2000000 tokens/d"], "user": ()}],
    ),
    "TRIGGER_RATIOS": ([None, [], {"gpt": 1.5}, {5: 0.5}, {"gpt": "0.5"}], [{}, {"gpt-4": 0.6}]),
    "SUMMARIZERS": (
        [None, [], {"": {}}, {"fast": "gpt"}, {"fast": {"MODE": "off"}}, {"fast": {"SUMMARIZER_TIMEOUT": 0}}],
        [{}, {"fast": {"SUMMARIZER_MODELS": ["gpt-4o"]}}],
    ),
    "SUMMARIZER_NAME": ([5, "", ["fast"]], [None]),
    "ALTERNATE_ROLES": (NO_FLAG, [True, False]),
    "EVENTS_KEPT_DAYS": ([0, 10**6, *NO_WHOLE_NUMBER], [None, 1, 90]),
    "TIME_ZONE": (
        ["", "Berlin", "../UTC", "/etc/localtime", "Europe", "a\0b", 1, [], {}],
        [None, "UTC", "Europe/Berlin", "Pacific/Auckland"],
    ),
    "ATTACHMENT_URL": ([*NO_PATH, "os.getcwd", "operator.add"], [None, "html.escape"]),
}


def cases(good: bool) -> list[Any]:
    return [
        pytest.param(key, value, id=f"{key}={value!r}"[:60]) for key, values in VALUES.items() for value in values[good]
    ]


def test_every_key_has_a_rule_a_default_an_id_and_a_field() -> None:
    """A key that is added without one of them would be read unchecked, or not at all."""
    assert list(RULES) == list(DEFAULTS) == list(IDS) == list(VALUES)
    assert [field.name.upper() for field in fields(Settings)] == list(DEFAULTS)
    assert set(DEFAULTS) >= SITE_ONLY
    assert all(set(preset) <= set(DEFAULTS) for preset in PRESETS.values())


def test_ids_are_unique_and_stable() -> None:
    assert {key: f"compaction_app.E{number}" for key, number in IDS.items()} == conf._KEY_IDS
    assert len(set(IDS.values())) == len(IDS)


@pytest.mark.parametrize(("key", "value"), cases(good=False))
def test_a_bad_value_is_found_under_its_keys_id(key: str, value: Any) -> None:
    """Wrong types, NaN and what is out of range: one problem, which names the key; and never an exception."""
    [problem] = find_problems({key: value})
    assert problem.id == f"compaction_app.E{IDS[key]}"
    assert problem.error
    assert problem.message.startswith(f"COMPACTION['{key}'] ")
    assert problem.hint == f"Correct or remove {key}."


@pytest.mark.parametrize(("key", "value"), cases(good=True))
def test_a_good_value_is_taken_as_it_is(key: str, value: Any) -> None:
    with override_settings(COMPACTION={key: value}):
        assert [problem for problem in find_problems({key: value}) if problem.error] == []
        taken = getattr(get_settings(), key.lower())
    assert taken == (tuple(value) if key in ("SUMMARIZER_MODELS", "SUMMARIZER_CHAT_MODELS") else value)


PRIVATE = {"model": "ours", "base_url": "http://10.0.0.7/v1"}


@pytest.mark.parametrize(
    ("summarizers", "listed"),
    [
        ({"SUMMARIZER_MODELS": [PRIVATE]}, ["gpt-4o"]),
        ({"SUMMARIZER_MODELS": ["gpt-4o-mini", {"model": "ours", "api_key_env": "OUR_KEY"}]}, ["gpt-4o"]),
        ({"SUMMARIZER_MODELS": [PRIVATE]}, [{"model": "gpt-4o"}]),
        ({"SUMMARIZER_MODELS": [PRIVATE]}, [PRIVATE, {"model": "gpt-4o", "base_url": None}]),
        ({"SUMMARIZERS": {"private": {"SUMMARIZER_MODELS": [PRIVATE]}}}, ["gpt-4o"]),
    ],
)
def test_a_chat_model_without_an_address_is_an_error_beside_a_private_one(summarizers: Any, listed: Any) -> None:
    """Issue 12.15: a private conversation would leave for the default address, with the default key."""
    configured = {**summarizers, "SUMMARIZER_CHAT_MODELS": listed}
    [problem] = find_problems(configured)
    assert (problem.id, problem.error) == ("compaction_app.E013", True)
    assert "'gpt-4o' without a base_url" in problem.message
    with override_settings(COMPACTION=configured), pytest.raises(ConfigurationError):
        get_settings()


@pytest.mark.parametrize(
    ("models", "listed"),
    [(["gpt-4o-mini"], ["gpt-4o"]), ([PRIVATE], [{**PRIVATE, "model": "gpt-4o"}]), ([PRIVATE], ())],
)
def test_a_chat_model_with_an_address_or_beside_public_ones_is_none(models: Any, listed: Any) -> None:
    assert find_problems({"SUMMARIZER_MODELS": models, "SUMMARIZER_CHAT_MODELS": listed}) == []


@pytest.mark.parametrize("key", ["SUMMARIZER_MODELS", "SUMMARIZER_CHAT_MODELS", "SUMMARIZERS"])
def test_a_wrong_value_with_a_key_in_it_is_not_shown(key: str) -> None:
    """Issue 12.15: the new settings take entries of the same form, in which somebody may write a key."""
    entry = {"model": "m", "api_key": "sk-hush"}
    value: Any = {"fast": {"SUMMARIZER_MODELS": [entry]}} if key == "SUMMARIZERS" else [entry]
    [problem] = find_problems({key: value})
    assert "unknown keys api_key" in problem.message
    assert "sk-hush" not in str(problem)


def test_messages_say_what_is_wrong_and_with_which_value() -> None:
    problems = find_problems({"TRIGGER_RATIO": 1.5, "PRESERVE_RECENT_MESSAGES": 1, "SUMMARY_ROLE": "system"})
    assert problems == [
        Problem(
            "compaction_app.E101",
            "COMPACTION['TRIGGER_RATIO'] must be between 0 and 1 (exclusive), not 1.5.",
            "Correct or remove TRIGGER_RATIO.",
        ),
        Problem(
            "compaction_app.E111",
            "COMPACTION['PRESERVE_RECENT_MESSAGES'] must be from 2 to 2147483647, not 1.",
            "Correct or remove PRESERVE_RECENT_MESSAGES.",
        ),
        Problem(
            "compaction_app.E131",
            "COMPACTION['SUMMARY_ROLE'] must be 'user' or 'assistant', not 'system'.",
            "Correct or remove SUMMARY_ROLE.",
        ),
    ]


def test_what_was_meant_is_named() -> None:
    [unknown] = find_problems({"trigger_ration": 0.7, "CONTEXT_WINDOWZ": {}, "XYZ": 1})
    assert unknown.hint.startswith("Did you mean CONTEXT_WINDOW, TRIGGER_RATIO? Known keys are MODE, ")
    [unknown] = find_problems({"XYZ": 1})
    assert unknown.hint.startswith("Known keys are MODE, ")
    [percent] = find_problems({"TRIGGER_RATIO": 75})
    assert percent.message == (
        "COMPACTION['TRIGGER_RATIO'] must be between 0 and 1 (exclusive): 0.75 for 75 %, not 75."
    )


@pytest.mark.parametrize("key", ["SUMMARIZER_MODELS", "SUMMARIZER_CHAT_MODELS", "SUMMARIZERS"])
def test_a_key_written_into_the_settings_is_not_repeated(key: str) -> None:
    """Check output lands in logs; a provider's key that stands where none belongs must not."""
    models = [{"model": "x", "api_key": "sk-secret"}]
    [problem] = find_problems({key: {"fast": {"SUMMARIZER_MODELS": models}} if key == "SUMMARIZERS" else models})
    assert "api_key" in problem.message
    assert "sk-secret" not in problem.message + problem.hint


@pytest.mark.parametrize("configured", [None, [], "standard", 5, ("MODE", "off")])
def test_settings_that_are_no_dict_are_one_problem(configured: Any) -> None:
    [problem] = find_problems(configured)
    assert (problem.id, problem.error) == ("compaction_app.E001", True)
    with override_settings(COMPACTION=configured), pytest.raises(ConfigurationError) as caught:
        get_settings()
    assert caught.value.problem_id == "compaction_app.E001"


def test_unknown_keys_are_named_together() -> None:
    """A key with a typing error would otherwise be a default in disguise."""
    [problem] = find_problems({"TRIGER_RATIO": 0.5, "mode": "off", 7: 1})
    assert problem.id == "compaction_app.E002"
    assert problem.message == "settings.COMPACTION has unknown keys: 7, TRIGER_RATIO, mode."
    assert "TRIGGER_RATIO" in problem.hint


def test_unknown_keys_hide_no_other_mistake() -> None:
    problems = find_problems({"TRIGER_RATIO": 0.5, "MODE": "of", "COOLDOWN_SECONDS": -1}, {"mod": "off"})
    assert [problem.id for problem in problems] == [
        "compaction_app.E002",
        "compaction_app.E002",
        "compaction_app.E100",
        "compaction_app.E122",
    ]


@pytest.mark.parametrize(
    ("configured", "problem_id"),
    [
        ({"RECENT_MESSAGES_RATIO": 0.75}, "compaction_app.E010"),
        ({"RECENT_MESSAGES_RATIO": 0.7, "MODE": "aggressive"}, "compaction_app.E010"),
        ({"RECENT_TOKENS_CAP": 200_000}, "compaction_app.E011"),
        ({"TRIGGER_TOKENS_CAP": 40_000}, "compaction_app.E011"),
        (
            {"RECENT_MESSAGES_RATIO": 0.9, "TRIGGER_RATIO": 0.94, "CONTEXT_WINDOW": 10_000},
            "compaction_app.E012",
        ),
        ({"TRIGGER_RATIO": 0.3}, "compaction_app.W001"),
        ({"TRIGGER_RATIO": 0.951}, "compaction_app.W001"),
        ({"TRIGGER_RATIOS": {"gpt-4": 0.2}}, "compaction_app.E010"),
        ({"TRIGGER_RATIOS": {"gpt-4": 0.3}}, "compaction_app.W001"),
        (
            {
                "SUMMARIZERS": {"here": {"SUMMARIZER_MODELS": [{"model": "m", "base_url": "http://localhost"}]}},
                "SUMMARIZER_CHAT_MODELS": ["gpt-4o"],
            },
            "compaction_app.E013",
        ),
        ({"SUMMARIZERS": {"fast": {}}, "SUMMARIZER_NAME": "slow"}, "compaction_app.E014"),
    ],
)
def test_values_that_contradict_each_other_are_found(configured: dict[str, Any], problem_id: str) -> None:
    """Each passes by itself; together a compaction would cover nothing, come too late or have no room."""
    [problem] = find_problems(configured)
    assert problem.id == problem_id
    assert problem.error == (".E" in problem_id)


def test_a_warning_does_not_stop_the_app() -> None:
    with override_settings(COMPACTION={"TRIGGER_RATIO": 0.3}):
        assert get_settings().trigger_ratio == 0.3


# -- presets ---------------------------------------------------------------------------------------------

#: mode → TRIGGER_RATIO, RECENT_MESSAGES_RATIO, PRUNE_TOOL_RESULT_BYTES, TARGET_RATIO, MICRO_COMPACT, PRUNE
PRESET_TABLE = {
    "standard": (0.75, 0.20, 4096, 0.50, False, "pressure"),
    "deterministic": (0.75, 0.20, 4096, 0.50, False, "always"),
    "conservative": (0.75, 0.10, 4096, 0.50, False, "pressure"),
    "aggressive": (0.60, 0.20, 1024, 0.25, True, "pressure"),
    "off": (0.75, 0.20, 4096, 0.50, False, "pressure"),
}


@pytest.mark.parametrize("mode", PRESET_TABLE)
def test_a_mode_is_its_presets_numbers(mode: str) -> None:
    with override_settings(COMPACTION={"MODE": mode}):
        got = get_settings()
    numbers = (got.trigger_ratio, got.recent_messages_ratio, got.prune_tool_result_bytes, got.target_ratio)
    assert (*numbers, got.micro_compact, got.prune) == PRESET_TABLE[mode]
    extractive = got.summarizer == "compaction_app.summarizers.ExtractiveSummarizer"
    assert extractive == (mode == "deterministic")


def test_every_mode_has_a_preset_and_passes() -> None:
    assert set(PRESETS) == set(Mode) == set(PRESET_TABLE)
    assert [find_problems({"MODE": mode}) for mode in Mode] == [[]] * len(Mode)


def test_a_key_set_explicitly_beats_the_preset_and_a_session_beats_both() -> None:
    with override_settings(COMPACTION={"MODE": "aggressive", "TARGET_RATIO": 0.4}):
        assert (get_settings().trigger_ratio, get_settings().target_ratio) == (0.60, 0.4)
        session = get_settings({"MODE": "conservative", "TRIGGER_RATIO": 0.8})
        assert (session.trigger_ratio, session.recent_messages_ratio, session.target_ratio) == (0.8, 0.10, 0.4)


def test_a_named_summarizer_beats_the_sites_keys_and_a_sessions_own_key_beats_both() -> None:
    """Issue 12.10."""
    fast = {"SUMMARIZER_MODELS": ["small"], "SUMMARIZER_TIMEOUT": 5, "SUMMARY_PROMPT": "Be brief."}
    with override_settings(COMPACTION={"SUMMARIZERS": {"fast": fast}, "SUMMARIZER_TIMEOUT": 60}):
        assert (get_settings().summarizer_models, get_settings().summarizer_timeout) == (("gpt-5.4-nano",), 60)
        chosen = get_settings({"SUMMARIZER_NAME": "fast", "SUMMARY_PROMPT": "Be thorough."})
    assert (chosen.summarizer_models, chosen.summarizer_timeout) == (("small",), 5)
    assert chosen.summary_prompt == "Be thorough."
    assert settings_from_snapshot(chosen.snapshot()) == chosen


def test_an_address_is_stored_without_its_query() -> None:
    """Some gateways take a key there, and each run stores its settings."""
    models = [{"model": "m", "base_url": "http://here/v1?key=s3cret#x"}, {"model": "n", "base_url": None}, "o"]
    with override_settings(COMPACTION={"SUMMARIZER_MODELS": models}):
        stored = get_settings().snapshot()["SUMMARIZER_MODELS"]
    assert stored == [{"model": "m", "base_url": "http://here/v1"}, {"model": "n", "base_url": None}, "o"]


# -- reading ---------------------------------------------------------------------------------------------


def test_settings_are_read_each_time() -> None:
    """``override_settings`` works, and nothing is written back into Django's settings."""
    before = dict(django_settings.COMPACTION)
    for ratio in (0.6, 0.7):
        with override_settings(COMPACTION={"TRIGGER_RATIO": ratio}):
            assert get_settings().trigger_ratio == ratio
            assert site_setting("TRIGGER_RATIO") == ratio
    assert before == django_settings.COMPACTION


def test_without_the_dict_everything_is_a_default() -> None:
    with override_settings():
        del django_settings.COMPACTION
        assert get_settings() == settings_from_snapshot({})
        assert site_setting("MAX_MESSAGE_BYTES") == 4 * 1024 * 1024


def test_bad_settings_raise_when_they_are_met() -> None:
    """The error is that of the check: its message, its hint and its id."""
    with override_settings(COMPACTION={"PRUNE": "never"}), pytest.raises(ConfigurationError) as caught:
        get_settings()
    assert caught.value.problem_id == "compaction_app.E114"
    assert str(caught.value) == (
        "COMPACTION['PRUNE'] must be one of pressure, always, not 'never'. Correct or remove PRUNE."
    )


def test_one_setting_can_be_read_whatever_is_wrong_with_the_others() -> None:
    with override_settings(COMPACTION={"MODE": 7, "NONSENSE": 1, "TASK_QUEUE": "slow"}):
        assert site_setting("TASK_QUEUE") == "slow"
        with pytest.raises(ConfigurationError, match="MODE"):
            site_setting("MODE")


@pytest.mark.parametrize("key", sorted(SITE_ONLY))
def test_a_session_may_not_override_what_belongs_to_the_site(key: str) -> None:
    """Code that runs, prices, limits: a session's row must not choose them."""
    [problem] = find_problems({}, {key: DEFAULTS[key]})
    assert problem.id == "compaction_app.E003"
    assert key in problem.message


@pytest.mark.parametrize("key", [key for key in DEFAULTS if key not in SITE_ONLY])
def test_a_sessions_own_value_is_judged_as_the_sites(key: str) -> None:
    for value in VALUES[key][False]:
        [problem] = find_problems({}, {key: value})
        assert problem.id == f"compaction_app.E{IDS[key]}"


def test_a_problem_says_where_its_value_stands() -> None:
    wrong = {"PRUNE": "never"}
    for where, problems in {
        "COMPACTION['PRUNE'] ": find_problems(wrong),
        "the session's settings['PRUNE'] ": find_problems({}, wrong),
        "options['PRUNE'] ": find_problems(wrong, where="options"),
    }.items():
        assert [problem.message.startswith(f"{where}must be one of") for problem in problems] == [True]


async def answer_later(*given: Any) -> bool:
    return True


class AnswersLater:
    async def __call__(self, *given: Any) -> bool:
        return True


@pytest.mark.parametrize("key", ["REDACTOR", "POLICY", "PERMISSION"])
@pytest.mark.parametrize("named", ["answer_later", "AnswersLater"])
def test_a_hook_that_nobody_awaits_is_refused(key: str, named: str) -> None:
    """Its coroutine is true: a PERMISSION that is async would allow everybody everything."""
    [problem] = find_problems({key: f"{__name__}.{named}"})
    assert "must name a synchronous function, not an async one" in problem.message


class NeedsMore:
    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, text: Any) -> Any:
        return text


class TakesNothing:
    def __call__(self) -> str:
        return "x"


class Counts:
    def __call__(self, texts: list[str], unit: int = 1) -> list[int]:
        return [len(text) // unit for text in texts]


class CountsApart:
    @staticmethod
    def __call__(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]


takes_anything = lambda *given, **named: given  # noqa: E731  # what a host may name
takes_none = lambda: "x"  # noqa: E731


@pytest.mark.parametrize("key", ["TOKEN_COUNTER", "REDACTOR", "POLICY", "PERMISSION"])
@pytest.mark.parametrize(
    ("named", "wrong"),
    [("NeedsMore", "must name a class whose constructor takes no arguments"), ("TakesNothing", "whose instances take")],
)
def test_a_class_that_can_not_be_called_as_it_will_be_is_refused(key: str, named: str, wrong: str) -> None:
    [problem] = find_problems({key: f"{__name__}.{named}"})
    assert wrong in problem.message


def test_a_function_that_can_not_be_called_as_it_will_be_is_refused() -> None:
    for key in ("REDACTOR", "POLICY", "PERMISSION"):
        [problem] = find_problems({key: f"{__name__}.takes_none"})
        assert "must name a function that takes" in problem.message
        assert find_problems({key: f"{__name__}.takes_anything"}) == []
    for named in ("Counts", "CountsApart"):
        assert find_problems({"TOKEN_COUNTER": f"{__name__}.{named}"}) == []


def test_an_override_is_judged_together_with_what_it_is_laid_over() -> None:
    [problem] = find_problems({"RECENT_MESSAGES_RATIO": 0.7}, {"TRIGGER_RATIO": 0.65})
    assert problem.id == "compaction_app.E010"
    assert find_problems({"TRIGGER_RATIO": 0.3}, {"TRIGGER_RATIO": 0.65}) == []


def test_a_run_keeps_the_settings_it_was_opened_with() -> None:
    """A snapshot is JSON, comes back as the same settings, and survives keys that come and go."""
    overrides = {"MODE": "aggressive", "CONTEXT_WINDOW": 9000, "LOOKAHEAD": Lookahead.TIP}
    snapshot = get_settings(overrides).snapshot()
    assert type(snapshot["LOOKAHEAD"]) is str
    assert settings_from_snapshot(snapshot) == get_settings(overrides)
    assert settings_from_snapshot({**snapshot, "GONE": 1}).context_window == 9000
    assert settings_from_snapshot({"TARGET_RATIO": 0.4}).trigger_ratio == DEFAULTS["TRIGGER_RATIO"]


class TestChecking:
    """What was found right is not checked again, and nothing else is taken for it."""

    def test_the_same_settings_are_checked_once(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.COMPACTION = {"CONTEXT_WINDOW": 9000}
        first, overridden = get_settings(), get_settings({"CONTEXT_WINDOW": 8000})
        assert site_setting("TOKEN_COUNTER") == DEFAULTS["TOKEN_COUNTER"]
        monkeypatch.setattr(conf, "_key_problem", lambda *_: pytest.fail("checked again"))
        assert get_settings({}) is first
        assert get_settings({"CONTEXT_WINDOW": 8000}) is overridden
        assert site_setting("TOKEN_COUNTER") == DEFAULTS["TOKEN_COUNTER"]

    def test_a_change_is_seen_at_once(self, settings: Any) -> None:
        settings.COMPACTION = {"CONTEXT_WINDOW": 9000}
        assert get_settings().context_window == 9000
        settings.COMPACTION["CONTEXT_WINDOW"] = 7000
        assert (get_settings().context_window, site_setting("CONTEXT_WINDOW")) == (7000, 7000)
        settings.COMPACTION = {"MODE": "aggressive"}
        assert get_settings({"TARGET_RATIO": 0.2}).mode == "aggressive"
        assert get_settings({"TARGET_RATIO": 0.3}).target_ratio == 0.3

    @pytest.mark.parametrize(("right", "wrong"), [(True, 1), (1, True), (1, 1.5)])
    def test_equal_values_of_another_type_are_checked(self, settings: Any, right: Any, wrong: Any) -> None:
        key = "MICRO_COMPACT" if right is True else "BREAKER_FAILURES"
        settings.COMPACTION = {}
        get_settings({key: right})
        settings.COMPACTION = {key: right}
        get_settings()
        settings.COMPACTION = {key: wrong}
        for read in (get_settings, lambda: site_setting(key)):
            with pytest.raises(ConfigurationError):
                read()
        settings.COMPACTION = {}
        with pytest.raises(ConfigurationError):
            get_settings({key: wrong})

    def test_what_is_wrong_is_found_every_time(self, settings: Any) -> None:
        settings.COMPACTION = {"CONTEXT_WINDOW": "large"}
        for _ in range(2):
            with pytest.raises(ConfigurationError):
                get_settings()

    def test_of_very_many_overrides_not_all_are_remembered(self, settings: Any, monkeypatch: Any) -> None:
        settings.COMPACTION = {}
        monkeypatch.setattr(conf, "_MOST_KNOWN", 3)
        assert [get_settings({"CONTEXT_WINDOW": 9000 + n}).context_window for n in range(9)] == list(range(9000, 9009))
        assert len(conf._known_of(settings.COMPACTION).settings) <= 3
