"""Erased text is nowhere: the whole database is searched, every column of every table.

Each place that can hold a text gets a mark of its own, the summarizer repeats every mark that it is shown, and a
search before the erasure shows that the marks really stand where they were planted. What a database keeps of old
rows until it is vacuumed, in its logs and in backups, is beyond an app's reach.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionFailed, InvalidMessage, SummarizerError
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.tree.verify import verify_session
from compaction_app.values import PolicyDecision, SummaryDraft, SummaryRequest
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small
from tests.stock_tree.models import SupportChat
from tests.trees import deep_chain

pytestmark = pytest.mark.django_db(transaction=True)

MARK = "mark7391"
TURNS = "u(300) a(300) "
MESSAGES, RUNS = "compaction_app_chatmessage", "compaction_app_compactionrun"
SESSIONS, LOG = "compaction_app_chatsession", "django_admin_log"

#: Of OpenAI.
SEALED = "Z0FBQUFB" * 9
_BLOCK, _NOTED = {"type": "compaction", "content": "The card is fox0815."}, {"type": "text", "text": "Noted."}
_ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": SEALED}
_ANSWER = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Noted.", "annotations": []}],
}
#: What a provider makes of the conversation above, as its messages are appended.
PROVIDERS_SUMMARIES: dict[str, list[dict[str, Any]]] = {
    "OpenAI's item": [_ITEM, _ANSWER],
    "OpenAI's item alone": [_ITEM],
    "Anthropic's block": [{"role": "assistant", "content": [_BLOCK, _NOTED]}],
    "Anthropic's block alone": [{"role": "assistant", "content": [_BLOCK]}],
    "LangChain's": [{"type": "ai", "content": [{"type": "non_standard", "value": _BLOCK}, _NOTED]}],
    "pydantic-ai's": [
        {
            "kind": "response",
            "parts": [
                {"part_kind": "compaction", "content": "The card is fox0815.", "id": "x"},
                {"part_kind": "text", "content": "Noted."},
            ],
        }
    ],
    "in metadata": [
        {"role": "assistant", "content": "Noted.", "metadata": {"output": [_ITEM], "compaction_blocks": [_BLOCK]}}
    ],
}


def mark(place: str) -> str:
    # The memory takes words that begin the same for one.
    return f"{place}{MARK}"


class Repeating(FakeSummarizer):
    """Its recap repeats every mark in what it was shown; it may be interrupted, or fail and quote them."""

    meanwhile: ClassVar[Callable[[], Any] | None] = None
    fails: ClassVar[bool] = False

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        meanwhile, Repeating.meanwhile = Repeating.meanwhile, None
        if meanwhile:
            meanwhile()
        marks = " ".join(sorted(set(re.findall(rf"\w+{MARK}", request.system + request.user))))
        if self.fails:
            raise SummarizerError(f"no recap of {marks}", error_code="bad_request")
        self.requests.append(request)
        return SummaryDraft(
            text=f"## Recap\n\nSo far it was about this, that and whatever else there was: {marks}", model="repeating"
        )


def policy(tip: ChatMessage, budget: Any) -> PolicyDecision:
    return PolicyDecision(prompt_line=f"Keep {mark('policy')}.")


@pytest.fixture(autouse=True)
def site(settings: Any) -> Iterator[None]:
    settings.COMPACTION = small(
        SUMMARIZERS={"default": {"BACKEND": f"{__name__}.Repeating"}}, POLICY=f"{__name__}.policy"
    )
    yield
    Repeating.meanwhile, Repeating.fails = None, False


def columns_with(text: str) -> set[str]:
    """``table.column`` wherever the text stands in the database of this test, by introspection; or the cache."""
    found = {"cache" for value in vars(caches["default"])["_cache"].values() if text.encode() in value}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                found |= {f"{table}.{name}" for name, value in zip(columns, row, strict=True) if text in shown(value)}
    return found


def shown(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview | bytes) else str(value)


def marked_reply(session: ChatSession, parent: ChatMessage) -> ChatMessage:
    """A reply with a mark in everything that a message can hold."""
    call = {
        "id": "call_1",
        "function": {"name": "pay", "arguments": f'{{"card": "{mark("argument")}"}}'},
        "type": mark("type"),
        "extra_content": {"thought": mark("extra")},
    }
    return chat.append_message(
        session,
        parent,
        role="assistant",
        content=f"The card is {mark('content')}.",
        tool_calls=[call],
        name=mark("name"),
        reasoning=[{"type": "thinking", "thinking": mark("reasoning")}],
        attachments=[{"type": "file", "name": mark("attachment"), "url": f"https://host/{mark('url')}"}],
        usage={
            "prompt_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 4, "note": mark("usage"), mark("key"): 1},
        },
        metadata={"preview": mark("metadata")},
    )


#: Where the marks stand before an erasure. What was sent, the events and the admin's log hold none of them.
EVERYWHERE = {
    *(
        f"{MESSAGES}.{c}"
        for c in "content extract ledger memory name reasoning original attachments usage metadata tool_calls".split()
    ),
    f"{MESSAGES}.retired_reason",
    *(f"{RUNS}.{c}" for c in ("instructions", "error_detail", "policy_line")),
}


@pytest.fixture
def story(session: ChatSession, admin_client: Client) -> dict[str, Any]:
    """A marked reply, and below it all that can come to hold its marks."""
    head = grow(session, None, "u a " * 3)
    told = marked_reply(session, head[-1])
    paid = chat.append_message(session, told, role="tool", content="paid", tool_call_id="call_1", name="pay")
    context = chat.get_context(paid)
    reply = chat.append_message(session, paid, role="assistant", content="It is paid.", context=context)
    trunk = grow(session, reply, TURNS * 11)[-1]
    first = chat.compact(trunk, instructions=f"Dwell on {mark('instruction')}.").summary
    confirm = reverse("admin:compaction_app_chatmessage_retire", args=[first.pk])
    assert admin_client.post(confirm, {"reason": f"It says {mark('reason')}."}).status_code == 302
    # The retirement requested a compaction, and no worker came.
    assert CompactionRun.objects.filter(status="ready").update(created_at=timezone.now() - timedelta(hours=1)) == 1
    second = chat.compact(trunk).summary
    forks = [grow(session, trunk, TURNS * 10)[-1] for _ in range(2)]
    built = [chat.compact(tip).summary for tip in forks]
    Repeating.fails = True
    with pytest.raises(CompactionFailed):
        chat.compact(trunk, instructions=f"Once more: {mark('instruction')}")
    Repeating.fails = False
    tip = grow(session, forks[0], TURNS * 10)[-1]
    waiting = chat.request_compaction(tip)
    assert waiting is not None
    assert {run.status for run in CompactionRun.objects.all()} == {"succeeded", "failed", "ready"}
    # Else no test of an erasure could fail.
    assert columns_with(MARK) == EVERYWHERE
    summaries = [first, second, *built]
    for place in ("content", "argument", "reasoning", "attachment", "instruction"):
        telling = [summary for summary in summaries if mark(place) in summary.content]
        assert len(telling) == (1 if place == "instruction" else 4), place
    assert ChatMessage.objects.filter(sent_context__isnull=False).exists()
    return {"told": told, "tip": tip, "summaries": summaries, "waiting": waiting}


class TestRedaction:
    @pytest.mark.twice
    def test_nothing_of_it_is_left_in_the_database(self, story: dict[str, Any]) -> None:
        told = chat.redact_message(story["told"])
        assert columns_with(MARK) == set()
        for summary in story["summaries"]:
            summary.refresh_from_db()
            assert (summary.text, summary.retired_reason) == ("", "redaction")
            assert summary.retired_at is not None
        assert told.usage == {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}
        assert told.tool_calls == [{"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}]
        assert verify_session(told.session).problems == []
        # The run that waited is carried out afterwards, on what is there now.
        assert tasks.compact_branch(story["waiting"].pk) == "skipped"
        tasks.compact_session(str(told.session_id))
        made = chat.find_summary(story["tip"])
        assert made is not None
        assert columns_with(mark("policy")) == {f"{RUNS}.policy_line", f"{MESSAGES}.content"}, "the host's own, anew"
        ChatMessage.objects.filter(kind="summary").update(content="")
        CompactionRun.objects.update(policy_line="")
        assert columns_with(MARK) == set()

    @pytest.mark.few
    @pytest.mark.parametrize("redact", [chat.redact_message, lambda message: chat.redact_text(message.session, MARK)])
    @pytest.mark.parametrize("summary", PROVIDERS_SUMMARIES)
    def test_a_providers_own_summary_below_it_is_gone(
        self, session: ChatSession, summary: str, redact: Callable[[ChatMessage], Any]
    ) -> None:
        told = chat.append_message(session, role="user", content=f"It is {mark('told')}.")
        branches = [chat.append_messages(session, told, PROVIDERS_SUMMARIES[summary])[-1] for _ in range(2)]
        ends = [chat.append_message(session, one, role="user", content="And?") for one in branches]
        assert columns_with(SEALED) | columns_with("fox0815")
        redact(told)
        assert columns_with(SEALED) | columns_with("fox0815") | columns_with(MARK) == set()
        for branch, end in zip(branches, ends, strict=True):
            branch.refresh_from_db()
            assert branch.content == ("[redacted]" if "alone" in summary else "Noted.")
            assert (branch.original is None) or '"type": "compaction"' not in json.dumps(branch.original)
            assert branch.content in [one.content for one in chat.get_context(end).messages]
        assert verify_session(session).problems == []

    def test_a_providers_own_summary_beside_and_above_it_stays(self, session: ChatSession) -> None:
        items = PROVIDERS_SUMMARIES["OpenAI's item"]
        root = chat.append_message(session, role="user", content="Hello")
        above, beside = (chat.append_messages(session, root, items)[-1] for _ in range(2))
        chat.redact_message(chat.append_message(session, above, role="user", content=mark("told")))
        for one in (above, beside):
            assert ChatMessage.objects.get(pk=one.pk).original == one.original != None  # noqa: E711

    def test_metadata_that_looks_like_a_providers_own_summary_goes_too(self, session: ChatSession) -> None:
        told = chat.append_message(session, role="user", content=mark("told"))
        below = chat.append_message(session, told, role="assistant", content="Noted.", metadata={**_BLOCK})
        chat.redact_message(told)
        below.refresh_from_db()
        assert (below.content, below.metadata) == ("Noted.", {})

    def test_a_result_keeps_the_name_of_its_function(self, session: ChatSession) -> None:
        told = marked_reply(session, grow(session, None, "u")[0])
        result = chat.append_message(
            session, told, role="tool", content=mark("result"), tool_call_id="call_1", name="pay"
        )
        redacted = chat.redact_message(result)
        assert (redacted.content, redacted.name, redacted.tool_call_id) == ("[redacted]", "pay", "call_1")
        assert columns_with(mark("result")) == set()

    def test_a_message_of_any_size_can_be_redacted(self, session: ChatSession) -> None:
        """It was refused as too large for what was left of a message with many calls or a long usage report."""
        calls = [{"id": f"c{n}", "function": {"name": "look", "arguments": "{}"}} for n in range(50)]
        usage = {"iterations": [{"input_tokens": n} for n in range(200)]}
        message = chat.append_message(
            session, grow(session, None, "u")[0], role="assistant", tool_calls=calls, usage=usage, content=mark("x")
        )
        redacted = chat.redact_message(message)
        assert ([call["id"] for call in redacted.tool_calls], redacted.usage) == ([c["id"] for c in calls], {})
        assert columns_with(MARK) == set()

    def test_a_message_that_another_counter_counted_can_be_redacted(self, session: ChatSession, settings: Any) -> None:
        """Its count went below 0, which no database stores."""
        message = grow(session, None, "u")[0]
        settings.COMPACTION = small(TOKEN_COUNTER="compaction_app.tokens.CharacterTokenCounter")
        assert 0 < chat.redact_message(message).token_count < message.token_count

    @pytest.mark.parametrize("replacement", ["\ud800", "\x00", 7])
    def test_a_replacement_that_can_not_be_stored_is_refused(self, session: ChatSession, replacement: Any) -> None:
        message = grow(session, None, "u")[0]
        with pytest.raises(InvalidMessage):
            chat.redact_message(message, replacement=replacement)
        message.refresh_from_db()
        assert message.redacted_at is None

    @pytest.mark.twice
    def test_it_takes_as_many_queries_whatever_is_below(self) -> None:
        """A batch of ids at a time it took some seconds, with the session locked."""
        counted = []
        for length in (3, 1_300):
            with transaction.atomic():
                nodes = deep_chain(chat.start_session(), length)
            with CaptureQueriesContext(connection) as queries:
                chat.redact_message(nodes[0])
            counted.append(len(queries))
            assert verify_session(nodes[0].session).problems == []
        assert counted[0] == counted[1]

    @pytest.mark.parametrize("title", ["{start}", "{start}…", "{start}...", "{start} [...]"])
    def test_a_title_that_is_how_the_message_begins_goes_too(self, session: ChatSession, title: str) -> None:
        """Chat pages, ours among them, call a conversation after its first message."""
        start = f"My card is {mark('title')} and"
        message = chat.append_message(session, None, role="user", content=f"My card\n is {mark('title')} and more.")
        ChatSession.objects.filter(pk=session.pk).update(title=title.format(start=start))
        chat.redact_message(message)
        assert columns_with(MARK) == set()

    @pytest.mark.twice
    @pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message])
    def test_a_title_goes_with_the_message_that_it_was_made_of(self, session: ChatSession, erase: Any) -> None:
        """Whatever its words are; in copies too, and a copy of another branch does not have it."""
        first = chat.append_message(session, None, role="system", content="You know the harbour.")
        asked = chat.append_message(session, first, role="user", content="Here.", attachments=[{"name": "x.pdf"}])
        ChatSession.objects.filter(pk=session.pk).update(title=mark("title"), title_of=asked)
        beside = chat.copy_branch(chat.append_message(session, first, role="user", content="What time is it?"))
        copy = chat.copy_branch(asked)
        of_copy = copy.messages.get(role="user")
        assert (beside.title, copy.title, copy.title_of) == ("", mark("title"), of_copy)
        assert chat.copy_branch(of_copy).title == mark("title")
        for one in [*chat.copies_of(asked), asked]:
            erase(one if erase is chat.redact_message else one.parent)
        assert columns_with(MARK) == set()

    def test_a_title_of_which_nothing_is_said_goes_with_the_names_of_files(self, session: ChatSession) -> None:
        names = [{"type": "file", "name": f"{mark(name)}c"} for name in "ab"]
        first = grow(session, None, "u")[0]
        asked = chat.append_message(session, first, role="user", content="", attachments=names)
        ChatSession.objects.filter(pk=session.pk).update(title=f"{mark('a')}c, {mark('b')}…")
        assert (chat.copy_branch(first).title, chat.copy_branch(asked).title[:5]) == ("", mark("a")[:5])
        chat.redact_message(asked, copies=lambda copy: True)
        assert columns_with(MARK) == set()

    def test_any_other_title_stays(self, session: ChatSession) -> None:
        ChatSession.objects.filter(pk=session.pk).update(title="Of harbours")
        chat.redact_message(chat.append_message(session, None, role="user", content="Tell me of harbours."))
        session.refresh_from_db()
        assert session.title == "Of harbours"


class TestInFlight:
    """The text is erased while a model that was shown it is still writing."""

    def branch(self, session: ChatSession) -> tuple[ChatMessage, ChatMessage]:
        told = marked_reply(session, grow(session, None, "u a u")[-1])
        return told, grow(session, told, TURNS * 12)[-1]

    def test_a_run_that_saw_it_can_not_commit(self, session: ChatSession) -> None:
        told, tip = self.branch(session)
        run = chat.request_compaction(tip)
        assert run is not None
        Repeating.meanwhile = lambda: chat.redact_message(told)
        assert tasks.compact_branch(run.pk) == "ready"
        assert not ChatMessage.objects.summaries().exists()
        assert columns_with(MARK) == set()
        assert tasks.compact_branch(run.pk) == "succeeded"
        assert columns_with(MARK) == set()

    def test_a_person_who_waits_gets_the_summary_of_what_is_left(self, session: ChatSession) -> None:
        told, tip = self.branch(session)
        Repeating.meanwhile = lambda: chat.redact_message(told)
        run = chat.compact(tip)
        assert (run.status, run.attempts) == ("succeeded", 2)
        assert columns_with(MARK) == set()

    def test_an_error_that_quotes_it_afterwards_is_not_kept(self, session: ChatSession) -> None:
        told, tip = self.branch(session)
        Repeating.meanwhile = lambda: chat.redact_message(told)
        Repeating.fails = True
        with pytest.raises(CompactionFailed):
            chat.compact(tip)
        assert CompactionRun.objects.get().error_code == "bad_request"
        assert columns_with(MARK) == set()


class TestDeletion:
    @pytest.mark.twice
    def test_of_a_message_leaves_nothing_of_what_was_below_it(self, story: dict[str, Any]) -> None:
        session = story["told"].session
        chat.delete_message(story["told"])
        assert columns_with(MARK) == set()
        assert tasks.compact_branch(story["waiting"].pk) == "skipped"
        assert columns_with(MARK) == set()
        assert not ChatMessage.objects.summaries().exists()
        assert verify_session(session).problems == []
        assert CompactionRun.objects.count() == 6, "the record of what ran stays, without a word of it"

    def test_of_a_message_takes_along_the_title_that_it_gave(self, session: ChatSession) -> None:
        """Unless another variant still begins so."""
        ChatSession.objects.filter(pk=session.pk).update(title=mark("title"))
        first, edited = (
            chat.append_message(session, None, role="user", content=f"{mark('title')} {word}") for word in "ab"
        )
        chat.delete_message(first)
        assert columns_with(MARK) == {f"{MESSAGES}.content", f"{SESSIONS}.title"}
        chat.delete_message(edited)
        assert columns_with(MARK) == set()

    @pytest.fixture
    def owned(self) -> ChatSession:
        owner = get_user_model().objects.create_user("owner")
        session = chat.start_session(
            owner=owner, title=mark("title"), system_prompt=mark("prompt"), model=mark("model"), external_id=mark("id")
        )
        session.metadata = {"folder": mark("folder")}
        session.save()
        told = marked_reply(session, grow(session, None, "u a")[-1])
        tip = grow(session, told, TURNS * 12)[-1]
        chat.compact(tip, instructions=mark("instruction"))
        chat.request_compaction(grow(session, tip, TURNS * 12)[-1])
        context = chat.get_context(tip)
        chat.append_message(
            session, tip, role="assistant", content="x", context=context, usage={"prompt_tokens": 9}, model=mark("m")
        )
        return session

    def test_of_a_session_leaves_nothing(self, owned: ChatSession) -> None:
        assert f"{SESSIONS}.token_calibration" in columns_with(MARK)
        session_id = owned.pk
        assert columns_with(session_id.hex) | columns_with(str(session_id))
        chat.delete_session(owned)
        assert columns_with(MARK) == set()
        assert columns_with(str(session_id)) | columns_with(session_id.hex) == set()

    def test_of_a_session_in_the_admin_leaves_nothing(self, owned: ChatSession, admin_client: Client) -> None:
        """The admin's log keeps that it was deleted, and not what it was called: often its first words."""
        page = reverse("admin:compaction_app_chatsession_change", args=[owned.pk])
        changed = admin_client.post(page, {"title": mark("newtitle"), "settings": "{}"})
        assert changed.status_code == 302
        page = reverse("admin:compaction_app_chatsession_delete", args=[owned.pk])
        assert admin_client.post(page, {"post": "yes"}).status_code == 302
        assert not ChatSession.objects.exists()
        assert columns_with(MARK) == set()
        assert columns_with(str(owned.pk)) == {f"{LOG}.object_id", f"{LOG}.object_repr"}


Erase = Callable[[Client, list[ChatMessage]], Any]


def by_api(client: Client, told: list[ChatMessage]) -> None:
    address = f"/api/v1/messages/{told[0].pk}/redact"
    assert client.post(address, {"copies": True}, content_type="application/json").status_code == 200


def in_the_admin(client: Client, told: list[ChatMessage]) -> None:
    address = reverse("admin:compaction_app_chatmessage_redact", args=[told[0].pk])
    asked = {"replacement": "[gone]", "copies": [one.pk for one in told[1:]]}
    assert client.post(address, asked).status_code == 302


def of_each(erase: Callable[[ChatMessage], Any]) -> Erase:
    return lambda client, told: [erase(one) for one in told]


def deleting_by_api(kind: str) -> Erase:
    def delete(client: Client, told: list[ChatMessage]) -> None:
        for one in told:
            key = one.pk if kind == "messages" else one.session_id
            assert client.delete(f"/api/v1/{kind}/{key}").status_code == 204

    return delete


def deleting_in_the_admin(page: str, of: Callable[[ChatMessage], Any]) -> Erase:
    def delete(client: Client, told: list[ChatMessage]) -> None:
        for one in told:
            address = reverse(f"admin:{page}_delete", args=[of(one)])
            assert client.post(address, {"post": "yes"}).status_code == 302

    return delete


#: The first one is given, and those that are copies of it, or it of them.
ERASING: dict[str, Erase] = {
    "redact_message": lambda client, told: chat.redact_message(told[0], copies=lambda copy: True),
    "the API": by_api,
    "the admin": in_the_admin,
    "redact_text": of_each(lambda one: chat.redact_text(one.session, MARK)),
    "delete_message": of_each(chat.delete_message),
    "delete_session": of_each(lambda one: chat.delete_session(one.session)),
    "delete_owner": of_each(lambda one: chat.delete_owner(one.session.owner)),
    "user.delete": of_each(lambda one: one.session.owner.delete()),
    "session.delete": of_each(lambda one: one.session.delete()),
    "a queryset": lambda client, told: ChatSession.objects.all().delete(),
    "a queryset of a proxy": lambda client, told: SupportChat.objects.all().delete(),
    "a queryset of users": lambda client, told: get_user_model().objects.filter(is_superuser=False).delete(),
    "the API: messages": deleting_by_api("messages"),
    "the API: sessions": deleting_by_api("sessions"),
    "the admin: messages": deleting_in_the_admin("compaction_app_chatmessage", lambda one: one.pk),
    "the admin: sessions": deleting_in_the_admin("compaction_app_chatsession", lambda one: one.session_id),
    "the admin: users": deleting_in_the_admin("auth_user", lambda one: one.session.owner_id),
}


WAYS = [
    *((one, None) for one in ERASING),
    *((one, gone) for one in ("redact_message", "the API", "the admin") for gone in ("the first", "one between")),
]
_QUICK = [("redact_message", None), ("user.delete", None), ("the API", "one between")]


@pytest.mark.twice
@pytest.mark.few
@pytest.mark.parametrize(
    ("erase", "gone"), [pytest.param(*one, marks=[] if one in _QUICK else pytest.mark.long) for one in WAYS]
)
def test_of_a_chain_of_copies_nothing_is_left(
    story: dict[str, Any], admin_client: Client, settings: Any, erase: str, gone: str | None
) -> None:
    """A copy, one of that and one of that one, each with what was made of the message there; and what the last one was
    handed over to, and a copy of what was carried over, which are not named."""
    # It would be asked again for what is left.
    settings.COMPACTION |= {"POLICY": None}
    session, told = story["told"].session, [story["told"]]
    ChatSession.objects.filter(pk=session.pk).update(
        owner=get_user_model().objects.create_user("ann"), title=mark("title"), title_of=told[0]
    )
    for name in ("ben", "cid", "dan"):
        tip = max(chat.tips(told[-1].session), key=lambda one: one.depth)
        copy = chat.copy_branch(tip, owner=get_user_model().objects.create_user(name))
        told.append(copy.messages.get(depth=told[0].depth, kind="message"))
        chat.compact(grow(copy, chat.tips(copy)[0], TURNS * 12)[-1], instructions=mark("instruction"))
    assert chat.copies_of(told[0]) == told[1:]
    new = chat.hand_over(chat.tips(copy)[-1], owner=get_user_model().objects.create_user("eve"))
    chat.compact(grow(new, chat.tips(new)[0], TURNS * 12)[-1], instructions=mark("instruction"))
    elsewhere = chat.append_message(copy, role="user", content="Elsewhere.")
    carried = chat.carry_over(chat.newest_tip(told[-1]), elsewhere)
    assert MARK in carried.content
    chat.copy_branch(carried, owner=get_user_model().objects.create_user("fay"))
    if gone:
        chat.delete_session(told.pop(0 if gone == "the first" else 1).session)
    told = list(ChatMessage.objects.select_related("session__owner").filter(pk__in=[one.pk for one in told]))
    assert columns_with(MARK) >= {f"{MESSAGES}.content", f"{SESSIONS}.title", f"{RUNS}.instructions"}
    ERASING[erase](admin_client, told)
    assert columns_with(MARK) == set()
    for one in ChatSession.objects.all():
        assert verify_session(one).problems == []
    if connection.vendor == "sqlite":
        # As docs/security.md says: what was deleted stays in free pages until then.
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")
        assert MARK.encode() not in connection.connection.serialize()
