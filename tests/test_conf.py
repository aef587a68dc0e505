"""Settings: every key has a rule, an id of its own and a default that passes; each problem is found."""

import math
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from compaction_app import conf
from compaction_app.conf import (
    DEFAULTS,
    KEYS,
    PRESETS,
    SITE_ONLY,
    Lookahead,
    Mode,
    PruneWhen,
    ReasoningRule,
    find_problems,
    find_session_error,
    get_settings,
    settings_from_snapshot,
    site_setting,
)
from compaction_app.exceptions import ConfigurationError

pytestmark = pytest.mark.pure

NAN, INFINITY, HUGE = math.nan, math.inf, 10**400

#: Hosts name these in SILENCED_SYSTEM_CHECKS: a number is never given to another key.
_NUMBERS = """
    MODE 100 TRIGGER_RATIO 101 RECENT_MESSAGES_RATIO 102 PRUNE_TOOL_RESULT_BYTES 103 TARGET_RATIO 104
    CONTEXT_WINDOW 105 DEFAULT_CONTEXT_WINDOW 107 RESERVED_TOKENS 108 TRIGGER_TOKENS_CAP 109 RECENT_TOKENS_CAP 110
    PRESERVE_RECENT_MESSAGES 111 LOOKAHEAD 112 PRUNE 114 PRUNE_KEEP_TURNS 115 MICRO_COMPACT 116 REASONING 117
    SUMMARY_TARGET_TOKENS 118 LEDGER_TOKENS 119 MIN_SAVING_RATIO 121 COOLDOWN_SECONDS 122 SUMMARIZER 126
    TOKEN_COUNTER 132 REDACTOR 133 POLICY 134 PERMISSION 135 PROVIDER_CONTEXT_MANAGEMENT 136 MAX_MESSAGE_BYTES 138
    MANUAL_THROTTLE 139 TASK_QUEUE 140 RUN_TIME_LIMIT 141 SPENDING_LIMITS 143 SUMMARIZERS 145 ALTERNATE_ROLES 147
    EVENTS_KEPT_DAYS 148 TIME_ZONE 149 ATTACHMENT_URL 150 MODELS 151 EXTRACT_FALLBACK 152
    ENQUEUE 153 RECALL 154
"""
IDS = dict(zip(_NUMBERS.split()[::2], map(int, _NUMBERS.split()[1::2]), strict=True))

PRIVATE = {"model": "ours", "base_url": "http://10.0.0.7/v1"}

#: By kind of rule: what it refuses and what it takes. None is "not set" only where it is among the good.
RATIO: Any = [0, 1, 75, NAN, INFINITY, HUGE, "0.75", None, True], [0.3, 0.5]
WHOLE: Any = [-1, 1.0, "5", True, HUGE, None], [0, 10]
POSITIVE: Any = [0, *WHOLE[0]], [1, 50_000]
CHOICE: Any = ["", "other", None, 1, []], []
FLAG: Any = [None, 1, "yes"], [True, False]
NO_PATH: list[Any] = ["", "nowhere.Thing", "compaction_app.conf.Nothing", ".conf", 7, "os.sep"]

BAD_ENTRIES: list[Any] = [
    *({"BACKEND": path} for path in (*NO_PATH, None, "os.path.join")),
    *({"MODELS": models} for models in (None, "gpt", {"model": "x"}, [""], [5], [{}])),
    *({"CHAT_MODELS": models} for models in (None, "gpt", [5], [{"base_url": "http://x"}])),
    *({"MODELS": [{"model": "x", **other}]} for other in ({"api_key": "k"}, {5: 5}, {"timeout": "30"})),
    *(
        {"MODELS": [{"model": "x", "base_url": url}]}
        for url in (5, "localhost:8000", "http://", "http://x:99999/v1", "http://[::1/v1")
    ),
    *({"MODELS": [{"model": "x", "base_url": url}]} for url in ("http://a b/v1", "http://user:password@x/v1")),
    *({"TIMEOUT": wrong} for wrong in (0, NAN, 1e300, "60", None)),
    {"MAX_OUTPUT_TOKENS": 0},
    *({"PROMPT": wrong} for wrong in (1, "  ", "a\x00", "a\ud83d")),
]
GOOD_ENTRIES: list[Any] = [
    {"BACKEND": "tests.fake_summarizer.FakeSummarizer", "TIMEOUT": 0.1, "PROMPT": None},
    {"MODELS": [], "CHAT_MODELS": ("a", "b"), "MAX_OUTPUT_TOKENS": 1, "PROMPT": "Summarize."},
    {"MODELS": [{"model": "x", "base_url": "http://[::1]:80/v1"}, PRIVATE]},
    {"MODELS": [{"model": "x", "base_url": None, "api_key_env": "KEY", "timeout": 3.5, "max_input_tokens": 9}]},
]

VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    **dict.fromkeys(("TRIGGER_RATIO", "RECENT_MESSAGES_RATIO", "TARGET_RATIO", "MIN_SAVING_RATIO"), RATIO),
    **dict.fromkeys(("PRUNE_TOOL_RESULT_BYTES", "DEFAULT_CONTEXT_WINDOW", "PRUNE_KEEP_TURNS"), POSITIVE),
    **dict.fromkeys(("SUMMARY_TARGET_TOKENS", "MAX_MESSAGE_BYTES"), POSITIVE),
    **dict.fromkeys(("RESERVED_TOKENS", "RECENT_TOKENS_CAP"), WHOLE),
    **dict.fromkeys(("MICRO_COMPACT", "PROVIDER_CONTEXT_MANAGEMENT", "ALTERNATE_ROLES", "EXTRACT_FALLBACK"), FLAG),
    "MODE": (CHOICE[0], [*Mode, "off"]),
    "LOOKAHEAD": (CHOICE[0], [*Lookahead, "tip"]),
    "PRUNE": (CHOICE[0], [*PruneWhen, "always"]),
    "REASONING": (CHOICE[0], [*ReasoningRule, "drop"]),
    "CONTEXT_WINDOW": ([0, "5"], [None, 1, 1_000_000]),
    "TRIGGER_TOKENS_CAP": ([0, None], [40_001, 200_000]),
    "PRESERVE_RECENT_MESSAGES": ([1, None], [2, 50]),
    "LEDGER_TOKENS": ([-1, "5"], [None, 0, 1500]),
    "COOLDOWN_SECONDS": ([-1, NAN, 1e300, "60", None, False], [0, 0.5, 10**9]),
    "SUMMARIZER": (
        [None, 5, "", ["default"], {"NAME": 5}, {"PROMPT": " "}, {"BACKEND": "x.Y"}],
        ["extractive", {"NAME": "extractive"}, {"PROMPT": "Sum it up.", "TIMEOUT": 5, "MAX_OUTPUT_TOKENS": 9}],
    ),
    "TOKEN_COUNTER": ([*NO_PATH, None, "os.curdir"], ["compaction_app.tokens.CharacterTokenCounter"]),
    "REDACTOR": ([*NO_PATH, "os.curdir"], [None, "html.escape", "os.system"]),
    "POLICY": (NO_PATH, [None, "html.escape"]),
    "PERMISSION": (NO_PATH, [None, "builtins.pow"]),
    "ATTACHMENT_URL": (NO_PATH, [None, "html.escape"]),
    "ENQUEUE": (NO_PATH, [None, "html.escape"]),
    "RECALL": FLAG,
    "MANUAL_THROTTLE": (["", "10", "ten/m", "-1/m", "10/w", "²/m", 10], [None, "10/m", "1/s"]),
    "TASK_QUEUE": (["", 1], [None, "compaction"]),
    "RUN_TIME_LIMIT": ([0, "60", True], [None, 60, 0.5]),
    "SPENDING_LIMITS": (
        [None, {"team": []}, {"user": "20 runs/h"}, {"user": ["20/h"]}, {"user": ["0 runs/h"]}, {"session": [5]}],
        [{}, {"session": ["20 runs/h", "2000000 tokens/d"], "user": ()}],
    ),
    "SUMMARIZERS": (
        [None, {"": {}}, {5: {}}, {"fast": "gpt"}, {"fast": {"MODE": "off"}}, *({"fast": bad} for bad in BAD_ENTRIES)],
        [{}, {"fast": {}}, *({"fast": good} for good in GOOD_ENTRIES)],
    ),
    "EVENTS_KEPT_DAYS": ([0, 10**6], [None, 1, 90]),
    "TIME_ZONE": (["", "Berlin", "../UTC", "/etc/localtime", "Europe", "a\0b", 1], [None, "UTC", "Europe/Berlin"]),
    "MODELS": (
        [
            *(None, {5: {}}, {"gpt": 5}, {"gpt": {"widow": 5}}, {"gpt": {"window": 0}}, {"gpt": {"trigger_ratio": 1}}),
            *({"gpt": {"price": wrong}} for wrong in (5, {"input": 1}, {"in": 1, "input": 1, "output": 1})),
            *({"gpt": {"price": {"input": 1, "output": wrong}}} for wrong in (-1, NAN, True, None, "x", 10_001)),
        ],
        [
            {"gpt": {}, "": {"window": 8_192}},
            {"gpt": {"window": 1, "trigger_ratio": 0.6, "price": {"input": 0, "cached": 0.1, "output": 2}}},
        ],
    ),
}


def test_every_key_is_tested() -> None:
    """A key that is added without a case here would be checked by nothing that is tested."""
    assert list(DEFAULTS) == list(KEYS)
    assert set(DEFAULTS) == set(VALUES)
    assert all(set(preset) <= set(DEFAULTS) for preset in PRESETS.values())


def test_ids_are_unique_and_stable() -> None:
    assert {key: f"compaction_app.E{number}" for key, number in IDS.items()} == {k: e["id"] for k, e in KEYS.items()}
    assert len(set(IDS.values())) == len(IDS)


@pytest.mark.parametrize("key", VALUES)
def test_a_bad_value_is_found_under_its_keys_id(key: str) -> None:
    """Wrong types, NaN and what is out of range: one problem, which names the key; and never an exception."""
    for value in VALUES[key][0]:
        [problem] = find_problems({key: value})
        assert (problem.id, problem.is_serious()) == (f"compaction_app.E{IDS[key]}", True), value
        assert problem.msg.startswith(f"COMPACTION['{key}']")
        assert problem.hint == f"Correct or remove {key}."


@pytest.mark.parametrize("key", VALUES)
def test_a_good_value_is_taken_and_comes_back_from_a_run(key: str) -> None:
    for value in VALUES[key][1]:
        with override_settings(COMPACTION={key: value}):
            assert [problem for problem in find_problems({key: value}) if problem.is_serious()] == [], value
            taken = get_settings()
            # Of the summarizers a run has its own.
            again = settings_from_snapshot(taken.but(summarizers={}).snapshot())
            assert key == "SUMMARIZERS" or getattr(again, key.lower()) == getattr(taken, key.lower())
        if not isinstance(value, dict | tuple | list) and key != "SUMMARIZER":
            assert getattr(taken, key.lower()) == value


@pytest.mark.parametrize(
    ("models", "listed", "bare"),
    [
        ([PRIVATE], ["gpt-4o"], True),
        (["gpt-4o-mini", {"model": "ours", "api_key_env": "OUR_KEY"}], ["gpt-4o"], True),
        ([PRIVATE], [PRIVATE, {"model": "gpt-4o", "base_url": None}], True),
        (["gpt-4o-mini"], ["gpt-4o"], False),
        ([PRIVATE], [{**PRIVATE, "model": "gpt-4o"}], False),
        ([PRIVATE], (), False),
    ],
)
def test_a_chat_model_without_an_address_is_an_error_beside_a_private_one(models: Any, listed: Any, bare: bool) -> None:
    """A private conversation would leave for the default address, with the default key."""
    problems = find_problems({"SUMMARIZERS": {"private": {"MODELS": models, "CHAT_MODELS": listed}}})
    assert [(problem.id, problem.is_serious()) for problem in problems] == [("compaction_app.E013", True)] * bare
    assert all("'gpt-4o' without a base_url" in problem.msg for problem in problems)


def test_a_wrong_value_with_a_key_in_it_is_not_shown() -> None:
    """Check output lands in logs, and somebody may write a provider's key where its name belongs."""
    for wrong in ({"api_key": "sk-hush"}, {"api_key_env": ["sk-hush"]}, {"base_url": "http://sk-hush@x"}):
        models = [{"model": "m", **wrong}]
        [problem] = find_problems({"SUMMARIZERS": {"fast": {"MODELS": models}}})
        assert next(iter(wrong)) in problem.msg
        for configured in ({"MODELS": models}, {"MODELS": {"m": wrong}}, models):
            [misplaced] = find_problems(configured)
            assert "sk-hush" not in str(problem) + str(misplaced)


async def answer_later(*given: Any) -> bool:
    return True


class AnswersLater:
    async def __call__(self, *given: Any) -> bool:
        return True


class Heavy:
    def __init__(self) -> None:
        raise ConnectionError("A check makes no instance.")

    def __call__(self, text: str, unit: int = 1) -> str:
        return text


def models(*asked: Any) -> dict[str, Any]:
    return {"SUMMARIZERS": {"fast": {"MODELS": asked}}}


def hook(name: str, key: str = "REDACTOR") -> dict[str, Any]:
    return {key: f"{__name__}.{name}"}


ASYNC = "must name a synchronous function, not an async one"
#: Settings, and what a person reads of their one problem: the key, what is wrong, what to write instead.
SAID: list[tuple[dict[Any, Any], str]] = [
    ({"LOOKAHEAD": "far"}, "COMPACTION['LOOKAHEAD'] must be 'previous_turn', 'tip' or 'none', not 'far'."),
    ({"PRUNE": "never"}, "COMPACTION['PRUNE'] must be 'pressure' or 'always', not 'never'. Correct or remove PRUNE."),
    ({"PRESERVE_RECENT_MESSAGES": 1}, "must be greater than or equal to 2, not 1."),
    ({"TRIGGER_RATIO": 75}, "must be less than 1 (0.75 for 75 %), not 75."),
    (
        models("a", {"model": "b", "base_url": "localhost"}),
        "['SUMMARIZERS']['fast']['MODELS'][1]['base_url'] must be an",
    ),
    (models({"model": "x", "api_key": "k"}), "unknown keys api_key. Did you mean api_key_env? Known keys are model, "),
    (
        {"trigger_ration": 0.7, "CONTEXT_WINDOWZ": {}, 7: 1},
        "keys: 7, CONTEXT_WINDOWZ, trigger_ration. Did you mean CONTEXT_WINDOW, TRIGGER_RATIO? Known keys are MODE, ",
    ),
    ({"XYZ": 1}, "settings.COMPACTION has unknown keys: XYZ. Known keys are MODE, "),
    ({"PRICES": {}}, "PRICES is now MODELS, as {'my-model': {'price': {'input': 0.2, 'output': 1.2}}}."),
    ({"BREAKER_SECONDS": 5, "SUMMARIZER_NAME": "x"}, "is fixed now: remove it. SUMMARIZER_NAME is now SUMMARIZER."),
    ({"SUMMARIZER": "compaction_app.summarizers.ExtractiveSummarizer"}, "a class is the BACKEND of an entry"),
    ({"REDACTOR": "os.curdir"}, "must name a function, or a class whose instances are called like one"),
    ({"SPENDING_LIMITS": {"tenant": ["20 runs/h"]}}, "SPENDING_LIMITS'] has the key 'tenant', which must be"),
    # A coroutine is true: an async PERMISSION would allow everybody everything.
    *((hook(name, key), ASYNC) for name in ("answer_later", "AnswersLater") for key in ("PERMISSION", "POLICY")),
]


@pytest.mark.parametrize(("configured", "said"), SAID, ids=lambda value: str(value)[:50])
def test_a_problem_says_what_is_wrong_and_what_was_meant(configured: dict[Any, Any], said: str) -> None:
    [problem] = find_problems(configured)
    assert said in f"{problem.msg} {problem.hint}"


def test_a_class_is_never_made_by_a_check() -> None:
    assert find_problems({**hook("Heavy"), **hook("Heavy", "TOKEN_COUNTER")}) == []


@pytest.mark.parametrize("configured", [None, [], "standard", 5, ("MODE", "off")])
def test_settings_that_are_no_dict_are_one_problem(configured: Any) -> None:
    """The error that is raised when they are met is that of the check."""
    [problem] = find_problems(configured)
    assert (problem.id, problem.is_serious()) == ("compaction_app.E001", True)
    with override_settings(COMPACTION=configured), pytest.raises(ConfigurationError) as caught:
        get_settings()
    assert (caught.value.problem_id, str(caught.value)) == (problem.id, f"{problem.msg} {problem.hint}")


def test_unknown_keys_hide_no_other_mistake() -> None:
    problems = find_problems({"TRIGER_RATIO": 0.5, "MODE": "of", "COOLDOWN_SECONDS": -1}, {"mod": "off"})
    ids = [problem.id.removeprefix("compaction_app.") for problem in problems]
    assert ids == ["E002", "E002", "E100", "E122"]


@pytest.mark.parametrize(
    ("configured", "problem_id"),
    [
        ({"RECENT_MESSAGES_RATIO": 0.7, "MODE": "aggressive"}, "compaction_app.E010"),
        ({"RECENT_TOKENS_CAP": 200_000}, "compaction_app.E011"),
        ({"RECENT_MESSAGES_RATIO": 0.9, "TRIGGER_RATIO": 0.94, "CONTEXT_WINDOW": 10_000}, "compaction_app.E012"),
        ({"TRIGGER_RATIO": 0.3}, "compaction_app.W001"),
        ({"TRIGGER_RATIO": 0.951}, "compaction_app.W001"),
        ({"MODELS": {"gpt-4": {"trigger_ratio": 0.2}}}, "compaction_app.E010"),
        ({"MODELS": {"gpt-4": {"trigger_ratio": 0.3}}}, "compaction_app.W001"),
        ({"SUMMARIZERS": {"fast": {}}, "SUMMARIZER": "slow"}, "compaction_app.E014"),
    ],
)
def test_values_that_contradict_each_other_are_found(configured: dict[str, Any], problem_id: str) -> None:
    """Each passes by itself; together a compaction would cover nothing, come too late or have no room."""
    [problem] = find_problems(configured)
    assert problem.id == problem_id
    assert problem.is_serious() == (".E" in problem_id)


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
    "manual": (0.75, 0.20, 4096, 0.50, False, "pressure"),
}


@pytest.mark.parametrize("mode", PRESET_TABLE)
def test_a_mode_is_its_presets_numbers(mode: str) -> None:
    with override_settings(COMPACTION={"MODE": mode}):
        got = get_settings()
    numbers = (got.trigger_ratio, got.recent_messages_ratio, got.prune_tool_result_bytes, got.target_ratio)
    assert (*numbers, got.micro_compact, got.prune) == PRESET_TABLE[mode]
    assert got.summarizer.name == ("extractive" if mode == "deterministic" else "default")


def test_every_mode_has_a_preset_and_passes() -> None:
    assert set(PRESETS) == set(Mode) == set(PRESET_TABLE)
    assert [find_problems({"MODE": mode}) for mode in Mode] == [[]] * len(Mode)


def test_a_key_set_explicitly_beats_the_preset_and_a_session_beats_both() -> None:
    with override_settings(COMPACTION={"MODE": "aggressive", "TARGET_RATIO": 0.4}):
        assert (get_settings().trigger_ratio, get_settings().target_ratio) == (0.60, 0.4)
        session = get_settings({"MODE": "conservative", "TRIGGER_RATIO": 0.8})
        assert (session.trigger_ratio, session.recent_messages_ratio, session.target_ratio) == (0.8, 0.10, 0.4)


def test_a_session_chooses_an_entry_and_may_ask_something_else_of_it() -> None:
    fast = {"MODELS": ["small"], "TIMEOUT": 5, "PROMPT": "Be brief."}
    with override_settings(COMPACTION={"SUMMARIZERS": {"fast": fast}}):
        assert [one.model for one in get_settings().summarizer_entry.models] == ["gpt-5.4-nano"]
        chosen = get_settings({"SUMMARIZER": "fast"}).summarizer_entry
        assert ([one.model for one in chosen.models], chosen.timeout, chosen.prompt) == (["small"], 5, "Be brief.")
        own = get_settings({"SUMMARIZER": {"NAME": "fast", "PROMPT": "Be thorough."}})
        assert (own.summarizer_entry.timeout, own.summarizer_entry.prompt) == (5, "Be thorough.")
        assert get_settings({"SUMMARIZER": {"PROMPT": "Write."}}).summarizer_entry.prompt == "Write."
        assert list(own.snapshot()["SUMMARIZERS"]) == ["fast"], "a run keeps only the one that it uses"
    assert settings_from_snapshot(own.snapshot()).summarizer_entry == own.summarizer_entry


def test_an_address_is_stored_without_its_query() -> None:
    """Some gateways take a key there, and each run stores its settings."""
    models = [{"model": "m", "base_url": "http://here/v1?key=s3cret#x"}, "o"]
    with override_settings(COMPACTION={"SUMMARIZERS": {"default": {"MODELS": models}}}):
        stored = get_settings().snapshot()["SUMMARIZERS"]["default"]["MODELS"]
    assert [one["base_url"] for one in stored] == ["http://here/v1", None]


LOCAL = {"SUMMARIZERS": {"local": {"MODELS": [PRIVATE]}}, "SUMMARIZER": "local"}


@pytest.mark.parametrize(
    ("site", "own", "name"),
    [
        (LOCAL, {"SUMMARIZER": {"PROMPT": "Short."}}, "local"),
        (LOCAL, {"SUMMARIZER": {"TIMEOUT": 5}, "MODE": "aggressive"}, "local"),
        ({**LOCAL, "SUMMARIZER": {"NAME": "local", "TIMEOUT": 9}}, {"SUMMARIZER": {"PROMPT": "Short."}}, "local"),
        ({"SUMMARIZER": "extractive"}, {"SUMMARIZER": {"PROMPT": "Short."}}, "extractive"),
        ({"MODE": "deterministic"}, {"SUMMARIZER": {"PROMPT": "Short."}}, "extractive"),
        (LOCAL, {"MODE": "deterministic"}, "extractive"),
        ({}, {"MODE": "deterministic", "SUMMARIZER": {"PROMPT": "Short."}}, "extractive"),
    ],
)
def test_what_a_session_asks_for_never_sends_it_elsewhere(site: Any, own: Any, name: str) -> None:
    """A conversation goes where the host has chosen, whatever its session says of the wording or the time."""
    with override_settings(COMPACTION=site):
        assert find_problems(site, own) == []
        settings = settings_from_snapshot(get_settings(own).snapshot())
    assert settings.summarizer.name == name
    assert [one.base_url for one in settings.summarizer_entry.models] == (
        [PRIVATE["base_url"]] if name == "local" else [None]
    )


@pytest.mark.parametrize(
    ("site", "asked", "longest"),
    [
        ({}, {"TIMEOUT": 30}, None),
        ({}, {"TIMEOUT": 31}, 30),
        ({}, {"TIMEOUT": 1e6, "PROMPT": "Short."}, 30),
        ({"SUMMARIZERS": {"default": {"TIMEOUT": 90}}}, {"TIMEOUT": 90}, None),
        ({"SUMMARIZERS": {"fast": {"TIMEOUT": 5}}}, {"NAME": "fast", "TIMEOUT": 6}, 5),
        ({"SUMMARIZER": {"TIMEOUT": 60}}, {"TIMEOUT": 60}, None),
        ({"SUMMARIZER": {"TIMEOUT": 9}}, {"TIMEOUT": 10}, 9),
        ({"SUMMARIZER": {"TIMEOUT": 60}}, {"PROMPT": "Short."}, None),
    ],
)
def test_no_session_sets_a_time_out_beyond_the_sites(site: Any, asked: Any, longest: float | None) -> None:
    """It is refused when it is saved; one that was stored before is cut, and no turn fails for it."""
    with override_settings(COMPACTION=site):
        problem = find_session_error({"SUMMARIZER": asked})
        entry = get_settings({"SUMMARIZER": asked}).summarizer_entry
    assert (problem is not None) == (longest is not None)
    assert longest is None or (entry.timeout == longest and f"the site's {longest}" in str(problem))
    assert entry.prompt == asked.get("PROMPT")


def test_where_another_one_is_chosen_there_is_no_default_that_was_not_written() -> None:
    """A session could be sent to a provider that its host never named."""
    for site in (LOCAL, {"SUMMARIZER": "extractive"}, {"MODE": "deterministic"}):
        [problem] = find_problems(site, {"SUMMARIZER": "default"})
        assert problem.id == "compaction_app.E014"
    written = {"SUMMARIZERS": {"default": {"MODELS": ["a"]}}, "SUMMARIZER": "extractive"}
    assert find_problems(written, {"SUMMARIZER": "default"}) == []


# -- reading ---------------------------------------------------------------------------------------------


def test_without_the_dict_everything_is_a_default() -> None:
    with override_settings():
        del django_settings.COMPACTION
        assert get_settings() == settings_from_snapshot({})
        assert site_setting("MAX_MESSAGE_BYTES") == 4 * 1024 * 1024


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
    assert key in problem.msg


def test_an_override_is_judged_together_with_what_it_is_laid_over() -> None:
    [problem] = find_problems({"RECENT_MESSAGES_RATIO": 0.7}, {"TRIGGER_RATIO": 0.65})
    assert problem.id == "compaction_app.E010"
    assert find_problems({"TRIGGER_RATIO": 0.3}, {"TRIGGER_RATIO": 0.65}) == []


def test_a_run_keeps_the_settings_it_was_opened_with() -> None:
    """A snapshot is JSON and comes back as the same settings; what is not in it has its default."""
    overrides = {"MODE": "aggressive", "CONTEXT_WINDOW": 9000, "LOOKAHEAD": Lookahead.TIP}
    snapshot = get_settings(overrides).snapshot()
    assert type(snapshot["LOOKAHEAD"]) is str
    assert settings_from_snapshot(snapshot).snapshot() == snapshot
    assert settings_from_snapshot(snapshot).target_ratio == get_settings(overrides).target_ratio == 0.25
    with pytest.raises(ConfigurationError, match=r"The run's settings cannot be read: .*GONE"):
        settings_from_snapshot({**snapshot, "GONE": 1})
    assert settings_from_snapshot({"TARGET_RATIO": 0.4}).trigger_ratio == DEFAULTS["TRIGGER_RATIO"]


class TestChecking:
    """What was found right is not checked again, and nothing else is taken for it."""

    def test_the_same_settings_are_checked_once(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.COMPACTION = {"CONTEXT_WINDOW": 9000}
        first, overridden = get_settings(), get_settings({"CONTEXT_WINDOW": 8000})
        assert site_setting("TOKEN_COUNTER") == DEFAULTS["TOKEN_COUNTER"]
        monkeypatch.setattr(conf.Settings, "model_validate", lambda *_: pytest.fail("checked again"))
        assert get_settings({}) is first
        assert get_settings({"CONTEXT_WINDOW": 8000}) is overridden
        assert site_setting("TOKEN_COUNTER") == DEFAULTS["TOKEN_COUNTER"]

    def test_a_change_is_seen_at_once(self, settings: Any) -> None:
        settings.COMPACTION = {"CONTEXT_WINDOW": 9000}
        assert get_settings().context_window == 9000
        settings.COMPACTION["CONTEXT_WINDOW"] = 7000
        assert (get_settings().context_window, site_setting("CONTEXT_WINDOW")) == (7000, 7000)
        assert settings.COMPACTION == {"CONTEXT_WINDOW": 7000}, "nothing is written back"
        settings.COMPACTION = {"MODE": "aggressive"}
        assert get_settings({"TARGET_RATIO": 0.2}).mode == "aggressive"
        assert get_settings({"TARGET_RATIO": 0.3}).target_ratio == 0.3
