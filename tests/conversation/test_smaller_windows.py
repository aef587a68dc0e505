"""A window that is smaller than configured: the turn goes on, and what the provider said counts from then on."""

from types import SimpleNamespace
from typing import Any

import httpx2
import openai
import pytest

from compaction_app import chat
from compaction_app.context import windows
from compaction_app.contrib.branch import FrameworkBranch
from compaction_app.conversation.chat_model import endpoint_of_client
from compaction_app.exceptions import ContextOverflow
from compaction_app.models import CompactionRun
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import Capacity
from tests.builders import grow, words
from tests.conversation.asking import EACH
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.steps import small_window
from tests.summarizers.summarizing import KEY, KEY_VARIABLE, entry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window", "own_cache")]


def takes(words_: int, message: str = "prompt is too long: {sent} tokens > {window} maximum", **error: Any) -> Step:
    """A model of a window of so many words; it refuses more in its own words."""

    def answer(exchange: Exchange) -> None:
        sent = sum(len(str(message["content"]).split()) for message in exchange.body["messages"])
        if sent > words_:
            said = message.format(sent=sent, window=words_)
            exchange.send_error(**{"status": 400, "message": said, "type": "invalid_request_error", **error})
        else:
            usage = {"prompt_tokens": sent, "completion_tokens": 2, "total_tokens": sent + 2}
            steps.reply("Aye.", usage=usage)(exchange)

    return answer


def long_branch(session: Any, turns: int = 35) -> Any:
    """``turns`` of 200 tokens, and a question of 100."""
    return grow(session, None, "u a " * turns + "u")[-1]


class TestRecovery:
    """justrach/codegraff#203."""

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("message", "fails"),
        [
            pytest.param("prompt is too long: {sent} tokens > {window} maximum", False, id="named"),
            pytest.param("prompt is too long: {sent} tokens > {window} maximum", True, id="no summary"),
            pytest.param("maximum context length is {window} tokens, reduce the length", False, id="only the window"),
            pytest.param("Input is too long for requested model.", False, id="no number"),
            pytest.param("The input token count ({sent}) exceeds the maximum number (10).", False, id="nonsense"),
        ],
    )
    def test_a_turn_is_fitted_whatever_becomes_of_the_compaction(self, session, client, server, message, fails):
        if fails:
            FakeSummarizer.error = RuntimeError("no summary today")
        server.script(default=takes(3_000, message))
        reply = chat.complete(long_branch(session), client=client)
        assert reply.content == "Aye."
        assert len(server.requests) <= 4

    def test_a_turn_waits_for_one_generation(self, session, client, server, settings, monkeypatch):
        """A small summarizer was asked 35 times here; workers make the other generations.

        In less than 2,100 tokens the prompt with one turn fits or not, as the tokens of its random marks fall out.
        """
        server.script(default=takes(3_000))
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        with ScriptedOpenAIServer(default=small_window(2_400)) as summarizer:
            settings.COMPACTION = small(asked={"MODELS": [entry(summarizer, "m1", timeout=30)]})
            chat.complete(long_branch(session), client=client)
            assert len(summarizer.requests) <= 3
        made, following = CompactionRun.objects.order_by("pk")
        assert (made.status, following.status, following.previous_run_id) == ("succeeded", "ready", made.pk)

    @pytest.mark.long
    @EACH
    def test_later_turns_there_are_within_it_and_others_are_not(self, session, server, ask):
        server.script(default=takes(3_000))
        reply = ask(long_branch(session), server)
        assert len(server.requests) == 2
        tip = chat.append_message(session, reply, role="user", content=words(100))
        ask(tip, server)
        assert len(server.requests) == 3
        assert chat.get_context(tip).window == 10_000, "the default endpoint said nothing"

    def test_a_rate_is_no_window(self, session, client, server):
        """TheR1D/shell_gpt#653: it does not help to wait, and it is no limit of the model."""
        said = "Request too large for gpt-4o on tokens per min (TPM): Limit {window}, Requested {sent}."
        server.script(default=takes(3_000, said, status=429, code="rate_limit_exceeded"))
        chat.complete(long_branch(session), client=client)
        assert windows.learned_at(endpoint_of_client(client), "house-model")[1].window is None

    def test_only_a_newest_turn_that_is_too_large_is_an_overflow_with_the_providers_numbers(
        self, session, client, server
    ):
        server.script(default=takes(3_000))
        tip = chat.append_message(session, long_branch(session, 5), role="user", content=words(5_000))
        with pytest.raises(ContextOverflow, match=r"newest turn alone too long: .* 3000") as caught:
            chat.complete(tip, client=client)
        assert (caught.value.available, caught.value.needed > 5_000) == (3_000, True)

    def test_where_no_number_is_named_the_newest_turn_is_tried_alone(self, session, client, server):
        server.script(default=takes(1_200, "Input is too long for requested model."))
        tip = chat.append_message(session, long_branch(session), role="user", content=words(1_000))
        assert chat.complete(tip, client=client).content == "Aye."

    def test_a_window_that_system_prompt_and_tools_fill_is_an_overflow(self, client, server):
        session = chat.start_session(model="house-model", system_prompt=words(4_000))
        server.script(default=takes(3_000))
        with pytest.raises(ContextOverflow, match="3000"):
            chat.complete(grow(session, None, "u")[-1], client=client)

    def test_where_the_mode_is_off_nothing_is_left_out(self, session, client, server, settings):
        settings.COMPACTION = small(MODE="off")
        server.script(default=takes(3_000))
        with pytest.raises(ContextOverflow, match="MODE off sends all, too long: "):
            chat.complete(long_branch(session), client=client)
        assert len(server.requests) == 1


PICTURE = {"type": "image", "url": "https://example.org/roof.jpg"}


class TestLearned:
    PLACE = ("http://here/v1", "m")

    def test_a_window_below_a_prompt_that_was_taken_is_not_believed(self, session, client, server):
        """A turn that was made smaller for it is taken too, and says nothing of what is the most."""
        tip = long_branch(session)
        chat.complete(tip, client=client)
        for _ in range(2):
            server.script([steps.bad_request("prompt is too long: 9000 tokens > 2000 maximum")])
            chat.complete(tip, client=client, regenerate=True)
        assert windows.learned_at(endpoint_of_client(client), "house-model")[1].window > 7_000

    def test_a_request_with_too_many_bytes_shortens_nobody_elses_prompt(self, session, client, server):
        """A server in between refuses a picture, and names no number of tokens."""
        tip = chat.append_message(session, None, role="user", content="Look.", attachments=[PICTURE])

        def too_many_bytes(exchange: Exchange) -> None:
            exchange.send(413, b"<html><title>413 Request Entity Too Large</title></html>", "text/html")

        server.script(default=too_many_bytes)
        with pytest.raises(ContextOverflow):
            chat.complete(tip, client=client)
        server.script(default=steps.reply("Aye."))
        other = chat.start_session(model="house-model")
        assert not chat.complete(long_branch(other, 20), client=client).fallback_used

    def test_what_a_larger_accepted_prompt_disproves_is_forgotten(self):
        windows.remember_window(self.PLACE, 3_000, windows.NOTHING)
        windows.remember_accepted(self.PLACE, 2_900, windows.learned_at(*self.PLACE)[1])
        assert windows.learned_at(*self.PLACE)[1] == windows.Learned(3_000, Capacity(2_250, 750), 2_900)
        windows.remember_accepted(self.PLACE, 4_000, windows.learned_at(*self.PLACE)[1])
        assert windows.learned_at(*self.PLACE)[1] == windows.Learned(accepted=4_000)

    def test_a_learned_window_in_which_nothing_fits_is_asked_again(self, session, client, server):
        windows.remember_window((endpoint_of_client(client), "house-model"), 1_000, windows.NOTHING)
        tip = chat.append_message(session, None, role="user", content=words(2_000))
        assert chat.complete(tip, client=client).content == "Aye."

    @pytest.mark.parametrize(
        ("url", "endpoint"),
        [
            ("https://API.example.org/v1/?api-version=1&key=s", "https://api.example.org/v1"),
            ("https://ann:secret@example.org:8443/v1/", "https://example.org:8443/v1"),
            ("http://[::1/v1", ""),
        ],
    )
    def test_an_endpoint_is_an_address_without_query_and_password(self, url, endpoint):
        assert windows.endpoint_of(url) == endpoint

    def test_an_object_without_an_address_has_no_endpoint(self, monkeypatch):
        monkeypatch.setenv("OPENAI_BASE_URL", "http://house/v1/")
        assert (endpoint_of_client(object()), endpoint_of_client(None)) == ("", "http://house/v1")


class TestAddresses:
    """What is learned of a model is kept under the address that taught it: another server may call its own the same."""

    def test_a_window_that_a_framework_met_counts_at_that_address_alone(self, session):
        """A local server called its model gpt-4.1."""
        branch = FrameworkBranch(session, long_branch(session))
        branch.show(model="gpt-4.1")
        request = httpx2.Request("POST", "http://localhost:8000/v1/chat/completions")
        body = {"message": "This model's maximum context length is 3000 tokens, not 9000.", "code": "context_too_long"}
        assert branch.is_too_long(openai.APIError(body["message"], request, body=body))
        windows_seen = {
            url: shown_window(FrameworkBranch(session, branch.tip), url)
            for url in (None, "http://localhost:8000/v1/", "http://localhost:9000/v1")
        }
        assert list(windows_seen.values()) == [10_000, 3_000, 10_000]

    def test_a_client_without_an_address_teaches_the_default_one_nothing(self, session, client, server):
        server.script(default=takes(3_000))
        tip = long_branch(session)
        chat.complete(tip, client=SimpleNamespace(chat=client.chat))
        assert chat.get_context(tip).window == 10_000

    def test_how_a_model_counts_is_kept_by_address_too(self, session, client, server):
        tip = grow(session, None, "u(1000)")[-1]
        threshold = chat.get_context(tip).threshold
        server.script(default=steps.reply("Aye.", usage={"prompt_tokens": 1_500, "completion_tokens": 1}))
        chat.complete(tip, client=client)
        assert chat.get_context(tip).threshold == threshold
        session.refresh_from_db()
        assert [name.partition(" at ")[2] for name in session.token_calibration] == [endpoint_of_client(client)]


def shown_window(branch: FrameworkBranch, url: str | None) -> int:
    branch.show(model="gpt-4.1", url=url)
    assert branch._shown is not None
    return branch._shown.window
