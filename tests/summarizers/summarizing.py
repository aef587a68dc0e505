"""What tests of summarizers share: requests built from parts, a cascade on a server, its failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from compaction_app.conf import AskedModel, Settings, settings_from_snapshot
from compaction_app.messages.transcript import largest_saving_summary
from compaction_app.summarizers.drafts import refuse_draft
from compaction_app.summarizers.openai import OpenAISummarizer
from compaction_app.summarizers.prompts import Prompt, SummarizerLimit
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.tokens import Count, ExactTokenCounter
from compaction_app.values import CompactionPlan, ErrorCode, Message, Role, Summary, SummaryRequest
from tests.small import asks
from tests.steps import echoing_validation_error, insufficient_quota, malformed, unauthorized

ENTRY_KEYS = {"BACKEND", "CHAT_MODELS", "TIMEOUT", "MAX_OUTPUT_TOKENS", "PROMPT"}
NONCE = "1f2e3d4c5b6a7980"
KEY_VARIABLE = "SCRIPTED_KEY"
KEY = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"
SECRET = "the launch code of the rocket is 7391-alpha"
GOOD = "## Rocket\n\nThe user is building a rocket, and you help with it."


def settings(*models: Any, **changes: Any) -> Settings:
    """The keys of an entry are those of the default summarizer. Its models are not checked: a call has to survive
    also what a host could not have written, such as an address from the environment."""
    entry = {key: changes.pop(key) for key in ENTRY_KEYS & set(changes)}
    made = settings_from_snapshot({**asks(**{"TIMEOUT": 5, **entry}), **changes})
    written = ({"model": model} if isinstance(model, str) else model for model in models)
    asked = tuple(AskedModel.model_construct(**options) for options in written)
    default = made.summarizers["default"].model_copy(update={"models": asked})
    return made.but(summarizers={**made.summarizers, "default": default})


def entry(server: ScriptedOpenAIServer, model: str, **options: Any) -> dict[str, Any]:
    return {"model": model, "base_url": server.url, "api_key_env": KEY_VARIABLE, **options}


def cascade(server: ScriptedOpenAIServer, *models: str, **options: Any) -> OpenAISummarizer:
    return OpenAISummarizer(settings(*(entry(server, model, **options) for model in models)))


def base(text: str, tokens: int = 0, **columns: Any) -> Summary | None:
    """A previous summary; None for no text."""
    if not text:
        return None
    at_start = {"anchor_id": 0, "anchor_depth": 0, "cutoff_id": 0, "cutoff_depth": 0, "cutoff_path_tokens": 0}
    return Summary(id=0, tokens=tokens, content=text, **at_start, **columns)


def request_of(
    *,
    covered: Sequence[Message],
    lookahead: Sequence[Message] = (),
    pinned: Message | None = None,
    base_text: str = "",
    base_columns: Mapping[str, Any] | None = None,
    target_tokens: int = 1000,
    replaced_tokens: int = 0,
    previous_tokens: int = 0,
    reasoning: str = "summarize",
    summary_prompt: str | None = None,
    nonce: str = NONCE,
    memory: str = "",
    memory_tokens: int = 0,
    **options: Any,
) -> SummaryRequest:
    """The request of a plan with these parts; ``options`` are those of :class:`Prompt`."""
    asked = settings(MAX_OUTPUT_TOKENS=5000, REASONING=reasoning, PROMPT=summary_prompt)
    plan = CompactionPlan(
        covered=tuple(covered),
        lookahead=tuple(lookahead),
        kept=(),
        base=base(base_text, previous_tokens, **base_columns or {}),
        turn_request=pinned,
        cutoff=covered[-1] if covered else Message(id=1, depth=1, role=Role.USER, tokens=1),
        anchor_id=1,
        anchor_depth=1,
        target_tokens=target_tokens,
        replaced_tokens=replaced_tokens,
        most_tokens=largest_saving_summary(replaced_tokens, asked.min_saving_ratio),
    )
    prompt = Prompt(asked, **options)
    return prompt.beside(prompt.request(plan, nonce), plan, memory, memory_tokens)


def sizes(
    count: Count,
    memory_tokens: int = 0,
    *,
    reasoning: str = "summarize",
    summary_prompt: str | None = None,
    **options: Any,
) -> SummarizerLimit:
    asked = settings(MAX_OUTPUT_TOKENS=5000, REASONING=reasoning, PROMPT=summary_prompt)
    return SummarizerLimit(100_000, Prompt(asked, **options), count, memory_tokens)


def request(**changes: Any) -> SummaryRequest:
    """One with a secret in it."""
    covered = [
        Message(id=1, depth=1, role=Role.USER, tokens=20, content=SECRET),
        Message(id=2, depth=2, role=Role.ASSISTANT, tokens=20, content="I will keep that to myself."),
    ]
    return request_of(**{"covered": covered, "target_tokens": 100, **changes})


ACCEPT = partial(refuse_draft, request=request(), most_tokens=1800, count=ExactTokenCounter())

FAILURES: list[Any] = [
    pytest.param(steps.rate_limited(), ErrorCode.PROVIDER_ERROR, True, id="rate limited"),
    pytest.param(insufficient_quota(), ErrorCode.QUOTA, False, id="no quota"),
    pytest.param(steps.bad_request(status=402), ErrorCode.QUOTA, False, id="payment required"),
    pytest.param(steps.server_error(), ErrorCode.PROVIDER_ERROR, True, id="500"),
    pytest.param(steps.bad_request(status=408), ErrorCode.TIMEOUT, True, id="408"),
    pytest.param(steps.drop(), ErrorCode.PROVIDER_ERROR, True, id="dropped"),
    pytest.param(malformed(), ErrorCode.PROVIDER_ERROR, True, id="cut-off JSON"),
    pytest.param(malformed(b"<html>", "text/html"), ErrorCode.PROVIDER_ERROR, True, id="a page"),
    pytest.param(malformed(b"{}"), ErrorCode.PROVIDER_ERROR, True, id="no choices"),
    pytest.param(malformed(b'{"choices": [{}]}'), ErrorCode.PROVIDER_ERROR, True, id="no message"),
    pytest.param(unauthorized(), ErrorCode.AUTHENTICATION, False, id="401"),
    pytest.param(steps.bad_request(), ErrorCode.BAD_REQUEST, False, id="400"),
    pytest.param(echoing_validation_error(), ErrorCode.BAD_REQUEST, False, id="422"),
    pytest.param(steps.context_overflow(), ErrorCode.INPUT_TOO_LARGE, False, id="overflow"),
    pytest.param(steps.bad_request(status=413), ErrorCode.INPUT_TOO_LARGE, False, id="413"),
    pytest.param(steps.refusal(), ErrorCode.REFUSED, False, id="refusal"),
    pytest.param(steps.reply(f"{GOOD}\x00"), ErrorCode.INVALID_TEXT, False, id="NUL"),
]
