"""A Hypothesis state machine that grows random conversations on a real database beside a slow, obvious model.

``model`` is the tree as a dict of nodes. ``contexts`` says by brute force what a model must be shown, ``commits``
what a summary may rest on. ``teller`` is the summarizer, whose texts quote what it was shown. ``world`` keeps a
session and its model in step, ``invariants`` compares them, ``compacting`` and ``meanwhile`` are compactions and
what happens during them, ``machine`` has the rules, ``running`` runs it: ``tests/test_state_machine.py`` in CI,
``tests/fuzz.py`` for as long as one likes.
"""
