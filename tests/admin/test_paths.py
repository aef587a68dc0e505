"""Stretches of a branch are found by their ends, from lane to lane, as a walk from message to message finds them."""

import random

import pytest

from compaction_app import chat
from compaction_app.admin import contexts
from compaction_app.models import ChatMessage, sql
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db


def place(node):
    return node.pk, node.depth, node.token_count, node.path_tokens


def random_tree(seed, size=60):
    """Branches that leave each other anywhere, with summaries among them and a part that was deleted again."""
    chance, session = random.Random(seed), start_session()
    nodes = chain(session, 3)
    while len(nodes) < size:
        parent = nodes[-1] if chance.random() < 0.6 else chance.choice(nodes)
        nodes += chain(session, 1, parent)
        if chance.random() < 0.2:
            summarize(nodes[-1], nodes[0], token_count=5)
    chat.delete_message(chance.choice(nodes[10:]))
    chain(session, 2, ChatMessage.objects.messages().filter(session=session).last())
    return session


#: The same by walking from message to message.
PATH_PLACES = sql.PATH + f"SELECT {sql._PLACE} FROM path JOIN {sql.MESSAGES} m ON m.id = path.id ORDER BY path.depth"


@pytest.mark.parametrize("seed", range(4))
def test_the_ends_of_a_stretch_are_those_that_a_walk_finds(seed):
    chance, session = random.Random(seed), random_tree(seed)
    for tip in chat.tips(session):
        branch = [place(node) for node in chat.get_branch(tip)]
        walked = ChatMessage.objects.raw(PATH_PLACES, {"node": tip.pk, "min_depth": 1})
        assert [place(node) for node in walked] == branch
        for _ in range(5):
            first, last = sorted(chance.choices(range(1, len(branch) + 1), k=2))
            found = contexts.stretch(tip.pk, "default", first=first, last=last)
            assert (found.first, found.last) == (branch[first - 1][0], branch[last - 1][0])
            assert found.messages == last - first + 1
            assert found.tokens == sum(tokens for _, _, tokens, _ in branch[first - 1 : last])
