"""Replies as providers, gateways and local servers write them, whole and streamed: each is stored, and goes back."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from compaction_app import chat
from compaction_app.exceptions import EmptyReply, InvalidReply
from compaction_app.models import ChatMessage
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.testing.exchange import Exchange, Step
from compaction_app.tree.verify import verify_session
from tests.builders import words
from tests.conversation.asking import drained_whole
from tests.small import small
from tests.small import tool_call as call
from tests.steps import malformed, stream_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

Ask = Callable[..., Any]


BOTH = pytest.mark.parametrize("ask", [chat.complete, drained_whole], ids=["whole", "streamed"])


def message(finish_reason: str = "stop", /, usage: Any = None, **parts: Any) -> Step:
    """A reply of these parts, whatever they are; as a stream in one chunk."""

    def answer(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            delta = {"role": "assistant", **parts}
            if isinstance(calls := parts.get("tool_calls"), list):
                delta["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)]
            exchange.send_delta(delta)
            exchange.end_stream(finish_reason, usage)
        else:
            exchange.send_message({"role": "assistant", **parts}, finish_reason=finish_reason, usage=usage)

    return answer


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


def wrong_with(messages: list[dict[str, Any]]) -> str:
    """What a strict provider would refuse in a request; "" if nothing."""
    waiting: list[str] = []
    for one in messages:
        content, made = one.get("content"), one.get("tool_calls") or []
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                return f"a result without its call: {one['tool_call_id']!r}"
            waiting.remove(one["tool_call_id"])
            continue
        if waiting:
            return f"no result for {waiting}"
        if (isinstance(content, str) and not content.strip()) or not (content or made or one.get("audio")):
            return f"a {one['role']} message of nothing"
        waiting = [asked["id"] for asked in made]
        if len(set(waiting)) < len(waiting) or not all(call_id.strip() for call_id in waiting):
            return f"ids {waiting}"
        for asked in made:
            if asked["type"] == "function" and not isinstance(json.loads(asked["function"]["arguments"]), dict):
                return "arguments that are no object"
    return f"no result for {waiting}" if waiting else ""


ODD: dict[str, dict[str, Any]] = {
    "arguments that are no JSON": {"tool_calls": [call(arguments='{"a": 1,}')]},
    "no arguments": {"tool_calls": [call(arguments="")]},
    "an object": {"tool_calls": [call(arguments={"a": 1})]},
    "no ids": {"tool_calls": [call(""), call(None)]},
    "one id twice": {"tool_calls": [call(), call(arguments='{"n": 2}')]},
    "a long id": {"tool_calls": [call("call_" + "x" * 386)]},
    "no name": {"tool_calls": [call(name=None)]},
    "a call of a custom tool": {
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]
    },
    "NUL and half a character": {"content": "a\x00b\ud800", "note": ["\x00"]},
    "what JSON escapes": {"tool_calls": [call(arguments='{"path": "a\\ud83d", "b": "\\u0000"}')]},
    "content of parts": {"content": [{"type": "text", "text": "Aye."}]},
    "a part without text": {"content": [{"type": "text"}, {"type": "image_url"}, 5, "Aye."]},
    "reasoning with NUL": {"content": "Aye.", "reasoning": "hm\x00"},
    "deeper than JSON may be": {"content": "Aye.", "note": json.loads("[" * 300 + "]" * 300)},
    "a part that does not say what it is": {"content": [{"text": "Aye."}, {"type": "text", "text": ["Aye."]}]},
    "keys of other roles": {"content": "Aye.", "name": "a <b>", "tool_call_id": "c1", "note": 1},
    "a sound without id": {"content": "Aye.", "audio": {"id": None}},
    "ids of blanks": {"tool_calls": [call("  "), call("\n")]},
    "reasoning of a number": {"content": "Aye.", "reasoning_content": -1},
    "calls that are no list": {"content": "So:", "tool_calls": "look"},
    "one call that is in no list": {"tool_calls": call()},
    "the old form of a call": {"content": None, "function_call": {"name": "look", "arguments": "{}"}},
    "a sound": {"content": None, "audio": {"id": "a1", "data": "aGk=", "transcript": "Aye.", "expires_at": 1}},
}


@pytest.mark.few
@pytest.mark.parametrize("case", ODD)
def test_a_tool_loop_goes_on_however_a_model_writes(tip, client, server, case):
    """Streamed they are in the test below. ggml-org/llama.cpp#20198, vercel/ai#7834, agno-agi/agno#9229."""
    server.script([message(**{"content": None, **ODD[case]})])
    reply = chat.complete(tip, client=client)
    reply.refresh_from_db()
    sent = again(reply, chat.complete, client, server)[2:]
    assert sent[0]["role"] == "assistant"
    parts = sent[0]["content"] if isinstance(sent[0]["content"], list) else []
    assert all(part.get(part["type"]) for part in parts), "a part has what it says"
    assert not sent[0].keys() & {"name", "tool_call_id"}
    assert sent[0].get("audio") in (None, {"id": "a1"})
    assert len(sent[0].get("tool_calls") or ()) == len(reply.tool_calls or ())
    assert wrong_with(server.requests[-1]["messages"]) == ""
    assert chat.append_message(tip.session, tip, role="assistant", tool_calls=reply.tool_calls, content=reply.content)


@pytest.mark.long
def test_a_long_chat_of_all_of_them_is_compacted_and_every_prompt_is_valid(settings, session, client, server):
    settings.COMPACTION = small(CONTEXT_WINDOW=2_000, RESERVED_TOKENS=400)
    tip = None
    for written in ODD.values():
        server.script([message(**{"content": None, **written})])
        tip = drained_whole(chat.append_message(session, tip, role="user", content=words(100)), client=client)
        for one in tip.tool_calls or ():
            tip = chat.append_message(session, tip, role="tool", tool_call_id=one["id"], content=words(50))
        for run in session.runs.open():
            compact_branch(run.pk)
    assert session.messages.summaries().count() > 1
    assert [wrong for request in server.requests if (wrong := wrong_with(request["messages"]))] == []
    assert verify_session(session).problems == []


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


class TestContentOfParts:
    """simonw/llm-mistral#39, microsoft/agent-framework#6978."""

    WHOLE = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Low tide."}]},
        {"type": "text", "text": "At four, then."},
    ]

    @pytest.mark.parametrize("as_text", [True, False])
    def test_in_pieces(self, tip, client, server, as_text):
        thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("Low ", "tide.")]
        texts = [text if as_text else [{"type": "text", "text": text}] for text in ("At four,", " then.")]
        server.script([stream_of(*[{"content": [one]} for one in thoughts], *[{"content": t} for t in texts])])
        stream = chat.stream(tip, client=client)
        list(stream)
        reply = stream.message
        assert reply is not None
        assert stream.text == reply.content == "At four, then."
        assert reply.original["data"]["content"] == self.WHOLE


def piece(arguments: Any = None, name: str | None = None, call_id: str | None = None, index: int | None = 0) -> Any:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    beside = {key: value for key, value in {"id": call_id, "index": index}.items() if value is not None}
    return {**beside, "function": function}


ONE, TWO = '{"n": 1}', '{"n": 2}'
BEGUN, ENDED = '{"n"', ": 1}"
#: Pieces, each a chunk: arguments, name, id, index → the arguments of the calls that began.
PARALLEL: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "numbered": ([("", "look", "a"), (BEGUN,), ("", "look", "b", 1), (ENDED,), (TWO, None, None, 1)], [ONE, TWO]),
    "all of index 0 with ids": ([(ONE, "look", "a"), (TWO, "look", "b")], [ONE, TWO]),
    "all of index 0 without ids": ([(ONE, "look"), (TWO, "look"), (TWO, "look")], [ONE, TWO, TWO]),
    "of index 0 in pieces": ([("", "look"), (BEGUN,), (ENDED,), ("", "look"), (TWO, "look")], [ONE, TWO]),
    "without an index": ([(ONE, "look", None, None), (TWO, "list", None, None)], [ONE, TWO]),
    "without arguments": ([(None, "look"), (None, "list")], ["", ""]),
    "one id for all": ([(ONE, "look", "a"), (TWO, "look", "a")], [ONE, TWO]),
    "objects": ([({"n": 1}, "look"), ({"n": 2}, "look")], [ONE, TWO]),
    "arguments that grow": ([(BEGUN, "look"), ('{"n": 1', "look"), (ONE, "look"), (ONE, "look")], [ONE]),
    "all of it again at the end": ([(BEGUN, "look", "a"), (ENDED,), (ONE, "look", "a")], [ONE]),
    "an argument that begins like the whole": ([('{"n": ', "look"), (ONE,), ("}",)], ['{"n": {"n": 1}}']),
    "a new id with each piece": ([(BEGUN, "look", "a"), (ENDED, None, "b")], [ONE]),
    "the name with each piece": ([("", "look"), (BEGUN, "look"), (ENDED, "look")], [ONE]),
    "pieces of two, mixed": ([("", "look", "a"), ("", "look", "b"), (ONE, None, "a"), (TWO, None, "b")], [ONE, TWO]),
}


@pytest.mark.parametrize("case", PARALLEL)
def test_there_are_as_many_streamed_calls_as_began(tip, client, server, case):
    """NousResearch/hermes-agent#62940, ggml-org/llama.cpp#20198."""
    made, arguments = PARALLEL[case]
    chunks = [{"tool_calls": [piece(*one)]} for one in made]
    server.script([stream_of(*chunks, finish_reason="tool_calls")])
    reply = drained_whole(tip, client=client)
    assert [one["function"]["arguments"] for one in reply.tool_calls] == arguments
    assert len({one["id"] for one in reply.tool_calls}) == len(arguments)


def test_calls_in_one_chunk_are_as_many_as_there_are(tip, client, server):
    server.script([stream_of({"tool_calls": [piece("{}", "look"), piece("{}", "look")]})])
    assert len(drained_whole(tip, client=client).tool_calls) == 2


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
        server.script([malformed(body.encode())])
        with pytest.raises(InvalidReply):
            chat.complete(tip, client=client)
        assert ChatMessage.objects.count() == 1

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


COUNTS = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
NOTES = {f"key {n}": "x" * 9_000 for n in range(20)}
LARGE: dict[str, dict[str, Any]] = {
    "annotations": {"annotations": [{"type": "url_citation", "text": "x" * 150_000}]},
    "many keys": NOTES,
    "reasoning": {"reasoning_content": "x" * 150_000},
    "a picture": {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 150_000}}]},
}


@pytest.mark.few
@BOTH
@pytest.mark.parametrize("case", LARGE)
def test_what_stands_beside_a_reply_is_left_out_where_it_is_too_large_to_be_stored(
    tip, client, server, settings, ask, case
):
    """The text was paid for; all of it became an error."""
    settings.COMPACTION = small(MAX_MESSAGE_BYTES=100_000)
    signed = call(extra_content={"google": {"thought_signature": "c2ln"}})
    report = {**COUNTS, "note": "x" * 50_000}
    server.script([message(**{"content": "Aye.", "tool_calls": [signed], **LARGE[case]}, usage=report)])
    reply = ask(tip, client=client)
    reply.refresh_from_db()
    assert reply.usage == COUNTS
    assert (reply.content, reply.tool_calls) == ("Aye.", [call()])
    assert "x" * 9_000 not in json.dumps([reply.original, reply.reasoning])
    if case != "many keys":
        assert reply.original["data"]["tool_calls"] == [signed]
    assert [one["type"] for one in reply.attachments or ()] == (["image"] if case == "a picture" else [])
    assert again(reply, ask, client, server)[2]["content"].startswith("Aye.")
