"""The node API over an append-only tree: treebeard's answers, in constant queries, and nothing is moved."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.exceptions import ImmutableTree, InvalidParent
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import Role
from tests.stock_tree.models import StockNode
from tests.trees import analyze, chain, deep_chain, star, start_session

pytestmark = pytest.mark.django_db
DEPRECATED = pytest.mark.filterwarnings("ignore::treebeard.deprecation.RemovedInTreebeard8Warning")


#: How a node is added to a session's trees (as a root, below a node or beside one), the session, and the node.
Step = tuple[str, int, int]
HOW = st.sampled_from(["child", "child", "child", "sibling", "root"])
STEPS = st.lists(st.tuples(HOW, st.integers(0, 2), st.integers(0, 50)), min_size=1, max_size=10)

_BY_NAME = """
    get_ancestors get_descendants get_descendant_count get_tree get_root get_siblings get_first_child get_last_child
    get_first_sibling get_last_sibling get_prev_sibling get_next_sibling get_children get_children_count get_parent
    get_annotated_list
"""
READS_OF_A_NODE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: lambda objects, node, name=name: getattr(objects, name)(node) for name in _BY_NAME.split()},
    "get_descendants 2 deep": lambda objects, node: objects.get_descendants(node, include_self=True, max_depth=2),
    "get_descendants 0 deep": lambda objects, node: objects.get_descendants(node, max_depth=0),
    "get_descendant_count 1 deep": lambda objects, node: objects.get_descendant_count(node, max_depth=1),
    "get_tree 1 deep": lambda objects, node: objects.get_tree(node, max_depth=1),
    "get_depth": lambda objects, node: node.get_depth(),
    "get_depth again": lambda objects, node: node.get_depth(update=True),
    "is_root": lambda objects, node: node.is_root(),
    "is_leaf": lambda objects, node: node.is_leaf(),
}

READS_OF_A_PAIR: dict[str, Callable[[Any, Any], bool]] = {
    name: lambda node, other, name=name: getattr(node, name)(other)  # type: ignore[misc]  # the default is the name
    for name in ("is_sibling_of", "is_child_of", "is_descendant_of")
}
READS_OF_A_FOREST: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda objects, name=name: getattr(objects, name)()  # type: ignore[misc]
        for name in "get_tree get_root_nodes get_first_root_node get_last_root_node get_annotated_list".split()
    },
    "get_tree 2 deep": lambda objects: objects.get_tree(max_depth=2),
}


def key_of(node: Any) -> str:
    return node.label if isinstance(node, StockNode) else node.content


def as_keys(answer: Any) -> Any:
    """An answer of either tree with keys in the place of nodes."""
    if isinstance(answer, StockNode | ChatMessage):
        return key_of(answer)
    if isinstance(answer, models.QuerySet | list):
        return [as_keys(item) for item in answer]
    return tuple(as_keys(item) for item in answer) if isinstance(answer, tuple) else answer


def answers_of(objects: Any, nodes: Sequence[Any]) -> dict[str, Any]:
    """Every read of the node API, on every node and every pair of nodes."""
    answers = {name: as_keys(read(objects)) for name, read in READS_OF_A_FOREST.items()}
    for node in nodes:
        for name, read_node in READS_OF_A_NODE.items():
            answers[f"{name} of {key_of(node)}"] = as_keys(read_node(type(node).objects, node))
        for other in nodes:
            for name, read_pair in READS_OF_A_PAIR.items():
                answers[f"{key_of(node)} {name} {key_of(other)}"] = read_pair(node, other)
    return answers


def grow(objects: Any, nodes: list[Any], how: str, place: int, fields: dict[str, Any]) -> None:
    """The same operation on either tree."""
    beside = nodes[place % len(nodes)] if nodes and how != "root" else None
    above = beside.parent if beside and how == "sibling" else beside
    nodes.append(objects.add_child(above, fields) if above else objects.add_root(fields))


def plant(steps: Sequence[Step]) -> dict[ChatSession, list[ChatMessage]]:
    """Messages of up to three sessions, all in one table."""
    trees: dict[ChatSession, list[ChatMessage]] = {start_session(): [] for _ in range(3)}
    for number, (how, session, place) in enumerate(steps):
        of, nodes = list(trees.items())[session]
        fields = {"session": of, "role": Role.USER, "content": f"n{number}", "token_count": 1}
        grow(ChatMessage.objects, nodes, how, place, fields)
    return trees


def plant_stock(steps: Sequence[Step], session: int) -> list[StockNode]:
    """The nodes of one session as a stock tree, which has its table to itself."""
    StockNode.objects.all().delete()
    nodes: list[StockNode] = []
    for number, (how, of, place) in enumerate(steps):
        if of == session:
            grow(StockNode.objects, nodes, how, place, {"label": f"n{number}"})
    return nodes


def reread(nodes: Iterable[Any]) -> list[Any]:
    """As they are in the database, with nothing remembered."""
    return [type(node).objects.get(pk=node.pk) for node in nodes]


#: Four levels, variants, a second root and another session.
TALL: list[Step] = [
    *(("child", 0, place) for place in (0, 0, 1, 2, 0)),
    *(("sibling", 0, 1), ("root", 0, 0), ("child", 1, 0), ("child", 1, 0), ("child", 0, 6)),
]


@settings(max_examples=4, deadline=None)
@example(steps=TALL, target=1)
@given(steps=STEPS, target=st.integers(0, 50))
@pytest.mark.long
def test_a_session_answers_as_a_stock_tree_before_and_after_a_deletion(steps: list[Step], target: int) -> None:
    with transaction.atomic():
        trees = plant(steps)
        for number, (session, messages) in enumerate(trees.items()):
            stock = plant_stock(steps, number)
            expected = answers_of(StockNode.objects, reread(stock))
            assert answers_of(session.messages, reread(messages)) == expected
            if messages:
                stock[target % len(stock)].delete()
                chat.delete_message(messages[target % len(messages)])
            assert as_keys(session.messages.get_tree()) == as_keys(StockNode.objects.get_tree())
        connection.check_constraints()
        transaction.set_rollback(True)


def test_a_read_of_all_sessions_goes_through_them_one_by_one() -> None:
    first, second = start_session(), start_session()
    a, b = chain(first, 2), chain(second, 2)
    assert list(ChatMessage.objects.get_root_nodes(second)) == b[:1]
    by_session = {first.pk: a, second.pk: b}
    assert not any(read(a[0], b[0]) for read in READS_OF_A_PAIR.values()), "roots of two sessions are no siblings"
    assert ChatMessage.objects.get_tree() == [node for pk in sorted(by_session, key=str) for node in by_session[pk]]


#: Reads of pairs, of paths and of whole sessions: (objects, top, tip) → answer.
READS_OF_MANY: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{name: lambda objects, top, tip, read=read: read(tip, top) for name, read in READS_OF_A_PAIR.items()},
    "get_path": lambda objects, top, tip: objects.get_path(tip),
    "get_tree": lambda objects, top, tip: objects.get_tree(),
    "get_tree 2 deep": lambda objects, top, tip: objects.get_tree(None, 2),
    "get_root_nodes": lambda objects, top, tip: list(objects.get_root_nodes(top.session_id)),
    "tips": lambda objects, top, tip: list(objects.filter(session=top.session_id).tips()),
}
#: Statements of the reads that take none or two; every other takes one.
PRICES = {
    **dict.fromkeys(("get_root of top", "get_parent of top", "is_sibling_of", "is_child_of"), 0),
    **{f"{name} of {which}": 0 for name in ("get_depth", "is_root") for which in ("top", "tip")},
}

#: A read that recursed in Python would not come back from the bottom of the chain.
SHAPES: dict[str, Callable[[ChatSession], list[ChatMessage]]] = {
    "chain": lambda session: deep_chain(session, 1_200),
    "siblings": lambda session: star(session, 100),
}


@pytest.mark.twice
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_take_one_statement_however_many_there_are(shape: str) -> None:
    """No read of the node API asks once an ancestor, a level or a sibling, and none recurses in Python."""
    nodes = SHAPES[shape](start_session())
    analyze()
    reads = dict(READS_OF_MANY)
    for name, read in READS_OF_A_NODE.items():
        reads[f"{name} of top"] = lambda objects, top, tip, read=read: read(objects, top)
        reads[f"{name} of tip"] = lambda objects, top, tip, read=read: read(objects, tip)
    paid = {}
    for name, read in reads.items():
        top, tip = reread([nodes[0], nodes[-1]])
        with CaptureQueriesContext(connection) as queries:
            as_keys(read(ChatMessage.objects, top, tip))
        paid[name] = len(queries)
    assert paid == dict.fromkeys(reads, 1) | PRICES


#: The last two are treebeard's deprecated doors.
REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "move": lambda objects, node: objects.move(node, objects.get_root(node), "left"),
    "add_sibling": lambda objects, node: objects.add_sibling(node, "last-sibling", {"role": "user"}),
    "load_bulk": lambda objects, node: objects.load_bulk([{"data": {"role": "user"}}], node),
    "a queryset's delete": lambda objects, node: objects.filter(pk=node.pk).delete(),
    "node.delete": lambda objects, node: node.delete(),
    "node.move": lambda objects, node: node.move(node, "last-child"),
    "node.add_sibling": lambda objects, node: node.add_sibling("left", role="user"),
}


@DEPRECATED
@pytest.mark.parametrize("name", REFUSED)
def test_any_other_write_says_what_to_call(name: str) -> None:
    session = start_session()
    before = chain(session, 3)
    with pytest.raises(ImmutableTree, match=r"chat\.append_message .* chat\.delete_message"):
        REFUSED[name](ChatMessage.objects, before[1])
    assert session.messages.get_tree() == before


def test_no_door_leads_into_another_session() -> None:
    mine, other = start_session(), start_session()
    root, _ = chain(mine, 2)
    objects = ChatMessage.objects
    attempts: list[Callable[[], Any]] = [
        lambda: objects.add_child(root, {"session": other, "role": "user"}),
        lambda: objects.append_chain(
            None, [ChatMessage(session=mine, role="user"), ChatMessage(session=other, role="user")]
        ),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidParent, match="another session"):
            attempt()
    with pytest.raises(InvalidParent, match="needs a session"):
        objects.add_root({"role": "user"})
    impostor = reread([root])[0]
    impostor.session_id = other.pk
    with pytest.raises(InvalidParent, match="another session"):
        objects.add_child(impostor, {"role": "user"})
    assert ChatMessage.objects.count() == 2


def test_what_a_message_answers_itself_does_not_warn():
    """treebeard 8 has it in its manager alone."""
    top, below, last = chain(start_session(), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert last.get_ancestors() == [top, below]
        assert list(top.get_descendants()) == [below, last]
        assert list(last.get_siblings()) == [last]
