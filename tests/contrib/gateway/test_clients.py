"""Clients of other makers with their own tool loops: whatever they do to a list, it is one conversation of O(N) rows.

What they are known to do, by their sources: LangChain, llm, pydantic-ai and the AI SDK write arguments anew (``""`` as
``{}``, JavaScript ``2.0`` as ``2``), mend or wrap those that are no JSON, and make ids where none came; LangChain puts
the calls that it could read first; LiteLLM leaves out what is null; pydantic-ai and the AI SDK send reasoning back.
"""

from __future__ import annotations

import itertools

import pytest
from django.db import connection

from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tasks import compact_branch
from tests.contrib.gateway.clients import CLIENTS, MODEL, PAGE, TOOL, Talk, client_named, plain
from tests.contrib.gateway.site import shown_before_a_stop
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.gateway.site")]

QUESTIONS = ["Where is the Ada, and is she paid for?", "Whose is the Björn? He lies beside her."]
#: Calls in each reply to a question: thirty for both.
ROUNDS = [1, 2] * 5
ARGUMENTS = [
    '{"city": "Oslo"}',
    "",
    '{"x": 2.0, "n": 9007199254740993, "e": 1e2, "zero": -0.0}',
    "{}",
    '{"city": "Troms\\u00f8", "b": [1, {"y": 2, "x": 1}], "a": "\U0001f600"}',
    "null",
    ' {"city":"Tromsø"} ',
]
BROKEN = ['{"city": "Os', "[1]", '{"city": "Oslo"}', '"x"']
NAMED = {"X-Conversation-Id": "c1"}


def echo(question):
    return f"You asked: {question}"


class HouseModel:
    """What the provider's model says to each question: calls of a tool, then the question again."""

    def __init__(self, arguments=ARGUMENTS, call_id="call_{:024}", rounds=ROUNDS, **beside):
        self.arguments, self.call_id, self.rounds, self.beside = arguments, call_id, rounds, beside

    def script(self, questions=QUESTIONS):
        numbers, written = itertools.count(), itertools.cycle(self.arguments)

        def call():
            named = {} if self.call_id is None else {"id": self.call_id.format(next(numbers))}
            return {**named, "type": "function", "function": {"name": "look", "arguments": next(written)}}

        def says(count):
            def answer(exchange):
                compact_what_is_ready()
                [*_, asked] = [one["content"] for one in exchange.body["messages"] if one["role"] == "user"]
                said = {"tool_calls": [call() for _ in range(count)]} if count else {"content": echo(asked)}
                ending = "tool_calls" if count else "stop"
                exchange.send_message({"content": None, **self.beside, **said}, finish_reason=ending)

            return answer

        return [says(count) for _ in questions for count in [*self.rounds, 0]]

    def rows(self, questions=QUESTIONS):
        return len(questions) * (len(self.rounds) + sum(self.rounds) + 2)


def compact_what_is_ready():
    """As workers do between two requests."""
    try:
        for run in CompactionRun.objects.filter(status="ready"):
            compact_branch(run.pk)
    finally:
        connection.close()


def stored_of(user, kind="message"):
    """The sessions of a user, and their messages."""
    own = ChatMessage.objects.filter(session__owner=user, kind=kind)
    return ChatSession.objects.filter(owner=user).count(), own.count()


@pytest.fixture
def gateway(asgi_server, settings):
    settings.ALLOWED_HOSTS = ["*"]
    settings.COMPACTION = small(CONTEXT_WINDOW=4_000, RESERVED_TOKENS=500)
    return f"{asgi_server}/v1"


_OF_PLAIN = []


@pytest.fixture
def summaries(gateway, server, users):
    """How many a client makes that changes nothing; counted once."""
    if not _OF_PLAIN:
        server.script(HouseModel().script())
        assert plain(Talk(url=gateway, key="sanoj", questions=QUESTIONS)) == list(map(echo, QUESTIONS))
        assert stored_of(users[1]) == (1, HouseModel().rows())
        _OF_PLAIN.append(stored_of(users[1], "summary")[1])
    return _OF_PLAIN[0]


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", CLIENTS)
def test_thirty_calls_are_one_conversation(name, stream, gateway, server, summaries, users):
    client = client_named(name)
    server.script(HouseModel().script())
    # Each request is answered under its own last question.
    assert client(Talk(url=gateway, key="tiram", questions=QUESTIONS, stream=stream)) == list(map(echo, QUESTIONS))
    assert stored_of(users[0]) == (1, HouseModel().rows())
    assert 0 < stored_of(users[0], "summary")[1] <= summaries + 1


FEW = [1, 2]
UNREADABLE = "arguments that are no object"
ONE_ID = "one id for all"
VARIANTS = {
    "the header": (HouseModel(rounds=FEW), NAMED),
    UNREADABLE: (HouseModel(BROKEN, rounds=FEW), {}),
    "no ids": (HouseModel(call_id=None, rounds=FEW, reasoning_content="The tide, I think."), {}),
    "empty ids": (HouseModel(call_id="", rounds=FEW), {}),
    # Two calls of one message with the same id are no two calls.
    ONE_ID: (HouseModel(call_id="call_1", rounds=[1, 1]), {}),
}
#: Clients that end at arguments that they cannot read, where others report it to the model.
GIVES_UP = {("llm", UNREADABLE, False), ("llm", UNREADABLE, True), ("langchain_openai", UNREADABLE, False)}
#: And at ids that come twice.
GIVES_UP |= set(itertools.product(("agents, responses", "agents, responses by id"), [ONE_ID], [False, True]))
SENT = sorted(set(itertools.product(CLIENTS, VARIANTS, [False, True])) - GIVES_UP)


@pytest.mark.few
@pytest.mark.parametrize(
    ("name", "variant", "stream"),
    [pytest.param(*one, marks=[pytest.mark.long] * (at % 3 > 0)) for at, one in enumerate(SENT)],
)
def test_what_a_model_may_send(name, variant, stream, gateway, server, users):
    client = client_named(name)
    model, headers = VARIANTS[variant]
    server.script(model.script())
    talk = Talk(url=gateway, key="tiram", headers=headers, questions=QUESTIONS, stream=stream)
    assert client(talk) == list(map(echo, QUESTIONS))
    assert stored_of(users[0]) == (1, model.rows())


@pytest.mark.few
@pytest.mark.parametrize("headers", [{}, NAMED], ids=["alone", "header"])
@pytest.mark.parametrize("said", [None, {"tool_calls": [{"index": 0, "function": {"arguments": "["}}]}])
def test_a_stop_in_the_middle(api, said, headers, gateway, server, users):
    """Of a text, or of the arguments of a call, behind a result. A client has no more of it than it was shown."""
    before, model = HouseModel(rounds=[1]), HouseModel(call_id="call_{:024}x", rounds=FEW)
    server.script(before.script()[:1])
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    asked = {"messages": messages, "tools": [TOOL], "extra_headers": headers}
    messages.append(api.chat.completions.create(model=MODEL, **asked).choices[0].message.to_dict())
    messages.append({"role": "tool", "tool_call_id": messages[-1]["tool_calls"][0]["id"], "content": PAGE})
    shown = shown_before_a_stop(api, server, said, **asked)
    messages += [{"role": "assistant", "content": shown}] if shown else []
    server.script(model.script(QUESTIONS[1:]))
    talk = Talk(url=gateway, key="tiram", headers=headers, questions=QUESTIONS[1:])
    assert plain(talk, lambda new: messages + new) == [echo(QUESTIONS[1])]
    assert stored_of(users[0]) == (1, len(messages) + model.rows(QUESTIONS[1:]))
