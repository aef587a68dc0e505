"""What a summary must keep: the extract, the ledger and the score, by one engine.

Statements are read from messages (:mod:`reading`), related to newer ones (:mod:`relating`), chosen by what they tell
for each token (:mod:`choosing`) and written a line a speaker (:mod:`writing`). An extract is all of that; a ledger is
the same, where the words of a summary are told already; the score counts which facts and rules a summary kept.
Nothing is told without what denies, cancels, corrects or limits it. What is left out is left out.
"""
