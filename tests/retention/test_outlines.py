"""An item is told under what stands above it, and under nothing else."""

import pytest

from compaction_app.retention.sentences import split_clauses

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (
            "## Rejected ideas\n- a copper dome\n- a bar\n\n## Accepted ideas\n- an amber lamp",
            ["Rejected ideas: a copper dome", "Rejected ideas: a bar", "Accepted ideas: an amber lamp"],
        ),
        (
            "## Rejected\nA dome. A bar.\n\n## Accepted\nA lamp.",
            ["Rejected: A dome", "Rejected: A bar", "Accepted", "A lamp"],
        ),
        ("## Rejected\n### Roofs\n- tin\n## Accepted\n- wood", ["Rejected: Roofs: tin", "Accepted: wood"]),
        ("Verboten:\n- Katzen\n\nErlaubt:\n- Hunde", ["Verboten: Katzen", "Erlaubt: Hunde"]),
        ("禁止事項:\n- 猫\n\n許可:\n- 犬", ["禁止事項: 猫", "許可: 犬"]),
        (
            "I don't like these:\n- jazz\n\n- And these I love:\n- tango",
            ["I don't like these: jazz", "And these I love: tango"],
        ),
        ("Never book:\n- Oslo:\n  - hotel Y\n- Kiel", ["Never book: Oslo: hotel Y", "Never book: Kiel"]),
        ("Out of scope\n-----\n- bills\n\nIn scope\n-----\n- login", ["Out of scope: bills", "In scope: login"]),
        ("Pros:\n- cheap\n\nCons:\n- rain", ["Pros: cheap", "Cons: rain"]),
        ("**Day 1**\n- Oslo\n\n**Day 2**\n- Molde", ["Day 1: Oslo", "Day 2: Molde"]),
        ("# Don'ts\n- push to main\n\n# Do's\n- run pytest", ["Don'ts: push to main", "Do's: run pytest"]),
        ("Bob wrote:\n> I will pay 900.", ["Bob wrote: I will pay 900"]),
        ("Don't do this:\n```\nrm -rf /var\n```\nThen rest.", ["Don't do this: rm -rf /var", "Then rest"]),
        ("Never do this:\nrm -rf /var\nFine.", ["Never do this: rm -rf /var", "Fine"]),
        ("# if x is not None\nfoo = 1", ["if x is not None", "foo = 1"]),
        ("- [x] pay INV-7\n- [ ] pay INV-8", ["[x] pay INV-7", "[ ] pay INV-8"]),
    ],
)  # fmt: skip
def test_an_item_is_told_with_what_stands_above_it(text, clauses):
    assert [clause for clause, _ in split_clauses(text)] == clauses
