"""Settings: one dict, ``COMPACTION``, every key optional.

``MODE`` picks a preset, an explicit key overrides the preset, and a session's own setting overrides both.
:func:`get_settings` reads Django's settings each time, so ``override_settings`` works; nothing is written back.
:func:`find_problems` finds what is wrong: the system checks report it, and :func:`get_settings` raises it.
"""

import importlib
import importlib.util
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from urllib.parse import urldefrag, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  # Django's names for them
from django.utils.module_loading import import_string
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    TypeAdapter,
    ValidationError,
    field_serializer,
    model_validator,
)

from compaction_app.exceptions import ConfigurationError

MIB = 1024 * 1024
#: The most that an integer column stores on every database, and more tokens, bytes or messages than anyone has.
MAX_INTEGER = 2**31 - 1
#: About thirty years. With a larger number Python could not compute a date in the future.
MAX_SECONDS = 10**9
#: Seconds beyond the models' time-outs for reading the branch, the ledger and the commit, where RUN_TIME_LIMIT is None.
LOCAL_SECONDS = 600.0
#: Per million tokens. Above any real price, and low enough for the column that stores a run's cost.
MAX_PRICE = 10_000
#: The default ``TOKEN_COUNTER``, which needs a package that is an extra.
EXACT_COUNTER = "compaction_app.tokens.ExactTokenCounter"
#: It has no wheel for musl, the C library of Alpine.
NO_TOKENIZER = "The exact tokenizer, toktok-rs, is not installed."
USE_CHARACTERS = (
    "Install it: pip install 'django-chat-compaction[exact]'. Where it has no wheel, set COMPACTION['TOKEN_COUNTER'] "
    "to 'compaction_app.tokens.CharacterTokenCounter'."
)


# -- choices and presets ------------------------------------------------------------------------------------


class Mode(StrEnum):
    OFF = "off"
    MANUAL = "manual"
    STANDARD = "standard"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"
    DETERMINISTIC = "deterministic"


class PruneWhen(StrEnum):
    PRESSURE = "pressure"
    ALWAYS = "always"


class Lookahead(StrEnum):
    PREVIOUS_TURN = "previous_turn"
    TIP = "tip"
    NONE = "none"


class ReasoningRule(StrEnum):
    SUMMARIZE = "summarize"
    DROP = "drop"


PRESETS: dict[str, dict[str, Any]] = {
    Mode.OFF: {},
    Mode.MANUAL: {},
    Mode.STANDARD: {},
    Mode.CONSERVATIVE: {"RECENT_MESSAGES_RATIO": 0.10},
    Mode.AGGRESSIVE: {
        "TRIGGER_RATIO": 0.60,
        "PRUNE_TOOL_RESULT_BYTES": 1024,
        "TARGET_RATIO": 0.25,
        "MICRO_COMPACT": True,
    },
    Mode.DETERMINISTIC: {"PRUNE": PruneWhen.ALWAYS, "SUMMARIZER": "extractive"},
}


# -- types of values: what pydantic does not know by itself ----------------------------------------------------

_ADDRESS = TypeAdapter(HttpUrl)


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a non-empty string")
    # A run stores a snapshot of the settings.
    if "\x00" in value or value.encode(errors="replace").decode() != value:
        raise ValueError("must not contain NUL or lone surrogates")
    return value


def find_address_error(url: str) -> str | None:
    """What is wrong with the address of an OpenAI-compatible endpoint."""
    try:
        _ADDRESS.validate_python(url)
    except ValidationError:
        return "must be an http(s) address such as 'http://localhost:8000/v1'"
    return None


def _base_url(value: str) -> str:
    if wrong := find_address_error(value):
        raise ValueError(wrong)
    if "@" in urlsplit(value).netloc:
        # Each run stores its settings.
        raise ValueError("must not contain a user name or a password: name the environment variable in api_key_env")
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    # The last two: a path, a folder of zones, or NUL.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be the name of a time zone, such as 'Europe/Berlin'") from None
    return value


def _function(path: str) -> str:
    """A dotted path to a function, or to a callable class, which is not called: making one may load a model."""
    called = _imported(path)
    if not callable(called):
        raise ValueError("must name a function, or a class whose instances are called like one")  # noqa: TRY004  # see _class
    # An async function returns a coroutine, which always counts as true.
    if inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None)):  # noqa: B004
        raise ValueError("must name a synchronous function, not an async one")
    return path


def _imported(path: str) -> Any:
    try:
        return import_string(path)
    except Exception as error:  # whatever a module of the host raises
        raise ValueError(f"names {path!r}, which cannot be imported: {error}") from error


def _class(path: str) -> str:
    if not isinstance(_imported(path), type):
        raise ValueError("must name a class")  # noqa: TRY004  # pydantic collects ValueErrors
    return path


Whole = Annotated[int, Field(strict=True, ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(strict=True, ge=1, le=MAX_INTEGER)]
Ratio = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, lt=1)]
Seconds = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=MAX_SECONDS)]
PositiveSeconds = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=MAX_SECONDS)]
Amount = Annotated[Decimal, Field(allow_inf_nan=False, ge=0, le=MAX_PRICE)]
Flag = Annotated[bool, Field(strict=True)]
#: ``RECALL``: also what is not summarized is in the search index.
RECALL_ALL = "all"
Word = Annotated[str, Field(strict=True)]
Text = Annotated[Word, AfterValidator(_text)]
Function = Annotated[Word, AfterValidator(_function)]
SPENDING_LIMIT = re.compile(r"([1-9]\d{0,14}) (runs|tokens)/([hd])", re.ASCII)


def _like(pattern: str, example: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"must look like {example}")
        return value

    return AfterValidator(check)


Throttle = Annotated[Word, _like(r"\d+/[smhd]", "'10/m' (s, m, h or d)")]
Limit = Annotated[Word, _like(SPENDING_LIMIT.pattern, "'20 runs/h' or '2000000 tokens/d' (h or d)")]


def _find_unknown(given: Iterable[Any], known: Iterable[str]) -> tuple[list[str], str]:
    """Keys that are not known, and a hint; the first ten: a session's owner may write any number."""
    names = {name.upper(): name for name in known}
    unknown = sorted(str(key)[:100] for key in given if key not in names.values())[:10]
    hints = [f"{key} is {_MOVED[key]}." for key in unknown if key in _MOVED]
    others = [key for key in unknown if key not in _MOVED]
    if near := dict.fromkeys(names[near] for key in others for near in get_close_matches(key.upper(), names, 1)):
        hints.append(f"Did you mean {', '.join(near)}?")
    if others:
        hints.append(f"Known keys are {', '.join(names.values())}.")
    return unknown, " ".join(hints)


class _Values(BaseModel):
    """A dict of known keys, which are the fields' names in upper case or, below the first levels, as they are."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown, hint = _find_unknown(value, known)
        if unknown:
            raise ValueError(f"has unknown keys {', '.join(unknown)}. {hint.removesuffix('.')}")
        return value


# -- the keys, with their types and defaults -------------------------------------------------------------------


class AskedModel(_Values):
    """A model that is asked for summaries. A name alone is written as a text."""

    model: Text
    #: None: the client's own default, ``OPENAI_BASE_URL`` or OpenAI.
    base_url: Annotated[Text, AfterValidator(_base_url)] | None = None
    #: Name of the environment variable with the key.
    api_key_env: Text | None = None
    #: Seconds; None: the entry's ``TIMEOUT``.
    timeout: PositiveSeconds | None = None
    #: Tokens; None: the model's window less the longest reply.
    max_input_tokens: Positive | None = None

    @field_serializer("base_url")
    def _stored_address(self, url: str | None) -> str | None:
        """Without its query: some endpoints are given a key there."""
        return url and urldefrag(url).url.partition("?")[0]


#: How long OpenAI and Anthropic keep a prompt at least, if nothing else is asked for.
_USUAL_CACHE_SECONDS = 300.0

Asked = Annotated[AskedModel, BeforeValidator(lambda value: {"model": value} if isinstance(value, str) else value)]


class SummarizerEntry(_Values):
    """One of ``SUMMARIZERS``: a class, the models that it asks, and how."""

    model_config = ConfigDict(alias_generator=str.upper)

    #: A subclass of :class:`compaction_app.summarizers.Summarizer`.
    backend: Annotated[Word, AfterValidator(_class)] = "compaction_app.summarizers.OpenAISummarizer"
    #: Asked in order.
    models: tuple[Asked, ...] = (AskedModel(model="gpt-5.4-nano"),)
    #: The chat models that are asked last, for sessions that use them. No other chat model is ever sent a conversation.
    chat_models: tuple[Asked, ...] = ()
    #: Seconds for each model.
    timeout: PositiveSeconds = 30
    #: Tokens of a draft.
    max_output_tokens: Positive = 20_000
    #: Replaces the wording of the prompt.
    prompt: Text | None = None
    #: Ask with the chat's own last prompt, for this many seconds after its reply: the provider caches it. True: 300.
    warm: Flag | PositiveSeconds = False

    @property
    def warm_seconds(self) -> float:
        return _USUAL_CACHE_SECONDS if self.warm is True else float(self.warm)

    @property
    def longest_seconds(self) -> float:
        """The longest that all its models can take: each one's time-out twice, for the tighter retry.

        Of the chat models a session has its own at most. One of all is asked with the chat's prompt before.
        """
        last = max((one.timeout or self.timeout for one in self.chat_models), default=0.0)
        each = [one.timeout or self.timeout for one in set(self.models)]
        return 2 * (sum(each) + last + (max([*each, last]) if self.warm else 0))


class Choice(_Values):
    """``SUMMARIZER``: the name of an entry, and what a session asks of it instead of the entry's own."""

    model_config = ConfigDict(alias_generator=str.upper)

    name: Text = "default"
    timeout: PositiveSeconds | None = None
    max_output_tokens: Positive | None = None
    prompt: Text | None = None


def _as_choice(value: Any) -> Any:
    """A name alone is written as a text."""
    return {"NAME": value} if isinstance(value, str) else value


class Price(_Values):
    """Per million tokens, in the host's own currency."""

    input: Amount
    output: Amount
    #: None: as ``input``.
    cached: Amount | None = None


class ModelOptions(_Values):
    """One of ``MODELS``: what a host says of a chat model or of a summarizer's."""

    #: Tokens of the context window.
    window: Positive | None = None
    trigger_ratio: Ratio | None = None
    price: Price | None = None


EXTRACTIVE = "extractive"
_BUILT_IN = {
    "default": SummarizerEntry(),
    EXTRACTIVE: SummarizerEntry.model_construct(backend="compaction_app.summarizers.ExtractiveSummarizer"),
}


def _key(number: int, default: Any, *, site_only: bool = False) -> Any:
    """A key of ``COMPACTION``. A session may override it unless it names code or belongs to the whole site.

    ``number``: of its check's id, so that hosts can silence one; it is never given to another key.
    """
    return Field(default, json_schema_extra={"id": f"compaction_app.E{number}", "site_only": site_only})


class Settings(_Values):
    """The settings of one session: the keys of ``COMPACTION`` in lower case."""

    model_config = ConfigDict(alias_generator=str.upper)

    mode: Mode = _key(100, Mode.STANDARD)
    trigger_ratio: Ratio = _key(101, 0.75)
    recent_messages_ratio: Ratio = _key(102, 0.20)
    prune_tool_result_bytes: Positive = _key(103, 4096)
    target_ratio: Ratio = _key(104, 0.50)
    context_window: Positive | None = _key(105, None)
    default_context_window: Positive = _key(107, 128_000)
    reserved_tokens: Whole = _key(108, 8192)
    trigger_tokens_cap: Positive = _key(109, 200_000)
    recent_tokens_cap: Whole = _key(110, 40_000)
    preserve_recent_messages: Annotated[Positive, Field(ge=2)] = _key(111, 2)
    lookahead: Lookahead = _key(112, Lookahead.PREVIOUS_TURN)
    prune: PruneWhen = _key(114, PruneWhen.PRESSURE)
    prune_keep_turns: Positive = _key(115, 3)
    micro_compact: Flag = _key(116, default=False)
    reasoning: ReasoningRule = _key(117, ReasoningRule.SUMMARIZE)
    summary_target_tokens: Positive = _key(118, 7500)
    ledger_tokens: Whole | None = _key(119, None)
    min_saving_ratio: Ratio = _key(121, 0.10)
    cooldown_seconds: Seconds = _key(122, 60)
    summarizer: Annotated[Choice, BeforeValidator(_as_choice)] = _key(126, Choice())
    token_counter: Function = _key(132, EXACT_COUNTER, site_only=True)
    redactor: Function | None = _key(133, None, site_only=True)
    policy: Function | None = _key(134, None, site_only=True)
    permission: Function | None = _key(135, None, site_only=True)
    provider_context_management: Flag = _key(136, default=False)
    max_message_bytes: Positive = _key(138, 4 * MIB, site_only=True)
    manual_throttle: Throttle | None = _key(139, "10/m", site_only=True)
    task_queue: Text | None = _key(140, None, site_only=True)
    run_time_limit: PositiveSeconds | None = _key(141, None, site_only=True)
    spending_limits: dict[Literal["session", "user"], tuple[Limit, ...]] = _key(143, {}, site_only=True)
    summarizers: dict[Text, SummarizerEntry] = _key(145, _BUILT_IN, site_only=True)
    alternate_roles: Flag = _key(147, default=False)
    events_kept_days: Annotated[Positive, Field(le=MAX_SECONDS // 86_400)] | None = _key(148, None, site_only=True)
    time_zone: Annotated[Word, AfterValidator(_time_zone)] | None = _key(149, None)
    attachment_url: Function | None = _key(150, None, site_only=True)
    models: dict[str, ModelOptions] = _key(151, {}, site_only=True)
    extract_fallback: Flag = _key(152, default=True)
    enqueue: Function | None = _key(153, None, site_only=True)
    recall: Flag | Literal["all"] = _key(154, default=True, site_only=True)

    @property
    def summarizer_entry(self) -> SummarizerEntry:
        """The entry of ``SUMMARIZER`` with the session's own changes; the default one where it is gone."""
        entry = self.summarizers.get(self.summarizer.name) or _BUILT_IN["default"]
        changes = self.summarizer.model_dump(exclude_none=True, exclude={"name"})
        return entry.model_copy(update=changes) if changes else entry

    @property
    def time_limit(self) -> float:
        """Seconds after which a run fails, whatever it is doing then."""
        longest = self.summarizer_entry.longest_seconds + LOCAL_SECONDS
        return longest if self.run_time_limit is None else self.run_time_limit

    def stated(self, name: Literal["window", "trigger_ratio", "price"]) -> dict[str, Any]:
        """What ``MODELS`` says of this, by model."""
        options = ((model, getattr(one, name)) for model, one in self.models.items())
        return {model: value for model, value in options if value is not None}

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed, unchecked."""
        return self.model_copy(update=changes)

    def snapshot(self) -> dict[str, Any]:
        """As JSON, stored with a run. Contains names of environment variables, never their values; of
        ``SUMMARIZERS`` only the entry that is used."""
        name = self.summarizer.name
        used = {name: self.summarizers[name]} if name in self.summarizers else {}
        return self.but(summarizers=used).model_dump(mode="json", by_alias=True)


DEFAULTS: dict[str, Any] = {name.upper(): field.default for name, field in Settings.model_fields.items()}
KEYS: dict[str, Any] = {name.upper(): field.json_schema_extra for name, field in Settings.model_fields.items()}
SITE_ONLY = frozenset(key for key, extra in KEYS.items() if extra["site_only"])
#: Keys of earlier versions, and what became of them.
_MOVED = {
    "SUMMARIZER_MODELS": "now SUMMARIZERS['default']['MODELS']",
    "SUMMARIZER_CHAT_MODELS": "now CHAT_MODELS of the entry in SUMMARIZERS that may ask them",
    "SUMMARIZER_TIMEOUT": "now SUMMARIZERS['default']['TIMEOUT']",
    "SUMMARIZER_MAX_OUTPUT_TOKENS": "now SUMMARIZERS['default']['MAX_OUTPUT_TOKENS']",
    "SUMMARY_PROMPT": "now SUMMARIZERS['default']['PROMPT'], or SUMMARIZER = {'PROMPT': …} of a session",
    "SUMMARIZER_NAME": "now SUMMARIZER",
    "CONTEXT_WINDOWS": "now MODELS, as {'my-model': {'window': 32_000}}",
    "TRIGGER_RATIOS": "now MODELS, as {'my-model': {'trigger_ratio': 0.6}}",
    "PRICES": "now MODELS, as {'my-model': {'price': {'input': 0.2, 'output': 1.2}}}",
    **dict.fromkeys(
        "COVERAGE_RATIO MIN_SUMMARY_CHARS LOOKAHEAD_TOKENS BREAKER_FAILURES BREAKER_SECONDS SUMMARY_ROLE".split(),
        "fixed now: remove it",
    ),
}
#: The problem of a ``SUMMARIZER`` that ``SUMMARIZERS`` does not have.
UNKNOWN_SUMMARIZER = "compaction_app.E014"
#: That of a session that asks for a longer time-out than its site does.
BEYOND_THE_SITE = "compaction_app.E017"


# -- problems ------------------------------------------------------------------------------------------------


def _exception(problem: CheckMessage) -> ConfigurationError:
    return ConfigurationError(f"{problem.msg} {problem.hint}", problem_id=problem.id)


#: Where a value comes from, as problems name it.
SITE, SESSION = "settings.COMPACTION", "the session's settings"


def find_problems(configured: Any, overrides: Any = None) -> list[CheckMessage]:
    """Everything wrong with the settings dict and a session's overrides."""
    return _read(configured, overrides, SITE)[1]


def _read(configured: Any, overrides: Any, where: str) -> tuple[Settings | None, list[CheckMessage]]:
    given = [(configured, where)] + ([] if overrides is None else [(overrides, SESSION)])
    problems = [problem for values, place in given for problem in _shape_problems(values, place)]
    if problems and any(not isinstance(values, Mapping) for values, _ in given):
        return None, problems
    if overrides and (site_only := sorted(SITE_ONLY & set(overrides))):
        message = f"A session may not override {', '.join(site_only)}."
        problems.append(Error(message, hint="Set it in settings.COMPACTION instead.", id="compaction_app.E003"))
    values = _merged(configured, overrides)
    try:
        settings = Settings.model_validate({key: values[key] for key in values if key in DEFAULTS})
    except ValidationError as error:
        found = {str(one["loc"][0]): one for one in reversed(error.errors(include_url=False))}
        places = {key: SESSION if key in (overrides or {}) else where for key in found}
        return None, problems + [_problem_of(found[key], places[key]) for key in DEFAULTS if key in found]
    problems = problems or _relation_problems(settings)
    asked = settings.summarizer.timeout
    if overrides and asked is not None:
        # A worker waits for so long. What was stored before the site allowed less is cut, not refused.
        by_site = (_as_choice(configured.get("SUMMARIZER")) or {}).get("TIMEOUT")
        site = settings.but(summarizer=settings.summarizer.model_copy(update={"timeout": by_site}))
        if asked > (most := site.summarizer_entry.timeout):
            message = f"{SESSION}['SUMMARIZER']['TIMEOUT'] is {asked:g} seconds, more than the site's {most:g}."
            problems.append(Error(message, hint="Ask for less, or raise the site's TIMEOUT.", id=BEYOND_THE_SITE))
            settings = site
    return settings, problems


def _shape_problems(candidate: Any, where: str) -> list[CheckMessage]:
    if not isinstance(candidate, Mapping):
        message = f"{where} must be a dict, not {type(candidate).__name__}."
        return [Error(message, hint="Use a dict of keys.", id="compaction_app.E001")]
    unknown, hint = _find_unknown(candidate, DEFAULTS)
    words = f"{where} has unknown keys: {', '.join(unknown)}."
    return [Error(words, hint=hint, id="compaction_app.E002")] if unknown else []


#: In the place of pydantic's words for these kinds of errors, which name Python's types.
_PLAINER = {
    "model_type": "must be a dict",
    "dict_type": "must be a dict",
    "tuple_type": "must be a list",
    "missing": "must be given",
}


def _problem_of(error: Mapping[str, Any], where: str = SITE) -> CheckMessage:
    """What pydantic found, in the words of the other problems."""
    key, value, kind = str(error["loc"][0]), error["input"], error["type"]
    # A union names the type that a value was tried as.
    path = [part for part in error["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    wrong = re.sub(r"^(?:Decimal )?[Ii]nput should", "must", error["msg"].removeprefix("Value error, "))
    if kind == "less_than" and error["ctx"]["lt"] == 1 and 2 <= value < 100:
        wrong += f" ({value / 100:g} for {value:g} %)"
    wrong = _PLAINER.get(kind, wrong)
    # Check output ends up in logs, and a model's entry may contain an API key by mistake.
    is_shown = (
        key not in ("SUMMARIZER", "SUMMARIZERS", "MODELS") and kind != "missing" and "cannot be imported" not in wrong
    )
    shown = f", not {value!r}" if is_shown and not wrong.startswith("has unknown keys") else ""
    if path[-1] == "[key]":
        # So pydantic calls what is wrong with a key itself.
        *path, named, _ = path
        wrong = f"has the key {named!r}, which {wrong}"
        shown = ""
    place = where.removeprefix("settings.") + "".join(f"[{part!r}]" for part in path)
    return Error(f"{place} {wrong}{shown}.", hint=f"Correct or remove {key}.", id=KEYS[key]["id"])


def _relation_problems(settings: Settings) -> list[CheckMessage]:
    problems: list[CheckMessage] = []
    ratios = {"TRIGGER_RATIO": settings.trigger_ratio}
    ratios |= {f"trigger_ratio of MODELS[{model!r}]": one for model, one in settings.stated("trigger_ratio").items()}
    kept = [
        ("compaction_app.E010", "RECENT_MESSAGES_RATIO", name)
        for name, ratio in ratios.items()
        if settings.recent_messages_ratio >= ratio
    ]
    if settings.recent_tokens_cap >= settings.trigger_tokens_cap:
        kept.append(("compaction_app.E011", "RECENT_TOKENS_CAP", "TRIGGER_TOKENS_CAP"))
    for check_id, recent, trigger in kept:
        message = f"{recent} must be below {trigger}, or a compaction would cover nothing."
        problems.append(Error(message, hint=f"Lower {recent} or raise {trigger}.", id=check_id))
    window = settings.context_window or settings.default_context_window
    reserved = min(settings.reserved_tokens, window // 4)
    available = window - reserved
    summary = min(settings.summary_target_tokens, int(0.15 * available))
    recent_tokens = min(settings.recent_tokens_cap, int(settings.recent_messages_ratio * available))
    if summary + recent_tokens + reserved >= window:
        parts = f"Summary target {summary} + recent {recent_tokens} + reserved {reserved} tokens"
        hint = "Lower SUMMARY_TARGET_TOKENS, RECENT_MESSAGES_RATIO or RESERVED_TOKENS."
        problems.append(Error(f"{parts} fill the window of {window}.", hint=hint, id="compaction_app.E012"))
    if (name := settings.summarizer.name) not in settings.summarizers:
        message = f"SUMMARIZER {name!r} is not in SUMMARIZERS, which has {', '.join(settings.summarizers)}."
        hint = "Choose one of them, or add it there: a class is the BACKEND of an entry."
        problems.append(Error(message, hint=hint, id=UNKNOWN_SUMMARIZER))
    for name, entry in settings.summarizers.items():
        has_own_address = any(asked.base_url or asked.api_key_env for asked in entry.models)
        bare = next((asked.model for asked in entry.chat_models if not asked.base_url), "")
        if has_own_address and bare:
            message = (
                f"CHAT_MODELS of SUMMARIZERS[{name!r}] lists {bare!r} without a base_url, but another of its models "
                "has an address or a key of its own: a conversation could leave for the default address."
            )
            hint = f"Give {bare!r} the base_url that it may be sent to."
            problems.append(Error(message, hint=hint, id="compaction_app.E013"))
    if settings.token_counter == EXACT_COUNTER and importlib.util.find_spec("toktok") is None:
        problems.append(Error(NO_TOKENIZER, hint=USE_CHARACTERS, id="compaction_app.E015"))
    unusual = [(name, ratio) for name, ratio in ratios.items() if not 0.5 <= ratio <= 0.95]
    for name, ratio in unusual if not problems else ():
        message = f"{name} {ratio} is outside 0.5 to 0.95: compaction will be frequent, or too late."
        hint = "Use a value from 0.5 to 0.95, unless this is a test."
        problems.append(Warning(message, hint=hint, id="compaction_app.W001"))
    if settings.provider_context_management and settings.mode != Mode.OFF:
        both = "the provider and compaction_app would both shorten the conversation"
        message = f"PROVIDER_CONTEXT_MANAGEMENT is set: {both}."
        hint = "Turn off one of them: the provider's context management, or this app with MODE 'off'."
        problems.append(Warning(message, hint=hint, id="compaction_app.W003"))
    return problems


# -- reading -------------------------------------------------------------------------------------------------


#: What was found right: settings by the session's overrides, and single keys. Checking them imports code. The first
#: part of a key is how ``COMPACTION`` is written, so another dict, or one that was changed in place, is read again.
_known: dict[tuple[str, str], Any] = {}
_MOST_KNOWN = 1_000


def get_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """The current settings, with a session's ``overrides`` on top; :class:`ConfigurationError` if wrong."""
    key = repr(_configured()), repr(overrides or {})
    # Another thread may clear what is known at any time.
    found: Settings | None = _known.get(key)
    if found is None:
        # Where a site removes a summarizer that sessions have chosen, only their compactions fail.
        found = settings_from(_configured(), SITE, overrides or None, tolerated=(UNKNOWN_SUMMARIZER, BEYOND_THE_SITE))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def find_session_error(overrides: Any) -> ConfigurationError | None:
    """The first error in a session's overrides, or in the site's settings below them."""
    found = find_problems(_configured(), overrides)
    return next((_exception(problem) for problem in found if problem.is_serious()), None)


def settings_from(configured: Any, where: str, overrides: Any = None, *, tolerated: Collection[str] = ()) -> Settings:
    """The settings of a dict with the keys of ``COMPACTION``, without Django's; problems call it ``where``.

    ``tolerated``: ids of problems that are no errors here.
    """
    settings, problems = _read(configured, overrides, where)
    for problem in problems:
        if problem.is_serious() and problem.id not in tolerated:
            raise _exception(problem)
    assert settings is not None
    return settings


def settings_from_snapshot(snapshot: Mapping[str, Any]) -> Settings:
    """The settings that a run was opened with; :class:`ConfigurationError` where they cannot be read.

    Nothing is guessed: a key that is not known may have said where the conversation may be sent.
    """
    try:
        return Settings.model_validate(snapshot)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"The run's settings cannot be read: {first['loc']} {first['msg']}") from None


def site_setting(key: str) -> Any:
    """One key of the site's settings, checked alone: a mistake in another key must not stop a chat turn."""
    configured = _configured()
    place = repr(configured), key
    with suppress(KeyError):
        return _known[place]
    if not isinstance(configured, Mapping):
        raise _exception(_shape_problems(configured, SITE)[0])
    values = _merged(configured, None)
    try:
        settings = Settings.model_validate({key: values[key]} if key in values else {})
    except ValidationError as error:
        raise _exception(_problem_of(error.errors(include_url=False)[0])) from None
    return _known.setdefault(place, getattr(settings, key.lower()))


def get_token_counter() -> Any:
    """An instance of the site's ``TOKEN_COUNTER``."""
    return load_function(site_setting("TOKEN_COUNTER"))


def warm_up() -> None:
    """Load the tokenizer and the OpenAI client now, which the first turn would otherwise wait for.

    Call it where a server's process begins: in ``wsgi.py`` or ``asgi.py``, after the application was made. Django calls
    ``AppConfig.ready`` in every management command too, and those need not wait.
    """
    get_token_counter()([""])
    importlib.import_module("openai")


def load_function(dotted_path: str) -> Any:
    """The function at a dotted path, or an instance of the class there: a host may write a hook as either."""
    named = import_string(dotted_path)
    return named() if isinstance(named, type) else named


def _configured() -> Any:
    return getattr(django_settings, "COMPACTION", {})


def _merged(configured: Mapping[str, Any], overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    own = overrides or {}
    mode = {**configured, **own}.get("MODE")
    # A mode of another type may not be hashable; its type reports it.
    preset = PRESETS.get(mode, {}) if isinstance(mode, str) else {}
    site = {**preset, **configured}
    if "MODE" in own and "SUMMARIZER" in preset:
        # A session whose mode asks no model is not sent to the one that the site asks.
        site["SUMMARIZER"] = preset["SUMMARIZER"]
    values = {**site, **own}
    if isinstance(chosen := own.get("SUMMARIZER"), Mapping):
        # What a session asks for is asked of the summarizer that the site has chosen, wherever that sends it.
        below = _as_choice(site.get("SUMMARIZER"))
        values["SUMMARIZER"] = {**below, **chosen} if isinstance(below, Mapping) else chosen
    if isinstance(written := values.get("SUMMARIZERS", {}), Mapping):
        offered: dict[str, Any] = {EXTRACTIVE: {"BACKEND": _BUILT_IN[EXTRACTIVE].backend}}
        by_site = _as_choice({**preset, **configured}.get("SUMMARIZER", {}))
        # Where the site has chosen another one, its sessions do not find one that it never wrote.
        if isinstance(by_site, Mapping) and by_site.get("NAME", "default") == "default":
            offered = {"default": {}, **offered}
        values["SUMMARIZERS"] = {**offered, **written}
    return values
