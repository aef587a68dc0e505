"""Whether an error is an overflow, and what it says of the window: the dialects of providers, clients and gateways.

``overflows.json`` has the errors as they are sent, with the status and the body that a client hands on: overflows with
the window and the tokens sent that they name, what is none though it speaks of lengths, limits or windows, and what a
reply of 20,000 tokens may have instead.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_app.context.overflow import Overflow, find_output_limit, find_overflow

pytestmark = pytest.mark.pure

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
