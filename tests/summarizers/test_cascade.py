"""Summarizers against a real HTTP server: every way a model can fail, the cascade, deadlines."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import openai
import pytest
from celery.exceptions import SoftTimeLimitExceeded

from compaction_app.exceptions import SummarizerError
from compaction_app.summarizers import OpenAISummarizer, Summarizer, failure_of
from compaction_app.summarizers.base import ask_summarizer, run_summarizer
from compaction_app.summarizers.openai import ModelEntry, make_client, model_entries
from compaction_app.testing import steps
from compaction_app.tokens import ExactTokenCounter
from compaction_app.values import ErrorCode, EventKind, SummaryDraft, SummaryRequest
from tests.steps import drip, fill_target, insufficient_quota, late, unauthorized, unsupported_parameter
from tests.summarizers.summarizing import ACCEPT, FAILURES, GOOD, KEY, NONCE, SECRET, cascade, entry, request, settings

pytestmark = pytest.mark.pure

#: What a call may take beyond its deadline on a busy machine.
MARGIN = 2.0


@pytest.fixture(params=["sync", "async"])
def summarize(request):
    """Every law below holds for both ways of calling."""
    if request.param == "sync":
        return run_summarizer
    return lambda *args, **kwargs: asyncio.run(ask_summarizer(*args, **kwargs))


class TestOneModel:
    def test_a_reply_becomes_a_draft(self, server, summarize):
        draft = summarize(cascade(server, "first"), request(), ACCEPT)
        assert (draft.text, draft.finish_reason, draft.model) == (GOOD, "stop", "first")
        assert draft.input_tokens > 0
        assert draft.output_tokens == ExactTokenCounter()([GOOD])[0]

    def test_it_is_sent_what_the_request_holds(self, server, summarize):
        asked = request()
        summarize(cascade(server, "first"), asked, ACCEPT)
        (body,) = server.requests
        assert body["messages"] == [
            {"role": "system", "content": asked.system},
            {"role": "user", "content": asked.user},
        ]
        assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize(("step", "code", "transient"), FAILURES)
    def test_each_failure_has_its_code_is_asked_once_and_leads_to_the_next_model(
        self, server, summarize, step, code, transient
    ):
        """The client's own retries are off; it says which failures waiting may help."""
        server.script([step], model="first")
        server.script([steps.refusal()], model="second")
        with pytest.raises(SummarizerError) as caught:
            summarize(cascade(server, "first", "second"), request(), ACCEPT)
        error: Any = caught.value
        assert error.transient == transient
        assert str(error).startswith(f"first: {code}")
        assert [server.count(model) for model in ("first", "second")] == [1, 1]


class TestCascade:
    @pytest.mark.parametrize("is_wrapped", [False, True])
    def test_the_soft_time_limit_of_a_task_ends_it_and_keeps_what_was_paid(self, server, summarize, is_wrapped):
        """Celery raises it in whatever code is at work; the client wraps what is raised while it sends."""

        class Interrupted(openai.DefaultAsyncHttpxClient):
            async def send(self, *args: Any, **kwargs: Any) -> Any:
                raise SoftTimeLimitExceeded

        def clients(asked: ModelEntry) -> openai.AsyncOpenAI:
            if asked.model == "first":
                return make_client(asked)
            if not is_wrapped:
                raise SoftTimeLimitExceeded
            return openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0, http_client=Interrupted())

        server.script([steps.refusal()], model="first")
        models = [entry(server, model) for model in ("first", "second", "third")]
        with pytest.raises(SummarizerError) as caught:
            summarize(OpenAISummarizer(settings(*models), clients=clients), request(), ACCEPT)
        assert caught.value.error_code == ErrorCode.TIME_LIMIT
        assert [call.model for call in caught.value.calls] == ["first"]
        assert server.count("third") == 0

    def test_a_draft_that_is_too_long_is_asked_for_once_more_and_tighter(self, server, summarize):
        """One retry asked tighter, with the event ``summary_oversize``."""
        events: list[tuple[EventKind, dict[str, Any]]] = []
        server.script([fill_target(2.0), fill_target(1.0)])
        draft = summarize(
            cascade(server, "first"), request(), ACCEPT, lambda kind, figures: events.append((kind, figures))
        )
        assert draft.model == "first"
        first, second = server.requests
        assert second["messages"][0] == first["messages"][0]
        assert second["messages"][1]["content"].startswith(first["messages"][1]["content"])
        assert "about 160 tokens, 10 too many. Write it again in about 70 tokens" in second["messages"][1]["content"]
        ((kind, figures),) = events
        assert kind == EventKind.SUMMARY_OVERSIZE
        assert figures["target_tokens"] == 100
        assert figures["output_tokens"] > 150
        server.script([fill_target(4.0)] * 2, model="first")
        assert summarize(cascade(server, "first", "second"), request(), ACCEPT).model == "second"

    @pytest.mark.parametrize(
        ("script", "code", "transient"),
        [
            ([unauthorized(), steps.server_error(), steps.refusal()], ErrorCode.PROVIDER_ERROR, True),
            ([unauthorized(), steps.refusal(), steps.bad_request()], ErrorCode.REFUSED, False),
            ([unauthorized(), insufficient_quota(), steps.bad_request()], ErrorCode.AUTHENTICATION, False),
        ],
    )
    def test_a_cascade_is_transient_if_one_failure_was(self, server, summarize, script, code, transient):
        """If every model failed and one failure was transient, the run is tried again later."""
        server.script(script)
        with pytest.raises(SummarizerError) as caught:
            summarize(cascade(server, "first", "second", "third"), request(), ACCEPT)
        error: Any = caught.value
        assert (error.error_code, error.transient) == (code, transient)
        assert [part.partition(":")[0] for part in str(error).split("; ")] == ["first", "second", "third"]

    def test_the_longest_wait_that_was_asked_for_counts(self, server):
        server.script([steps.rate_limited(3), steps.rate_limited(40), steps.server_error()])
        with pytest.raises(SummarizerError) as caught:
            cascade(server, "first", "second", "third").summarize(request())
        assert caught.value.retry_after == 40

    def test_the_sessions_own_model_comes_last(self, server, summarize):
        server.script([steps.refusal()], model="first")
        listed = settings(entry(server, "first"), CHAT_MODELS=[entry(server, "chat-model")])
        summarizer = OpenAISummarizer(listed, session_model="chat-model")
        assert summarize(summarizer, request(), ACCEPT).model == "chat-model"

    def test_the_sessions_own_model_is_not_asked_twice(self):
        listed = settings("first", "second", CHAT_MODELS=["first"])
        assert [e.model for e in model_entries(listed, "first")] == ["first", "second"]

    def test_a_chat_model_is_asked_where_the_host_lists_it_and_nowhere_else(self, server):
        """A session's owner may name any model, also one of the same name elsewhere."""
        listed = settings("chat-model", CHAT_MODELS=[entry(server, "chat-model"), entry(server, "other")])
        asked = [(e.model, e.base_url) for e in model_entries(listed, "chat-model")]
        assert asked == [("chat-model", None), ("chat-model", server.url)]
        assert [e.model for e in model_entries(listed, "their-own-model")] == ["chat-model"]
        assert [e.model for e in model_entries(settings("first"), "chat-model")] == ["first"]

    def test_a_model_that_is_too_small_is_passed_over(self, server, summarize):
        models = entry(server, "small", max_input_tokens=50), entry(server, "large")
        assert summarize(OpenAISummarizer(settings(*models)), request(), ACCEPT).model == "large"
        assert server.count("small") == 0

    def test_without_any_model_the_error_says_so(self, summarize):
        with pytest.raises(SummarizerError, match="MODELS of the summarizer is empty"):
            summarize(OpenAISummarizer(settings()), request(), ACCEPT)

    def test_it_can_be_called_from_code_that_runs_on_an_event_loop(self, server):
        """A notebook calls synchronous functions while its loop runs."""

        async def notebook() -> SummaryDraft:
            return run_summarizer(cascade(server, "first"), request(), ACCEPT)

        assert asyncio.run(notebook()).text == GOOD


class TestDraftsThatTellNothing:
    NOTHING = "Conversation roles must alternate user/assistant/user/assistant/..."

    def test_one_is_asked_for_once_more(self, server, summarize):
        server.script([steps.reply(self.NOTHING)])
        assert summarize(cascade(server, "first"), request(), ACCEPT).text == GOOD
        assert server.count("first") == 2

    def test_a_thought_is_cut_away_before_a_draft_is_judged(self, server, summarize):
        server.script([steps.reply(f'Hm, a rocket.\n</think>\n\n{GOOD}\n<cutoff id="{NONCE}"/>')])
        assert summarize(cascade(server, "first"), request(), ACCEPT).text == GOOD


class TestDeadline:
    @pytest.mark.parametrize("step", [steps.hang(), drip(0.01)], ids=["hang", "drip"])
    def test_a_call_ends_at_its_deadline_and_is_really_cancelled(self, server, summarize, step):
        """A server that sends a byte now and then would hold a client that only times out between bytes."""
        server.script([step], model="first")
        started = time.monotonic()
        summarizer = OpenAISummarizer(settings(entry(server, "first", timeout=0.3), entry(server, "second")))
        assert summarize(summarizer, request(), ACCEPT).model == "second"
        assert 0.3 <= time.monotonic() - started < 0.3 + MARGIN
        server.wait_for_disconnects(1)

    @pytest.mark.long
    def test_all_remedies_of_one_question_share_its_deadline(self, server):
        server.script([late(1.2, unsupported_parameter("temperature")), steps.hang()])
        with ThreadPoolExecutor(max_workers=1) as threads:
            asked = threads.submit(cascade(server, "first", timeout=2).summarize, request())
            server.wait_for(2)
            started = time.monotonic()
            with pytest.raises(SummarizerError):
                asked.result()
        # The second one has the 0.8 seconds that the first one left: with a deadline of its own it would have 2.
        assert time.monotonic() - started < 1.9

    def test_a_cancelled_task_leaves_the_server_at_once(self, server):
        server.script([steps.hang()])

        async def give_up() -> None:
            task = asyncio.create_task(cascade(server, "first").asummarize(request()))
            await asyncio.to_thread(server.wait_for, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(give_up())
        server.wait_for_disconnects(1)


class Plain(Summarizer):
    """A summarizer as a host writes it."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(settings())
        self.answers = list(answers)
        self.asked: list[SummaryRequest] = []
        self.threads: set[int] = set()

    def summarize(self, request: SummaryRequest) -> Any:
        self.asked.append(request)
        self.threads.add(threading.get_ident())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Awaited(Plain):
    async def asummarize(self, request: SummaryRequest) -> Any:
        await asyncio.sleep(0)
        return replace(Plain.summarize(self, request), model="awaited")


class Rewritten(Awaited):
    def summarize(self, request: SummaryRequest) -> Any:
        return replace(super().summarize(request), model="rewritten")


class Short(Plain):
    max_output_tokens = 100

    def summarize(self, request: SummaryRequest) -> Any:
        return SummaryDraft(text=GOOD, limit=request.max_output_tokens)


class TestHostSummarizers:
    def test_it_is_asked_for_no_longer_reply_than_it_can_write(self, summarize):
        assert summarize(Short(), request(), ACCEPT).limit == 100
        assert summarize(Short(), replace(request(), max_output_tokens=7), ACCEPT).limit == 7

    def test_a_plain_one_does_not_hold_an_event_loop(self):
        plain = Plain(SummaryDraft(text=GOOD))
        asyncio.run(ask_summarizer(plain, request(), ACCEPT))
        assert plain.threads.isdisjoint({threading.get_ident()})

    def test_an_asynchronous_one_is_awaited(self):
        assert asyncio.run(ask_summarizer(Awaited(SummaryDraft(text=GOOD)), request(), ACCEPT)).model == "awaited"

    def test_what_a_subclass_writes_is_asked_and_not_what_the_class_above_it_awaits(self, summarize):
        assert summarize(Rewritten(SummaryDraft(text=GOOD)), request(), ACCEPT).model == "rewritten"

    @pytest.mark.parametrize(
        ("status", "body", "code", "transient", "words"),
        [
            (529, None, ErrorCode.PROVIDER_ERROR, True, "HTTP 529"),
            (401, "<html>", ErrorCode.AUTHENTICATION, False, "HTTP 401"),
            (
                429,
                '{"error": {"type": "rate_limit_error"}}',
                ErrorCode.PROVIDER_ERROR,
                True,
                "HTTP 429 rate_limit_error",
            ),
            (429, {"error": {"code": "insufficient_quota"}}, ErrorCode.QUOTA, False, "HTTP 429 insufficient_quota"),
            (
                400,
                {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}},
                "input_too_large",
                False,
                "HTTP 400",
            ),
        ],
    )
    def test_a_status_says_what_went_wrong(self, status, body, code, transient, words):
        """Nothing of a message that may quote the prompt, since this is not known here."""
        error = failure_of(status, body, {"Retry-After": "7"})
        assert (error.error_code, error.transient, error.retry_after, str(error)) == (code, transient, 7, words)

    def test_a_call_takes_no_longer_than_its_time_out_and_its_run(self):
        plain = Plain()
        assert plain.seconds_left() == 5
        plain.time_left = lambda: 2.0
        assert plain.seconds_left() == 2

    def test_its_drafts_are_judged_too(self, summarize):
        with pytest.raises(SummarizerError) as caught:
            summarize(Plain(SummaryDraft(text="")), request(), ACCEPT)
        error: Any = caught.value
        assert (error.error_code, error.model) == (ErrorCode.EMPTY, "Plain")

    @pytest.mark.parametrize(
        ("raised", "code", "transient"),
        [
            (TimeoutError("slow"), ErrorCode.TIMEOUT, True),
            (ConnectionResetError("gone"), ErrorCode.PROVIDER_ERROR, True),
            (ValueError(SECRET), ErrorCode.PROVIDER_ERROR, False),
        ],
    )
    def test_what_it_raises_becomes_a_summarizer_error_without_its_words(
        self, summarize, raised, code, transient, caplog
    ):
        """Where it happened is logged; what it says may quote the conversation."""
        with pytest.raises(SummarizerError) as caught:
            summarize(Plain(raised), request(), ACCEPT)
        assert (caught.value.error_code, caught.value.transient) == (code, transient)
        assert str(caught.value) == f"Plain raised {type(raised).__name__}"
        assert isinstance(caught.value.__cause__, type(raised))
        assert f"error summarizer=Plain type={type(raised).__name__}\n  File" in caplog.text
        assert str(raised) not in caplog.text


class Scrubbing(OpenAISummarizer):
    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        return super().summarize(replace(request, user=request.user.replace("7391-alpha", "***")))


class TestMaking:
    def test_what_a_subclass_of_the_cascade_writes_is_asked(self, server, summarize):
        """It was passed over, and the text was sent as it was."""
        mine = Scrubbing(settings(entry(server, "first")))
        assert summarize(mine, request(), ACCEPT).text == GOOD
        assert "7391-alpha" not in str(server.requests)
