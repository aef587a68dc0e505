"""What the machines of this process did and came to see: a rule that never happens proves nothing."""

from collections import Counter

#: Rules that were carried out, by name.
executed: Counter[str] = Counter()
#: What came of them.
seen: Counter[str] = Counter()
