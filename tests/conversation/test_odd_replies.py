"""Replies as providers, gateways and local servers write them, whole and streamed: each is stored, and goes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.exceptions import EmptyReply, InvalidReply
from compaction_app.models import ChatMessage
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

Ask = Callable[..., ChatMessage]


def streamed(tip: ChatMessage, **options: Any) -> ChatMessage:
    stream = chat.stream(tip, **options)
    list(stream)
    assert stream.message is not None
    return stream.message


BOTH = pytest.mark.parametrize("ask", [chat.complete, streamed], ids=["whole", "streamed"])


@pytest.fixture
def tip(session):
    return chat.append_message(session, role="user", content="Look.")


def message(finish_reason: str = "stop", /, **parts: Any) -> Step:
    """A reply of these parts, whatever they are; as a stream in one chunk."""

    def answer(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            calls = parts.get("tool_calls") or ()
            numbered = {"tool_calls": [{"index": n, **call} for n, call in enumerate(calls)]} if calls else {}
            exchange.send_delta({"role": "assistant", **parts, **numbered})
            exchange.end_stream(finish_reason)
        else:
            exchange.send_message({"role": "assistant", **parts}, finish_reason=finish_reason)

    return answer


def call(call_id: Any = "c1", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}, **more}


def again(reply: ChatMessage, ask: Ask, client: Any, server: Any) -> list[dict[str, Any]]:
    """What the provider is sent next: the results of the calls, or a question."""
    tip = reply
    for one in reply.tool_calls or ():
        tip = chat.append_message(reply.session, tip, role="tool", tool_call_id=one["id"], content="Not so.")
    if tip is reply:
        tip = chat.append_message(reply.session, tip, role="user", content="And?")
    ask(tip, client=client)
    messages: list[dict[str, Any]] = server.requests[-1]["messages"]
    return messages


ODD: dict[str, dict[str, Any]] = {
    "arguments that are no JSON": {"tool_calls": [call(arguments='{"a": 1,}')]},
    "no arguments": {"tool_calls": [call(arguments="")]},
    "an object": {"tool_calls": [call(arguments={"a": 1})]},
    "no ids": {"tool_calls": [call(""), call(None)]},
    "one id twice": {"tool_calls": [call(), call(arguments='{"n": 2}')]},
    "a long id": {"tool_calls": [call("call_" + "x" * 386)]},
    "no name": {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": None, "arguments": "{}"}}]},
    "a call of a custom tool": {
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]
    },
    "NUL and half a character": {"content": "a\x00b\ud800", "note": ["\x00"]},
    "content of parts": {"content": [{"type": "text", "text": "Aye."}]},
    "a part without text": {"content": [{"type": "text"}, {"type": "image_url"}, 5, "Aye."]},
    "reasoning with NUL": {"content": "Aye.", "reasoning": "hm\x00"},
    "deeper than JSON may be": {"content": "Aye.", "note": json.loads("[" * 300 + "]" * 300)},
    "a part that does not say what it is": {"content": [{"text": "Aye."}, {"type": "text", "text": ["Aye."]}]},
    "keys of other roles": {"content": "Aye.", "name": "a <b>", "tool_call_id": "c1", "note": 1},
    "a sound without id": {"content": "Aye.", "audio": {"id": None}},
    "ids of blanks": {"tool_calls": [call("  "), call("\n")]},
    "reasoning of a number": {"content": "Aye.", "reasoning_content": -1},
    "the old form of a call": {"content": None, "function_call": {"name": "look", "arguments": "{}"}},
    "a sound": {"content": None, "audio": {"id": "a1", "data": "aGk=", "transcript": "Aye.", "expires_at": 1}},
}


@BOTH
@pytest.mark.parametrize("case", ODD)
def test_a_tool_loop_goes_on_however_a_model_writes(tip, client, server, ask, case):
    """ggml-org/llama.cpp#20198, vercel/ai#7834, agno-agi/agno#9229."""
    server.script([message(**{"content": None, **ODD[case]})])
    reply = ask(tip, client=client)
    reply.refresh_from_db()
    sent = again(reply, ask, client, server)[2:]
    assert sent[0]["role"] == "assistant"
    called = sent[0].get("tool_calls") or []
    parts = sent[0]["content"] if isinstance(sent[0]["content"], list) else []
    assert all(part.get(part["type"]) for part in parts), "a part has what it says"
    assert not sent[0].keys() & {"name", "tool_call_id"}
    assert all(one["id"].strip() for one in called)
    assert sent[0].get("audio") in (None, {"id": "a1"})
    assert len(called) == len(reply.tool_calls or ())
    assert len({one["id"] for one in called}) == len(called)
    assert [one["id"] for one in called] == [m["tool_call_id"] for m in sent if m["role"] == "tool"]
    for one in called:
        assert isinstance(json.loads(one["function"]["arguments"]), dict) if "function" in one else one["custom"]
    assert chat.append_message(tip.session, tip, role="assistant", tool_calls=reply.tool_calls, content=reply.content)


class TestWhatIsUnknown:
    SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln" * 80}}}
    CAME: dict[str, Any] = {
        "content": "I look.",
        "reasoning_content": "Hm.",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0}],
        "provider_specific_fields": {"thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]},
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://x"}}],
        "tool_calls": [call(**SIGNED)],
    }

    @BOTH
    def test_it_goes_back_under_its_own_name_to_the_provider_that_sent_it(self, tip, client, server, ask):
        """RooCodeInc/Roo-Code#9499, continuedev/continue#10193."""
        server.script([message(**self.CAME)])
        reply = ask(tip, client=client)
        assert (reply.original["format"], reply.original["endpoint"]) == ("openai", server.url)
        assert again(reply, ask, client, server)[2] == {"role": "assistant", **self.CAME}

    def test_another_endpoint_is_sent_the_fields(self, tip, client, server):
        server.script([message(**self.CAME)])
        reply = chat.complete(tip, client=client)
        other = client.with_options(base_url=server.url.replace("127.0.0.1", "localhost"))
        assert again(reply, chat.complete, other, server)[2] == {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [call()],
        }

    @BOTH
    def test_a_plain_reply_has_no_original(self, tip, client, server, ask):
        server.script([message(content="Aye.", refusal=None, annotations=[]), message(tool_calls=[call()], content="")])
        assert ask(tip, client=client).original is None
        assert ask(tip, client=client).original is None

    def test_a_long_id_goes_back_as_it_came_to_where_it_came_from(self, tip, client, server):
        """It carries a thought signature: dyad-sh/dyad#4304."""
        long = "call_1__thought__" + "c2ln" * 2_000
        server.script([message(content=None, tool_calls=[call(long)])])
        sent = again(chat.complete(tip, client=client), chat.complete, client, server)
        assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"] == long


class TestContentOfParts:
    """simonw/llm-mistral#39, microsoft/agent-framework#6978."""

    WHOLE = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Low tide."}]},
        {"type": "text", "text": "At four, then."},
    ]

    def test_whole(self, tip, client, server):
        server.script([message(content=self.WHOLE)])
        reply = chat.complete(tip, client=client)
        assert (reply.content, reply.reasoning) == ("At four, then.", self.WHOLE[:1])
        assert again(reply, chat.complete, client, server)[2]["content"] == self.WHOLE

    @pytest.mark.parametrize("as_text", [True, False])
    def test_in_pieces(self, tip, client, server, as_text):
        thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("Low ", "tide.")]
        texts = [text if as_text else [{"type": "text", "text": text}] for text in ("At four,", " then.")]
        server.script([steps.stream_of(*[{"content": [one]} for one in thoughts], *[{"content": t} for t in texts])])
        stream = chat.stream(tip, client=client)
        list(stream)
        reply = stream.message
        assert reply is not None
        assert stream.text == reply.content == "At four, then."
        assert reply.original["data"]["content"] == self.WHOLE


def pieces(*parts: Mapping[str, Any]) -> Step:
    return steps.stream_of(*[{"tool_calls": [part]} for part in parts], finish_reason="tool_calls")


def piece(arguments: Any = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    return {**more, "function": function}


ZERO = {"index": 0}
#: Pieces → the arguments of the calls that began.
PARALLEL: dict[str, tuple[Step, list[str]]] = {
    "numbered": (
        pieces(
            piece("", "look", id="a", index=0),
            piece('{"n"', index=0),
            piece("", "look", id="b", index=1),
            piece(": 1}", index=0),
            piece('{"n": 2}', index=1),
        ),
        ['{"n": 1}', '{"n": 2}'],
    ),
    "all of index 0 with ids": (
        pieces(piece('{"n": 1}', "look", id="a", **ZERO), piece('{"n": 2}', "look", id="b", **ZERO)),
        ['{"n": 1}', '{"n": 2}'],
    ),
    "all of index 0 without ids": (
        pieces(piece('{"n": 1}', "look", **ZERO), piece('{"n": 2}', "look", **ZERO), piece('{"n": 2}', "look", **ZERO)),
        ['{"n": 1}', '{"n": 2}', '{"n": 2}'],
    ),
    "of index 0 in pieces": (
        pieces(
            piece("", "look", **ZERO),
            piece('{"n"', **ZERO),
            piece(": 1}", **ZERO),
            piece("", "look", **ZERO),
            piece('{"n": 2}', "look", **ZERO),
        ),
        ['{"n": 1}', '{"n": 2}'],
    ),
    "without an index": (pieces(piece('{"n": 1}', "look"), piece('{"n": 2}', "list")), ['{"n": 1}', '{"n": 2}']),
    "without arguments": (pieces(piece(None, "look", **ZERO), piece(None, "list", **ZERO)), ["", ""]),
    "all in one chunk": (
        steps.stream_of({"tool_calls": [piece("{}", "look", **ZERO), piece("{}", "look", **ZERO)]}),
        ["{}", "{}"],
    ),
    "one id for all": (
        pieces(piece('{"n": 1}', "look", id="a", **ZERO), piece('{"n": 2}', "look", id="a", **ZERO)),
        ['{"n": 1}', '{"n": 2}'],
    ),
    "objects": (
        pieces(piece({"n": 1}, "look", **ZERO), piece({"n": 2}, "look", **ZERO)),
        ['{"n": 1}', '{"n": 2}'],
    ),
    "arguments that grow": (
        pieces(*[piece(text, "look", **ZERO) for text in ('{"n"', '{"n": 1', '{"n": 1}', '{"n": 1}')]),
        ['{"n": 1}'],
    ),
    "all of it again at the end": (
        pieces(piece('{"n"', "look", id="a", **ZERO), piece(": 1}", **ZERO), piece('{"n": 1}', "look", id="a", **ZERO)),
        ['{"n": 1}'],
    ),
    "an argument that begins like the whole": (
        pieces(piece('{"n": ', "look", **ZERO), piece('{"n": 1}', **ZERO), piece("}", **ZERO)),
        ['{"n": {"n": 1}}'],
    ),
    "a new id with each piece": (
        pieces(piece('{"n"', "look", id="a", **ZERO), piece(": 1}", id="b", **ZERO)),
        ['{"n": 1}'],
    ),
    "the name with each piece": (
        pieces(piece("", "look", **ZERO), piece('{"n"', "look", **ZERO), piece(": 1}", "look", **ZERO)),
        ['{"n": 1}'],
    ),
    "pieces of two, mixed": (
        pieces(
            piece("", "look", id="a", **ZERO),
            piece("", "look", id="b", **ZERO),
            piece('{"n": 1}', id="a", **ZERO),
            piece('{"n": 2}', id="b", **ZERO),
        ),
        ['{"n": 1}', '{"n": 2}'],
    ),
}


@pytest.mark.parametrize("case", PARALLEL)
def test_there_are_as_many_streamed_calls_as_began(tip, client, server, case):
    """NousResearch/hermes-agent#62940, ggml-org/llama.cpp#20198."""
    step, arguments = PARALLEL[case]
    server.script([step])
    reply = streamed(tip, client=client)
    assert [one["function"]["arguments"] for one in reply.tool_calls] == arguments
    assert len({one["id"] for one in reply.tool_calls}) == len(arguments)


class TestNoReply:
    @BOTH
    @pytest.mark.parametrize("reason", ["error", "content_filter", "SAFETY", "network_error"])
    def test_a_reply_that_the_provider_took_back_is_not_stored(self, tip, client, server, ask, reason):
        """nodetool-ai/nodetool#5755."""
        server.script([message(reason, content="Half a")])
        with pytest.raises(InvalidReply) as caught:
            ask(tip, client=client)
        assert (caught.value.finish_reason, caught.value.reply["content"]) == (reason, "Half a")
        assert ChatMessage.objects.count() == 1
        assert chat.append_message(tip.session, tip, role="assistant", **caught.value.reply).finish_reason == reason

    @pytest.mark.parametrize("choices", [[], [{"index": 0, "message": {"role": "assistant", "content": "Half a"}}]])
    def test_an_error_in_a_200_is_not_stored(self, tip, client, server, choices):
        """BerriAI/litellm#21755."""
        body = json.dumps({"error": {"message": "Overloaded", "code": 502}, "choices": choices})
        server.script([steps.malformed(body.encode())])
        with pytest.raises(InvalidReply):
            chat.complete(tip, client=client)
        assert ChatMessage.objects.count() == 1

    def test_nor_is_one_in_a_choice_of_a_stream(self, tip, client, server):
        def failing(exchange: Exchange) -> None:
            exchange.send_delta({"content": "Half a"})
            choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop", "error": {"message": "Overloaded"}}
            exchange.send_event({"id": "x", "object": "chat.completion.chunk", "choices": [choice]})
            exchange.end_stream(None)

        server.script([failing])
        with pytest.raises(InvalidReply) as caught:
            streamed(tip, client=client)
        assert caught.value.reply["content"] == "Half a"
        assert ChatMessage.objects.count() == 1

    def test_an_overflow_at_the_end_of_a_stream_is_an_error_of_the_reply(self, tip, client, server):
        def answer(exchange: Exchange) -> None:
            exchange.send_delta({"content": "A"})
            error = {"message": "maximum context length is 3000 tokens, you sent 9000 tokens"}
            choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": error}
            exchange.send_event({"id": "c", "choices": [choice]})

        server.script([answer])
        with pytest.raises(InvalidReply):
            list(chat.stream(tip, client=client))

    @BOTH
    def test_one_that_was_cut_off_is_stored_and_says_so(self, tip, client, server, ask):
        server.script([message("length", content="At four, th")])
        assert ask(tip, client=client).finish_reason == "length"

    @BOTH
    def test_reasoning_alone_is_no_reply(self, tip, client, server, ask):
        server.script([message("length", content=None, reasoning_content="Hm.")])
        with pytest.raises(EmptyReply) as caught:
            ask(tip, client=client)
        assert caught.value.reply["reasoning"] == "Hm."
        assert chat.append_message(tip.session, tip, role="assistant", **caught.value.reply)


USAGES: dict[str, Any] = {
    "a word": {"prompt_tokens": "many"},
    "a list": {"prompt_tokens": [1]},
    "no number": {"prompt_tokens": float("nan")},
    "a number without end": {"prompt_tokens": 10**400},
    "NUL": {"prompt_tokens": 5, "note\x00": "\x00\ud800"},
    "deeper than JSON may be": {"prompt_tokens": 5, "note": json.loads("[" * 150 + "]" * 150)},
}


@BOTH
@pytest.mark.parametrize("case", USAGES)
def test_no_usage_report_loses_a_reply(tip, client, server, ask, case):
    """What it was, nobody could mend: the reply was paid for, and the error came after it was stored."""
    server.script([steps.reply("Aye.", usage=USAGES[case])])
    reply = ask(tip, client=client)
    reply.refresh_from_db()
    assert reply.content == "Aye."


NOTES = {f"key {n}": "x" * 9_000 for n in range(600)}
LARGE: dict[str, dict[str, Any]] = {
    "annotations": {"annotations": [{"type": "url_citation", "text": "x" * 5_000_000}]},
    "many keys": NOTES,
    "reasoning": {"reasoning_content": "x" * 5_000_000},
    "a picture": {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5_000_000}}]},
}


@BOTH
@pytest.mark.parametrize("case", LARGE)
def test_what_stands_beside_a_reply_is_left_out_where_it_is_too_large_to_be_stored(tip, client, server, ask, case):
    """The text was paid for; all of it became an error."""
    signed = call(extra_content={"google": {"thought_signature": "c2ln"}})
    server.script([message(**{"content": "Aye.", "tool_calls": [signed], **LARGE[case]})])
    reply = ask(tip, client=client)
    reply.refresh_from_db()
    assert (reply.content, reply.tool_calls) == ("Aye.", [call()])
    assert "x" * 9_000 not in json.dumps([reply.original, reply.reasoning])
    if case != "many keys":
        assert reply.original["data"]["tool_calls"] == [signed]
    assert [one["type"] for one in reply.attachments or ()] == (["image"] if case == "a picture" else [])
    assert again(reply, ask, client, server)[2]["content"].startswith("Aye.")


@BOTH
def test_of_a_large_report_the_counts_are_kept(tip, client, server, ask):
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    server.script([steps.reply("Aye.", usage={**counts, "note": "x" * 5_000_000, **dict.fromkeys(NOTES, 1)})])
    usage = ask(tip, client=client).usage
    assert usage.items() >= counts.items()
    assert len(json.dumps(usage)) < 1_000


def test_another_model_at_a_gateway_is_sent_the_fields(tip, client, server):
    """diegosouzapw/OmniRoute#1410. The model that is reported has a date, the one that was asked none."""
    server.script([message(content="I look.", tool_calls=[call("c" * 391, note=1)])])
    reply = chat.complete(tip, client=client, model="g/gemini-3")
    result = chat.append_message(tip.session, reply, role="tool", tool_call_id="c" * 391, content="A reef.")
    for model, as_it_came in (("g/gemini-3", True), ("o/gpt-5", False)):
        chat.complete(result, client=client, model=model, regenerate=True)
        [asked, answered] = server.requests[-1]["messages"][2:]
        assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
        assert (asked["tool_calls"] == [call("c" * 391, note=1)]) is as_it_came
        assert (len(answered["tool_call_id"]) <= 40) is not as_it_came
