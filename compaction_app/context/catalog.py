"""What is known of a model by its name: its context window, and its price. Pure: the data is a package's, offline.

People and routers write one model in many ways: ``openai/gpt-4``, ``bedrock/us.anthropic.claude-sonnet-4-5-v1:0``,
``models/gemini-2.5-pro``, ``llama3:70b``, ``ft:gpt-4o-mini-2024-07-18:org::id``, a path to a file. :func:`readings`
reads the model's own name out of them. Its figures are those of ``genai-prices``, which others keep, with two short
tables around it: what it has wrong, and families that it does not know.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from compaction_app.conf import Price

#: Who makes models, as ``genai-prices`` calls them. A host of others' models may serve a smaller window.
_MAKERS = (
    "openai anthropic google x-ai mistral deepseek cohere moonshotai zhipuai minimax perplexity aws meta"
).split()

#: By the beginning of a name, blanks and dashes left out; the longest counts. Source: the makers' model pages.
#: Where ``genai-prices`` differs:
_CORRECTED = {
    4_096: "gpt3.5turboinstruct",
    16_385: "gpt3.5turbo16k",
    128_000: "chatgpt4o gpt4.5 gpt4visionpreview gpt5chat",
    131_072: "deepseekchat deepseekr1 deepseekreasoner",
    200_000: "codexmini",
    1_047_576: "gpt4.1",
    1_048_576: "gemini1.5flash gemini2 gemini3",
    2_097_152: "gemini1.5pro",
}
#: And what it does not have, open models most of all:
_FAMILIES = {
    4_096: "command commandlight llama2 phi3",
    8_192: "gemma llama3",
    16_384: "codellama phi4",
    32_768: "gemma3n mistral mixtral openmistral qwen2.5 qwenmax",
    40_960: "magistralmedium2506 magistralsmall2506 qwen3",
    65_536: "mixtral8x22b",
    100_000: "claude2.0 claudeinstant",
    128_000: "commandr novamicro",
    131_072: """deepseek devstral gemma3 gemma4 glm4 gptoss kimik2 llama3.1 llama3.2 llama3.3 magistral ministral
        mistrallarge mistralmedium mistralnemo mistralsmall openmistralnemo phi3.5 pixtral qwq""",
    200_000: "claude glm4.6 glm4.7 glm5",
    256_000: "codestral commanda",
    262_144: """devstral2 gemma426b gemma431b kimik20905 kimik2. kimik2thinking ministral3 mistrallarge2512
        mistrallarge3 mistrallargelatest qwen3. qwen3235ba22b2507 qwen3235ba22binstruct qwen3235ba22bthinking
        qwen330ba3binstruct qwen330ba3bthinking qwen34binstruct qwen34bthinking qwen3coder qwen3max qwen3next""",
    300_000: "nova",
    1_000_000: "qwenplus qwenturbo",
    1_048_576: "gemini llama4maverick",
    10_485_760: "llama4scout",
}

_VENDORS = (
    "ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|openai|qwen|writer|zai"
)
_REGION = re.compile(rf"(?:(?:global|us-gov|us|eu|apac|au|ca|jp)\.)?(?:(?:{_VENDORS})\.)?(?=[a-z])")
_FILE = re.compile(r"(?:[-.](?:i?q\d|f16|bf16|fp16)\w{0,12})?\.gguf$")
_DATE = re.compile(r"-(?:20\d{2}-?\d{2}-?\d{2}|\d{2}-20\d{2})(?![\d-])")
_ENDING = re.compile(r"-(?:latest|preview|v\d|instruct|chat|it|exp)$")
#: "llama3-1-70b" and "llama-v3p1-70b" are 3.1, "llama-3-8b" is 3.
_POINT = re.compile(r"(?<=\d)(?:-(?=\d(?![\db]))|p(?=\d))")
_VERSION = re.compile(r"-v(?=\d)")
_THOUSANDS = re.compile(r"[-_:](\d{1,4})k\b")


@lru_cache(maxsize=1_000)
def readings(model: str) -> tuple[str, ...]:
    """The model's own name in a name as people write it, then without its date and endings; each once."""
    # No model has a name that long; a session's owner may write anything.
    name = model[-200:].strip().lower().replace("\\", "/")
    if name.startswith("ft:"):
        name = name.split(":")[1]
    name = name.rstrip("/").rpartition("/")[2]
    name = _REGION.sub("", _FILE.sub("", name), count=1).partition("@")[0].partition(":")[0]
    found = [name]
    name = _DATE.sub("", name)
    while (shorter := _ENDING.sub("", name)) != name:
        found.append(name)
        name = shorter
    return tuple(dict.fromkeys([*found, name]))


@lru_cache(maxsize=1_000)
def known_window(model: str) -> int | None:
    """The context window in tokens; None where neither the data nor our tables have the model."""
    names = readings(model)
    if found := _by_family(names[0], _CORRECTED):
        return found
    if stated := _THOUSANDS.search(names[0]):
        return int(stated[1]) * 1_024
    # A deployment is often named after its model: "gpt-4o-mini-eu".
    parts = names[0].split("-")
    shorter = ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    windows = (info.context_window for info in _infos((*names, names[0].replace(".", "-"), *shorter)))
    return next((window for window in windows if window), None) or _by_family(names[0], _FAMILIES)


@lru_cache(maxsize=1_000)
def known_price(model: str) -> Price | None:
    """In US dollars; None where it is unknown or depends on the size."""
    info = next(_infos(readings(model)[:1]), None)
    if info is None or isinstance(info.prices, list):
        return None
    prices = {"input": info.prices.input_mtok, "output": info.prices.output_mtok, "cached": info.prices.cache_read_mtok}
    known = {name: price for name, price in prices.items() if isinstance(price, Decimal)}
    return Price(**known) if {"input", "output"} <= known.keys() else None


def _infos(names: tuple[str, ...]) -> Iterator[Any]:
    """What ``genai-prices`` has under these names, a maker's own entry first."""
    # It takes 0.2 s to import, which a process that asks no model need not wait for.
    from genai_prices.data_snapshot import get_snapshot

    providers = {provider.id: provider for provider in get_snapshot().providers}
    for name in names:
        for maker in _MAKERS:
            if maker in providers and (info := providers[maker].find_model(name)):
                yield info


def _by_family(name: str, windows: Mapping[int, str]) -> int | None:
    """The window of the longest beginning of the name that the table has."""
    squeezed = re.sub("[-_ ]", "", _POINT.sub(".", _VERSION.sub("-", name))).removeprefix("meta")
    starts = {start: window for window, names in windows.items() for start in names.split()}
    return max(((len(s), starts[s]) for s in starts if squeezed.startswith(s)), default=(0, None))[1]
