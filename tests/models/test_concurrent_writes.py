"""Writers that meet: each append gets a place of its own, on whichever database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
from django.db import connection

from compaction_app.exceptions import MessageNotFound
from compaction_app.models import ChatMessage, ChatSession
from tests.trees import chain, start_session

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, APPENDS = 8, 5


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


def assert_consistent(session: ChatSession) -> None:
    """Depths and prefix sums follow from the parents, and siblings have the places 1, 2, 3 …"""
    nodes = {node.pk: node for node in session.messages.all()}
    places: dict[int | None, list[int]] = {}
    for node in nodes.values():
        above = nodes.get(node.parent_message_id)
        assert node.depth == (above.depth if above else 0) + 1
        assert node.path_tokens == (above.path_tokens if above else 0) + node.token_count
        places.setdefault(node.parent_message_id, []).append(node.sib_order)
    assert all(sorted(orders) == list(range(1, len(orders) + 1)) for orders in places.values())


@pytest.mark.parametrize("kind", ["children", "roots"])
def test_each_append_gets_a_place_of_its_own(kind: str) -> None:
    """The unique index knows roots by their session: no parent's row stands between them."""
    session = start_session()
    parent = chain(session, 3)[-1] if kind == "children" else None
    fields = {"session": session, "role": "assistant", "content": "Again."}

    def append() -> None:
        for _ in range(APPENDS):
            ChatMessage.objects.add_child(parent, fields) if parent else ChatMessage.objects.add_root(fields)

    assert at_once([append] * WRITERS) == []
    placed = session.messages.filter(parent=parent).order_by("sib_order").values_list("sib_order", flat=True)
    assert list(placed) == list(range(1, WRITERS * APPENDS + 1))
    assert_consistent(session)


def test_chains_and_variants_mix() -> None:
    session = start_session()
    root, child = chain(session, 2)
    works: list[Callable[[], object]] = [
        lambda: chain(session, 4, parent=root),
        lambda: ChatMessage.objects.add_sibling(child, None, {"role": "user", "content": "Variant."}),
        lambda: ChatMessage.objects.add_child(root, {"role": "user", "content": "Child."}),
        lambda: ChatMessage.objects.add_child(child, {"role": "assistant", "content": "Reply."}),
    ]
    assert at_once([lambda work=work: work() and None for work in works * 2]) == []
    assert session.messages.count() == 2 + 2 * (4 + 1 + 1 + 1)
    assert_consistent(session)


def test_an_append_that_meets_a_deletion_stands_or_is_told() -> None:
    """Below a message that is being deleted an append comes first and goes too, or finds no parent."""
    for _ in range(5):
        session = start_session()
        root, child = chain(session, 2)

        def append(parent: ChatMessage = child) -> None:
            ChatMessage.objects.add_child(parent, {"role": "user", "content": "Too late?"})

        raised = at_once([append, append, lambda child=child: child.delete() and None, append])
        assert {type(error) for error in raised} <= {MessageNotFound}
        assert list(session.messages.all()) == [root]
        connection.check_constraints()


def test_deletions_that_overlap_do_not_wait_for_each_other() -> None:
    """Two deletions that each take from two sessions, the other one's first: they lock in one order."""
    for _ in range(10):
        (first, a, below_a), (second, b, below_b) = (chain(start_session(), 3) for _ in range(2))
        works = [
            lambda pks=[upper.pk, lower.pk]: ChatMessage.objects.filter(pk__in=pks).delete() and None
            for upper, lower in ((a, below_b), (b, below_a))
        ]
        assert at_once(works * 2) == []
        assert set(ChatMessage.objects.filter(session__in=[first.session, second.session])) == {first, second}
