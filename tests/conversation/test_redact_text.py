"""What quotes a text is found in a conversation and redacted, whatever its case and white space."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.conversation import erase, text_search
from compaction_app.exceptions import InvalidMessage
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.tree.verify import verify_session
from compaction_app.values import TextFound
from tests.builders import grow
from tests.small import tool_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]

TEXT = "Rosa Keller"


call = partial(tool_call, "c1")

#: Where it stands → a message that quotes it there.
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "as it is": ("content", {"role": "user", "content": "Ask Rosa Keller."}),
    "another case": ("content", {"role": "user", "content": "ask ROSA KELLER"}),
    "another white space": ("content", {"role": "user", "content": "Rosa\u00a0\n\t Keller"}),
    "a character without width": ("content", {"role": "user", "content": "Ro\u200bsa Kel\u00adler"}),
    "letters composed otherwise": ("content", {"role": "user", "content": "\uff32osa Keller"}),
    "escaped JSON as content": ("content", {"role": "user", "content": '{"who": "\\u0052osa\\nKeller"}'}),
    "a participant": ("name", {"role": "user", "content": "x", "name": "rosa  keller"}),
    "arguments": ("tool_calls", {"role": "assistant", "tool_calls": [call('{"who": "Rosa\\nKeller"}')]}),
    "arguments in arguments": (
        "tool_calls",
        {"role": "assistant", "tool_calls": [call(json.dumps({"body": json.dumps({"who": TEXT})}))]},
    ),
    "arguments that are no JSON": (
        "tool_calls",
        {"role": "assistant", "tool_calls": [call('{"who": "Rosa\\u0020Keller",}')]},
    ),
    "arguments that are cut off": ("tool_calls", {"role": "assistant", "tool_calls": [call('{"who": "Rosa\\nKeller')]}),
    "reasoning": ("reasoning", {"role": "assistant", "content": "x", "reasoning": [{"text": "Is it rosa keller?"}]}),
    "an attachment": ("attachments", {"role": "user", "content": "x", "attachments": [{"name": "Rosa Keller.pdf"}]}),
    "an address": ("attachments", {"role": "user", "content": "x", "attachments": [{"url": "a/Rosa%20Keller.pdf"}]}),
    "a file": (
        "attachments",
        {"role": "user", "content": "x", "attachments": [{"url": "data:text/plain;base64,QnkgUm9zYSBLZWxsZXI"}]},
    ),
    "a finish reason": ("finish_reason", {"role": "assistant", "content": "x", "finish_reason": f"stopped by {TEXT}"}),
    "metadata": ("metadata", {"role": "user", "content": "x", "metadata": {"people": ["Rosa Keller"]}}),
    "a key of metadata": ("metadata", {"role": "user", "content": "x", "metadata": {"Rosa Keller": 1}}),
}


def test_a_picture_does_not_quote_what_its_base64_spells(session: ChatSession) -> None:
    """Of four letters a megabyte of base64 has some, in any case."""
    chat.append_message(
        session, role="user", content="x", attachments=[{"type": "image", "url": "data:image/png;base64,AAAArOsAAAAA"}]
    )
    assert not chat.redact_text(session, "rosa").messages


#: What is erased → a message's text that quotes it.
WRITTEN = {
    "Ren\u00e9e Kel": 'The result: {"who": "Ren\\u00e9e\\nKel"}',
    "Ren\u00e9e Kela": '"Ren\\u00e9e Kela"',
    "Kel \U0001f600": '{"n": 1}\n{"who": "Kel \\ud83d\\ude00"}',
    "logs/rosa": '{"path": "logs\\/rosa",}',
    "Ren\u00e9e & Kel": "<p>Ren&eacute;e&nbsp;&amp;&#32;Kel</p>",
    "C:\\new\\rosa": "It is at C:\\new\\rosa.",
    "\u05d3\u05d5\u05d3 \u05db\u05d4\u05df": "\u202b\u05d3\u200f\u05d5\u05d3 \u05db\u05d4\u05df\u202c",
    "\u0390\u03bf\u03c2 \u03b1": "\u03aa\u0301\u039f\u03a3 \u0391",
    "\u0130pek I\u015f\u0131k": "ipek \u0131\u015fik",
    "I \u2764\ufe0f you": "i \u2764 you",
    "(a+)+$ .*[": "(A+)+$  .*[",
    **{
        f"Rosa Keller {n}": f"data:image/png;base64,{'iVBO' * 99}{'A' * n} Who is it? It is Rosa Keller {n}, I think."
        for n in range(4)
    },
    "Rosa Keller, now": "data: hello;base64, call Rosa Keller, now please",
}


@pytest.mark.few
@pytest.mark.parametrize("text", WRITTEN)
def test_however_it_is_written(session: ChatSession, text: str) -> None:
    message = chat.append_message(session, role="user", content=WRITTEN[text])
    assert chat.redact_text(session, text).messages == ((message.pk, ("content",)),)


#: Ways to write "Zoë Kel-Ruiz 47": some change a sign of it, some all of it.
FORMS: dict[str, list[str]] = {
    "a dash": [
        f"Zo\u00eb Kel{sign}Ruiz 47"
        for sign in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\uff0d\u2e3a\u05be\u02d7"
    ],
    "a sign that nobody sees": [
        f"Zo\u00eb Ke{sign}l-Ruiz{sign} 47"
        for sign in "\x07\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180f\u2063\u2065\u206f\u3164\ufe0f\uffa0\ufff0"
        "\U0001bca0\U0001d173\U000e0020\U000e0080\U000e0100"
    ],
    "between a letter and its accent": ["Zoe\u034f\u0308 Kel-Ruiz 47"],
    "a form": ["Zo%C3%AB+Kel-Ruiz+47", "who=Zo%c3%ab%20Kel%2DRuiz+47&x=1", "Zo%EB+Kel-Ruiz+47", "Zo%u00EB+Kel-Ruiz+47"],
    "bytes": [
        "Zo\\xeb Kel-Ruiz\\x2047",
        "Zo\\xc3\\xab Kel-Ruiz 47",
        "Zo\\303\\253 Kel-Ruiz 47",
        "Zo\\\\xc3\\\\xab Kel\\\\x2dRuiz 47",
    ],
    "quoted lines": [
        "> Zo\u00eb\n> Kel-Ruiz\n> 47",
        "x\n>> Zo\u00eb\n>> Kel-Ruiz 47",
        "> > Zo\u00eb\r\n> > Kel-Ruiz 47",
        "> Zo\u00eb Kel-Ruiz\n>\n> 47",
        '{"body": "> Zo\u00eb\\n> Kel-Ruiz 47"}',
        "&gt; Zo\u00eb\n&gt; Kel-Ruiz 47",
    ],
    "another blank": ["Zo\u00eb\u2800Kel-Ruiz\u300047"],
    "Markdown": [
        "Zo\u00eb Kel\\-Ruiz 47",
        "Zo\u00eb **Kel-Ru**iz `47`",
        "_Zo\u00eb_ Kel-*__Ruiz__* ~~47~~",
    ],
    "HTML": [
        "Zo&euml;&ThinSpace;Kel&ndash;Ruiz&ZeroWidthSpace; 47",
        "<b>Zo\u00eb</b> Kel-<em class='x'>Ru</em>iz 47",
        "Zo&euml;<br>Kel-Ruiz<br/>47",
        "&lt;i&gt;Zo&euml;&lt;/i&gt; Kel-Ruiz 47",
    ],
}


@pytest.mark.few
@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_name_are_found(session: ChatSession, form: str) -> None:
    ids = [chat.append_message(session, role="user", content=f"It is {text}.").pk for text in FORMS[form]]
    chat.append_message(
        session, role="user", content="It is Zoe Kelruiz 47, Zo\u00eb Kel Ruiz 47 or Zo\u00eb Kel\u00b1Ruiz 47."
    )
    assert [one.id for one in chat.redact_text(session, "Zo\u00eb Kel-Ruiz 47").messages] == ids


@pytest.mark.twice
def test_a_text_is_found_where_it_has_signs_of_another_meaning(session: ChatSession) -> None:
    """A plus, a mark of a quoted line, a dash and an escape are folded in what is searched for as in what is read."""
    texts = ["1 + 2 = 3", "a+b = c", "> 80 \u00b0C", "x \u2212 y", "\u2014 so", "C:\\temp\\x41"]
    ids = [chat.append_message(session, role="user", content=f"Say\n{text}").pk for text in texts]
    for pk, text in zip(ids, texts, strict=True):
        assert [one.id for one in chat.redact_text(session, text).messages] == [pk]


@pytest.mark.long
def test_escapes_of_escapes_end_soon(session: ChatSession) -> None:
    """Each level makes the text five characters shorter: without a bound that takes hours."""
    chat.append_message(session, role="user", content="\\" + "u005c" * 100_000)
    assert not chat.redact_text(session, TEXT).messages


@pytest.mark.few
@pytest.mark.parametrize("name", PLACES)
def test_it_is_found_and_redacted_where_it_stands(session: ChatSession, name: str) -> None:
    place, message = PLACES[name]
    first = chat.append_message(session, role="user", content="Ask Rosa. Ask Keller.", metadata={"rosa": "keller"})
    quoting = chat.append_message(session, first, **message)
    before = dict(ChatMessage.objects.values_list("pk", "content"))
    expected = TextFound(session=(), messages=((quoting.pk, (place,)),), summaries=(), runs=())
    assert chat.redact_text(session, TEXT, dry_run=True) == expected
    assert dict(ChatMessage.objects.values_list("pk", "content")) == before
    assert chat.redact_text(session, f"  rosa\n{'KELLER'} ") == expected
    redacted = ChatMessage.objects.get(pk=quoting.pk)
    assert (redacted.content, redacted.metadata) == ("[redacted]", {})
    assert redacted.redacted_at is not None
    assert not chat.redact_text(session, TEXT).messages
    assert ChatMessage.objects.get(pk=first.pk).redacted_at is None
    assert not verify_session(session).problems


def test_it_is_found_in_the_original(session: ChatSession) -> None:
    message = chat.append_message(session, role="assistant", content="x")
    ChatMessage.objects.filter(pk=message.pk).update(original={"format": "x", "data": {"thinking": "rosa keller"}})
    assert chat.redact_text(session, TEXT).messages == ((message.pk, ("original",)),)
    assert ChatMessage.objects.get().original is None


def test_numbers_are_text_too(session: ChatSession) -> None:
    message = chat.append_message(session, role="user", content="x", metadata={"account": 47110815})
    assert chat.redact_text(session, "47110815").messages == ((message.pk, ("metadata",)),)


def test_numbers_of_usage_stay_so_they_are_not(session: ChatSession) -> None:
    """A reply of 2,024 tokens does not quote the year, and would have been found again for ever."""
    question = chat.append_message(session, role="user", content="x")
    usage = {"prompt_tokens": 2024, "completion_tokens": 1, "total_tokens": 2025}
    chat.append_message(session, question, role="assistant", content="x", usage=usage)
    quoting = chat.append_message(session, question, role="assistant", content="x", usage={**usage, "tier": "of 2024"})
    assert chat.redact_text(session, "2024").messages == ((quoting.pk, ("usage",)),)
    assert not chat.redact_text(session, "2024").messages


def test_what_a_redaction_keeps_is_not_searched(session: ChatSession) -> None:
    """The name of a function and the id of a call keep the branch valid."""
    asked = chat.append_message(session, role="assistant", tool_calls=[call("{}", name="rosa_keller")])
    chat.append_message(session, asked, role="tool", tool_call_id="c1", name="rosa_keller", content="x")
    assert chat.redact_text(session, "rosa_keller") == TextFound(session=(), messages=(), summaries=(), runs=())


def test_summaries_below_go_with_a_message_and_those_that_alone_quote_it_too(session: ChatSession) -> None:
    quoting = chat.append_message(session, role="user", content=f"{TEXT} " + "word " * 800)
    tip = grow(session, quoting, "a(800) u(800) a(800) " * 3)[-1]
    below = chat.compact(tip).summary
    ChatMessage.objects.filter(pk=below.pk).update(content="## Who\n\nSomebody called.", extract="")
    other = grow(session, None, "u(800) a(800) " * 5)[-1]
    alone = chat.compact(other, instructions="Keep rosa keller.").summary
    quoted = {"ledger": "ROSA KELLER", "extract": "user: rosa keller"}
    ChatMessage.objects.filter(pk=alone.pk).update(content="## Who\n\nRosa  Keller called.", **quoted)
    own = chat.compact(grow(session, None, "u(800) a(800) " * 5)[-1]).summary
    found = chat.redact_text(session, TEXT, dry_run=True)
    run = CompactionRun.objects.get(summary=alone)
    assert found.messages == ((quoting.pk, ("content",)),)
    assert found.summaries == ((below.pk, ()), (alone.pk, ("content", "extract", "ledger")))
    assert found.runs == ((run.pk, ("instructions",)),)
    assert chat.redact_text(session, TEXT) == found
    for summary in (below, alone):
        emptied = ChatMessage.objects.get(pk=summary.pk)
        assert (emptied.content, emptied.extract, emptied.ledger) == ("", "", "")
        assert emptied.retired_reason == "redaction"
        assert emptied.retired_at is not None
    assert ChatMessage.objects.get(pk=own.pk).retired_at is None
    assert (CompactionRun.objects.get(pk=run.pk).instructions, ChatSession.objects.get().erasures) == ("", 1)
    event = CompactionEvent.objects.get(kind="invalidated")
    assert event.payload == {"summaries": 2, "erasure": "redaction"}
    # The branches without a summary are compacted again.
    assert CompactionRun.objects.open().exists()
    assert chat.redact_text(session, TEXT).summaries == ()
    assert not verify_session(session).problems


def test_what_quotes_it_in_the_session_is_cleared() -> None:
    session = chat.start_session(
        title="About rosa keller",
        system_prompt="You help Rosa Keller.",
        metadata={"client": {"name": TEXT}, "ticket": 7},
    )
    assert chat.redact_text(session, TEXT).session == ("title", "system_prompt", "metadata")
    stored = ChatSession.objects.get()
    assert (stored.title, stored.system_prompt, stored.metadata) == ("", "", {"ticket": 7})
    assert (session.title, session.metadata) == ("", {"ticket": 7})


def test_other_sessions_are_left_alone(session: ChatSession) -> None:
    other = chat.append_message(chat.start_session(title=TEXT), role="user", content=TEXT)
    assert chat.redact_text(session, TEXT).messages == ()
    assert ChatMessage.objects.get(pk=other.pk).content == TEXT


@pytest.mark.parametrize("text", ["", "abc", "  a b ", "a\u200bbc", "\n\t   \n"])
def test_a_text_of_fewer_than_four_characters_is_refused(session: ChatSession, text: str) -> None:
    chat.append_message(session, role="user", content="abc a b")
    for redact in (chat.redact_text, async_to_sync(chat.aredact_text)):
        with pytest.raises(InvalidMessage) as caught:
            redact(session, text)
        assert caught.value.field == "text"
    assert ChatMessage.objects.get().redacted_at is None


def test_what_is_appended_during_the_search_is_found_too(session: ChatSession, monkeypatch: Any) -> None:
    grow(session, None, "u a")
    read = text_search.TextSearch.read_messages

    def read_and_append(search: Any) -> None:
        read(search)
        if ChatMessage.objects.count() == 2:
            chat.append_message(session, role="user", content=TEXT)

    monkeypatch.setattr(text_search.TextSearch, "read_messages", read_and_append)
    assert len(chat.redact_text(session, TEXT).messages) == 1


def test_messages_are_read_in_batches(session: ChatSession, monkeypatch: Any) -> None:
    for module in (erase, text_search):
        monkeypatch.setattr(module, "READ_AT_ONCE", 5)
    last = grow(session, None, "u a " * 6)[-1]
    quoting = chat.append_message(session, last, role="user", content=TEXT)
    with CaptureQueriesContext(connection) as queries:
        found = chat.redact_text(session, TEXT, dry_run=True)
    assert found.messages == ((quoting.pk, ("content",)),)
    # Four pages, the last of them empty, then what is below, the runs and the session.
    assert len(queries) == 7


def test_each_of_many_matches_costs_a_write() -> None:
    """Beside one another, one below the other, and a message of many calls with all its results."""

    def queries(count: int) -> int:
        session = chat.start_session()
        calls = [tool_call(f"c{number}", f'{{"who": "{TEXT}"}}') for number in range(count)]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": TEXT} for call in calls]
        asked, *_ = chat.append_messages(
            session, None, [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}, *results]
        )
        chat.append_messages(session, asked, [{"role": "user", "content": TEXT}] * count)
        for _ in range(count):
            chat.append_message(session, asked, role="assistant", content=TEXT)
        with CaptureQueriesContext(connection) as captured:
            assert len(chat.redact_text(session, TEXT).messages) == 3 * count + 1
        assert not verify_session(session).problems
        return len(captured)

    assert queries(14) - queries(2) == 3 * 12


def test_what_a_search_found_of_it_goes_too_and_nothing_of_another_branch(session: ChatSession) -> None:
    def searched(above: ChatMessage, depth: int) -> ChatMessage:
        called = chat.append_message(session, above, role="assistant", tool_calls=[call("{}")])
        content = f"<recalled message={depth} role=user>\nIt\n</recalled>"
        return chat.append_message(session, called, role="tool", tool_call_id="c1", content=content)

    def said(role: str, **fields: Any) -> ChatMessage:
        content = "<recalled message=2 role=user>\nIt\n</recalled>"
        return chat.append_message(session, first, role=role, content=content, **fields)

    root = chat.append_message(session, role="user", content="x")
    first, other = (chat.append_message(session, root, role="user", content=text) for text in (TEXT, "y"))
    quotation = searched(first, 2)
    erased = {first, quotation, searched(quotation, quotation.depth)}
    # A result whose call is not there is one, too; what a person or a model writes is not.
    erased.add(said("tool", tool_call_id="gone", lenient=True))
    kept = {root, other, searched(quotation, 1), searched(other, 2), said("user"), said("assistant")}
    assert [one.id for one in chat.redact_text(session, TEXT).messages] == [first.pk]
    assert set(ChatMessage.objects.exclude(redacted_at=None)) == erased
    assert kept <= set(ChatMessage.objects.filter(redacted_at=None))
    assert not verify_session(session).problems
