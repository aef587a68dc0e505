"""``POST responses``: OpenAI's own client, a scripted provider of chat completions, and what is in the tree."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import openai
import pydantic
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from compaction_app import chat
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.messages.originals import merged
from compaction_app.messages.transcript import RECALL_TOOL
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing import steps
from tests.contrib.drivers import calls
from tests.contrib.gateway.site import BY_EITHER, branches, talk
from tests.small import anchored_summary, small
from tests.steps import error_event, stream_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]

EVENT = pydantic.TypeAdapter(ResponseStreamEvent)
PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
LOOK = {"type": "function", "name": "look", "description": "Look.", "parameters": PARAMETERS, "strict": True}
BOTH = pytest.mark.parametrize("stream", [False, True])


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


def picture(address):
    return {"role": "user", "content": [{"type": "input_image", "image_url": address, "detail": "low"}]}


def two_calls():
    functions = [{"name": "look", "arguments": text} for text in ('{"at": 1}', "")]
    made = enumerate(functions)
    return {"tool_calls": [{"index": at, "id": f"c{at + 1}", "type": "function", "function": one} for at, one in made]}


def pieces(*deltas, finish_reason="stop"):
    """A reply in these pieces, or in one where it is no stream."""
    whole = merged([{"content": one} if isinstance(one, str) else one for one in deltas])

    def reply(exchange):
        if exchange.body.get("stream"):
            stream_of(*deltas, finish_reason=finish_reason)(exchange)
        else:
            exchange.send_message(whole, finish_reason=finish_reason)

    return reply


def respond(api, given, *, stream=False, **asked):
    """The response, however it came; each event is one that ``openai`` knows."""
    made = api.responses.create(model="house-model", input=given, stream=stream, **asked)
    if stream:
        events = list(made)
        for number, event in enumerate(events):
            assert event.sequence_number == number
            EVENT.validate_python(event.to_dict())
        done = {one.output_index: one.item.to_dict() for one in events if one.type == "response.output_item.done"}
        made = events[-1].response
        assert [done[number] for number in range(len(done))] == [one.to_dict() for one in made.output]
    Response.model_validate(made.to_dict())
    return made


@BY_EITHER
@BOTH
def test_turns_an_edit_and_a_regeneration(api, server, users, stream):
    server.script(map(steps.reply, ("one", "two", "edited", "again")))

    def turn(*items):
        made = respond(api, items, instructions="Be brief.", stream=stream)
        return [*items, *(one.to_dict() for one in made.output)]

    first = turn(user("q1"))
    second = turn(*first, user("q2"))
    turn(*first, user("q2-edited"))
    turn(*first, user("q2"))
    assert branches() == [texts.split() for texts in ("q1 one q2 two", "q1 one q2-edited edited", "q1 one q2 again")]
    assert second[-1]["content"][0]["text"] == "two"
    session = ChatSession.objects.get()
    assert (session.owner, session.system_prompt, session.model) == (users[0], "Be brief.", "house-model")
    assert server.requests[1]["messages"] == [{"role": "system", "content": "Be brief."}, *talk("q1", "one", "q2")]


class Berth(pydantic.BaseModel):
    ship: str
    number: int


@BOTH
def test_tools_and_a_structured_answer(api, server, stream):
    """In a loop of the client's own: what it was given goes back with the results."""
    said = [{"reasoning_content": "Two "}, {"reasoning_content": "ships."}, "Let me ", "look.", two_calls()]
    server.script(
        [pieces(*said, finish_reason="tool_calls"), steps.reply('{"ship": "Ada", "number": 7}'), steps.reply("Aye.")]
    )
    items = [user("Which berth?")]
    asked = {"tools": [LOOK], "tool_choice": {"type": "function", "name": "look"}, "reasoning": {"effort": "low"}}
    asked |= {"max_output_tokens": 500, "text": {"verbosity": "low"}, "parallel_tool_calls": True}
    made = respond(api, items, stream=stream, **asked)
    kinds = [one.type for one in made.output]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    assert (made.output[0].summary[0].text, made.output_text) == ("Two ships.", "Let me look.")
    assert [(one.call_id, one.name, one.arguments) for one in made.output[2:]] == [
        ("c1", "look", '{"at": 1}'),
        ("c2", "look", ""),
    ]
    assert (made.status, made.tools[0].name, made.usage.total_tokens > 0) == ("completed", "look", True)
    sent = server.requests[0]
    function = {key: LOOK[key] for key in ("name", "description", "parameters", "strict")}
    assert sent["tools"] == [{"type": "function", "function": function}]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    named = ("max_completion_tokens", "reasoning_effort", "verbosity", "parallel_tool_calls")
    assert [sent[name] for name in named] == [500, "low", "low", True]
    items += [one.to_dict() for one in made.output]
    results = [{"type": "function_call_output", "call_id": f"c{at}", "output": f"Seven, {at}."} for at in (1, 2)]
    results[1]["output"] = [{"type": "input_text", "text": "Seven, 2."}]
    items += results
    if stream:
        with api.responses.stream(model="house-model", input=items, tools=[LOOK], text_format=Berth) as events:
            parsed = events.get_final_response()
    else:
        parsed = api.responses.parse(model="house-model", input=items, tools=[LOOK], text_format=Berth)
    assert parsed.output_parsed == Berth(ship="Ada", number=7)
    assert server.requests[1]["response_format"]["json_schema"]["name"] == "Berth"
    roles = [one["role"] for one in server.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert server.requests[1]["messages"][1]["reasoning_content"] == "Two ships."
    respond(api, [*items, *(one.to_dict() for one in parsed.output), user("Sure?")], stream=stream)
    [tip] = chat.tips(ChatSession.objects.get())
    assert "".join(one.role[0] for one in chat.get_branch(tip)) == "uattaua"


@BY_EITHER
@BOTH
def test_an_earlier_response_is_a_place_in_the_tree(api, server, stream):
    server.script(map(steps.reply, ("one", "two", "three", "beside", "again")))
    developer = {"role": "developer", "content": "Of ships only."}
    first = respond(api, [developer, user("q1")], stream=stream)
    second = respond(api, "q2", previous_response_id=first.id, stream=stream)
    respond(api, "q3", previous_response_id=second.id, stream=stream, instructions="Be brief.")
    respond(api, "q2-beside", previous_response_id=first.id, stream=stream)
    # The same again: another reply.
    respond(api, "q2", previous_response_id=first.id, stream=stream)
    wanted = ["q1 one q2 two q3 three", "q1 one q2-beside beside", "q1 one q2 again"]
    assert branches() == [texts.split() for texts in wanted]
    prompts = [[one["content"] for one in body["messages"] if one["role"] == "system"] for body in server.requests]
    # Without instructions those of the session.
    assert prompts == [["Of ships only."]] * 2 + [["Be brief."]] * 3
    # A list that has it all is at the same place.
    server.script([steps.reply("four")])
    respond(api, [user("q1"), *answer("one"), user("q2"), *answer("two"), user("q3"), *answer("three"), user("q4")])
    assert ["q1", "one", "q2", "two", "q3", "three", "q4", "four"] in branches()
    for theirs, name in ((api.with_options(api_key="sanoj"), first.id), (api, "resp_unknown"), (api, "x" * 5000)):
        with pytest.raises(openai.BadRequestError) as refused:
            respond(theirs, "q", previous_response_id=name)
        assert refused.value.code == "previous_response_not_found"


def test_a_request_that_is_sent_again_gets_the_reply_under_its_id(api, server):
    server.script([steps.reply("one"), steps.reply("two")])
    first = respond(api, "q1")
    second = respond(api, "q2", previous_response_id=first.id)
    for stream in (False, True):
        again = {"X-Stainless-Retry-Count": "1"}
        same = respond(api, "q2", previous_response_id=first.id, extra_headers=again, stream=stream)
        assert (same.id, same.output_text) == (second.id, "two")
    assert len(server.requests) == 2


def test_items_are_named_instead_of_sent(api, server):
    """As the AI SDK does it where a response is stored."""
    server.script([calls(("c1", "look", {}), ("c2", "look", {})), steps.reply("Seven."), steps.reply("Aye.")])
    items = [user("Which berth?")]
    for more in ([], [user("Sure?")]):
        made = respond(api, [*items, *more], tools=[LOOK])
        items += [*more, *({"type": "item_reference", "id": one.id} for one in made.output)]
        named = [one.call_id for one in made.output if one.type == "function_call"]
        items += [{"type": "function_call_output", "call_id": one, "output": "7"} for one in named]
        if named:
            made = respond(api, items, tools=[LOOK])
            items += [{"type": "item_reference", "id": one.id} for one in made.output]
    [tip] = chat.tips(ChatSession.objects.get())
    assert "".join(one.role[0] for one in chat.get_branch(tip)) == "uattaua"
    with pytest.raises(openai.NotFoundError, match="msg_x_0"):
        respond(api, [{"type": "item_reference", "id": "msg_x_0"}, user("q")])
    with pytest.raises(openai.NotFoundError):
        respond(api.with_options(api_key="sanoj"), items)


@BOTH
def test_reasoning_that_only_its_provider_reads_is_kept_and_given(api, server, stream):
    sealed = [{"type": "reasoning.encrypted", "data": "c2VhbGVk", "id": "r1", "index": 0}]
    server.script([pieces({"reasoning": "The tide."}, "Noon.", {"reasoning_details": sealed}), steps.reply("Two.")])
    asked = {"store": False, "include": ["reasoning.encrypted_content"], "stream": stream}
    made = respond(api, [user("When?")], **asked)
    thought, message = made.output
    assert (thought.summary[0].text, message.content[0].text) == ("The tide.", "Noon.")
    assert json.loads(thought.encrypted_content) == sealed
    respond(api, [user("When?"), *(one.to_dict() for one in made.output), user("And then?")], **asked)
    assert server.requests[1]["messages"][1]["reasoning_details"] == sealed


@BOTH
def test_a_reply_that_is_cut_is_incomplete(api, server, stream):
    server.script([lambda one: one.send_message({"content": "Half a"}, finish_reason="length")])
    made = respond(api, "q", stream=stream)
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert made.output[0].status == "incomplete"


def test_a_reply_that_is_stopped_is_kept_and_gone_on_with(api, server):
    def endless(exchange):
        while not exchange.client_left:
            exchange.send_delta({"content": "word "})
            exchange.wait(0.02)

    server.script([endless])
    events = api.responses.create(model="house-model", input="q1", stream=True)
    begun = next(events)
    for _ in range(8):
        next(events)
    events.close()
    server.wait_for_disconnects(1)
    give_up = time.monotonic() + 10
    while not BranchDigest.objects.filter(message__finish_reason="stopped") and time.monotonic() < give_up:
        time.sleep(0.05)
    server.script([steps.reply("Noon.")])
    respond(api, "q2", previous_response_id=begun.response.id)
    stopped = ChatMessage.objects.get(finish_reason="stopped")
    assert branches() == [["q1", stopped.content, "q2", "Noon."]]


@BOTH
def test_a_client_is_shown_no_search_and_goes_on_below_its_answer(api, server, monkeypatch, stream):
    monkeypatch.setattr(Gateway, "recall", True)
    search = (RECALL_TOOL, {"query": "boat"})
    script = [steps.reply("A sloop."), calls(("c1", *search)), steps.reply("The sloop.")]
    server.script([*script, calls(("c2", *search), ("c3", "look", {})), steps.reply("A sail.")])
    made = respond(api, "Which boat?", stream=stream)
    anchored_summary(*ChatMessage.objects.order_by("-id"))
    for text in ("Which was it?", "What is there?"):
        made = respond(api, text, previous_response_id=made.id, stream=stream)
    assert [one.name for one in made.output] == ["look"]
    result = {"type": "function_call_output", "call_id": "c3", "output": "Sail"}
    assert respond(api, [result], previous_response_id=made.id, stream=stream).output_text == "A sail."
    [tip] = chat.tips(ChatSession.objects.get())
    assert "".join(one.role[0] for one in chat.get_branch(tip)) == "uauatauatta"


REFUSED = [
    ({"model": "gpt-unknown"}, 404, "model_not_found", "model"),
    ({"tools": [{"type": "web_search"}]}, 400, "unsupported_value", "tools"),
    ({"tools": ["look"]}, 400, "unsupported_value", "tools"),
    ({"tools": 5}, 400, None, "tools"),
    ({"tool_choice": {"type": "allowed_tools", "tools": 5}}, 400, None, "tools"),
    ({"tool_choice": {"type": "file_search"}}, 400, "unsupported_value", "tools"),
    ({"background": True}, 400, "unsupported_parameter", "background"),
    ({"conversation": "conv_1"}, 400, "unsupported_parameter", "conversation"),
    ({"include": ["message.output_text.logprobs"]}, 400, "unsupported_parameter", "include"),
    ({"messages": talk("q")}, 400, "unsupported_parameter", "messages"),
    ({"reasoning": "low"}, 400, None, "reasoning"),
    ({"text": {"format": "json"}}, 400, None, "format"),
    ({"input": None}, 400, "invalid_message", "input"),
    ({"input": ""}, 400, None, "input"),
    ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}], "instructions": "Go."}, 400, None, "input"),
    ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, 400, None, "input"),
    ({"input": [{"type": "computer_call_output", "call_id": "c"}]}, 400, "unsupported_value", "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_thing"}]}]}, 400, "invalid_message", "content"),
    ({"input": [picture("file:///etc/passwd")]}, 400, "invalid_value", "input"),
]


def test_what_is_refused(api, server):
    for body, status, code, name in REFUSED:
        with pytest.raises(openai.APIStatusError) as refused:
            api.post("/responses", body={"model": "house-model", "input": "q", **body}, cast_to=object)
        error = refused.value
        assert (error.status_code, error.code, error.param) == (status, code, name), body
        assert "conversation" not in body or "previous_response_id" in error.message
    for ask in (api.responses.retrieve, api.responses.delete, api.responses.cancel, api.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match="name an earlier response as previous_response_id"):
            ask("resp_1")
    with pytest.raises(openai.NotFoundError, match="only POST responses"):
        api.responses.input_tokens.count(model="house-model", input="q")
    assert (ChatSession.objects.count(), server.requests) == (0, [])


def test_an_error_in_a_stream_says_what_it_is(api, server):
    server.script([stream_of("No", then=error_event())])
    events = []
    with pytest.raises(openai.APIError, match="broke off"):
        events.extend(api.responses.create(model="house-model", input="q1", stream=True))
    assert branches() == [["q1"]]


def test_pictures_files_and_what_redacts(api, server, settings):
    settings.COMPACTION = {**settings.COMPACTION, "REDACTOR": "compaction_app.redaction.redact_secrets"}
    secret = "sk-proj-" + "a1" * 30
    server.script(default=steps.reply("Aye."))
    pdf = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    parts = [{"type": "input_text", "text": secret}, *picture("https://example.org/a.png")["content"], pdf]
    tool = {**LOOK, "description": secret}
    respond(api, [{"role": "user", "content": parts}], tools=[tool], instructions=secret, user=secret)
    sent = server.requests[0]
    assert secret not in json.dumps(sent)
    assert sent["messages"][-1]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf["file_data"]}},
    ]
    with pytest.raises(openai.BadRequestError, match="file_url"):
        respond(api, [{"role": "user", "content": [{"type": "input_file", "file_url": "https://example.org/a.pdf"}]}])


@BOTH
def test_instructions_alone_and_a_place_to_cache_at(api, server, stream):
    """As pydantic-ai and the Agents SDK send them."""
    server.script(map(steps.reply, ("One.", "Two.")))
    question = user([{"type": "input_text", "text": "", "prompt_cache_breakpoint": {"mode": "explicit"}}])
    cached = {"prompt_cache_options": {"mode": "explicit"}, "prompt_cache_retention": "24h"}
    cached |= {"instructions": "Write a line."}
    made = respond(api, [question], stream=stream, extra_body=cached)
    respond(api, [question, *(one.to_dict() for one in made.output), user("More.")], stream=stream, extra_body=cached)
    assert branches() == [["", "One.", "More.", "Two."]]
    assert server.requests[0]["messages"] == [{"role": "system", "content": "Write a line."}]
    assert not [key for body in server.requests for key in body if "cache" in key]


@BOTH
def test_what_is_no_turn_is_answered_and_not_stored(api, server, stream):
    server.script(default=steps.reply("Tide Times"))
    made = respond(api, "Name it.", instructions="Titles.", extra_headers={Gateway.task_header: "t"}, stream=stream)
    assert (made.output_text, ChatMessage.objects.count()) == ("Tide Times", 0)
    assert server.requests[0]["messages"] == [{"role": "system", "content": "Titles."}, *talk("Name it.")]


@BY_EITHER
@BOTH
def test_a_command_leaves_the_place_where_it_was(api, server, settings, stream):
    settings.COMPACTION = small(CONTEXT_WINDOW=100_000)
    server.script(default=steps.reply("Noted."))
    made, items = None, []
    for day in range(4):
        items.append(user(f"Day {day}: the Ada lies at berth {day}. " * 40))
        made = respond(api, items, stream=stream)
        items += [one.to_dict() for one in made.output]
    line = respond(api, "/compact Keep the berths.", previous_response_id=made.id, stream=stream)
    assert line.output_text.startswith("Compacted. Summary 1")
    assert CompactionRun.objects.get().instructions == "Keep the berths."
    goes_on = respond(api, "By id?", previous_response_id=line.id, stream=stream)
    pair = [user("/compact Keep the berths."), *(one.to_dict() for one in line.output)]
    respond(api, [*items, *pair, user("By the list?")], stream=stream)
    tips = [one.parent for one in ChatMessage.objects.messages().filter(content__startswith="By ")]
    assert len(tips) == 2
    assert len({one.pk for one in tips}) == 1
    assert goes_on.output_text == "Noted."
    assert not ChatMessage.objects.filter(content__contains="/compact")


@BOTH
def test_a_command_before_anything_was_said_is_no_place(api, server, stream):
    server.script(default=steps.reply("Noted."))
    line = respond(api, "/compact", stream=stream)
    named = {"type": "item_reference", "id": line.output[0].id}
    respond(api, "q1", previous_response_id=line.id, stream=stream)
    respond(api, [user("/compact"), named, user("q2")], stream=stream)
    assert branches(*ChatSession.objects.order_by("created_at")) == [["q1", "Noted."], ["q2", "Noted."]]


def test_reasoning_between_two_texts(api, server):
    """Interleaved thinking: it is one message, as the tree has it."""
    said = pieces("Let ", {"reasoning": "Hm."}, "me", {"reasoning": "So."}, " look.")
    server.script([said, said, steps.reply("Aye.")])
    made = respond(api, "q", stream=True)
    assert [one.type for one in made.output] == ["message", "reasoning", "reasoning"]
    assert made.output_text == "Let me look."
    with api.responses.stream(model="house-model", input="once more") as events:
        assert events.get_final_response().output_text == "Let me look."
    respond(api, [user("q"), *(one.to_dict() for one in made.output), user("And?")])
    session = ChatSession.objects.get(messages__content="q")
    assert branches(session) == [["q", "Let me look.", "And?", "Aye."]]


def test_the_example_of_the_page(api, server):
    page = (Path(__file__).parents[3] / "docs" / "frameworks.md").read_text()
    [example] = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "previous_response_id" in one]
    server.script(map(steps.reply, ("Aye.", "So.")))
    exec(example.replace("gpt-4o-mini", "house-model"), {"client": api})  # our own document
    assert branches() == [["Hello", "Aye.", "Why?", "So."]]
