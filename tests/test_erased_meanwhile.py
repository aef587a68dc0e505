"""What the app reads in order to store it, with an erasure between the two: what was erased is nowhere afterwards."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.test import Client

from compaction_app import chat
from compaction_app.compaction.execute import release_interrupted
from compaction_app.compaction.search_index import terms_of, write_entries
from compaction_app.contrib.histories import document_of
from compaction_app.exceptions import CompactionError
from compaction_app.messages.transcript import RECALL_TOOL
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, SearchEntry, database, managers
from compaction_app.testing import steps
from compaction_app.transfer import importing
from compaction_app.tree.verify import verify_session
from compaction_app.values import Budget, PolicyDecision
from tests.models.test_concurrent_writes import at_once
from tests.small import anchored_summary, small, tool_call
from tests.some import some

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "zanzibar"
SEARCH = tool_call("s1", '{"query": "locker code"}', name=RECALL_TOOL)
#: Of the message with the secret in a branch.
AT = 4
ROUNDS = 60


def quoting(tip: ChatMessage, budget: Budget) -> PolicyDecision:
    return PolicyDecision(prompt_line=chat.get_branch(tip)[AT].content)


def said(number: int) -> dict[str, Any]:
    text = f"the locker code is {SECRET}" if number == AT else f"word{number} and so it was " * 20
    return {"role": ("user", "assistant")[number % 2], "content": text}


def stored(owner: Any, length: int, name: str = "c1") -> Any:
    """The conversation as an import of its first messages stores it."""
    messages = [{**said(at), "id": f"m{at}", "metadata": {"note": said(at)["content"]}} for at in range(length)]
    [one] = importing.store(importing.read([("here", {"external_id": name, "messages": messages})]), owner=owner)
    return one


@pytest.fixture
def world(settings: Any, server: Any) -> Callable[[], Any]:
    extract = {"BACKEND": "compaction_app.summarizers.ExtractiveSummarizer"}
    settings.COMPACTION = small(
        asked=extract, CONTEXT_WINDOW=3_000, RESERVED_TOKENS=500, POLICY=f"{__name__}.quoting", MANUAL_THROTTLE=None
    )

    def make() -> Any:
        owner = get_user_model().objects.create_user(f"ann{random.random()}")
        session = stored(owner, 12).session
        messages = list(session.messages.order_by("depth"))
        summary = anchored_summary(messages[-5], messages[-6], content=f"The code is {SECRET}.", tokens=58)
        question = chat.append_message(session, messages[-1], role="user", content="What was the code?")
        reply = chat.append_message(session, question, role="assistant", tool_calls=[SEARCH])
        client = openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)
        return SimpleNamespace(
            owner=owner,
            session=session,
            secret=messages[AT],
            tip=messages[-1],
            summary=summary,
            question=question,
            reply=reply,
            client=client,
            server=server,
        )

    return make


# -- what reads and stores -------------------------------------------------------------------------------------------


def search(world: Any) -> None:
    chat.answer_recalls(world.reply)


def search_by_a_tool(world: Any) -> None:
    """As the tools of frameworks do, whose adapter appends what they returned."""
    text = chat.recall_text(world.reply, "locker code")
    original = {"format": "langchain", "endpoint": "", "data": {"content": text}}
    result = {"role": "tool", "tool_call_id": "s1", "content": text, "metadata": {"shown": text}}
    chat.append_message(world.session, world.reply, **result, original=original)


def _ask(world: Any) -> dict[str, Any]:
    world.server.script([steps.tool_call(RECALL_TOOL, '{"query": "locker code"}'), steps.reply("It is stored.")])
    return {"client": world.client, "recall": True, "regenerate": True}


def complete(world: Any) -> None:
    chat.complete(world.question, **_ask(world))


def stream(world: Any) -> None:
    list(chat.stream(world.question, **_ask(world)))


def compact(world: Any) -> None:
    more = list(map(said, range(40, 60)))
    chat.compact(chat.append_messages(world.session, world.tip, more)[-1])


def ask_the_policy(world: Any) -> None:
    # Else the redaction would open a run that is in the way.
    ChatMessage.objects.live().update(retired_at=world.session.created_at)
    chat.request_compaction(chat.append_messages(world.session, world.tip, list(map(said, range(40, 72))))[-1])


def interrupt(world: Any) -> None:
    """A run whose earlier error quotes the conversation."""
    run = chat.request_compaction(world.tip, trigger="manual")
    # As a failure is recorded: under the session's lock.
    with database.locked(world.session):
        CompactionRun.objects.filter(pk=run.pk, session__erasures=0).update(error_detail=f"No {SECRET}, please.")
    if claimed := CompactionRun.objects.claim(run.pk):
        with transaction.atomic():
            # Here its model is asked.
            pass
        release_interrupted(claimed)


def copy(world: Any) -> None:
    chat.copy_branch(world.tip)


def hand_over(world: Any) -> None:
    chat.hand_over(world.tip)


def carry_over(world: Any) -> None:
    """To another branch, of which a copy is made."""
    tip = chat.append_message(world.session, None, role="user", content="Elsewhere.")
    chat.copy_branch(chat.carry_over(world.tip, tip))


def import_again(world: Any) -> None:
    stored(world.owner, 13)


def import_another(world: Any) -> None:
    stored(world.owner, 7, "c2")


def import_an_export(world: Any) -> None:
    """Of this very conversation, read before the erasure."""
    document = document_of(world.session)
    list(importing.store(importing.read([("here", document)]), owner=world.owner))


def index(world: Any) -> None:
    SearchEntry.objects.all().delete()
    write_entries(world.session, world.tip.pk)


def pin(world: Any) -> None:
    chat.pin_message(world.secret)


def annotate(world: Any) -> None:
    chat.annotate_message(world.secret, rating=1)


STORING = [
    search,
    search_by_a_tool,
    complete,
    stream,
    compact,
    ask_the_policy,
    interrupt,
    copy,
    hand_over,
    carry_over,
    import_again,
    import_another,
    import_an_export,
    index,
    pin,
    annotate,
]

# -- what erases -----------------------------------------------------------------------------------------------------


def redact(world: Any) -> None:
    chat.redact_message(world.secret)


def redact_copies(world: Any) -> None:
    chat.redact_message(world.secret, copies=lambda copy: True)


def redact_text(world: Any) -> None:
    chat.redact_text(world.session, SECRET)


def delete(world: Any) -> None:
    chat.delete_message(world.secret)


def delete_session(world: Any) -> None:
    chat.delete_session(world.session)


def retire(world: Any) -> None:
    chat.retire_summary(world.summary)


def delete_owner(world: Any) -> None:
    chat.delete_owner(get_user_model().objects.get(pk=world.owner.pk))


def delete_user(world: Any) -> None:
    """As the admin does it."""
    get_user_model().objects.get(pk=world.owner.pk).delete()


ERASING = [redact, redact_copies, redact_text, delete, delete_session, delete_owner, delete_user, retire]
#: After these nothing is left though a file has it; what was deleted otherwise, it may bring again.
_OWNER, _REDACTED = {delete_owner, delete_user}, {redact, redact_copies, redact_text}
ERASED: dict[Any, set[Any]] = {
    import_again: _OWNER | _REDACTED,
    import_another: _OWNER,
    import_an_export: _OWNER | _REDACTED,
}


def found() -> list[Any]:
    """The columns that contain the secret, and whether its search terms are stored."""
    [terms] = terms_of([SECRET])
    wanted = (SECRET, *terms)
    models = [*apps.get_app_config("compaction_app").get_models()]
    rows = ((model, row) for model in models for row in model._base_manager.values())
    return [
        (model.__name__, name)
        for model, row in rows
        for name, value in row.items()
        if any(word in str(value) for word in wanted)
    ]


def check(store: Any, erase: Any) -> None:
    if erase in ERASED.get(store, {*ERASING} - {retire}):
        assert found() == []
    for session in ChatSession.objects.all():
        assert verify_session(session).problems == []


@pytest.mark.few
@pytest.mark.parametrize("erase", some(ERASING, redact), ids=lambda one: one.__name__)
@pytest.mark.parametrize("store", STORING, ids=lambda one: one.__name__)
def test_nothing_erased_is_stored(world, monkeypatch, store, erase) -> None:
    """Before each transaction of it in turn: all that it has read until then was read before the erasure."""
    left = 0

    def before_each(own: Any) -> Any:
        def begin(*args: Any, **options: Any) -> Any:
            nonlocal left
            if not connection.in_atomic_block:
                left -= 1
                if left == 0:
                    erase(here)
            return own(*args, **options)

        return begin

    for owner, name in ((transaction.Atomic, "__enter__"), (managers, "lock_and_read")):
        monkeypatch.setattr(owner, name, before_each(getattr(owner, name)))
    for at in range(1, 100):
        left, here = 0, world()
        left = at
        with suppress(CompactionError):
            store(here)
        is_over, left = left > 0, 0
        if is_over:
            break
        check(store, erase)
        ChatSession.objects.all().delete()
    assert at > 1


@pytest.mark.long
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer at a time")
@pytest.mark.parametrize("erase", ERASING, ids=lambda one: one.__name__)
@pytest.mark.parametrize("store", STORING, ids=lambda one: one.__name__)
def test_nothing_erased_is_stored_by_another_thread(world, store, erase) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        here, pause = world(), chance.random() * 0.1

        def late(here: Any = here, pause: float = pause) -> None:
            time.sleep(pause)
            erase(here)

        raised = at_once([lambda here=here: store(here), late])
        if (
            store in (copy, carry_over, hand_over, import_another)
            and erase is delete_user
            and any(isinstance(error, IntegrityError) for error in raised)
        ):
            # A conversation that begins at that very moment stops it, as docs/data.md says, and nothing is deleted.
            raised = []
            erase(here)
        assert [error for error in raised if not isinstance(error, CompactionError)] == []
        if store is copy and erase is not redact_copies:
            # One that was made before is its owner's.
            for one in ChatMessage.objects.messages().filter(content__contains=SECRET):
                chat.redact_message(one)
        check(store, erase)
        ChatSession.objects.all().delete()


def redact_by_api(here: Any) -> int:
    browser = Client()
    browser.force_login(here.owner)
    path = f"/api/v1/messages/{here.secret.pk}/redact"
    return browser.post(path, {"copies": True}, content_type="application/json").status_code


def test_a_copy_that_is_made_meanwhile_is_redacted_too(world, monkeypatch) -> None:
    """Before each lock of the redaction: a copy of the conversation, and a copy of each copy."""
    here = world()
    own, copied = database.lock_and_read, []

    def lock(row: Any, *args: Any, **options: Any) -> Any:
        if len(copied) in (0, 2, 4):
            copied.append(row)
            tip, *_ = chat.tips(ChatSession.objects.get(pk=row.session_id))
            copied.append(chat.copy_branch(tip))
        return own(row, *args, **options)

    monkeypatch.setattr(database, "lock_and_read", lock)
    assert redact_by_api(here) == 200
    assert ChatSession.objects.count() == 4
    assert found() == []


@pytest.mark.long
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer at a time")
def test_a_copy_that_another_thread_makes_is_redacted_too(world) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        here, answers, pauses = world(), list[int](), [chance.random() * 0.02 for _ in "ab"]

        def redact(here: Any = here, answers: Any = answers, pauses: Any = pauses) -> None:
            time.sleep(pauses[0])
            answers.append(redact_by_api(here))

        def copy(here: Any = here, pauses: Any = pauses) -> None:
            time.sleep(pauses[1])
            chat.copy_branch(here.tip)

        assert at_once([redact, copy]) == []
        assert answers == [200]
        assert found() == []
        ChatSession.objects.all().delete()
