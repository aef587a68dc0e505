"""Writers that meet: each append gets a place of its own, on whichever database."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from compaction_app import chat
from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage
from compaction_app.tree.verify import verify_session
from tests.trees import chain, start_session

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS = 8


def at_once(works: Iterable[Callable[[], None]]) -> list[BaseException]:
    """Run each in a thread of its own, all let go together; what they raised."""
    works = list(works)
    barrier = threading.Barrier(len(works))
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except Exception as error:  # the test judges it, in its own thread
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.parametrize("kind", ["children", "roots"])
def test_each_append_gets_a_place_of_its_own(kind: str) -> None:
    """The unique index knows roots by their session: no parent's row stands between them."""
    session = start_session()
    parent = chain(session, 3)[-1] if kind == "children" else None
    fields = {"session": session, "role": "assistant", "content": "Again."}
    works: list[Callable[[], object]] = [
        lambda: ChatMessage.objects.add_child(parent, fields) if parent else ChatMessage.objects.add_root(fields),
        lambda: chain(session, 4, parent=parent),
    ]
    assert at_once([lambda work=work: work() and None for work in works * WRITERS]) == []
    placed = session.messages.filter(parent=parent).order_by("sib_order").values_list("sib_order", flat=True)
    assert list(placed) == list(range(1, len(works) * WRITERS + 1))
    # Depths, sums and lanes too.
    assert verify_session(session).problems == []


def test_an_append_that_meets_a_deletion_stands_or_is_told() -> None:
    """Below a message that is being deleted an append comes first and goes too, or finds no parent."""
    for _ in range(5):
        session = start_session()
        root, child = chain(session, 2)

        def append(parent: ChatMessage = child) -> None:
            ChatMessage.objects.add_child(parent, {"role": "user", "content": "Too late?"})

        raised = at_once([append, append, lambda child=child: chat.delete_message(child) and None, append])
        assert {type(error) for error in raised} <= {MessageNotFound}
        assert list(session.messages.all()) == [root]
        connection.check_constraints()


ERASURES: dict[str, Callable[[ChatMessage], Any]] = {
    "a person": lambda tip: chat.delete_owner(tip.session.owner),
    "a session": lambda tip: chat.delete_session(tip.session),
    "a message": lambda tip: chat.delete_message(chat.get_branch(tip)[0]),
    "copies": lambda tip: chat.redact_message(tip, copies=lambda copy: True),
}


@pytest.mark.twice
@pytest.mark.few
@pytest.mark.parametrize(("one", "other"), [("a person", "a person"), ("a session", "copies"), ("a message", "copies")])
def test_erasures_of_what_was_copied_lock_sessions_in_one_order(one: str, other: str) -> None:
    """A deletion writes to the sessions that were copied, too: on PostgreSQL each try ended in a deadlock."""
    users = get_user_model().objects
    for number in range(3):
        ann, ben = (users.create_user(f"{name}{number}") for name in ("ann", "ben"))
        first, second = (chain(start_session(owner=owner), 100)[-1] for owner in (ann, ben))
        for _ in range(4):
            chat.copy_branch(first, owner=ben)
            chat.copy_branch(second, owner=ann)
        meeting = [(ERASURES[one], first), (ERASURES[other], second if one == other else first)]
        raised = at_once([lambda erase=erase, tip=tip: erase(tip) and None for erase, tip in meeting])
        assert [error for error in raised if not isinstance(error, MessageNotFound)] == []
