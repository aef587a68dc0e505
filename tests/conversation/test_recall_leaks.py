"""Random trees: on each tip a search finds what its branch has summarized, and no other branch's word."""

import random
from collections import Counter
from contextlib import suppress

import pytest

from compaction_app import chat, tasks
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatMessage, ChatSession
from compaction_app.values import Kind
from tests.small import small

pytestmark = pytest.mark.django_db(transaction=True)

TREES = 100
#: As many words as one query may have.
WORDS = 16


class Tree:
    """Branches of branches, compacted now and then; each message has a word that no other one has."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.session = chat.start_session()
        self.words: dict[int, str] = {}
        for _ in range(self.chance.randrange(4, 8)):
            tip = self.grow(self.chance.randrange(6, 30))
            if self.chance.random() < 0.8:
                with suppress(CompactionFailed):
                    chat.compact(tip)

    def grow(self, length: int) -> ChatMessage:
        parents = list(ChatMessage.objects.filter(pk__in=[*self.words][-40:]))
        said = [f"zq{len(self.words) + at} " + "and so it was " * 20 for at in range(length)]
        roles = ["user", "assistant"] * length
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        nodes = chat.append_messages(self.session, self.chance.choice([*parents, None]), messages)
        self.words |= {node.pk: node.content.split()[0] for node in nodes}
        return nodes[-1]

    def any_message(self, **wanted: object) -> ChatMessage:
        return self.chance.choice(list(self.session.messages.filter(kind=Kind.MESSAGE, **wanted)))


def check(session: ChatSession, words: dict[int, str]) -> Counter[str]:
    seen = Counter[str]()
    for tip in chat.tips(session):
        summary = chat.find_summary(tip)
        cutoff = summary.last_summarized_message.depth if summary else 0
        covered = {row.pk for row in chat.get_branch(tip) if row.depth <= cutoff and row.redacted_at is None}
        for start in range(0, len(words), WORDS):
            asked = [*words][start : start + WORDS]
            found = {one.message_id for one in chat.recall(tip, " ".join(words[pk] for pk in asked), limit=50)}
            assert found == covered & {*asked}
        seen["found"] += len(covered)
        seen["of other branches"] += len(words) - len(covered)
    return seen


@pytest.mark.twice
@pytest.mark.parametrize("trees", [1, pytest.param(TREES, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_search_finds_what_its_own_branch_has_summarized_and_nothing_else(settings, trees) -> None:
    settings.COMPACTION = small(CONTEXT_WINDOW=3_000, RESERVED_TOKENS=500)
    seen = Counter[str]()
    for seed in range(trees):
        tree = Tree(seed)
        seen += check(tree.session, tree.words)
        chat.redact_message(tree.any_message())
        check(tree.session, tree.words)
        # What the redaction brought back is over the threshold on some branches.
        for run in tree.session.runs.all():
            tasks.compact_branch(run.pk)
        seen += check(tree.session, tree.words)
        chat.delete_message(tree.any_message(depth__gt=8))
        check(tree.session, tree.words)
        copy = chat.copy_branch(tree.chance.choice(chat.tips(tree.session)))
        check(tree.session, tree.words)
        check(copy, {row.pk: row.content.split()[0] for row in copy.messages.filter(kind=Kind.MESSAGE)})
    assert seen["found"] > 20 * trees
    assert seen["of other branches"] > 100 * trees
