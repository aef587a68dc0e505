# ruff: noqa: E501  # messages as providers send them
"""Whether an error is an overflow, and what it says of the window: the dialects of providers, clients and gateways."""

from __future__ import annotations

import time
from typing import Any

import pytest

from compaction_app.context.overflow import Overflow, find_output_limit, find_overflow

pytestmark = pytest.mark.pure

#: Status, body as the client hands it on, and the window, the tokens sent and whether it is a rate.
OVERFLOWS: list[tuple[int | None, Any, Overflow]] = [
    (
        400,
        {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
        Overflow(8192, 9000),
    ),
    (
        400,
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.",
        Overflow(272000, 300000),
    ),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8192 tokens. However, you requested 26000 tokens (6000 in the messages, 20000 in the completion). Please reduce the length of the messages or completion.",
            "code": 400,
        },
        Overflow(8192, 6000),
    ),
    (
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 20000. This model's maximum context length is 8192 tokens and your request has 6000 input tokens (20000 > 8192 - 6000).",
        Overflow(8192, 6000),
    ),
    (
        400,
        "You passed 6000 input tokens and requested 20000 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 1.",
        Overflow(8192, 6000),
    ),
    (
        400,
        "You passed 6000 input tokens and 20000 output tokens. Its context length is only 8192",
        Overflow(8192, 6000),
    ),
    (
        400,
        "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=262145)",
        Overflow(262144, 262145),
    ),
    (
        400,
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.",
        Overflow(8192, 9000),
    ),
    (
        400,
        {
            "error": {
                "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 8192,
            }
        },
        Overflow(8192, 9000),
    ),
    (
        500,
        {
            "error": {
                "message": "the request exceeds the available context size. try increasing the context size or enable context shift",
                "type": "server_error",
                "code": 500,
            }
        },
        Overflow(None, None),
    ),
    (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 209303 tokens > 200000 maximum"},
        },
        Overflow(200000, 209303),
    ),
    (
        400,
        "input length and `max_tokens` exceed context limit: 6000 + 20000 > 8192, decrease input length or `max_tokens` and try again",
        Overflow(8192, 6000),
    ),
    (
        413,
        {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
        Overflow(None, None),
    ),
    (
        413,
        {"type": "request_too_large", "message": "Request exceeds the maximum allowed number of bytes."},
        Overflow(None, None),
    ),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", Overflow(None, None)),
    (413, None, Overflow(None, None)),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        Overflow(1048576, 1048577),
    ),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count exceeds the maximum number of tokens allowed 1048576.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        Overflow(1048576, None),
    ),
    (
        400,
        "Unable to submit request because the input token count is 32970 but model only supports up to 32768. Reduce the input token count and try again.",
        Overflow(32768, 32970),
    ),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum context length",
            "type": "invalid_request_error",
            "code": "3051",
        },
        Overflow(8192, 9000),
    ),
    (
        400,
        'This endpoint\'s maximum context length is 8192 tokens. However, you requested about 26000 tokens (6000 of text input, 20000 in the output). Please reduce the length of either one, or use the "middle-out" transform',
        Overflow(8192, 6000),
    ),
    (
        400,
        {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {
                "raw": '{"error":{"message":"prompt is too long: 209303 tokens > 200000 maximum"}}',
                "provider_name": "Anthropic",
            },
        },
        Overflow(200000, 209303),
    ),
    (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6000 `inputs` tokens and 20000 `max_new_tokens`",
            "error_type": "validation",
        },
        Overflow(8192, 6000),
    ),
    (400, {"error": "the input length exceeds the context length"}, Overflow(None, None)),
    (400, "ollama: context length exceeded for llama3", Overflow(None, None)),
    (
        400,
        {
            "message": "Please reduce the length of the messages or completion.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
        Overflow(None, None),
    ),
    (400, "Please reduce the length of the messages or completion.", Overflow(None, None)),
    (
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
            "type": "invalid_request_error",
        },
        Overflow(8192, 9000),
    ),
    (400, "Input is too long for requested model.", Overflow(None, None)),
    (400, {"message": "ValidationException: Input exceeds the max input token limit"}, Overflow(None, None)),
    (400, "total tokens exceeds the model's max of 4096", Overflow(4096, None)),
    (
        400,
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4100. Try using a shorter prompt, a smaller max_tokens value, or enabling prompt truncating.",
        Overflow(4081, 4100),
    ),
    (
        400,
        {
            "error": {
                "message": "prompt token count of 130000 exceeds the limit of 128000",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
        Overflow(128000, 130000),
    ),
    (400, {"error": {"message": "", "code": "model_max_prompt_tokens_exceeded"}}, Overflow(None, None)),
    (
        400,
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 131100)",
        Overflow(131072, 131100),
    ),
    (400, "invalid params, context window exceeds limit (2013)", Overflow(None, None)),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, Overflow(None, None)),
    (400, {"error": {"code": "1261", "message": "Prompt 超长"}}, Overflow(None, None)),
    (
        400,
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        Overflow(30720, None),
    ),
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        Overflow(131072, 537812),
    ),
    (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens).", Overflow(8192, 9000)),
    (
        400,
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens: 8500 tokens from the input messages and 500 tokens for the completion. Please reduce the number of tokens",
        Overflow(8192, 8500),
    ),
    (400, "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", Overflow(131040, 131393)),
    (400, "Input length (265330) exceeds model's maximum context length (262144).", Overflow(262144, 265330)),
    (
        400,
        "Trying to keep the first 6291 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input",
        Overflow(4096, 6291),
    ),
    (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input",
        Overflow(None, None),
    ),
    (400, "Context size has been exceeded.", Overflow(None, None)),
    (
        400,
        "AiError: The estimated number of input and maximum output tokens (10000) exceeded this model context window limit (8000).",
        Overflow(8000, 10000),
    ),
    (400, "Requested tokens (4500) exceed context window of 4096", Overflow(4096, 4500)),
    (400, "Too many input tokens. Max input tokens: 8192, request input token count: 9000", Overflow(8192, 9000)),
    (400, "The prompt is too long: 150000, model maximum context length: 131071", Overflow(131071, 150000)),
    (
        413,
        {
            "error": {
                "code": "tokens_limit_reached",
                "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            }
        },
        Overflow(8000, None),
    ),
    (
        None,
        {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "code": "context_length_exceeded",
        },
        Overflow(None, None),
    ),
    (
        400,
        "This model's maximum context length is 200,000 tokens. However, you requested 213_462 tokens.",
        Overflow(200000, 213462),
    ),
    (400, "prompt has 150k tokens, but the model supports at most 128k tokens", Overflow(128000, 150000)),
    (400, "max_tokens must be at least 1, got -808.", Overflow(None, None)),
    (
        400,
        "This model's maximum context length is 4097 tokens, however you requested 5000 tokens (1000 in your prompt; 4000 for the completion). Please reduce your prompt; or completion length.",
        Overflow(4097, 1000),
    ),
    (
        400,
        "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: Hosted_vllmException - Error code: 400 - {'object': 'error', 'message': \"This model's maximum context length is 32768 tokens. However, you requested 33077 tokens (1077 in the messages, 32000 in the completion). Please reduce the length of the messages or completion. None\", 'type': 'BadRequestError', 'param': None, 'code': 400}\nmodel=LongWriter-Zero-32B. context_window_fallbacks=None. fallbacks=None.\nSet 'context_window_fallback' - https://docs.litellm.ai/docs/routing#fallbacks",
        Overflow(32768, 1077),
    ),
    (
        400,
        'litellm.ContextWindowExceededError: AnthropicError - {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209303 tokens > 200000 maximum"}}',
        Overflow(200000, 209303),
    ),
    (400, "Request payload size exceeds the limit: 20971520 bytes.", Overflow(None, None)),
    (
        400,
        {"detail": [{"type": "value_error", "loc": ["body"], "msg": "The prompt is too long for this model"}]},
        Overflow(None, None),
    ),
    (400, "maximum context length is 12 tokens", Overflow(None, None)),
    (
        429,
        {
            "message": "Request too large for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000, Requested 60000. The input or output tokens must be reduced in order to run successfully. Visit https://platform.openai.com/account/rate-limits to learn more.",
            "type": "tokens",
            "code": "rate_limit_exceeded",
        },
        Overflow(30000, 60000, True),
    ),
    (
        413,
        {
            "message": "Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 13370, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
            "type": "tokens",
            "code": "rate_limit_exceeded",
        },
        Overflow(12000, 13370, True),
    ),
    (
        429,
        "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10,000, Used 0, Requested 12,000. Please try again in 6s.",
        Overflow(10000, 12000, True),
    ),
]
#: What is no overflow, though it speaks of lengths, limits or windows.
OTHERS: list[tuple[int | None, Any]] = [
    (
        400,
        "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 42 instead.\nmodel=gpt-5.2. context_window_fallbacks=None. fallbacks=[{'local': ['a']}].\n\nSet 'context_window_fallback' - https://docs.litellm.ai",
    ),
    (
        400,
        "litellm.BadRequestError: Unknown parameter 'foo'. Received Model Group=gpt-5.2\nAvailable Model Group Fallbacks=None. context_window_fallbacks=None. Retries exceeded: 2",
    ),
    (
        400,
        {
            "message": "Invalid 'input[2].id': string too long. Expected a string with maximum length 64, but got a string with length 391 instead.",
            "code": "string_above_max_length",
        },
    ),
    (
        400,
        "Invalid 'metadata.x': string too long. Expected a string with maximum length 1024, but got a string with length 20000 instead.",
    ),
    (
        429,
        "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 6s.",
    ),
    (429, "ThrottlingException: Too many tokens, please wait before trying again."),
    (429, "This request would exceed the rate limit for your organization of 30,000 input tokens per minute."),
    (429, "Too many requests"),
    (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
    (
        400,
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
    ),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (
        400,
        "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you provided 20000.",
    ),
    (
        400,
        "max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
    ),
    (
        400,
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
    ),
    (401, "Incorrect API key provided: prompt is too long"),
    (400, "Unsupported parameter: 'temperature' is not supported with this model."),
    (422, {"detail": [{"loc": ["body", "temperature"], "msg": "Input should be greater than or equal to 0"}]}),
    (
        400,
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 2000 instead.",
    ),
    (400, "messages: roles must alternate between user and assistant"),
    (
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 2000.",
    ),
    (404, "The model `x-128k-context-length` does not exist"),
    (500, "The server had an error while processing your request."),
    (503, "Model is overloaded"),
    (400, "You have exceeded your current token quota"),
    (400, "Unknown parameter: 'context_window'."),
    (400, "This model does not support more than 1 image per prompt"),
]
#: What a reply of 20,000 tokens may have instead.
REPLIES: list[tuple[Any, int | None]] = [
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
    (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
        8192,
    ),
    (
        "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you provided 20000.",
        16384,
    ),
    (
        "max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
        8192,
    ),
    (
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
        4096,
    ),
    (
        "Unable to submit request because it has a maxOutputTokens value of 20000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.",
        8192,
    ),
    ("Range of max_tokens should be [1, 8192]", 8192),
    (
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 8,192, but got 20000 instead.",
        8192,
    ),
    ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000", 8000),
    (
        {
            "message": "Param Incorrect",
            "param": "max_tokens is too large: 1048576. This model supports at most 13107 completion tokens, whereas you provided 1048576.",
        },
        13107,
    ),
    (
        {
            "message": {
                "detail": [
                    {
                        "type": "less_than_equal",
                        "loc": ["body", "max_tokens"],
                        "msg": "Input should be less than or equal to 16384",
                        "input": 20000,
                    }
                ]
            }
        },
        16384,
    ),
    ("Invalid value for max_tokens", 10000),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 26000 tokens (6000 in the messages, 20000 in the completion).",
        None,
    ),
    ("input length and `max_tokens` exceed context limit: 6000 + 20000 > 8192", None),
]


@pytest.mark.parametrize(("status", "body", "overflow"), OVERFLOWS)
def test_an_overflow_is_known_whoever_reports_it(status, body, overflow):
    """earendil-works/pi#4943, anthropics/claude-code#760, anomalyco/opencode#2464, TheR1D/shell_gpt#653."""
    assert find_overflow(status, body) == overflow


@pytest.mark.parametrize(("status", "body"), OTHERS)
def test_what_is_none_is_not_taken_for_one(status, body):
    """gethnet/litellm-connector-copilot#30."""
    assert find_overflow(status, body) is None


@pytest.mark.parametrize(("body", "limit"), REPLIES)
def test_the_longest_reply_is_read_or_halved(body, limit):
    """Aider-AI/aider#4125."""
    assert find_output_limit(400, body, 20_000) == limit


@pytest.mark.parametrize(
    "unit",
    [
        "9",
        "9,",
        " 9",
        "9 ",
        "a",
        "a ",
        " ",
        "\u00a0",
        "_",
        "-",
        ".",
        "\n",
        "[",
        "{",
        '"',
        ">",
        "context ",
        "max_",
        "(",
        "tokens 9000 ",
    ],
)
def test_a_long_body_is_read_in_time_that_does_not_grow(unit):
    """The longest that is read is bounded, and no pattern backtracks over it."""
    body = {"message": "maximum context length is 8192 tokens " + unit * 1_000_000}
    started = time.process_time()
    find_overflow(400, body)
    find_output_limit(400, body, 9_000)
    find_overflow(400, unit * 1_000_000)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "body", [None, 5, True, [], {}, [[[[[[[[[[]]]]]]]]]], {"error": None}, {"message": {"message": 5}}, "[" * 39_000]
)
def test_a_body_of_any_shape_is_read(body):
    assert find_overflow(400, body) is None
    assert find_output_limit(400, body, 9_000) is None
