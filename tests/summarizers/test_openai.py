"""One call of one model: parameters, figures of its reply, secrets, defaults of an entry."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import openai
import pytest

from compaction_app.exceptions import SummarizerError
from compaction_app.summarizers.base import run_summarizer
from compaction_app.summarizers.openai import NO_KEY, ModelEntry, OpenAISummarizer, model_entries
from compaction_app.testing import steps
from compaction_app.values import ErrorCode
from tests.steps import echoing_validation_error, unauthorized, unsupported_parameter
from tests.summarizers.summarizing import ACCEPT, GOOD, KEY, SECRET, cascade, entry, request, settings

pytestmark = pytest.mark.pure


class TestReplies:
    @pytest.mark.parametrize(
        ("asked", "honoured"),
        [
            (None, None),
            (7, 7.0),
            ("2.5", 2.5),
            (86_400, 3600.0),
            ("soon", None),
            (-3, None),
            (timedelta(seconds=90), 90),
        ],
    )
    def test_retry_after_is_honoured_up_to_an_hour(self, server, asked, honoured):
        """In seconds, or a date."""
        if isinstance(asked, timedelta):
            asked = format_datetime(datetime.now(UTC) + asked)
        server.script([steps.rate_limited(asked)])
        with pytest.raises(SummarizerError) as caught:
            cascade(server, "first").summarize(request())
        assert caught.value.retry_after == pytest.approx(honoured, abs=5 if honoured == 90 else 0)


class TestParameters:
    @pytest.mark.parametrize(
        ("model", "temperature", "output"),
        [
            ("gpt-4o-mini", 0.1, "max_tokens"),
            ("olmo-2", 0.1, "max_tokens"),
            ("o4-mini", None, "max_completion_tokens"),
            ("gpt-5.4-nano", None, "max_completion_tokens"),
            ("openai/gpt-5-mini", None, "max_completion_tokens"),
        ],
    )
    def test_a_model_is_sent_the_parameters_that_it_takes(self, server, model, temperature, output):
        cascade(server, model).summarize(request())
        (body,) = server.requests
        assert body.get("temperature") == temperature
        assert body[output] == 5000
        assert {"max_tokens", "max_completion_tokens"} & set(body) == {output}

    def test_openai_itself_is_sent_its_own_parameter(self, server, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

        def redirected(_entry: ModelEntry) -> openai.AsyncOpenAI:
            return openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0)

        OpenAISummarizer(settings("gpt-4o-mini"), clients=redirected).summarize(request())
        assert "max_completion_tokens" in server.requests[0]

    def test_temperature_is_left_out_where_it_is_refused(self, server):
        server.script([unsupported_parameter("temperature")])
        assert run_summarizer(cascade(server, "first"), request(), ACCEPT).text == GOOD
        assert ["temperature" in body for body in server.requests] == [True, False]

    @pytest.mark.parametrize(
        "step",
        [
            unsupported_parameter("max_tokens"),
            steps.bad_request("Use max_completion_tokens instead.", status=422),
            # As FastAPI says it.
            lambda exchange: exchange.send_json(
                422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_tokens"], "msg": "Extra inputs"}]}
            ),
        ],
    )
    def test_the_output_parameter_is_swapped_where_it_is_refused(self, server, step):
        server.script([step])
        assert cascade(server, "first").summarize(request()).text == GOOD
        assert [("max_tokens" in b, "max_completion_tokens" in b) for b in server.requests] == [
            (True, False),
            (False, True),
        ]

    def test_a_smaller_output_cap_is_taken_over(self, server):
        message = "max_tokens is too large: 5000. This model supports at most 4096 completion tokens."
        server.script([steps.bad_request(message)])
        assert cascade(server, "first").summarize(request()).text == GOOD
        assert [body["max_tokens"] for body in server.requests] == [5000, 4096]

    def test_the_output_cap_is_the_lower_of_request_and_model(self, server):
        capped = settings(entry(server, "first"), MAX_OUTPUT_TOKENS=700)
        OpenAISummarizer(capped).summarize(request())
        assert server.requests[0]["max_tokens"] == 700


class TestSecrets:
    @pytest.mark.parametrize(
        "step",
        [
            unauthorized(),
            echoing_validation_error(),
            steps.bad_request(f"Key {KEY} of {SECRET[4:28]}"),
            steps.bad_request("oops", type=SECRET, param=SECRET),
            # Shorter than any length that could be searched for.
            steps.bad_request("Bad prompt: launch code"),
            steps.bad_request("Invalid value: the 7391-alp"),
        ],
    )
    def test_neither_key_nor_prompt_is_in_errors_or_logs(self, server, step, caplog):
        server.script([step])
        with caplog.at_level(logging.DEBUG, logger="compaction_app"), pytest.raises(SummarizerError) as caught:
            run_summarizer(cascade(server, "first"), request(), ACCEPT)
        error: Any = caught.value
        ours = [record for record in caplog.records if record.name.startswith("compaction_app")]
        said = f"{error!r} {vars(error)} " + " ".join(record.getMessage() for record in ours)
        assert ours
        assert KEY not in said
        assert "7391-alpha" not in said
        assert "launch code" not in said
        # Nor in a traceback: the client's error holds the request, header and all.
        assert (error.__cause__, error.__context__) == (None, None)

    def test_the_default_key_is_not_sent_to_another_address(self, server, monkeypatch):
        """One provider's key is no other provider's business."""
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        OpenAISummarizer(settings({"model": "first", "base_url": server.url})).summarize(request())
        assert server.calls[0].headers["authorization"] == f"Bearer {NO_KEY}"

    @pytest.mark.parametrize("key", [KEY, None])
    def test_the_default_address_gets_the_default_key_if_there_is_one(self, server, monkeypatch, key):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        if key:
            monkeypatch.setenv("OPENAI_API_KEY", key)
        OpenAISummarizer(settings("first", {"model": "second", "base_url": server.url})).summarize(request())
        assert server.calls[0].headers["authorization"] == f"Bearer {key or NO_KEY}"

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [("OPENAI_API_KEY", "is not set"), ("NOT_THERE", "is not set"), ("ODD_KEY", "has a character that no header")],
    )
    def test_a_missing_key_fails_without_a_call(self, server, monkeypatch, name, wrong):
        """Or one that cannot be sent."""
        monkeypatch.setenv("ODD_KEY", "sk-\u2013abc")
        options = {} if name == "OPENAI_API_KEY" else {"base_url": server.url, "api_key_env": name}
        with pytest.raises(SummarizerError, match=f"the environment variable {name} {wrong}") as caught:
            run_summarizer(OpenAISummarizer(settings({"model": "first", **options})), request(), ACCEPT)
        assert "abc" not in str(caught.value)
        assert caught.value.error_code == ErrorCode.AUTHENTICATION
        assert server.requests == []

    @pytest.mark.parametrize("url", ["localhost:8000", "http://", "http://[::1/v1", "http://x:99999/v1"])
    def test_an_address_that_is_none_is_a_bad_request(self, url):
        with pytest.raises(SummarizerError, match="base_url") as caught:
            run_summarizer(OpenAISummarizer(settings({"model": "first", "base_url": url})), request(), ACCEPT)
        assert (caught.value.error_code, caught.value.transient) == (ErrorCode.BAD_REQUEST, False)


class TestEntries:
    @pytest.mark.parametrize(
        ("model", "input_tokens", "output_tokens"),
        [
            ("gpt-5.4-nano", 380_000, 20_000),
            ("gpt-4", 8_192 - 2_048, 2_048),
            ({"model": "gpt-4", "max_input_tokens": 3_000}, 3_000, 5_192),
            ("somebodys-model", 108_000, 20_000),
        ],
    )
    def test_the_input_limit_is_the_models_window_less_the_output_cap(self, model, input_tokens, output_tokens):
        """In a small window the cap is a quarter of it, else nothing could be read."""
        (made,) = model_entries(settings(model))
        assert (made.max_input_tokens, made.max_output_tokens) == (input_tokens, output_tokens)

    def test_the_sessions_window_is_that_of_its_chat_model_only(self):
        made = model_entries(settings("gpt-5.4-nano", "local-model", CONTEXT_WINDOW=4_000))
        assert [e.max_input_tokens for e in made] == [380_000, 108_000]
