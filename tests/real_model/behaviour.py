"""A real model behind llama.cpp's own server: what the app does with it, and never how well it writes.

The model is far too small for a summary, and that is its use: a real tokenizer, a real window, real errors, real
slowness, real nonsense. ``make test-model`` installs it and runs this file, which ``make test`` does not collect.
"""

import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from compaction_app import chat
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.context import windows
from compaction_app.context.overflow import OUTPUT_SHARE
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.summarizers.base import run_summarizer
from compaction_app.summarizers.drafts import repeats_itself
from compaction_app.summarizers.openai import OpenAISummarizer
from compaction_app.tree.verify import verify_session
from compaction_app.values import ErrorCode, Message, SummaryRequest
from project.embedded import HOST, free_port
from project.guard import GuardedProcess
from tests.conftest import REPOSITORY
from tests.project.test_demo import RunningDemo
from tests.small import asks, talk
from tests.summarizers.summarizing import request_of
from tests.summarizers.summarizing import settings as settings_of

#: Where .ci/test-model has installed it.
FOLDER = Path(os.environ.get("TEST_MODEL_FOLDER") or REPOSITORY / "var" / "model")
MODEL = "smollm2"
WINDOW = 2_048
START_SECONDS, IDLE_SECONDS, CALL_SECONDS = 60, 60, 300
#: Of a draft that was written, and is no summary.
REFUSED = {code for code in ErrorCode if list(ErrorCode).index(code) >= list(ErrorCode).index(ErrorCode.EMPTY)}

# A model is called, which no open transaction may wait for.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_cache")]


class LlamaServer(GuardedProcess):
    def __init__(self, folder: Path, window: int) -> None:
        self.url = f"http://{HOST}:{(port := free_port())}/v1"
        script = REPOSITORY / "tests" / "real_model" / "serve.py"
        command = [FOLDER / "bin" / "python", script, FOLDER / "weights.gguf", str(port), str(window)]
        # Threads that wait would take the time of those that work.
        environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
        super().__init__(command, log=folder / "llama.log", cwd=folder, env=environment)
        self.wait_until("/health", lambda answer: answer == {"status": "ok"}, START_SECONDS)

    def wait_until(self, path: str, is_so: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_so(answer := self.ask(path)):
            assert self.is_running(), self.log_tail()
            assert time.monotonic() < deadline, f"{path} is {answer} after {seconds} seconds"
            time.sleep(0.1)

    def ask(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self.url.removesuffix("/v1") + path, timeout=IDLE_SECONDS) as answer:
                return json.load(answer)
        except OSError as error:
            return error

    def count(self, request: SummaryRequest) -> int:
        """Tokens of both messages, by the model's own tokenizer."""
        text = json.dumps({"content": f"{request.system}\n{request.user}"}).encode()
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/tokenize", data=text) as answer:
            return len(json.load(answer)["tokens"])

    def wait_until_idle(self) -> None:
        """Nobody waits for what it was writing."""
        self.wait_until("/slots", lambda slots: not slots[0]["is_processing"], IDLE_SECONDS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    server = LlamaServer(tmp_path_factory.mktemp("model"), WINDOW)
    yield server
    server.stop()


@pytest.fixture
def asking(settings: Any, model: LlamaServer) -> Any:
    """Sets the default summarizer: the model, with these keys of the entry."""

    def ask(window: int | None = None, **entry: Any) -> None:
        entry = {"MODELS": [{"model": MODEL, "base_url": model.url}], "TIMEOUT": CALL_SECONDS, **entry}
        named = {"MODELS": {MODEL: {"window": window}}} if window else {}
        settings.COMPACTION = {"CONTEXT_WINDOW": 4_000, "COOLDOWN_SECONDS": 0, **asks(**entry), **named}

    return ask


def carried_out(tip: ChatMessage) -> CompactionRun:
    """One run, by hand: a next generation is not waited for."""
    run = chat.request_compaction(tip)
    assert run is not None
    outcome = compact_chat_history(run.pk)
    assert outcome is not None
    assert_at_rest(tip.session)
    return outcome.run


def assert_at_rest(session: ChatSession) -> None:
    """Every run that began has ended, a summary is there where it says so, and nothing is half-written."""
    for run in CompactionRun.objects.filter(session=session).exclude(started_at=None):
        assert run.status in ("succeeded", "failed"), (run.status, run.error_code, run.error_detail)
        assert (run.summary_id is not None) == (run.status == "succeeded")
    for summary in ChatMessage.objects.summaries().filter(session=session):
        if not summary.is_extract:
            assert not repeats_itself(summary.content)
    assert verify_session(session).problems == []


def test_a_request_that_the_server_refuses_for_its_length_is_asked_again_smaller(asking, model):
    """The settings claim twice the window. What the server says of it is kept for the next run."""
    asking(window=2 * WINDOW, MAX_OUTPUT_TOKENS=40)
    session = chat.start_session()
    run = carried_out(talk(session, turns=60)[-1])
    assert run.error_code == "" or run.error_code in REFUSED, "not for its length"
    assert run.input_tokens > 0
    assert windows.learned_at(model.url, MODEL)[1].window <= WINDOW
    assert "exceeds the available context size" in model.log.read_text()


def test_a_reply_that_fills_the_window_is_an_overflow_too(model):
    """It ends with ``length`` although fewer tokens came than were asked for."""
    sentences = [f"Ida wrote the number {n} on the board of the harbour office.\n" for n in range(200)]

    def request(count: int) -> SummaryRequest:
        said = "".join(sentences[:count])
        return request_of(covered=[Message(id=1, depth=1, role="user", tokens=10 * count, content=said)])

    # What is left is less than a sentence or two, and the signs of its chat template are a few tokens.
    fitting = [n for n in range(200) if model.count(request(n)) < WINDOW - 30]
    asked = request(len(fitting) - 1)
    entry = {"model": MODEL, "base_url": model.url, "timeout": CALL_SECONDS}
    summarizer = OpenAISummarizer(settings_of(entry, MODELS={MODEL: {"window": 2 * WINDOW}}))
    with pytest.raises(SummarizerError) as caught:
        run_summarizer(summarizer, asked)
    assert caught.value.error_code == ErrorCode.INPUT_TOO_LARGE
    assert [call.input_tokens + call.output_tokens for call in caught.value.calls] == [WINDOW]
    [asked] = summarizer.candidates
    assert asked.learned.output_tokens == WINDOW // OUTPUT_SHARE


@pytest.mark.parametrize("most", [40, 200])
def test_what_it_writes_is_a_summary_or_the_run_ends_without_one(asking, most):
    """With forty tokens it is cut off."""
    asking(window=WINDOW, MAX_OUTPUT_TOKENS=most)
    tip = talk(chat.start_session(), turns=60)[-1]
    run = carried_out(tip)
    assert run.error_code in ({"", *REFUSED} if most == 200 else {ErrorCode.TRUNCATED, ErrorCode.OVERSIZE})
    assert run.output_tokens in (40, 80) or most == 200, "it is asked again where it was too long"
    context = chat.get_context(tip)
    assert context.tokens <= context.available_tokens
    assert bool(context.summary_id) == (run.status == "succeeded")


def test_a_call_is_cancelled_at_its_deadline_and_the_server_stops_writing(asking, model):
    asking(window=WINDOW, TIMEOUT=2)
    tip = talk(chat.start_session(), turns=60)[-1]
    began = time.monotonic()
    with pytest.raises(CompactionFailed) as caught:
        chat.compact(tip)
    assert caught.value.error_code == ErrorCode.TIMEOUT
    assert time.monotonic() - began < IDLE_SECONDS
    model.wait_until_idle()
    assert_at_rest(tip.session)


class TestChat:
    @pytest.fixture
    def client(self, model: LlamaServer) -> Iterator[openai.OpenAI]:
        with openai.OpenAI(base_url=model.url, api_key="none", max_retries=0, timeout=CALL_SECONDS) as client:
            yield client

    def test_a_stream_is_stored_as_it_came(self, client):
        session = chat.start_session(model=MODEL, system_prompt="Answer in one short sentence.")
        question = chat.append_message(session, None, role="user", content="What is the capital of France?")
        with chat.stream(question, client=client, max_tokens=16) as stream:
            said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        reply = stream.message
        assert said
        assert reply.content == said
        assert reply.finish_reason in ("stop", "length")
        session.refresh_from_db()
        assert any(name.startswith(f"{MODEL} at ") for name in session.token_calibration), "it said what it had read"

    def test_a_prompt_that_it_refuses_is_compacted_and_answered(self, client, settings):
        settings.COMPACTION = {"CONTEXT_WINDOW": 8_000, "SUMMARIZER": "extractive"}
        session = chat.start_session(model=MODEL)
        tip = talk(session, turns=40)[-1]
        question = chat.append_message(session, tip, role="user", content="Which number is on the board now?")
        assert question.path_tokens > WINDOW
        reply = chat.complete(question, client=client, max_tokens=8)
        assert reply.content
        assert [(run.trigger, run.status) for run in CompactionRun.objects.all()] == [("overflow", "succeeded")]
        assert_at_rest(session)


def test_the_demo_comes_to_its_end(tmp_path):
    """Its worker, its sweep and its report, with a short conversation of one branch that needs a summary."""
    said = [("user", "Tide table {0}: Ida wrote {0} on the board of the harbour office, and {0} in the book below it.")]
    said += [("assistant", "Noted: {0} is on the board and in the book.")]
    messages = [{"role": role, "content": text.format(n)} for n in range(20) for role, text in said]
    (file := tmp_path / "harbour.json").write_text(json.dumps({"messages": messages}))
    with LlamaServer(tmp_path, 2 * WINDOW) as model:
        environment = {
            "OPENAI_BASE_URL": model.url,
            "COMPACTION_SUMMARIZER_MODELS": MODEL,
            "COMPACTION_SUMMARIZER_TIMEOUT": str(CALL_SECONDS),
            "COMPACTION_SUMMARIZER_WINDOW": str(2 * WINDOW),
            # This model may go on to the end of its window.
            "COMPACTION_SUMMARIZER_MAX_OUTPUT_TOKENS": "60",
            "COMPACTION_CONTEXT_WINDOW": "1400",
        }
        arguments = ["--once", "--file", str(file), "--port", str(free_port())]
        with RunningDemo(tmp_path / "demo", arguments, environment) as demo:
            code = demo.wait(2 * CALL_SECONDS)
    out = demo.output
    assert f"Summaries by: {MODEL} at {model.url}" in out, out
    assert re.search(r"✓ generation 1 |✗ run 1 failed: \w+", out), out
    assert "verify_chats: no problems found" in out
    assert "Finished in" in out
    assert code == 0 or "Some summaries failed (" in out
    demo.assert_nothing_is_left()
