"""``make demo``: the whole of it on real components, in one terminal.

``places`` says where its files are, ``processes`` starts and ends what runs beside it, ``loading`` brings the
conversation and the account, ``watching`` waits for the worker and tells what it does, ``branch_map``, ``reading``
and ``report`` show what came of it. ``session`` is the order of all that.
"""
