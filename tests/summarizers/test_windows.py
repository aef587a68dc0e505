"""A model with a smaller window than was assumed is found out, remembered, and asked for less at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.context import windows
from compaction_app.context.overflow import Overflow, overflow_of_usage
from compaction_app.context.windows import Habits
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import CompactionRun
from compaction_app.summarizers.base import run_summarizer
from compaction_app.summarizers.openai import OpenAISummarizer
from compaction_app.tasks import compact_session
from compaction_app.testing import steps
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.transfer.rebuild import rebuild, succeeded_runs
from compaction_app.tree.verify import verify_session
from compaction_app.values import Capacity, ErrorCode, Message, Role, SummaryDraft
from tests.steps import fill_target, llama_overflow, malformed, small_window
from tests.summarizers.summarizing import ACCEPT, GOOD, cascade, request, request_of
from tests.summarizers.summarizing import settings as settings_of

WINDOW = 8_192


pytestmark = pytest.mark.usefixtures("own_cache")


def asking(server: ScriptedOpenAIServer, *models: str, **keys: Any) -> dict[str, Any]:
    """Settings with these models at the server."""
    places = [{"model": model, "base_url": server.url} for model in models or ("house-small",)]
    return {"CONTEXT_WINDOW": 16_000, "SUMMARIZERS": {"default": {"MODELS": places}}, **keys}


def whole_request(exchange) -> int:
    return int(exchange.count_usage({"content": ""})["prompt_tokens"])


class TestCapacity:
    ASSUMED = Capacity(108_000, 20_000)

    @pytest.mark.parametrize(
        ("overflow", "sent", "left"),
        [
            pytest.param(Overflow(8192, 6000), 6000, Capacity(6144, 2048), id="a quarter is for the reply"),
            pytest.param(Overflow(8192, 9000), 6000, Capacity(4096, 2048), id="a tokenizer that makes more tokens"),
            pytest.param(Overflow(), 9000, Capacity(4500, 1500), id="no number: half of it"),
        ],
    )
    def test_an_overflow_leaves_less(self, overflow, sent, left):
        assert overflow.left_of(self.ASSUMED, sent) == left

    @pytest.mark.parametrize(
        ("read", "cached", "is_cut"),
        [(4098, 0, True), (6000, 0, False), (900, 8000, False), (100, 0, False), (0, 0, False)],
    )
    def test_a_server_that_reads_half_of_the_prompt_has_cut_it(self, read, cached, is_cut):
        draft = SummaryDraft(text="fine", input_tokens=read, cached_tokens=cached)
        assert (overflow_of_usage(draft, 9000) is not None) == is_cut

    @pytest.mark.parametrize(("read", "is_cut"), [(4096, True), (8192, True), (6001, True), (4097, False)])
    def test_a_prompt_as_large_as_the_servers_limit_was_cut(self, read, is_cut):
        """However near it is to ours: Ollama and servers that truncate say how much they read, not that they cut."""
        draft = SummaryDraft(text="fine", input_tokens=read)
        size = 4_200 if read < 5_000 else 8_300
        expected = Overflow(read, read) if is_cut else None
        assert overflow_of_usage(draft, size, limits=(6001, 8001)) == expected

    def test_a_counter_that_makes_twice_as_many_tokens_is_known_by_the_same_share(self):
        draft = SummaryDraft(text="fine", input_tokens=2_700)
        assert overflow_of_usage(draft, 6000, usual_share=0.45) is None
        assert overflow_of_usage(draft, 6000, usual_share=0.3) is not None


def test_an_overflow_with_status_200_is_one(server):
    """It was taken for a broken body, and the same request was sent eight times."""
    words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
    body = {"error": {"message": words, "code": "context_length_exceeded"}, "choices": None}
    server.script(default=malformed(json.dumps(body).encode()))
    summarizer = cascade(server, "m", max_input_tokens=100_000)
    with pytest.raises(SummarizerError) as caught:
        summarizer.summarize(
            request_of(covered=[Message(id=1, depth=1, role=Role.USER, tokens=9, content="Why? " * 9)])
        )
    assert (caught.value.error_code, caught.value.transient) == (ErrorCode.INPUT_TOO_LARGE, False)
    assert [one.learned.output_tokens for one in summarizer.candidates] == [2048]


class TestLongestReply:
    """Of a model that never reasoned it is little more than the longest draft: one that runs on is stopped early."""

    ALL, ENOUGH = 5_000, 300

    def ask(self, server: ScriptedOpenAIServer) -> tuple[SummaryDraft, int]:
        """In a run of its own: the draft, and what the last reply might have had."""
        summarizer = cascade(server, "m")
        draft = run_summarizer(summarizer, request(), ACCEPT)
        summarizer.learn()
        return draft, server.requests[-1]["max_tokens"]

    def test_it_is_lower_once_the_model_wrote_nothing_but_its_draft(self, server):
        assert self.ask(server)[1] == self.ALL
        assert self.ask(server)[1] < self.ENOUGH
        windows.forget([(server.url, "m")])
        assert self.ask(server)[1] == self.ALL

    @pytest.mark.parametrize(
        "thinking",
        [
            steps.reply(GOOD, usage={"prompt_tokens": 700, "completion_tokens": 400}),
            steps.reply(f"<think>{'Hm. ' * 400}</think>{GOOD}"),
        ],
        ids=["aside", "in the reply"],
    )
    def test_a_model_that_reasons_keeps_all_its_room(self, server, thinking):
        server.script([thinking])
        assert [self.ask(server)[1] for _ in range(3)] == [self.ALL] * 3

    def test_one_that_reasons_now_and_then_is_given_all_its_room_at_once(self, server):
        self.ask(server)

        def reason(exchange):
            usage = {**exchange.count_usage({"content": ""}), "completion_tokens": exchange.body["max_tokens"]}
            exchange.send_message({"content": ""}, usage=usage, finish_reason="length")

        server.script([reason])
        draft, most = self.ask(server)
        assert (draft.text, most) == (GOOD, self.ALL)
        assert [call.output_tokens < self.ENOUGH for call in draft.calls] == [True, True]
        assert self.ask(server)[1] == self.ALL


class TestMemory:
    PLACE = ("http://here/v1", "m")

    def test_what_was_learned_is_recalled_until_it_is_forgotten(self):
        windows.remember({self.PLACE: Capacity(6144, 2048)})
        assert windows.learned_of([self.PLACE, ("http://there/v1", "m")]) == {
            self.PLACE: windows.Learned(8192, Capacity(6144, 2048)),
            ("http://there/v1", "m"): windows.NOTHING,
        }
        windows.forget([self.PLACE])
        assert windows.learned_at(*self.PLACE)[1] == windows.NOTHING

    def test_a_ratio_is_recalled_until_it_is_forgotten_and_all_is_planned_with_it(self):
        windows.remember({}, {self.PLACE: Habits(2.0)})
        asked = settings_of({"model": self.PLACE[1], "base_url": self.PLACE[0]}, MAX_OUTPUT_TOKENS=8_000)
        summarizer = OpenAISummarizer(asked)
        assert (summarizer.max_input_tokens, summarizer.max_output_tokens) == (60_000, 4_000)
        assert summarizer.candidates[0].entry.max_output_tokens == 8_000, "what the model may write is its own"
        summarizer.learn(ErrorCode.INPUT_TOO_LARGE)
        assert OpenAISummarizer(asked).max_input_tokens == 120_000

    def test_a_cache_that_is_away_costs_no_run(self, settings, caplog, monkeypatch):
        # To import its client takes a second on a busy machine, and a slow cache is not asked again for a minute.
        monkeypatch.setattr(windows, "_SLOW_SECONDS", 60.0)
        away = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1"}
        settings.CACHES = {"default": away}
        windows.remember({self.PLACE: Capacity(6144, 2048)})
        windows.forget([self.PLACE])
        windows.remember_window(self.PLACE, 3_000, windows.NOTHING)
        assert windows.learned_at(*self.PLACE)[1] == windows.NOTHING
        windows.remember({}, {self.PLACE: Habits(2.0)})
        assert caplog.text.count("step=") == 5

    def test_an_event_loop_does_not_wait_for_the_cache(self):
        windows.remember({self.PLACE: Capacity(6144, 2048)})
        chosen = settings_of({"model": self.PLACE[1], "base_url": self.PLACE[0]})
        assert OpenAISummarizer(chosen).max_input_tokens == 6144

        async def made_in_a_loop():
            return OpenAISummarizer(chosen).max_input_tokens

        assert asyncio.run(made_in_a_loop()) == 128_000 - 20_000


@pytest.mark.django_db(transaction=True)
class TestAtRest:
    """However the server says that a request is too long, a long history comes to rest."""

    def history(self, tokens: int):
        """Turns of about 400 tokens."""
        session = chat.start_session(model="house-chat")
        turn = [
            {"role": "user", "content": "Please look at the next part of the report. " * 18},
            {"role": "assistant", "content": "Here is what that part says, in short and in order. " * 18},
        ]
        tip = chat.append_messages(session, None, turn * (tokens // 400))[-1]
        return session, tip

    def settle(self, server, settings, tokens):
        settings.COMPACTION = asking(server, COOLDOWN_SECONDS=0)
        session, tip = self.history(tokens)
        compact_session(str(session.pk))
        context = chat.get_context(tip)
        assert context.history_tokens <= context.threshold
        assert not context.dropped
        assert not verify_session(session).problems
        runs = CompactionRun.objects.filter(session=session)
        assert set(runs.values_list("status", flat=True)) == {"succeeded"}
        return runs.count()

    def refused(self, server, settings, tokens, **keys):
        """The code of the error for a history of this size."""
        settings.COMPACTION = asking(server, **keys)
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(self.history(tokens)[1])
        return caught.value.error_code

    @pytest.mark.parametrize(
        "dialect", ["llama.cpp", *(pytest.param(d, marks=pytest.mark.long) for d in ("vllm", "ollama"))]
    )
    @pytest.mark.parametrize("tokens", [12_000, pytest.param(200_000, marks=pytest.mark.long)])
    def test_a_long_history_comes_to_rest(self, settings, dialect, tokens):
        with ScriptedOpenAIServer(default=small_window(WINDOW, dialect, then=fill_target(0.7))) as server:
            generations = self.settle(server, settings, tokens)
            # One call was refused, or two; then the window is known.
            assert len(server.requests) <= generations + 2

    def test_a_window_that_is_full_before_the_reply_is_whole_is_found_out(self, settings):
        """llama.cpp ends the reply there; half a summary, of which the rest was paid for and lost."""

        def full(exchange):
            room = WINDOW - whole_request(exchange)
            if room < 1_200:
                usage = {"prompt_tokens": WINDOW - room, "completion_tokens": room}
                return exchange.send_message({"content": "## Recap\n\nIt was "}, usage=usage, finish_reason="length")
            return steps.reply()(exchange)

        # The default model is taken to have 128,000.
        with ScriptedOpenAIServer(default=full) as server:
            settings.COMPACTION = asking(server)
            _, tip = self.history(6_800)
            assert chat.compact(tip).status == "succeeded"
            assert windows.learned_at(server.url, "house-small")[1].capacity.input_tokens < 7_000

    @pytest.mark.long
    def test_a_tokenizer_that_makes_three_times_as_many_is_refused_nothing_once_it_was_asked(self, settings):
        """As small models do of Russian: a third of the window is all that may be asked for."""
        refused = []

        def thrice(exchange):
            usage = exchange.count_usage({"content": ""})
            if 3 * usage["prompt_tokens"] + exchange.body["max_tokens"] > 2 * WINDOW:
                refused.append(usage)
                return llama_overflow(n_ctx=2 * WINDOW)(exchange)
            text = "## Recap\n\nThe report was read part by part, and nothing in it is open."
            return steps.reply(text, usage={"prompt_tokens": 3 * usage["prompt_tokens"]})(exchange)

        with ScriptedOpenAIServer(default=thrice) as server:
            settings.COMPACTION = asking(server, MODELS={"house-small": {"window": 2 * WINDOW}})
            assert chat.compact(self.history(1_600)[1]).status == "succeeded"
            assert windows.learned_at(server.url, "house-small")[1].habits.ratio == 3.0
            assert chat.compact(self.history(14_000)[1]).status == "succeeded"
            assert len(server.requests) > 2, "it covers a part at a time"
            assert refused == []

    def test_a_server_that_ends_every_reply_at_the_same_length_has_no_smaller_window(self, settings):
        def capped(exchange):
            usage = {**exchange.count_usage({"content": ""}), "completion_tokens": 512}
            exchange.send_message({"content": "## Recap\n\nIt was "}, usage=usage, finish_reason="length")

        with ScriptedOpenAIServer(default=capped) as server:
            assert self.refused(server, settings, 14_000) == "truncated"
            assert len(server.requests) <= 3
            assert windows.learned_at(server.url, "house-small")[1].capacity is None

    def test_a_message_that_no_window_holds_fails_for_good(self, settings):
        with ScriptedOpenAIServer(default=llama_overflow(n_ctx=1_000)) as server:
            assert self.refused(server, settings, 4_000, CONTEXT_WINDOW=None) == "input_too_large"
            assert len(server.requests) <= 8
            assert windows.learned_at(server.url, "house-small")[1].capacity is None, "the next run starts anew"

    def test_a_prompt_that_was_made_smaller_can_be_built_again(self, settings):
        """The record is of the request that was answered, a message shown head-and-tail included."""
        recap = steps.reply("## Recap\n\nThe report was read, and nothing in it is open.")
        with ScriptedOpenAIServer(default=small_window(WINDOW, then=recap)) as server:
            settings.COMPACTION = asking(server)
            session = chat.start_session()
            large = {"role": "user", "content": "Look at the next line of the report & say <what> it is. " * 900}
            small = {"role": "user", "content": "And then? " * 20}
            answer = {"role": "assistant", "content": "A line of the report."}
            tip = chat.append_messages(session, None, [large, answer] + [small, answer] * 20)[-1]
            run = chat.compact(tip)
            assert run.shortened_inputs
            run = succeeded_runs(CompactionRun.objects.all()).order_by("generation")[0]
            rebuilt = rebuild(run)
            asked = [[m["content"] for m in request["messages"]] for request in server.requests]
            assert [rebuilt.request.system, rebuilt.request.user] in asked
            assert asked[0] != [rebuilt.request.system, rebuilt.request.user], "the first request was refused"
            assert run.request["max_input_tokens"] < 7_000

    def test_a_tokenizer_that_counts_half_as_much_costs_two_calls_at_most(self, settings):
        """Its usage looks like that of a server that cuts, until the smaller request looks the same."""

        def half(exchange):
            sent = whole_request(exchange)
            text = "## Recap\n\nThe report was read part by part, and nothing in it is open."
            usage = {"prompt_tokens": sent * 9 // 20, "completion_tokens": 20, "total_tokens": 20 + sent * 9 // 20}
            steps.reply(text, usage=usage)(exchange)

        with ScriptedOpenAIServer(default=half) as server:
            settings.COMPACTION = asking(server, CONTEXT_WINDOW=None)
            _, tip = self.history(40_000)
            assert chat.compact(tip).status == "succeeded"
            assert len(server.requests) == 2
            assert windows.learned_at(server.url, "house-small")[1].capacity is None

    def test_what_an_overflow_taught_is_kept_where_the_run_is_tried_again(self, settings):
        refusing = small_window(WINDOW, then=steps.rate_limited())
        with ScriptedOpenAIServer(default=refusing) as server:
            assert self.refused(server, settings, 24_000) == "provider_error"
            assert windows.learned_at(server.url, "house-small")[1].capacity.input_tokens <= 6_144
