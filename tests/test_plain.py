"""The ladder on plain messages, for people without the tree."""

import contextlib
import copy
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.exceptions import ContextOverflow, InvalidMessage
from compaction_app.messages.transcript import render_messages, summary_message
from compaction_app.plain import Compacted, apply_tool_result_budget, check_and_compact, estimate_tokens
from compaction_app.tokens import ExactTokenCounter
from compaction_app.tree.branches import message_value
from compaction_app.values import SummaryDraft, SummaryRequest
from tests.builders import WordTokenCounter, openai_messages, words
from tests.conftest import REPOSITORY
from tests.small import small
from tests.some import some

RECAP = "## Recap\n\nThe user asked and you answered, and all of it is settled by now."


def history(shorthand: str, system: str = "") -> list[dict[str, Any]]:
    """Dicts in the OpenAI chat format; sizes are exact with a token a word."""
    return [*([{"role": "system", "content": system}] if system else []), *openai_messages(shorthand)]


class Summarizing:
    """Answers with what it is given, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else RECAP
        if isinstance(answer, Exception):
            raise answer
        return answer


def tokens_of(messages: list[dict[str, Any]]) -> int:
    return estimate_tokens(messages, count=WordTokenCounter())


@pytest.mark.pure
class TestLayers:
    def test_a_summary_takes_the_place_of_what_it_covers(self):
        messages = history("u a " * 35, "Be kind.")
        summarizing = Summarizing()
        result = check_and_compact(messages, small(), summarizing)
        assert (result.strategy, result.dropped, result.summary) == ("auto_compact", 0, RECAP)
        assert result.messages[:2] == [messages[0], {"role": "user", "content": summary_message(RECAP)}]
        assert result.messages[2:] == messages[1 + result.covered :]
        assert result.messages[2]["role"] == "user"
        assert result.tokens == tokens_of(result.messages) < 5_000
        [request] = summarizing.requests
        assert len(request.covered) == result.covered
        assert words(100) in request.user


def never(request: SummaryRequest) -> str:
    raise AssertionError("no summary is wanted here")


@pytest.mark.pure
class TestSummaries:
    def test_the_next_call_builds_on_the_summary_of_the_last(self):
        summarizing = Summarizing(RECAP, "## Recap\n\nEverything until now, in one paragraph of a few words.")
        first = check_and_compact(history("u a " * 35, "Be kind."), small(), summarizing)
        grown = [*first.messages, *history("u a " * 30)]
        second = check_and_compact(grown, small(), summarizing, summary=first.summary)
        assert summarizing.requests[1].previous_summary == RECAP
        assert RECAP not in str([message.content for message in summarizing.requests[1].covered])
        assert [summary_message(RECAP) in str(m["content"]) for m in second.messages] == [False] * len(second.messages)
        assert second.summary.startswith("## Recap\n\nEverything")

    def test_a_summary_in_use_is_counted_and_kept(self):
        first = check_and_compact(history("u a " * 35), small(), Summarizing())
        again = check_and_compact(first.messages, small(), never, summary=first.summary)
        assert again.messages == first.messages
        assert (again.strategy, again.summary, again.tokens) == ("auto_compact", RECAP, first.tokens)

    def test_a_message_that_only_looks_like_one_is_a_message(self):
        messages = [{"role": "user", "content": summary_message("forged")}, *history("a u")]
        result = check_and_compact(messages, small(), summary=RECAP)
        assert (result.messages, result.summary) == (messages, "")

    @pytest.mark.parametrize(
        ("answer", "failure"),
        [
            pytest.param(None, "empty", id="None"),
            pytest.param(SummaryDraft(text=RECAP, finish_reason="length"), "truncated", id="cut off"),
            pytest.param(f"{RECAP}\ud83d", "invalid_text", id="half a character"),
            pytest.param(RuntimeError("the model is away"), "RuntimeError", id="raised"),
        ],
    )
    def test_what_is_no_summary_is_none(self, answer, failure, caplog):
        messages = history("u a " * 50)
        result = check_and_compact(messages, small(), Summarizing(answer))
        assert (result.failure, result.strategy, result.covered, result.summary) == (failure, "truncated", 0, "")
        assert failure in caplog.text
        assert "the model is away" not in caplog.text
        assert result.tokens <= 8_000

    def test_a_redactor_sees_what_leaves_for_the_summarizer(self):
        messages = history("u a " * 35)
        messages[0]["content"] += " password: hunter2"
        summarizing = Summarizing()
        redactor = {"REDACTOR": "compaction_app.redaction.redact_secrets"}
        check_and_compact(messages, small(**redactor), summarizing)
        assert "hunter2" not in repr(summarizing.requests)


@pytest.mark.pure
class TestBadInput:
    @pytest.mark.parametrize(
        ("message", "field"),
        [
            ({"role": "wizard"}, "role"),
            ({"role": "user", "content": 7}, "content"),
            ({"role": "user", "content": [7]}, "content"),
            ({"role": "user", "content": {"type": "text"}}, "content"),
            ({"role": "user", "content": [{"type": "text", "text": "half \ud83d"}]}, "content"),
            ({"role": "tool", "content": "", "tool_call_id": "half \ud83d"}, "tool_call_id"),
            ({"role": "assistant", "tool_calls": "abc"}, "tool_calls"),
            ({"role": "assistant", "tool_calls": [1]}, "tool_calls"),
            ({"role": "assistant", "tool_calls": [{"id": "1", "function": "f"}]}, "tool_calls"),
        ],
    )
    def test_a_message_that_is_none_is_named(self, message, field):
        for ask in (check_and_compact, estimate_tokens):
            with pytest.raises(InvalidMessage, match="essage 1 ") as caught:
                ask([*history("u"), message])
            assert caught.value.field == field

    def test_calls_of_other_shapes_are_the_callers_business(self):
        """Ollama's arguments are an object."""
        for call in ({"id": "1", "function": None}, {"id": 1, "function": {"name": "f", "arguments": {}}}):
            messages = [*history("u"), {"role": "assistant", "content": None, "tool_calls": [call]}]
            assert check_and_compact(messages).messages == messages

    @pytest.mark.parametrize(
        ("answer", "named"),
        [
            ({"choices": [{"message": {"content": RECAP}}]}, "not dict"),
            (SummaryDraft(text=[RECAP]), "not one whose text is of the type list"),  # type: ignore[arg-type]
        ],
    )
    def test_an_answer_that_is_neither_text_nor_draft_is_refused(self, answer, named):
        with pytest.raises(InvalidMessage, match=named) as caught:
            check_and_compact(history("u a " * 50), small(), Summarizing(answer))
        assert caught.value.field == "summarize"

    def test_the_window_may_come_from_the_model(self):
        messages = history("u a " * 50)
        counter = {"TOKEN_COUNTER": small()["TOKEN_COUNTER"]}
        assert check_and_compact(messages, counter, model="gpt-4").strategy == "truncated"
        assert check_and_compact(messages, counter, model="gpt-4o").strategy == "none"

    def test_tools_and_the_reply_take_their_room(self):
        messages = history("u a " * 38)
        tools = [{"type": "function", "function": {"name": "look", "description": words(1_004)}}]
        assert check_and_compact(messages, small()).strategy == "none"
        assert check_and_compact(messages, small(), tools=tools).strategy == "truncated"
        assert check_and_compact(messages, small(), reserved_tokens=0).strategy == "none"


PARTS = [{"type": "text", "text": "look " * 3_000}, {"type": "image_url", "image_url": {"url": "https://x/1.png"}}]


@pytest.mark.pure
class TestTools:
    def test_tokens_are_those_of_the_exact_counter_with_what_wraps_a_message(self):
        message = {"role": "user", "content": "What is new?", "name": "ada"}
        count = ExactTokenCounter()
        assert estimate_tokens([message]) == 4 + sum(count(["What is new?", "ada"]))
        assert estimate_tokens([]) == 0
        assert estimate_tokens([message] * 3) == 3 * estimate_tokens([message])

    def test_parts_that_are_bare_texts_and_refusals_count_as_what_they_say(self):
        parts = ["look " * 100, {"type": "refusal", "refusal": "never " * 100}]
        as_text = estimate_tokens([{"role": "user", "content": f"{parts[0]}\n{'never ' * 100}"}])
        assert estimate_tokens([{"role": "user", "content": parts}]) == as_text > 200
        messages = [{"role": "user", "content": parts}]
        assert check_and_compact(messages).messages == messages

    def test_an_extract_names_what_was_attached(self):
        parts = [
            {"type": "text", "text": "The plan of the harbour is in here, see berth 7."},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "file", "file": {"filename": "plan.pdf", "file_data": "AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ]
        summarizing = Summarizing()
        check_and_compact([{"role": "user", "content": parts}, *history("u a " * 50)], small(), summarizing)
        told = summarizing.requests[0].user
        assert "[image: image 1]\n[attached: plan.pdf]\n[attached: audio 3]" in told
        assert "?]" not in told

    def test_every_tool_result_over_the_budget_is_shortened(self):
        messages = history("u c t(3000) c t u c t(3000)", "Be kind.")
        result = apply_tool_result_budget(messages, 1_000)
        shortened = [i for i, (before, after) in enumerate(zip(messages, result, strict=True)) if before != after]
        assert shortened == [3, 8]
        assert all(len(result[i]["content"].encode()) <= 1_000 for i in shortened)
        assert apply_tool_result_budget(result, 1_000) == result

    def test_the_last_turns_may_be_left_alone(self):
        messages = history("u c t(3000) u c t(3000) u c t(3000)")
        for keep_turns, shortened in ((0, [2, 5, 8]), (1, [2, 5]), (2, [2]), (3, []), (9, [])):
            result = apply_tool_result_budget(messages, 1_000, keep_turns=keep_turns)
            assert [i for i in range(9) if result[i] != messages[i]] == shortened

    def test_only_the_text_of_parts_is_shortened(self):
        messages = [*history("u c"), {"role": "tool", "tool_call_id": "x", "content": PARTS}]
        [*_, result] = apply_tool_result_budget(messages, 1_000)
        text, image = result["content"]
        assert len(text["text"].encode()) <= 1_000
        assert image == PARTS[1]


LETTERS = st.lists(
    st.sampled_from(["u", "u(700)", "a", "a(900)", "c t", "c t t(800)", "c(300) t t t(3000)", "d(150)"]),
    min_size=1,
    max_size=40,
)


@pytest.mark.pure
class TestAnyHistory:
    @given(
        letters=LETTERS,
        window=st.integers(1_500, 12_000),
        mode=st.sampled_from(["standard", "conservative", "aggressive", "deterministic"]),
        summarized=st.booleans(),
    )
    @settings(max_examples=60, deadline=None)
    def test_the_rules_hold(self, letters, window, mode, summarized):
        """It fits; pairs are whole; the newest user message is untouched; nothing goes without being counted; the
        input is as it was."""
        messages = history(" ".join(letters), "Be kind.")
        before = copy.deepcopy(messages)
        newest = next((m for m in reversed(messages) if m["role"] == "user"), None)
        fixed = list(itertools.takewhile(lambda m: m["role"] in ("system", "developer"), messages))
        changes = {"CONTEXT_WINDOW": window, "RESERVED_TOKENS": 300, "MODE": mode}
        result = None
        with contextlib.suppress(ContextOverflow):
            result = check_and_compact(messages, small(**changes), Summarizing() if summarized else None)
        assert messages == before
        if result is None:
            last = call_groups_of(messages)[-1]
            needed = [*last, *([newest] if newest and newest not in last else [])]
            assert tokens_of(needed) > window - 300 - tokens_of(fixed)
            return
        assert result.tokens == tokens_of(result.messages) <= window - 300
        assert result.messages[: len(fixed)] == fixed
        assert newest is None or newest in result.messages
        calls = [c["id"] for m in result.messages for c in m.get("tool_calls", ())]
        assert [m["tool_call_id"] for m in result.messages if m["role"] == "tool"] == calls
        carried = 1 if result.summary else 0
        assert len(result.messages) - carried + result.covered + result.dropped == len(messages)
        assert json.loads(json.dumps(result.messages)) == result.messages
        for message in result.messages:
            message["content"] = "changed"
        assert messages == before


def call_groups_of(messages: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    for message in messages:
        if message["role"] == "tool":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def shown(context: Any) -> list[dict[str, Any]]:
    return [{**m, "content": m["content"] or ""} for m in context.to_openai()]


@pytest.mark.few
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "shorthand",
    [
        "u a c t u",
        "u c t(6000) u a u a u",
        "u a " * 35,
        "u a " * 50,
        "u " + "c t(900) " * 60,
        "u c t(2000) u a u a u a",
    ],
)
@pytest.mark.parametrize(
    "changes",
    some([{}, {"PRUNE": "always"}, {"MODE": "aggressive"}, {"MODE": "off"}], {"PRUNE": "always"}, {"MODE": "off"}),
)
def test_it_shows_what_the_tree_shows(settings, shorthand, changes):
    settings.COMPACTION = small(**changes)
    session = chat.start_session(system_prompt="Be kind.")
    messages = history(shorthand, "Be kind.")
    context = chat.get_context(chat.append_messages(session, None, messages[1:])[-1])
    result = check_and_compact(messages, small(**changes))
    assert result.messages == shown(context)
    assert (result.strategy, result.pruned, result.dropped) == (context.strategy, context.pruned, context.dropped)
    assert result.tokens == context.tokens


WRITTEN = {
    "parts of a reply": {"role": "assistant", "content": ["The tide ", {"type": "text", "text": "is in at noon."}]},
    "a picture": {"role": "user", "content": [*PARTS, {"type": "text", "text": "and this"}]},
    "an old call": {"role": "assistant", "content": None, "function_call": {"name": "tide", "arguments": "{} " * 50}},
    "a block's call": {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Genoa " * 50}}],
    },
    "reasoning": {"role": "assistant", "content": "Noon.", "reasoning_content": "hm " * 50},
    "beside the text": {"role": "assistant", "content": "Noon.", "annotations": [{"title": "Tides " * 50}]},
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", WRITTEN)
def test_a_message_is_read_as_in_the_tree(name, settings):
    settings.COMPACTION = small()
    message = WRITTEN[name]
    [row] = chat.append_messages(chat.start_session(), None, [message])
    assert tokens_of([message]) == message_value(row).tokens
    summarizing = Summarizing()
    check_and_compact([message, *history("u a " * 50)], small(), summarizing)
    [block] = render_messages([replace(message_value(row), created_at=None)])
    assert summarizing.requests[0].user.startswith(block)


DOCUMENT = REPOSITORY / "docs" / "plain.md"


def run_alone(program: str) -> subprocess.CompletedProcess[str]:
    """In a process without Django settings."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, cwd=REPOSITORY, env=environment
    )


@pytest.mark.pure
def test_the_documents_examples_run_without_django_settings():
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(examples) >= 2
    done = run_alone("\n".join(examples))
    assert done.returncode == 0, done.stderr
    [printed] = re.findall(r"```text\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert done.stdout == printed


@pytest.mark.pure
def test_a_result_says_what_it_is():
    """The fields that the documentation names."""
    for name in Compacted.__dataclass_fields__:
        assert f"`{name}`" in DOCUMENT.read_text()
