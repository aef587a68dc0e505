"""Requests of Open WebUI and LibreChat, as these versions send them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing import steps
from tests.contrib.gateway.site import FRONT_END, MODELS, branches, post, talk
from tests.steps import stream_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]


HALF = {"content": "c\ud83d"}


class TestOpenWebUI:
    """As version 0.12 sends it, with ENABLE_FORWARD_USER_INFO_HEADERS; its own metadata stays at home."""

    HEADERS = {"X-OpenWebUI-Chat-Id": "7d0e", "X-OpenWebUI-User-Email": "marit@example.org"}

    def turn(self, *messages, key=FRONT_END, model="house-model"):
        status, text = post(*messages, key=key, headers=self.HEADERS, model=model, stream=True)
        assert status == 200, text
        return text

    def test_a_chat(self, server, users):
        thought = "<think>The tide.</think>\n\nIt is high.\n\n"
        server.script(map(steps.reply, (thought, "Noon.", "Once more.", "Edited.")))
        monday, tuesday = ({"role": "system", "content": f"Be brief. It is {day}."} for day in ("Monday", "Tuesday"))
        assert self.turn(monday, *talk("Tide?")) == thought
        # What it took for reasoning is not sent back; earlier versions send a block.
        block = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n</details>\n'
        self.turn(monday, *talk("Tide?", "It is high.", "When?"))
        self.turn(monday, *talk("Tide?", f"{block}It is high.", "When?"))
        self.turn(tuesday, *talk("Tide, please?"))
        session = ChatSession.objects.get()
        assert (session.owner, session.external_id) == (users[0], "7d0e")
        above = ["Tide?", thought, "When?"]
        assert branches() == [[*above, "Noon."], [*above, "Once more."], ["Tide, please?", "Edited."]]
        # Changed instructions take the place of those before, and are never an edit of what is stored.
        assert server.requests[-1]["messages"] == [tuesday, *talk("Tide, please?")]
        # Only a list that goes on with a reply may change the session's: any other may ask for a title.
        assert session.system_prompt == monday["content"]
        server.script([steps.reply("Later.")])
        self.turn(*talk("Tide, please?", "Edited.", "And now?"))
        assert server.requests[-1]["messages"] == talk("Tide, please?", "Edited.", "And now?")

    def test_what_is_no_turn_is_answered_and_not_stored(self, server, settings):
        settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
        self.turn(*talk("Tide?"))
        secret = "sk-proj-" + "a1" * 30
        for text, headers, body in [
            (f"### Task:\nGenerate a concise title …\n<chat_history>\n{secret}\n</chat_history>", {}, {}),
            (f"### Task:\nSummarize …\n### Messages Being Compacted:\n{secret}", {}, {}),
            (f"Your task is to reflect the speaker's likely facial expression … {secret}", {}, {}),
            (f"A prompt of the host's own: {secret}", {"X-OpenWebUI-Task": "emoji_generation"}, {}),
            (f"Name {secret}", {}, {"metadata": {"task": "title_generation"}}),
            (f"In a temporary chat: {secret}", {"X-OpenWebUI-Chat-Id": "temporary:Xy3"}, {"stream": True}),
        ]:
            server.script([steps.reply("Tide Times")])
            about = {"key": FRONT_END, "headers": {**self.HEADERS, **headers}, "seed": 7, **body}
            assert post(*talk(text), **about) == (200, "Tide Times")
            assert ChatMessage.objects.count() == 2
            assert (server.requests[-1]["seed"], secret in str(server.requests[-1])) == (7, False)

    def test_a_character_that_is_cut_arrives_whole(self, server):
        for body in ({}, {"metadata": {"task": "title_generation"}}):
            server.script(
                [stream_of("a\ud83d", "\ude00b\ud83d"), lambda one: one.send_message(HALF, finish_reason="stop")]
            )
            answers = [post(*talk(f"Tide? {n}"), stream=stream, **body) for n, stream in enumerate((True, False))]
            assert answers == [(200, "a😀b\ufffd"), (200, "c\ufffd")]

    def test_several_models_at_once(self, server):
        """One chat, one question, a request for each model; each goes on below its own reply."""
        both = threading.Barrier(2)

        def at_once(exchange):
            both.wait(10)
            steps.reply(exchange.body["model"])(exchange)

        server.script(default=at_once)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda model: self.turn(*talk("Tide?"), model=model), MODELS)) == list(MODELS)
        server.script(default=steps.reply("Noon."))
        self.turn(*talk("Tide?", "other-model", "When?"), model="other-model")
        assert sorted(branches()) == [["Tide?", "house-model"], ["Tide?", "other-model", "When?", "Noon."]]


def test_librechat(server):
    """A custom endpoint whose headers have ``X-Conversation-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"``."""
    server.script(map(steps.reply, ("Aye.", "Tide Times", "Noon.")))
    about = {"headers": {"X-Conversation-Id": "2f6c"}, "user": "66b2", "stream": True}
    parts = [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in talk("Tide?", "Aye.", "When?")]
    post(parts[0], **about)
    title = "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return"
    assert post(*talk(f"{title} …\n\nConversation:\nUser: Tide?\nAI: Aye."), **about)[1] == "Tide Times"
    post(*parts, **about)
    assert branches() == [["Tide?", "Aye.", "When?", "Noon."]]
    assert server.requests[0]["user"] == "66b2"
