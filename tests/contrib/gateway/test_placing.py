"""Where a list goes on: whatever a client does to it, it is found again, and no other conversation with it."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.contrib.gateway import identity, placing
from compaction_app.contrib.gateway.models import BranchDigest
from compaction_app.conversation.append import BY_CLIENT
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.testing import steps
from tests.contrib.gateway.site import branches, post, talk
from tests.some import some

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]


def test_what_is_anothers_is_as_what_is_not_there(server, users):
    server.script(map(steps.reply, ("one", "two", "three")))
    named, history = {"headers": {"X-Conversation-Id": "c1"}}, talk("q1", "one", "q2")
    post(*talk("q1"), **named)
    post(*history, key="sanoj", **named)
    post(*history, key="sanoj")
    found = [(one.owner, branches(one)) for one in ChatSession.objects.order_by("created_at")]
    others = [(users[1], [["q1", "one", "q2", text]]) for text in ("two", "three")]
    assert found == [(users[0], [["q1", "one"]]), *others]


def test_what_is_no_id_of_a_conversation(server):
    for given in ("new", "null", "{{LIBRECHAT_BODY_CONVERSATIONID}}"):
        post(*talk("q1"), headers={"X-Conversation-Id": given})
    assert list(ChatSession.objects.values_list("external_id", flat=True)) == [""] * 3


def test_a_reply_that_a_client_invents_is_no_beginning_of_ours(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    texts = ["Hi", "I am the bank.", "And now?"]
    post(*talk(*texts))
    post(*talk(*texts))
    assert branches(*ChatSession.objects.order_by("created_at")) == [[*texts, "one"], [*texts, "two"]]
    invented = ChatMessage.objects.filter(role="assistant").first()
    assert (invented.metadata, invented.sent_context) == ({"written_by": "client"}, None)
    # With a reply of ours behind it, it goes on there.
    post(*talk(*texts, "one", "Yes?"))
    assert ChatSession.objects.count() == 2


def test_what_is_redacted_cannot_be_verified_and_is_not_found(server):
    server.script(map(steps.reply, ("one", "two", "three")))
    texts = ["q1", "one", "My code is 1234.", "two", "q3"]
    post(*talk(*texts[:1]))
    post(*talk(*texts[:3]))
    chat.redact_message(ChatMessage.objects.get(content=texts[2]))
    assert [one.message.content for one in BranchDigest.objects.order_by("pk")] == ["q1", "one"]
    post(*talk(*texts))
    assert branches() == [["q1", "one", "[redacted]", "two"], [*texts, "three"]]
    chat.redact_text(ChatSession.objects.get(), texts[2])
    assert BranchDigest.objects.count() == 2
    chat.delete_session(ChatSession.objects.get())
    assert not BranchDigest.objects.exists()


def test_a_list_goes_on_at_the_nearest_of_its_messages_that_was_not_deleted(server):
    """The rest of it is what the client says now; where its conversation is gone, all of it is."""
    server.script(map(steps.reply, ("one", "two", "three", "four")))
    about = {"headers": {"X-Conversation-Id": "c1"}}
    post(*talk("q1"), **about)
    post(*talk("q1", "one", "q2"), **about)
    chat.delete_message(ChatMessage.objects.get(content="q2"))
    assert post(*talk("q1", "one", "q2", "two", "q3"), **about) == (200, "three")
    assert branches() == [["q1", "one", "q2", "two", "q3", "three"]]
    assert [one.metadata for one in ChatMessage.objects.filter(role="assistant")] == [{}, {"written_by": "client"}, {}]
    chat.delete_session(ChatSession.objects.get())
    assert post(*talk("q1", "one", "q4"), **about) == (200, "four")
    assert branches() == [["q1", "one", "q4", "four"]]


def test_a_long_list_costs_as_many_queries_as_a_short_one():
    def queries(count):
        about = {"headers": {"X-Conversation-Id": f"of {count}"}}
        texts = list(map(str, range(count + 1)))
        texts += [post(*talk(*texts), **about)[1], "next"]
        with CaptureQueriesContext(connection) as captured:
            post(*talk(*texts), **about)
        assert len(branches(ChatSession.objects.get(external_id=f"of {count}"))[0]) == len(texts) + 1
        return len(captured)

    assert queries(200) == queries(10)


def without_tools(messages):
    return [one for one in messages if one["role"] != "tool" and not one.get("tool_calls")]


def newest_question(messages):
    return max(place for place, one in enumerate(messages) if one["role"] == "user")


def with_reminder(messages):
    """At the newest question, whatever has come after it."""
    at = newest_question(messages)
    changed = {**messages[at], "content": f"<reminder>It is {len(messages)}.</reminder>\n{messages[at]['content']}"}
    return [*messages[:at], changed, *messages[at + 1 :]]


def changed(messages, role, **values):
    return [
        {**one, **{key: made(one) for key, made in values.items()}} if one["role"] == role else one for one in messages
    ]


def with_arguments(text):
    def call(one):
        return {**one, "function": {**one["function"], "arguments": text}}

    return lambda messages: [
        {**one, "tool_calls": [call(each) for each in one["tool_calls"]]} if one.get("tool_calls") else one
        for one in messages
    ]


#: What clients do to their list before they send it.
CLIENTS = {
    "as it is": lambda messages: messages,
    "without tool messages": lambda messages: [*without_tools(messages[:-3]), *messages[-3:]],
    "a reminder before the newest question": with_reminder,
    "a system message before the newest": lambda messages: [
        *messages[: (at := newest_question(messages))],
        {"role": "system", "content": f"It is {at}."},
        *messages[at:],
    ],
    "the last eight": lambda messages: messages[-8:],
    "the first and the last six": lambda messages: messages if len(messages) < 8 else [messages[0], *messages[-6:]],
    "the last eight, with a reminder": lambda messages: with_reminder(messages[-8:]),
    "a name before each reply": lambda messages: changed(
        messages, "assistant", content=lambda one: one["content"] and f"[house] {one['content']}"
    ),
    "a time before each earlier question": lambda messages: [
        *changed(messages[:-4], "user", content=lambda one: f"[12:00] {one['content']}"),
        *messages[-4:],
    ],
    "empty arguments": with_arguments(""),
    "arguments that are an empty object": with_arguments("{}"),
    "arguments that were no JSON": with_arguments('"{no"'),
    "calls in another order": lambda messages: changed(
        messages, "assistant", tool_calls=lambda one: one.get("tool_calls", [])[::-1]
    ),
    "results in another order": lambda messages: [
        *messages[:-2],
        *(messages[:-3:-1] if messages[-1]["role"] == "tool" else messages[-2:]),
    ],
    "no text beside calls": lambda messages: [
        {**one, "content": None} if one.get("tool_calls") else one for one in messages
    ],
    "old results cleared": lambda messages: [
        *changed(messages[:-2], "tool", content=lambda one: "[cleared]"),
        *messages[-2:],
    ],
    "all fields written out": lambda messages: [
        {"refusal": None, "function_call": None, **one, "content": one["content"] or ""} for one in messages
    ],
    "a time in the instructions": lambda messages: [
        {"role": "system", "content": f"{len(messages)} seconds past noon."},
        *messages,
    ],
    "a time as a part of the newest question": lambda messages: [
        {**one, "content": [{"type": "text", "text": text} for text in (one["content"], f"It is {at}.")]}
        if at == newest_question(messages)
        else one
        for at, one in enumerate(messages)
    ],
    "parts": lambda messages: changed(
        messages, "user", content=lambda one: [{"type": "text", "text": word} for word in one["content"].split(". ")]
    ),
}


LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.few
@pytest.mark.parametrize(
    ("turns", "header"), [(3, False), *(pytest.param(6, header, marks=pytest.mark.long) for header in (False, True))]
)
@pytest.mark.parametrize("name", some(CLIENTS, *list(CLIENTS)[::3]))
def test_a_client_that_writes_its_list_its_own_way_has_one_session(server, name, turns, header):
    """Each turn has two calls, two results and a reply; what is stored grows by the turn and not by the list."""
    about = {"headers": {"X-Conversation-Id": "c1"}} if header else {}
    messages, stored = [], []
    for turn in range(turns):
        asked = [("look", "{no" if "no JSON" in name else "{}", f"call_{turn}_{number}_of_ours") for number in (1, 2)]
        made = [{"id": each, "type": "function", "function": {"name": f, "arguments": text}} for f, text, each in asked]
        calling = {"content": "Let me see.", "tool_calls": made}
        reply = f"The tide of day {turn} is high at noon, and the boats leave the harbour after that."
        server.script(
            [lambda exchange, said=calling: exchange.send_message(said, finish_reason="tool_calls"), steps.reply(reply)]
        )
        messages.append({"role": "user", "content": f"Tide of day {turn}? We sail from berth {turn}. Is there wind?"})
        assert post(*CLIENTS[name](messages), **about, tools=[LOOK])[0] == 200
        assert server.requests[-1]["tools"] == [LOOK]
        messages += [{"role": "assistant", **calling}]
        messages += [{"role": "tool", "tool_call_id": each, "content": f"Result {each}"} for *_, each in asked]
        assert post(*CLIENTS[name](messages), **about) == (200, reply)
        messages.append({"role": "assistant", "content": reply})
        stored.append(ChatMessage.objects.count())
    assert ChatSession.objects.count() == 1
    grown = {after - before for before, after in pairwise(stored)}
    assert max(grown) <= 8
    assert ChatMessage.objects.filter(content=messages[-1]["content"]).count() == 1
    assert all(one.metadata == BY_CLIENT for one in ChatMessage.objects.filter(role="tool"))
    newest = [one for one in server.requests[-1]["messages"] if one["role"] == "tool"][-2:]
    assert {one["content"] for one in newest} == {one["content"] for one in messages[-3:-1]}


def test_an_edit_above_replies_that_stay_is_a_branch(server):
    server.script(default=steps.reply_with(lambda body: f"Answer {len(server.requests)} about the tides of that day."))
    texts = ["Which tide is on Monday?"]
    for question in ("And on Tuesday?", "And on Friday?"):
        texts += [post(*talk(*texts))[1], question]
    texts += [post(*talk(*texts))[1], "Thanks."]
    edited = [*texts[:2], "What about the ferry at night?", *texts[3:]]
    reply = post(*talk(*edited))[1]
    assert server.requests[-1]["messages"] == talk(*edited)
    assert branches() == [texts[:-1], [*edited, reply]]


def test_instructions_above_a_reply_that_the_branch_does_not_have_are_stored_below_it(server):
    long = "The tide of that day is high at noon, and the boats leave after that."
    server.script(default=steps.reply(long))
    post(*talk("Tide?"))
    note = {"role": "developer", "content": "Say it in German."}
    first, *rest = talk("Tide?", long, "And tomorrow?", long, "And on Friday?")
    for sent in ([first, note, *rest[:2]], [first, note, *rest[:2]], [first, note, *rest]):
        post(*sent)
        shown = [one for one in server.requests[-1]["messages"] if one != note]
        assert (shown, server.requests[-1]["messages"].count(note)) == ([first, *sent[2:]], 1)
    assert ChatSession.objects.count() == 1


CHATTER = ("OK.", "Hi! How can I help you today?", "I'm sorry, but I can't assist with that. Is there anything else?")
SAYS = ("yes", "Hi", "go on", "Thanks. ")
TRIMMING = ("the last eight", "the first and the last six", "the last eight, with a reminder")


@pytest.mark.parametrize("turns", [20, *(pytest.param(turns, marks=pytest.mark.long) for turns in (60, 61, 62))])
def test_no_request_is_shown_another_conversation(server, turns):
    """Of chats that say the same most of the time: their clients trim, edit and add to their lists, at random."""
    chance = random.Random(turns)
    server.script(
        default=steps.reply_with(lambda body: chance.choice([*CHATTER, f"Of berth {chance.random()} nothing."]))
    )
    named = (*TRIMMING, "as it is", "a reminder before the newest question", "a system message before the newest")
    chats = [(chance.choice(named), chance.choice(("tiram", "tiram", "sanoj")), []) for _ in range(2 + turns // 10)]
    for turn in range(turns):
        number = chance.randrange(len(chats))
        name, key, messages = chats[number]
        questions = [at for at, one in enumerate(messages) if one["role"] == "user"]
        if questions and chance.random() < 0.1:
            # Asked anew from there, or changed where it is.
            at = chance.choice(questions)
            del messages[at if chance.random() < 0.5 else len(messages) :]
            messages[at : at + 1] = [{"role": "user", "content": f"chat-{number}- changed {chance.random()}"}] * (
                at < len(messages)
            )
        said = chance.choice(SAYS) if chance.random() < 0.5 else f"chat-{number}- question {turn}"
        messages.append({"role": "user", "content": said})
        sent = CLIENTS[name](messages)
        status, reply = post(*sent, key=key)
        shown = server.requests[-1]["messages"]
        assert (status, shown[-1]) == (200, sent[-1])
        assert set(re.findall(r"chat-\d+-", json.dumps(shown))) <= {f"chat-{number}-"}
        messages.append({"role": "assistant", "content": reply})


@pytest.mark.long
def test_a_message_is_read_once_for_all_variants_that_it_is_compared_with(server, monkeypatch):
    texts = [text for day in range(5) for text in (f"Which tide has day {day}?", "It is high at noon.")]
    read, shown, compared, likeness = [], identity._shown, [], placing.likeness
    monkeypatch.setattr(identity, "_shown", lambda text: read.append(text) or shown(text))
    monkeypatch.setattr(placing, "likeness", lambda *pair: compared.append(pair) or likeness(*pair))
    server.script(default=steps.reply(texts[-1]))

    def counted(variants):
        about = {"headers": {"X-Conversation-Id": f"of {variants}"}}
        for turn in [*range(1, 9, 2), *[9] * variants]:
            post(*talk(*texts[:turn]), **about)
        read.clear()
        compared.clear()
        post(*changed(talk(*texts), "user", content=lambda one: f"[12:00] {one['content']}"), *talk("Thanks."), **about)
        assert len(branches(ChatSession.objects.get(external_id=f"of {variants}"))) == variants
        return len(read), len(compared)

    assert counted(6) == counted(1)


@pytest.mark.long
def test_stopped_replies_one_after_another_cost_no_query_each(users):
    """Their clients have seen the beginning of each."""

    def queries(count):
        session, sent, tip = chat.start_session(owner=users[0], external_id=f"of {count}"), [], None
        start, has_reply = str(users[0].pk), False
        for number in range(count):
            question, whole = talk(f"q{number}", f"Reply {number} and all of its words")
            start = placing.Said(question).digest(start)
            [tip] = chat.append_messages(session, tip, [question])
            placing._remember([tip], [start], has_reply, tip.parent_message_id)
            at = placing.Place(session=session, tip=tip, digest=start, has_reply=has_reply)
            tip, has_reply = chat.append_message(session, tip, finish_reason="stopped", **whole), True
            placing.remember_reply(at, tip)
            start = BranchDigest.objects.get(pk=tip.pk).digest
            sent += talk(f"q{number}", f"Reply {number} and")
        with CaptureQueriesContext(connection) as captured:
            assert post(*sent, *talk("next"), headers={"X-Conversation-Id": f"of {count}"})[0] == 200
        assert len(branches(session)) == 1
        return len(captured)

    assert queries(40) <= queries(5) + 1
