"""A hundred random trees: no extract, and no fork that is shown one, tells anything from behind a cutoff.

Each message has a name that occurs nowhere else. The summarizer writes into its draft every name that it was shown
after the cutoff, and what follows the cutoff answers, denies and corrects what stands before it.
"""

import random
import re
from collections import Counter

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.summarizers import Summarizer
from compaction_app.values import SummaryDraft, SummaryRequest

pytestmark = pytest.mark.django_db(transaction=True)

TREES = 100
_NAME = re.compile(r"Zq\d+x")
#: What is said; those of few words belong to what was said right before, by the engine's rules.
_SAID = (
    "Guest {} has berth {n} until Sunday, and pays {n}00 euros for it.",
    "No! It is {}.",
    "Wait, {} instead.",
    "Shall I tell {}?",
    "yes, {}",
    "Never write to {} before noon.",
    "{} lied.",
    "Berth {n} belongs to {} now.",
)


class Teller(Summarizer):
    """A model whose prose is full of what it was shown after the cutoff, and of the prose before it."""

    def summarize(self, request: SummaryRequest) -> SummaryDraft:
        ahead = " and ".join(_NAME.findall(" ".join(message.content for message in request.lookahead))[:8])
        before = " ".join(_NAME.findall(request.previous_content)[-5:])
        return SummaryDraft(text=f"## Guests\n\nYou spoke of {ahead}, before that of {before}.", model="teller")


def names(*texts: str) -> set[str]:
    return set(_NAME.findall(" ".join(texts)))


class Tree:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.session = chat.start_session(settings=self._settings())
        self.nodes: list[ChatMessage] = []
        self.number = 1000 * seed

    def _settings(self) -> dict[str, object]:
        lookahead = self.chance.choice(["previous_turn", "previous_turn", "tip"])
        summarizer = self.chance.choice(["default"] * 5 + ["extractive"])
        ledger = self.chance.choice([None, None, 300])
        return {"LOOKAHEAD": lookahead, "SUMMARIZER": summarizer, "LEDGER_TOKENS": ledger}

    def grow(self, parent: ChatMessage | None, length: int) -> ChatMessage:
        said = []
        for at in range(length):
            self.number += 1
            text = self.chance.choice(_SAID).format(f"Zq{self.number}x", n=self.number % 90)
            said.append({"role": "assistant" if at % 2 else "user", "content": text})
        self.nodes += chat.append_messages(self.session, parent, said)
        return self.nodes[-1]

    def compact(self, tip: ChatMessage) -> None:
        chat.compact(tip, instructions=self.chance.choice(["", "", "", "Keep the names."]))


def check(tree: Tree) -> Counter[str]:
    """What is found in a tree; nothing of it from behind a cutoff."""
    seen = Counter[str]()
    for summary in ChatMessage.objects.filter(session=tree.session, kind="summary"):
        cutoff, anchor = summary.last_summarized_message, summary.parent
        assert cutoff is not None
        assert anchor is not None
        covered, behind = (names(*(one.content for one in chat.get_branch(end))) for end in (cutoff, anchor))
        assert names(summary.extract) <= covered, "an extract tells of what follows its cutoff"
        assert names(summary.ledger) <= covered
        seen["extracts"] += bool(names(summary.extract))
        seen["drafts that look ahead"] += bool(names(summary.content) & (behind - covered))
    for tip in tree.nodes[-8:]:
        context = chat.get_context(tip)
        on_branch = names(*(one.content for one in chat.get_branch(tip)))
        assert names(*(one.content for one in context.messages)) <= on_branch, "another branch's words are shown"
        seen[context.strategy] += 1
        if context.strategy == "shared_extract":
            assert not context.dropped
            seen["facts that a fork keeps"] += len(names(context.messages[0].content))
    return seen


@pytest.mark.twice
@pytest.mark.parametrize("trees", [2, pytest.param(TREES, marks=pytest.mark.long)], ids=["some", "all"])
def test_no_word_from_behind_a_cutoff_is_in_an_extract_or_on_a_fork(settings, trees) -> None:
    settings.COMPACTION = {
        "CONTEXT_WINDOW": 1_000,
        "RESERVED_TOKENS": 150,
        "COOLDOWN_SECONDS": 0,
        # So little room, and yet the teller is asked.
        "EXTRACT_FALLBACK": False,
        "SUMMARIZERS": {"default": {"BACKEND": "tests.compaction.test_leaks.Teller"}},
    }
    seen = Counter[str]()
    for seed in range(trees):
        tree = Tree(seed)
        tree.compact(tree.grow(None, tree.chance.randrange(80, 100)))
        newest = tree.nodes[-1]
        tree.grow(tree.chance.choice(tree.nodes[-14:]), 2)
        tree.compact(tree.grow(newest, 12))
        for summary in ChatMessage.objects.filter(session=tree.session, kind="summary"):
            between = range(summary.last_summarized_message.depth, summary.depth - 1)
            path = chat.get_branch(summary.parent)
            for _ in between[:2]:
                tree.grow(path[tree.chance.choice(between) - 1], 2)
        seen += check(tree)
    assert seen["extracts"] > 1.5 * trees
    assert seen["drafts that look ahead"] > trees
    assert seen["shared_extract"] > 2 * trees
    assert seen["facts that a fork keeps"] > 4 * seen["shared_extract"]
