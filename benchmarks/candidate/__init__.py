"""The engine that is to replace ``compaction_app/retention/``: measured here beside it, by the same evaluation.

It goes into the app, and this folder goes, once ``make evaluate`` shows it better on every line.

What a conversation says, in as many tokens as there are: the extract, the ledger and the score. Statements are read
from messages (:mod:`reading`), related to newer ones (:mod:`relating`), chosen by what they tell for each token
(:mod:`choosing`) and written a line a speaker (:mod:`writing`). An extract is all of that; a ledger is the same, where
the words of a summary are told already; the score counts which words and rules a summary kept.

Nothing is told without what denies, cancels, corrects or limits it. What is left out is left out.
"""
