"""What replies report of themselves: every dialect is read, and no shape of it can break a chat turn."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app.conversation.usage import prompt_tokens, provider_compaction, report_of

pytestmark = pytest.mark.pure

WORDS = """
    applied_edits cleared_input_tokens cleared_thinking_turns compaction compaction_blocks content context_management
    input_tokens iterations output prompt_tokens provider_specific_fields stop_reason type
""".split()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS)
SHAPES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=40)
@given(usage=SHAPES, metadata=SHAPES)
def test_no_shape_of_a_report_raises_or_gives_more_than_numbers(usage: Any, metadata: Any) -> None:
    """A provider may send anything, and a host may store anything: the turn goes on."""
    ran = provider_compaction(usage, metadata)
    assert all(type(number) is int and number > 0 for number in ran.values())
    counted = prompt_tokens(usage)
    assert counted is None or (type(counted) is int and counted >= 0)
    kept = report_of(metadata)
    assert set(kept) <= {"context_management", "compaction_blocks"}
    assert report_of(kept) == kept, "read again it says the same"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}}, 100),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}}, 100),
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}, 100),
        ({"prompt_tokens": 100, "cache_read_input_tokens": 60}, 100),
        ({"prompt_tokens": None, "input_tokens": 7}, 7),
        ({"completion_tokens": 7}, None),
        ({"prompt_tokens": -1}, None),
        ({"prompt_tokens": 1.5}, None),
        ({"prompt_tokens": 10**12}, None),
        ({}, None),
        (None, None),
    ],
)
def test_cached_tokens_are_part_of_the_prompt_once(usage: Any, tokens: int | None) -> None:
    """OpenAI counts them among the prompt's, Anthropic beside its input tokens, LiteLLM says both of one reply."""
    assert prompt_tokens(usage) == tokens


def test_one_compaction_that_is_told_in_several_places_is_one() -> None:
    usage = {"input_tokens": 9, "iterations": [{"type": "compaction", "input_tokens": 50, "output_tokens": 5}]}
    metadata = {
        "stop_reason": "compaction",
        "content": [{"type": "compaction", "content": "…"}],
        "context_management": {"applied_edits": [{"type": "compact_20260112"}]},
    }
    ran = provider_compaction(usage, metadata)
    assert ran == {"compactions": 1, "extra_input_tokens": 50, "extra_output_tokens": 5}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"output": [{"type": "compaction", "encrypted_content": "x"}, {"type": "message"}]}, id="OpenAI"),
        pytest.param({"provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}}, id="LiteLLM"),
        pytest.param({"stop_reason": "compaction"}, id="a stop reason"),
    ],
)
def test_each_way_to_say_it_is_one_compaction(metadata: Any) -> None:
    assert provider_compaction(None, metadata) == {"compactions": 1}


def test_what_a_block_says_is_not_kept() -> None:
    """The provider's summary is a copy of the conversation that no redaction would find."""
    reported = {
        "compaction_blocks": [{"type": "compaction", "content": "the pelican"}],
        "context_management": {
            "applied_edits": [{"type": "compact_20260112\0", "summary": "the pelican", "n": 4, "the pelican\0": 4}]
        },
    }
    assert report_of(reported) == {
        "context_management": {"applied_edits": [{"type": "compact_20260112", "n": 4}]},
        "compaction_blocks": [{"type": "compaction"}],
    }
