"""A message goes with all below it, in a constant number of statements; what points at it follows its rule."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import ProtectedError, RestrictedError
from django.db.models.signals import pre_delete
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from compaction_app import chat
from compaction_app.exceptions import InvalidMessage, MessageNotFound
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind, RunStatus, Trigger
from tests.stock_tree.models import Bookmark, BookmarkNote, Folder, Quotation, Receipt, SupportChat, Ticket
from tests.trees import analyze, chain, deep_chain, start_session, summarize

pytestmark = pytest.mark.django_db


def open_run(session: ChatSession, **fields: Any) -> CompactionRun:
    return CompactionRun.objects.create(session=session, trigger=Trigger.MANUAL, **fields)


def test_a_deep_chain_goes_in_as_many_statements_as_a_short_one() -> None:
    """1,500 levels and 5, with rows of every kind pointing in: the same statements, and no recursion in Python."""
    statements = []
    for length in (5, 1_500):
        session = start_session()
        nodes = deep_chain(session, length)
        analyze()
        point_at(session, nodes)
        with CaptureQueriesContext(connection) as queries:
            assert ChatMessage.objects.delete_subtree(nodes[0]) == length + 1
        statements.append([query["sql"].split()[0] for query in queries])
        assert not session.messages.exists()
    assert statements[0] == statements[1]
    connection.check_constraints()


def point_at(session: ChatSession, nodes: list[ChatMessage]) -> None:
    """References of every kind to the first, the last and a middle message, and a summary."""
    summarize(nodes[-1], nodes[-2], pinned_message=nodes[0])
    for node in (nodes[0], nodes[len(nodes) // 2], nodes[-1]):
        CompactionEvent.objects.create(session=session, message=node, kind=EventKind.STARTED)
        open_run(session, tip=node, anchor=node, cutoff=node, base=node, summary=node)
        Ticket.objects.create(message=node)
        Folder.objects.create().messages.add(node)
        bookmark = Bookmark.objects.create(message=node)
        Quotation.objects.create(message=node, bookmark=bookmark)


def test_a_hosts_rows_follow_their_own_rules() -> None:
    """CASCADE goes along (with what hangs on it), SET_NULL and many-to-many let go, rows elsewhere stay."""
    session = start_session()
    above, middle, below = chain(session, 3)
    for node in (above, below):
        note = BookmarkNote.objects.create(bookmark=Bookmark.objects.create(message=node))
        Quotation.objects.create(message=node, bookmark=note.bookmark)
        Ticket.objects.create(message=node)
    folder = Folder.objects.create()
    folder.messages.set([above, below])
    chat.delete_message(middle)
    assert [bookmark.message for bookmark in Bookmark.objects.all()] == [above]
    assert [note.bookmark.message for note in BookmarkNote.objects.all()] == [above]
    assert [quotation.message for quotation in Quotation.objects.all()] == [above]
    assert [ticket.message for ticket in Ticket.objects.order_by("pk")] == [above, None]
    assert list(folder.messages.all()) == [above]
    connection.check_constraints()


@pytest.mark.parametrize(("model", "error"), [(Receipt, ProtectedError), (Quotation, RestrictedError)])
def test_a_protected_message_stays_with_all_of_its_subtree(model: Any, error: type[Exception]) -> None:
    """PROTECT and RESTRICT deep in the subtree stop the whole deletion, before anything is let go."""
    session = start_session()
    nodes = chain(session, 3)
    model.objects.create(message=nodes[2])
    ticket = Ticket.objects.create(message=nodes[1])
    with pytest.raises(error):
        chat.delete_message(nodes[0])
    ticket.refresh_from_db()
    assert ticket.message == nodes[1]
    assert session.messages.get_tree() == nodes


def test_a_message_that_is_gone_says_so() -> None:
    message = chain(start_session(), 1)[0]
    copy = ChatMessage.objects.get(pk=message.pk)
    chat.delete_message(message)
    with pytest.raises(MessageNotFound):
        chat.delete_message(copy)


def full_session(length: int = 1_100, **fields: Any) -> ChatSession:
    """A session with a deep branch, a fork, summaries, runs and events."""
    session = start_session(**fields)
    nodes = deep_chain(session, length)
    chain(session, 3, parent=nodes[length // 2])
    summary = summarize(nodes[-1], nodes[-2], pinned_message=nodes[0])
    run = open_run(
        session, tip=nodes[-1], anchor=nodes[-1], cutoff=nodes[-2], summary=summary, status=RunStatus.RUNNING
    )
    open_run(session, previous_run=run, base=summary)
    CompactionEvent.objects.create(session=session, run=run, message=nodes[3], kind=EventKind.STARTED)
    CompactionEvent.objects.create(session=session, kind=EventKind.SUPPRESSED)
    Ticket.objects.create(message=nodes[5])
    Bookmark.objects.create(message=nodes[5])
    return session


@pytest.mark.twice
@pytest.mark.few
@pytest.mark.parametrize(
    "delete",
    [
        lambda session: session.delete(),
        lambda session: ChatSession.objects.filter(pk=session.pk).delete(),
        lambda session: session.owner.delete(),
        lambda session: SupportChat.objects.filter(pk=session.pk).delete(),
    ],
    ids=["a session", "a queryset", "its owner", "a proxy of the host"],
)
def test_deleting_a_session_or_its_owner_leaves_nothing_behind(delete: Callable[[ChatSession], None]) -> None:
    owner = get_user_model().objects.create(username="owner")
    kept = start_session()
    nodes = chain(kept, 2)
    delete(full_session(owner=owner))
    assert set(ChatSession.objects.all()) == {kept}
    assert set(ChatMessage.objects.all()) == set(nodes)
    assert not CompactionRun.objects.exists()
    assert not CompactionEvent.objects.exists()
    assert [ticket.message for ticket in Ticket.objects.all()] == [None]
    assert not Bookmark.objects.exists()
    connection.check_constraints()


@pytest.fixture
def restricted(db: Any) -> ChatSession:
    """A conversation that a host's rows refer to in every way that lets it go with its owner."""
    session = full_session(12, owner=get_user_model().objects.create(username="ann"))
    *_, last = session.messages.messages()
    Quotation.objects.create(message=last, by=session.owner)
    Quotation.objects.create(message=last, bookmark=Bookmark.objects.create(message=last))
    Folder.objects.create().messages.add(last)
    BookmarkNote.objects.create(bookmark=Bookmark.objects.create(message=last))
    return session


@pytest.mark.parametrize("delete", [chat.delete_owner, lambda user: user.delete()], ids=["delete_owner", "delete"])
def test_a_hosts_rows_that_go_with_the_owner_do_not_stop_it(restricted: ChatSession, delete: Any) -> None:
    """RESTRICT is checked in the one collection that has both; each row is deleted once."""
    deleted = list[Any]()
    listen = lambda instance, **_: deleted.append(instance.pk)  # noqa: E731
    pre_delete.connect(listen, sender=Bookmark)
    marked = set(Bookmark.objects.values_list("pk", flat=True))
    delete(restricted.owner)
    pre_delete.disconnect(listen, sender=Bookmark)
    assert sorted(deleted) == sorted(marked)
    for model in (ChatSession, ChatMessage, CompactionRun, CompactionEvent, Bookmark, BookmarkNote, Quotation):
        assert not model.objects.exists(), model
    assert [list(folder.messages.all()) for folder in Folder.objects.all()] == [[]]
    connection.check_constraints()


ABOUT = {"user": "auth_user", "session": "compaction_app_chatsession", "message": "compaction_app_chatmessage"}


@pytest.mark.twice
@pytest.mark.few
@pytest.mark.parametrize("about", ABOUT)
def test_what_a_host_protects_is_named(restricted: ChatSession, admin_client: Client, about: str) -> None:
    """By the error, on the admin's page, and in what the API answers."""
    *_, last = restricted.messages.messages()
    receipt = Receipt.objects.create(message=last)
    obj: Any = {"user": restricted.owner, "session": restricted, "message": last}[about]
    delete = {"user": chat.delete_owner, "session": chat.delete_session, "message": chat.delete_message}[about]
    with pytest.raises(ProtectedError) as raised:
        delete(obj)
    assert raised.value.protected_objects == {receipt}
    page = reverse(f"admin:{ABOUT[about]}_delete", args=[obj.pk])
    assert admin_client.get(page).status_code == 200
    answer = admin_client.post(page, {"post": "yes"}, follow=True)
    assert (answer.status_code, "receipt" in answer.content.decode().lower()) == (200, True)
    if about != "user":
        answer = admin_client.delete(f"/api/v1/{about}s/{obj.pk}")
        assert (answer.status_code, answer.json()["code"]) == (409, "protected")
    for model in (ChatSession, Bookmark, Quotation, CompactionRun):
        assert model.objects.exists(), model


def test_a_person_goes_with_all_conversations_in_as_many_queries_at_any_length() -> None:
    counted = []
    for length in (5, 500):
        owner, other = (get_user_model().objects.create_user(f"{name}{length}") for name in ("ann", "ben"))
        kept, session = chat.start_session(owner=other), chat.start_session(owner=owner)
        copied = chat.copy_branch(chain(session, length)[-1], owner=other)
        chat.copy_branch(session.messages.last(), owner=owner)
        with CaptureQueriesContext(connection) as queries:
            assert chat.delete_owner(owner) == [copied]
        counted.append(len(queries))
        assert set(ChatSession.objects.filter(owner=other)) == {kept, copied}
        assert not ChatSession.objects.filter(owner=owner.pk).exists()
        assert not get_user_model().objects.filter(username=f"ann{length}").exists()
    assert counted[0] == counted[1]
    for nobody in (None, get_user_model()(username="new")):
        with pytest.raises(InvalidMessage, match="stored user"):
            chat.delete_owner(nobody)
