"""A Hypothesis state machine that grows random conversations on a real database beside a slow, obvious model.

``model`` is the tree as a dict of nodes, ``contexts`` says by brute force what a model must be shown, ``commits``
what a summary may rest on, ``teller`` is the summarizer whose texts name what it was shown, ``world`` keeps a
session and its model in step, and ``machine`` has the rules. ``tests/test_state_machine.py`` runs it in CI,
``tests/fuzz.py`` for as long as one likes.
"""
